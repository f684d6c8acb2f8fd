"""Lines and pages of offsets, compared with counting."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fbrag_cli.documents.document import Content, Document, Extracted, PageSpan
from fbrag_cli.documents.lines import LineIndex, line_index, line_of, lines_of, pages_of
from fbrag_cli.documents.tables import cells_apart, tables_of


def document(text: str, *pages: PageSpan) -> Document:
    return Document.of("a.txt", "a.txt", Extracted(Content(text, tuple(pages)), "text/plain"))


@given(st.text(alphabet="ab\n\f\u2028"), st.data())
def test_the_line_is_one_more_than_the_line_ends_before_it(text: str, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)))
    assert line_of(document(text), offset) == text.count("\n", 0, offset) + 1


@given(st.text(alphabet="ab\n"))
def test_spans_of_all_lines_are_the_text(text: str) -> None:
    index = LineIndex(text)
    spans = [index.span(line) for line in range(1, len(index) + 1)]
    assert [text[start:end] for start, end in spans] == text.split("\n")


def test_outside_the_text() -> None:
    index = LineIndex("one\ntwo")
    for offset in (-1, 8):
        with pytest.raises(IndexError):
            index.line_of(offset)
    for line in (0, 3):
        with pytest.raises(IndexError):
            index.span(line)


def test_lines_of_a_span_do_not_reach_into_the_next_line() -> None:
    text = document("one\ntwo\nthree")
    assert lines_of(text, 0, 4) == (1, 1)  # with its line end
    assert lines_of(text, 2, 9) == (1, 3)
    assert lines_of(text, 4, 4) == (2, 2)


def test_pages_of_a_span() -> None:
    text = document("abc\ndef\nghi", PageSpan(3, 0, 3), PageSpan(4, 4, 7), PageSpan(9, 8, 11))
    assert pages_of(text, 0, 3) == (3, 3)
    assert pages_of(text, 0, 4) == (3, 3)  # with the line end between the pages
    assert pages_of(text, 2, 5) == (3, 4)
    assert pages_of(text, 4, 11) == (4, 9)
    assert pages_of(text, 8, 8) == (9, 9)
    assert pages_of(document("no pages"), 0, 2) is None


def test_what_is_computed_of_a_text_goes_with_it() -> None:
    """A server lets uploads go: nothing else may hold their texts, their lines, or their tables."""
    rows = "".join(f"lamp {n},{n},9\n" for n in range(20_000))
    tracemalloc.start()
    try:
        for name, media_type in (
            ("a.csv", "text/plain"),
            ("b.md", "text/markdown"),
            ("c.html", "text/html"),
            ("d.pdf", "application/pdf"),
        ):
            text = f"{name},hour,n\n{rows}"
            before = tracemalloc.get_traced_memory()[0]
            own = Document.of(name, name, Extracted(Content(text), media_type))
            assert line_of(own, len(text) - 2) == 20_001
            assert line_index(own) is line_index(own)
            assert len(cells_apart(own)) == len(text)
            assert tables_of(own) is tables_of(own)
            assert tracemalloc.get_traced_memory()[0] - before > 200_000
            del own, text
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] - before < 100_000
    finally:
        tracemalloc.stop()
