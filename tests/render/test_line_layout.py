from __future__ import annotations

from textwrap import wrap

from hypothesis import given
from hypothesis import strategies as st

from fbrag_cli.render.passages import LineLayout

SENTENCE = "The barque lay at anchor in the roads, and nobody slept for the rain that kept on until the morning came. "
PARAGRAPH = "\n".join(wrap(SENTENCE * 6, 70))


def test_prose_that_was_cut_at_a_width_flows_and_its_paragraphs_stay_apart() -> None:
    text = f"CHAPTER I\n\n{PARAGRAPH}\n\n{PARAGRAPH}"
    layout = LineLayout(text)
    assert layout.kind == "flow"
    meant = [*range(9, 11), *range(11 + len(PARAGRAPH), 13 + len(PARAGRAPH))]  # after the heading, between the paragraphs
    assert layout.breaks(0, len(text)) == meant
    assert layout.breaks(10, 20) == [10]


def test_rows_of_a_table_are_no_prose() -> None:
    assert LineLayout("\n".join(wrap(SENTENCE * 6, 100))).kind == "flow"
    assert LineLayout("\n".join(wrap(SENTENCE * 6, 100)), in_rows=True).kind == "lines"


def test_a_short_line_within_prose_ends_where_it_ends() -> None:
    verse = "Full fathom five\nthy father lies;\n"
    layout = LineLayout(f"{PARAGRAPH}\n\n{verse}{PARAGRAPH}")
    start = len(PARAGRAPH) + 2
    assert layout.breaks(start, start + len(verse)) == [start + 16, start + 33]


def test_code_keeps_its_columns() -> None:
    assert LineLayout("def f(x):\n    y = x + 1\n    return y\n\n\nprint(f(1))\n").kind == "columns"


def test_a_line_a_paragraph_stays_as_it_is() -> None:
    layout = LineLayout(f"{SENTENCE * 6}\n{SENTENCE * 4}\n")
    assert layout.kind == "lines"
    assert layout.breaks(0, 5000) == []


@given(st.text(alphabet="ab \n\t", max_size=300), st.integers(0, 300), st.integers(0, 300))
def test_breaks_are_line_ends(text: str, start: int, end: int) -> None:
    padded = f"{PARAGRAPH}\n{text}"
    assert all(padded[at] == "\n" and start <= at < end for at in LineLayout(padded).breaks(start, end))
