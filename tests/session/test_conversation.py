"""A conversation: what follows up is made whole, what stands alone is left alone, and nothing that a model invents counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import QUIET, CallOptions, Generation, Generations, Message, ModelInfo, Sampling
from fbrag_cli.indexing.collect import collect_text
from fbrag_cli.methods.fb_rag.baselines import OrderPreserving
from fbrag_cli.progress import Listener
from fbrag_cli.query import Collection
from fbrag_cli.session.conversation import Conversation, plausible_rewrite, stands_alone
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.storage.cache import Cache
from fbrag_cli.trace import Trace

METHOD = OrderPreserving(select=2)
BUILT = ("Who built the Ironhythe works?", "Josiah Goss")
TEXT = "\n\n".join(
    [
        "The Ironhythe works were built by Josiah Goss in 1841. He came from Leith.",
        "The railway board paid for the works at Ironhythe. Goss gave the land.",
        "The anchor of the Garefowl was forged there. It lost its fluke off the Skerries.",
        "Nobody in the village liked the smoke. The vicar wrote about it every year.",
    ]
)


def collected(text: str = TEXT) -> Collection:
    return collect_text(Document.of("works.txt", "works.txt", Extracted(Content(text), "text/plain"), language="en"), 15)


class Writer:
    """A stand-in for the small model: it writes what it is told, and notes what it was asked."""

    def __init__(self, written: str = "") -> None:
        self.render_prompt, self.asked = written, list[Sequence[Message]]()

    info = ModelInfo("writer", None, None, None)
    choice_probabilities = None

    def generate(self, messages: Sequence[Message], n: int, sampling: Sampling, options: CallOptions = QUIET) -> Generations:
        if options.cancellation:
            options.cancellation.raise_if_requested()
        assert sampling.temperature == 0
        self.asked.append(messages)
        return Generations((Generation(self.render_prompt, 1, "stop", 0),), 1, 0, 0.0, 0.0)


@pytest.fixture
def writer(session: Session, monkeypatch: pytest.MonkeyPatch) -> Writer:
    """The small model of the session."""
    made = Writer()
    monkeypatch.setattr(session.models, "load", lambda name, role, adapter=None, lease=None, ahead=None: made)
    return made


def answered(conversation: Conversation, typed: str, answer: str | None) -> Trace:
    """Ask, and answer without a model."""
    trace = conversation.session.retrieve(conversation.query(typed), answering=False)
    trace = replace(trace, answer=answer, status="answered" if answer else "not_found")
    conversation.add(typed, trace)
    return trace


def test_a_follow_up_is_made_whole_before_retrieval(session: Session, writer: Writer) -> None:
    conversation = Conversation(session=session, collection=collected(), method=METHOD)
    assert answered(conversation, *BUILT).question == BUILT[0]
    assert not writer.asked, "the first question has nothing before it"
    writer.render_prompt = " Who paid for the Ironhythe works?\nAnswer: nobody"
    trace = answered(conversation, "And who paid for it?", "the railway board")
    assert trace.question == "Who paid for the Ironhythe works?"
    assert "railway board" in trace.corpus.chunks[trace.selection.ranked[0]].text
    prompt = "".join(message.text for message in writer.asked[0])
    assert all(each in prompt for each in (*BUILT, "And who paid for it?"))


def test_a_long_follow_up_is_asked_as_typed_if_its_whole_form_would_be_too_long(session: Session, writer: Writer) -> None:
    conversation = Conversation(session=session, collection=collected(), method=METHOD)
    answered(conversation, *BUILT)
    typed = "And who paid for it?" + " so" * 3_320
    assert conversation.query(typed).text == typed
    assert len(writer.asked) == 1
    with pytest.raises(FbragError, match="more than 10,000 characters"):
        conversation.query(typed + "x" * 50)
    assert len(writer.asked) == 1, "no model is asked for what is refused"


def test_a_question_that_stands_alone_is_asked_word_for_word_and_no_model_is_asked(session: Session, writer: Writer) -> None:
    conversation = Conversation(session=session, collection=collected(), method=METHOD)
    answered(conversation, *BUILT)
    assert (
        conversation.rewrite_question("Where was the anchor of the Garefowl forged")
        == "Where was the anchor of the Garefowl forged"
    )
    assert not writer.asked
    conversation.plain = True
    assert conversation.rewrite_question("And who paid for it?") == "And who paid for it?"
    assert not writer.asked


@pytest.mark.parametrize(
    "typed",
    [
        "And when?",
        "What about the anchor of the ship?",
        "Where did he come from?",
        "Und wer hat es bezahlt?",
        "那么它是谁付的钱？",
        "Why?",
        "Et qui a payé pour cela?",
        "But the vicar of the village, what did the vicar write?",
        "何时？",
    ],
)
def test_a_question_that_leaves_something_out_is_seen(typed: str) -> None:
    assert not stands_alone(typed, ("en",))


@pytest.mark.parametrize(
    "typed",
    [
        "Who forged the anchor of the Garefowl?",
        "Wer hat das Werk in Ironhythe gebaut?",
        "WHO BUILT THE IRONHYTHE WORKS",
        "What is the Andover railway paid for?",
    ],
)
def test_a_whole_question_is_seen(typed: str) -> None:
    assert stands_alone(typed, ("en",))


def test_a_question_is_taken_for_one_in_the_language_of_the_document() -> None:
    assert stands_alone("Qui a construit les usines de Goss?", ("fr",))
    assert stands_alone("¿Quién pagó las obras de Ironhythe?", ("es",))
    assert not stands_alone("Et qui les a construites, ces usines?", ("fr",))


PAID = "And who paid for it?"
IN_FRONT = f"{BUILT[0]} (Josiah Goss) {PAID}"


@pytest.mark.parametrize(
    "written",
    [
        "The railway board paid for it.",  # an answer
        "Who built the Ironhythe works?",  # the question before
        "Who paid for the Forth Bridge?",  # what nobody has named
        "Who was Josiah Goss?",  # without what was asked
        "Who paid Josiah Goss " + "and Josiah Goss " * 30 + "?",  # endless
        "Wer hat für das Werk Ironhythe bezahlt (paid) und warum ist es so?",  # another language
        "",
    ],
)
def test_what_is_not_plausible_does_not_count(written: str) -> None:
    assert plausible_rewrite(PAID, written, [BUILT]) == IN_FRONT


@pytest.mark.parametrize(
    ("written", "whole"),
    [
        ('"The Lamp": why did Lena cry?', '"The Lamp": why did Lena cry?'),
        ('"Why did Lena cry?"', "Why did Lena cry?"),
    ],
)
def test_quotes_around_a_question_go_and_those_of_a_title_stay(written: str, whole: str) -> None:
    before = ('In "The Lamp": where did Lena hide it?', "behind the clock")
    assert plausible_rewrite("And why did she cry?", written, [before]) == whole


def test_a_question_that_lost_a_name_does_not_count() -> None:
    typed = "How did the Vicar feel when he saw it?"
    assert plausible_rewrite(typed, "How did Josiah Goss feel when he saw the Ironhythe works?", [BUILT]).endswith(typed)


def test_what_says_no_more_puts_the_last_question_in_front_of_one_without_a_name() -> None:
    assert plausible_rewrite("Why did he leave?", "Why did he leave?", [BUILT]) == f"{BUILT[0]} (Josiah Goss) Why did he leave?"


def test_what_says_no_more_leaves_the_typed_words() -> None:
    typed = "Which of his ships did Vance sell?"
    assert plausible_rewrite(typed, "Which ships of his did Vance sell?", [BUILT]) == typed


def test_the_question_in_front_has_no_answer_where_there_was_none(session: Session, writer: Writer) -> None:
    conversation = Conversation(session=session, collection=collected(), method=METHOD)
    answered(conversation, BUILT[0], None)
    assert conversation.rewrite_question(PAID) == f"{BUILT[0]} {PAID}"
    assert "Answer: none" in writer.asked[0][-1].text


def test_questions_in_front_of_questions_stay_short(session: Session, writer: Writer) -> None:
    conversation = Conversation(session=session, collection=collected(), method=METHOD)
    answered(conversation, *BUILT)
    asked = [answered(conversation, PAID, "the railway board " * 20).question for _ in range(8)]
    assert asked[0] == IN_FRONT
    assert asked[1].startswith(IN_FRONT)
    assert max(len(each.split()) for each in asked) < 120
    assert len(writer.asked[-1][-1].text.split()) < 400, "what the model reads"


def test_a_conversation_that_a_client_repeats_is_understood_as_the_one_it_was(session: Session, writer: Writer) -> None:
    writer.render_prompt = "Who paid for the Ironhythe works?"
    conversation = Conversation(session=session, collection=collected(), method=METHOD)
    answered(conversation, *BUILT)
    answered(conversation, PAID, "the railway board " * 40)
    retold = Conversation(session=session, collection=collected(), method=METHOD)
    retold.take_up([BUILT, (PAID, "the railway board " * 40)])
    said = [each.said for each in conversation.exchanges]
    assert [(each.question, each.answer) for each in retold.history] == [(each.question, each.answer) for each in said]
    for each in (conversation, retold):
        each.rewrite_question("And who gave the land for it?")
    assert len(writer.asked) == 2, "what was asked before is cached"
    answered(retold, "Who forged the anchor of the Garefowl?", "Goss")
    retold.rewrite_question("And when?")
    assert [each in writer.asked[-1][-1].text for each in (BUILT[0], "Who paid for", "anchor", "Goss")] == [True] * 4


def test_a_stop_ends_the_understanding(session: Session, writer: Writer) -> None:
    conversation = Conversation(session=session, collection=collected(), method=METHOD)
    answered(conversation, *BUILT)
    stop = Cancellation()
    stop.request(FbragError("timeout", "stopped"))
    with pytest.raises(FbragError, match="stopped"):
        conversation.rewrite_question(PAID, Listener(cancellation=stop))


def test_a_conversation_with_a_real_model(tiny: Path, tmp_path: Path) -> None:
    """A tiny model writes nonsense, which does not count. Its reply is cached, so that the second run loads no model."""
    settings = ModelSettings(small=str(tiny), large=str(tiny), gpu="off", threads=1)
    for again in (False, True):
        with Session.open(settings, Cache(tmp_path / "cache")) as session:
            conversation = Conversation(session=session, collection=collected(), method=METHOD)
            answered(conversation, *BUILT)
            assert conversation.rewrite_question(PAID) == IN_FRONT
            assert bool(session.device) is not again
