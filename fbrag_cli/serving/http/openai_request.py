"""Reads a request for a chat completion, as OpenAI's interface has it: what of it applies to questions about documents.

Options that change how a model samples are ignored. Options that ask for another kind of reply are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fbrag_cli.render.markdown import answer_in
from fbrag_cli.serving.failure import HttpError
from fbrag_cli.text.printable import one_line

_LONGEST_QUESTION = 10_000  # characters
_LONGEST_INSTRUCTIONS = 2_000  # characters of all system messages
_MOST_TOLD = 50  # exchanges before the question
_NAMED = 60  # characters of what a client sent, in an error

#: What a client says of the effort, and the preset that it stands for. Other words, and none, stand for the default.
_PRESETS = {"none": "fast", "minimal": "fast", "low": "fast", "high": "thorough", "xhigh": "thorough"}
_TOOLS = "no tool is called: leave them out, or ask through fbrag mcp"
_PART = "only text can be read: put the document beside those that are served"


class RefusedError(HttpError):
    """A request that cannot be answered. param: the part of it that is the reason."""

    def __init__(self, param: str, message: str, hint: str | None = None) -> None:
        super().__init__(400, f"{param}: {message}", hint)
        self.param = param


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A question about documents, as a client of OpenAI's interface asks it.

    model: name of the documents. told: the questions before it, each with its answer, "" for none. instructions: the form of the
    answer; "" for ours. max_tokens: of the answer; None for the method's own limit. preset: name of a preset, "default" for none.
    streaming: whether the reply comes in pieces. counting: whether the last one has the numbers of tokens.
    """

    model: str
    question: str
    told: tuple[tuple[str, str], ...]
    instructions: str
    max_tokens: int | None
    preset: str
    streaming: bool
    counting: bool


def read(body: Mapping[str, Any]) -> ChatRequest:
    """Return the request of a JSON object. Raises RefusedError for what has no meaning here."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise RefusedError("model", "name the documents to ask", "GET /v1/models lists them")
    _refuse(body)
    said, instructions = _messages(body.get("messages"))
    (question, answer), told = said[-1], said[:-1]
    if answer is not None or not question.strip():
        raise RefusedError("messages", "the last one must be a question of the user")
    if len(question) > _LONGEST_QUESTION:
        raise RefusedError("messages", f"the question has more than {_LONGEST_QUESTION:,} characters", "ask it in fewer words")
    options = _typed(body, "stream_options", dict, {})
    return ChatRequest(
        model=model,
        question=question.strip(),
        told=tuple((each[:_LONGEST_QUESTION], answer or "") for each, answer in told[-_MOST_TOLD:]),
        instructions=instructions,
        max_tokens=_most_tokens(body),
        preset=_PRESETS.get(str(body.get("reasoning_effort")), "default"),
        streaming=_typed(body, "stream", bool, False),
        counting=_typed(options, "include_usage", bool, False),
    )


def _refuse(body: Mapping[str, Any]) -> None:
    """Raise RefusedError for an option that asks for another kind of reply than an answer in words."""
    if body.get("n") not in (None, 1):
        raise RefusedError("n", "a question has one answer", "leave it out, or ask again")
    for name in ("tools", "functions"):
        if body.get(name) and body.get("tool_choice") != "none":
            raise RefusedError(name, _TOOLS)
    kind = _typed(body, "response_format", dict, {"type": "text"}).get("type")
    if kind != "text":
        raise RefusedError("response_format", "the answer is text", "POST /v1/ask returns JSON")
    if body.get("logprobs"):
        raise RefusedError("logprobs", "probabilities of tokens are not returned", "leave it out")
    if body.get("stop"):
        raise RefusedError("stop", "an answer ends where it is complete", "leave it out")
    if "audio" in _typed(body, "modalities", list, []):
        raise RefusedError("modalities", "the answer is text", 'leave out "audio"')


def _messages(messages: object) -> tuple[list[tuple[str, str | None]], str]:
    """Return each question with its answer, None for none, and the words of all system messages."""
    if not isinstance(messages, list) or not messages:
        raise RefusedError("messages", "a list with a question is needed")
    said: list[tuple[str, str | None]] = []
    instructions = []
    for i, message in enumerate(messages):
        where = f"messages[{i}]"
        if not isinstance(message, dict):
            raise RefusedError(where, "an object with a role and a content is needed")
        role, text = message.get("role"), _text(message.get("content"), where)
        if role in ("system", "developer"):
            instructions.append(text)
        elif role == "user":
            said.append((text, None))
        elif role == "assistant":
            if message.get("tool_calls"):
                raise RefusedError(where, _TOOLS)
            if said:
                said[-1] = said[-1][0], "\n\n".join(filter(None, [said[-1][1], answer_in(text)]))
        else:
            raise RefusedError(where, f"a message of {one_line(str(role), _NAMED)!r} has no meaning here", "leave it out")
    form = "\n".join(instructions).strip()
    if len(form) > _LONGEST_INSTRUCTIONS:
        what = f"the system messages have more than {_LONGEST_INSTRUCTIONS:,} characters"
        raise RefusedError("messages", what, "they are the form of the answer: say it in fewer words")
    return said or [("", None)], form


def _text(content: object, where: str) -> str:
    """Return the words of a message, without halves of characters."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": "" if content is None else content}]
    texts = []
    for part in parts:
        text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
        if not isinstance(text, str):
            kind = one_line(str(part.get("type") if isinstance(part, dict) else type(part).__name__), _NAMED)
            raise RefusedError(where, f"content of the kind {kind!r} cannot be read", _PART)
        texts.append(text.encode("utf-8", "replace").decode())
    return "\n".join(texts)


def _most_tokens(body: Mapping[str, Any]) -> int | None:
    limits: Sequence[int | None] = [_typed(body, name, int, None) for name in ("max_completion_tokens", "max_tokens")]
    for limit in filter(lambda each: each is not None, limits):
        if limit is not None and limit < 1:
            raise RefusedError("max_tokens", "at least one token is needed")
    return next((limit for limit in limits if limit is not None), None)


def _typed(body: Mapping[str, Any], name: str, kind: type[Any], default: Any) -> Any:
    """Return the value of an option; the default where it is left out or null. Raises RefusedError for one of another type."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        wanted = {bool: "true or false", int: "a whole number", dict: "an object", list: "a list"}[kind]
        raise RefusedError(name, f"{wanted} is needed")
    return value
