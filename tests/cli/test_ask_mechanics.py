"""`fbrag ask` as a user runs it, with the 135M model: forms, streams, exit codes, determinism, hostile documents.

The answers of so small a model are not looked at; test_answers.py does that with the default pair.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fbrag_cli.cancellation import Cancellation
from tests.cli.test_batch import time_limit
from tests.cli.test_explain import on_terminal
from tests.conftest import INQUIRY, ROOT, Run
from tests.servers import Loopback, declining_reply, stream

QUESTION = "Who was the master of the ship?"
MODELS = ("--small", "smollm2-135m", "-m", "smollm2-135m")
SHORT = ("--chunk-words", "60", "--set", "forward-tokens=24", "--max-tokens", "24")
FAST = ("--set", "recall=2", "--select", "2", "--samples", "2", *SHORT, *MODELS)


@pytest.fixture(scope="module", autouse=True)
def _model(smollm2: Path) -> None:
    """Every test here needs it in the store."""


@pytest.fixture(scope="module")
def answered(fbrag_cached: Run) -> subprocess.CompletedProcess[str]:
    """The run that fills the module's cache."""
    done = fbrag_cached("ask", INQUIRY, QUESTION, "--allow-unsupported", *FAST)
    assert done.returncode == 0, done.stderr
    return done


def test_text_is_the_answer_then_the_sources_with_their_lines(
    answered: subprocess.CompletedProcess[str], fbrag_cached: Run
) -> None:
    answer, first, *_, others = answered.stdout.strip().split("\n\n")
    assert re.match(r"(\[1\]|Closest passage:) \S+:\d+", first)
    assert re.fullmatch(r"also read: lines? \d+(-\d+)?", others)
    every = fbrag_cached("ask", INQUIRY, QUESTION, "--allow-unsupported", "--sources", "all", *FAST).stdout
    assert every.startswith(answer)
    assert re.findall(r"^\[(\d)\] .+:\d+(?:-\d+)?$", every, re.MULTILINE) == ["1", "2"]
    assert re.fullmatch(r"\d+(\.\d)? s on CPU · [0-2] of 2 samples agree", answered.stderr.splitlines()[-1])
    told = fbrag_cached("ask", "-v", INQUIRY, QUESTION, "--allow-unsupported", *FAST).stderr
    assert re.search(r"\d+ chunks: 2 retrieved, 2 samples .* 2 selected, answer", told)


def test_the_place_of_a_cited_source_is_that_of_its_marked_sentence(fbrag_cached: Run) -> None:
    with Loopback() as server:
        server.default = stream("Her ballast was pig iron.")
        asked = ("ask", INQUIRY, "What was the ship's ballast made of?", "--method", "vanilla", "--large", server.address)
        done = fbrag_cached(*asked, "--allow-unsupported")
    cited = re.search(r"\n\n\[(\d)\] .+:(\d+)-(\d+)\n((?:    .+\n)+)", done.stdout)
    assert cited
    assert done.stdout.startswith(f"Her ballast was pig iron. [{cited[1]}]\n\n")
    lines = INQUIRY.read_text("utf-8").split("\n")[int(cited[2]) - 1 : int(cited[3])]
    sentence = " ".join(line.removeprefix("    ") for line in cited[4].splitlines())
    assert sentence == "Her ballast was pig iron, with shingle on top of it to fill the ends."
    assert sentence in " ".join(lines)
    assert sentence not in " ".join(lines[1:])
    assert sentence not in " ".join(lines[:-1])


def test_json_sources_are_spans_of_the_decoded_text(fbrag: Run) -> None:
    done = fbrag("ask", INQUIRY, QUESTION, "--json", "--allow-unsupported", *FAST)
    told = json.loads(done.stdout)
    text = INQUIRY.read_text("utf-8")
    assert told["schema"] == "fbrag.answer/1"
    assert told["status"] == "answered"
    assert len(told["sources"]) == 2
    assert len(told["samples"]) == 2
    for source in told["sources"]:
        assert source["text"] == text[source["start_char"] : source["end_char"]]
        assert source["start_line"] == text.count("\n", 0, source["start_char"]) + 1
        assert source["end_line"] == text.count("\n", 0, source["end_char"]) + 1
        assert all(text[start:end].strip() for start, end in source["highlights"])
        assert 0 < source["relative_score"] <= 1
        if found := source["sentence"]:
            assert text.count("\n", 0, found["start_char"]) + 1 == found["start_line"] >= source["start_line"]
            assert found["start_line"] <= found["end_line"] <= source["end_line"]
    assert all(told["answer"][claim["start"] : claim["end"]].strip() for claim in told["citations"])
    assert {number for claim in told["citations"] for number in claim["sources"]} <= {1, 2}
    assert told["models"]["small"]["sha256"].startswith("b179c952")
    assert {stage["name"] for stage in told["stages"]} >= {"recall", "forward", "select", "answer"}
    assert told["documents"][0]["words"] == len(text.split())


