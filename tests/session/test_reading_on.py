"""One model in both roles reads no passage twice: Stage III goes on from Stage II, and twice as much from what was read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.query import Query
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.storage.cache import Cache
from fbrag_cli.trace import Stage, Trace
from tests.conftest import INQUIRY
from tests.generation.architectures import ARCHITECTURES

QUESTION = "Where was the Garefowl built?"
METHOD = FBRag(recall=2, select=5, samples=2, forward_tokens=8, max_tokens=8, order="read-first")  # the text has many chunks
ASKED = 800  # tokens of the template and of what is asked about the passages; a token of these models is a letter


@pytest.fixture(scope="module", params=["llama", "qwen35"])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with keys and values alone, and a hybrid, whose states are kept where prompts may part."""
    return ARCHITECTURES[request.param].write(tmp_path_factory.mktemp("tiny") / f"{request.param}.gguf")


@pytest.fixture
def session(file: Path, tmp_path: Path) -> Iterator[Session]:
    settings = ModelSettings(small=str(file), large=str(file), gpu="off", threads=1)
    with Session.open(settings, Cache(tmp_path / "cache")) as opened:
        yield opened


def answered(session: Session, method: FBRag) -> Trace:
    collection = session.collect([str(INQUIRY)], chunk_words=40)
    return session.ask(Query(QUESTION, collection, method))


def cost(trace: Trace, name: str) -> Stage:
    return next(stage for stage in trace.stages if stage.name == name)


@pytest.mark.parametrize("granularity", ["chunk", "window"])
def test_the_recalled_passages_are_read_once(session: Session, granularity: str) -> None:
    trace = answered(session, replace(METHOD, granularity=granularity))
    recalled = sum(len(excerpt.text) for excerpt in trace.forward.read)
    assert cost(trace, "answer").cached_tokens >= recalled
    assert cost(trace, "answer").prompt_tokens - cost(trace, "answer").cached_tokens <= (
        sum(len(excerpt.text) for excerpt in trace.context[2:]) + ASKED
    )


def test_more_reads_only_what_is_new(session: Session) -> None:
    first = answered(session, METHOD)
    larger = METHOD.reading_twice()
    assert isinstance(larger, FBRag)
    more = answered(session, larger)
    assert "samples" in more.cached
    assert cost(more, "answer").cached_tokens >= sum(len(excerpt.text) for excerpt in first.context)


def test_in_document_order_the_recalled_passages_are_read_again(session: Session) -> None:
    """What `order` is for: two of five passages, behind others."""
    trace = answered(session, replace(METHOD, order="document"))
    assert cost(trace, "answer").cached_tokens < sum(len(excerpt.text) for excerpt in trace.forward.read)
