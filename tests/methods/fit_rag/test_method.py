"""FIT-RAG: what the scorer, the reranker, the reducer and its detector let the large model read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import CallOptions, Message
from fbrag_cli.methods.fit_rag.method import FitRag
from fbrag_cli.methods.fit_rag.parts import Detector, FitRagParts, Recognizer, features
from fbrag_cli.methods.fit_rag.windows import Reduction, sliding_windows
from fbrag_cli.methods.relevance.former import SHIPPED, load
from fbrag_cli.render.as_json import explanation
from fbrag_cli.render.explain_text import table
from fbrag_cli.render.html import page
from fbrag_cli.render.tables import lines_of, own_tables
from fbrag_cli.trace import Trace
from tests.conftest import INQUIRY
from tests.methods.scripted import Scripted, retrieved, tools

QUESTION = "Who forged the anchor of the brig?"


def corpus_of(texts: Sequence[str], chunk_words: int = 100) -> Corpus:
    """A document each, so that each is a chunk."""
    texts_as = [Extracted(Content(text), "text/plain") for text in texts]
    return build_corpus([Document.of(f"d{i}", f"d{i}", each) for i, each in enumerate(texts_as)], chunk_words)


class ByWords:
    """A scorer: a text has the answer as far as it says "Hull", and helps as far as it says "smith"."""

    name = "by words"

    def __init__(self) -> None:
        self.asked = 0

    def embed(self, questions: Sequence[str]) -> np.ndarray:
        return np.eye(1, 4, dtype=np.float32).repeat(len(questions), axis=0)

    def scores(self, question: str, texts: Sequence[str]) -> np.ndarray:
        self.asked += len(texts)
        counts = [[text.count("Hull"), 0.9 * text.count("smith")] for text in texts]
        return np.array(counts, np.float32).reshape(-1, 2) * 4 - 2


def stops_after(probability: float) -> Detector:
    """A detector that adds up both labels of all windows, and is sure above `probability`."""
    return Detector([(np.full((1, 20), 8.0, np.float32), np.full(1, -16.0, np.float32))], probability)


def parts(detector: Detector | None = None, languages: tuple[str, ...] = ("en",)) -> FitRagParts:
    about = {"name": "taught", "sha256": "1" * 64}
    return FitRagParts(scorer=ByWords(), detector=detector, model=about, languages=languages)


def run(corpus: Corpus, method: FitRag, own: FitRagParts | None = None, answer: bool = False, sha256: str | None = None) -> Trace:
    """Ask. sha256: of the large model's file, None for a server."""
    large = Scripted(["Hull"])
    given = tools(corpus, large=large, part=own, digest=sha256)
    trace = retrieved(method, QUESTION, given)
    return method.answer(trace, given) if answer else trace


def reduction(trace: Trace) -> Reduction:
    assert isinstance(trace.method_state, Reduction)
    return trace.method_state


FILLER = "The brig lay at anchor. Nobody forged the brig. It rained on the brig all day. The anchor was heavy."
TEXTS = [
    FILLER,
    f"{FILLER} The smith of Hull forged the anchor. He was old. He had a dog. His dog was old.",
    f"The anchor of the brig was forged in Hull. It was cold. {FILLER}",
    f"The smith forged a gate. {FILLER}",
    "Nothing of it here. No word of that.",
]


def test_the_chunks_that_the_scorer_prefers_come_first_and_each_gives_its_best_window() -> None:
    trace = run(corpus_of(TEXTS), FitRag(fit_rag="made", select=3), parts())
    assert [window.position for window in trace.context] == [1, 2, 3]
    assert all("smith" in window.text or "Hull" in window.text for window in trace.context)
    assert all(len(window.text) < len(trace.corpus.chunks[window.position].text) for window in trace.context)
    assert trace.scores.combined[1] > trace.scores.combined[2] > trace.scores.combined[0]


@pytest.mark.parametrize(("rank_by", "first"), [("sum", 1), ("has-answer", 2), ("llm-prefer", 3), ("retriever", None)])
def test_the_label_that_ranks_is_a_setting(rank_by: str, first: int | None) -> None:
    trace = run(corpus_of(TEXTS), FitRag(fit_rag="made", rank_by=rank_by, reduce="off"), parts())  # type: ignore[arg-type]
    best = int(trace.scores.backward.argmax()) if first is None else first
    assert trace.selection.ranked[0] == best
    if rank_by == "has-answer":
        assert set(trace.selection.ranked[:2]) == {1, 2}
    if rank_by == "llm-prefer":
        assert set(trace.selection.ranked[:2]) == {1, 3}


