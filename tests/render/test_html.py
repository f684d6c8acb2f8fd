"""The page of a trace: that nothing in it is lost or obeyed, and how it behaves in Chromium, with its scripts off."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted, PageSpan, Section
from fbrag_cli.generation.generator import ModelInfo
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.ranking import whole_chunks
from fbrag_cli.query import Collection, Query
from fbrag_cli.render.explain_text import samples
from fbrag_cli.render.html import page
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.text.printable import printable
from fbrag_cli.trace import ForwardLookup, ForwardSample, Scores, Selection, Stage, Status, Trace, Verdict
from tests.chromium import contrast, luminance, measured, requested, until, visit

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

HOSTILE = (
    "</style></title><script>document.title='owned'</script>\n"
    '"><img src="http://127.0.0.1:9/leak.png" onerror="document.title=\'owned\'">\n'
    "<link rel=stylesheet href=http://127.0.0.1:9/leak.css><iframe src=http://127.0.0.1:9/></iframe>\n"
    "' onmouseover=alert(1) {{ 7 * 7 }} {% raw %} &lt;b&gt; --> ]]> </textarea></svg>\n"
    "\x1b[31mred\x1b[0m \x9b2J bell\x07 nul\x00 \u202eevil\u202c \u2066iso\u2069 zero\u200bwidth \ud800 \ufeff\n" + "long" * 400
)
HOSTILE_QUESTION = HOSTILE.replace("\0", "")  # which is no question with NUL
MARKUP = [
    "<i>",
    "<a href=x>",
    "</div>",
    "<!--",
    "-->",
    "</title>",
    "&lt;",
    "&#60;",
    '"',
    "'",
    ">",
    "\x1b[2J",
    "\u202e",
    " ",
    "\n",
]
SEALED = "The bell was sealed by Tobias Renshaw."
WATCH = "The watch went below and the rain kept on. "


def document(text: str, name: str = "log.txt", language: str = "en", pages: tuple[PageSpan, ...] = ()) -> Document:
    return Document.of(name, name, Extracted(Content(text, pages), "text/plain", "utf-8"), language=language)


def trace_of(
    documents: Sequence[Document],
    selected: Sequence[int],
    *,
    recalled: Sequence[int] = (0,),
    question: str = "Who sealed the box?",
    answer: str | None = "Tobias Wrenn",
    samples: Sequence[str] = ("Wrenn sealed the box.",),
    status: Status = "answered",
    chunk_words: int = 300,
    warnings: tuple[str, ...] = (),
) -> Trace:
    """`selected`: positions, best first. Their scores fall from 10; the others' from 5 to 0."""
    corpus = build_corpus(documents, chunk_words)
    n = len(corpus.chunks)
    combined = np.linspace(5, 0, n).astype(np.float32)
    combined[list(selected)] = np.linspace(10, 8, len(selected))
    per_sample = np.stack([combined * 2 + k for k in range(len(samples))])
    scores = Scores(combined / 2, per_sample, per_sample.max(axis=0), per_sample.argmax(axis=0), combined)
    looked_forward = ForwardLookup(
        read=whole_chunks(corpus, recalled),
        messages=(),
        samples=tuple(
            ForwardSample(index=i, seed=i, text=text, rationale=text, answer="Wrenn", finish="stop")
            for i, text in enumerate(samples)
        ),
    )
    return Trace(
        query=Query(question, Collection(corpus, BM25.of(corpus)), FBRag()),
        scores=scores,
        selection=Selection(dict.fromkeys(selected, ()), whole_chunks(corpus, sorted(selected))),
        forward=looked_forward,
        stages=(Stage("recall", 0.25), Stage("forward", 1.5, 2400, 0, 300), Stage("answer", 2.25, 1800, 120, 12)),
        models={"small": ModelInfo("small.gguf", "ab" * 32, "0/25", 8192), "large": ModelInfo("large.gguf", None, "0/33", 8192)},
        status=status,
        answer=answer,
        verdict=Verdict(support=None if answer is None else 0.9),
        warnings=warnings,
    )


class _Page(HTMLParser):
    """The page as a browser would take it apart: its tags, and the text of each element that has an id or the class t."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.chunks: list[str] = []
        self._depth = 0
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.text += " " if tag in ("td", "th") else ""
        self.attributes |= {name for name, _ in attrs}
        if dict(attrs).get("class") == "t":
            self.chunks.append("")
            self._depth = 1
        elif self._depth and tag == "div":
            self._depth += 1

    def handle_endtag(self, tag: str) -> None:
        if self._depth and tag == "div":
            self._depth -= 1

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._depth:
            self.chunks[-1] += data


PLAIN_TAGS = _Page(page(trace_of([document(WATCH * 200, "a"), document(WATCH, "b")], [1, 0], warnings=("w",)))).tags


@settings(max_examples=60)
@given(st.lists(st.sampled_from(MARKUP) | st.text(max_size=5), max_size=20).map("".join))
def test_whatever_is_said_is_text_and_none_of_it_is_lost(text: str) -> None:
    said = f"x {text}"
    trace = trace_of(
        [document(said, said), document(said, "b")],
        [0],
        question=said.replace("\0", ""),
        answer=said,
        samples=[said],
        warnings=(said,),
        chunk_words=9,
    )
    found = _Page(page(trace))
    assert found.chunks == [printable(chunk.text) for chunk in trace.corpus.chunks]
    assert found.tags <= PLAIN_TAGS | {"br", "mark"}
    assert not {name for name in found.attributes if name.startswith("on") or name in ("style", "src")}
    assert printable(trace.question) in found.text


def test_the_page_says_where_its_sources_stand_and_how_they_came_about() -> None:
    told = _Page(page(trace_of([document(WATCH * 200)], [3, 1], recalled=(1, 2)))).text
    told = " ".join(told.split())
    assert "Tobias Wrenn" in told
    assert "log.txt:1 " in told
    assert "Source chunk combined backward forward sample 1 4 1.00 (10.00) 5.0 (#1) 20.0 (#1) 1" in told
    assert "best matches: chunk 4 (source 1)" in told
    assert "forward 1.50 2,400 0 300" in told
    assert "4.0 seconds in all" in told
    assert "small.gguf" in told
    assert "ab" * 32 in told


def test_sources_are_linked_into_the_document_and_pages_are_named() -> None:
    text = WATCH * 60
    html = page(trace_of([document(text, "log.pdf", pages=(PageSpan(7, 0, 900), PageSpan(8, 900, len(text))))], [1]))
    assert re.search(r'<h3><a href="#c2"><bdi>log.pdf p. 8</bdi></a></h3>', html)
    assert re.search(r'id="c2"><h3 class="at">.*Source 1.*chunk 2</a> <span>page 8</span>', html)


def test_a_sample_is_shown_with_why_it_was_cut() -> None:
    trace = trace_of([document(WATCH * 20)], [0])
    written = replace(trace.forward.samples[0], finish="repeat")
    trace = replace(trace, forward=replace(trace.forward, samples=(written,)))
    assert "seed 0, cut off: it repeats itself ·\nbest matches:" in page(trace)
    assert next(samples(trace)).startswith("forward sample 1, cut off: it repeats itself · best match: line 1")


def test_scores_of_an_embedding_model_have_three_digits() -> None:
    trace = trace_of([document(WATCH * 20)], [0])
    assert "<td>5.0 (#1)</td><td>20.0 (#1)</td>" in page(trace)
    assert "<td>5.000 (#1)</td><td>20.000 (#1)</td>" in page(replace(trace, query=replace(trace.query, retriever="minilm")))


def test_a_section_is_named_where_it_begins() -> None:
    content = Content(WATCH * 200, sections=(Section("Chapter 1", 1, 0), Section("Chapter 2\n<i>", 1, 4000)))
    html = page(trace_of([Document.of("a.epub", "a.epub", Extracted(content, "application/epub+zip"))], [1]))
    assert re.findall(r"<cite><bdi>(.*?)</bdi></cite>", html) == ["Chapter 1", "Chapter 2 &lt;i&gt;"]


def test_an_explanation_has_no_answer_and_a_refusal_says_so() -> None:
    documents = [document(WATCH * 100)]
    assert "Answer" not in _Page(page(trace_of(documents, [0], status="retrieved", answer=None))).text
    refused = _Page(page(trace_of(documents, [0], status="not_found", answer="Paris"))).text
    assert "No answer found in the document." in refused
    assert "Unsupported answer: “Paris”. The document does not support it." in refused
    assert "Closest" in refused


def test_what_no_sentence_shows_and_what_stands_nowhere_is_said_beside_the_answer() -> None:
    trace = replace(trace_of([document(WATCH * 100)], [0], answer="Tobias Wrenn"), missing_terms=("<horse>",))
    html = page(trace)
    assert "No sentence that was read holds this." in html


def test_the_answer_links_its_sources_and_the_sentence_that_shows_it_is_marked_there_and_in_the_document() -> None:
    text = WATCH * 80 + "\nThe box was sealed by Tobias <Wrenn>\nwith lead in 1893. " + WATCH * 20
    told = trace_of([document(text)], [0, 2], answer="Tobias Wrenn, in <1894>")
    html = page(replace(told, verdict=Verdict(agreement=1.0)))
    assert 'Tobias Wrenn, in &lt;1894&gt;<a href="#source-1" aria-label="Source 1">[1]</a></p>' in html
    assert '<p class="note">Not in the sources: <bdi lang="">1894</bdi></p>' in html
    words = "<mark>Tobias</mark> &lt;<mark>Wrenn</mark>&gt;"
    sentence = f'<mark class="best">The box was sealed by {words}\nwith lead in 1893.</mark>'
    assert html.count(sentence) == 2
    assert '<h3><a href="#c3"><bdi>log.txt:2-3</bdi></a></h3>' in html
    assert html.count('<mark class="best">') == 2  # the other source has no word of it


def test_only_what_is_cited_is_gold_and_the_rest_has_a_line() -> None:
    text = WATCH * 80 + "The box was sealed by Tobias Wrenn with lead. " + WATCH * 20
    told = replace(trace_of([document(text)], [0, 2], answer="Tobias Wrenn"), verdict=Verdict(agreement=1.0, confidence=0.81))
    html = page(told)
    assert html.index('id="source-1" value="1"') < html.index('id="source-2" value="2" class="brief"')
    assert html.count("<blockquote") == 1
    assert html.count("<mark class") == 2  # in the source and in the document
    assert html.index('class="said"') < html.index("supported by source 1 · 1 of 1 sample agree · confidence 81%")
    assert "Low confidence" not in html
    doubted = page(replace(told, verdict=Verdict(agreement=0.0, answer_probability=0.5, confidence=0.3)))
    assert doubted.index('class="said doubtful"') < doubted.index("Low confidence")


def test_where_the_document_does_not_say_only_the_closest_is_gold_and_an_unproved_answer_has_no_gold() -> None:
    text = WATCH * 80 + "The box was sealed by Tobias Wrenn with lead. " + WATCH * 20
    for status, mark in (("not_found", "closest"), ("answered", "near")):
        html = page(trace_of([document(text)], [0, 2], status=status, answer="Peter"))
        assert re.findall('<mark class="(.*?)">', html) == [mark, mark]
        assert html.count("<blockquote") == 1


def test_the_marks_of_a_source_that_is_a_part_of_its_chunk_are_in_the_right_place() -> None:
    text = "Nobody slept. The box was sealed by Tobias Wrenn."
    trace = trace_of([document(text)], [0])
    chunk = trace.corpus.chunks[0]
    html = page(trace.reading((chunk.part(14, len(text)),)))
    sentence = '<mark class="best">The box was sealed by <mark>Tobias</mark> <mark>Wrenn</mark>.</mark>'
    assert f'><span class="unread">Nobody slept.</span> {sentence}<' in html
    assert f">{sentence}</blockquote>" in html


def read_in_part() -> Trace:
    """Two chunks: of the first, the best, two sentences are read, of the second all."""
    text = (
        "Nobody slept. The box was sealed by Tobias Wrenn. The <rain> kept on.\nMr. Wrenn was the smith. Nothing else was said. "
        + WATCH * 2
    )
    trace = trace_of([document(text)], [0, 1], recalled=(1,), chunk_words=24)
    best, other = trace.corpus.chunks
    read = [(text.index(said), text.index(said) + len(said)) for said in ("The box was sealed by Tobias Wrenn.", "Mr. Wrenn was")]
    return trace.reading((*(best.part(*span) for span in read), other))


def test_a_chunk_that_is_read_in_part_links_its_sources_and_shows_what_is_read() -> None:
    trace = read_in_part()
    html = page(trace)
    assert _Page(html).chunks == [chunk.text for chunk in trace.corpus.chunks]
    first, second = re.findall(r'<div class="k .*?</div></div>', html, re.DOTALL)
    assert re.findall(r'href="#source-(\d)">(.*?)</a>', first) == [("1", "Source 1"), ("2", "Source 2")]
    assert re.findall(r'<span class="unread">(.*?)</span>', first) == [
        "Nobody slept.",
        "The &lt;rain&gt; kept on.",
        "the smith. Nothing else was said.",
    ]
    assert '<mark class="best">The box was sealed by <mark>Tobias</mark> <mark>Wrenn</mark>.</mark>' in first
    assert 'Mr. Wrenn was <span class="unread">' in first  # which is not cited
    assert "<span>10 of 22 words read</span>" in first
    assert re.findall(r'href="#source-(\d)"', second) == ["3"]
    assert "unread" not in second
    assert re.findall(r'<li id="source-\d" value="\d".*>\n<(?:h3|p)><a href="#(c\d)"><bdi>(.*?)</bdi>', html) == [
        ("c1", "log.txt:1"),
        ("c1", "log.txt:2"),
        ("c2", "log.txt:2"),
    ]
    assert 'title="1 · log.txt:1-2 · 10.00 · sources 1, 2"' in html
    assert "chunk 1 (sources 1, 2)</a>" in html
    assert "the rest of their text is pale" in html


def test_a_page_of_whole_chunks_says_nothing_of_parts() -> None:
    html = page(trace_of([document(WATCH * 200)], [0, 2]))
    assert 'class="unread"' not in html
    assert "words read" not in html
    assert "pale" not in html


def test_languages_are_told_where_they_are_known() -> None:
    html = page(trace_of([document("诺曼底 在 法国", "a", "zh"), document(WATCH, "b", "")], [0]))
    assert '<div class="t" dir="auto" lang="zh">诺曼底' in html
    assert '<div class="t" dir="auto" lang="">The watch' in html


def test_of_many_documents_only_those_with_a_selected_or_recalled_chunk_are_read_and_shown() -> None:
    read: list[int] = []

    def of(i: int) -> Document:
        def content() -> Content:
            read.append(i)
            return Content(f"letter {i} was sealed by Wrenn " * 40)

        return Document(
            path=f"{i}.txt",
            name=f"{i}.txt",
            media_type="text/plain",
            sha256="",
            language="en",
            n_chars=1200,
            content=content,
        )

    trace = trace_of([of(i) for i in range(1200)], [9], recalled=(4, 5))
    read.clear()
    found = _Page(page(trace))
    assert set(read) == {4, 5, 9}
    assert [chunk[:9] for chunk in found.chunks] == ["letter 4 ", "letter 5 ", "letter 9 "]
    assert "1,197 others are not" in found.text
    assert "for the best 1,000" in found.text


def test_of_a_document_that_is_too_long_the_neighbourhood_of_its_selected_chunks_is_shown() -> None:
    words = [f"w{i}" for i in range(9000)]
    found = _Page(page(trace_of([document(" ".join(words))], [5000], recalled=(10,), chunk_words=1)))
    assert found.chunks == [*words[:31], *words[4980:5021]]
    assert "4,949 chunks not shown" in found.text
    assert "3,979 chunks not shown" in found.text


# In a browser.


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A book of 400 chunks, with hostile text in the selected ones, in everything that is said, and in its name."""
    chapters = [WATCH * 33 + f"\n\nCHAPTER {i}\n\n" for i in range(400)]
    chapters[40] = f"{SEALED} {chapters[40]}"
    chapters[320] = f"{HOSTILE}\n{chapters[320]}"
    trace = trace_of(
        [document("".join(chapters), f"{HOSTILE}.txt"), document("كتب رن على الصندوق بالرصاص. " * 60, "سفر.txt", "ar")],
        [321, 40, 322, 200, 90],
        recalled=(1, 2, 40),
        question=HOSTILE_QUESTION,
        answer=f"Tobias Renshaw. {HOSTILE}",
        samples=[HOSTILE, WATCH],
        warnings=(HOSTILE,),
    )
    path = tmp_path_factory.mktemp("page") / "book.html"
    path.write_text(page(replace(trace, verdict=Verdict(agreement=0.0, answer_probability=0.5, confidence=0.3))), "utf-8")
    return path


