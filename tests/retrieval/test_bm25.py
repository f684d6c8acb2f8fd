import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.text.words import terms

WORDS = st.lists(st.sampled_from("ship storm harbour captain lantern chart rope anchor the of".split()), max_size=60).map(
    " ".join
)


def corpus_of(text: str, chunk_words: int = 5) -> Corpus:
    return build_corpus([Document.of("d", "d", Extracted(Content(text), "text/plain"))], chunk_words)


@given(WORDS.filter(lambda text: bool(terms(text))), WORDS)
def test_scores_are_rank_bm25s(text: str, question: str) -> None:
    corpus = corpus_of(text)
    expected = BM25Okapi([terms(chunk.text) for chunk in corpus.chunks]).get_scores(terms(question))
    np.testing.assert_allclose(BM25.of(corpus).scores(question), expected, rtol=1e-5, atol=1e-5)


def test_terms_add_up_to_the_score() -> None:
    bm25 = BM25.of(corpus_of("storm rope rope chart the anchor storm ship captain chart ship ship lantern harbour harbour"))
    question = "rope storm storm anchor"
    for position, score in enumerate(bm25.scores(question)):
        assert sum(added for _, added in bm25.term_scores(question, position)) == pytest.approx(float(score), abs=1e-5)


def test_text_without_any_term_scores_nothing() -> None:
    assert not BM25.of(corpus_of("the of the of the of")).scores("storm").any()
    assert not BM25.of(corpus_of("storm rope")).scores("").any()


def test_scores_of_a_novel_are_rank_bm25s(shared) -> None:  # type: ignore[no-untyped-def]
    corpus = corpus_of((shared / "books" / "pride-and-prejudice.txt").read_text("utf-8"), 300)
    question = "Whom does Mr. Collins marry, and where do they live?"
    expected = BM25Okapi([terms(chunk.text) for chunk in corpus.chunks]).get_scores(terms(question))
    np.testing.assert_allclose(BM25.of(corpus).scores(question), expected, rtol=1e-4, atol=1e-4)
