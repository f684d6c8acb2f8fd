"""What an answer shows: every form draws the same numbers, notes and heading."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from fbrag_cli.batch.jobs import Job
from fbrag_cli.batch.row import answered
from fbrag_cli.render import as_json, live_page
from fbrag_cli.render.answer import answer_of
from fbrag_cli.render.html import page
from fbrag_cli.render.markdown import chat_message, markdown
from fbrag_cli.render.text import Layout, text
from fbrag_cli.serving.mcp import results
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
