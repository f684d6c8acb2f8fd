"""OpenAI's interface: each served document or folder is a model, and a chat with it is a conversation about it.

What was sent cannot be taken back, so an answer is sent once it was checked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from time import time
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from pydantic import BaseModel, BeforeValidator, Field, StringConstraints
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fbrag_cli.errors import FbragError
from fbrag_cli.query import LONGEST_QUESTION
from fbrag_cli.render.answer import answer_of
from fbrag_cli.render.as_json import certainty
from fbrag_cli.render.markdown import answer_in, chat_message
from fbrag_cli.serving.failure import HttpError, as_json, known, status_of
from fbrag_cli.serving.fields import FieldError
from fbrag_cli.serving.http.body import WHOLE, Text, read
from fbrag_cli.serving.http.stream import EventStream, finished
from fbrag_cli.serving.job import END
from fbrag_cli.text.printable import dumps, one_line
from fbrag_cli.version import version

if TYPE_CHECKING:
    from fbrag_cli.progress import Event
    from fbrag_cli.serving.desk import Desk
    from fbrag_cli.serving.job import Job
    from fbrag_cli.serving.library import Library, LibraryEntry
    from fbrag_cli.trace import Trace

_LONGEST_INSTRUCTIONS = 2_000  # characters of all system messages
_MOST_TOLD = 50  # exchanges before the question
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

Most = Annotated[int, Field(ge=1)]


def _text(content: Any) -> Any:
    """Return the words of a message, which may come in parts. Raises ValueError for what is not text."""
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            kind = one_line(str(part.get("type") if isinstance(part, dict) else type(part).__name__), 60)
            raise ValueError(f"content of the kind {kind!r} cannot be read, only text")
    return "\n".join(part["text"] for part in content) if isinstance(content, list) else content or ""


class _Message(BaseModel):
    role: str
    content: Annotated[Text, BeforeValidator(_text)] = ""


class _StreamOptions(BaseModel):
    include_usage: bool | None = None


class ChatRequest(BaseModel):
    """What of a request for a chat completion applies to a question about documents; the rest is ignored."""

    model: Annotated[str, StringConstraints(min_length=1), WHOLE] = Field(description="GET /v1/models lists the documents to ask")
    messages: list[_Message] = Field(description="a list whose last message is a question of the user")
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: Most | None = None
    max_completion_tokens: Most | None = None
    response_format: dict[str, Any] | None = None

    @property
    def counts(self) -> bool:
        """Whether the last piece of a stream has the numbers of tokens."""
        return bool(self.stream_options and self.stream_options.include_usage)

    def asked(self, desk: Desk) -> Job:
        """Return the job of its question, which runs.

        Raises FieldError for what has no meaning here, HttpError for a model that is not there, and as `Desk.ask`.
        """
        if (self.response_format or {}).get("type", "text") != "text":
            raise FieldError("response_format", "the answer is text", "POST /v1/ask returns JSON")
        form = "\n".join(each.content for each in self.messages if each.role in ("system", "developer")).strip()
        if len(form) > _LONGEST_INSTRUCTIONS:
            what = f"the system messages have more than {_LONGEST_INSTRUCTIONS:,} characters"
            raise FieldError("messages", what, "they are the form of the answer: say it in fewer words")
        *told, (question, answer) = self._exchanges()
        if answer is not None or not question:
            raise FieldError("messages", "the last one must be a question of the user")
        _entry(desk.library, self.model)
        method = desk.default_method
        most = min(method.max_tokens, self.max_completion_tokens or self.max_tokens or method.max_tokens)
        return desk.ask(
            question,
            [self.model],
            method=replace(method, max_tokens=most, instructions=form or None),  # which name no file here
            conversation=[(each[:LONGEST_QUESTION], answer or "") for each, answer in told[-_MOST_TOLD:]],
        )

    def _exchanges(self) -> list[tuple[str, str | None]]:
        """Return each question with its answer, None for none."""
        said: list[tuple[str, str | None]] = []
        for message in self.messages:
            if message.role == "user":
                said.append((message.content, None))
            elif message.role == "assistant" and said:
                said[-1] = said[-1][0], "\n\n".join(filter(None, [said[-1][1], answer_in(message.content)]))
        return said or [("", None)]


def routes(desk: Desk) -> list[Route]:
    """Return the routes /v1/models and /v1/chat/completions."""
    started = int(time())

    async def models(request: Request) -> Response:
        return as_json({"object": "list", "data": [_model(each.name, started) for each in desk.library.entries()]})

    async def model(request: Request) -> Response:
        name = request.path_params["model"]
        _entry(desk.library, name)
        return as_json(_model(name, started))

    async def complete(request: Request) -> Response:
        asked = await read(request, ChatRequest)
        job = await anyio.to_thread.run_sync(asked.asked, desk)
        reply = _Reply(asked, job)
        if asked.stream:
            return EventStream(job, reply.events)
        return as_json(await anyio.to_thread.run_sync(reply.whole, await finished(request, job)))

    return [
        Route("/v1/models", models),
        Route("/v1/models/{model:path}", model),
        Route("/v1/chat/completions", complete, methods=["POST"]),
    ]


def error_of(failure: FbragError) -> dict[str, Any]:
    """Return an error in OpenAI's form."""
    status = status_of(failure)
    kind = _TYPES.get(status) or ("server_error" if status >= 500 else "invalid_request_error")
    message = failure.message + (f" ({failure.hint})" if failure.hint else "")
    return {"error": {"message": message, "type": kind, "param": getattr(failure, "param", None), "code": failure.code}}


