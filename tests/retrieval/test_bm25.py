import gc
import math
import random
import weakref
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.retrieval.bm25 import BM25, idf_of
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.retrieval.term_counts import count_terms
from fbrag_cli.text.words import terms

WORDS = st.lists(st.sampled_from("ship storm harbour captain lantern chart rope anchor the of".split()), max_size=60).map(
    " ".join
)

ROUNDING = 1e-12  # of a sum of logarithms that cancel each other


def corpus_of(text: str, chunk_words: int = 5) -> Corpus:
    return build_corpus([Document.of("d", "d", Extracted(Content(text), "text/plain"))], chunk_words)


def okapi(chunks: list[list[str]]) -> BM25Okapi:
    """rank-bm25 over the terms of chunks. Where its mean idf is not above 0, each idf is that with 1 added."""
    theirs = BM25Okapi(chunks)
    if theirs.average_idf < ROUNDING:
        df = Counter(term for chunk in chunks for term in {*chunk})
        theirs.idf = {term: math.log(1 + (len(chunks) - n + 0.5) / (n + 0.5)) for term, n in df.items()}
    floor = theirs.epsilon * theirs.average_idf
    theirs.idf = {term: value or floor for term, value in theirs.idf.items()}  # an idf of exactly 0
    return theirs


@given(WORDS.filter(lambda text: bool(terms(text))), WORDS)
def test_scores_are_rank_bm25s(text: str, question: str) -> None:
    corpus = corpus_of(text)
    expected = okapi([terms(chunk.text) for chunk in corpus.chunks]).get_scores(terms(question))
    np.testing.assert_allclose(BM25.of(corpus).scores(question), expected, rtol=1e-5, atol=1e-5)


@given(WORDS.filter(lambda text: bool(terms(text))))
def test_idf_is_rank_bm25s_to_the_bit(text: str) -> None:
    corpus = corpus_of(text)
    theirs = BM25Okapi([terms(chunk.text) for chunk in corpus.chunks])
    counts = count_terms(corpus)
    ours = dict(zip((term.decode() for term in counts.vocabulary), idf_of(counts).tolist(), strict=True))
    if theirs.average_idf > ROUNDING:
        floor = pytest.approx(theirs.epsilon * theirs.average_idf, rel=1e-12)  # a mean depends on the order of its sum
        df = dict(zip(ours, counts.document_frequencies().tolist(), strict=True))
        assert ours == {term: theirs.idf[term] if 2 * df[term] < len(corpus.chunks) else floor for term in theirs.idf}
    else:
        assert min(ours.values()) > 0


@given(WORDS, WORDS)
def test_no_word_counts_against_the_chunk_that_holds_it(text: str, question: str) -> None:
    assert (BM25.of(corpus_of(text)).scores(question) >= 0).all()


LEASE = """LEASE. This lease is made between the harbour board and {name} Ltd, the tenant, who rents a shed on the {quay} quay.
The rent is {rent} euros a month. Either party may end the lease with {days} days of notice. The tenant keeps the shed in repair,
and insures the goods in the shed against fire and water. He may put a sign at the door of the shed. {clause}The law applies."""
FUEL = "Fuel may be stored in the shed, up to 60 litres, in closed cans. "