def test_the_same_seed_gives_the_same_and_another_gives_other_samples(fbrag: Run) -> None:
    def samples(seed: int) -> list[str]:
        done = fbrag("ask", INQUIRY, QUESTION, "--json", "--no-cache", "--seed", seed, *FAST)
        return [sample["text"] for sample in json.loads(done.stdout)["samples"]]

    one = samples(3)
    assert samples(3) == one
    assert samples(4) != one


def test_jsonl_tells_what_happens_and_ends_with_the_whole(fbrag_cached: Run) -> None:
    done = fbrag_cached("ask", INQUIRY, QUESTION, "-f", "jsonl", "--allow-unsupported", *FAST)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds[0] == "selected"
    assert kinds[-1] == "done"
    assert set(kinds[1:-1]) == {"token"}
    assert {event["schema"] for event in events[:-1]} == {"fbrag.event/1"}
    assert events[-1]["schema"] == "fbrag.answer/1"
    assert "".join(event["text"] for event in events[1:-1]).strip() == events[-1]["answer"]


def test_markdown_has_a_footnote_for_each_source(fbrag_cached: Run) -> None:
    done = fbrag_cached("ask", INQUIRY, QUESTION, "-f", "md", "--allow-unsupported", *FAST)
    assert re.search(r"\S\[\^\d\]", done.stdout)
    assert len(re.findall(r"^\[\^\d\]: ", done.stdout, re.MULTILINE)) == 2


def test_answer_only_is_the_answer_only_and_quiet_is_quiet(fbrag_cached: Run) -> None:
    done = fbrag_cached("ask", "-qa", INQUIRY, QUESTION, "--allow-unsupported", *FAST)
    assert done.stdout.strip()
    assert "Sources" not in done.stdout
    assert not re.search(r"\[\d\]|Not in the sources", done.stdout)
    assert done.stderr == ""


def test_without_sources_the_answer_refers_to_none(fbrag_cached: Run) -> None:
    asked = ("ask", INQUIRY, QUESTION, "--allow-unsupported", *FAST)
    told = json.loads(fbrag_cached(*asked, "--json").stdout)
    head = "Low confidence: " if told["low_confidence"] else ""
    assert fbrag_cached(*asked, "--sources", "none").stdout.splitlines()[0] == head + told["answer"]


def test_where_the_document_does_not_say_the_proposal_is_shown_and_alone_it_is_one_sentence(
    fbrag_cached: Run, tmp_path: Path
) -> None:
    (tmp_path / "soup.txt").write_text("Peel the onions. Boil the soup for an hour. Add the salt. " * 9)

    with Loopback() as server:
        server.default = declining_reply
        asked = ("ask", tmp_path / "soup.txt", QUESTION, "--method", "vanilla", "--large", server.address)
        found = fbrag_cached(*asked)
        alone, none, zero = (fbrag_cached(*asked, *options) for options in (["-a"], ["--sources", "none"], ["--exit-zero"]))
    missing = "Not in the document: master, ship"
    unsupported = "Unsupported answer: Captain Vance. (use --allow-unsupported to print it)"
    notes = f"No answer found in the document.\n\n{missing}\n{unsupported}\n"
    assert found.stdout.startswith(f"{notes}\nClosest passage: ")
    assert alone.stdout == "No answer found in the document.\n"
    assert none.stdout == notes
    assert [found.returncode, alone.returncode, none.returncode, zero.returncode] == [1, 1, 1, 0]


def test_piped_output_is_what_a_terminal_shows_minus_escapes(
    answered: subprocess.CompletedProcess[str], module_environment: dict[str, str]
) -> None:
    from tests.cli.screen import pty, read

    master, slave = pty.openpty()  # of no width: nothing is wrapped
    command = [sys.executable, "-m", "fbrag_cli", "ask", str(INQUIRY), QUESTION, "--allow-unsupported", *FAST]
    with subprocess.Popen(command, stdout=slave, stderr=subprocess.DEVNULL, env=module_environment) as run, time_limit(run):
        os.close(slave)
        shown = b""
        while piece := read(master):
            shown += piece
    assert b"\x1b[1m" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;;[!-~]*\x1b\\", "", shown.decode()).replace("\r\n", "\n")
    assert plain == "\n" + answered.stdout.replace("\n  > ", "\n    ") + "\n"  # air


