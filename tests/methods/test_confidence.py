"""How sure an answer is: agreement of the samples with it, the check, and what both decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.methods.alone import ClosedBook
from fbrag_cli.methods.fb_rag.baselines import OrderPreserving, SelfRoute, Vanilla
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.method import DECLINED, Method, agreement, judged
from fbrag_cli.render.answer import SURE, SURE_ALONE, SURE_UNWEIGHED, answer_of
from fbrag_cli.trace import Trace, Verdict
from tests.methods.scripted import Scripted, retrieved, tools

QUESTION = "Where was the man born who sealed the lantern?"


def answered(answer: str, *samples: str, language: str = "en", question: str = QUESTION) -> Trace:
    text = "The lantern was sealed by Tobias Wrenn. Wrenn was born at Skerrow."
    corpus = build_corpus([Document.of("d", "d", Extracted(Content(text), "text/plain"), language=language)])
    trace = retrieved(FBRag(samples=len(samples)), question, tools(corpus, Scripted(list(samples))))
    return replace(trace, answer=answer)


def is_marked(trace: Trace) -> bool:
    return answer_of(trace).low_confidence


def test_samples_agree_that_hold_the_answer_in_another_form() -> None:
    trace = answered(
        "At Skerrow.", " Wrenn was born in Skerrow.\nAnswer: Skerrow", " It was Hull.\nAnswer: Hull", " Skerrow, I think"
    )
    assert agreement(trace) == pytest.approx(2 / 3)


def test_words_of_the_question_are_no_agreement() -> None:
    assert (
        agreement(answered("The man who sealed the lantern was born in Hull", " The man who sealed the lantern\nAnswer: Goss"))
        == 0
    )


def test_a_long_answer_is_held_by_half_of_its_words() -> None:
    told = "Tobias Wrenn, a boy from the island of Skerrow, went to sea with his uncle"
    assert agreement(answered(told, " Tobias Wrenn was a boy from the island of Skerrow")) == 1
    assert agreement(answered(told, " Skerrow")) == 0


def test_samples_agree_that_say_the_same_in_other_words_but_not_with_another_name_or_number() -> None:
    asked = "How much money does Mr. Wrenn have a year?"

    def agree(answer: str, *samples: str) -> float | None:
        return agreement(answered(answer, *samples, question=asked))

    assert agree("Ten thousand pounds", " I see.\nAnswer: Ten thousand a year") == 1
    assert agree("Ten thousand pounds", " I see.\nAnswer: Five thousand a year", " I see.\nAnswer: Ten") == 0
    assert agree("10,000 pounds", " I see.\nAnswer: 12,000 pounds", " He has 10,000 pounds.\nAnswer: 12,000 pounds") == 0
    assert agree("Henry Goss", " Henry Goss was told.\nAnswer: Thomas Goss", " Henry Goss was told.\nAnswer: Henry Goss") == 0.5
    assert agree("Paid by Goss", " Goss.\nAnswer: Goss", " Goss.\nAnswer: Paid by Goss and Hull") == 0  # one says less, one more


def test_agreement_in_a_script_without_spaces() -> None:
    trace = answered(
        "斯凯罗岛", " 他生于斯凯罗岛。\n答案: 斯凯罗岛", " 他生于赫尔。", language="zh", question="封灯的人生于哪里?"
    )
    assert agreement(trace) == 0.5


def test_without_samples_or_words_of_its_own_nothing_agrees_or_differs() -> None:
    assert agreement(answered("The.", " Skerrow")) is None
    corpus = answered("x", " x").corpus
    assert agreement(replace(retrieved(OrderPreserving(), QUESTION, tools(corpus, Scripted(["x"]))), answer="Skerrow")) is None


def test_the_answer_s_own_probability_weighs_twice_as_much_as_check_and_samples() -> None:
    said = answered("Skerrow", " Born at Skerrow.\nAnswer: Skerrow", " Born at Hull.\nAnswer: Hull")

    def trace(probability: float, support: float | None) -> Trace:
        return judged(replace(said, verdict=Verdict(answer_probability=probability)), support)

    def confidence(probability: float, support: float | None) -> float | None:
        return trace(probability, support).verdict.confidence

    assert confidence(0.9, 0.7) == pytest.approx((0.9 + (0.7 + 0.5) / 2 / 2) / 1.5)
    assert confidence(0.9, None) == pytest.approx((0.9 + 0.5 / 2) / 1.5)
    assert (is_marked(trace(1, 1)), is_marked(trace(0.5, 1))) == (False, True)
    assert confidence(1, 0.9) > SURE > confidence(0.4, 0.9)  # type: ignore[operator]


def test_the_document_does_not_say_what_check_and_samples_do_not_show_however_probable_it_is() -> None:
    said = answered("Skerrow", " Born at Hull.\nAnswer: Hull")
    trace = judged(replace(said, verdict=Verdict(answer_probability=1)), 0.5)
    assert (trace.status, is_marked(trace)) == ("not_found", False)


@pytest.mark.parametrize(
    ("method", "n_chunks_read"),
    [(OrderPreserving(allow_unsupported=True), 1), (Vanilla(), 1), (SelfRoute(), 1), (ClosedBook(), 0)],
)
@pytest.mark.parametrize("probability", [0.9, 0.5, None])
def test_without_samples_the_answer_s_own_probability_alone_makes_it_unsure(
    method: Method, n_chunks_read: int, probability: float | None
) -> None:
    corpus, large = answered("x", " x").corpus, Scripted(["Skerrow"], probability=probability)
    given = tools(corpus, large=large)
    trace = method.answer(retrieved(method, QUESTION, given), given)
    assert (trace.status, len(trace.context)) == ("answered", n_chunks_read)
    assert trace.verdict.answer_probability == probability
    assert is_marked(trace) == (probability is not None and probability < SURE_ALONE)
    assert trace.verdict.confidence == (trace.verdict.support if probability is None else probability)


def test_without_a_probability_low_confidence_declines_and_middle_confidence_is_unsure() -> None:
    same, other = " Born at Skerrow.\nAnswer: Skerrow", " Born at Hull.\nAnswer: Hull"
    seen = {}
    for support in np.linspace(0, 1, 21):
        for name, samples in (("all", (same, same)), ("one", (same, other)), ("none", (other, other))):
            trace = judged(answered("Skerrow", *samples), float(support))
            assert trace.verdict.confidence is not None
            assert (trace.status == "not_found") == (trace.verdict.confidence < DECLINED)
            assert is_marked(trace) == (DECLINED <= trace.verdict.confidence < SURE_UNWEIGHED)
            seen[name] = trace
    assert [seen[name].verdict.agreement for name in ("all", "one", "none")] == [1, 0.5, 0]
    assert not is_marked(seen["all"])
    assert is_marked(seen["none"])  # the check alone makes no answer sure that no sample holds


def test_without_a_check_an_answer_is_unsure_that_no_sample_holds() -> None:
    assert is_marked(judged(answered("Hull", " Skerrow", " Goss"), None))
    assert not is_marked(judged(answered("Hull", " Skerrow", " Hull"), None))
