"""The features of a list of chunks, against loops that follow R2AG's equations word by word."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import pytest
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.methods.relevance.features import FEATURES, Scored, list_features
from fbrag_cli.retrieval import Retriever
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.retrieval.dense import Dense
from fbrag_cli.text.words import terms

TEXT = """The ferry left Quorn harbour at dawn. The pilot of the ferry slept. A goat ate the pilot's map of the harbour.
Nobody in Quorn had another map. The goat was sold at noon to a baker. The baker sold bread and honey at dawn.
Bread was dear in Quorn, and honey was dearer. The harbour froze in winter. The winter was long, and the ferry lay in ice."""
QUESTION = "Who ate the map of the harbour, and who ate the bread?"
TEXTS = [QUESTION, "The goat ate the map of the pilot.", "A baker sold bread in winter.", "Zxqv."]


def corpus_of(text: str, chunk_words: int = 9) -> Corpus:
    return build_corpus([Document.of("d", "d", Extracted(Content(text), "text/plain"))], chunk_words)


class ByLetters:
    """An embedder whose vectors depend on the text alone."""

    name, key = "letters", "ab"

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        seeds = [int(sha256(text.encode()).hexdigest()[:8], 16) for text in texts]
        vectors = np.stack([np.random.default_rng(seed).normal(size=6) for seed in seeds])
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def features(
    corpus: Corpus, retriever: Retriever, positions: Sequence[int], names: Sequence[str] = FEATURES, text: str = QUESTION
) -> NDArray[np.float32]:
    return list_features(names, [corpus.chunks[i] for i in positions], retriever, Scored(text, retriever.scores(text)))


def cosine(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def naive(vectors: list[NDArray[np.float64]], relevance: list[float], ranked: Sequence[int]) -> list[list[float]]:
    """vectors, relevance: of all chunks."""
    rows = []
    for i, at in enumerate(ranked):
        gamma = 1.0
        if i:
            weights = [math.exp(relevance[other]) for other in ranked[:i]]
            mean = sum(w / sum(weights) * vectors[other] for w, other in zip(weights, ranked[:i], strict=True))
            gamma = cosine(vectors[at], mean)  # type: ignore[arg-type]
        beside = [cosine(vectors[at], vectors[ranked[j]]) for j in (i - 1, i + 1) if 0 <= j < len(ranked)]
        zeta = sum(beside) / len(beside) if beside else 0.0
        rows.append([relevance[at], gamma, zeta])
    return rows


def test_those_of_bm25_are_what_the_equations_say() -> None:
    corpus = corpus_of(TEXT)
    counted = [terms(chunk.text, ("en",)) for chunk in corpus.chunks]
    okapi = BM25Okapi(counted)
    vocabulary = sorted({term for each in counted for term in each})
    vectors = [each / np.linalg.norm(each) for each in np.array([okapi.get_scores([term]) for term in vocabulary]).T]
    bounded = []
    for text in TEXTS:
        asked = [term for term in terms(text, ("en",)) if term in okapi.idf]
        bound = sum(okapi.idf[term] * 2.5 for term in asked)  # K1 + 1
        bounded.append([float(each) / bound for each in okapi.get_scores(asked)] if asked else [0.0] * len(counted))
    assert len(counted) > 6
    assert bounded[-1] == [0.0] * len(counted)  # the last text has no word of the document
    for ranked in ([3, 0, 5, 1, 4], [2, 6], [4], list(range(len(counted)))):
        for text, relevance in zip(TEXTS, bounded, strict=True):
            found = features(corpus, BM25.of(corpus), ranked, text=text)
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, naive(vectors, relevance, ranked), atol=1e-6)
            assert (found[:, 0] < 1).all()


@pytest.mark.parametrize("n_chunks", [1, 2, 3])
def test_the_relevance_is_from_0_to_1_in_a_corpus_of_few_chunks(n_chunks: int) -> None:
    sentences = ["The goat ate bread, bread and bread.", "The goat ate the map and the bread.", "The goat slept in the harbour."]
    corpus = build_corpus([Document.of(each, each, Extracted(Content(each), "text/plain")) for each in sentences[:n_chunks]])
    retriever = BM25.of(corpus)
    assert (retriever.scores(QUESTION) > 0).any()
    found = features(corpus, retriever, range(n_chunks))
    assert ((found[:, 0] >= 0) & (found[:, 0] < 1)).all()


def test_those_of_embeddings_are_cosines() -> None:
    corpus = corpus_of(TEXT)
    embedder = ByLetters()
    embeddings = embedder.embed([chunk.text for chunk in corpus.chunks], query=False)
    bounded = [(embeddings @ each).tolist() for each in embedder.embed(TEXTS, query=True)]
    for ranked in ([3, 0, 5, 1, 4], [2, 6], [4]):
        for text, relevance in zip(TEXTS, bounded, strict=True):
            found = features(corpus, Dense(embedder, embeddings), ranked, text=text)
            np.testing.assert_allclose(found, naive(list(embeddings.astype(np.float64)), relevance, ranked), atol=1e-6)


def test_they_come_in_the_order_of_their_names() -> None:
    corpus = corpus_of(TEXT)
    whole = features(corpus, BM25.of(corpus), [3, 0, 5])
    some = features(corpus, BM25.of(corpus), [3, 0, 5], ("neighbour", "relevance"))
    assert (some == whole[:, [2, 0]]).all()


@pytest.mark.parametrize("text", ["... --- ...", "One two. " * 30])
def test_a_document_without_terms_or_of_one_sentence_has_finite_features(text: str) -> None:
    corpus = corpus_of(text)
    found = features(corpus, BM25.of(corpus), range(len(corpus.chunks)))
    assert np.isfinite(found).all()
    assert (found[:, 0] == 0).all()
