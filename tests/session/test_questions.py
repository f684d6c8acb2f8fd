"""Several questions at once: answers in order, errors beside answers, and one thread that all events reach."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.errors import FbragError
from fbrag_cli.indexing.collect import collect_text
from fbrag_cli.methods.fb_rag.baselines import Vanilla
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.method import GetDigest, GetPart, Method
from fbrag_cli.progress import Event, Listener
from fbrag_cli.query import Collection, Query
from fbrag_cli.session.questions import answer_all, how_many_pay, in_order
from fbrag_cli.session.session import Session
from fbrag_cli.trace import Trace

FAST = FBRag(recall=2, select=1, samples=2, forward_tokens=12, max_tokens=12)
SHIPS = ("Garefowl", "Meridian", "Albatross", "Petrel")
QUESTIONS = [f"Where was the {ship} built{mark}?" for ship in SHIPS for mark in ("", " and when")]


def collection(*sentences: str) -> Collection:
    text = "\n\n".join(f"{sentence} " * 6 for sentence in sentences)
    return collect_text(Document.of("ships", "ships", Extracted(Content(text), "text/plain"), language="en"), 40)


@pytest.fixture(scope="module")
def ships() -> Collection:
    return collection(*(f"The {ship} was built at Leith in 18{10 + i}." for i, ship in enumerate(SHIPS)))


def told(found: Trace | FbragError) -> tuple[str, str | None, list[str]]:
    assert isinstance(found, Trace), found
    return found.question, found.answer, [sample.text for sample in found.samples]


def queries(asked: Iterable[tuple[str, Collection]], method: Method = FAST) -> Iterator[Query]:
    return (Query(question, collection, method) for question, collection in asked)


def answers(session: Session, asked: list[tuple[str, Collection]], at_once: int) -> list[tuple[str, str | None, list[str]]]:
    """Of a session without what it has cached."""
    session.cache.clear()
    session.forget()
    return list(map(told, answer_all(session, queries(asked), listener=Listener(), at_once=at_once)))


def test_questions_at_once_are_answered_as_one_by_one_and_in_order(session: Session, ships: Collection) -> None:
    others = collection("The keeper Anna wrote in her log.", "The torn sail was mended.")
    asked = [(question, ships) for question in QUESTIONS] + [("Who wrote in the log?", others), ("What was mended?", others)]
    session.prepare(FAST)
    alone = answers(session, asked, 1)
    assert [question for question, *_ in alone] == [question for question, _ in asked]
    assert len({tuple(samples) for *_, samples in alone}) == len(asked)
    assert answers(session, asked, 3) == alone
    assert answers(session, asked, 1) == alone


def test_a_group_on_a_small_document_is_answered_one_by_one(session: Session, ships: Collection) -> None:
    """They are those of the questions alone, which do not share a prompt's beginning."""
    method = replace(FAST, select=len(ships.corpus.chunks))
    session.prepare(method)
    stages: list[str] = []
    listener = Listener(progress=lambda event: stages.append(event.stage) if event.kind == "done" else None)
    traces = answer_all(session, queries([(question, ships) for question in QUESTIONS], method), listener=listener)
    found = [next(traces)]
    assert stages.count("forward") == len(QUESTIONS)
    assert stages.count("answer") < len(QUESTIONS)
    found += traces
    session.cache.clear()
    alone = []
    for question in QUESTIONS:
        session.forget()
        alone += answer_all(session, queries([(question, ships)], method), listener=Listener())
    assert [told(each) for each in found] == [told(each) for each in alone]


def test_an_error_is_that_of_its_question_alone(session: Session, ships: Collection) -> None:
    long = ("Where" + " a?" * 3_300, ships)
    asked = [(QUESTIONS[0], ships), long, (QUESTIONS[1], ships), long]
    for at_once in (1, 2):
        found = list(answer_all(session, queries(asked), listener=Listener(), at_once=at_once))
        assert [isinstance(each, Trace) for each in found] == [True, False, True, False]
        assert {each.code for each in found if isinstance(each, FbragError)} == {"prompt_too_long"}


def test_events_reach_the_thread_that_asks_and_no_other(session: Session, ships: Collection) -> None:
    events: list[tuple[Event, int]] = []
    listener = Listener(progress=lambda event: events.append((event, threading.get_ident())))
    method = Vanilla(select=1, max_tokens=4, allow_unsupported=True)
    traces = list(answer_all(session, queries([("Xyzzy?", ships), ("Plugh?", ships)] * 2, method), listener=listener, at_once=2))
    assert {thread for _, thread in events} == {threading.get_ident()}
    warnings = [event.text for event, _ in events if event.kind == "warning"]
    assert warnings == [warning for trace in traces if isinstance(trace, Trace) for warning in trace.warnings]
    assert [(event.stage, event.kind) for event, _ in events if event.kind != "warning"] == [("load", "start"), ("load", "done")]


def test_questions_are_taken_when_they_are_due(session: Session, ships: Collection) -> None:
    taken: list[str] = []

    def asked() -> Iterator[tuple[str, Collection]]:
        for question in QUESTIONS:
            taken.append(question)
            yield question, ships

    traces = answer_all(session, queries(asked()), listener=Listener(), at_once=2)
    first = next(traces)
    assert isinstance(first, Trace)
    assert first.question == QUESTIONS[0]
    assert len(taken) < len(QUESTIONS)
    traces.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]
    again = answer_all(session, queries([(QUESTIONS[0], ships)]), listener=Listener(), at_once=2)
    assert [each.answer for each in again if isinstance(each, Trace)] == [first.answer]


@pytest.mark.parametrize("error", [FbragError("timeout", "no answer within 1 s", None), KeyboardInterrupt()])
def test_a_request_to_stop_ends_all_of_them(session: Session, ships: Collection, error: BaseException) -> None:
    cancellation = Cancellation()
    traces = answer_all(
        session, queries((question, ships) for question in QUESTIONS), listener=Listener(cancellation=cancellation), at_once=3
    )
    assert isinstance(next(traces), Trace)
    cancellation.request(error)
    with pytest.raises(type(error)) as caught:
        list(traces)
    assert caught.value is error


def test_a_slow_first_task_holds_up_the_others() -> None:
    """Else thousands of results would wait in memory, and be lost if the process were killed."""
    n, others = 3, threading.Semaphore(0)
    out: list[int] = []
    early: list[int] = []

    def do(task: int, listener: Listener) -> int:
        if task:
            others.release()
        else:
            for _ in range(2 * n - 1):  # all that may be taken before it is done
                others.acquire()
        return task

    def tasks() -> Iterator[int]:
        for task in range(50):
            if task >= len(out) + 2 * n:
                early.append(task)
            yield task

    for task in in_order(do, tasks(), n, Listener()):
        out += [task]
    assert (out, early) == ([*range(50)], [])


def test_errors_of_documents_are_passed_on_in_order(session: Session, ships: Collection) -> None:
    error = FbragError("doc_unreadable", "a.pdf cannot be read", None)
    for at_once in (1, 2):
        asked = [error, Query(QUESTIONS[0], ships, FAST), error, error, Query(QUESTIONS[1], ships, FAST)]
        outcomes = answer_all(session, asked, listener=Listener(), at_once=at_once)
        shown = [each if isinstance(each, FbragError) else each.question for each in outcomes]
        assert shown == [error, QUESTIONS[0], error, error, QUESTIONS[1]]


def test_on_a_cpu_one_question_at_a_time_pays(session: Session) -> None:
    assert how_many_pay(session, FAST) == 1


def test_a_model_that_answers_with_an_adapter_is_not_loaded_without_it_too(
    session: Session, ships: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Adapted(Vanilla):
        def adapter(self, part: GetPart, digest: GetDigest) -> Path:
            return lora

    lora = tmp_path / "lora.gguf"
    lora.write_bytes(b"LoRA")
    monkeypatch.setattr("fbrag_cli.generation.llama.generator.LlamaGenerator.add_adapter", lambda self, path: None)
    session.__dict__["on_gpu"] = True  # as on a machine that has one
    how_many_pay(session, Adapted())
    session.ask(Query(QUESTIONS[0], ships, Adapted(select=1, max_tokens=4)))  # and its check
    assert [key.adapter for key in session.models._generators.values()] == [lora]
