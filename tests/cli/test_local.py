"""`--large local` as a user runs it. OLLAMA_HOST moves the place of Ollama to that of a stand-in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import INQUIRY, Run
from tests.servers import Loopback, ollama

QUESTION = "Who was the master of the ship?"
FEW = tuple("--set recall=2 --select 2 --samples 2 --chunk-words 60 --set forward-tokens=8 --max-tokens 8".split())
LOCAL = ("--large", "local", "--small", "local")


def here(server: Loopback) -> dict[str, str]:
    return {"OLLAMA_HOST": f"127.0.0.1:{server.port}", "http_proxy": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"}


def test_the_model_answers_and_is_named(fbrag: Run) -> None:
    with ollama("qwen3.5:4b", loaded={"qwen3.5:4b": 8192}) as server:
        done = fbrag("ask", INQUIRY, QUESTION, "--json", "--offline", "--exit-zero", *FEW, *LOCAL, env=here(server))
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["models"]["large"]["name"] == f"{server.address}#qwen3.5:4b"
        assert done.stderr.count(f"local: Ollama at 127.0.0.1:{server.port} (qwen3.5:4b)") == 1
        assert "sending document text to" not in done.stderr
        assert done.stderr.splitlines()[-1].count(f" s on Ollama at 127.0.0.1:{server.port} (qwen3.5:4b)") == 1
        n_sent = len(server.chats)
        again = fbrag("ask", INQUIRY, QUESTION, "--json", "--exit-zero", *FEW, *LOCAL, env=here(server))
        pair = ("--small", server.address + "#qwen3.5:4b", "--large", "local")
        by_address = fbrag("ask", INQUIRY, QUESTION, "--exit-zero", *FEW, *pair, env=here(server))
        assert (again.returncode, by_address.returncode, len(server.chats)) == (0, 0, n_sent)


@pytest.mark.parametrize("command", ["ask", "explain"])
def test_several_models_are_one_line_with_what_to_type(fbrag: Run, command: str) -> None:
    with ollama("llama3.2:3b", "qwen3.5:4b") as server:
        done = fbrag(command, INQUIRY, QUESTION, *FEW, *LOCAL, env=here(server))
        assert (done.returncode, done.stdout) == (4, "")
        assert f"error: local: found 2 models: Ollama at 127.0.0.1:{server.port} (llama3.2:3b, qwen3.5:4b)" in done.stderr
        assert f"{server.address}#qwen3.5:4b" in done.stderr
        assert server.chats == []
        pair = ("--large", "local#qwen3.5:4b", "--small", "local#qwen3.5:4b")
        named = fbrag(command, INQUIRY, QUESTION, *FEW, *pair, env=here(server))
        assert named.returncode in (0, 1), named.stderr


def test_nobody_is_an_error_that_says_what_to_do(fbrag: Run) -> None:
    with Loopback() as server:
        gone = here(server)
    done = fbrag("ask", INQUIRY, QUESTION, *FEW, *LOCAL, env=gone)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith(
        f"error: local: no server with a chat model found on ports {server.port} (Ollama), 1234 (LM Studio)"
    )
    assert "fbrag models pull" in done.stderr


def test_nothing_runs_before_it_is_known_what_local_means(fbrag: Run) -> None:
    with ollama("m", loaded={"m": 8192}) as server:
        done = fbrag("ask", INQUIRY, QUESTION, *FEW, "--small", "local", "--large", "local#other", env=here(server))
        assert (done.returncode, server.chats) == (4, [])
        assert "local: unknown model other; available: Ollama at" in done.stderr


def test_local_is_a_value_of_the_configuration_of_batch_and_of_doctor(fbrag: Run, tmp_path: Path) -> None:
    with ollama("m", loaded={"m": 8192}) as server:
        for role in ("large", "small"):
            assert fbrag("config", "set", role, "local").returncode == 0
        out, questions = tmp_path / "answers.jsonl", tmp_path / "questions.txt"
        questions.write_text(QUESTION)
        done = fbrag("batch", INQUIRY, "-Q", questions, *FEW, "-o", out, env=here(server))
        assert done.returncode in (0, 1), done.stderr
        written = "".join(path.read_text() for path in tmp_path.glob("answers*"))
        assert f"{server.address} m" in written, written
        assert fbrag("models", "pull", env=here(server)).stderr.startswith("nothing to download")
        doctor = fbrag("doctor", "--offline", "--skip-gpu", env=here(server))
        assert f"{server.address} replies: m, 8,192 tokens of context" in doctor.stdout


@pytest.mark.parametrize("offline", [(), ("--offline",)])
def test_a_first_run_off_a_terminal_mentions_who_has_a_model(fbrag: Run, tmp_path: Path, offline: tuple[str, ...]) -> None:
    with ollama("a", "b") as server:
        env = {**here(server), "FBRAG_MODELS_DIR": str(tmp_path / "none")}
        done = fbrag("ask", INQUIRY, QUESTION, *offline, env=env)
        assert (done.returncode, done.stdout) == (4, "")
        known = f"found Ollama at 127.0.0.1:{server.port} (a, b); to use it without a download:"
        assert f"{known} --large {server.address}#a --small {server.address}#a" in done.stderr
        other = fbrag("ask", INQUIRY, QUESTION, "--large", "llama-3.1-8b", "--small", "llama-3.1-8b", env=env)
        assert "Ollama" not in other.stderr
        assert {each.method for each in server.asked} == {"GET"}


@pytest.mark.parametrize("name", ["ollama", "LM-Studio", "llama-server", "ollama/qwen3.5:4b"])
def test_the_name_of_a_program_leads_to_local(fbrag: Run, name: str) -> None:
    done = fbrag("ask", INQUIRY, QUESTION, "--large", name)
    assert (done.returncode, done.stdout) == (4, "")
    assert "hint: for a model server on this machine: --large local, or --large local#NAME" in done.stderr
