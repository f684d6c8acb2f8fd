"""FB-RAG's learned fusion: which chunks are judged, where the others stay, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.errors import FbragError
from fbrag_cli.learned.r2_former import R2Former
from fbrag_cli.methods.fb_rag import FBRag
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.trace import Trace
from tests.methods.scripted import Scripted, tools

FILLER = "grey water lay flat under low cloud all that watch"
CHUNKS = [FILLER.replace("water", f"water{i}") for i in range(12)]
CHUNKS[2] = "the lantern of the barque was sealed by Tobias Wrenn"
CHUNKS[5] = "the lantern and the man and the seal and lantern"
CHUNKS[7] = "Wrenn born at Skerrow went to sea as a boy"
CHUNKS[10] = CHUNKS[7]
QUESTION = "Where was the man born who sealed the lantern?"
SAMPLE = "Rationale: Tobias Wrenn sealed it.\nAnswer: Skerrow"


def corpus_of(language: str = "en") -> Corpus:
    return build_corpus([Document.of("d", "d", Extracted(Content("\n".join(CHUNKS)), "text/plain"), language=language)], 10)


def former(max_list: int, weights: Mapping[str, float]) -> R2Former:
    """A logistic regression with these weights."""
    n = len(weights)
    tensors = {
        "feature.mean": np.zeros(n),
        "feature.std": np.ones(n),
        "input.weight": np.eye(n),
        "input.bias": np.zeros(n),
        "position": np.zeros((max_list, n)),
        "match.weight": np.array([list(weights.values())]),
        "match.bias": np.zeros(1),
    }
    return R2Former(
        tensors={name: tensor.astype(np.float32) for name, tensor in tensors.items()},
        features=tuple(weights),
        max_list=max_list,
        heads=1,
        layers=0,
        retriever={"name": "bm25", "key": BM25.key},
        languages=("en",),
    )


def retrieved(made: R2Former, corpus: Corpus, **settings: object) -> Trace:
    method = FBRag(fusion="learned", r2ag="made", recall=2, select=2, **settings)  # type: ignore[arg-type]
    return method.retrieve(QUESTION, replace(tools(corpus, Scripted([SAMPLE])), r2ag={"made": made}.__getitem__))


def test_the_relevance_decides() -> None:
    corpus = corpus_of()
    default = FBRag(recall=2, select=2).retrieve(QUESTION, tools(corpus, Scripted([SAMPLE])))
    by_samples = retrieved(former(12, {"forward": 9.0}), corpus)
    by_question = retrieved(former(12, {"forward": -9.0, "relevance": 9.0}), corpus)
    assert by_samples.ranked[0] in (2, 7)
    assert by_question.ranked[0] == 5
    assert by_samples.scores.combined.max() <= 1
    assert (by_samples.scores.backward == default.scores.backward).all()
    assert (by_samples.scores.forward == default.scores.forward).all()
    assert [each.scores.combined.tolist() for each in by_samples.rounds] == [by_samples.scores.combined.tolist()]


def test_chunks_behind_the_best_stay_behind_them_in_their_order() -> None:
    corpus = corpus_of()
    whole = FBRag(recall=2, select=2).retrieve(QUESTION, tools(corpus, Scripted([SAMPLE]))).scores.combined
    for weight in (9.0, -9.0, -900.0):
        combined = retrieved(former(2, {"forward": weight}), corpus).scores.combined
        judged = list(np.argsort(-whole, kind="stable")[:2])
        others = [i for i in range(12) if i not in judged and i != 10]
        assert combined[others].max() < combined[judged].min()
        assert sorted(others, key=lambda i: -combined[i]) == sorted(others, key=lambda i: -whole[i])
        assert (combined >= 0).all()


def test_a_copy_has_the_score_of_its_chunk() -> None:
    trace = retrieved(former(12, {"forward": 9.0}), corpus_of())
    assert trace.scores.combined[10] == trace.scores.combined[7] > 0.5
    assert trace.copies[7] == (10,)


def test_a_document_of_one_chunk_is_answered_from_it() -> None:
    corpus = build_corpus([Document.of("d", "d", Extracted(Content(CHUNKS[2]), "text/plain"))], 10)
    assert retrieved(former(12, {"precedent": 1.0, "neighbour": 1.0}), corpus).ranked == (0,)


def test_a_text_in_another_language_has_a_warning() -> None:
    trained = former(12, {"forward": 9.0})
    assert retrieved(trained, corpus_of()).warnings == ()
    (warning,) = retrieved(trained, corpus_of("de")).warnings
    assert warning == "the fusion was trained on en, not on de"


def test_without_a_folder_it_is_refused_before_a_model_is_asked() -> None:
    with pytest.raises(FbragError, match="needs a trained folder") as error:
        FBRag(fusion="learned").retrieve(QUESTION, tools(corpus_of()))
    assert error.value.code == "usage"
    assert "--r2ag" in (error.value.hint or "")


def test_parts_for_another_retriever_are_refused_before_a_model_is_asked() -> None:
    made = replace(former(12, {"forward": 9.0}), retriever={"name": "dense:mine", "key": "f00d"})
    method = FBRag(fusion="learned", r2ag="made")
    with pytest.raises(FbragError, match="are for the retriever dense:mine, and this is bm25") as error:
        method.retrieve(QUESTION, replace(tools(corpus_of()), r2ag={"made": made}.__getitem__))
    assert error.value.code == "usage"


def test_the_settings_of_other_fusions_have_no_folder() -> None:
    assert "r2ag" not in FBRag(r2ag="made").described()
    assert FBRag(fusion="learned", r2ag="made", eta_backward=0).described()["fusion"] == "learned"
    assert FBRag(fusion="learned", r2ag="made").described()["r2ag"] == "made"
