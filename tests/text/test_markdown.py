from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from fbrag_cli.text.markdown import escaped, escaped_line
from fbrag_cli.text.printable import printable

MARKUP = [
    "- a",
    "+ a",
    "* a",
    "1. a",
    "12) a",
    "===",
    "---",
    "- - -",
    "    a",
    "\ta",
    "# a",
    "> a",
    "| a |",
    "<b>",
    "&lt;",
    "`a`",
    "_a_",
]


@pytest.mark.parametrize("line", MARKUP)
def test_a_line_is_shown_unchanged(line: str) -> None:
    shown = MarkdownIt("commonmark").enable("table").parse(f"A line\n{escaped_line(line)}")
    assert [token.type for token in shown] == ["paragraph_open", "inline", "paragraph_close"]
    assert {child.type for child in shown[1].children or []} == {"text", "softbreak"}
    said = "".join(child.content for child in shown[1].children or [])
    assert said == "A line" + line.replace("\t", "    ").replace("    ", 4 * "\N{NO-BREAK SPACE}")


@given(st.text("ab1 .)-+=*_`#>|<&\\\\[]!:/~", max_size=30))
def test_no_line_is_markup(line: str) -> None:
    shown = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(f"x{escaped(line)}\n{escaped_line(line)}y")
    assert [token.type for token in shown] == ["paragraph_open", "inline", "paragraph_close"]
    text = "".join(child.content for child in shown[1].children or [])
    assert re.sub(r"\s", "", text) == re.sub(r"\s", "", f"x{printable(line)}{printable(line)}y")


def test_no_address_becomes_a_link_and_places_stay_as_they_are() -> None:
    assert escaped("https://e.x www.e.x a@e.x :smile:") == "https\\://e.x www\\.e.x a\\@e.x \\:smile:"
    assert escaped("book.txt:120-148") == "book.txt:120-148"


def test_a_list_of_an_answer_stays_a_list() -> None:
    assert "<ul>" in MarkdownIt().render(escaped("- one\n- two"))
