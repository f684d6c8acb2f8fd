"""Commands that use the models of `fbrag serve`: their output is that of models in their own process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.warm import warm_models
from fbrag_cli.session.settings import ModelSettings, WarmSettings
from tests.conftest import INQUIRY, ROOT, Run
from tests.generation.tiny_gguf import Tiny

pytest.importorskip("uvicorn", reason="needs uvicorn: pip install -e '.[test]'")

HERE = "loaded in this process"
QUESTION = "Who built the Ironhythe works?"
TEXT = "The Ironhythe works were built by Josiah Goss in 1841.\n\nThe railway board paid for the works at Ironhythe.\n"
PATIENCE = 30  # seconds


@pytest.fixture
def works(tmp_path: Path) -> Path:
    path = tmp_path / "works.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def tiny(tmp_path: Path) -> list[str]:
    """The options of a pair of random models, which answer nonsense at once, and other nonsense for each prompt and seed."""
    path = Tiny(weights=0.3, context=65_536).write(tmp_path / "tiny.gguf")
    return ["--small", str(path), "--large", str(path)]


@contextmanager
def started(environment: dict[str, str], *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run `fbrag serve`, and yield its process once it is ready."""
    command = [sys.executable, "-m", "fbrag_cli", "serve", "--print-ready", *options]
    environment = {**environment, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    with subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert json.loads(process.stdout.readline())["pid"] == process.pid
            yield process
        finally:
            process.kill()


@pytest.fixture
def server(clean_environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with started(clean_environment) as process:
        yield process


def unclocked(record: Any) -> Any:
    """Return a record without its seconds and its memory."""
    if isinstance(record, dict):
        return {name: unclocked(each) for name, each in record.items() if not re.search("seconds|memory|_ms$|per_s", name)}
    return [unclocked(each) for each in record] if isinstance(record, list) else record


def compared(text: str) -> Any:
    """Return an output as it is; JSON without what differs from run to run."""
    try:
        return [unclocked(json.loads(line)) for line in text.splitlines()]
    except ValueError:
        return text


# -- the same output ---------------------------------------------------------------------------------------------------------

COMMANDS: dict[str, tuple[list[str], str]] = {
    "ask": (["ask", "works.txt", QUESTION], ""),
    "ask, JSON": (["ask", "works.txt", QUESTION, "--json"], ""),
    "ask, events": (["ask", "works.txt", QUESTION, "--format", "jsonl"], ""),
    "ask, other ways": (["ask", "works.txt", QUESTION, "--method", "self-route", "--temperature", "0.7", "--samples", "7"], ""),
    "explain": (["explain", "works.txt", QUESTION, "--samples-text"], ""),
    "explain, JSON": (["explain", "works.txt", QUESTION, "--json"], ""),
    "explain, prompts": (["explain", "works.txt", QUESTION, "--prompt"], ""),
    "batch": (["batch", "works.txt", "-Q", "-"], f"{QUESTION}\nWho paid for it?\n"),
    "chat": (["chat", "works.txt"], f"{QUESTION}\nAnd who paid for it?\n/more\n"),
    "chat, JSON": (["chat", "works.txt", "--json"], f"{QUESTION}\nAnd who paid for it?\n"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_output_is_the_same_to_the_byte(
    fbrag: Run, server: subprocess.Popen[str], works: Path, tiny: list[str], name: str
) -> None:
    arguments, typed = COMMANDS[name]
    here, there = (fbrag(*arguments, *tiny, "--no-cache", "-v", "--warm", warm, stdin=typed) for warm in ("false", "auto"))
    assert HERE not in there.stderr
    assert compared(there.stdout) == compared(here.stdout)
    assert there.returncode == here.returncode
    assert here.returncode in (0, 1)


def test_a_real_model_answers_the_same_and_a_later_command_finds_it_loaded(
    fbrag: Run, server: subprocess.Popen[str], smollm2: Path
) -> None:
    fast = ["--large", smollm2, "--small", smollm2, "--select", "1", "--recall", "1", "--samples", "2", "--max-tokens", "12"]
    asked = ["ask", INQUIRY, "Where was the anchor that lost its fluke forged?", *fast, "--no-cache", "-v", "--json"]
    here, *there = (fbrag(*asked, "--warm", warm) for warm in ("false", "auto", "auto"))
    assert compared(there[0].stdout) == compared(here.stdout)
    assert compared(there[1].stdout) == compared(here.stdout)


def test_a_page_is_the_same(fbrag: Run, server: subprocess.Popen[str], works: Path, tiny: list[str]) -> None:
    pages = []
    for warm in ("false", "auto"):
        fbrag("ask", works, QUESTION, *tiny, "--no-cache", "--warm", warm, "--html", works.with_name(f"{warm}.html"))
        pages.append(
            re.sub(
                r'<tr><th scope="row">\w+</th><td>\d+\.\d+</td>.*|\d+\.\d+ s(econds)?\b',
                "",
                works.with_name(f"{warm}.html").read_text(),
            )
        )
    assert pages[0] == pages[1]


def test_replies_that_are_cached_are_those_of_either_process(
    fbrag: Run, server: subprocess.Popen[str], works: Path, tiny: list[str]
) -> None:
    first, second = (fbrag("ask", works, QUESTION, *tiny, "-v", "--json", "--warm", warm) for warm in ("auto", "false"))
    assert json.loads(second.stdout)["answer"] == json.loads(first.stdout)["answer"]
    assert "answer" in json.loads(second.stdout)["cached"]


def test_an_agent_gets_the_same(
    clean_environment: dict[str, str], server: subprocess.Popen[str], works: Path, tiny: list[str], tmp_path: Path
) -> None:
    pytest.importorskip("mcp", reason="needs the SDK of the Model Context Protocol: pip install -e '.[test]'")
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    environment = {**clean_environment, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}

    async def asked(warm: str) -> Any:
        arguments = ["-m", "fbrag_cli", "mcp", "--warm", warm, "--no-cache", "-v", *tiny]
        parameters = StdioServerParameters(command=sys.executable, args=arguments, env=environment, cwd=works.parent)
        with (tmp_path / f"{warm}.log").open("w") as log:
            async with Client(stdio_client(parameters, errlog=log)) as client:
                return await client.call_tool("ask_document", {"paths": ["works.txt"], "question": QUESTION, "wait_s": PATIENCE})

    here, there = (anyio.run(asked, warm).structured_content for warm in ("false", "auto"))
    assert HERE not in (tmp_path / "auto.log").read_text()
    job = {"job": None}
    assert unclocked(there) | job == unclocked(here) | job


def test_twenty_commands_at_once_are_not_mixed_up(
    fbrag: Run, server: subprocess.Popen[str], works: Path, tiny: list[str]
) -> None:
    def asked(i: int) -> Any:
        done = fbrag("ask", works, f"Who built the works {i}?", *tiny, "--no-cache", "-v", "--json")
        assert HERE not in done.stderr
        (answer,) = compared(done.stdout)
        for stage in answer["stages"]:
            stage.pop("cached_tokens", None)  # nothing stays of a prompt where the call of another command comes between
        return answer

    alone = [asked(i) for i in range(20)]
    with ThreadPoolExecutor(20) as executor:
        together = list(executor.map(asked, range(20)))
    assert together == alone
    assert len({str(each) for each in alone}) == 20


# -- where it is not used ----------------------------------------------------------------------------------------------------


def told(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if HERE in line]


def test_where_none_runs_a_line_of_v_says_so(fbrag: Run, works: Path, tiny: list[str]) -> None:
    done = fbrag("ask", works, QUESTION, *tiny, "-v")
    assert told(done) == ["no warm process runs: the models are loaded in this process"]
    assert not told(fbrag("ask", works, QUESTION, *tiny))
    assert not told(fbrag("ask", works, QUESTION, *tiny, "-v", "--warm", "false"))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--ctx", "4096", "-v"], "the warm process has other settings (ctx)"),
        (["--gpu", "off", "-v"], "the warm process has other settings (gpu)"),
        (["-vv"], "-vv shows llama.cpp's log"),
        (["-v", "--threads", "1", "--gpu-layers", "3"], "the warm process has other settings (gpu_layers, threads)"),
    ],
)
def test_other_settings_are_said_and_the_models_are_loaded_here(
    fbrag: Run, server: subprocess.Popen[str], works: Path, tiny: list[str], options: list[str], line: str
) -> None:
    done = fbrag("ask", works, QUESTION, *tiny, *options)
    assert done.returncode == 0
    assert told(done) == [f"{line}: the models are {HERE}"]


def test_a_socket_that_a_killed_process_left_is_no_error(
    fbrag: Run, clean_environment: dict[str, str], works: Path, tiny: list[str]
) -> None:
    with started(clean_environment) as process:
        process.kill()
    done = fbrag("ask", works, QUESTION, *tiny, "-v")
    assert done.returncode == 0
    assert told(done) == [f"the warm process was killed, and only its socket is there: the models are {HERE}"]


def test_a_process_that_ends_between_two_questions_is_no_error(
    clean_environment: dict[str, str], works: Path, tiny: list[str]
) -> None:
    command = [sys.executable, "-m", "fbrag_cli", "chat", str(works), *tiny, "--no-cache", "-v", "--json"]
    environment = {**clean_environment, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(environment) as process, subprocess.Popen(command, env=environment, text=True, **pipes) as chat:  # type: ignore[call-overload]
        chat.stdin.write(f"{QUESTION}\n")
        chat.stdin.flush()
        first = chat.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
        second, errors = chat.communicate("Who paid for the works?\n", timeout=PATIENCE)
    assert json.loads(first)["answer"]
    assert json.loads(second)["answer"]
    assert chat.returncode in (0, 1)
    assert HERE in errors


# -- what ends in mid-answer -------------------------------------------------------------------------------------------------


def ended_within(seconds: float, is_over: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not is_over() and time.monotonic() < end:
        time.sleep(0.02)
    return is_over()


@contextmanager
def answering(environment: dict[str, str], model: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a question to which a long answer is being written, and yield its process."""
    asked = ["ask", str(INQUIRY), "Tell the whole story.", "--large", str(model), "--small", str(model), "--format", "jsonl"]
    few = ["--select", "1", "--recall", "1", "--samples", "1", "--max-tokens", "4000", "--temperature", "1.5", "--no-cache", "-v"]
    command = [sys.executable, "-m", "fbrag_cli", *asked, *few]
    environment = {**environment, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:  # type: ignore[call-overload]
        assert any(json.loads(line)["event"] == "token" for line in process.stdout)
        yield process


def test_a_server_that_is_killed_in_mid_answer_is_one_line_and_exit_code_5(
    clean_environment: dict[str, str], server: subprocess.Popen[str], smollm2: Path
) -> None:
    with answering(clean_environment, smollm2) as asking:
        server.kill()
        output, errors = asking.communicate(timeout=PATIENCE)
    assert asking.returncode == 5
    assert [line[:39] for line in errors.splitlines() if "warm process" in line] == ["error: the warm process of fbrag serve "]
    assert "Traceback" not in errors
    last = json.loads(output.splitlines()[-1])
    assert (last["schema"], last["error"]["code"]) == ("fbrag.error/1", "warm_failed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_command_that_ends_leaves_the_server_idle(
    clean_environment: dict[str, str], server: subprocess.Popen[str], smollm2: Path, number: signal.Signals
) -> None:
    with answering(clean_environment, smollm2) as asking:
        asking.send_signal(number)
        asking.communicate(timeout=PATIENCE)
    assert asking.returncode == (130 if number == signal.SIGINT else -number)

    def is_idle() -> bool:
        return psutil.Process(server.pid).cpu_percent(0.2) < 10

    assert ended_within(2, is_idle)


# -- starting it -------------------------------------------------------------------------------------------------------------


def servers_of(environment: dict[str, str]) -> list[psutil.Process]:
    """The processes of `fbrag serve` with this environment."""
    return [
        each
        for each in psutil.process_iter(["cmdline", "environ"])
        if (each.info["cmdline"] or [])[-1:] == ["serve"]
        and (each.info["environ"] or {}).get("XDG_RUNTIME_DIR") == environment["XDG_RUNTIME_DIR"]
    ]


def test_a_command_starts_it_for_those_that_follow(
    fbrag: Run, clean_environment: dict[str, str], works: Path, tiny: list[str]
) -> None:
    config = Path(clean_environment["XDG_CONFIG_HOME"]) / "fbrag" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("warm = true\nctx = 4096\n")
    try:
        done = fbrag("ask", works, QUESTION, *tiny, "--no-cache", "-v")
        assert not told(done)
        assert done.returncode == 0
        assert len(servers_of(clean_environment)) == 1
        done = fbrag("ask", works, QUESTION, *tiny, "--no-cache", "-v", "--warm", "auto")
        assert not told(done)
        assert fbrag("ask", works, QUESTION, *tiny, "--no-cache", "-v", "--ctx", "2048").returncode == 0
        assert len(servers_of(clean_environment)) == 1
    finally:
        for each in servers_of(clean_environment):
            each.terminate()
            each.wait(PATIENCE)


def test_two_commands_at_once_start_one(fbrag: Run, clean_environment: dict[str, str], works: Path, tiny: list[str]) -> None:
    def asked(question: str) -> subprocess.CompletedProcess[str]:
        return fbrag("ask", works, question, *tiny, "--no-cache", "-v", "--warm", "true")

    try:
        with ThreadPoolExecutor(2) as executor:
            done = list(executor.map(asked, [QUESTION, "Who paid for it?"]))
        assert [each.returncode for each in done] == [0, 0]
        assert not [line for each in done for line in told(each)]
        assert len(servers_of(clean_environment)) == 1
    finally:
        for each in servers_of(clean_environment):
            each.terminate()
            each.wait(PATIENCE)


def test_none_is_started_where_no_model_is_asked_for(
    fbrag: Run, clean_environment: dict[str, str], works: Path, tiny: list[str]
) -> None:
    assert fbrag("ask", works, QUESTION, *tiny, "--warm", "true", "--dry-run").returncode == 0
    fbrag("ask", works, QUESTION, "--large", "http://127.0.0.1:9/v1", "--small", "http://127.0.0.1:9/v1", "--warm", "true")
    assert not servers_of(clean_environment)


def test_without_its_libraries_one_line_says_what_installs_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    found = warm_models(WarmSettings(warm="true"), ModelSettings(), Console())
    assert found
    assert found.process.hello() is None
    assert not capsys.readouterr().err
    assert not found.process.begin()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "pip install" in said[0]
