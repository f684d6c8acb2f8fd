"""The tools of `fbrag mcp`: what they take, and what they do at a `Desk`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import anyio

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Listener
from fbrag_cli.serving.door import MOST_PATHS, Door
from fbrag_cli.serving.mcp import schemas
from fbrag_cli.text.printable import cut_middle

if TYPE_CHECKING:
    from fbrag_cli.serving.desk import Desk
    from fbrag_cli.serving.job import Headline, Job

_POLL_SECONDS = 0.05
_REPORT_SECONDS = 1.0
_LONGEST_QUESTION = 10_000  # characters
_LONGEST_WAIT = 3600  # seconds
_MOST_CHARACTERS = 8000

_PATHS = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": 4096},
    "minItems": 1,
    "maxItems": MOST_PATHS,
    "description": "files and folders",
}
_QUESTION = {"type": "string", "minLength": 1, "maxLength": _LONGEST_QUESTION, "description": "a question in words"}
_FIND = {
    "type": "string",
    "minLength": 1,
    "maxLength": _LONGEST_QUESTION,
    "description": "a text of the documents, whose chunks explain_selection shows with their ranks",
}
_WAIT = {"type": "number", "minimum": 0, "maximum": _LONGEST_WAIT, "default": 45, "description": "seconds to wait for the result"}
_MOST = {
    "type": "integer",
    "minimum": 1000,
    "maximum": 200_000,
    "default": _MOST_CHARACTERS,
    "description": "characters of the result as JSON, at most",
}
_LINE = {"type": "integer", "minimum": 1, "description": "line of the document's text, from 1"}

Arguments = Mapping[str, Any]
Report = Callable[[str, float | None], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a tool. report: sends the client what runs, and the seconds that are left."""

    desk: Desk
    door: Door
    arguments: Arguments
    report: Report

    def __getitem__(self, name: str) -> Any:
        return self.arguments.get(name)

    @property
    def most(self) -> int:
        """Characters of the result as JSON."""
        return int(self["max_chars"])

    @property
    def question(self) -> str:
        """The question, without halves of characters, which JSON can hold."""
        return str(self["question"]).encode("utf-8", "replace").decode()

    async def in_thread(self, work: Callable[[Listener], dict[str, Any]]) -> dict[str, Any]:
        """Return what `work` returns, and report each second what runs. Its listener stops it where the call is cancelled."""
        from fbrag_cli.serving.job import Headline, StoppedError

        headline, cancellation, errors = Headline(), Cancellation(), list[Exception]()
        run = partial(work, Listener(progress=headline.take_up, cancellation=cancellation))
        found: dict[str, Any] = {}
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._reported, headline)
                try:
                    found = await anyio.to_thread.run_sync(run, abandon_on_cancel=True)
                except Exception as error:  # the group would put it into a group of errors
                    errors.append(error)
                group.cancel_scope.cancel()
        finally:
            cancellation.request(StoppedError())
        if errors:
            raise errors[0]
        return found

    async def _reported(self, headline: Headline) -> None:
        while True:
            await anyio.sleep(_REPORT_SECONDS)
            await self.report(headline.text, None)

    async def waited(self, job: Job) -> None:
        """Wait for a job, as long as the call says, and report each second what runs. Stop it where the call is cancelled,
        unless another call waits for it too."""
        end, reported = monotonic() + float(self["wait_s"]), monotonic()
        job.waiting += 1
        try:
            while not job.done and monotonic() < end:
                await anyio.sleep(_POLL_SECONDS)
                if monotonic() - reported >= _REPORT_SECONDS:
                    reported = monotonic()
                    await self.report(job.stage, job.forecast.left())
        except anyio.get_cancelled_exc_class():
            if job.waiting == 1:
                job.cancel()
            raise
        finally:
            job.waiting -= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool. properties: JSON schemas of its arguments, by name. required: those without a default. returns: the JSON schema of
    its result. run: returns that."""

    name: str
    description: str
    properties: Mapping[str, Any]
    required: tuple[str, ...]
    returns: Mapping[str, Any]
    run: Callable[[Call], Awaitable[dict[str, Any]]]

    @property
    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }

    def checked(self, arguments: Arguments) -> dict[str, Any]:
        """Return the arguments, with defaults. Raises FbragError `usage` for what the schema does not allow."""
        from jsonschema import Draft202012Validator

        for error in Draft202012Validator(self.schema).iter_errors(dict(arguments)):
            where = "".join(f"{each}: " for each in error.path)
            raise FbragError("usage", where + cut_middle(error.message, 200), f"{self.name} takes {', '.join(self.properties)}")
        return {name: each["default"] for name, each in self.properties.items() if "default" in each} | dict(arguments)


# -- the tools -------------------------------------------------------------------------------------------------------------


async def _find_passages(call: Call) -> dict[str, Any]:
    from fbrag_cli.serving.mcp.results import bounded, found

    def work(listener: Listener) -> dict[str, Any]:
        trace = call.desk.find(call.question, call.door.paths(call["paths"]), call["top_k"], listener)
        return bounded(partial(found, trace), call.most)

    return await call.in_thread(work)


async def _ask_document(call: Call) -> dict[str, Any]:
    return await _result(call, _asked(call, answering=True))


async def _ask_result(call: Call) -> dict[str, Any]:
    return await _result(call, call.desk.job(call["job"]))


async def _explain_selection(call: Call) -> dict[str, Any]:
    return await _result(call, _asked(call, answering=False))


def _asked(call: Call, *, answering: bool) -> Job:
    """Return the job of a question. While it runs, the same question is the same job: clients end a call, and ask again."""
    paths = call.door.paths(call["paths"])
    running = call.desk.running(call.question, paths, answering=answering)
    return running or call.desk.ask(call.question, paths, answering=answering)


async def _read_passage(call: Call) -> dict[str, Any]:
    from fbrag_cli.serving.mcp.results import bounded, passage

    def work(listener: Listener) -> dict[str, Any]:
        document = call.desk.library.document(call.door.path(call["path"]), listener)
        return bounded(partial(passage, document, int(call["start_line"]), int(call["end_line"])), call.most)

    return await call.in_thread(work)


async def _result(call: Call, job: Job) -> dict[str, Any]:
    """Return the result of a job, or where it runs on, how far it is."""
    from fbrag_cli.serving.mcp import results

    await call.waited(job)
    if not job.done:
        record = partial(results.running, job)
    elif job.answering:
        record = partial(results.answered, job.trace())
    else:
        record = partial(results.explained, job.trace(), call["find"])
    return await anyio.to_thread.run_sync(results.bounded, record, call.most)


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            name="find_passages",
            description="Find the passages of documents that hold the words of a question, best first. Takes a second; no model "
            "runs. Use it first, with the words that the document would use.",
            properties={
                "paths": _PATHS,
                "question": _QUESTION,
                "top_k": {"type": "integer", "minimum": 1, "maximum": 50, "default": 5, "description": "number of passages"},
                "max_chars": _MOST,
            },
            required=("paths", "question"),
            returns=schemas.FOUND,
            run=_find_passages,
        ),
        Tool(
            name="ask_document",
            description="Let models of this machine answer a question from documents, with the passages that show the answer. On "
            'a CPU it takes half a minute and more: where the status is "running", call ask_result with the job. The status '
            '"not_found" says that the documents do not hold the answer.',
            properties={"paths": _PATHS, "question": _QUESTION, "wait_s": _WAIT, "max_chars": _MOST},
            required=("paths", "question"),
            returns=schemas.ANSWERED,
            run=_ask_document,
        ),
        Tool(
            name="ask_result",
            description="Wait for the result of a job of ask_document or explain_selection, and return it.",
            properties={
                "job": {"type": "string", "minLength": 1, "maxLength": 64, "description": "the job that was returned"},
                "find": _FIND,
                "wait_s": _WAIT,
                "max_chars": _MOST,
            },
            required=("job",),
            returns=schemas.OF_A_JOB,
            run=_ask_result,
        ),
        Tool(
            name="explain_selection",
            description="Say which passages would be read to answer a question, by which scores, what the small model guessed, "
            "and what became of the passages that hold a text.",
            properties={
                "paths": _PATHS,
                "question": _QUESTION,
                "find": _FIND,
                "wait_s": _WAIT,
                "max_chars": _MOST,
            },
            required=("paths", "question"),
            returns=schemas.EXPLAINED,
            run=_explain_selection,
        ),
        Tool(
            name="read_passage",
            description="Read lines of a document's text, as around a passage that was found.",
            properties={
                "path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "a file"},
                "start_line": _LINE,
                "end_line": _LINE,
                "max_chars": _MOST,
            },
            required=("path", "start_line", "end_line"),
            returns=schemas.PASSAGE,
            run=_read_passage,
        ),
    )
}
