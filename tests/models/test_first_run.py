"""The first run at a terminal: which models are offered, what an answer does, and what is said and kept of it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fbrag_cli.text.table import width_of
from tests.cli.screen import Screen, on_screen
from tests.conftest import ROOT
from tests.generation.tiny_gguf import Tiny
from tests.models.conftest import Server
from tests.servers import ollama

WIDTHS = pytest.mark.parametrize("columns", [40, 80, 100])
QUESTION = ["ask", "note.txt", "Who is the keeper?", "--gpu", "off"]

#: Runs fbrag with a catalog of three models of the local hub, on a machine of 16 GB and 4 cores.
PROGRAM = """
import json, os, types
from fbrag_cli.models import advice, catalog
from fbrag_cli.models.hub import HubSource

def entry(name, about):
    source = HubSource("org/" + name, "abc", name + ".gguf")
    return catalog.ModelEntry(name, name + ".gguf", *about, "F16", 8192, "llama", "1M", "Apache-2.0", (source,), 64)

models = {name: entry(name, about) for name, about in json.loads(os.environ["TINY"]).items()}
made = catalog.Catalog(
    types.MappingProxyType(models), "the-default", "the-default", (catalog.Pair(models["forward"], models["answering"]),)
)
catalog.load_catalog = lambda: made
advice.this_machine = lambda: advice.Machine(2**34, cores=4)
from fbrag_cli.cli.main import main
main()
"""


@dataclass
class User:
    """Somebody without a model, who asks `note.txt` in `folder` at a terminal. hub: serves the models of the catalog."""

    folder: Path
    environment: dict[str, str]
    hub: Server

    def asks(self, typed: str, columns: int = 80, command: list[str] = QUESTION) -> tuple[Screen, int]:
        """Run a command, and type a line after each question; "^" stands for Ctrl and the letter after it."""
        waiting = typed.split()

        def answer(screen: Screen, process: subprocess.Popen[bytes], terminal: int) -> None:
            if waiting and screen.raw.endswith(("? ", "[Y/n] ")):
                word = waiting.pop(0)
                if word == "^C":
                    process.send_signal(2)
                else:
                    os.write(terminal, b"\x04" if word == "^D" else word.replace("Enter", "").encode() + b"\n")

        screen, code = on_screen(columns, 60, command, self.environment, self.folder, answer, program=("-c", PROGRAM))
        assert not waiting, screen.lines()
        return screen, code

    def config(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "fbrag_cli", "config", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    @property
    def models(self) -> set[str]:
        return {path.stem for path in (self.folder / "models").glob("*.gguf")}


@pytest.fixture
def user(tmp_path: Path, clean_environment: dict[str, str], server: Server) -> User:
    (tmp_path / "note.txt").write_text("The keeper is Agnes Moor.")
    about = {}
    for number, name in enumerate(("the-default", "forward", "answering"), 1):
        data = Tiny(context=8192 * number).write(tmp_path / "made.gguf").read_bytes()
        about[name] = [len(data), hashlib.sha256(data).hexdigest()]
        server.serve_hub(data, f"/org/{name}/resolve/abc/{name}.gguf")
    environment = clean_environment | {
        "FBRAG_MODELS_DIR": str(tmp_path / "models"),
        "HF_ENDPOINT": server.url,
        "NO_PROXY": "127.0.0.1",
        "TINY": json.dumps(about),
        "PYTHONPATH": str(ROOT),
    }
    return User(tmp_path, environment, server)


def text(screen: Screen) -> str:
    return " ".join(" ".join(screen.lines()).split())


@WIDTHS
def test_two_pairs_are_offered_with_their_sizes_and_nothing_is_sent_before_the_answer(columns: int, user: User) -> None:
    screen, code = user.asks("n", columns)
    assert code == 4
    assert all(width_of(line) <= columns for line in screen.lines())
    said = text(screen)
    assert "often wrong even if it has read the answer" in said
    assert "fbrag models use recommended" in said
    assert "fbrag needs a model. Which one should it download? 1 the-default, " in said
    assert " 2 forward and answering, " in said
    assert " n cancel [1]/2/n? n error: " in said
    assert said.endswith("download) hint: fbrag models pull the-default")
    assert (user.hub.requests, user.models) == ([], set())


@WIDTHS
def test_a_server_that_has_a_model_is_mentioned_and_gets_no_text(columns: int, user: User) -> None:
    with ollama("qwen3.5:4b", loaded={"qwen3.5:4b": 8192}) as here:
        user.environment["OLLAMA_HOST"] = f"127.0.0.1:{here.port}"
        screen, code = user.asks("n", columns)
        assert code == 4
        assert all(width_of(line) <= columns for line in screen.lines())
        assert {each.method for each in here.asked} == {"GET"}
    known = f"found Ollama at 127.0.0.1:{here.port} (qwen3.5:4b); to use it without a download: --large local --small local"
    assert f"{known} fbrag needs a model. Which one should it download?" in text(screen)


def test_the_pair_that_is_taken_answers_this_question_and_the_next_ones(user: User) -> None:
    screen, code = user.asks("2", 100)
    assert code in (0, 1), screen.lines()
    assert user.models == {"forward", "answering"}
    assert (user.config("get", "large"), user.config("get", "small")) == ("answering", "forward")
    said = text(screen)
    assert f"downloading forward and answering from {user.hub.url.removeprefix('http://')}" in said
    assert said.count("to undo: fbrag config unset large && fbrag config unset small") == 1
    screen, code = user.asks("", 100, [*QUESTION, "--refresh", "--json"])
    assert code in (0, 1), screen.lines()
    user.config("unset", "large")
    user.config("unset", "small")
    assert user.config("get", "large") == "qwen2.5-coder-1.5b"
    assert "2 forward and answering, installed n cancel" in text(user.asks("n")[0])


def test_explain_offers_them_too_where_it_needs_a_model(user: User) -> None:
    explain = ["explain", "note.txt", "Who is the keeper?", "--gpu", "off"]
    assert user.asks("", command=[*explain, "--method", "vanilla"])[1] == 0
    assert user.asks("2", command=explain)[1] == 0
    assert "forward" in user.models


def test_enter_takes_the_default_and_changes_no_configuration(user: User) -> None:
    screen, code = user.asks("Enter")
    assert code in (0, 1), screen.lines()
    assert user.models == {"the-default"}
    assert not (user.folder / "config").exists()


def test_what_is_no_answer_is_asked_again(user: User) -> None:
    assert user.asks("yes 3 n")[0].raw.count("[1]/2/n?") == 3


@pytest.mark.parametrize(("keys", "expected"), [("^D", 4), ("^C", 130)])
def test_the_end_of_input_and_ctrl_c_download_nothing(keys: str, expected: int, user: User) -> None:
    screen, code = user.asks(keys)
    assert (code, user.hub.requests, user.models) == (expected, [], set())
    assert not any("n?error" in line for line in screen.lines())
    user.hub.files.clear()
    assert user.asks(keys, command=[*QUESTION, "--large", "answering"])[1] == expected  # one model: [Y/n]
    assert user.hub.requests == []


def test_a_hub_that_does_not_answer_is_said_and_the_default_is_offered(user: User, dead_url: str) -> None:
    user.environment |= {"HF_ENDPOINT": dead_url}
    screen, code = user.asks("2 n", 100)
    assert code == 4
    said = text(screen)
    assert "warning: could not download forward: 127.0.0.1:9: " in said
    assert re.search(r"Download the default model \([0-9.]+ [kMG]B\)\?", said)
    assert user.config("get", "large") == "qwen2.5-coder-1.5b"


def test_a_download_that_takes_too_long_ends_the_run_and_nothing_else_is_offered(user: User) -> None:
    for served in user.hub.files.values():
        served.seconds_per_block = 5
    screen, code = user.asks("2", 100, [*QUESTION, "--timeout", "3"])
    assert code == 5
    assert "warning" not in text(screen)
    assert "error: timed out after 3 s" in text(screen)


def test_without_a_configuration_file_the_pair_is_for_this_run(user: User) -> None:
    for no_file in ({"FBRAG_CONFIG": "none"}, {"XDG_CONFIG_HOME": str(user.folder / "note.txt")}):
        user.environment |= no_file
        screen, code = user.asks("2", 100, [*QUESTION, "--refresh"])
        assert code in (0, 1), screen.lines()
        assert "using these models for this run only hint: next time, pass --large answering --small forward" in text(screen)


def test_a_named_model_and_yes_are_not_asked_which(user: User) -> None:
    screen, _ = user.asks("n", command=[*QUESTION, "--large", "the-default"])
    assert "[1]/2/n" not in screen.raw
    screen, code = user.asks("", command=[*QUESTION, "-y"])
    assert code in (0, 1), screen.lines()
    assert user.models == {"the-default"}


def test_nothing_is_offered_where_no_model_can_be_loaded(user: User) -> None:
    (user.folder / "llama_cpp.py").write_text("raise ImportError('undefined symbol: ggml_abort')")
    user.environment |= {"PYTHONPATH": f"{user.folder}{os.pathsep}{ROOT}"}
    screen, code = user.asks("")
    assert code == 4
    assert "Which one" not in screen.raw
    assert "undefined symbol" in text(screen)
