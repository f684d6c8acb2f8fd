"""The samples of one prompt, in as many requests as a server needs for them."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from fbrag_cli.generation.generator import Call
from fbrag_cli.generation.server.exchange import BrokenError, Exchange
from fbrag_cli.generation.server.host import Host
from fbrag_cli.generation.server.replies import Json, RefusedError, said, tokens
from fbrag_cli.generation.server.requests import Requests
from fbrag_cli.generation.server.rows import Row


class Drawing:
    """Fills rows with what a server writes. Each method asks for the rows that are not finished.

    started, first_text: seconds on the clock of `perf_counter`; first_text is None until text has come. prompt_tokens,
    cached_tokens: None where the server does not give them.
    """

    def __init__(self, host: Host, url: str, body: Json, rows: Sequence[Row], call: Call) -> None:
        self._host, self._url, self._body, self._rows, self._call = host, url, body, rows, call
        self.started = perf_counter()
        self.first_text: float | None = None
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None

    def together(self) -> bool:
        """Ask for all samples in one request. Returns False where the server does not take it, or gives fewer. Where the reply
        breaks it returns True, and samples are not finished."""
        try:
            broke = self._draw([self._rows], tolerant=True)
        except RefusedError:
            return False
        return broke or not self._unfinished

    def at_once(self) -> bool:
        """Ask for each sample, at the same time. Where none is there yet, the first one goes before, so that the others find the
        prompt in the server's cache. Returns False where one request breaks another: their samples are not finished."""
        todo = [[row] for row in self._unfinished]
        if len(todo) > 1:
            n_before = 0 if len(todo) < len(self._rows) else 1
            self._draw(todo[:n_before] or todo, todo[n_before:] if n_before else (), tolerant=True)
        return len(todo) < 2 or not self._unfinished

    def one_by_one(self) -> None:
        """Ask for each sample, one after the other. A reply that breaks is asked for once more, unless a part of it was shown."""
        for row in self._unfinished:
            self._draw([[row]], tolerant=not row.n_sent)
            if row.finish is None:
                self._draw([[row]])

    @property
    def _unfinished(self) -> list[Row]:
        return [row for row in self._rows if row.finish is None]

    def _draw(self, groups: Sequence[Sequence[Row]], later: Sequence[Sequence[Row]] = (), *, tolerant: bool = False) -> bool:
        """Ask for groups of samples, in a request each. later: groups that follow when the first token has come. tolerant: of
        replies that break, as long as nothing of them was shown. Returns whether one broke."""
        broke = False
        with Requests(self._host, self._call.cancellation) as requests:
            running = {requests.start(self._url, self._request(group)): group for group in groups}
            for exchange, item in requests:
                group = running[exchange]
                if item is not None:
                    self._take(item, group)
                    if all(row.finish for row in group) and any(row.cut for row in group):
                        requests.stop(exchange)
                elif exchange.error is not None:
                    self._excuse(exchange, group, tolerant=tolerant)
                    broke = True
                if later and (item is None or group[0].n_pieces):
                    running |= {requests.start(self._url, self._request(group)): group for group in later}
                    later = ()
        return broke

    def _request(self, group: Sequence[Row]) -> Json:
        several = {"n": len(group)} if len(group) > 1 else {}
        return {**self._body, **several, "seed": group[0].seed}

    def _excuse(self, exchange: Exchange, group: Sequence[Row], *, tolerant: bool) -> None:
        """Let a reply that broke be asked for again, or raise its error."""
        assert exchange.error
        unfinished = [row for row in group if row.finish is None]
        if not (tolerant and isinstance(exchange.error, BrokenError)) or any(row.n_sent for row in unfinished):
            raise exchange.error
        for row in unfinished:
            row.restart()

    def _take(self, item: Json, group: Sequence[Row]) -> None:
        """Take up an event, or a whole reply."""
        for each in said(item):
            if 0 <= each.index < len(group):
                row = group[each.index]
                if each.thought:
                    row.think()
                row.add(each.text)
                if each.finish:
                    row.end(each.finish)
        if self.prompt_tokens is None:
            self.prompt_tokens = tokens(item, "prompt_tokens")
            self.cached_tokens = tokens(item, "prompt_tokens_details", "cached_tokens")
        if len(group) == 1 and (n_tokens := tokens(item, "completion_tokens")) is not None:
            group[0].n_tokens = n_tokens
        self._report(item.get("prompt_progress"), group)

    def _report(self, read: Any, group: Sequence[Row]) -> None:
        """Report what is read and written."""
        call, first = self._call, self._rows[0]
        n_written = max(row.n_pieces for row in group)
        if n_written and self.first_text is None:
            self.first_text = perf_counter()
        if call.on_prompt and isinstance(read, dict) and first in group:
            done, total = read.get("processed"), read.get("total")
            if isinstance(done, int) and isinstance(total, int) and 0 <= done <= total:
                call.on_prompt(done, total)
        if call.on_written and n_written:
            call.on_written(min(n_written, first.max_tokens), first.max_tokens)
        if call.on_text and first in group and (piece := first.news()):
            call.on_text(piece)
