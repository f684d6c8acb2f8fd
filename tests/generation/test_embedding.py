"""Embeddings through llama.cpp, with all-MiniLM-L6-v2 as a GGUF file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.llama.encoder import LlamaEmbedder
from fbrag_cli.generation.llama.weights import Loading
from fbrag_cli.retrieval.dense import prefixes_of
from tests.retrieval import minilm

TEXTS = [
    "The keeper of the lighthouse lit the lamp at dusk.",
    "At nightfall the lighthouse was illuminated by its guard.",
    "Interest rates rose again in the third quarter.",
    "Der Leuchtturmwärter zündete die Lampe an.",
    "東京は日本の首都です。",
    "naïve café – 3.14 % of Zürich's budget",
]
#: Their cosines by sentence-transformers 6.2.0 on torch 2.13.0, above the diagonal, row by row.
COSINES = [
    0.7018,
    -0.0327,
    0.3916,
    0.0503,
    0.0166,
    0.0031,
    0.2089,
    -0.0035,
    0.0125,
    0.0113,
    -0.0486,
    0.1878,
    0.1660,
    0.1409,
    0.0229,
]
LONG = "The harbour was empty and the sea was calm. " * 60  # more than two windows


@pytest.fixture(scope="module")
def files(pytestconfig: pytest.Config) -> Path:
    return minilm.fetched(pytestconfig)


@pytest.fixture(scope="module")
def embedder(files: Path) -> Iterator[LlamaEmbedder]:
    with LlamaEmbedder(files / "all-MiniLM-L6-v2.gguf", Loading(threads=1)) as loaded:
        yield loaded


def test_cosines_are_those_of_sentence_transformers(embedder: LlamaEmbedder) -> None:
    embeddings = embedder.embed(TEXTS, query=False)
    assert embeddings.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)
    found = (embeddings @ embeddings.T)[np.triu_indices(len(TEXTS), 1)]
    np.testing.assert_allclose(found, COSINES, atol=2e-3)


def test_a_text_does_not_depend_on_its_company(embedder: LlamaEmbedder) -> None:
    texts = [LONG, *TEXTS * 11, "", LONG + "Then a whale came."]  # several batches, of more texts than a batch may have
    together = embedder.embed(texts, query=False)
    alone = np.concatenate([embedder.embed([text], query=False) for text in texts])
    assert (together * alone).sum(axis=1).min() > 0.9999


def test_the_end_of_a_text_beyond_the_window_counts(embedder: LlamaEmbedder) -> None:
    plain, ended, whale = embedder.embed([LONG, LONG + "Then a white whale sank the ship.", "a white whale"], query=False)
    assert float(ended @ whale) > float(plain @ whale) + 0.02


def test_the_models_markers_in_a_text_are_words(embedder: LlamaEmbedder) -> None:
    """Two texts that are one pair of sentences to a tokenizer that reads markers."""
    marked, spelled = embedder.embed(["a calm sea [SEP] an empty harbour", "a calm sea [ sep ] an empty harbour"], query=False)
    assert float(marked @ spelled) > 0.999


def test_queries_and_passages_get_their_prefixes(files: Path) -> None:
    with LlamaEmbedder(
        files / "all-MiniLM-L6-v2.gguf", Loading(threads=1), prefixes=lambda name: ("question: ", "text: ")
    ) as prefixed:
        question, passage = (prefixed.embed(["whales"], query=query)[0] for query in (True, False))
        key = prefixed.key
    with LlamaEmbedder(files / "all-MiniLM-L6-v2.gguf", Loading(threads=1)) as plain:
        expected = plain.embed(["question: whales", "text: whales"], query=True)
        assert plain.key != key
    np.testing.assert_allclose([question, passage], expected, atol=1e-5)


def test_a_model_is_asked_for_its_prefixes_by_its_own_name_too(files: Path) -> None:
    names: list[str] = []

    def told(name: str) -> tuple[str, str]:
        names.append(name)
        return "", ""

    with LlamaEmbedder(files / "all-MiniLM-L6-v2.gguf", Loading(threads=1), prefixes=told):
        assert names == ["all-MiniLM-L6-v2 all MiniLM L6 v2"]


def test_prefixes_by_name() -> None:
    bge = ("Represent this sentence for searching relevant passages: ", "")
    assert prefixes_of("BAAI/bge-large-en-v1.5") == prefixes_of("model-q8 Bge Large En v1.5") == bge
    assert prefixes_of("intfloat/multilingual-e5-large") == ("query: ", "passage: ")
    assert prefixes_of("multilingual-e5-large-instruct")[0].startswith("Instruct: ")
    for name in ("BAAI/bge-m3", "sentence-transformers/all-mpnet-base-v2", "bge-reranker-large", "made5-small"):
        assert prefixes_of(name) == ("", "")


def test_the_key_tells_files_apart(files: Path, tmp_path: Path) -> None:
    cls = minilm.convert(files / "all-MiniLM-L6-v2", tmp_path / "all-MiniLM-L6-v2.gguf", pooling=2)
    with LlamaEmbedder(cls) as one, LlamaEmbedder(files / "all-MiniLM-L6-v2.gguf", Loading(threads=1)) as other:
        assert one.key != other.key
        assert float(one.embed(TEXTS[:1], query=False)[0] @ other.embed(TEXTS[:1], query=False)[0]) < 0.99


def test_a_reranker_is_refused(files: Path, tmp_path: Path) -> None:
    reranker = minilm.convert(files / "all-MiniLM-L6-v2", tmp_path / "reranker.gguf", pooling=4)
    with pytest.raises(FbragError, match="reranker") as told:
        LlamaEmbedder(reranker)
    assert told.value.code == "usage"


def test_an_encoder_that_names_no_pooling_gives_the_mean_and_says_so(
    files: Path, tmp_path: Path, embedder: LlamaEmbedder
) -> None:
    with LlamaEmbedder(minilm.convert(files / "all-MiniLM-L6-v2", tmp_path / "m.gguf", pooling=None)) as unnamed:
        assert "mean" in unnamed.problems[0]
        np.testing.assert_allclose(unnamed.embed(TEXTS, query=False), embedder.embed(TEXTS, query=False), atol=1e-4)


def test_a_language_model_embeds_but_is_told_of(smollm2: Path) -> None:
    with LlamaEmbedder(smollm2, Loading(threads=1)) as language_model:
        assert language_model.problems
        first, again, other = language_model.embed([TEXTS[0], TEXTS[0], TEXTS[2]], query=False)
    assert float(first @ again) > 0.999 > float(first @ other)


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + os.urandom(4096))
    with pytest.raises(FbragError, match=r"broken\.gguf") as told:
        LlamaEmbedder(broken)
    assert told.value.code == "model_corrupt"


def test_a_request_to_stop_is_heard_and_the_embedder_goes_on_after(files: Path) -> None:
    cancellation = Cancellation()
    with LlamaEmbedder(files / "all-MiniLM-L6-v2.gguf", Loading(threads=1, cancellation=cancellation)) as stopped:
        cancellation.request(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            stopped.embed([LONG], query=False)
        cancellation._error = None
        assert np.linalg.norm(stopped.embed(TEXTS, query=False)[0]) == pytest.approx(1, abs=1e-5)
