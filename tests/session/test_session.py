"""A question without a terminal: what a server, a batch or a notebook does with a session."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.fb_rag.baselines import SelfRoute, Vanilla
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.method import Method
from fbrag_cli.progress import Event, Listener
from fbrag_cli.query import ModelNames, Query
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import DocumentSettings, ModelSettings
from fbrag_cli.storage.cache import Cache
from fbrag_cli.trace import Trace
from tests.conftest import INQUIRY, ROOT

QUESTION = "Where was the Garefowl built?"
FAST = FBRag(recall=1, select=2, granularity="chunk", samples=2, forward_tokens=16, max_tokens=8, allow_unsupported=True)


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return []


@pytest.fixture(scope="module")
def session(smollm2: Path, events: list[Event], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    cache = Cache(tmp_path_factory.mktemp("cache") / "cache")
    settings = ModelSettings(small=str(smollm2), large=str(smollm2))
    with Session.open(settings, cache, Listener(progress=events.append)) as opened:
        yield opened


def test_a_second_question_finds_the_models_loaded(session: Session) -> None:
    collection = session.collect([str(INQUIRY)], DocumentSettings())
    session.prepare(FAST)
    first = session.ask(Query(QUESTION, collection, FAST))
    assert [stage.name for stage in first.stages] == ["read", "load", "recall", "forward", "select", "answer"]
    assert first.stages[1].seconds > 0
    assert first.missing_terms == ()
    assert (first.status, len(first.samples), len(first.selected)) == ("answered", 2, 2)
    again = session.ask(Query("Who was her master on horseback?", collection, FAST))
    assert again.missing_terms == ("horseback",)
    assert again.stages[1].seconds == 0
    other = session.retrieve(Query(QUESTION, collection, Vanilla(select=1)), answering=False)
    assert (other.status, other.samples, len(other.selected)) == ("retrieved", (), 1)


def test_a_model_is_loaded_when_it_is_needed_and_the_stage_begins_after_it(smollm2: Path, tmp_path: Path) -> None:
    def run() -> list[tuple[str, str]]:
        events: list[Event] = []
        settings = ModelSettings(small=str(smollm2), large=str(smollm2))
        with Session.open(settings, Cache(tmp_path / "cache"), Listener(progress=events.append)) as fresh:
            collection = fresh.collect([str(INQUIRY)], DocumentSettings())
            fresh.prepare(FAST)
            trace = fresh.ask(Query(QUESTION, collection, FAST))
            assert fresh.device == "" if "answer" in trace.cached else fresh.device
        return [(event.stage, event.kind) for event in events if event.kind in ("start", "done") and event.stage != "read"]

    forward, answer = [("forward", "start"), ("forward", "done")], [("answer", "start"), ("answer", "done")]
    load = [("forward", "start"), ("load", "start"), ("load", "done")]
    assert run() == [*load, *forward, *answer]
    assert run() == [*forward, *answer]


def test_a_run_has_a_listener_of_its_own(session: Session) -> None:
    heard: list[Event] = []
    collection = session.collect([str(INQUIRY)], DocumentSettings())
    method = Vanilla(select=1, max_tokens=8, allow_unsupported=True)
    trace = session.ask(Query("Xyzzy?", collection, method), Listener(progress=heard.append))
    assert [event.text for event in heard if event.kind == "warning"] == list(trace.warnings)
    assert "no chunk matches the question" in trace.warnings[0]
    assert "".join(event.text for event in heard if event.kind == "text").strip() == trace.answer


def test_the_same_bytes_read_otherwise_have_scores_of_their_own(tmp_path: Path) -> None:
    page = "<title>The Garefowl</title>" + "".join(f"<p>Line {i}: the mate <b>swore</b> twice.</p>" for i in range(200))
    page += "<p>The Garefowl was built in Leith.</p>"
    for name in ("page.html", "page.md"):
        (tmp_path / name).write_text(page)
    read = [("page.html", "en"), ("page.md", "en"), ("page.md", "de")]
    with Session.open(ModelSettings(), Cache(tmp_path / "cache")) as session:
        collections = [session.collect([str(tmp_path / name)], DocumentSettings(lang=lang), 30) for name, lang in read]
        for asked in ("Who built the Garefowl?", "Was she built by the mate?"):
            for each in collections:
                scores = session.retrieve(Query(asked, each, Vanilla(select=1)), answering=False).scores.backward
                assert scores.tolist() == each.retriever.scores(asked).tolist()
    assert len({each.corpus.fingerprint for each in collections}) == 3


def test_the_prompts_are_those_of_the_method(session: Session) -> None:
    collection = session.collect([str(INQUIRY)], DocumentSettings())

    def prompts(method: Method) -> tuple[Trace, dict[str, str]]:
        trace = session.retrieve(Query(QUESTION, collection, method))
        return trace, dict(session.prompts(trace))

    vanilla, titled = prompts(Vanilla(select=2))
    ((title, prompt),) = titled.items()
    best, second = (collection.corpus.chunks[position].text for position in vanilla.selection.ranked)
    assert title == "large model"
    assert prompt.index(best) < prompt.index(second) < prompt.index(QUESTION)
    _, routed = prompts(SelfRoute(select=1, max_tokens=8))
    assert '"unanswerable"' in routed["large model"]
    assert len(routed["large model, if it abstains"]) > 2 * len(routed["large model"])
    _, forward = prompts(FAST)
    assert forward["small model"].endswith("Rationale:")


def test_an_unknown_retriever_or_model_is_an_error_of_its_kind(session: Session) -> None:
    collection = session.collect([str(INQUIRY)], DocumentSettings())
    with pytest.raises(FbragError) as caught:
        session.retrieve(Query(QUESTION, collection, Vanilla(), retriever="none.gguf"), answering=False)
    assert caught.value.code == "model_missing"
    with pytest.raises(FbragError) as caught:
        session.prepare(Vanilla(), ModelNames(large="no-such-model"))
    assert caught.value.code == "model_missing"


def test_a_session_needs_no_terminal() -> None:
    program = "import sys; from fbrag_cli.session.session import Session; print('typer' in sys.modules, 'rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["False", "False"]
