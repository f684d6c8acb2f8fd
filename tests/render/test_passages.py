from __future__ import annotations

import re
from dataclasses import replace
from textwrap import wrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from fbrag_cli.batch.jobs import Job
from fbrag_cli.batch.row import answered
from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted, PageSpan
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.ranking import whole_chunks
from fbrag_cli.query import Collection, Query
from fbrag_cli.render import as_json
from fbrag_cli.render.answer import answer_of
from fbrag_cli.render.explain_text import table
from fbrag_cli.render.markdown import markdown
from fbrag_cli.render.passages import around, parts, place, shown_lines
from fbrag_cli.render.text import Layout, sources, summary
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.text.table import width_of
from fbrag_cli.trace import ForwardLookup, ForwardSample, Scores, Selection, Trace

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
    samples = (ForwardSample(index=0, seed=0, text=sample, rationale=sample, answer="", finish="stop"),)
    every = tuple(range(n))
    chunks = whole_chunks(corpus, every)
    return Trace(
        query=Query("Who sealed the box?", Collection(corpus, BM25.of(corpus)), FBRag()),
        scores=scores,
        selection=Selection(dict.fromkeys(every, ()), chunks),
        forward=ForwardLookup(read=chunks, messages=(), samples=samples),
        stages=(),
        models={},
        status="answered",
        answer=answer,
    )


def asked(trace: Trace, question: str) -> Trace:
    """The trace of another question."""
    return replace(trace, query=replace(trace.query, text=question))


def read_in_part() -> Trace:
    """Two chunks, of which the sentences are read that begin with Nobody, The box and At dawn."""
    trace = trace_of(TEXT, "Tobias Wrenn", "Wrenn sealed the box.", chunk_words=22)
    first, second = trace.corpus.chunks
    said = (
        (first, "Nobody slept."),
        (first, "The box was sealed by Tobias Wrenn with lead."),
        (second, "At dawn the wind went round."),
    )
    starts = ((chunk, TEXT.index(text), len(text)) for chunk, text in said)
    return trace.reading(tuple(chunk.part(start, start + length) for chunk, start, length in starts))


def shown(trace: Trace, context: int | None = 0, *, colored: bool = False, columns: int | None = None) -> str:
    layout = Layout(context=context, sources="all", colored=colored, columns=columns)
    return "\n\n".join(sources(answer_of(trace), layout))


def noted(trace: Trace, context: int | None = 0) -> str:
    return markdown(answer_of(trace), Layout(context=context))


def test_the_sentence_that_says_the_answer_is_shown_with_its_neighbours_and_marked() -> None:
    assert shown(trace_of(TEXT, "Tobias Wrenn", "Wrenn sealed the box."), 1).splitlines() == [
        "[1] log.txt:3",
        "    Nobody slept. The rain kept on.",
        "  > The box was sealed by Tobias Wrenn with lead.",
        "    The steward brought coffee at four.",
    ]


def test_in_colour_the_sentence_is_bold_and_the_answer_in_it_is_marked() -> None:
    trace = trace_of("Nobody slept. The box was sealed by Tobias Wrenn\nwith lead. Still Mr. Wrenn slept.", "Tobias Wrenn", "")
    assert shown(trace, 1, colored=True).splitlines()[1:] == [
        "    Nobody slept. \x1b[1mThe box was sealed by \x1b[0m\x1b[1;35mTobias\x1b[0m\x1b[1m \x1b[0m\x1b[1;35mWrenn\x1b[0m",
        "    \x1b[1mwith lead.\x1b[0m Still Mr. \x1b[35mWrenn\x1b[0m slept.",
    ]


def test_the_text_is_the_same_in_colour() -> None:
    trace = trace_of(TEXT, "Tobias Wrenn", "Wrenn sealed the box.")
    plain, colored = shown(trace, 2), re.sub(r"\x1b\[[0-9;]*m", "", shown(trace, 2, colored=True))
    assert plain.replace("  > ", "    ") == colored


