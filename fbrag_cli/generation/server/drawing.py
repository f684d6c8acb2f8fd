"""The samples of one prompt, in as many requests as a server needs for them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from queue import SimpleQueue
from time import perf_counter
from typing import Any

from fbrag_cli.generation.generator import Call
from fbrag_cli.generation.server.exchange import BrokenError, Exchange, Took
from fbrag_cli.generation.server.host import Host
from fbrag_cli.generation.server.loop import Reports
from fbrag_cli.generation.server.replies import Json, RefusedError, said, tokens
from fbrag_cli.generation.server.sample import StreamedSample

_OF_THE_TEMPLATE = 10_000  # tokens that a server may put around the messages


class Drawing:
    """Fills samples with what a server writes. Each method asks for the samples that are not finished.

    reports: calls of the listeners of `call`, for `Loop.run`. started, first_text: seconds on the clock
    of `perf_counter`; first_text is None until text has come. prompt_tokens, cached_tokens: None where the server does not give
    them.
    """

    def __init__(self, host: Host, url: str, body: Json, samples: Sequence[StreamedSample], call: Call) -> None:
        self._host, self._url, self._body, self._samples, self._call = host, url, body, samples, call
        self._longest = _OF_THE_TEMPLATE + sum(len(each["content"].encode("utf-8", "replace")) for each in body["messages"])
        self._writes = asyncio.Event()  # the first sample of a request
        self.reports: Reports = SimpleQueue()
        self.started = perf_counter()
        self.first_text: float | None = None
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None

    async def together(self) -> bool:
        """Ask for all samples in one request. Returns False where the server does not take it, or gives fewer. Where the reply
        breaks it returns True, and samples are not finished."""
        try:
            broke = await self._ask(self._samples, tolerant=True)
        except RefusedError:
            return False
        return broke or not self._unfinished

    async def at_once(self) -> bool:
        """Ask for each sample, at the same time. Where none is there yet, the first one goes before, so that the others find the
        prompt in the server's cache. Returns False where one request breaks another: their samples are not finished."""
        todo = self._unfinished
        if len(todo) < 2:
            return True
        self._writes = asyncio.Event()
        if len(todo) < len(self._samples):
            self._writes.set()
        running = [asyncio.ensure_future(self._ask_beside(sample, leads=sample is todo[0])) for sample in todo]
        try:
            await asyncio.gather(*running)
        finally:
            for each in running:
                each.cancel()
        return not self._unfinished

    async def one_by_one(self) -> None:
        """Ask for each sample, one after the other. A reply that breaks is asked for once more, unless a part of it was shown."""
        for sample in self._unfinished:
            await self._ask([sample], tolerant=not sample.n_sent)
            if sample.finish is None:
                await self._ask([sample])

    @property
    def _unfinished(self) -> list[StreamedSample]:
        return [sample for sample in self._samples if sample.finish is None]

    async def _ask_beside(self, sample: StreamedSample, *, leads: bool) -> None:
        """Ask for a sample: at once where it leads, else when the leading one is being written, or has ended."""
        if not leads:
            await self._writes.wait()
        await self._ask([sample], tolerant=True)
        self._writes.set()

    async def _ask(self, group: Sequence[StreamedSample], *, tolerant: bool = False) -> bool:
        """Ask for a group of samples in one request. Returns whether the reply broke: then its samples may be asked for again.

        tolerant: a reply that breaks is no error, as long as nothing of it was shown.
        """
        several = {"n": len(group)} if len(group) > 1 else {}
        body = {**self._body, **several, "seed": group[0].seed}
        try:
            await Exchange(self._host, self._url, body, lambda item: self._take(item, group)).run()
        except BrokenError:
            unfinished = [sample for sample in group if sample.finish is None]
            if not tolerant or any(sample.n_sent for sample in unfinished):
                raise
            for sample in unfinished:
                sample.restart()
            return True
        return False

    def _take(self, item: Json, group: Sequence[StreamedSample]) -> Took:
        """Take up an event, or a whole reply."""
        brought = self._report_reading(item.get("prompt_progress"), group)
        for each in said(item):
            if 0 <= each.index < len(group) and (sample := group[each.index]).finish is None:
                if each.thought:
                    sample.think()
                sample.add(each.text)
                if each.finish:
                    sample.end(each.finish)
                brought = brought or bool(each.thought or each.text or each.finish)
        if group[0].begun:
            self._writes.set()
        if self.prompt_tokens is None:
            self.prompt_tokens = tokens(item, "prompt_tokens")
            self.cached_tokens = tokens(item, "prompt_tokens_details", "cached_tokens")
        if len(group) == 1 and (n_tokens := tokens(item, "completion_tokens")) is not None:
            group[0].n_tokens = n_tokens
            group[0].n_reasoned = tokens(item, "completion_tokens_details", "reasoning_tokens") or None
        self._report_writing(group)
        begun = [sample for sample in group if sample.begun]
        # Where the server ignores `n`, the other samples never begin.
        if all(sample.finish for sample in begun) and any(sample.cut for sample in begun):
            return Took.ALL
        return Took.SOMETHING if brought else Took.NOTHING

    def _report_reading(self, read: Any, group: Sequence[StreamedSample]) -> bool:
        """Report how much of the prompt is read. Returns whether it is more than before."""
        done, total = (read.get("processed"), read.get("total")) if isinstance(read, dict) else (None, None)
        if not (isinstance(done, int) and isinstance(total, int) and group[0].n_read < done <= total <= self._longest):
            return False
        group[0].n_read = done
        if self._call.on_prompt and self._samples[0] in group:
            self.reports.put(partial(self._call.on_prompt, done, total))
        return True

    def _report_writing(self, group: Sequence[StreamedSample]) -> None:
        """Report what is written."""
        call, first = self._call, self._samples[0]
        n_written = max(sample.n_pieces + sample.n_thoughts for sample in group)
        if n_written and self.first_text is None:
            self.first_text = perf_counter()
        if call.on_written and n_written:
            most = first.max_tokens + first.thought_tokens
            self.reports.put(partial(call.on_written, min(n_written, most), most))
        if call.on_text and first in group and (piece := first.news()):
            self.reports.put(partial(call.on_text, piece))
