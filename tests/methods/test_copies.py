"""Copies of a chunk count once in every selection, and all their places are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.methods.fb_rag.baselines import OrderPreserving
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.ranking import top_unique_chunks
from fbrag_cli.render import as_json
from fbrag_cli.render.answer import answer_of
from fbrag_cli.render.explain_text import found
from fbrag_cli.render.html import page
from fbrag_cli.render.markdown import markdown
from fbrag_cli.render.text import Layout, sources
from fbrag_cli.trace import Trace
from tests.methods.scripted import Scripted, retrieved, tools

LAMP = "The lamp of the lighthouse was kept by Agnes Moor alone."
OTHER = "The lamp of the harbour was broken by the great storm."
THIRD = "Nobody rang the bell of the old chapel on that day."
QUESTION = "Who kept the lamp of the lighthouse?"


def corpus_of(texts: Sequence[str]) -> Corpus:
    names = [f"{letter}.txt" for letter in "abcdefghijklmnopqrstuvwxyz"]
    documents = [
        Document.of(name, name, Extracted(Content(text), "text/plain"), sha256=name)
        for name, text in zip(names, texts, strict=False)
    ]
    return build_corpus(documents)


COPIED = corpus_of([THIRD, LAMP, LAMP.replace(" ", "\n", 3), OTHER, f"  {LAMP}"])


def answered(method: OrderPreserving, corpus: Corpus) -> Trace:
    return replace(retrieved(method, QUESTION, tools(corpus)), status="answered", answer="Agnes Moor")


def test_copies_take_one_place_and_the_next_best_chunk_moves_up() -> None:
    trace = retrieved(OrderPreserving(select=2), QUESTION, tools(COPIED))
    assert trace.selection.ranked == (1, 3)
    assert trace.selection.duplicates == {1: (2, 4), 3: ()}
    assert trace.selected == (1, 3)


def test_a_copy_is_no_more_to_read() -> None:
    assert retrieved(OrderPreserving(select=1), QUESTION, tools(COPIED)).has_more
    assert not retrieved(OrderPreserving(select=2), QUESTION, tools(COPIED)).has_more  # the third shares no word


def test_the_small_model_reads_a_copy_once_as_well() -> None:
    small = Scripted([f"{LAMP} Answer: Agnes Moor"])
    trace = retrieved(FBRag(recall=2, select=2, samples=1), QUESTION, tools(COPIED, small=small))
    assert trace.retrieved == (1, 3)
    assert (trace.selection.ranked, trace.selection.duplicates) == ((1, 3), {1: (2, 4), 3: ()})


def test_fewer_texts_than_places_are_all_selected() -> None:
    trace = retrieved(OrderPreserving(select=5), QUESTION, tools(corpus_of([LAMP, LAMP, OTHER])))
    assert (sorted(trace.selection.ranked), trace.selection.duplicates) == ([0, 2], {0: (1,), 2: ()})


def test_scores_of_copies_may_differ_by_rounding() -> None:
    corpus = corpus_of([LAMP, OTHER, LAMP])
    assert top_unique_chunks(corpus, np.array([1, 0.5, np.nextafter(np.float32(1), np.float32(0))], np.float32), 1) == {0: (2,)}
    assert top_unique_chunks(corpus, np.array([-0.5, -0.9, -0.5], np.float32), 1) == {0: (2,)}


def test_only_chunks_that_may_be_copies_are_read() -> None:
    """In a corpus of any size, the work is that of the selected chunks, their copies and a limited number of ties."""
    read: list[int] = []

    def content(number: int, text: str) -> Content:
        read.append(number)
        return Content(text)

    def many(n: int) -> Corpus:
        texts = [LAMP if i in (3, 7) else f"{OTHER} {i}" for i in range(n)]
        plain = [Document.of(f"{i}", f"{i}", Extracted(Content(text), "text/plain")) for i, text in enumerate(texts)]
        corpus = build_corpus(plain)
        lazy = tuple(replace(each, content=partial(content, i, texts[i])) for i, each in enumerate(plain))
        return Corpus(lazy, corpus.spans, corpus.chunk_words, corpus.fingerprint)

    corpus = many(2000)
    scores = np.full(2000, 0.5, np.float32)
    scores[[3, 7]] = 1
    assert top_unique_chunks(corpus, scores, 1) == {3: (7,)}
    assert set(read) == {3, 7}
    read.clear()
    scores[:] = 1
    top_unique_chunks(corpus, scores, 1)
    assert len(set(read)) < 200
    read.clear()
    scores[:] = 0
    assert top_unique_chunks(corpus, scores, 2) == {0: (), 1: ()}
    assert len(set(read)) < 10


def test_all_places_are_named() -> None:
    trace = answered(OrderPreserving(select=2), COPIED)
    first, second = sources(answer_of(trace), Layout(context=0, sources="all"))
    assert first.startswith("[1] b.txt:1, repeated at c.txt:1-4, e.txt:1\n")
    assert second.startswith("[2] d.txt:1\n    The lamp")
    assert "repeated at c.txt:1-4, e.txt:1" in markdown(answer_of(trace), Layout(context=0))
    assert "</a>, repeated at c.txt:1-4, e.txt:1</h3>" in page(trace)
    first, second = as_json.sources(trace, answer_of(trace))
    assert [(copy["document"], copy["chunk"], copy["end_line"]) for copy in first["duplicates"]] == [
        ("c.txt", 3, 4),
        ("e.txt", 5, 1),
    ]
    assert second["duplicates"] == []
    explained = as_json.explanation(trace, memory_mb=1)["chunks"]
    assert [chunk["duplicate_of"] for chunk in explained] == [None, None, 2, None, 2]
    fates = [line.partition(": ")[2].partition(" (")[0] for line in found(trace, {1: {True}, 2: {False}})]
    assert fates == ["selected", "duplicate of the selected chunk 2"]


def test_of_a_chunk_that_is_read_in_part_that_part_of_its_copies_is_named() -> None:
    texts = [
        "The gulls slept.\nAgnes Moor kept the lamp.",
        "The gulls\nslept.\n\nAgnes\nMoor kept the lamp.",
    ]
    trace = answered(OrderPreserving(select=1), corpus_of(texts))
    trace = trace.reading((trace.context[0].part(17, 42),))
    (source,) = as_json.sources(trace, answer_of(trace))
    assert source["text"] == "Agnes Moor kept the lamp."
    (copy,) = source["duplicates"]
    assert texts[1][copy["start_char"] : copy["end_char"]] == "Agnes\nMoor kept the lamp."
    assert "a.txt:2, repeated at b.txt:4-5\n" in next(sources(answer_of(trace), Layout(context=0)))


def test_many_places_are_counted_in_a_text() -> None:
    trace = answered(OrderPreserving(select=1), corpus_of([LAMP] * 6))
    answer = answer_of(trace)
    assert "a.txt:1, repeated at b.txt:1, c.txt:1, d.txt:1, 2 other places\n" in next(sources(answer, Layout(context=0)))
    assert len(as_json.sources(trace, answer)[0]["duplicates"]) == 5