def test_the_search_ends_with_the_first_windows_that_are_enough_and_keeps_all_that_were_taken() -> None:
    trace = run(corpus_of(TEXTS), FitRag(fit_rag="made"), parts(stops_after(0.9)))
    found = reduction(trace)
    assert found.n_taken == len(found.eligible) == len(trace.context)
    assert 1 < found.n_taken < len(found.windows)
    assert found.eligible[-1] >= 0.9 > max(found.eligible[:-1])
    assert trace.context == found.windows[: found.n_taken]


def test_the_windows_and_the_labels_are_printed_and_in_json() -> None:
    trace = run(corpus_of(TEXTS), FitRag(fit_rag="made"), parts(stops_after(0.9)))
    found, shown = reduction(trace), explanation(trace, memory_mb=0)
    assert [(each["chunk"], each["start_char"], each["end_char"]) for each in shown["windows"]] == [
        (window.position + 1, window.start, window.end) for window in found.windows
    ]
    assert [each["selected"] for each in shown["windows"]].count(True) == found.n_taken
    assert shown["windows"][found.n_taken - 1]["enough"] == pytest.approx(found.eligible[-1], abs=1e-4)
    assert shown["windows"][found.n_taken]["enough"] is None
    best = shown["chunks"][1]
    assert (best["has_answer"], best["llm_prefer"]) == (pytest.approx(0.88, abs=0.01), pytest.approx(0.83, abs=0.01))
    header, *lines = table(trace, limit=None, by_position=True, count_tokens=None)
    assert header.split()[2:4] == ["answer", "prefer"]
    assert lines[1].split()[4:6] == ["0.88", "0.83"]
    (windows,) = own_tables(trace)
    header, first, *_ = lines_of(windows)
    assert header.split() == ["window", "answer", "prefer", "enough", "location", "starts", "with"]
    assert first.split()[:4] == ["1", "*", "0.88", "0.83"]
    on_page = page(trace)
    assert '<h2 id="windows">Windows</h2>' in on_page
    assert f"{found.windows[0].text[:56]} …</td>" in on_page


def test_all_windows_stay_where_they_are_never_enough() -> None:
    trace = run(corpus_of(TEXTS), FitRag(fit_rag="made"), parts(stops_after(1.1)))
    assert len(trace.context) == len(reduction(trace).windows) == len(TEXTS)


def test_one_document_gives_one_window() -> None:
    trace = run(corpus_of(TEXTS[1:2]), FitRag(fit_rag="made"), parts(stops_after(0.9)))
    assert [window.position for window in trace.context] == [0]


def test_without_trained_parts_the_retriever_ranks() -> None:
    trace = run(corpus_of(TEXTS), FitRag(select=2))
    assert set(trace.selection.ranked) == set(np.argsort(-trace.scores.backward)[:2].tolist())
    assert reduction(trace).labels is None
    assert reduction(trace).eligible == ()


@pytest.mark.parametrize(("max_words", "n"), [(1, 1), (23, 1), (25, 2), (10_000, 5)])
def test_max_words_holds_as_many_words_and_at_least_one_window(max_words: int, n: int) -> None:
    texts = [f"The anchor of brig {i} was forged by a very old smith." for i in range(5)]  # 12 words each
    context = run(corpus_of(texts), FitRag(max_words=max_words)).context
    assert len(context) == n


def test_reduce_off_reads_whole_chunks() -> None:
    trace = run(corpus_of(TEXTS), FitRag(fit_rag="made", reduce="off", select=2), parts())
    assert [window.text for window in trace.context] == [TEXTS[1], TEXTS[2]]


def test_at_most_64_windows_are_scored() -> None:
    long = [" ".join(f"Sentence {i} of the anchor {j} was forged." for i in range(40)) for j in range(5)]
    own = parts()
    run(corpus_of(long, 1000), FitRag(fit_rag="made"), own)
    assert isinstance(own.scorer, ByWords)
    assert own.scorer.asked == 5 + 64


def knows(known: float) -> FitRagParts:
    """Parts with a recognizer of one question, which the model knows or not."""
    recognizer = Recognizer(
        embeddings=np.eye(1, 4, dtype=np.float32), right=np.array([1], np.uint8), k=1, delta=-9.0, told=0.1, known=known
    )
    return replace(parts(), recognizer=recognizer)


def test_what_the_model_knows_it_answers_without_the_document() -> None:
    many = [f"The anchor {i} of the brig was forged." for i in range(40)]
    own = knows(0.5)
    trace = run(corpus_of(many), FitRag(fit_rag="made", self_knowledge=True), own, answer=True)
    assert isinstance(own.scorer, ByWords)
    assert own.scorer.asked == 40  # the candidates, and no window
    assert (trace.context, trace.from_document, trace.answer) == ((), False, "Hull")
    assert (reduction(trace).told, reduction(trace).known) == (1, 1)
    assert (reduction(trace).n_taken, reduction(trace).windows) == (0, ())
    trace = run(corpus_of(many), FitRag(fit_rag="made", self_knowledge=True), knows(1.0), answer=True)
    assert len(trace.context) == 10
    assert trace.from_document
    trace = run(corpus_of(many[:20]), FitRag(fit_rag="made", self_knowledge=True), knows(0.5))
    assert trace.context  # so few candidates say nothing
    with pytest.raises(FbragError, match="needs a trained recognizer"):
        run(corpus_of(many), FitRag(fit_rag="made", self_knowledge=True), parts())


