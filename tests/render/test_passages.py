from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted, PageSpan
from fbrag_cli.methods.fb_rag import FBRag
from fbrag_cli.methods.ranking import whole_chunks
from fbrag_cli.render.answer_text import markdown, sources, summary
from fbrag_cli.render.explain_text import table
from fbrag_cli.render.passages import passages, place, shown_lines, supporting_terms
from fbrag_cli.text.table import width_of
from fbrag_cli.trace import ForwardSample, Round, Scores, Trace

TEXT = """The barque lay at anchor in the roads.
Nobody slept. The rain kept on.
The box was sealed by Tobias Wrenn with lead.
The steward brought coffee at four.
At dawn the wind went round."""


def trace_of(
    text: str, answer: str, sample: str, chunk_words: int = 300, pages: tuple[PageSpan, ...] = (), name: str = "log.txt"
) -> Trace:
    corpus: Corpus = build_corpus(
        [Document.of(name, name, Extracted(Content(text, tuple(pages)), "text/plain", "utf-8"))], chunk_words
    )
    n = len(corpus.chunks)
    scores = Scores(
        np.ones(n, np.float32), np.ones((1, n), np.float32), np.ones(n, np.float32), np.zeros(n, np.intp), np.ones(n, np.float32)
    )
    samples = (ForwardSample(0, 0, sample, sample, "", "stop"),)
    every = tuple(range(n))
    chunks = whole_chunks(corpus, every)
    return Trace(
        question="Who sealed the box?",
        method=FBRag(),
        corpus=corpus,
        retriever="bm25",
        scores=scores,
        ranked=every,
        context=chunks,
        rounds=(Round(read=chunks, turns=(), samples=samples, scores=scores, selected=every),),
        stages=(),
        models={},
        status="answered",
        answer=answer,
    )


def test_the_line_that_says_the_answer_is_shown_with_its_neighbours_and_marked() -> None:
    shown = sources(trace_of(TEXT, "Tobias Wrenn", "Wrenn sealed the box."), context=1, full=False, colored=False)
    assert shown.splitlines()[2:] == [
        "    Nobody slept. The rain kept on.",
        "  > The box was sealed by Tobias Wrenn with lead.",
        "    The steward brought coffee at four.",
    ]


def test_in_colour_the_words_are_marked_and_the_text_is_the_same() -> None:
    trace = trace_of(TEXT, "Tobias Wrenn", "Wrenn sealed the box.")
    colored = sources(trace, context=0, full=False, colored=True)
    assert "The \x1b[1;33mbox\x1b[0m was \x1b[1;33msealed\x1b[0m by \x1b[1;33mTobias\x1b[0m" in colored


def test_full_shows_every_line() -> None:
    shown = sources(trace_of(TEXT, "Wrenn", ""), context=0, full=True, colored=False)
    assert [line[4:] for line in shown.splitlines()[2:]] == TEXT.splitlines()


def test_a_chunk_that_supports_nothing_still_shows_its_first_line() -> None:
    shown = sources(trace_of(TEXT, "xyzzy", ""), context=0, full=False, colored=False)
    assert shown.splitlines()[2:] == ["    The barque lay at anchor in the roads."]


def test_places_are_lines_or_pages() -> None:
    trace = trace_of(TEXT, "", "", chunk_words=8)
    assert place(trace.corpus.chunks[0]) == "log.txt:1-1"
    assert place(trace.corpus.chunks[1]) == "log.txt:2-3"
    paged = trace_of(TEXT, "", "", 8, pages=(PageSpan(4, 0, 39), PageSpan(5, 39, len(TEXT))))
    assert place(paged.corpus.chunks[0]) == "log.txt p. 4"


@given(st.text(alphabet="ab \n", max_size=600), st.integers(0, 3))
def test_lines_are_spans_of_the_chunk_that_miss_no_word(text: str, context: int) -> None:
    trace = trace_of(f"x {text}", "ab", "aab")
    chunk = trace.corpus.chunks[0]
    shown = shown_lines(chunk, supporting_terms(trace, 0))
    assert " ".join(chunk.text[line.start : line.end] for line in shown).split() == chunk.text.split()
    assert all(chunk.text.count("\n", 0, line.start) + 1 == line.number for line in shown)
    told = passages(shown, context)
    assert told
    assert [line for passage in told for line in passage] == [line for line in shown if any(line in p for p in told)]


def test_markdown_shows_what_the_document_says_and_obeys_none_of_it() -> None:
    told = markdown(trace_of("# <b>Wrenn</b> *sealed* [it](http://x)", "Wrenn", ""), context=0, full=True, with_sources=True)
    assert "\\<b\\>Wrenn\\</b\\>" in told
    assert "\\*sealed\\*" in told
    assert "\\[it\\](http" in told
    assert told.startswith("Wrenn[^1]")


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize(
    "text", ["The box was sealed by Tobias Wrenn. " * 30, "箱は船長によって封印された。" * 40], ids=["en", "ja"]
)
@pytest.mark.parametrize("colored", [False, True])
def test_passages_wrap_at_the_width_of_the_terminal(text: str, columns: int, colored: bool) -> None:
    trace = trace_of(text.strip(), "Tobias Wrenn 船長", "")
    shown = sources(trace, context=0, full=True, colored=colored, columns=columns).splitlines()[2:]
    widths = [width_of(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in shown]
    assert max(widths) <= columns
    assert min(widths[:-1]) > columns - 14  # filled up to the next word
    assert width_of(sources(trace, context=0, full=True, colored=False).splitlines()[2]) > 110


def test_a_line_end_in_a_name_forges_no_source() -> None:
    trace = trace_of(TEXT, "Wrenn", "", name="a.txt:1-9   99.99\n[7] fake.txt:1-2   50.00\t\u202e.txt")
    text = sources(trace, context=0, full=False, colored=False).splitlines()
    noted = markdown(trace, context=0, full=False, with_sources=True)
    assert len(text) == 3
    assert text[1].startswith("[1] a.txt:1-9 99.99 [7] fake.txt:1-2 50.00 \ufffd.txt:1-5")
    assert sum("fake" in line for line in noted.splitlines()) == 1
    assert any(line.startswith("[^1]: a.txt") and "fake" in line for line in noted.splitlines())
    assert not any("\n" in line for line in table(trace, limit=None, by_position=False, count_tokens=None))


def test_the_variation_selector_of_a_marked_word_stays() -> None:
    trace = trace_of("The ward 葛\U000e0100飾 is near.", "葛 ward", "")
    colored = sources(trace, context=0, full=True, colored=True)
    assert "\U000e0100" in colored
    assert "\ufffd" not in colored


def test_one_chunk_is_not_called_chunks() -> None:
    assert summary(trace_of(TEXT, "", ""), "CPU").startswith("1 chunk: 1 recalled")
