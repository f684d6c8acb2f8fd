"""What a person sees of `fbrag` on terminals of 60, 80 and 100 columns: the answer first, no line too wide, no word broken."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from fbrag_cli.text.table import width_of
from tests.cli.screen import Screen, on_screen
from tests.servers import Loopback, stream

WIDTHS = pytest.mark.parametrize("columns", [60, 80, 100])


def words(lines: list[str]) -> list[str]:
    return " ".join(lines).split()


def below_the_address(screen: Screen) -> list[str]:
    """The lines below the one that says which server reads the text."""
    lines = screen.lines()
    return lines[next(i for i, line in enumerate(lines) if line.startswith("sending document text to")) + 1 :]


@WIDTHS
def test_errors_are_broken_between_words(columns: int, clean_environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "inquiry.txt").write_text("The keeper lit the lamp.")
    screen, code = on_screen(columns, 30, ["ask", "inquiry.txt", "What", "salary?"], clean_environment, tmp_path)
    assert code == 2
    error = words(screen.lines())[:14]
    assert error == [*"error: file not found: What (put a question of several words in quotes)".split(), "hint:"]
    assert "\x1b[33m" not in screen.raw


QUESTION = "Who lit the lamp of the lighthouse on the night of the wreck?"
LONG = "It is the custom of the station that a keeper stays with it until the morning watch comes up the stairs. "


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    told = [
        "Tamsin Vale lit the lamp of the lighthouse on the night of the wreck.",
        *(f"Nobody slept at inn {n} that night." for n in range(4)),
    ]
    for number, sentence in enumerate(told, 1):
        (tmp_path / f"report {number}.txt").write_text(f"{LONG}{sentence} {LONG}")
    return tmp_path


@pytest.fixture
def ask(folder: Path, clean_environment: dict[str, str]) -> Iterator[Callable[..., Screen]]:
    """Ask five documents on a terminal. A server answers with what one of them says."""
    with Loopback() as server:
        server.default = stream("Tamsin Vale lit the lamp.")

        def asked(columns: int, *options: str, **environment: str) -> Screen:
            names = [f"report {number}.txt" for number in range(1, 6)]
            command = ["ask", *names, QUESTION, "--method", "vanilla", "--large", server.address, "--allow-unsupported", *options]
            screen, code = on_screen(columns, 50, command, clean_environment | environment, folder)
            assert code == 0, screen.lines()
            return screen

        yield asked


@WIDTHS
def test_the_answer_is_alone_and_bold_and_all_but_the_cited_source_is_dim(columns: int, ask: Callable[..., Screen]) -> None:
    screen = ask(columns, "-C", "1")
    lines = below_the_address(screen)
    assert lines[:3] == ["", "Tamsin Vale lit the lamp. [1]", ""]
    assert screen.styles_of("Tamsin Vale lit the lamp.") == {"1"}
    assert screen.styles_of("[1]") == {""}
    assert all(width_of(line) <= columns for line in lines)
    assert lines[3] == "[1] report 1.txt:1"
    assert screen.styles_of("report 1.txt") == {""}
    passage = words(lines[4 : lines.index("", 4)])
    assert " ".join(passage) == f"{LONG}Tamsin Vale lit the lamp of the lighthouse on the night of the wreck. {LONG.strip()}"
    assert screen.styles_of("wreck.") == {"1"}
    after = lines[lines.index("", 4) + 1 :]
    others, last = after[: after.index("")], after[after.index("") + 1 :]
    assert " ".join(each.strip() for each in others) == "also read: " + " · ".join(f"report {n}.txt:1" for n in range(2, 6))
    assert all(screen.styles_of(other) == {"2"} for other in others)
    assert re.match(r"\d+(\.\d)? s on ", last[0])
    assert screen.styles_of(last[0]) == {"2"}


def test_what_shows_the_answer_has_the_one_colour_and_it_is_readable_on_white(ask: Callable[..., Screen]) -> None:
    raw = ask(80, "--sources", "all").raw
    shown = raw[raw.index("\x1b[1mTamsin") :]  # below a bar, which a busy machine shows
    assert set(re.findall(r"\x1b\[([\d;]+)m", shown)) <= {"0", "1", "2", "35", "1;35", "1;31"}
    colored = re.findall(r"\x1b\[(?:1;)?35m([^\x1b]*)", shown)
    assert {"Tamsin", "Vale"} <= set(colored) <= {"Tamsin", "Vale", "lit", "lamp"}


def test_all_sources_have_their_lines_where_they_are_asked_for_and_only_the_cited_one_a_bold_sentence(
    ask: Callable[..., Screen],
) -> None:
    screen = ask(100, "--sources", "all")
    heads = [line for line in screen.lines() if line.startswith("[")]
    assert heads == [f"[{n}] report {n}.txt:1" for n in range(1, 6)]
    assert " ".join(screen.lines()).count("Nobody slept at inn ") == 4
    assert screen.styles_of("Nobody slept") == {""}
    assert "Sources" not in " ".join(ask(100, "--sources", "none").lines())


def test_places_are_links_to_the_files_on_a_terminal_with_colour(ask: Callable[..., Screen], folder: Path) -> None:
    links = ask(100).links
    assert links == {"": "", **{f"{(folder / f'report {n}.txt').as_uri()}#1": f"report {n}.txt:1" for n in range(1, 6)}}
    assert not ask(100, TERM="dumb").links
    assert not ask(100, NO_COLOR="1").links
    assert not ask(100, "--color", "never").links
    assert not ask(100, "-f", "md").links
    ask(100, "--color", "always", "-o", "answer.txt")
    assert "\x1b[1m" in (folder / "answer.txt").read_text("utf-8")
    assert "\x1b]" not in (folder / "answer.txt").read_text("utf-8")


def test_a_hostile_name_is_no_control_sequence_in_a_link(clean_environment: dict[str, str], tmp_path: Path) -> None:
    name = "a\x1b]8;;http:\\evil\x07b\u202e#1 %.txt"
    (tmp_path / name).write_text("Tamsin Vale lit the lamp.")
    with Loopback() as server:
        server.default = stream("Tamsin Vale")
        command = ["ask", name, "Who lit the lamp?", "--method", "vanilla", "--large", server.address, "--allow-unsupported"]
        screen, code = on_screen(100, 30, command, clean_environment, tmp_path)
    assert code == 0
    (shown,) = [text for address, text in screen.links.items() if address]
    assert shown == "a␛]8;;http:\\evil␇b\ufffd#1 %.txt:1"
    (address,) = filter(None, screen.links)
    path, _, line = address.partition("#")
    assert unquote(path.removeprefix("file://")) == str(tmp_path / name)
    assert line == "1"


@WIDTHS
def test_chinese_is_broken_at_the_width_of_its_characters(
    columns: int, clean_environment: dict[str, str], tmp_path: Path
) -> None:
    before = "这艘船在黎明时分起航，前往北方的海湾，途中遇到了大雾，船员们整夜没有睡觉。" * 2
    (tmp_path / "船.txt").write_text(
        f"{before}船长是张伟，他来自南方的一个小镇，在海上工作了二十年，从来没有失去过一艘船。{before}", "utf-8"
    )
    with Loopback() as server:
        server.default = stream("船长是张伟。")
        command = ["ask", "船.txt", "船长是谁？", "--method", "vanilla", "--large", server.address, "--allow-unsupported"]
        screen, code = on_screen(columns, 40, command, clean_environment, tmp_path)
    assert code == 0
    lines = below_the_address(screen)
    assert lines[:3] == ["", "船长是张伟。 [1]", ""]
    assert screen.styles_of("船长是张伟。") == {"1"}
    shown = [line for line in lines if line.startswith("    ")]
    assert all(width_of(line) <= columns for line in lines)
    assert all(width_of(line) > columns - 8 for line in shown[:-1])
    assert "船长是张伟，他来自南方的一个小镇，在海上工作了二十年，从来没有失去过一艘船。" in "".join(line[4:] for line in shown)


@WIDTHS
def test_the_findings_of_the_doctor_are_broken_between_words(
    columns: int, clean_environment: dict[str, str], tmp_path: Path
) -> None:
    command = ["doctor", "--offline", "--skip-gpu"]
    environment = clean_environment | {"FBRAG_SMALL": "smollm2-135m", "FBRAG_LARGE": "smollm2-135m"}
    plain = subprocess.run(
        [sys.executable, "-m", "fbrag_cli", *command], capture_output=True, text=True, env=environment, check=False
    )
    screen, _ = on_screen(columns, 50, command, environment, tmp_path)
    assert all(width_of(line) <= columns for line in screen.lines())
    assert "\x1b[33m" not in screen.raw
    assert {word for word in words([plain.stdout]) if word.isalpha() and len(word) > 3} <= set(words(screen.lines()))
