"""Text on a terminal: no line is too wide, and no word is broken."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fbrag_cli.text.table import width_of
from fbrag_cli.text.terminal import BOLD, DIM, Styled, truncate, wrap, wrap_spans

PROSE = "In good iron the break is like wood that is torn; it has threads, and the surveyor said so twice. " * 3
CHINESE = "这艘船在黎明时分起航，前往北方的海湾，途中遇到了大雾。" * 6
SGR = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize("text", [PROSE, CHINESE, PROSE[:90] + CHINESE])
def test_a_text_is_broken_between_words(text: str, columns: int) -> None:
    lines = wrap(text.strip(), columns, "  ").split("\n")
    assert len(lines) > 1
    assert all(width_of(line) <= columns for line in lines)
    assert all(width_of(line) > columns - 18 for line in lines[:-1])
    assert "".join("".join(lines).split()) == "".join(text.split())
    english = re.findall(r"[A-Za-z;,.]+", text)
    assert re.findall(r"[A-Za-z;,.]+", " ".join(lines)) == english


@given(st.text(alphabet="ab 船。\n", max_size=200), st.integers(1, 60), st.integers(0, 8))
def test_pieces_fit_and_miss_nothing_but_white_space(text: str, columns: int, margin: int) -> None:
    line = text.replace("\n", " ")
    spans = wrap_spans(line, 0, columns, margin)
    assert "".join("".join(line[start:end].split()) for start, end in spans) == "".join(line.split())
    assert all(width_of(line[start:end].strip()) <= max(columns, 2) for start, end in spans)


def test_styles_go_on_over_a_break_and_leave_the_text_as_it_is() -> None:
    styled = Styled().add("Pig iron, and shingle on top of it", BOLD).add(" [1]").add("   1.00", DIM, "file:///a.txt")
    plain = list(styled.lines(20, colored=False, linked=False))
    assert plain == ["Pig iron, and", "shingle on top of it", "[1]   1.00"]
    assert [SGR.sub("", line) for line in styled.lines(20, linked=False)] == plain
    first, second, third = styled.lines(20)
    assert first == "\x1b[1mPig iron, and\x1b[0m"
    assert second.startswith("\x1b[1m")
    assert third == "[1]\x1b]8;;file:///a.txt\x1b\\\x1b[2m   1.00\x1b[0m\x1b]8;;\x1b\\"


def test_the_beginning_of_a_line_ends_with_a_word() -> None:
    assert truncate("In good iron the break is like wood", 30) == "In good iron the break is …"
    assert truncate("In good iron", 30) == "In good iron"
    assert truncate(CHINESE, 20) == "这艘船在黎明时分…"
