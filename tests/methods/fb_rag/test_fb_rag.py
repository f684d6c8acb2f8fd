"""The logic of FB-RAG with a stand-in for the models: which chunk wins, what is counted, what the models are told."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import pytest

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.generation.generator import Generation, Turn
from fbrag_cli.methods.fb_rag.fb_rag import FBRag, parse_sample, score
from fbrag_cli.render.passages import scored, scored_source
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.trace import Trace
from tests.methods.scripted import Scripted, tools

# Ten chunks of ten words. The question names the lantern; only the samples lead on to Wrenn, and he to Skerrow.
FILLER = "grey water lay flat under low cloud all that watch"
CHUNKS = [FILLER] * 10
CHUNKS[2] = "the lantern of the barque was sealed by Tobias Wrenn"
CHUNKS[7] = "Wrenn born at Skerrow went to sea as a boy"
QUESTION = "Where was the man born who sealed the lantern?"


@pytest.fixture
def corpus() -> Corpus:
    return build_corpus([Document.of("d", "d", Extracted(Content("\n".join(CHUNKS)), "text/plain"))], 10)


def look_forward(question: str, corpus: Corpus, small: Scripted, method: FBRag) -> Trace:
    return method.retrieve(question, tools(corpus, small))


def answer(trace: Trace, large: Scripted) -> Trace:
    assert isinstance(trace.method, FBRag)
    return trace.method.answer(trace, tools(trace.corpus, large=large))


def said(turns: Sequence[Turn]) -> str:
    return "\n".join(turn.text for turn in turns)


def test_a_chunk_that_only_the_samples_name_is_selected(corpus: Corpus) -> None:
    small = Scripted(["Rationale: Tobias Wrenn sealed it. Wrenn came from Skerrow.\nAnswer: Skerrow", "no idea"])
    settings = FBRag(recall=3, select=2, reads="chunks")
    trace = look_forward(QUESTION, corpus, small, settings)
    assert trace.selected == (2, 7)
    assert [excerpt.text for excerpt in trace.context] == [CHUNKS[2], CHUNKS[7]]
    assert [each.selected for each in trace.rounds] == [trace.ranked]
    assert 7 not in set(best(trace.scores.backward, 1))
    assert trace.scores.best_sample[7] == 0
    without = look_forward(QUESTION, corpus, Scripted(["nothing"]), settings)
    assert trace.scores.combined[7] > without.scores.combined[7]


def test_a_chunk_outside_the_recalled_ones_can_be_selected(corpus: Corpus) -> None:
    """Scores are over the whole document (paper, section 2.2)."""
    small = Scripted(["Skerrow Skerrow Skerrow boy sea"])
    trace = look_forward("lantern?", corpus, small, FBRag(recall=1, select=2, eta_backward=0))
    assert trace.recalled == (2,)
    assert 7 in trace.selected


def test_the_small_model_gets_the_recalled_chunks_in_document_order_and_k_seeds(corpus: Corpus) -> None:
    small = Scripted(["x"])
    look_forward(QUESTION, corpus, small, FBRag(recall=2, samples=4, seed=11))
    turns, n, sampling = small.asked[0]
    told = said(turns)
    assert told.index(CHUNKS[2]) < told.index(CHUNKS[7]) < told.index(QUESTION)
    assert told.endswith("Rationale:")
    assert (n, sampling.seed, sampling.top_p, sampling.top_k) == (4, 11, 0.9, 50)


def test_the_large_model_gets_the_selected_chunks_in_document_order_and_is_greedy(corpus: Corpus) -> None:
    trace = look_forward(QUESTION, corpus, Scripted(["Wrenn Skerrow born"]), FBRag(select=2, reads="chunks"))
    large = Scripted([" Skerrow \n"])
    done = answer(trace, large)
    told = said(large.asked[0][0])
    assert told.index(CHUNKS[2]) < told.index(CHUNKS[7]) < told.index(QUESTION)
    assert FILLER not in told
    assert large.asked[0][2].temperature == 0
    assert (done.answer, done.status) == ("Skerrow", "answered")


def test_the_large_model_reads_the_best_windows_in_document_order_and_no_more_words_than_the_budget() -> None:
    sentences = [f"Grey water lay flat under low cloud on day {i}." for i in range(300)]
    sentences[9], sentences[240] = "The lantern of the barque was sealed.", "Wrenn came from Skerrow as a boy."
    corpus = build_corpus([Document.of("d", "d", Extracted(Content(" ".join(sentences)), "text/plain"))], 200)
    small = Scripted([" Wrenn sealed it; he came from Skerrow.\nAnswer: Wrenn"])
    trace = FBRag(recall=1, reads="windows", budget=100, window_words=40).retrieve(QUESTION, tools(corpus, small))
    assert list(trace.context) == sorted(trace.context, key=lambda excerpt: excerpt.start)
    assert sum(len(excerpt.text.split()) for excerpt in trace.context) <= 120
    told = said(trace.method.turns(trace))  # type: ignore[attr-defined]
    assert told.index(sentences[9]) < told.index(sentences[240]) < told.index(QUESTION)
    assert {source.position for source in trace.sources} == set(trace.ranked)
    shown = [scored_source(trace, source) for source in trace.sources]
    assert shown[0].startswith("1.00 (")  # each window has its own score, and the best one comes first
    assert shown != [scored(trace.scores, source.position) for source in trace.sources]


def test_a_large_budget_takes_windows_of_more_chunks() -> None:
    text = " ".join(f"The lantern was sealed on day {i}. Grey water lay flat under low cloud." for i in range(200))
    corpus = build_corpus([Document.of("d", "d", Extracted(Content(text), "text/plain"))], 30)
    read = FBRag(reads="windows", budget=900).retrieve("lantern?", tools(corpus, Scripted(["lantern"]))).context
    assert 850 < sum(excerpt.n_words for excerpt in read) < 950


def test_two_windows_of_a_chunk_are_two_sources_and_one_passage_with_a_mark_between() -> None:
    filler = "Grey water lay flat under low cloud all that watch, and nobody spoke of it. " * 6
    text = f"The lantern was sealed. {filler} Wrenn sealed the lantern. {filler}"
    corpus = build_corpus([Document.of("d", "d", Extracted(Content(f"{text} {filler * 20}"), "text/plain"))], 300)
    trace = FBRag(reads="windows", budget=30, window_words=15).retrieve("Who sealed the lantern?", tools(corpus, Scripted(["x"])))
    assert len(trace.context) == len(trace.sources) == 2
    (passage,) = trace.method.passages(trace)  # type: ignore[attr-defined]
    assert passage == f"{trace.context[0].text} … {trace.context[1].text}"


def test_a_document_within_the_budget_is_read_whole_but_for_copies(corpus: Corpus) -> None:
    trace = FBRag(reads="windows", budget=corpus.n_words).retrieve(QUESTION, tools(corpus, Scripted(["x"])))
    assert [excerpt.text for excerpt in trace.context] == [FILLER, CHUNKS[2], CHUNKS[7]]


def test_chunks_that_score_nothing_fill_no_place(corpus: Corpus) -> None:
    trace = FBRag(select=9, reads="chunks", samples=1).retrieve(QUESTION, tools(corpus, Scripted(["Skerrow"])))
    assert sorted(trace.ranked) == [2, 7]


def test_an_answer_that_the_chunks_do_not_show_is_declined_unless_asked_for(corpus: Corpus) -> None:
    settings = FBRag(select=2)
    trace = look_forward(QUESTION, corpus, Scripted(["Wrenn"]), settings)
    declined = answer(trace, Scripted(["Paris"], yes=0.1))
    assert (declined.status, declined.answer, declined.support) == ("not_found", "Paris", 0.1)
    anyway = look_forward(QUESTION, corpus, Scripted(["Wrenn"]), FBRag(answer_anyway=True))
    assert answer(anyway, Scripted(["Paris"], yes=0.1)).status == "answered"
    assert answer(trace, Scripted([" \n"], yes=1.0)).status == "not_found"


def test_the_check_reads_the_context_as_the_answer_did(corpus: Corpus) -> None:
    """So that the engine has most of its prompt in memory."""
    trace = look_forward(QUESTION, corpus, Scripted(["Wrenn"]), FBRag(select=2))
    large = Scripted(["Skerrow"])
    answer(trace, large)
    asked, checked = (said(turns) for turns, _, _ in large.asked)
    assert asked.startswith(checked.split("Question:")[0])
    assert "Proposed answer: Skerrow" in checked


def test_equations_5_and_6_on_raw_scores() -> None:
    backward = np.array([1, 2, 3], np.float32)
    per_sample = np.array([[4, 0, 1], [0, 6, 1]], np.float32)
    scores = score(backward, per_sample, FBRag(eta_forward=0.5, eta_backward=0.25))
    assert scores.forward.tolist() == [4, 6, 1]
    assert scores.best_sample.tolist()[:2] == [0, 1]
    assert scores.combined.tolist() == [2.25, 3.5, 1.25]
    only_forward = score(backward, per_sample, FBRag(eta_forward=1, eta_backward=0))
    assert only_forward.combined.tolist() == [4, 6, 1]


def test_one_long_sample_does_not_outweigh_what_the_others_agree_on_where_the_mean_is_taken() -> None:
    per_sample = np.array([[5, 0, 1], [5, 0, 1], [4, 1, 0], [0, 12, 6]], np.float32)
    backward = np.zeros(3, np.float32)
    assert score(backward, per_sample, FBRag()).combined.argmax() == 1
    scores = score(backward, per_sample, FBRag(pooling="mean"))
    assert scores.forward.tolist() == [3.5, 3.25, 2]
    assert scores.best_sample.tolist() == [0, 3, 3]


def test_of_equal_scores_the_earlier_chunk_wins() -> None:
    assert best(np.array([1, 3, 3, 0, 3], np.float32), 3) == (1, 2, 4)
    assert best(np.zeros(2, np.float32), 5) == (0, 1)


@pytest.mark.parametrize(
    ("text", "rationale", "answer_"),
    [
        (" He was born there.\nAnswer: Skerrow", "He was born there.", "Skerrow"),
        ("Rationale: He was born there.\n\n**Answer:** Skerrow", "He was born there.", "Skerrow"),
        ("He was born there. Answer: Skerrow", "He was born there.", "Skerrow"),
        ("He was born there.\nFinal answer: Skerrow", "He was born there.", "Skerrow"),
        (" 他生于那里。\n答案 (in Chinese): x", "他生于那里。\n答案 (in Chinese): x", ""),
        (" 他生于那里。Answer: 斯凯罗", "他生于那里。", "斯凯罗"),
        ("Rationale (in Chinese): 他生于那里。\nAnswer (in Chinese): 斯凯罗", "他生于那里。", "斯凯罗"),
        ("“他生于那里。” Answer (in Chinese): 斯凯罗", "“他生于那里。”", "斯凯罗"),
        ('He "was born there." Answer: Skerrow', 'He "was born there."', "Skerrow"),
        ('"He was born there. " Answer: Skerrow', '"He was born there. "', "Skerrow"),
        ("He was born there.\nAnswer: Skerrow\n\nRationale: He went", "He was born there.", "Skerrow"),
        ("Skerrow, I think", "Skerrow, I think", ""),
        ("The answer is Skerrow", "The answer is Skerrow", ""),
        ("", "", ""),
    ],
)
def test_samples_are_parsed_and_lose_nothing(text: str, rationale: str, answer_: str) -> None:
    sample = parse_sample(0, Generation(text, 3, "stop", 0))
    assert (sample.rationale, sample.answer) == (rationale, answer_)


def written_in(*documents: tuple[str, str], recall: int = 9) -> str:
    """Return the forward prompt for documents, each a language and a text."""
    corpus = build_corpus([Document.of("d", "d", Extracted(Content(text), "text/plain"), "", code) for code, text in documents])
    small = Scripted(["x"])
    look_forward(QUESTION, corpus, small, FBRag(recall=recall))
    return said(small.asked[0][0])


def test_samples_are_asked_for_in_the_language_of_what_is_read() -> None:
    """Samples in another one share no word with the text."""
    told = written_in(("zh", "灯塔看守人安娜在日志中写道"))
    assert "Write in Chinese." in told
    assert told.endswith("Rationale (in Chinese):")
    german, greek = ("de", "Wrenn versiegelte die Laterne der Bark."), ("el", "Ο φαροφύλακας έγραψε")
    assert "Write in German." in written_in(greek, ("de", "Wrenn versiegelte die Laterne der Bark lange vor der Abfahrt."))
    assert "Write in Greek." in written_in(german, ("el", f"{greek[1]} στο ημερολόγιο ότι το μπρίκι πέρασε το μεσημέρι."))
    assert "Write in" not in written_in(("en", "Who sealed the lantern?"), ("de", "Bark " * 50), ("de", "Wasser"), recall=1)


def test_the_prompt_for_an_english_text_or_an_unknown_language_names_none() -> None:
    """Byte for byte as before: cached samples stay valid."""
    told = written_in(("en", "one two"))
    assert told == written_in(("", "one two"))
    assert sha256(told.encode()).hexdigest() == "322cb6bb16f41c8cf8a262005a500d70de51331cbbed9c508a6b802beb765b32"


def test_one_sample_is_one_forward_sample() -> None:
    assert FBRag(samples=1).plan(9)[1] == "1 forward sample"
    assert FBRag(samples=2).plan(9)[1] == "2 forward samples"


def test_a_question_without_a_word_of_the_document_is_told(corpus: Corpus) -> None:
    trace = look_forward("Quel?", corpus, Scripted(["x"]), FBRag())
    assert "no chunk matches the question" in trace.warnings[0]