def opened(
    chromium: Chrome, path: Path, *, width: int = 1400, scheme: str = "light", media: str = "screen", scripts: bool = False
) -> None:
    """The page in a fresh view, the network off."""
    visit(chromium, "about:blank")
    for command, parameters in {
        "Emulation.setScriptExecutionDisabled": {"value": not scripts},
        "Emulation.setEmulatedMedia": {"media": media, "features": [{"name": "prefers-color-scheme", "value": scheme}]},
        "Emulation.setDeviceMetricsOverride": {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        "Network.emulateNetworkConditions": {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1},
    }.items():
        chromium.execute_cdp_cmd(command, parameters)
    for log in ("browser", "performance"):
        chromium.get_log(log)
    visit(chromium, path.as_uri())


FORMS = [(360, "light"), (360, "dark"), (800, "light"), (1030, "dark"), (1400, "light"), (1400, "dark")]


@pytest.mark.parametrize(("width", "scheme"), FORMS)
def test_the_page_fits_is_readable_and_asks_for_nothing(chromium: Chrome, book: Path, width: int, scheme: str) -> None:
    opened(chromium, book, width=width, scheme=scheme)
    assert measured(chromium, "document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert measured(chromium, "(e => e.scrollWidth <= e.clientWidth)(document.querySelector('table').parentElement)")
    seen = "h1|.said|.note|.sources blockquote|.scores|.at|.jump a|.pill|.k.on .t|.unsure|summary|mark.best"
    for selector in seen.split("|"):
        assert contrast(chromium, selector) >= 4.5, selector
    paper = measured(chromium, "getComputedStyle(document.body).backgroundColor")
    assert (luminance(paper) > 0.5) == (scheme == "light")
    assert requested(chromium) == [book.as_uri()]
    assert chromium.get_log("browser") == []


@pytest.mark.parametrize("media", ["screen", "print"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_not_read_is_paler_and_readable(chromium: Chrome, tmp_path: Path, scheme: str, media: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(read_in_part()), "utf-8")
    opened(chromium, path, scheme=scheme, media=media)
    assert 4.5 <= contrast(chromium, ".k.on .unread") < contrast(chromium, ".k.on .t") / 1.5
    chromium.get(f"{path.as_uri()}#c1")
    until(chromium, "document.querySelector('#c1:target')")
    assert contrast(chromium, ".k:target .unread") >= 4.5


@pytest.mark.parametrize(("width", "scheme"), [FORMS[0], FORMS[-1]])
@pytest.mark.parametrize("number", [3, 200, 323, 400])
def test_a_cell_of_the_map_brings_its_chunk_into_view(chromium: Chrome, book: Path, number: int, width: int, scheme: str) -> None:
    from selenium.webdriver.common.by import By

    opened(chromium, book, width=width, scheme=scheme)
    chromium.find_element(By.CSS_SELECTOR, f'.strip a[href="#c{number}"]').click()
    top, height = measured(chromium, f"(r => [r.top, r.height])(document.getElementById('c{number}').getBoundingClientRect())")
    assert 0 <= top < 300
    assert height > 100
    text = measured(chromium, f"document.elementFromPoint(innerWidth / 3, {top + 70}).closest('.k').id")
    assert text == f"c{number}"


def test_selected_chunks_have_a_mark_and_a_label_in_the_map_and_in_the_document(chromium: Chrome, book: Path) -> None:
    opened(chromium, book)
    cells = "[...document.querySelectorAll('.strip div a')]"
    assert measured(chromium, f"{cells}.length") == measured(chromium, "document.querySelectorAll('.k').length")
    marked = f"{cells}.filter(a => getComputedStyle(a).boxShadow != 'none' && a.title.includes('source'))"
    assert measured(chromium, f"{marked}.map(a => a.hash)") == ["#c41", "#c91", "#c201", "#c322", "#c323"]
    assert measured(chromium, f"{cells}[40].title").startswith("41 · ")
    assert measured(chromium, f"{cells}[40].title").endswith(" · 9.50 · source 1 · retrieved")
    labels = measured(chromium, "[...document.querySelectorAll('.k .pill')].map(e => e.closest('.k').id + ' ' + e.textContent)")
    assert labels == ["c41 Source 1", "c91 Source 5", "c201 Source 4", "c322 Source 2", "c323 Source 3"]
    following = measured(chromium, "[...document.querySelectorAll('.k .at a:last-child')].map(e => e.hash + ' ' + e.textContent)")
    assert [link for link in following if "next" in link] == [f"#c{n} next source" for n in (91, 201, 322, 323)]
    gold = measured(chromium, "[...document.querySelectorAll('.k mark.best')].map(e => e.closest('.k').id + e.textContent)")
    assert gold == [f"c41{SEALED}"]


@pytest.mark.parametrize("scripts", [False, True])
def test_hostile_text_is_seen_and_does_nothing(chromium: Chrome, book: Path, scripts: bool) -> None:
    opened(chromium, book, scripts=scripts)
    assert measured(chromium, "document.querySelectorAll('script, img, iframe, link, object, form, base').length") == 0
    assert measured(chromium, "document.title").endswith(" · fbrag")
    shown = measured(chromium, "document.querySelector('h1').innerText")
    for seen in ("<script>", "onerror=", "{{ 7 * 7 }}", "&lt;b&gt;", "␛[31mred", "�evil�", "zero�width"):
        assert seen in shown
    assert "nul␀" in measured(chromium, "document.body.textContent")
    everything = measured(chromium, "document.documentElement.outerHTML")
    assert not set(everything) & set("\x1b\x9b\x07\x00\u202e\u202c\u2066\u2069\u200b\ufeff")
    assert requested(chromium) == [book.as_uri()]
    assert chromium.get_log("browser") == []


def test_the_keyboard_reaches_the_document_past_the_map_and_focus_is_seen(chromium: Chrome, book: Path) -> None:
    from selenium.webdriver import ActionChains, Keys

    opened(chromium, book)
    ActionChains(chromium).send_keys(Keys.TAB).perform()
    assert measured(chromium, "document.activeElement.innerText") == "Skip to the document"
    assert measured(chromium, "getComputedStyle(document.activeElement).outlineStyle") == "solid"
    ActionChains(chromium).send_keys(Keys.ENTER).perform()
    assert 0 <= measured(chromium, "document.querySelector('.documents').getBoundingClientRect().top") < 300


def test_texts_run_in_their_own_direction(chromium: Chrome, book: Path) -> None:
    opened(chromium, book)
    directions = measured(chromium, "[...document.querySelectorAll('.t')].map(e => getComputedStyle(e).direction)")
    assert (directions[0], directions[-1]) == ("ltr", "rtl")


def test_the_closest_source_comes_first_and_the_others_in_a_fold(chromium: Chrome, tmp_path: Path) -> None:
    text = WATCH * 80 + "The box was sealed by Tobias Wrenn with lead. " + WATCH * 20
    path = tmp_path / "page.html"
    closest = trace_of([document(text)], [0, 1, 2], status="not_found", question="Who sealed the box with lead?")
    path.write_text(page(closest), "utf-8")
    opened(chromium, path)
    measured(chromium, "document.querySelector('.others').open = true")
    nodes = chromium.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    by_id = {node["nodeId"]: node for node in nodes}

    def text_of(node: dict[str, Any]) -> str:
        name = node["name"]["value"] if node["role"]["value"] == "StaticText" else ""
        return name + "".join(text_of(by_id[each]) for each in node["childIds"] if each in by_id)

    items = [text_of(node) for node in nodes if node["role"]["value"] == "listitem"]
    assert [item[:1] for item in items if "log.txt" in item] == ["1", "2", "3"]
