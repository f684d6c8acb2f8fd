"""`fbrag ask --large http://host:port/v1#name` as a user runs it: real servers, and one that behaves badly."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import INQUIRY, Run
from tests.servers import Loopback, ollama, status, stream, stuck

QUESTION = "Who was the master of the ship?"
FEW = tuple("--set recall=2 --select 2 --samples 2 --chunk-words 60 --set forward-tokens=8 --max-tokens 8".split())


def both(address: str) -> tuple[str, ...]:
    return "--small", address, "--large", address


@pytest.mark.parametrize("server", ["llama_cpp_server", "llama_cpp_python_server"])
def test_an_answer_comes_from_a_real_server(request: pytest.FixtureRequest, fbrag: Run, server: str) -> None:
    address = request.getfixturevalue(server)
    done = fbrag("ask", INQUIRY, QUESTION, "--json", "--exit-zero", *FEW, *both(address))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["answer"] or told["unsupported_answer"]).strip()
    assert 0 <= told["support"] <= 1
    assert [len(told["samples"]), len(told["sources"])] == [2, 2]
    assert told["models"]["large"]["name"].startswith(f"{address}#")
    assert told["models"]["large"]["gpu_layers"] is None
    stages = {stage["name"]: stage for stage in told["stages"]}
    assert stages["answer"]["prompt_tokens"] > 100
    assert stages["answer"]["generated_tokens"] > 0
    origin = address.removesuffix("/v1")
    assert done.stderr.count(f"sending document text to {origin} (model ") == 1
    assert re.search(rf"^\d+(\.\d)? s on {re.escape(origin)} · ", done.stderr, re.MULTILINE)


def test_a_local_model_looks_forward_and_a_server_answers(fbrag: Run, smollm2: Path, llama_cpp_server: str) -> None:
    done = fbrag(
        "ask", INQUIRY, QUESTION, "-a", "--allow-unsupported", *FEW, "--small", "smollm2-135m", "--large", llama_cpp_server
    )
    own = fbrag("ask", INQUIRY, QUESTION, "-a", "--allow-unsupported", *FEW, "--small", "smollm2-135m", "--large", "smollm2-135m")
    assert (done.returncode, own.returncode) == (0, 0), done.stderr
    # Two builds of llama.cpp round in different ways: after some words a near tie may part the answers.
    assert done.stdout.split()[:5] == own.stdout.split()[:5]
    assert " s on CPU, http://127.0.0.1:" in done.stderr


def test_what_is_cached_is_not_sent_again_and_a_change_of_the_server_counts(fbrag: Run) -> None:
    with Loopback() as server:
        first = fbrag("ask", INQUIRY, QUESTION, *FEW, *both(server.address))
        n_sent = len(server.chats)
        assert n_sent == 2 + 1 + 1  # two samples, the second beside the first, the answer, and whether it is supported
        second = fbrag("ask", INQUIRY, QUESTION, *FEW, *both(server.address))
        assert (len(server.chats), second.stdout) == (n_sent, first.stdout)
        assert "sending document text to" not in second.stderr
        assert "cached answer" in second.stderr
        server.pages["/v1/models"]["data"][0]["max_model_len"] = 4096
        fbrag("ask", INQUIRY, QUESTION, *FEW, *both(server.address))
        assert len(server.chats) == 2 * n_sent


@pytest.mark.parametrize("way", ["variable", "file"])
def test_the_key_goes_to_the_server_and_nowhere_else(fbrag: Run, tmp_path: Path, way: str) -> None:
    (tmp_path / "key.txt").write_text("sk-secret-1234\n")
    env = {"FBRAG_KEY": "sk-secret-1234"} if way == "variable" else {"FBRAG_KEY": "sk-another"}
    options = () if way == "variable" else ("--key-file", tmp_path / "key.txt")
    with Loopback() as server:
        done = fbrag("ask", INQUIRY, QUESTION, "--json", "-vv", *FEW, *both(server.address), *options, env=env)
        shown = fbrag("config", "show", "--origin", env=env)
        doctor = fbrag("doctor", "--offline", "--skip-gpu", env={**env, "FBRAG_LARGE": server.address})
        server.default = status(403, "sk-secret-1234 is not welcome", "text/plain")
        failed = fbrag("ask", INQUIRY, "Who?", "--json", *FEW, *both(server.address), *options, env=env)
    assert done.returncode == 0, done.stderr
    assert {each.headers.get("Authorization") for each in server.asked} >= {"Bearer sk-secret-1234"}
    assert failed.returncode == 4
    for each in (done, shown, doctor, failed):
        assert "secret" not in each.stdout + each.stderr
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "key.txt"]
    assert kept
    assert not any(b"sk-secret" in data for data in kept)


def test_a_server_elsewhere_is_a_warning_and_with_offline_an_error(fbrag: Run) -> None:
    with Loopback() as server:
        elsewhere = server.address.replace("127.0.0.1", "0.0.0.0")  # it is this machine, but not by its address
        warned = fbrag("ask", INQUIRY, QUESTION, "--allow-unsupported", *FEW, *both(elsewhere))
        assert warned.returncode == 0, warned.stderr
        assert f"warning: sending document text to {elsewhere[:-3]} (model tiny), unencrypted" in warned.stderr
        n_asked = len(server.asked)
        refused = fbrag("ask", INQUIRY, QUESTION, "--offline", *FEW, *both(elsewhere))
        assert (refused.returncode, len(server.asked)) == (4, n_asked)
        assert refused.stderr.startswith("error: --offline prevents a connection to http://0.0.0.0")
        assert fbrag("ask", INQUIRY, QUESTION, "--offline", "--allow-unsupported", *FEW, *both(server.address)).returncode == 0


def test_offline_forbids_a_model_of_a_cloud_under_a_name_of_its_own(fbrag: Run) -> None:
    with ollama("mine") as server:
        server.pages["/api/tags"]["models"][0]["remote_host"] = "https://ollama.com:443"
        refused = fbrag("ask", INQUIRY, QUESTION, "--offline", *FEW, *both(f"{server.address}#mine"))
        assert refused.returncode == 4
        assert "--offline prevents the use of mine, which runs in Ollama's cloud" in refused.stderr
        assert {each.method for each in server.asked} == {"GET"}


def test_what_a_server_says_reaches_no_terminal_as_it_is(fbrag: Run) -> None:
    with Loopback() as server:
        server.pages["/v1/models"] = {"data": [{"id": "ti\x1b[31mny"}]}
        server.default = stream("The \x1b]0;owned\x07master \x1b[2J", "was \u202eeman\x00.")
        done = fbrag("ask", INQUIRY, QUESTION, "--allow-unsupported", *FEW, *both(server.address))
        assert done.returncode == 0, done.stderr
        assert not {"\x1b", "\x07", "\x00", "\u202e"} & set(done.stdout + done.stderr)
        assert "master" in done.stdout


def test_a_failure_is_one_line_with_what_to_do(fbrag: Run) -> None:
    with Loopback() as server:
        address = server.address
    failed = fbrag("ask", INQUIRY, QUESTION, "--json", *FEW, *both(address))
    assert failed.returncode == 4
    assert json.loads(failed.stdout)["error"]["code"] == "server_failed"
    first, second = failed.stderr.splitlines()
    assert first.startswith(f"error: {address}: no connection: ")
    assert second == "hint: start the server, or check the URL"


def test_the_time_limit_ends_a_request(fbrag: Run) -> None:
    with Loopback() as server:
        server.default = stuck()
        done = fbrag("ask", INQUIRY, QUESTION, "--timeout", "3", *FEW, *both(server.address))
        assert (done.returncode, done.stderr.count("error: timed out after 3 s")) == (5, 1)


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("pieces", [(), ("The", " master")])
def test_ctrl_c_ends_a_request(clean_environment: dict[str, str], tmp_path: Path, pieces: tuple[str, ...]) -> None:
    with Loopback() as server:
        server.default = stuck(*pieces)
        command = [sys.executable, "-m", "fbrag_cli", "ask", str(INQUIRY), QUESTION, *FEW, *both(server.address)]
        process = subprocess.Popen(command, env=clean_environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        assert process.stderr
        process.stderr.readline()  # where the text goes: then it is sent
        while not server.chats:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        with process:
            assert process.wait(60) == 130


def test_options_of_this_machine_are_refused_or_do_not_count(fbrag: Run) -> None:
    with Loopback() as server:
        required = fbrag("ask", INQUIRY, QUESTION, "--gpu", "require", *FEW, *both(server.address))
        assert (required.returncode, "unknown whether" in required.stderr) == (5, True)
        assert server.asked == []


def test_an_address_stands_in_the_configuration_too(fbrag: Run) -> None:
    with Loopback() as server:
        for key in ("small", "large"):
            assert fbrag("config", "set", key, f"{server.address}#tiny").returncode == 0
        done = fbrag("ask", INQUIRY, QUESTION, "-a", "--allow-unsupported", *FEW)
        assert (done.returncode, done.stdout) == (0, "It is blue.\n")
        listed = fbrag("models", "list", "--json")
        assert listed.returncode == 0, listed.stderr
        checked = fbrag("doctor", "--offline", "--skip-gpu", "--json")
        findings = {check["name"]: check for check in json.loads(checked.stdout)["checks"]}
        assert findings["small model"]["finding"] == f"{server.address} replies: tiny"
        assert findings["large model"]["status"] == "ok"
    checked = fbrag("doctor", "--offline", "--skip-gpu", "--json")
    findings = {check["name"]: check for check in json.loads(checked.stdout)["checks"]}
    assert findings["large model"]["status"] == "fail" or findings["small model"]["status"] == "fail"
    assert checked.returncode == 1
