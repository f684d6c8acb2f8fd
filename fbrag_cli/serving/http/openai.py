"""OpenAI's interface: each served document or folder is a model, and a chat with it is a conversation about it.

What was sent cannot be taken back, so an answer is sent once it was checked. Until then a stream brings what the models write, as
`reasoning_content`, which chat pages show as a thought.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import wraps
from time import time
from typing import TYPE_CHECKING, Any

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fbrag_cli import __version__
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.choosing import choose_method, preset_settings
from fbrag_cli.methods.registry import DEFAULT as FB_RAG
from fbrag_cli.query import DEFAULT_RETRIEVER
from fbrag_cli.render.chat_answer import markup_free, pieces
from fbrag_cli.serving.failure import HttpError, as_json, known, respond, status_of
from fbrag_cli.serving.http.inquiry import read_object
from fbrag_cli.serving.http.openai_request import ChatRequest, read
from fbrag_cli.serving.http.stream import EventStream, finished
from fbrag_cli.serving.job import END
from fbrag_cli.text.printable import dumps, one_line

if TYPE_CHECKING:
    from fbrag_cli.methods.method import Method
    from fbrag_cli.progress import Event
    from fbrag_cli.serving.desk import Desk
    from fbrag_cli.serving.job import Job
    from fbrag_cli.serving.library import Entry, Library
    from fbrag_cli.trace import Trace

_PATIENCE = 1.0  # seconds in which a question that fails gets the status of its error, before its stream begins
_POLL_SECONDS = 0.02
_LONGEST_THOUGHT = 500  # characters of a sample
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

Endpoint = Callable[[Request], Awaitable[Response]]


def routes(desk: Desk) -> list[Route]:
    """Return the routes /v1/models and /v1/chat/completions."""
    started = int(time())

    async def models(request: Request) -> Response:
        found = _named(desk.library).items()
        return as_json({"object": "list", "data": [_model(name, entry, started) for name, entry in found]})

    async def model(request: Request) -> Response:
        name = request.path_params["model"]
        return as_json(_model(name, _entry(desk.library, name), started))

    async def complete(request: Request) -> Response:
        asked = read(await read_object(request))
        job = await anyio.to_thread.run_sync(_begun, desk, asked)
        reply = _Reply(asked, job)
        if asked.streaming:
            stream = EventStream(job, reply.events, desk.drop)
            with anyio.move_on_after(_PATIENCE):
                while not job.done:
                    await anyio.sleep(_POLL_SECONDS)
            if job.done:
                job.trace()
            return stream
        try:
            return as_json(await anyio.to_thread.run_sync(reply.whole, await finished(request, job)))
        finally:
            desk.drop(job)

    return [
        Route("/v1/models", _in_form(models)),
        Route("/v1/models/{model:path}", _in_form(model)),
        Route("/v1/chat/completions", _in_form(complete), methods=["POST"]),
    ]


def error_of(failure: FbragError) -> dict[str, Any]:
    """Return an error in OpenAI's form."""
    status = status_of(failure)
    kind = _TYPES.get(status) or ("server_error" if status >= 500 else "invalid_request_error")
    message = failure.message + (f" ({failure.hint})" if failure.hint else "")
    return {"error": {"message": message, "type": kind, "param": getattr(failure, "param", None), "code": failure.code}}


