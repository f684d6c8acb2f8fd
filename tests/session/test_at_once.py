"""Questions of several people at once: none waits for what another needs, and each is stopped alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.errors import FbragError
from fbrag_cli.generation import cached
from fbrag_cli.indexing.collect import collect_text
from fbrag_cli.methods.fb_rag.baselines import Vanilla
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.progress import Event, Listener
from fbrag_cli.query import Collection, ModelNames, Query, Role
from fbrag_cli.session.models import Models
from fbrag_cli.session.retrievers import Retrievers
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import DocumentSettings, ModelSettings
from fbrag_cli.storage.cache import Cache
from fbrag_cli.trace import Trace
from tests.conftest import INQUIRY
from tests.documents.test_pdf import pdf_of_contents, stream
from tests.documents.test_pdf_hostile import flate

FAST = FBRag(recall=2, select=1, samples=2, forward_tokens=8, max_tokens=8, allow_unsupported=True)
ALONE = Vanilla(select=1, max_tokens=4, allow_unsupported=True)
SECONDS = 60  # within which a thread is done, on a busy machine


def ships(*names: str) -> Collection:
    text = "\n\n".join(f"The {name} was built at Leith in 18{10 + i}. " * 6 for i, name in enumerate(names))
    return collect_text(Document.of(names[0], names[0], Extracted(Content(text), "text/plain"), language="en"), 40)


def told(trace: Trace) -> tuple[str, str | None, list[str], list[str]]:
    samples, texts = [sample.text for sample in trace.samples], [excerpt.text for excerpt in trace.context]
    return trace.question, trace.answer, samples, texts


class Held:
    """Something that takes long: it has begun, and goes on when it is let."""

    def __init__(self) -> None:
        self.begun, self.let = threading.Event(), threading.Event()

    def wait(self) -> None:
        self.begun.set()
        assert self.let.wait(SECONDS)


def test_two_people_ask_two_collections_while_a_third_stops_reading(session: Session, tmp_path: Path) -> None:
    heavy = stream(flate(b"BT /F1 12 Tf 14 TL 72 720 Td " + b"(abcdefghij) Tj T* " * 100_000 + b"ET"), b"/Filter/FlateDecode")
    slow, stop, reading = tmp_path / "slow.pdf", Cancellation(), threading.Event()
    slow.write_bytes(pdf_of_contents(*[heavy] * 60))
    asked = {"Garefowl": ships("Garefowl", "Meridian"), "Albatross": ships("Albatross", "Petrel")}

    def ask(name: str) -> list[Trace]:
        return [session.ask(Query(f"Where was the {name} built{end}", asked[name], FAST)) for end in ("?", " and when?")]

    def read() -> float:
        listener = Listener(progress=lambda event: reading.set(), cancellation=stop)
        with pytest.raises(FbragError, match="has gone") as caught:
            session.collect([str(slow)], DocumentSettings(), listener=listener)
        assert caught.value.code == "timeout"
        return monotonic()

    with ThreadPoolExecutor(3) as pool:
        stopped = pool.submit(read)
        answered = {name: pool.submit(ask, name) for name in asked}
        assert reading.wait(SECONDS)
        at = monotonic()
        stop.request(FbragError("timeout", "the client has gone", None))
        assert stopped.result(SECONDS) - at < 30  # its pages take minutes
        found = {name: [told(trace) for trace in future.result(SECONDS)] for name, future in answered.items()}
    session.cache.clear()
    session.forget()
    assert found == {name: [told(trace) for trace in ask(name)] for name in asked}


def test_a_cached_answer_does_not_wait_for_a_model_that_loads(
    session: Session, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one of a model that is loaded, for a model that is fetched."""
    other, collection, held, fetching = tmp_path / "other.gguf", ships("Garefowl", "Meridian"), Held(), Held()
    other.write_bytes(tiny.read_bytes())
    first = session.ask(Query("Where was the Garefowl built?", collection, ALONE))
    load = Models.open

    def slowly(self: Models, name: str, role: Role, listener: Listener | None = None) -> Any:
        if name == str(other):
            held.wait()
        return load(self, name, role, listener)

    def fetch(names: Sequence[str], store: Path) -> None:
        fetching.wait()
        raise FbragError("offline", "no network", None)

    monkeypatch.setattr(Models, "open", slowly)
    monkeypatch.setenv("FBRAG_MODELS_DIR", str(tmp_path / "models"))
    session.models.fetch = fetch
    with ThreadPoolExecutor(2) as pool:
        loading = pool.submit(session.ask, Query("Who built her?", collection, ALONE, ModelNames(large=str(other))))
        missing = pool.submit(session.ask, Query("Who built her?", collection, ALONE, ModelNames(large="smollm2-135m")))
        assert held.begun.wait(SECONDS)
        assert fetching.begun.wait(SECONDS)
        session.forget()
        again = session.ask(Query("Where was the Garefowl built?", collection, ALONE))
        assert "answer" in again.cached
        assert again.answer == first.answer
        assert session.ask(Query("And the Meridian?", collection, ALONE)).status == "answered"
        assert not loading.done()
        held.let.set()
        fetching.let.set()
        assert loading.result(SECONDS).status == "answered"
        with pytest.raises(FbragError, match="no network"):
            missing.result(SECONDS)


class Slow:
    """An embedding model that takes its time for chunks."""

    name, key = "slow", "ab" * 32

    def __init__(self, held: Held) -> None:
        self._held = held

    def embed(self, texts: Sequence[str], *, query: bool) -> Any:
        if not query:
            self._held.wait()
        return np.eye(len(texts), 4, dtype=np.float32)


def test_a_question_by_words_does_not_wait_for_embeddings(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    held, collection = Held(), ships("Garefowl", "Meridian")
    monkeypatch.setattr(Retrievers, "_load", lambda self, name, listener, owned: Slow(held))
    monkeypatch.setattr(Retrievers, "check", staticmethod(lambda name: None))
    with ThreadPoolExecutor(2) as pool:
        embedded = pool.submit(session.retrieve, Query("Who built her?", collection, ALONE, retriever="slow"))
        assert held.begun.wait(SECONDS)
        stop = Cancellation()
        waiting = Query("Who?", collection, ALONE, retriever="slow")
        stopped = pool.submit(session.retrieve, waiting, Listener(cancellation=stop))
        assert session.ask(Query("Where was the Garefowl built?", collection, ALONE)).status == "answered"
        stop.request(FbragError("timeout", "the client has gone", None))
        with pytest.raises(FbragError, match="has gone"):
            stopped.result(SECONDS)
        assert not embedded.done()
        held.let.set()
        assert embedded.result(SECONDS).retriever == "slow"


def test_models_that_are_let_go_are_loaded_for_the_next_question(session: Session) -> None:
    collection, method = ships("Garefowl", "Meridian"), replace(ALONE, max_tokens=3)
    first = session.ask(Query("Where was the Garefowl built?", collection, method))
    session.evict_idle(3600)
    assert session.device
    session.evict_idle(0)
    assert session.device == ""
    session.cache.clear()
    session.forget()
    again = session.ask(Query("Where was the Garefowl built?", collection, method))
    assert (again.answer, again.cached) == (first.answer, ())
    assert again.stages[1].seconds > 0


def test_a_model_that_a_question_runs_on_is_not_let_go(session: Session) -> None:
    def let_go(event: Event) -> None:
        session.evict_idle(0)

    collection = ships("Garefowl", "Meridian")
    trace = session.ask(Query("Where was the Garefowl built?", collection, FAST), Listener(progress=let_go))
    assert len(trace.samples) == 2
    assert session.device
    session.evict_idle(0)
    assert session.device == ""


def test_a_stopped_loading_does_not_stop_the_next_question(session: Session) -> None:
    collection, stop = ships("Garefowl", "Meridian"), Cancellation()

    def when_it_loads(event: Event) -> None:
        if event.stage == "load":
            stop.request(FbragError("timeout", "the client has gone", None))

    with pytest.raises(FbragError, match="has gone"):
        session.ask(Query("Where?", collection, ALONE), Listener(progress=when_it_loads, cancellation=stop))
    warnings: list[Event] = []
    assert session.ask(Query("Where?", collection, ALONE), Listener(progress=warnings.append)).status == "answered"
    assert ("load", "done") in [(event.stage, event.kind) for event in warnings]


def test_the_replies_in_memory_are_bounded(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached, "MOST_REPLIES", 2)
    collection = ships("Garefowl", "Meridian")
    for i in range(5):
        session.ask(Query(f"Where was the Garefowl built in 18{i}?", collection, ALONE))
    (replies,) = session._replies.values()
    assert len(replies._latest) == 2


def test_a_question_is_answered_from_what_it_retrieved(session: Session) -> None:
    """What was retrieved is there for whoever shows it, and for two answers."""
    trace = session.retrieve(Query("Where was the Garefowl built?", ships("Garefowl", "Meridian"), FAST))
    assert told(session.answer(trace)) == told(session.answer(trace))
    assert session.count_tokens("Leith", trace.query) > 0
    assert [title for title, _ in session.prompts(trace)] == ["small model", "large model"]


def test_counting_tokens_needs_no_large_model(session: Session, tiny: Path, tmp_path: Path) -> None:
    models = ModelNames(small=str(tiny), large=str(tmp_path / "missing.gguf"))
    trace = session.retrieve(Query("Where was the Garefowl built?", ships("Garefowl", "Meridian"), FAST, models), answering=False)
    assert session.count_tokens("Leith", trace.query) > 0


def test_a_real_model_answers_two_people_as_it_answers_each_of_them(smollm2: Path, tmp_path: Path) -> None:
    method = FBRag(recall=1, select=1, samples=1, forward_tokens=8, max_tokens=8, allow_unsupported=True)
    model = str(smollm2)
    with Session.open(ModelSettings(small=model, large=model, gpu="off"), Cache(tmp_path / "cache")) as session:
        inquiry, others = session.collect([str(INQUIRY)], DocumentSettings()), ships("Meridian", "Petrel")
        asked = [("Where was the Garefowl built?", inquiry), ("Where was the Petrel built?", others)]
        with ThreadPoolExecutor(2) as pool:
            found = [told(trace) for trace in pool.map(lambda each: session.ask(Query(*each, method)), asked)]
        session.cache.clear()
        session.forget()
        assert found == [told(session.ask(Query(*each, method))) for each in asked]