def test_a_source_that_is_no_evidence_has_no_sentence_of_its_own() -> None:
    trace = trace_of("The box was sealed by Tobias Wrenn.\n\nHe had since made inquiries of it.", "Tobias Wrenn", "", 7)
    first, second = shown(trace, 1, colored=True).split("\n\n[2] ")
    assert "\x1b[1;35mTobias" in first
    assert second.splitlines()[1] == "    He had since made inquiries of it."
    assert ">" not in shown(trace, 1).split("\n\n[2] ")[1]


_COPPER = "Her copper was good. I would have gone to sea in her myself, and I say that as one who hates it. " * 2
FLOW = "\n".join(wrap(f"{_COPPER}The box was sealed by Wrenn with lead. {_COPPER}", 44))


@pytest.mark.parametrize("columns", [60, 80, 100, None])
@pytest.mark.parametrize("context", [1, 2])
def test_a_passage_of_prose_begins_and_ends_with_sentences_on_every_terminal(columns: int | None, context: int) -> None:
    trace = trace_of(FLOW, "Wrenn", "")
    lines = shown(trace, context, columns=columns).splitlines()[1:]
    assert " ".join(line[4:] for line in lines) == " ".join(line[4:] for line in shown(trace, context).splitlines()[1:])
    assert lines[0][4:].startswith(("Her copper", "I would", "The box"))
    assert lines[-1].endswith(("it.", "good."))


def test_full_shows_every_line_and_the_place_of_the_chunk() -> None:
    lines = shown(trace_of(TEXT, "Wrenn", ""), context=None).splitlines()
    assert lines[0] == "[1] log.txt:1-5"
    assert [line[4:] for line in lines[1:]] == TEXT.splitlines()
    assert [line[2] for line in lines[1:]] == [" ", " ", ">", " ", " "]


def test_a_chunk_that_supports_nothing_still_shows_its_first_line() -> None:
    trace = asked(trace_of(TEXT, "xyzzy", ""), "Qux?")
    assert shown(trace).splitlines() == ["[1] log.txt:1-5", "    The barque lay at anchor in the roads."]


def test_the_score_is_that_of_the_best_chunk_as_1() -> None:
    trace = trace_of(TEXT, "Wrenn", "", chunk_words=20)
    assert len(trace.corpus.chunks) == 2

    def scores(*combined: float) -> list[str]:
        scored = replace(trace, scores=replace(trace.scores, combined=np.array(combined, np.float32)))
        header, *rows, _ = table(scored, limit=None, by_position=True, count_tokens=None)
        assert header.split()[0] == "score"
        return [row.replace("*", "").split()[1] for row in rows]

    assert scores(80, 60) == ["1.00", "0.75"]
    assert scores(0, -2) == ["-", "-"]


def test_the_place_of_a_sentence_is_its_lines_or_its_page() -> None:
    text = "Nobody slept.\nThe box was sealed\nby Tobias Wrenn.\nThe rain kept on."
    assert "[1] log.txt:2-3\n" in shown(trace_of(text, "Tobias Wrenn", ""))
    assert "[1] log.txt p. 9\n" in shown(
        trace_of(text, "Tobias Wrenn", "", pages=(PageSpan(8, 0, 14), PageSpan(9, 14, len(text))))
    )


def test_places_are_lines_or_pages() -> None:
    trace = trace_of(TEXT, "", "", chunk_words=8)
    assert place(trace.corpus.chunks[0]) == "log.txt:1"
    assert place(trace.corpus.chunks[1]) == "log.txt:2-3"
    paged = trace_of(TEXT, "", "", 8, pages=(PageSpan(4, 0, 39), PageSpan(5, 39, len(TEXT))))
    assert place(paged.corpus.chunks[0]) == "log.txt p. 4"


