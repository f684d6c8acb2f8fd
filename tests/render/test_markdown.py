"""An answer as a message of a chat: what pages make of it, and what comes back of it with the next question."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from fbrag_cli.render.answer import answer_of
from fbrag_cli.render.markdown import answer_in, chat_message, markdown, markup_free, section
from fbrag_cli.render.text import Layout
from fbrag_cli.text.languages import sentence
from fbrag_cli.trace import Trace, Verdict
from tests.render.test_passages import TEXT, asked, trace_of

EVIL = "![x](http://evil.test/a.png) <img src=//evil.test> [y](javascript:alert(1)) [^1]: http://evil.test 'z'"


def message(trace: Trace) -> str:
    return "".join(chat_message(answer_of(trace)))


def html(markdown: str) -> str:
    return str(MarkdownIt("commonmark").render(markdown))  # without footnotes, as many pages


def test_each_sentence_names_the_footnote_with_the_sentence_that_shows_it() -> None:
    told = message(trace_of(TEXT, "Tobias Wrenn sealed it. Nobody knew why.", ""))
    answer, *notes = told.split("\n\n")
    assert answer == "Tobias Wrenn sealed it.[^1] Nobody knew why."
    assert notes[-1] == "[^1]: log.txt:3 — “The box was sealed by Tobias Wrenn with lead.”"


@pytest.mark.parametrize("name", ["log.txt", "http://evil.test/a", "a b (c)", "<b>", '"c"', "x](http://evil.test)"])
def test_what_documents_and_models_say_is_no_markup_and_a_footnote_no_address(name: str) -> None:
    told = message(trace_of(f"The box was sealed by Tobias Wrenn {EVIL}.", f"Tobias Wrenn! {EVIL}", "", name=name))
    page = html(told)
    assert "[^1]: " in told
    assert "<a" not in page
    assert "<img" not in page
    assert "\n\n[^1]: " in told
    assert "[^1]: " in page, "a page without footnotes prints it"


@given(st.text("ab .!()[]^:1*_\\<>\n", max_size=24), st.text("ab .!()[]^:1*_\\<>\n", max_size=24))
def test_nothing_makes_a_link_of_what_stands_beside_it(first: str, then: str) -> None:
    told = message(trace_of(TEXT, f"Tobias Wrenn. {first}{EVIL}{then}", ""))
    assert "<a" not in html(told)
    assert "<img" not in html(told)


@given(st.text("ab .!()[]^:1*_\\<>&#\n", max_size=40).map(str.strip).filter(lambda text: "\n\n" not in text))
def test_the_answer_comes_back_as_it_was(said: str) -> None:
    assert answer_in(markup_free(said)) == said


@pytest.mark.parametrize("said", ["C:\\", "C:\\\\", "[^1]", "\\[^1]"])
def test_a_mark_behind_a_backslash_does_not_come_back(said: str) -> None:
    assert answer_in(f"{markup_free(said)}[^1]\n\n*Not in the sources: C*[^1]") == said


def test_a_conversation_in_markdown_names_no_option_of_the_command_line() -> None:
    declined = answer_of(replace(trace_of(TEXT, "Goss", ""), status="not_found"))
    assert "Unsupported answer: Goss\n" in section(declined, Layout(context=0), 1)
    assert "Unsupported answer: Goss (use --allow-unsupported" in markdown(declined, Layout(context=0))


def test_the_answer_is_read_out_of_its_message_again() -> None:
    trace = trace_of(TEXT, "Tobias [the] *Wrenn* sealed it.\n\n- Nobody slept.\n- Mr. Absent", "")
    unsure = replace(trace, verdict=Verdict(answer_probability=0.5, confidence=0.3), missing_terms=("zeppelin",))
    for each in (trace, unsure):
        told = message(each)
        assert "*Not in the sources: " in told
        assert ("*Low confidence*" in told) is answer_of(each).low_confidence
        assert told.startswith("Tobias")
        assert answer_in(told) == trace.answer
        assert answer_in(told + "\n") == trace.answer


def test_the_document_does_not_say() -> None:
    for question, language in (("Who sealed the box?", "en"), ("Wer hat die Kiste und das Fass versiegelt?", "de")):
        trace = replace(asked(trace_of(TEXT, "Paris", ""), question), status="not_found")
        told = message(trace)
        assert told.startswith(sentence(language, "not_found"))
        assert "*Closest passage:*[^1]" in told
        assert "--allow-unsupported" not in told
        assert "Paris" in told
        assert answer_in(told) == ""


def test_the_words_of_another_model_stay() -> None:
    told = "* one\n* two\n\n**Bold**, and a [link](http://x.test).\n\nNo notes."
    assert answer_in(told) == told