def test_colour_is_never_forced_on_a_pipe_but_can_be_asked_for(
    fbrag_cached: Run, answered: subprocess.CompletedProcess[str]
) -> None:
    arguments = ("ask", INQUIRY, QUESTION, "--allow-unsupported", *FAST)
    assert "\x1b" not in answered.stdout
    assert "\x1b[" in fbrag_cached(*arguments, "--color", "always").stdout
    assert "\x1b" not in fbrag_cached(*arguments, env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout


def test_stdin_is_read_for_a_dash_only(fbrag: Run) -> None:
    done = fbrag("ask", "-", QUESTION, "--json", *FAST, stdin=INQUIRY.read_text("utf-8"))
    assert json.loads(done.stdout)["sources"][0]["document"] == "stdin"
    asked = fbrag("ask", INQUIRY, "-", "--json", *FAST, stdin=f"{QUESTION}\n")
    assert json.loads(asked.stdout)["question"] == QUESTION


def test_several_documents_are_pooled_and_each_source_names_its_file(fbrag: Run, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("The brig Alcyone was commanded by Captain Orrin Vance. " * 5)
    (tmp_path / "two.txt").write_text("The weather was foul and the cook was ill. " * 5)
    done = fbrag("ask", "one.txt", "two.txt", "Who commanded the brig Alcyone?", "--json", *FAST)
    assert {source["document"] for source in json.loads(done.stdout)["sources"]} == {"one.txt", "two.txt"}


def test_an_output_file_is_whole_or_not_there(fbrag: Run, tmp_path: Path) -> None:
    assert fbrag("ask", INQUIRY, QUESTION, "--json", "-o", "answer.json", "--allow-unsupported", *FAST).stdout == ""
    assert json.loads((tmp_path / "answer.json").read_text())["status"] == "answered"
    (tmp_path / "kept.json").write_text("before")
    failed = fbrag("ask", INQUIRY, QUESTION, "-o", "kept.json", "--set", "recall=16", *MODELS, "--timeout", "0.2")
    assert failed.returncode == 5
    assert (tmp_path / "kept.json").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["answer.json", "kept.json"]
    nowhere = fbrag("ask", INQUIRY, QUESTION, "-o", "no/such/folder/x", *FAST)
    assert nowhere.returncode == 2
    assert "cannot be written" in nowhere.stderr


def test_a_document_cannot_speak_to_the_terminal_or_as_markup(fbrag: Run, tmp_path: Path) -> None:
    hostile = "[red]bold[/red] \x1b]0;owned\x07\x1b[31mred \x9b31m \u202egnirts [link=x]y[/link] Captain Vance \x00\x08 "
    (tmp_path / "hostile.txt").write_text(hostile * 20)
    shown = {}
    for form, options in {"text": ["-C", "all"], "md": ["-C", "all"], "json": []}.items():
        done = fbrag("ask", "hostile.txt", "Who is the captain?", "-f", form, *options, "--allow-unsupported", *FAST)
        assert done.returncode == 0, done.stderr
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", done.stdout + done.stderr)
        shown[form] = done.stdout
    assert "[red]bold[/red]" in shown["text"]


def test_ctrl_c_ends_with_130(clean_environment: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fbrag_cli", "ask", str(INQUIRY), QUESTION, "-v", "-o", "x.txt"]
    command += ["--set", "recall=16", "--small", "smollm2-135m", "-m", "smollm2-135m"]
    with (
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment, cwd=tmp_path
        ) as run,
        time_limit(run, 60),
    ):
        assert run.stderr is not None
        while "loading models" not in (line := run.stderr.readline()):
            assert line, "ended early"
        run.send_signal(signal.SIGINT)
        _, stderr = run.communicate()
    assert run.returncode == 130
    assert "Traceback" not in stderr
    assert not list(tmp_path.glob("*x.txt*"))


def test_sigterm_ends_with_143(clean_environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "fbrag_cli", "ask", str(INQUIRY), QUESTION, "-v", *MODELS]
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=clean_environment) as run,
        time_limit(run, 60),
    ):
        assert run.stderr is not None
        while "loading models" not in (line := run.stderr.readline()):
            assert line, "ended early"
        run.terminate()
        run.communicate()
    assert run.returncode == 143


def test_a_closed_pipe_ends_silently(clean_environment: dict[str, str]) -> None:
    command = f"{sys.executable} -m fbrag_cli text {INQUIRY} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=clean_environment, timeout=60, check=False)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_the_time_limit_is_exit_5(fbrag: Run) -> None:
    done = fbrag(
        "ask", INQUIRY, QUESTION, "--timeout", "0.2", "--set", "recall=16", "--small", "smollm2-135m", "-m", "smollm2-135m"
    )
    assert done.returncode == 5
    assert done.stderr.startswith("error: timed out after 0.2 s")


