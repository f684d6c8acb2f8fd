"""The fragments of the live page: that nothing of a document, a question or a model is markup in them, and what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fbrag_cli.documents.document import Content, Document, Extracted, Section
from fbrag_cli.render import live_page
from fbrag_cli.render.html import shades, shading, short_names
from fbrag_cli.text.printable import printable
from fbrag_cli.trace import Trace, Verdict
from tests.render.test_html import HOSTILE, HOSTILE_QUESTION, MARKUP, PLAIN_TAGS, SEALED, WATCH, _Page, document, trace_of
from tests.render.test_passages import asked

ALLOWED = (PLAIN_TAGS | {"br", "mark", "details", "summary", "blockquote"}) - {"html", "head", "body", "title", "meta", "style"}
CONTROLS = set("\x1b\x9b\x07\x00\u202e\u202c\u2066\u2069\u200b\ufeff")


def fragments(trace: Trace) -> Iterator[str]:
    """All HTML that the page is sent of one answer."""
    chunks = trace.corpus.chunks
    yield live_page.nearest(trace.corpus, {position: {} for position in range(len(chunks[:3]))}, trace.scores.backward)["html"]
    selected = live_page.selected(replace(trace, status="retrieved", answer=None), "j-")
    yield from (selected["html"], selected["samples_html"])
    yield from (value for key, value in live_page.done(trace, "j-").items() if key.endswith("_html"))
    yield from (html for _, html in live_page.done(trace, "j-")["chunks"])
    yield from (html for _, html in live_page.texts(trace.corpus, range(len(chunks))))


def assert_is_text(html: str) -> None:
    found = _Page(html)
    assert found.tags <= ALLOWED
    assert not {name for name in found.attributes if name.startswith("on") or name in ("style", "src")}
    assert not set(html) & CONTROLS


@settings(max_examples=30)
@given(st.lists(st.sampled_from(MARKUP) | st.text(max_size=5), max_size=20).map("".join))
def test_whatever_is_said_is_text_in_every_fragment(text: str) -> None:
    said = f"x {text}"
    for status in ("answered", "not_found"):
        documents = [document(said, said), document(said, "b")]
        trace = trace_of(
            documents, [0], question=said.replace("\0", ""), answer=said, samples=[said], status=status, warnings=(said,)
        )
        for html in fragments(trace):
            assert_is_text(html)
        for text in live_page.done(trace, "j-").values():
            assert not isinstance(text, str) or not set(text) & CONTROLS


def test_hostile_text_is_seen_and_is_no_markup() -> None:
    texts = [document(f"{HOSTILE}\n{WATCH * 40}", f"{HOSTILE}.txt")]
    trace = trace_of(
        texts, [0], question=HOSTILE_QUESTION, answer=f"Tobias Renshaw. {HOSTILE}", samples=[HOSTILE], warnings=(HOSTILE,)
    )
    for html in fragments(trace):
        assert_is_text(html)
    done = live_page.done(trace, "j-")
    assert "<script>" in _Page(done["answer_html"]).text
    assert "<script>" in _Page(done["samples_html"]).text
    assert done["question"] == printable(HOSTILE_QUESTION)


def test_the_ids_of_two_answers_differ_and_each_links_its_own() -> None:
    trace = trace_of([document(SEALED + WATCH * 80)], [0, 1], answer="Tobias Renshaw")
    found = [live_page.done(trace, prefix) for prefix in ("one-", "two-")]
    html = ["".join(value for key, value in each.items() if key.endswith("_html")) for each in found]
    ids = re.findall(r' id="(.*?)"', "".join(html))
    assert ids == [f"{job}-{each}" for job in ("one", "two") for each in ("source-1", "source-2", "sample-1")]
    for job, own in zip(("one", "two"), html, strict=True):
        links = set(re.findall(r'href="#(.*?)"', own))
        assert {each for each in links if not each.startswith("c")} == {f"{job}-source-1", f"{job}-sample-1"}
        assert {each for each in links if each.startswith("c")} == {"c1", "c2"}
    marked = "".join(html for _, html in found[1]["chunks"])
    assert re.findall(r'href="#(\w+-source-\d)"', marked) == ["two-source-1", "two-source-2"]


def test_an_answer_says_where_it_stands_and_can_be_copied() -> None:
    trace = trace_of([document(WATCH * 80 + SEALED + WATCH)], [0, 2], answer="Tobias Renshaw", recalled=(1,))
    done = live_page.done(replace(trace, verdict=Verdict(agreement=1.0)), "j-")
    assert done["marked"] == [2]
    assert done["sources"] == [2, 0]
    assert [at for at, _ in done["chunks"]] == [2, 0]
    assert done["sources_heading"] == "Sources"
    assert "supported by source 1" not in done["answer_html"]
    assert "1 of 1 sample agree" in done["figures_html"]
    assert done["copied"].startswith("Tobias Renshaw [1]\n\n[1] log.txt:")
    assert "<mark>Tobias</mark> <mark>Renshaw</mark>" in done["sources_html"]
    before = live_page.selected(replace(trace, status="retrieved", answer=None), "j-")
    assert before["sources"] == [0, 2]
    assert before["html"].count('class="brief"') == 2
    assert "value=" not in before["html"]


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["/home/ann/books/emma.txt"], ["emma.txt"]),
        (["letters/1893/a.txt", "letters/1894/a.txt"], ["1893/a.txt", "1894/a.txt"]),
        (["/home/ann/log.txt", "papers/inquiry.txt"], ["log.txt", "inquiry.txt"]),
        (["/home/ann/log.txt", "papers/log.txt"], ["/home/ann/log.txt", "papers/log.txt"]),
        (["/a.txt", "/b.txt"], ["a.txt", "b.txt"]),
        (["lettera.txt", "letterb.txt"], ["lettera.txt", "letterb.txt"]),
        (["stdin"], ["stdin"]),
        ([], []),
    ],
)
def test_documents_have_short_names(names: list[str], short: list[str]) -> None:
    assert short_names(names) == short


def test_places_have_the_short_names_and_a_copied_answer_the_whole_ones() -> None:
    texts = [document(SEALED + WATCH * 60, "/home/ann/ship/log.txt"), document(WATCH * 60, "/home/ann/ship/rates/slip.txt")]
    trace = trace_of(texts, [0, 2], answer="Tobias Renshaw")
    assert [each["name"] for each in live_page.outline(trace.corpus)[0]["documents"]] == ["log.txt", "rates/slip.txt"]
    html = "".join(fragments(trace))
    assert "/home/ann" not in html
    assert "<bdi>log.txt:1</bdi>" in html
    assert "/home/ann/ship/log.txt:1\n" in live_page.done(trace, "j-")["copied"]


def test_a_source_whose_sentence_is_a_number_goes_on() -> None:
    trace = trace_of([document("9.\n\nThe box was found open. " + WATCH * 70)], [0, 1], samples=["9."])
    html = live_page.selected(replace(trace, status="retrieved", answer=None), "j-")["html"]
    assert ">9. The box was found open." in html


def test_what_is_not_shown_needs_a_click() -> None:
    trace = trace_of([document(WATCH * 80)], [0], status="not_found", answer="Paris <b>")
    html = live_page.done(trace, "j-")["answer_html"]
    before, fold = html.split('<details class="proposed">')
    assert "No answer found in the document." in before
    assert "Paris" not in before
    assert "Paris &lt;b&gt;" in fold
    assert "--allow-unsupported" not in html
    spanish = asked(trace, "¿Quién selló la caja del cronómetro y por qué lo hizo?")
    assert "El documento no lo dice." in live_page.done(spanish, "j-")["answer_html"]


def test_an_answer_that_no_sentence_shows_leads_to_the_closest_one() -> None:
    trace = trace_of([document(WATCH * 80 + SEALED + WATCH)], [0, 2], answer="Paris")
    done = live_page.done(trace, "j-")
    (at,) = done["marked"]
    assert "No sentence that was read holds this." in done["answer_html"]
    assert {at for at, html in done["chunks"] if '<mark class="near">' in html} == {at}


def test_the_answer_comes_first_and_its_doubts_below_it() -> None:
    trace = replace(
        trace_of([document(WATCH * 80 + SEALED)], [0, 2], answer="Tobias"),
        missing_terms=("owns",),
        verdict=Verdict(agreement=0.5),
    )
    sure = live_page.done(trace, "j-")["answer_html"]
    assert sure.strip().startswith('<p class="said')
    assert "owns" not in sure
    assert "Low confidence" not in sure
    html = live_page.done(replace(trace, verdict=Verdict(agreement=0.0, answer_probability=0.5, confidence=0.3)), "j-")[
        "answer_html"
    ]
    assert html.strip().startswith('<p class="said')
    assert html.index("Tobias") < html.index("Low confidence")
    refused = live_page.done(replace(trace, status="not_found"), "j-")["answer_html"]
    assert refused.index("No answer found") < refused.index("Not in the document: owns")


def test_a_place_in_the_only_document_does_not_name_it() -> None:
    html = live_page.done(trace_of([document(WATCH * 80 + SEALED)], [0, 2], answer="Tobias Renshaw"), "j-")["sources_html"]
    assert "<bdi>line 1</bdi>" in html
    assert "log.txt" not in html


def test_a_question_without_a_selected_chunk_has_an_answer_of_its_own() -> None:
    trace = trace_of([document(WATCH)], [], samples=["nothing"])
    for html in fragments(trace):
        assert_is_text(html)
    assert live_page.done(trace, "j-")["sources_html"] == ""
    assert live_page.done(trace_of([document(WATCH)], [], status="not_found"), "j-")["marked"] == []


@given(st.lists(st.floats(-100, 100, width=32), max_size=30))
def test_the_shades_of_all_chunks_are_those_of_each(scores: list[float]) -> None:
    found = np.array(scores, np.float32)
    shade = shading(found)
    assert shades(found) == "".join(str(shade(float(score))) for score in found)


def test_pieces_of_a_text_say_together_what_one_says() -> None:
    sections = (Section("Chapter 1", 1, 0), Section("Chapter <2>", 1, 4000))
    book = Document.of("a.epub", "a.epub", Extracted(Content(WATCH * 200, sections=sections), "application/epub+zip"))
    corpus = trace_of([book, document(WATCH * 100, "b.txt", "")], [1, 8]).corpus
    n = len(corpus.chunks)
    whole = live_page.texts(corpus, range(n))
    assert [owner for owner, _ in whole] == [0, 1]
    html = "".join(html for _, html in whole)
    pieces = [live_page.texts(corpus, range(n)[at : at + 3]) for at in range(0, n, 3)]
    assert "".join(text for piece in pieces for _, text in piece) == html
    assert _Page(html).chunks == [printable(chunk.text) for chunk in corpus.chunks]
    assert html.count("Chapter") == 2
    assert "not shown" not in html
    assert "score" not in html


def test_an_outline_has_the_place_of_each_document_and_reads_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = trace_of([document(WATCH * 100, "a"), document(WATCH * 50, "b\n\x1b")], [0]).corpus

    def unread() -> Content:
        raise AssertionError("was read")

    corpus = replace(corpus, documents=tuple(replace(each, content=unread) for each in corpus.documents))
    found, shown = live_page.outline(corpus)
    assert [each["first"] for each in found["documents"]] == [0, len(corpus.chunks_of(0))]
    assert [each["name"] for each in found["documents"]] == ["a", "b ␛"]
    assert (shown, found["part"], found["n_parts"]) == (range(len(corpus.chunks)), 1, 1)
    monkeypatch.setattr(live_page, "_PART_SIZE", 4000)  # of documents that are too long for one page, parts meet
    parts = []
    while not parts or parts[-1].stop < len(corpus.chunks):
        found, shown = live_page.outline(corpus, parts[-1].stop if parts else 0)
        parts.append(shown)
        assert (found["part"], found["first"], found["end"]) == (len(parts), shown.start, shown.stop)
    assert found["n_parts"] == len(parts) > 2
    assert [position for part in parts for position in part] == list(range(len(corpus.chunks)))