@given(st.text(alphabet="ab. \n", max_size=600), st.integers(0, 3), st.sampled_from([20, 60, 120]))
def test_lines_are_spans_of_the_chunk_that_miss_no_word(text: str, context: int, columns: int) -> None:
    trace = trace_of(f"x {text}", "ab", "aab")
    chunk = trace.corpus.chunks[0]
    lines = shown_lines(chunk, columns)
    assert "".join("".join(line.text for line in lines).split()) == "".join(chunk.text.split())
    told = around(lines, trace.citations.evidence[0].sentence, context)
    assert told
    first = lines.index(told[0])
    assert told == lines[first : first + len(told)]


@given(st.text(alphabet="ab. \n", max_size=60), st.lists(st.integers(0, 60), max_size=6, unique=True))
def test_parts_hold_every_word_of_a_chunk_once(text: str, edges: list[int]) -> None:
    chunk = trace_of(f"x{text}", "", "").corpus.chunks[0]
    inside = sorted(chunk.start + edge for edge in edges if edge <= chunk.end - chunk.start)
    read = [chunk.part(start, end) for start, end in zip(inside[::2], inside[1::2], strict=False)]
    found = list(parts(chunk, read))
    assert "".join("".join(part.text.split()) for part, _ in found) == "".join(chunk.text.split())
    told = "".join(part.text for part, is_read in found if is_read)
    assert "".join(told.split()) == "".join("".join(each.text.split()) for each in read)
    assert all(part.text == part.text.strip() for part, _ in found)


def test_markdown_shows_what_the_document_says_and_obeys_none_of_it() -> None:
    told = noted(trace_of("# <b>Wrenn</b> *sealed* [it](http://x)", "Wrenn", ""), context=None)
    assert "\\<b\\>Wrenn\\</b\\>" in told
    assert "\\*sealed\\*" in told
    assert "\\[it\\](http" in told
    assert told.startswith("Wrenn[^1]")