def _in_form(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint, whose errors have OpenAI's form."""

    @wraps(endpoint)
    async def answered(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Exception as error:
            return await respond(request, error, error_of)

    return answered


# -- models ------------------------------------------------------------------------------------------------------------------


def _named(library: Library) -> dict[str, Entry]:
    """Return the entries by their names for people: that of the file or folder, with the entry's id where others have it too."""
    entries = library.entries()
    names = [one_line(os.path.basename(os.path.abspath(each.name)) or each.name) for each in entries]
    n = Counter(names)
    return {name if n[name] == 1 else f"{name}-{entry.id}": entry for name, entry in zip(names, entries, strict=True)}


def _entry(library: Library, name: str) -> Entry:
    """Return the entry of a model's name, or of another name that `Library.find` knows. Raises HttpError, 404."""
    if (named := _named(library).get(name)) is not None:
        return named
    try:
        return library.find([name])[0]
    except FbragError as error:
        what = f"there is no model {one_line(name, 200)}"
        raise HttpError(404, what, "GET /v1/models lists them", code="model_not_found") from error


def _model(name: str, entry: Entry, started: int) -> dict[str, Any]:
    try:
        created = int(os.stat(entry.paths[0]).st_mtime) if entry.paths else started
    except OSError:
        created = started
    return {"id": name, "object": "model", "created": created, "owned_by": "fbrag"}


# -- a question --------------------------------------------------------------------------------------------------------------


def _begun(desk: Desk, asked: ChatRequest) -> Job:
    """Return the job of a question, which runs. Raises as `Desk.ask`."""
    entry, method = _entry(desk.library, asked.model), _method(desk, asked)
    return desk.ask(asked.question, [entry.id], method=method, conversation=asked.told)


def _method(desk: Desk, asked: ChatRequest) -> Method:
    values = preset_settings(asked.preset, DEFAULT_RETRIEVER)
    method = choose_method(values.get("method", FB_RAG), values, on_gpu=desk.session.on_gpu)
    most = min(method.max_tokens, asked.max_tokens or method.max_tokens)
    return replace(method, max_tokens=most, instructions=asked.instructions or None)  # which name no file here


class _Reply:
    """What a client gets for a question."""

    def __init__(self, asked: ChatRequest, job: Job) -> None:
        self._asked, self._job, self._created = asked, job, int(time())
        self._thought, self._begun = _Thought(), False

    def whole(self, trace: Trace) -> dict[str, Any]:
        """Return the reply in one piece."""
        message = {"role": "assistant", "content": "".join(self._written(trace)), "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(trace)}
        return self._record("chat.completion", [choice]) | {"usage": _usage(trace)}

    def events(self, event: Event) -> Iterator[tuple[str, str]]:
        """Yield what a stream brings at an event of the job, in their order: names, which are all "", and data."""
        if not self._begun:
            self._begun = True
            yield "", self._piece({"role": "assistant", "content": ""})
        if text := self._thought.of(event):
            yield "", self._piece({"reasoning_content": text})
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
        yield "", self._piece({}, _finish(trace))
        if self._asked.counting:
            yield "", dumps(self._record("chat.completion.chunk", []) | {"usage": _usage(trace)})
        yield "", "[DONE]"

    def _written(self, trace: Trace) -> list[str]:
        """Return the answer in pieces, without the folder in which the documents lie on this machine."""
        path = next((path for each in self._job.entries for path in each.paths), "")
        folder = os.path.join(os.path.dirname(os.path.normpath(path)), "")
        return [each for each in pieces(trace, "" if folder == os.sep else folder) if each]

    def _piece(self, delta: dict[str, str], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return dumps(self._record("chat.completion.chunk", [choice]) | ({"usage": None} if self._asked.counting else {}))

    def _record(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self._job.id}",
            "object": kind,
            "created": self._created,
            "model": self._asked.model,
            "system_fingerprint": f"fbrag-{__version__}",
            "choices": choices,
        }


class _Thought:
    """What the models write until the answer was checked, as Markdown without markup: samples, and the words of the answer."""

    def __init__(self) -> None:
        self._tail = ""  # the beginning of a word: by itself it may be no address yet

    def of(self, event: Event) -> str:
        """Return what an event adds."""
        if event.kind == "sampled":
            return "".join(f"- {markup_free(one_line(each.said, _LONGEST_THOUGHT))}\n" for each in event.about.samples) + "\n"
        written, end = self._tail + event.text if event.kind == "text" else self._tail, 0
        if event.kind == "text":
            end = max(written.rfind(" "), written.rfind("\n")) + 1
        elif event.kind == "start":
            end = len(written)
        self._tail = written[end:]
        return markup_free(written[:end])


def _finish(trace: Trace) -> str:
    return "length" if trace.truncated else "stop"


def _usage(trace: Trace) -> dict[str, Any]:
    """Return the numbers of tokens of all calls of the models. What was written before the answer counts as a thought."""
    read = sum(each.prompt_tokens for each in trace.stages)
    written = sum(each.generated_tokens for each in trace.stages)
    thought = sum(each.generated_tokens if each.name == "forward" else each.thought_tokens for each in trace.stages)
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": sum(each.cached_tokens for each in trace.stages)},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }
