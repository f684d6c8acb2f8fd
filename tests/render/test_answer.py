"""What an answer shows: every form draws the same numbers, notes and heading."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from fbrag_cli.batch.jobs import Job
from fbrag_cli.batch.row import answered
from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.generation.generator import ModelInfo
from fbrag_cli.methods.fb_rag.baselines import OrderPreserving
from fbrag_cli.render import as_json, live_page
from fbrag_cli.render.answer import answer_of
from fbrag_cli.render.html import page
from fbrag_cli.render.markdown import chat_message, markdown
from fbrag_cli.render.text import Layout, text
from fbrag_cli.serving.mcp import results
from fbrag_cli.trace import Stage, Trace
from tests.methods.scripted import retrieved, tools
from tests.test_citations import BOX, ROADS, TOWN, trace_of

ANSWER = "Tobias Wrenn sealed it in 1893. He was born in Dunlathe."


def test_sources_are_counted_in_the_order_of_the_answer_and_then_best_first() -> None:
    answer = answer_of(trace_of(ROADS, TOWN, BOX, answer=ANSWER))
    assert [(each.number, each.rank, each.passage.document.name) for each in answer.sources] == [
        (1, 3, "2.txt"),
        (2, 2, "1.txt"),
        (3, 1, "0.txt"),
    ]
    assert [each.sources for each in answer.claims] == [(1,), (2,)]
    assert answer.cited == (1, 2)
    assert "".join(piece for piece, _ in answer.pieces) == ANSWER


def test_every_form_has_the_same_numbers() -> None:
    trace = trace_of(ROADS, TOWN, BOX, answer=ANSWER)
    answer, layout = answer_of(trace), Layout(context=0)
    everything = text(answer, Layout(context=0, sources="all"))
    assert re.findall(r"^\[(\d)\] (\d)", everything, re.MULTILINE) == [("1", "2"), ("2", "1"), ("3", "0")]
    assert re.findall(r"^\[\^(\d)\]: (\d)", markdown(answer, layout), re.MULTILINE) == [("1", "2"), ("2", "1"), ("3", "0")]
    assert re.findall(r"^\[\^(\d)\]: (\d)", "".join(chat_message(answer)), re.MULTILINE) == [("1", "2"), ("2", "1")]
    items = r'<li id="[\w-]*source-(\d)" value="(\d)".*>\n<(?:h3|p)><a href="#c\d"><bdi>(\d)'
    html = page(trace), live_page.done(trace, "j-")["sources_html"]
    assert [re.findall(items, each) for each in html] == [[("1", "1", "2"), ("2", "2", "1"), ("3", "3", "0")]] * 2
    told, row = as_json.answer(trace, memory_mb=0), answered(Job(("log.txt",), "1", trace.question), trace, {})
    for record in (told, row):
        assert [(each["id"], each["document"]) for each in record["sources"]] == [(1, "2.txt"), (2, "1.txt"), (3, "0.txt")]
        assert [each["sources"] for each in record["citations"]] == [[1], [2]]
    agent = results.answered(trace, 8_000)
    assert [(each["document"], each["cited"]) for each in agent["sources"]] == [
        ("2.txt", True),
        ("1.txt", True),
        ("0.txt", False),
    ]


def test_before_the_answer_sources_have_a_rank_and_no_number() -> None:
    trace = replace(trace_of(ROADS, TOWN, BOX, answer=ANSWER), status="retrieved", answer=None)
    answer = answer_of(trace)
    assert [(each.number, each.rank) for each in answer.sources] == [(None, 1), (None, 2), (None, 3)]
    event = as_json.Events().selected(trace)
    assert [(each["id"], each["rank"], each["document"]) for each in event["sources"]] == [
        (None, 1, "0.txt"),
        (None, 2, "1.txt"),
        (None, 3, "2.txt"),
    ]
    assert json.dumps(event)
    html = page(trace)
    assert "Rank 1</a>" in html
    assert "Source 1" not in html


def test_one_place_says_closest() -> None:
    unproved = trace_of(ROADS, TOWN, answer="Bromley", question="Who sealed the box with lead?")
    for trace in (unproved, replace(unproved, status="not_found")):
        answer = answer_of(trace)
        assert answer.heading == "Closest passage"
        assert "\n\nClosest passage: " in text(answer, Layout(context=0))
        assert "\n\nClosest passage: [^1]" in markdown(answer, Layout(context=0))
        assert "*Closest passage:*[^" in "".join(chat_message(answer))
        assert ">Closest passage</h2>" in page(trace)


NAMES = ["Ada Crome", "Ben Torvik", "Cleo Marsh", "Dirk Hansa", "Elin Rao", "Finn Oster", "Gia Bellamy", "Hugo Pratt"]
MEMBERS = [f"{name} was elected a member of the finance committee in {1990 + i}." for i, name in enumerate(NAMES)]
GULLS = [f"The gulls of day {10 + i} slept on the pier until the morning bell." for i in range(24)]


def read_in_part(question: str, texts: Sequence[str], select: int = 5) -> Trace:
    """The trace of an answer from the best chunks of a document of such sentences."""
    corpus = build_corpus([Document.of("log.txt", "log.txt", Extracted(Content(" ".join(texts)), "text/plain"))], 12)
    assert len(corpus.chunks) == len(texts)
    trace = retrieved(OrderPreserving(select=select), question, tools(corpus))
    return replace(trace, status="answered", answer="Ada Crome")


def last_note(trace: Trace) -> str:
    return [*answer_of(trace).notes()][-1]


def test_more_matches_than_were_read_are_said_in_every_form() -> None:
    trace = read_in_part("Who are the members of the finance committee?", [*MEMBERS, *GULLS])
    line = "5 of 8 matching passages read"
    assert last_note(trace) == f"{line}: --select 10"
    answer, layout = answer_of(trace), Layout(context=0)
    assert f"{line}: --select 10\n" in text(answer, layout)
    assert f"{line}: \\-\\-select 10" in markdown(answer, layout) or f"{line}: --select 10" in markdown(answer, layout)
    assert f"*{line}*" in "".join(chat_message(answer))
    assert f"{line} (more can be read)" in page(trace)
    told, row = as_json.answer(trace, memory_mb=0), answered(Job(("log.txt",), "1", trace.question), trace, {})
    for record in (told, row):
        assert record["matching_passages"] == {"read": 5, "found": 8}


def test_nothing_is_said_where_all_that_matches_was_read_or_little_matches() -> None:
    asked = "Who are the members of the finance committee?"
    for trace in (
        read_in_part(asked, [*MEMBERS, *GULLS], select=8),
        read_in_part("When was Cleo Marsh elected to the finance committee?", [*MEMBERS, *GULLS]),
        read_in_part("Which owl sang?", [*MEMBERS, *GULLS]),
        replace(read_in_part(asked, [*MEMBERS, *GULLS]), status="retrieved", answer=None),
    ):
        assert answer_of(trace).unread is None
        assert as_json.answer(trace, memory_mb=0)["matching_passages"] is None


def test_a_question_for_many_things_counts_what_matches_less() -> None:
    plain = read_in_part("Who was elected to the finance committee?", [*MEMBERS, *GULLS], select=2)
    assert last_note(plain) == "2 of 8 matching passages read: --select 4"
    youngest = read_in_part("Who was the youngest of the finance committee?", [*MEMBERS, *GULLS])
    assert last_note(youngest) == "5 of 8 matching passages read: --select 10"
    counted = read_in_part("How many were elected to the finance committee?", [*MEMBERS, *GULLS])
    assert as_json.answer(counted, memory_mb=0)["matching_passages"] == {"read": 5, "found": 8}


WHOLE = "This asks for the whole document: 5 of 32 passages were read"


@pytest.mark.parametrize(
    "question",
    [
        "How many were elected to the finance committee?",
        "Wie viele sind im finance committee?",
        "List all members.",
        "Summarize the log.",
        "Résume le texte.",
        "Fass das zusammen.",
        "¿Cuáles son los puntos principales?",
        "总结这份文件。",
    ],
)
def test_a_question_for_the_whole_document_says_in_every_form_how_much_was_read(question: str) -> None:
    trace = read_in_part(question, [*MEMBERS, *GULLS])
    answer, layout = answer_of(trace), Layout(context=0)
    assert last_note(trace) == f"{WHOLE}: --select 10"
    assert f"{WHOLE}: --select 10\n" in text(answer, layout)
    assert f"{WHOLE}: /more\n" in text(answer, layout, more=": /more")
    assert WHOLE in markdown(answer, layout)
    assert f"*{WHOLE}*" in "".join(chat_message(answer))
    assert f"{WHOLE} (more can be read)" in page(trace)
    for record in (as_json.answer(trace, memory_mb=0), answered(Job(("log.txt",), "1", question), trace, {})):
        assert WHOLE in record["warnings"]


def test_a_question_for_the_whole_document_names_what_reads_all_of_it() -> None:
    trace = read_in_part("Summarize the log.", [*MEMBERS, *GULLS])
    stages, window = (Stage("answer", 1.0, prompt_tokens=200),), ModelInfo("m", None, None, 4096)
    fitting = replace(trace, stages=stages, models={"large": window})
    assert last_note(fitting) == f"{WHOLE}: --method long-context"
    assert last_note(replace(fitting, models={"large": replace(window, context_tokens=512)})) == f"{WHOLE}: --select 10"
    assert last_note(replace(fitting, models={"large": replace(window, context_tokens=None)})) == f"{WHOLE}: --select 10"
    documents = [Document.of(name, name, Extracted(Content(name), "text/plain")) for name in ("apple", "pear", "plum")]
    several = retrieved(OrderPreserving(select=2), "Summarize the files.", tools(build_corpus(documents, 12)))
    told = last_note(replace(several, status="answered", answer="Fruit."))
    assert told == "This asks for all 3 documents: 2 of 3 passages were read: fbrag batch asks each one"


def test_nothing_is_said_of_the_whole_document_if_all_of_it_was_read_or_the_number_is_in_what_was_read() -> None:
    summary = "Summarize the log."
    for trace in (
        read_in_part(summary, [*MEMBERS, *GULLS], select=32),
        read_in_part("How many days was Cleo Marsh in the finance committee in 1992?", [*MEMBERS, *GULLS]),
        replace(read_in_part(summary, [*MEMBERS, *GULLS]), status="retrieved", answer=None),
    ):
        assert answer_of(trace).unread is None
        assert "asks for" not in str(as_json.answer(trace, memory_mb=0)["warnings"])
