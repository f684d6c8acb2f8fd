"""Pages and sections that a question names, and what is read of them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted, PageSpan, Section
from fbrag_cli.documents.named_places import named_places
from fbrag_cli.methods.fb_rag.baselines import OrderPreserving
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.registry import find_method
from tests.methods.scripted import Scripted, retrieved, tools

PAGES = [f"The gulls of day {i} slept on the pier and never read a page of it." for i in range(1, 13)]
PAGES[2] = "A brass key lay under the mat."
TITLES = ("4 Fees", "4.2 Late fees", "4.3 Waivers", "Chapter V: The end", "Slide 7: Prices")


def paged() -> Document:
    starts = [sum(len(page) + 1 for page in PAGES[:i]) for i in range(len(PAGES))]
    pages = tuple(PageSpan(i + 1, start, start + len(page)) for i, (start, page) in enumerate(zip(starts, PAGES, strict=True)))
    return Document.of("a.pdf", "a.pdf", Extracted(Content("\n".join(PAGES), pages), "application/pdf"))


def headed() -> Document:
    parts = [f"{title}\n\nText {i} of it.\n\n" for i, title in enumerate(TITLES)]
    starts = [sum(map(len, parts[:i])) for i in range(len(parts))]
    sections = tuple(Section(title, level, at) for title, level, at in zip(TITLES, (1, 2, 2, 1, 1), starts, strict=True))
    return Document.of("a.md", "a.md", Extracted(Content("".join(parts), sections=sections), "text/markdown"))


def named(question: str, document: Document) -> list[str]:
    return [document.text[slice(*span)].strip() for span in named_places(question, document)]


@pytest.mark.parametrize(
    "question",
    ["What is on page 3?", "Was steht auf Seite 3?", "Qu'y a-t-il à la page 3 ?", "¿Qué hay en la página 3?", "第3页写了什么？"],
)
def test_a_page_is_named_in_several_languages(question: str) -> None:
    assert named(question, paged()) == [PAGES[2]]


@pytest.mark.parametrize(
    ("question", "numbers"),
    [
        ("What does section 4.2 say?", "1"),
        ("Was sagt Abschnitt 4.2?", "1"),
        ("Que dit la section 4.2 ?", "1"),
        ("¿Qué dice la sección 4.2?", "1"),
        ("第4.2节说了什么？", "1"),
        ("What does section 4 say?", "012"),
        ("What happens in chapter 5?", "3"),
        ("What happens in Chapter V?", "3"),
        ("What is on slide 7?", "4"),
        ("What does section 4.20 say?", ""),
        ("Which part I like is not asked.", ""),
        ("What are the 4 fees?", ""),
    ],
)
def test_a_section_is_named_by_its_number_with_what_is_below_it(question: str, numbers: str) -> None:
    said = "".join(named(question, headed()))
    assert [number for number in "01234" if f"Text {number}" in said] == list(numbers)


def test_a_heading_that_nothing_marks_is_found_by_its_line() -> None:
    text = "Contents\n4.2 Late fees\n\n4.1 Fees\nTen euros.\n4.2 Late fees\nTwo euros a day.\n\nA 4.2 litre can.\n"
    document = Document.of("a.txt", "a.txt", Extracted(Content(text), "text/plain"))
    assert named("What does clause 4.2 say?", document)[-1].startswith("4.2 Late fees\nTwo euros")
    assert named("What is on page 3?", document) == []


def test_a_named_page_is_read_beside_the_best_chunks() -> None:
    corpus, question = build_corpus([paged()], 14), "What is on page 3, and where did the gulls of day 9 sleep?"
    key = next(chunk.position for chunk in corpus.chunks if "brass key" in chunk.text)
    plain = retrieved(OrderPreserving(select=2), "Where did the gulls of day 9 sleep?", tools(corpus))
    trace = retrieved(OrderPreserving(select=2), question, tools(corpus))
    assert key in trace.selected
    assert key not in plain.selected
    assert len(trace.selected) > len(plain.selected)
    assert any(each.position == key for each in trace.sources)
    vanilla = retrieved(find_method("vanilla")(select=2), question, tools(corpus))  # type: ignore[call-arg]
    assert key in vanilla.selected
    small = Scripted(["A key. Answer: a key"])
    for method in (FBRag(samples=1), FBRag(samples=1, granularity="chunk"), FBRag(samples=1, order="document")):
        looked = retrieved(method, question, tools(corpus, small=small))
        assert {key} <= {*looked.retrieved} & {*looked.selected}
        assert re.search(r"pages? \d(?:-\d)?\n(?:[^\n]*\n)?A brass key", small.asked[-1][0][0].text)
        retrieved(method, "Where did the gulls sleep?", tools(corpus, small=small))
        assert not re.search(r"pages? \d", small.asked[-1][0][0].text)


def test_in_several_documents_those_of_the_best_chunks_are_looked_at() -> None:
    other = replace(headed(), path="b.md", name="b.md")
    corpus = build_corpus([paged(), *[headed()] * 3, other], 14)
    trace = retrieved(OrderPreserving(select=1), "What brass key is under the mat on page 3?", tools(corpus))
    assert {corpus.chunks[each].document.name for each in trace.selected} == {"a.pdf"}