@pytest.mark.parametrize("n_files", [5, 20, 200])
@pytest.mark.parametrize("percent", [1, 10, 50, 60, 100])
def test_in_a_folder_of_forms_those_with_the_clause_rank_first(n_files: int, percent: int) -> None:
    chance = random.Random(n_files + percent)
    n_fuel = max(1, n_files * percent // 100)
    held = [i < n_fuel for i in range(n_files)]
    chance.shuffle(held)
    about = {"name": "Alder Birch Cedar Elm Fir Oak Pine Rowan Yew".split(), "quay": ["east", "west"], "rent": [400, 500, 600]}
    texts = [
        LEASE.format(**{key: chance.choice(values) for key, values in about.items()}, days=30, clause=FUEL if has else "")
        for has in held
    ]
    bm25 = BM25.of(corpus_of_texts(texts, 300))
    for question in (
        "How much fuel may be stored in a shed?",
        "Is fuel allowed in the shed?",
        "fuel, litres",
        "the limit for fuel",
    ):
        scores = bm25.scores(question)
        assert all(scores[i] > 0 for i in range(n_files) if held[i])
        assert {held[i] for i in best(scores, min(5, n_fuel))} == {True}, question


def test_rarer_words_count_more_in_a_folder_of_forms() -> None:
    texts = [
        "lease tenant shed rent" + " fuel" * (i < 17) + " dog" * (i < 13) + " crane" * (i < 10) + " ice" * (i < 2)
        for i in range(20)
    ]
    bm25 = BM25.of(corpus_of_texts(texts, 300))
    added = [
        max(added for position in range(20) for each, added in bm25.term_scores(word, position))
        for word in "ice crane dog fuel lease".split()
    ]
    assert added == sorted(added, reverse=True)
    assert added[-1] > 0


def test_of_two_chunks_the_one_with_the_word_is_found() -> None:
    scores = BM25.of(corpus_of("storm rope rope chart anchor ship captain lantern harbour chart")).scores("Where is the lantern?")
    assert scores[1] > scores[0] == 0


def test_terms_add_up_to_the_score() -> None:
    bm25 = BM25.of(corpus_of("storm rope rope chart the anchor storm ship captain chart ship ship lantern harbour harbour"))
    question = "rope storm storm anchor"
    for position, score in enumerate(bm25.scores(question)):
        assert sum(added for _, added in bm25.term_scores(question, position)) == pytest.approx(float(score), abs=1e-5)


CAPTAIN = "Captain Thaxter practised in the harbour of Skarn. He was paid 10 pounds, and called it his salary."


@pytest.mark.parametrize(
    ("text", "language", "question", "lacked"),
    [
        (CAPTAIN, "en", "What is the name of Captain Thaxter's horse and of his saddle, or the horse?", ("horse", "saddle")),
        (CAPTAIN, "en", "Where did he practise, and why is the harbour called Skarn?", ()),
        (CAPTAIN, "en", "Was he paid 11 pounds by Dabney?", ("11", "Dabney")),
        (CAPTAIN, "en", "Tell me what the document says of captains' salaries.", ()),
        (CAPTAIN, "en", "Wie heißt das Pferd, auf dem der Kapitän ritt?", ()),  # a question in another language
        ("Der Kapitän ritt durch die Stadt, und er hatte zwei Pferde.", "de", "Wie hieß der Sattel vom Pferd?", ("Sattel",)),
        ("船长王明用铅封好箱子。时间是1893年。", "zh", "箱子是谁封的？", ()),
        (CAPTAIN, "", "Where is the horse?", ()),
        (CAPTAIN, "en", "", ()),
    ],
)
def test_words_of_a_question_that_stand_in_no_chunk(text: str, language: str, question: str, lacked: tuple[str, ...]) -> None:
    found = Document.of("d", "d", Extracted(Content(text), "text/plain"), language=language)
    assert BM25.of(build_corpus([found], 5)).missing_terms(question) == lacked


def test_a_term_of_half_of_the_chunks_counts() -> None:
    """rank-bm25 gives it an idf of 0."""
    bm25 = BM25.of(
        corpus_of(
            "storm rope gale chart anchor ship captain lantern harbour chart keel mast sail deck hull log oar net bell buoy"
        )
    )
    assert [term for term, _ in bm25.term_scores("storm chart", 0)] == ["storm", "chart"]


def test_text_without_any_term_scores_nothing() -> None:
    assert not BM25.of(corpus_of("the of the of the of")).scores("storm").any()
    assert not BM25.of(corpus_of("storm rope")).scores("").any()


def test_scores_of_a_novel_are_rank_bm25s(shared) -> None:  # type: ignore[no-untyped-def]
    corpus = corpus_of((shared / "books" / "pride-and-prejudice.txt").read_text("utf-8"), 300)
    question = "Whom does Mr. Collins marry, and where do they live?"
    expected = BM25Okapi([terms(chunk.text) for chunk in corpus.chunks]).get_scores(terms(question))
    np.testing.assert_allclose(BM25.of(corpus).scores(question), expected, rtol=1e-4, atol=1e-4)


ZH = [
    "灯塔看守人安娜在日志中写道，双桅船子午线号中午驶过。",
    "乐队 The Beatles 与 The Who 在 the Royal Albert Hall 演出，票价为 an even 十镑。",
    "港口新图书馆周六开放，作家将朗读鲸鱼的故事。",
]
FR = [
    "La gardienne du phare écrivit que le brick Méridien était passé à midi avec une voile déchirée.",
    "Le groupe chanta The End of the Road, puis An Evening in Roma, et une chanson qui ne disait rien.",
    "La nouvelle bibliothèque du port ouvre samedi, et l'auteur y lira l'histoire d'une baleine en or.",
]
EN = [
    "The keeper of the lighthouse wrote that the brig Meridian had passed at noon with a torn sail.",
    "The civil war ended in spring; the son of a duke lost a die of ivory, which he had won at Die, in the Drôme.",
    "The new library at the harbour opens on Saturday, and the writer will read her story of a whale.",
]


def scores_of(texts: list[str], language: str, text: str) -> list[float]:
    documents = [Document.of("d", "d", Extracted(Content(each), "text/plain"), language=language) for each in texts]
    scores: list[float] = BM25.of(build_corpus(documents)).scores(text).tolist()
    return scores


@pytest.mark.parametrize(("texts", "language"), [(ZH, "zh"), (FR, "fr")])
@pytest.mark.parametrize(
    "said",
    [
        "The text says that the brig Meridian passed by at the end of the day.\nAn even answer to the question",
        "Who saw the ship at the lighthouse?",
    ],
)
def test_function_words_of_a_sample_in_another_language_do_not_count(texts: list[str], language: str, said: str) -> None:
    """They are rare in the text, so they would count more than anything else."""
    plain = " ".join(word for word in said.split() if word not in ("The", "the", "that", "by", "at", "of", "An", "to", "Who"))
    np.testing.assert_allclose(scores_of(texts, language, said), scores_of(texts, language, plain), rtol=1e-5)


def test_english_words_within_chinese_are_read_as_english() -> None:
    mixed = "文中写道 the keeper of the lighthouse 安娜，并于 the log 中记录了双桅船。"
    scores = scores_of(ZH, "zh", mixed)
    assert scores[0] > scores[1] == 0


@pytest.mark.parametrize("question", ["The Who", "乐队 The Who", "WHO", "The Beatles"])
def test_names_made_of_function_words_count(question: str) -> None:
    assert int(np.argmax(scores_of(ZH, "zh", question))) == 1


def test_words_that_are_function_words_elsewhere_count_in_a_text_of_the_documents_language() -> None:
    """ "war" and "die" are German ones, "son" is French, "or" is English."""
    for question in ("civil war", "war", "son", "die war", "ivory die", "war son"):
        assert int(np.argmax(scores_of(EN, "en", question))) == 1, question
        assert scores_of(EN, "en", question)[1] == pytest.approx(
            sum(scores_of(EN, "en", word)[1] for word in question.split()), rel=1e-5
        )
    for question in ("baleine or", "or", "or baleine an"):
        assert int(np.argmax(scores_of(FR, "fr", question))) == 2, question


def test_a_german_question_about_an_english_text_is_read_as_german() -> None:
    scores = scores_of(EN, "en", "Wie war die Brigg Meridian, und wer sah sie?")
    assert scores[0] > scores[1] == 0


def test_excerpts_are_scored_like_chunks(shared) -> None:  # type: ignore[no-untyped-def]
    """Where the excerpts are all the chunks, the two are the same by definition."""
    corpus = corpus_of((shared / "books" / "pride-and-prejudice.txt").read_text("utf-8"), 300)
    bm25 = BM25.of(corpus)
    question = "What did Wickham tell Elizabeth of Darcy and the living?"
    whole = [*corpus.chunks]
    np.testing.assert_allclose(
        bm25.excerpt_scores([question, "xylophone"], whole), [bm25.scores(question), np.zeros(len(whole))], rtol=1e-5
    )
    assert bm25.excerpt_scores([question], []).shape == (1, 0)


# -- windows over the ends of chunks -----------------------------------------------------------------------------------------


def corpus_of_texts(texts: list[str], chunk_words: int, language: str = "en") -> Corpus:
    documents = [Document.of("d", "d", Extracted(Content(text), "text/plain"), language=language) for text in texts]
    return build_corpus(documents, chunk_words)


def test_what_nobody_holds_is_freed_at_once() -> None:
    """Files that are read from the cache stay open as long as their index: a server would run out of them."""
    corpus = corpus_of("storm rope rope chart the anchor storm ship captain chart ship ship lantern harbour lamp")
    retriever = BM25.of(corpus)
    gc.disable()
    try:
        score = retriever.scores("lamp")[corpus.chunks[-1].position]  # an assert would hold its parts
        left = weakref.ref(corpus), weakref.ref(retriever)
        del corpus, retriever
        assert score > 0
        assert [each() for each in left] == [None, None]
    finally:
        gc.enable()


def test_a_question_about_may_finds_the_month_in_digits() -> None:
    """In English texts and questions the word alone is a function word."""
    bm25 = BM25.of(corpus_of("2025-04 ten crates 2025-05 two crates 2025-06 one crate", 3))
    assert bm25.scores("How many crates in May 2025?").argmax() == 1
    assert np.array_equal(bm25.scores("How many crates may be sent?"), bm25.scores("How many crates are sent?"))