@pytest.mark.skipif(not hasattr(signal, "getitimer"), reason="Windows has no timers of signals")
@pytest.mark.parametrize("command", ["ask", "text", "batch"])
def test_closing_does_not_count_against_the_time_limit(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is out is not followed by "timed out"."""
    import fbrag_cli.cli.session
    from fbrag_cli.cli import main

    module, left = import_module(f"fbrag_cli.cli.{'question' if command == 'ask' else command}"), []
    opened = fbrag_cli.cli.session.open_session

    @contextmanager
    def watched(*arguments: Any, **about: Any) -> Iterator[Any]:
        with opened(*arguments, **about) as session:
            assert signal.getitimer(signal.ITIMER_REAL)[0]
            yield session
            left.append(signal.getitimer(signal.ITIMER_REAL)[0])

    monkeypatch.setattr(module, "open_session", watched)
    (tmp_path / "a.txt").write_text("The brig sailed at noon.", "utf-8")
    (tmp_path / "q.txt").write_text("Who?", "utf-8")
    rest = {"ask": ["Who?", "--dry-run"], "text": [], "batch": ["-Q", str(tmp_path / "q.txt"), "--limit", "1"]}[command]
    models = [] if command == "text" else ["-m", "smollm2-135m", "--small", "smollm2-135m", "--method", "vanilla"]
    few = ["--max-tokens", "1"] if models else []
    with open(os.devnull, "w") as nowhere, monkeypatch.context() as streams:
        streams.setattr(sys, "stdout", nowhere)
        main.run([command, str(tmp_path / "a.txt"), *rest, *models, *few, "--timeout", "1h", "--no-cache"], Cancellation())
    assert left == [0.0]


def test_a_prompt_that_does_not_fit_is_an_error_with_both_numbers(fbrag: Run) -> None:
    done = fbrag(
        "ask", INQUIRY, QUESTION, "--set", "recall=20", "--set", "ctx=2048", "--small", "smollm2-135m", "-m", "smollm2-135m"
    )
    assert done.returncode == 2
    assert re.search(r"has \d,\d{3} tokens, limit 2,048", done.stderr)


def test_the_length_limit_of_the_answer_is_a_warning(fbrag: Run) -> None:
    done = fbrag("ask", INQUIRY, "Tell everything that happened.", *FAST, "--max-tokens", "1", "--allow-unsupported", "--json")
    assert json.loads(done.stdout)["truncated"] is True
    assert "warning: the answer was cut off at 1 token" in done.stderr


def test_dry_run_runs_no_model(fbrag: Run) -> None:
    done = fbrag("ask", INQUIRY, QUESTION, "--dry-run", env={"FBRAG_MODELS_DIR": "/nowhere"})
    assert done.returncode == 0
    assert re.search(r"1 document, [\d,]+ words, \d+ chunks", done.stdout)


def test_the_loop_of_the_readme_gives_one_row_a_file(module_environment: dict[str, str], tmp_path: Path) -> None:
    loop = re.search(r"^for f in contracts/\*\.pdf; do .*? done", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert loop
    folder = tmp_path / "contracts"
    folder.mkdir()
    (folder / "a.pdf").write_bytes(b"%PDF-1.7 broken")
    (folder / "b.pdf").write_bytes(b"")
    (folder / "c.pdf").write_text("The contract ends on 3 May 1894.")
    (folder / "d.pdf").mkdir()
    here = f'fbrag() {{ {sys.executable} -m fbrag_cli "$@" {" ".join(FAST)}; }}; '
    done = subprocess.run(
        ["bash", "-c", here + loop[0]],
        capture_output=True,
        text=True,
        env=module_environment,
        cwd=tmp_path,
        timeout=300,
        check=False,
    )
    rows = [row.split("\t") for row in done.stdout.splitlines()]
    assert [row[0] for row in rows] == [f"contracts/{name}.pdf" for name in "abcd"]
    assert [bool(answer) for _, answer in rows] == [False, False, True, False]
    assert done.stderr.count("error: ") == 3


def test_an_answer_alone_is_one_line_whatever_the_model_writes(fbrag_cached: Run) -> None:
    done = fbrag_cached("ask", "-a", INQUIRY, "List the names.", "--allow-unsupported", *FAST)
    assert len(done.stdout.splitlines()) == 1
    for form, expected in (("text", "\n"), ("md", "\n")):
        assert fbrag_cached("ask", "-a", "nowhere.txt", QUESTION, "-f", form).stdout == expected
    assert fbrag_cached("ask", "nowhere.txt", QUESTION).stdout == ""
    assert fbrag_cached("ask", "-a", "nowhere.txt", QUESTION, "-o", "out.txt").stdout == ""


def test_on_a_narrow_terminal_no_line_of_a_source_is_too_wide(module_environment: dict[str, str]) -> None:
    shown = on_terminal(60, module_environment, "ask", INQUIRY, QUESTION, "--allow-unsupported", "-C", "all", *FAST)
    assert len(shown) > 8
    assert all(len(line) <= 60 for line in shown if line.startswith("    "))