def test_the_prompt_of_the_paper_asks_for_the_reason() -> None:
    large = Scripted(["Hull, since the first passage says so."])
    given = tools(corpus_of(TEXTS), large=large)
    method = FitRag(select=2, prompt_style="paper")
    trace = method.answer(retrieved(method, QUESTION, given), given)
    ((asked,), _, _), *_ = large.asked
    places = [asked.text.index(each) for each in ("say why", "[1] ", "[2] ", QUESTION)]
    assert places == sorted(places)
    assert [trace.context[i].text in asked.text for i in (0, 1)] == [True, True]
    (checking,) = large.asked[1][0]
    shared = asked.text[: asked.text.index("Question: ")]
    assert checking.text.startswith(shared)
    assert "Proposed answer: Hull, since" in checking.text[len(shared) :]


def test_the_prompt_step_by_step_ends_with_the_papers_words() -> None:
    large = Scripted(["The anchor was forged in Hull."])
    given = tools(corpus_of(TEXTS), large=large)
    method = FitRag(select=2, prompt_style="step-by-step")
    trace = method.answer(retrieved(method, QUESTION, given), given)
    ((asked,), _, _), ((checking,), _, _) = large.asked
    places = [asked.text.index(each) for each in ("answer the question", "[1] ", "[2] ", f"Question: {QUESTION}")]
    assert places == sorted(places)
    assert all(window.text in asked.text for window in trace.context)
    assert asked.text.endswith("\n\nLet's think step by step.")
    assert checking.text.startswith(asked.text[: asked.context_end])


@pytest.mark.parametrize(
    ("method", "made", "said"),
    [
        (FitRag(), None, "the retriever and the windows of fit-rag work; its scorer, recognizer, and detector are missing"),
        (FitRag(fit_rag="made"), parts(), "made has no detector, so a window of each selected chunk is read"),
        (FitRag(fit_rag="made"), parts(detector=stops_after(0.9)), ""),
        (FitRag(fit_rag="made", reduce="windows"), parts(), ""),
    ],
)
def test_the_run_says_which_parts_are_missing(method: FitRag, made: FitRagParts | None, said: str) -> None:
    warnings = run(corpus_of(TEXTS), method, made).warnings
    assert len(warnings) == bool(said)
    assert all(said in each for each in warnings)


def test_without_parts_the_relevance_of_the_list_says_what_is_enough() -> None:
    inquiry = Document.of("d", "d", Extracted(Content(INQUIRY.read_text("utf-8")), "text/plain"))
    given = tools(build_corpus([inquiry], 100), part=load(SHIPPED))
    trace = retrieved(FitRag(reduce="enough"), "Where was the Garefowl built?", given)
    assert "Osterwick" in trace.context[0].text
    assert len(trace.context) == 1
    assert reduction(trace).eligible[-1] >= 0.5
    assert "the estimate of relevance says what is enough" in trace.warnings[-1]
    vague = retrieved(FitRag(reduce="enough"), "How old is it?", given)
    assert 1 < len(vague.context) < len(retrieved(FitRag(), "How old is it?", given).context) == 10


class Prefers(Scripted):
    """Says yes to a prompt with a word."""

    def choice_probabilities(
        self, messages: Sequence[Message], choices: Sequence[str], options: CallOptions | None = None
    ) -> tuple[float, ...]:
        Scripted.choice_probabilities(self, messages, choices, options)
        return (0.6, 0.1) if "1894" in messages[-1].text else (0.1, 0.6)


@pytest.mark.parametrize(("rank_by", "n_asked"), [("llm-prefer", 10), ("sum", 10), ("has-answer", 0), ("retriever", 0)])
def test_without_parts_the_model_itself_can_say_which_windows_it_prefers(rank_by: str, n_asked: int) -> None:
    inquiry = Document.of("d", "d", Extracted(Content(INQUIRY.read_text("utf-8")), "text/plain"))
    large = Prefers(["Hull"])
    given = tools(build_corpus([inquiry], 100), large=large, part=load(SHIPPED))
    method = FitRag(rank_by=rank_by)  # type: ignore[arg-type]
    assert method.needs_large == bool(n_asked)
    found = reduction(retrieved(method, "Who held the inquiry into the wreck of the Garefowl?", given))
    assert len(large.asked) == n_asked
    assert (found.window_labels is None) == (rank_by == "retriever")
    if rank_by == "llm-prefer":
        preferred = ["1894" in window.text for window in found.windows]
        assert True in preferred
        assert preferred == sorted(preferred, reverse=True)