def test_markdown_keeps_the_lines_of_a_document() -> None:
    text = "Chapter One\n===========\nWrenn\n---\n- sealed\n1. the box\n    with lead"
    told = noted(trace_of(text, "Wrenn", ""), context=None)
    quoted = "\n".join(line.removeprefix("    ") for line in told.splitlines() if line.startswith("    >"))
    html = MarkdownIt("commonmark").render(quoted)
    assert set(re.findall(r"<(\w+)", html)) == {"blockquote", "p"}
    assert "\n\xa0\xa0\xa0\xa0with lead" in html


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize(
    "text", ["The box was sealed by Tobias Wrenn. " * 30, "箱は船長によって封印された。" * 40], ids=["en", "ja"]
)
@pytest.mark.parametrize("colored", [False, True])
def test_passages_wrap_at_the_width_of_the_terminal(text: str, columns: int, colored: bool) -> None:
    trace = trace_of(text.strip(), "Tobias Wrenn 船長", "")
    lines = shown(trace, context=None, colored=colored, columns=columns).splitlines()[1:]
    widths = [width_of(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in lines]
    assert max(widths) <= columns
    assert min(widths[:-1]) > columns - 14  # filled up to the next word
    assert width_of(shown(trace, context=None).splitlines()[1]) > 110


@pytest.mark.parametrize("columns", [60, 80])
def test_lines_that_a_width_has_cut_are_joined_before_they_wrap(columns: int) -> None:
    text = "\n".join(wrap("The box was sealed by Tobias Wrenn with lead and then stowed below. " * 12, 79))
    poem = (
        "The box was sealed\nby Tobias Wrenn, who at the time of the wreck was below and slept on until the morning watch came\n"
    )
    lines = shown(trace_of(f"{text}\n\nThe rain kept on.", "Tobias Wrenn", ""), context=None, columns=columns).splitlines()[1:]
    assert min(width_of(line) for line in lines[:-3]) > columns - 14
    assert lines[-2:] == ["", "    The rain kept on."]
    assert shown(trace_of(poem * 9, "Wrenn", ""), context=None, columns=columns).splitlines()[1].endswith("The box was sealed")


def test_a_word_that_is_wider_than_the_terminal_is_cut() -> None:
    trace = trace_of("see https://example.org/" + "a" * 300 + " " + "箱" * 50 + " there", "there", "")
    lines = shown(trace, context=None, columns=40).splitlines()[1:]
    assert max(map(width_of, lines)) <= 40
    assert "".join(line.strip() for line in lines).replace(" ", "").replace(">", "") == trace.corpus.chunks[0].text.replace(
        " ", ""
    )


def test_a_line_end_in_a_name_forges_no_source() -> None:
    trace = trace_of(TEXT, "Wrenn", "", name="a.txt:1-9   99.99\n[7] fake.txt:1-2   50.00\t\u202e.txt")
    text, notes = shown(trace).splitlines(), noted(trace)
    assert len(text) == 2
    assert text[0] == "[1] a.txt:1-9 99.99 [7] fake.txt:1-2 50.00 \ufffd.txt:3"
    assert sum("fake" in line for line in notes.splitlines()) == 1
    assert any(line.startswith("[^1]: a.txt") and "fake" in line for line in notes.splitlines())
    assert not any("\n" in line for line in table(trace, limit=None, by_position=False, count_tokens=None))


def test_the_variation_selector_of_a_marked_word_stays() -> None:
    trace = trace_of("The ward 葛\U000e0100飾 is near.", "葛 ward", "")
    colored = shown(trace, context=None, colored=True)
    assert "\U000e0100" in colored
    assert "\ufffd" not in colored


def test_each_excerpt_of_a_chunk_is_a_source_and_the_text_around_it_is_not_shown() -> None:
    expected = [
        "[1] log.txt:3",
        "  > The box was sealed by Tobias Wrenn with lead.",
        "[2] log.txt:2",
        "    Nobody slept.",
        "[3] log.txt:5",
        "    At dawn the wind went round.",
    ]
    assert shown(read_in_part(), 5).replace("\n\n", "\n").splitlines() == expected
    assert shown(read_in_part(), context=None).replace("\n\n", "\n").splitlines() == expected
    assert re.findall(r"^    > (.*)", noted(read_in_part(), context=None), re.MULTILINE) == [line[4:] for line in expected[1::2]]


def test_json_has_a_source_for_each_excerpt_of_a_chunk() -> None:
    trace = read_in_part()
    found = as_json.answer(trace, memory_mb=0)["sources"]
    assert [[source[name] for name in ("id", "rank", "chunk", "start_line", "end_line")] for source in found] == [
        [1, 2, 1, 3, 3],
        [2, 1, 1, 2, 2],
        [3, 3, 2, 5, 5],
    ]
    assert all(source["text"] == TEXT[source["start_char"] : source["end_char"]] for source in found)
    sentence = found[0]["sentence"]
    assert TEXT[sentence["start_char"] : sentence["end_char"]] == "The box was sealed by Tobias Wrenn with lead."
    assert (sentence["start_line"], sentence["end_line"]) == (3, 3)
    assert [TEXT[start:end] for start, end in found[0]["highlights"]] == ["Tobias", "Wrenn"]
    assert as_json.answer(trace, memory_mb=0)["citations"][0]["sources"] == [1]
    row = answered(Job(("log.txt",), "1", trace.question), trace, {})
    assert [(source["id"], source["start_line"]) for source in row["sources"]] == [(1, 3), (2, 2), (3, 5)]


def test_the_summary_says_how_many_words_of_parts_of_chunks_are_read() -> None:
    assert ", 17 words of 2 chunks read" in summary(read_in_part(), "")
    assert summary(trace_of(TEXT, "", "", 22), "").endswith(", 2 selected")


def test_one_chunk_is_not_called_chunks() -> None:
    assert summary(trace_of(TEXT, "", ""), "CPU").startswith("1 chunk: 1 retrieved")
