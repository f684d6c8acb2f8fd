"""The words of every prompt, as messages of a chat.

Each prompt keeps the parts of the paper's (Tables 4 to 6) in the paper's order: instruction, context, instruction again,
question. The words are ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from fbrag_cli.generation.generator import Message
from fbrag_cli.text.languages import name_of

#: Stands between two passages.
BETWEEN = "\n\n"


def forward_messages(context: Sequence[str], question: str, language: str = "en") -> tuple[Message, ...]:
    """Return the prompt of Stage II: a short rationale, then an answer. The prompt gives the first word of the reply: small
    models then keep the form.

    language: that of the passages (ISO 639-1). The model is asked to write in it, so that its words occur in the document. The
    first words are in that language too: after an English word, small models go on in English.
    """
    name = "" if language == "en" else name_of(language)
    asked = (
        "Now write two or three short sentences that begin with 'Rationale:' and say which facts of the passages lead to "
        "the answer, with the names of the people, places and things. Then, on a new line that begins with 'Answer:', "
        f"give the answer in as few words as you can.{f' Write in {name}.' if name else ''}\n\n"
        f"Question: {question}"
    )
    return Message.about([_passages(context)], asked), Message("assistant", f"Rationale (in {name}):" if name else "Rationale:")


def answer_messages(context: Sequence[str], question: str, instructions: str | None = None) -> tuple[Message, ...]:
    """Return the prompt of Stage III: the answer from the selected chunks.

    instructions: the form that the user asks for, in place of ours.
    """
    return (_asked(context, question, form_of(instructions)),)


def question_messages(question: str, instructions: str | None = None) -> tuple[Message, ...]:
    """Return the question without a context, to be answered from the model's own knowledge."""
    return (Message("user", f"Answer the question. {form_of(instructions)}\n\nQuestion: {question}"),)


def background_messages(question: str) -> tuple[Message, ...]:
    """Return the prompt of GenRead's step 1: a passage that the model writes from what it knows, to answer the question by
    reading it."""
    asked = (
        "Write a short background passage, as an encyclopedia would have it, with the facts that one needs to answer the "
        "question below. Name the people, places, dates and things. Write the passage alone, in the language of the question."
    )
    return (Message("user", f"{asked}\n\nQuestion: {question}"),)


def self_route_messages(context: Sequence[str], question: str, instructions: str | None = None) -> tuple[Message, ...]:
    """Return the prompt of Self-Route's step 2: as `answer_messages`, but the model may decline."""
    decline = 'If the passages do not hold the answer, write "unanswerable" and nothing else.'
    return (_asked(context, question, f"{form_of(instructions)} {decline}"),)


def support_messages(context: Sequence[str], question: str, answer: str) -> tuple[Message, ...]:
    """Return the check after Stage III (not in the paper): yes or no, does the context show the answer? Begins as
    `answer_messages` does, so that the context is not read again."""
    return (Message.about([_passages(context)], support_question(question, answer)),)


#: A question, its answer, a question that follows it, and that question written so that it stands alone.
_WHOLE = (
    ("Who built the Ironhythe works?", "Josiah Goss", "And who paid for it?", "Who paid for the Ironhythe works?"),
    ("What did the mayor say about trams?", "He wants more.", "And about schools?", "What did the mayor say about schools?"),
    (
        "Which ship brought the mail?",
        "the Petrel",
        "Where did its crew sleep in the winter?",
        "Where did the crew of the Petrel sleep in the winter?",
    ),
    (
        'In the tale "The Lamp": Where did Lena hide the letter?',
        "behind the clock",
        "And why did she cry when her brother found it?",
        'In the tale "The Lamp": Why did Lena cry when her brother found the letter?',
    ),
    (
        "What did the survey of 1902 measure?",
        "the glacier",
        "And Berg's, from 1931?",
        "What did Berg's survey from 1931 measure?",
    ),
    (
        "On which river does the town lie?",
        "the Orme",
        "Who owned the mill on that river in the 1880s?",
        "Who owned the mill on the Orme in the 1880s?",
    ),
    (
        "When was the harbour dredged?",
        "1911",
        "Which of his ships did the owner sell?",
        "Which of his ships did the owner sell?",
    ),
)


def rewrite_messages(exchanges: Sequence[tuple[str, str]], typed: str) -> tuple[Message, ...]:
    """Return the prompt that makes a question of a conversation whole (not in the papers). Examples stand before it as messages.

    exchanges: the questions before it, each with its answer ("" without one), in their order.
    """
    asked = (
        "Rewrite the follow-up question so that it can be understood without the questions before it. Replace words like "
        "'he', 'it', 'there' or 'that' by the names they stand for, and add what is left out. Keep its other words and its "
        "language. A question that can be understood alone stays as it is. Do not answer it.\n\n"
    )
    messages = []
    for question, answer, follow_up, whole in _WHOLE:
        messages += [Message("user", asked + _followed([(question, answer)], follow_up)), Message("assistant", whole)]
        asked = ""
    return *messages, Message("user", _followed(exchanges, typed))


def _followed(exchanges: Sequence[tuple[str, str]], typed: str) -> str:
    lines = [f"Question before: {question}\nAnswer: {answer or 'none'}" for question, answer in exchanges]
    return "\n".join([*lines, f"Follow-up question: {typed}"])


def _passages(context: Sequence[str]) -> str:
    return f"Answer the question from the passages below.\n\nPassages:\n{BETWEEN.join(context)}\n\n"


def _asked(context: Sequence[str], question: str, form: str) -> Message:
    asked = f"Answer the question from these passages and from nothing else. {form}\n\nQuestion: {question}"
    return Message.about([_passages(context)], asked)


def support_question(question: str, answer: str, texts: str = "passages") -> str:
    """Return the end of a prompt that asks whether the texts show the answer. texts: what the prompt calls them."""
    asked = f"Do the {texts} above show that the proposed answer is right? Reply with yes or no."
    return f"Question: {question}\nProposed answer: {answer}\n\n{asked}"


def form_of(instructions: str | None) -> str:
    """Return the sentence that asks for the form of the answer."""
    if instructions:
        return f"Give it in this form: {instructions}"
    return "Give the answer alone, in as few words as you can, in the language of the question."
