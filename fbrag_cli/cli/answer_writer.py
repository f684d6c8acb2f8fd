"""Writes the answer of `fbrag ask` in the asked form: terminal text, JSON, events or Markdown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.options import AnswerOptions
from fbrag_cli.cli.progress_line import ProgressLine
from fbrag_cli.corpus import Passage
from fbrag_cli.progress import Event
from fbrag_cli.session.memory import peak_memory_mb
from fbrag_cli.text.printable import dumps, one_line
from fbrag_cli.text.table import columns_of
from fbrag_cli.trace import Trace


class AnswerWriter:
    """Writes the answer to a stream in the form that is asked for, as it comes where the form allows it."""

    def __init__(self, stream: TextIO, form: str, options: AnswerOptions, console: Console, line: ProgressLine) -> None:
        self._stream, self._form, self._options, self._console, self._line = stream, form, options, console, line
        self._events = None
        if form == "jsonl":
            from fbrag_cli.render.events import Events

            self._events = Events()

    def event(self, event: Event) -> None:
        """Write a piece of the answer, where the form has events; pass any other event to the progress line.

        Text has no pieces: the citations of a sentence follow it, and an answer that the chunks do not show is withdrawn. A
        terminal shows them in its preview.
        """
        if self._events is None or event.kind != "text":
            self._line(event)
            return
        begun = self._events.begun
        if piece := self._events.token(event):
            if not begun:
                self._line.clear()
            self._put_json(piece)

    def selected(self, trace: Trace) -> None:
        """Write the sources, where the form has events."""
        if self._events:
            self._put_json(self._events.selected(trace))

    def finish(self, trace: Trace, before: Sequence[Passage] = ()) -> None:
        """Write all that is not out yet. before: the excerpts of an earlier answer, if there was one."""
        from fbrag_cli.render import answer_text, as_json

        self._line.clear()
        options, with_sources = self._options, self._options.sources != "none" and not self._options.answer_only
        if self._events:
            self._put_json(self._events.done(trace, peak_memory_mb()))
        elif self._form == "json":
            self._put_json(as_json.answer(trace, memory_mb=peak_memory_mb()))
        elif self._form == "md":
            cited = trace.citations if with_sources else None
            self._put(answer_text.markdown(trace, cited, answer_text.Layout(context=options.context, full=options.full)) + "\n")
        elif options.answer_only:
            self._put(one_line(answer_text.answer_of(trace)) + "\n")
        else:
            terminal = self._stream.isatty()
            colored = self._console.colored(self._stream)
            layout = answer_text.Layout(
                context=options.context,
                full=options.full,
                every=options.sources == "all",
                colored=colored,
                linked=colored and terminal and os.environ.get("TERM") != "dumb",
                columns=columns_of(self._stream),
            )
            shown = answer_text.text(trace, trace.citations if with_sources else None, layout, before)
            self._put(f"\n{shown}\n\n" if terminal else f"{shown}\n")  # air

    def _put_json(self, value: dict[str, object]) -> None:
        self._put(dumps(value) + "\n")

    def _put(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
