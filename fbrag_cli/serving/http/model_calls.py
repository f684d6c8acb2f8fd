"""The models of the warm process, lent to commands of its user: `/warm/hello` and the calls of a `Generator`, on the Unix socket.

A call runs in a thread, and holds its model for its time only. Its reply is JSON lines (`generation.warm.wire`). When the client
goes away, the call is stopped.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from fbrag_cli import __version__
from fbrag_cli.cancellation import Cancellation
from fbrag_cli.generation.build import installed
from fbrag_cli.generation.generator import Call, Generator
from fbrag_cli.generation.warm.wire import BEAT, Hello, Json, Lent, Wanted, error_as_json, sampling_of, turns_of
from fbrag_cli.progress import Listener
from fbrag_cli.serving.failure import known
from fbrag_cli.session.models import Models, NotLentError
from fbrag_cli.session.placement import conditions
from fbrag_cli.session.shelf import Lease

_MOST_CALLS = 48  # that run or wait; a command that comes then loads its models itself

Say = Callable[[Json], None]
#: What a call does with the model: arguments, progress and cancellation in, the result out.
Run = Callable[[Generator, Json, Call], Any]


class CallStoppedError(Exception):
    """The client went away, or the process ends."""


def routes(models: Models) -> list[Route]:
    """Return the routes by which commands use the models. llama.cpp is loaded meanwhile: no command waits for it."""
    threading.Thread(target=models.gpus, args=(False,), name="llama.cpp", daemon=True).start()
    calls = _Calls(models)
    runs: dict[str, Run] = {"generate": _generate, "choose": _choose, "written": _written, "count_tokens": _count_tokens}
    return [
        Route("/warm/hello", calls.hello, methods=["GET"]),
        Route("/warm/load", partial(calls.reply, calls.load), methods=["POST"]),
        *(Route(f"/warm/{name}", partial(calls.reply, partial(calls.run, run)), methods=["POST"]) for name, run in runs.items()),
    ]


class _Calls:
    """The calls that run on the models."""

    def __init__(self, models: Models) -> None:
        self._models, self._lock = models, threading.Lock()
        self._n = 0

    async def hello(self, request: Request) -> Response:
        """Say what this process is, and by which settings it loads models."""
        said = Hello(
            version=__version__,
            llama_cpp=installed(),
            conditions=conditions(self._models.settings, os.environ),
            gpus=self._models.gpus(False),
            at_once=self._models.at_once,
            pid=os.getpid(),
        )
        return JSONResponse(asdict(said))

    async def reply(self, work: Callable[[Json, Say, Cancellation], Any], request: Request) -> Response:
        """Return the reply of a call, which runs while it is sent."""
        try:
            asked = await request.json()
        except (ValueError, ClientDisconnect):
            return Response(status_code=400)
        return _Reply(partial(work, asked))

    def load(self, asked: Json, say: Say, cancellation: Cancellation) -> Json:
        """Load a model, and return what it is. Raises NotLentError where too many calls wait."""
        wanted = Wanted.of(asked["model"])
        with self._counted() as n, Lease(Listener(cancellation=cancellation)) as lease:
            if n > _MOST_CALLS:
                raise NotLentError(f"{n - 1} calls wait there")
            generator = self._models.lend(wanted, lease)
            lent = Lent(info=generator.info, threads=generator.threads, problems=self._models.problems(wanted.path, generator))
        return asdict(lent)

    def run(self, run: Run, asked: Json, say: Say, cancellation: Cancellation) -> Any:
        """Run a call of a `Generator`. Its model is loaded, if it was freed meanwhile."""
        wanted = Wanted.of(asked["model"])
        call = Call(
            cancellation=cancellation,
            owner=wanted.owner,
            on_prompt=lambda done, total: say({"prompt": [done, total]}),
            on_written=lambda done, total: say({"written": [done, total]}),
            on_text=lambda text: say({"text": text}),
        )
        with self._counted(), Lease(Listener(cancellation=cancellation)) as lease:
            return run(self._models.lend(wanted, lease), asked, call)

    @contextmanager
    def _counted(self) -> Iterator[int]:
        """Count a call until the block ends. Yields the number of all that run or wait."""
        with self._lock:
            self._n += 1
        try:
            yield self._n
        finally:
            with self._lock:
                self._n -= 1


class _Reply(Response):
    """JSON lines of a call, which runs in a thread meanwhile. It is stopped when the client goes away.

    work: the call. It receives where its progress goes, and what stops it.
    """

    def __init__(self, work: Callable[[Say, Cancellation], Any]) -> None:
        super().__init__(media_type="application/x-ndjson")
        del self.headers["content-length"]
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop, said, cancellation = asyncio.get_running_loop(), asyncio.Queue[Json | None](), Cancellation()

        def say(line: Json | None) -> None:
            loop.call_soon_threadsafe(said.put_nowait, line)

        thread = threading.Thread(
            target=self._run,
            args=(say, cancellation),
            name="lent model",
        )
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            thread.start()
            while not gone.done() and (lines := await _next_lines(said)):
                await send({"type": "http.response.body", "body": lines, "more_body": True})
            if not gone.done():
                await send({"type": "http.response.body"})
        finally:
            gone.cancel()
            cancellation.request(CallStoppedError())
            while thread.is_alive():  # the models are not freed before
                await asyncio.sleep(0.005)

    def _run(self, say: Callable[[Json | None], None], cancellation: Cancellation) -> None:
        try:
            say({"result": self._work(say, cancellation)})
        except NotLentError as declined:
            say({"declined": str(declined)})
        except BaseException as error:
            failure = known(error)
            if failure.code == "internal" and not cancellation.requested:
                logging.getLogger("fbrag").error("%s", failure.message, exc_info=error)
            say({"error": error_as_json(failure)})
        say(None)


async def _next_lines(said: asyncio.Queue[Json | None]) -> bytes:
    """Return what was said since, an empty line where that is nothing for a while, and b"" at the end."""
    try:
        lines = [await asyncio.wait_for(said.get(), BEAT)]
    except asyncio.TimeoutError:  # another one than Python's own before 3.11
        lines = [{}]
    while not said.empty() and lines[-1] is not None:
        lines.append(said.get_nowait())
    if len(lines) > 1 and lines[-1] is None:
        said.put_nowait(None)
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines if line is not None)


async def _disconnected(receive: Receive) -> None:
    """Return when the client goes away."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _generate(generator: Generator, asked: Json, call: Call) -> Json:
    return asdict(generator.generate(turns_of(asked["turns"]), asked["n"], sampling_of(asked["sampling"]), call))


def _choose(generator: Generator, asked: Json, call: Call) -> tuple[float, ...]:
    choose = generator.choose
    assert choose
    return choose(turns_of(asked["turns"]), asked["choices"], call)


def _written(generator: Generator, asked: Json, call: Call) -> str:
    return generator.written(turns_of(asked["turns"]))


def _count_tokens(generator: Generator, asked: Json, call: Call) -> int:
    return generator.count_tokens(asked["text"])