# -- models ------------------------------------------------------------------------------------------------------------------


def _entry(library: Library, name: str) -> LibraryEntry:
    """Return the entry of a model's name. Raises HttpError, 404."""
    try:
        return library.find([name])[0]
    except FbragError as error:
        what = f"there is no model {one_line(name, 200)}"
        raise HttpError(404, what, "GET /v1/models lists them", code="model_not_found") from error


def _model(name: str, started: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": started, "owned_by": "fbrag"}


# -- an answer ---------------------------------------------------------------------------------------------------------------


class _Reply:
    """What a client gets for a question."""

    def __init__(self, asked: ChatRequest, job: Job) -> None:
        self._asked, self._job, self._created = asked, job, int(time())
        self._begun = False

    def whole(self, trace: Trace) -> dict[str, Any]:
        """Return the reply in one piece."""
        message = {"role": "assistant", "content": "".join(self._written(trace)), "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(trace)}
        return self._record("chat.completion", [choice]) | {"usage": _usage(trace), "fbrag": _verdict(trace)}

    def events(self, event: Event) -> Iterator[tuple[str, str]]:
        """Yield what a stream brings at an event of the job, in their order: names, which are all "", and data."""
        if not self._begun:
            self._begun = True
            yield "", self._piece({"role": "assistant", "content": ""})
        if event is not END:
            return
        try:
            trace = self._job.trace()
            written = self._written(trace)
        except Exception as error:
            yield "", dumps(error_of(known(error)))
            return
        for text in written:
            yield "", self._piece({"content": text})
        yield "", self._piece({}, _finish(trace), fbrag=_verdict(trace))
        if self._asked.counts:
            yield "", dumps(self._record("chat.completion.chunk", []) | {"usage": _usage(trace)})
        yield "", "[DONE]"

    def _written(self, trace: Trace) -> list[str]:
        """Return the answer in pieces, without the folder in which the documents lie on this machine."""
        path = next((path for each in self._job.entries for path in each.paths), "")
        folder = os.path.join(os.path.dirname(os.path.normpath(path)), "")
        return [each for each in chat_message(answer_of(trace), "" if folder == os.sep else folder) if each]

    def _piece(self, delta: dict[str, str], finish: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        counts = {"usage": None} if self._asked.counts else {}
        return dumps(self._record("chat.completion.chunk", [choice]) | counts | more)

    def _record(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self._job.id}",
            "object": kind,
            "created": self._created,
            "model": self._asked.model,
            "system_fingerprint": f"fbrag-{version()}",
            "choices": choices,
        }


def _verdict(trace: Trace) -> dict[str, Any]:
    """Return what OpenAI's form has no key for: whether there is an answer, and how sure it is."""
    return {"status": trace.status, **certainty(trace, answer_of(trace))}


def _finish(trace: Trace) -> str:
    return "length" if trace.truncated else "stop"


def _usage(trace: Trace) -> dict[str, Any]:
    """Return the numbers of tokens of all calls of the models. What was written before the answer counts as a thought."""
    read = sum(each.prompt_tokens for each in trace.stages)
    written = sum(each.generated_tokens for each in trace.stages)
    thought = sum(each.generated_tokens if each.name == "forward" else each.reasoning_tokens for each in trace.stages)
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": sum(each.cached_tokens for each in trace.stages)},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }
