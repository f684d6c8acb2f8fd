"""The logic of FB-RAG with a stand-in for the models: which chunk wins, what is counted, what the models are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Generation, Message
from fbrag_cli.methods.fb_rag.fb_rag import FBRag, parse_sample, score
from fbrag_cli.methods.fb_rag.windows import best_windows
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.ranking import matching
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.trace import Trace
from tests.methods.scripted import Scripted, retrieved, tools

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
    return retrieved(method, question, tools(corpus, small))


def answer(trace: Trace, large: Scripted) -> Trace:
    assert isinstance(trace.method, FBRag)
    return trace.method.answer(trace, tools(trace.corpus, large=large))


def said(messages: Sequence[Message]) -> str:
    return "\n".join(message.text for message in messages)


def test_a_chunk_that_only_the_samples_name_is_selected(corpus: Corpus) -> None:
    small = Scripted(["Rationale: Tobias Wrenn sealed it. Wrenn came from Skerrow.\nAnswer: Skerrow", "no idea"])
    settings = FBRag(recall=3, select=2)
    trace = look_forward(QUESTION, corpus, small, settings)
    assert trace.selected == (2, 7)
    assert [excerpt.text for excerpt in trace.context] == [CHUNKS[2], CHUNKS[7]]
    assert 7 not in set(best(trace.scores.backward, 1))
    assert trace.scores.best_sample[7] == 0
    without = look_forward(QUESTION, corpus, Scripted(["nothing"]), settings)
    assert trace.scores.combined[7] > without.scores.combined[7]


def test_a_chunk_outside_the_recalled_ones_can_be_selected(corpus: Corpus) -> None:
    """Scores are over the whole document (paper, section 2.2)."""
    small = Scripted(["Skerrow Skerrow Skerrow boy sea"])
    trace = look_forward("lantern?", corpus, small, FBRag(recall=1, select=2, weights="1:0"))
    assert trace.retrieved == (2,)
    assert 7 in trace.selected


def test_the_small_model_gets_the_recalled_chunks_in_document_order_and_k_seeds(corpus: Corpus) -> None:
    small = Scripted(["x"])
    look_forward(QUESTION, corpus, small, FBRag(recall=2, samples=4, seed=11))
    messages, n, sampling = small.asked[0]
    told = said(messages)
    assert told.index(CHUNKS[2]) < told.index(CHUNKS[7]) < told.index(QUESTION)
    assert told.endswith("Rationale:")
    assert (n, sampling.seed, sampling.top_p, sampling.top_k) == (4, 11, 0.9, 50)


def test_the_large_model_gets_the_selected_chunks_in_document_order_and_is_greedy(corpus: Corpus) -> None:
    trace = look_forward(QUESTION, corpus, Scripted(["Wrenn Skerrow born"]), FBRag(select=2))
    large = Scripted([" Skerrow \n"])
    done = answer(trace, large)
    told = said(large.asked[0][0])
    assert told.index(CHUNKS[2]) < told.index(CHUNKS[7]) < told.index(QUESTION)
    assert FILLER not in told
    assert large.asked[0][2].temperature == 0
    assert (done.answer, done.status) == ("Skerrow", "answered")


# Twelve chunks of ten words: each names another ship and the lantern, the later ones more often.
SHIPS = "Garefowl Petrel Plover Dunlin Gannet Merlin Curlew Heron Shearwater Osprey Kestrel Wigeon".split()
FLEET = [f"The {ship} showed {'lantern ' * (1 + i // 2)}{'water ' * (6 - i // 2)}then." for i, ship in enumerate(SHIPS)]


@pytest.fixture
def fleet() -> Corpus:
    return build_corpus([Document.of("d", "d", Extracted(Content("\n\n".join(FLEET)), "text/plain"))], 10)


def read(corpus: Corpus, said: Sequence[str], method: FBRag) -> Trace:
    return retrieved(method, "Which ship showed the lantern?", tools(corpus, Scripted(said)))


READS_ON = FBRag(recall=2, select=5, samples=1, granularity="chunk")
ABOUT_EARLY_SHIPS = ["The Petrel, the Plover, the Dunlin and the Gannet did. Petrel, Plover, Dunlin, Gannet.\nAnswer: Petrel"]


def test_stage_three_goes_on_from_what_stage_two_has_read(fleet: Corpus) -> None:
    trace = read(fleet, ABOUT_EARLY_SHIPS, READS_ON)
    looked = trace.forward
    assert looked
    first = [excerpt.position for excerpt in looked.read]
    positions = [excerpt.position for excerpt in trace.context]
    assert positions[:2] == first == sorted(first)
    assert positions[2:] == sorted(positions[2:])
    assert min(positions[2:]) < min(first), "in document order they would come before"
    assert len(positions) == 5
    small, large, last = said(looked.messages), said(READS_ON.messages(trace)), looked.read[-1].text
    assert small.partition(last)[0] == large.partition(last)[0]


def test_a_chunk_that_was_only_read_is_a_source_and_ranks_last(fleet: Corpus) -> None:
    trace = read(fleet, ABOUT_EARLY_SHIPS, replace(READS_ON, weights="1:0"))
    looked = {excerpt.position for excerpt in trace.forward.read}
    best_five = {int(position) for position in best(trace.scores.combined, 5)}
    assert not looked & best_five
    assert set(trace.selection.ranked[-2:]) == looked
    assert [source.position for source in trace.sources] == [*trace.selection.ranked]
    assert {*trace.selection.ranked} == {excerpt.position for excerpt in trace.context}


def test_the_prompt_for_more_begins_with_the_one_for_fewer(fleet: Corpus) -> None:
    trace = read(fleet, ABOUT_EARLY_SHIPS, READS_ON)
    larger: Method | None = READS_ON
    for n in (10, 12):
        assert larger
        larger = larger.reading_twice()
        assert isinstance(larger, FBRag)
        after = read(fleet, ABOUT_EARLY_SHIPS, larger)
        assert len(after.context) == n
        assert after.context[: len(trace.context)] == trace.context
        assert after.forward == trace.forward
        trace = after


@pytest.mark.parametrize(
    "method",
    [
        READS_ON.for_two_models(),
        replace(READS_ON, order="document"),
        replace(READS_ON, recall=5),  # more than on a GPU, and in the paper
    ],
    ids=["two models", "asked for", "a large recall"],
)
def test_else_the_order_is_that_of_the_document(fleet: Corpus, method: FBRag) -> None:
    trace = read(fleet, ABOUT_EARLY_SHIPS, method)
    positions = [excerpt.position for excerpt in trace.context]
    assert positions == sorted(positions)
    assert {*positions} == {int(position) for position in best(trace.scores.combined, 5)}


def test_a_copy_of_what_was_read_is_not_read_again() -> None:
    text = "\n\n".join([*FLEET[:4], FLEET[11], *FLEET[4:11], FLEET[11]])
    corpus = build_corpus([Document.of("d", "d", Extracted(Content(text), "text/plain"))], 10)
    trace = read(corpus, ["Wigeon lantern Wigeon"], READS_ON)
    texts = [excerpt.text for excerpt in trace.context]
    assert len(texts) == len({*texts}) == 5
    assert [(first, *copies) for first, copies in trace.selection.duplicates.items() if copies] == [(4, 12)]


# A log of 40 days, three sentences a chunk, one of them on water: a document for windows.
WATER = "Grey water lay flat under low cloud and nobody spoke a word of it. " * 8


def log_of(n_days: int) -> Corpus:
    days = [f"The lantern was lit on day {day} by Wrenn. {WATER}On day {day} Skerrow was seen." for day in range(n_days)]
    return build_corpus([Document.of("d", "d", Extracted(Content(" ".join(days)), "text/plain"))], 120)


def of_log(method: Method | None, n_days: int = 40) -> Trace:
    assert method
    return retrieved(method, "Who lit the lantern?", tools(log_of(n_days), Scripted(["Wrenn lit it at Skerrow."])))


WINDOWS = FBRag(recall=1, select=2, samples=1)  # the retrieved chunk, and windows of 120 words


def test_of_a_short_document_windows_are_read_after_what_stage_two_has_read() -> None:
    trace = of_log(WINDOWS)
    first, *windows = trace.context
    assert (first,) == trace.forward.read
    assert 90 <= sum(window.n_words for window in windows) <= 150
    assert [(w.position, w.start) for w in windows] == sorted((w.position, w.start) for w in windows)
    assert first.position not in {window.position for window in windows}
    assert all(window.n_words < trace.corpus.chunks[window.position].n_words for window in windows)
    assert {source.position for source in trace.sources} == {*trace.selection.ranked}
    after = of_log(WINDOWS.reading_twice())
    assert after.context[: len(trace.context)] == trace.context
    new = after.context[len(trace.context) :]
    assert 190 <= sum(window.n_words for window in new) <= 290, "as much again as all that was read"
    assert not {(w.position, w.start) for w in new} & {(w.position, w.start) for w in trace.context}


def test_whole_chunks_are_read_of_a_long_document_of_a_very_short_one_and_where_asked_for() -> None:
    def whole(n_days: int, method: Method) -> bool:
        trace = of_log(method, n_days)
        return all(each == trace.corpus.chunks[each.position] for each in trace.context)

    assert whole(60, WINDOWS)
    assert whole(1, WINDOWS)
    assert whole(40, replace(WINDOWS, granularity="chunk"))
    assert whole(40, WINDOWS.for_two_models())
    assert not whole(60, replace(WINDOWS, granularity="window"))


def test_windows_in_document_order_fill_all_that_is_read() -> None:
    trace = of_log(replace(WINDOWS, granularity="window", order="document"))
    assert 200 <= sum(each.n_words for each in trace.context) <= 280
    assert [(w.position, w.start) for w in trace.context] == sorted((w.position, w.start) for w in trace.context)


def test_without_samples_the_question_alone_scores_and_no_model_is_asked() -> None:
    small = Scripted(["never"])
    corpus = log_of(40)
    trace = retrieved(replace(WINDOWS, samples=0), "Who lit the lantern?", tools(corpus, small))
    assert small.asked == []
    assert trace.forward is None
    assert trace.scores.per_sample.shape == (0, len(corpus.chunks))
    assert (trace.scores.combined == trace.scores.backward).all()
    assert trace.context[0].position == best(trace.scores.backward, 1)[0]
    assert 90 <= sum(window.n_words for window in trace.context[1:]) <= 150
    assert not replace(WINDOWS, samples=0).needs_small


def test_without_samples_the_question_has_to_weigh_something() -> None:
    with pytest.raises(FbragError, match="leave the question out") as refused:
        FBRag(samples=0, weights="1:0")
    assert refused.value.code == "usage"


def test_chunks_that_score_nothing_fill_no_place(corpus: Corpus) -> None:
    trace = retrieved(FBRag(recall=1, select=9, samples=1), QUESTION, tools(corpus, Scripted(["Skerrow"])))
    assert sorted(trace.selection.ranked) == [2, 7]


def test_an_answer_that_the_chunks_do_not_show_is_declined_unless_asked_for(corpus: Corpus) -> None:
    settings = FBRag(select=2)
    trace = look_forward(QUESTION, corpus, Scripted(["Wrenn"]), settings)
    declined = answer(trace, Scripted(["Paris"], yes=0.1))
    assert (declined.status, declined.answer, declined.verdict.support) == ("not_found", "Paris", 0.1)
    anyway = look_forward(QUESTION, corpus, Scripted(["Wrenn"]), FBRag(allow_unsupported=True))
    assert answer(anyway, Scripted(["Paris"], yes=0.1)).status == "answered"
    assert answer(trace, Scripted([" \n"], yes=1.0)).status == "not_found"


def test_the_check_reads_the_context_as_the_answer_did(corpus: Corpus) -> None:
    """So that the engine has most of its prompt in memory."""
    trace = look_forward(QUESTION, corpus, Scripted(["Wrenn"]), FBRag(select=2))
    large = Scripted(["Skerrow"])
    answer(trace, large)
    asked, checked = (said(messages) for messages, _, _ in large.asked)
    assert asked.startswith(checked.split("Question:")[0])
    assert "Proposed answer: Skerrow" in checked


def test_equations_5_and_6_on_raw_scores() -> None:
    backward = np.array([1, 2, 3], np.float32)
    per_sample = np.array([[4, 0, 1], [0, 6, 1]], np.float32)
    scores = score(backward, per_sample, FBRag(weights="0.5:0.25"))
    assert scores.forward.tolist() == [4, 6, 1]
    assert scores.best_sample.tolist()[:2] == [0, 1]
    assert scores.combined.tolist() == [2.25, 3.5, 1.25]
    only_forward = score(backward, per_sample, FBRag(weights="1:0"))
    assert only_forward.combined.tolist() == [4, 6, 1]


def test_of_equal_scores_the_earlier_chunk_wins() -> None:
    assert best(np.array([1, 3, 3, 0, 3], np.float32), 3) == (1, 2, 4)
    assert best(np.zeros(2, np.float32), 5) == (0, 1)


def test_no_chunk_is_left_out_for_the_sign_of_its_score(corpus: Corpus) -> None:
    """Cosines of embeddings may be negative; 0 is the score of a chunk that no word points to."""
    scores = np.full(len(corpus.chunks), -0.5, np.float32)
    scores[0] = 0.25
    assert len(matching(corpus, scores, 3)) == 3
    scores[1:] = 0
    assert list(matching(corpus, scores, 3)) == [0]
    windows = best_windows(corpus.chunks[:3], lambda found: np.linspace(-0.1, -0.3, len(found)).astype(np.float32), 10_000, 10)
    assert {each.position for each in windows} == {0, 1, 2}


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
    assert FBRag(samples=1).steps(9, 300)[1] == "1 forward sample"
    assert FBRag(samples=2).steps(9, 300)[1] == "2 forward samples"


def test_a_question_without_a_word_of_the_document_is_told(corpus: Corpus) -> None:
    trace = look_forward("Quel?", corpus, Scripted(["x"]), FBRag())
    assert "no chunk matches the question" in trace.warnings[0]