def test_by_the_paper_the_model_writes_a_passage_where_it_does_not_read_the_document() -> None:
    large = Scripted(["The smith of Hull forged it."])
    many = corpus_of([f"The anchor {i} of the brig was forged." for i in range(40)])
    given = tools(many, large=large, part=knows(0.5))
    method = FitRag(fit_rag="made", self_knowledge=True, prompt_style="paper")
    trace = method.answer(retrieved(method, QUESTION, given), given)
    (background, _, _), (answering, _, _) = large.asked
    assert "background passage" in background[0].text
    assert "[1] The smith of Hull forged it." in answering[0].text
    assert (trace.from_document, trace.answer) == (False, "The smith of Hull forged it.")
    assert trace.scores.per_sample.shape == (len(trace.samples), 40) == (1, 40)


def test_labels_of_another_model_make_a_warning() -> None:
    method, whole = FitRag(fit_rag="made", allow_unsupported=True), parts(detector=stops_after(0.9))
    for digest in (None, "1" * 64):
        trace = run(corpus_of(TEXTS), method, whole, answer=True, sha256=digest)
        assert trace.answer == "Hull"
        assert not trace.warnings
    (warning,) = run(corpus_of(TEXTS), method, whole, answer=True, sha256="2" * 64).warnings
    assert "trained for taught, and" in warning


def test_in_a_language_that_the_scorer_was_not_trained_on_the_retriever_ranks_with_a_warning() -> None:
    texts = [Extracted(Content(text), "text/plain") for text in TEXTS]
    german = build_corpus([Document.of(f"d{i}", f"d{i}", text, language="de") for i, text in enumerate(texts)])
    own = replace(knows(0.5), detector=stops_after(0.9))
    trace = run(german, FitRag(fit_rag="made", select=3, self_knowledge=True), own)
    untrained = run(german, FitRag(select=3))
    assert isinstance(own.scorer, ByWords)
    assert own.scorer.asked == 0
    assert (trace.context, trace.from_document) == (untrained.context, True)
    assert (reduction(trace).labels, reduction(trace).told) == (None, None)
    (warning,) = trace.warnings
    assert "trained on en, not on de: the retriever ranks" in warning
    unknown = parts(languages=(), detector=stops_after(0.9))
    assert run(german, FitRag(fit_rag="made", select=3), unknown).warnings == ()
    assert isinstance(unknown.scorer, ByWords)
    assert unknown.scorer.asked


def test_the_plan_names_as_many_chunks_as_are_scored_and_selected() -> None:
    method = FitRag(fit_rag="made", select=4)
    trace = run(corpus_of(TEXTS), method, parts())
    assert len(trace.context) == 4
    assert method.steps(len(TEXTS), 100) == [f"{len(reduction(trace).candidates)} to score", "4 to select"]
    assert method.steps(1000, 100) == ["100 to score", "4 to select"]


@pytest.mark.parametrize("n_sentences", range(6))
def test_windows_of_short_and_long_chunks(n_sentences: int) -> None:
    sentences = [f"Sentence {i} is here." for i in range(n_sentences)]
    corpus = corpus_of([" ".join(sentences) or " "])
    found = [window.text for chunk in corpus.chunks for window in sliding_windows(chunk)]
    runs = [" ".join(sentences[i : i + 3]) for i in range(max(1, n_sentences - 2))] if sentences else []
    assert found == runs


def test_windows_without_an_end_of_a_sentence_and_in_chinese() -> None:
    (chunk,) = corpus_of(["no sentence ends here at all"]).chunks
    assert [window.text for window in sliding_windows(chunk)] == ["no sentence ends here at all"]
    (chunk,) = corpus_of(["船在海上。锚很重。天下雨了。没有人来。"]).chunks
    assert [window.text for window in sliding_windows(chunk)] == ["船在海上。锚很重。天下雨了。", "锚很重。天下雨了。没有人来。"]


def test_the_detector_sees_zeros_where_there_is_no_window() -> None:
    x = features(np.array([[0.5, 0.25]], np.float32))
    assert x.shape == (20,)
    assert x.tolist() == [0.5, 0.25] + [0.0] * 18


def test_a_folder_that_was_trained_anew_is_another_configuration(tmp_path: Path) -> None:
    method = FitRag(fit_rag=str(tmp_path))
    assert method.described()["fit_rag"] == str(tmp_path)
    (tmp_path / "fit-rag.json").write_text("{}")
    first = method.described()["fit_rag"]
    (tmp_path / "fit-rag.json").write_text("{ }")
    assert first.startswith(tmp_path.name)
    assert method.described()["fit_rag"] not in (first, str(tmp_path))
