"""`fbrag chat` as a user runs it, with a server as the model: lines from a pipe, and a person at a pseudo-terminal."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.cli.screen import open_terminal, resize
from tests.conftest import Run
from tests.servers import Loopback, stream, stuck

TEXT = "The Ironhythe works were built by Josiah Goss in 1841.\n\nThe railway board paid for the works at Ironhythe.\n"
FAST = ("--method", "order-preserving", "--allow-unsupported", "--chunk-words", "10", "--select", "2")
BUILT, PAID = "Who built the Ironhythe works?", "Who paid for the Ironhythe works?"
SECONDS = 90


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as running:
        running.default = stream("Josiah Goss.")
        yield running


@pytest.fixture
def works(tmp_path: Path) -> Path:
    path = tmp_path / "works.txt"
    path.write_text(TEXT)
    return path


def models(server: Loopback) -> tuple[str, ...]:
    return "--small", server.address, "--large", server.address


def test_a_follow_up_from_a_pipe_is_made_whole_and_shown(fbrag: Run, server: Loopback, works: Path) -> None:
    server.replies.extend([stream("Josiah Goss."), stream(PAID), stream("The railway board.")])
    done = fbrag("chat", works, *FAST, *models(server), stdin=f"{BUILT}\n\nAnd who paid for it?\n")
    assert done.returncode == 0
    first, second = re.split(r"(?<=\n)\n(?=The railway)", done.stdout)
    assert first.startswith("Josiah Goss. [1]\n\n[1] ")
    assert second.startswith("The railway board. [1]\n\n[1] ")
    assert f"understood: {PAID}" in done.stderr.splitlines()
    assert "understood" not in done.stdout


def test_json_is_an_object_for_each_question_with_what_was_understood(fbrag: Run, server: Loopback, works: Path) -> None:
    server.replies.extend([stream("Josiah Goss."), stream(PAID), stream("The railway board.")])
    done = fbrag("chat", works, "--json", *FAST, *models(server), stdin=f"{BUILT}\nAnd who paid for it?\n/source 1\n")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each.get("question"), each.get("resolved_question")) for each in told[:2]] == [
        (BUILT, None),
        ("And who paid for it?", PAID),
    ]
    assert told[1]["answer"] == "The railway board."
    assert told[2]["schema"] == "fbrag.error/1"
    assert done.returncode == 2


def test_markdown_has_a_section_for_each_question(fbrag: Run, server: Loopback, works: Path) -> None:
    done = fbrag("chat", works, "-f", "md", *FAST, *models(server), stdin=f"{BUILT}\n{PAID}\n")
    first, second = done.stdout.split("\n\n## ")
    assert first.startswith(f"## {BUILT}\n\nJosiah Goss.[^1-1]")
    assert second.startswith(f"{PAID}\n\nJosiah Goss.[^2-1]")


def test_the_words_with_a_slash(fbrag: Run, server: Loopback, works: Path, tmp_path: Path) -> None:
    lines = ["/source 1", "/more", BUILT, "/source 1", "/svae x", "/help", PAID]
    lines += [f"/save {tmp_path}/said.md", f"/save {tmp_path}/said.html", f"/save {works}", "/quit", BUILT]
    done = fbrag("chat", works, *FAST, *models(server), stdin="\n".join(lines))
    assert done.returncode == 2
    assert done.stderr.count("error: no question was asked yet") == 2
    assert "hint: did you mean /save?" in done.stderr
    assert "  > The Ironhythe works were built by Josiah Goss in 1841.\n" in done.stdout
    assert "/more: " in done.stderr
    said = (tmp_path / "said.md").read_text("utf-8")
    assert said.startswith(f"## {BUILT}\n\nJosiah Goss.[^1-1]")
    assert f"\n## {PAID}\n" in said
    assert "<html" in (tmp_path / "said.html").read_text("utf-8")
    assert works.read_text() == TEXT
    assert done.stderr.count(" s on ") == 2, "none after /quit"


def test_words_that_people_type_without_a_slash(fbrag: Run, server: Loopback, works: Path) -> None:
    for last in ("exit", "Quit", "/exit", "/q"):
        done = fbrag("chat", works, "-a", *FAST, *models(server), stdin=f"help\n{last}\n{BUILT}\n")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert "/thorough [QUESTION]: " in done.stderr
    asked = fbrag("chat", works, "-a", *FAST, *models(server), stdin=f"How do I quit?\n /quit it\n{BUILT}\n")
    assert asked.stdout == "Josiah Goss.\n" * 3


def test_a_word_takes_what_it_says_and_nothing_else(fbrag: Run, server: Loopback, works: Path) -> None:
    lines = (BUILT, "/more of it", "/new thing", "/save", "/source x", "/model nowhere", "/docs")
    done = fbrag("chat", works, *FAST, *models(server), stdin="\n".join(lines))
    for fault in (
        "/more takes nothing after it",
        "/new takes nothing after it",
        "/save: FILE is missing",
        "/source x: the answer has 2 sources",
        "unknown model nowhere",
    ):
        assert f"error: {fault}" in done.stderr.splitlines()
    assert str(works) in done.stderr.splitlines()
    assert "hint: fbrag" not in done.stderr
    preset = fbrag("chat", works, *FAST, *models(server), stdin=f"/fast {BUILT}\n")
    assert "error: /fast has no effect with the method order-preserving" in preset.stderr


def test_the_only_source_needs_no_number(fbrag: Run, server: Loopback, works: Path) -> None:
    method = (*FAST[:-1], "1")
    done = fbrag("chat", works, *method, *models(server), stdin=f"{BUILT}\n/source\n")
    assert (done.returncode, "  > The Ironhythe works" in done.stdout) == (0, True), done.stderr


def test_new_forgets_what_was_asked_before(fbrag: Run, server: Loopback, works: Path) -> None:
    done = fbrag("chat", works, *FAST, *models(server), stdin=f"{BUILT}\n/new\nAnd who paid for it?\n")
    assert (done.returncode, "understood" in done.stderr) == (0, False)


def test_a_preset_and_a_model_for_what_follows(fbrag: Run, server: Loopback, works: Path) -> None:
    server.pages["/v1/models"] = {"data": [{"id": name, "object": "model"} for name in ("tiny", "other")]}
    tiny, large = f"{server.address}#tiny", f"{server.address}#other"
    lines = ("/fast", BUILT, f"/fast {PAID}", "Who built the works?", f"/model {large}", "/model", "Who paid for the works?")
    done = fbrag("chat", works, "--no-rewrite", "--json", "--small", tiny, "--large", tiny, stdin="\n".join(lines))
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each.get("error") for each in told] == [None] * 4
    assert [len(each["samples"]) for each in told] == [0, 0, 3, 3]
    assert f"{large}, and {tiny} for the forward samples" in done.stderr
    assert server.chats[-1].body["model"] == "other"


def test_nothing_is_overwritten_but_what_the_chat_saved_itself(fbrag: Run, server: Loopback, works: Path, tmp_path: Path) -> None:
    (tmp_path / "diary.md").write_text("Dear diary")
    save = f"/save {tmp_path}/said.md\n"
    done = fbrag("chat", works, *FAST, *models(server), stdin=f"{BUILT}\n{save}{PAID}\n{save}/save {tmp_path}/diary.md\n")
    assert (tmp_path / "said.md").read_text().count("## ") == 2
    assert done.stderr.count("error: ") == done.stderr.count(f"/save: there is a file {tmp_path}/diary.md") == 1
    assert (tmp_path / "diary.md").read_text() == "Dear diary"


def test_a_saved_conversation_is_resumed_and_extended(fbrag: Run, server: Loopback, works: Path, tmp_path: Path) -> None:
    said = tmp_path / "said.md"
    fbrag("chat", works, *FAST, *models(server), stdin=f"{BUILT}\n/save {said}\n")
    before = said.read_text()
    server.replies.extend([stream(PAID), stream("The railway board.")])
    again = fbrag("chat", works, "--resume", said, *FAST, *models(server), stdin=f"And who paid for it?\n/save {said}\n")
    assert "resumed: 1 question in " in again.stderr
    assert f"understood: {PAID}" in again.stderr
    assert BUILT in json.dumps(server.chats[-2].body)
    assert said.read_text().startswith(before.rstrip() + f"\n\n## {PAID}\n\nThe railway board.[^2-1]")
    new = fbrag("chat", works, "--resume", said, *FAST, *models(server), stdin=f"/new\n{PAID}\n/save {said}\n")
    assert (new.returncode, f"/save: there is a file {said}" in new.stderr) == (2, True)
    for wrong in (works, tmp_path / "none.md", tmp_path):
        refused = fbrag("chat", works, "--resume", wrong, *FAST, *models(server), stdin=BUILT)
        assert (refused.returncode, refused.stderr.count("error: --resume ")) == (2, 1)


def test_no_remark_of_a_chat_names_an_option(fbrag: Run, server: Loopback, tmp_path: Path) -> None:
    path = tmp_path / "lamps.txt"
    path.write_text("\n\n".join(f"A lamp of {each} hung in the {each} room of the old house." for each in ("oil", "gas", "tin")))
    server.default = stream(" ")
    method = ("--method", "order-preserving", "--select", "1", "--chunk-words", "14")
    done = fbrag("chat", path, *method, *models(server), stdin="Which lamps hung in the old house?\n")
    assert "No answer found" in done.stdout
    assert "/more" in done.stdout
    assert "--" not in done.stdout


def test_the_plain_option_asks_questions_as_they_are_typed(fbrag: Run, server: Loopback, works: Path) -> None:
    done = fbrag("chat", works, "--no-rewrite", *FAST, *models(server), stdin=f"{BUILT}\nAnd who paid for it?\n")
    assert (done.returncode, "understood" in done.stderr) == (0, False)


def test_more_reads_the_next_passages_until_all_is_read(fbrag: Run, server: Loopback, tmp_path: Path) -> None:
    path = tmp_path / "lamps.txt"
    rooms = ("oil", "gas", "tin")
    path.write_text("\n\n".join(f"A lamp of {each} hung in the {each} room of the old house by the sea." for each in rooms))
    method = ("--method", "order-preserving", "--select", "1", "--chunk-words", "16")
    server.replies.append(stream(" "))
    asked = "Which lamp hung in the tin room?\n/more\n/more\n/more\n"
    done = fbrag("chat", path, *method, *models(server), "--json", stdin=asked)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [len(each["sources"]) for each in told] == [1, 2, 3, 3]
    assert done.stderr.count("nothing more to read") == 1
    assert len({each["question"] for each in told}) == 1


def test_a_question_that_is_answered_from_more_passages_is_no_failure(fbrag: Run, server: Loopback, works: Path) -> None:
    method = ("--method", "order-preserving", "--chunk-words", "10", "--select", "1")
    server.replies.append(stream(" "))
    once = fbrag("chat", works, *method, *models(server), stdin=f"{BUILT}\n")
    assert (once.returncode, "No answer found" in once.stdout) == (1, True), once.stderr
    server.replies.append(stream(" "))
    more = fbrag("chat", works, *method, "--refresh", *models(server), stdin=f"{BUILT}\n/more\n")
    assert (more.returncode, "Josiah Goss. [1]" in more.stdout) == (0, True), more.stderr
    assert "added: " in more.stdout


def test_the_error_of_a_question_is_one_line_and_the_next_one_is_answered(fbrag: Run, server: Loopback, works: Path) -> None:
    server.replies.append(stuck("It"))
    asked = f"{BUILT}\nWho paid for the works at Ironhythe?\n"
    done = fbrag("chat", works, "-a", *FAST, *models(server), "--timeout", "8", stdin=asked)
    assert done.returncode == 5
    assert done.stdout == "\nJosiah Goss.\n"
    assert done.stderr.count("error: ") == 1


def test_what_is_no_question_is_refused_and_the_next_one_is_answered(fbrag: Run, server: Loopback, works: Path) -> None:
    done = fbrag("chat", works, "-a", *FAST, *models(server), stdin=f"?\n{'x' * 10_001}\nWho\0?\n{BUILT}\n")
    assert (done.returncode, done.stdout) == (2, "\n\n\nJosiah Goss.\n")
    for fault in ("no letter and no digit", "more than 10,000 characters", "a NUL character"):
        assert f"error: the question has {fault}" in done.stderr


def test_hostile_text_stays_text(fbrag: Run, server: Loopback, works: Path) -> None:
    works.write_text("The \x1b]0;owned\x07Ironhythe works were built by Josiah\x1b[2J Goss in 1841.")
    done = fbrag(
        "chat", works, *FAST, *models(server), "--small", server.address, stdin=f"\x1b[31m{BUILT}\x07\n /etc?\n/\x1b[5mx\n"
    )
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", done.stdout + done.stderr)


def test_stdin_carries_the_questions_alone(fbrag: Run, works: Path) -> None:
    assert fbrag("chat", "-").returncode == 2
    assert fbrag("chat", works, "--password-file", "-").returncode == 2


class Person:
    """A person at a pseudo-terminal, who types and waits for what is shown."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path, term: str) -> None:
        self.master, slave = open_terminal(100, 30)
        arguments = [sys.executable, "-m", "fbrag_cli", *command]
        environment = {**environment, "TERM": term}
        self.process = subprocess.Popen(
            arguments, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=folder, start_new_session=True
        )
        os.close(slave)
        self.shown = ""

    def sees(self, text: str) -> str:
        """Wait until a text is shown. Return what was shown before it and since the last one."""
        end = monotonic() + SECONDS
        while text not in self.shown:
            assert monotonic() < end, self.shown
            if select.select([self.master], [], [], 0.2)[0]:
                piece = os.read(self.master, 65536).decode("utf-8", "replace")
                if "\x1b[6n" in piece:
                    self.types("\x1b[1;1R")  # where the cursor is
                self.shown += piece
        before, _, self.shown = self.shown.partition(text)
        return before

    def types(self, text: str) -> None:
        os.write(self.master, text.encode())

    def leaves(self) -> int:
        self.sees(">")  # the prompt: before it, a terminal that edits lines would lose the key
        self.types("\x04")
        code = self.process.wait(SECONDS)
        os.close(self.master)
        return code


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_person_asks_stops_an_answer_and_goes_on(
    clean_environment: dict[str, str], server: Loopback, works: Path, tmp_path: Path, term: str
) -> None:
    server.replies.extend([stream("Josiah Goss."), stuck("It")])
    person = Person(["chat", works.name, *FAST, *models(server)], clean_environment, tmp_path, term)
    person.sees("Ctrl-D to quit")
    person.types(f"{BUILT}\r")
    person.sees("Josiah Goss.")
    person.sees(" s on ")
    resize(person.master, 60, 20)
    person.types("Who paid for the works at Ironhythe?\r")
    end = monotonic() + SECONDS
    while server.replies:  # until the reply that never ends is on its way
        assert monotonic() < end
        sleep(0.05)
    os.kill(person.process.pid, signal.SIGINT)
    person.sees("stopped")
    person.types("Who paid for the Ironhythe works, the board?\r")
    person.sees("Josiah Goss.")
    person.sees(" s on ")
    assert person.leaves() == 0


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_typed_byte_that_is_no_text_is_no_error(
    clean_environment: dict[str, str], server: Loopback, works: Path, tmp_path: Path, term: str
) -> None:
    environment = {**clean_environment, "PYTHONIOENCODING": "utf-8:strict"}  # as in most locales, but not in C
    person = Person(["chat", works.name, *FAST, *models(server)], environment, tmp_path, term)
    person.sees("Ctrl-D to quit")
    os.write(person.master, b"Who built the Ironhythe \xff works?\r")
    assert "error" not in person.sees(" s on ")
    assert person.leaves() == 0
