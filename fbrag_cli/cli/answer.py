"""One question on a terminal, for `ask` and `chat`: its progress, its answer in the form that is asked for, and how it went."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.live import Preview, ProgressLine
from fbrag_cli.cli.options import AnswerOptions
from fbrag_cli.corpus import Passage
from fbrag_cli.limits import peak_memory_mb
from fbrag_cli.progress import Event, Listener
from fbrag_cli.query import Query
from fbrag_cli.session.forecast import forecast, keep
from fbrag_cli.session.session import Session
from fbrag_cli.text.printable import dumps, one_line
from fbrag_cli.text.table import columns_of
from fbrag_cli.trace import Trace

if TYPE_CHECKING:
    from fbrag_cli.render.text import Layout


class AnswerWriter:
    """Writes answers to a stream in the form that is asked for, as they come if the form allows it.

    typed: the question of a conversation as the user typed it, which JSON has; its answer in Markdown has a heading. None outside
    a conversation. is_out: whether an answer was written whole.
    """

    def __init__(self, stream: TextIO, form: str, options: AnswerOptions, console: Console, line: ProgressLine) -> None:
        self.console, self.line = console, line
        self.typed: str | None = None
        self.is_out, self._n_out = False, 0
        self._stream, self._form, self._options = stream, form, options
        self._events = None
        if form == "jsonl":
            from fbrag_cli.render.as_json import Events

            self._events = Events()

    @property
    def has_preview(self) -> bool:
        """Whether a preview is shown: the output takes its place on the same terminal."""
        is_text = self._form == "text" and self._stream is sys.stdout and not self._options.answer_only
        return is_text and self.console.shows_preview()

    def event(self, event: Event) -> None:
        """Write a piece of the answer, if the form has events; pass any other event to the progress line.

        Text has no pieces: the citations of a sentence follow it, and an answer that the chunks do not show is withdrawn. A
        terminal shows them in its preview.
        """
        if self._events is None or event.kind != "text":
            self.line(event)
            return
        begun = self._events.begun
        if piece := self._events.token(event):
            if not begun:
                self.line.clear()
            self._put_json(piece)

    def selected(self, trace: Trace) -> None:
        """Write the sources, if the form has events."""
        if self._events:
            self._put_json(self._events.selected(trace))

    def finish(self, trace: Trace, before: tuple[Passage, ...] = ()) -> None:
        """Write all that is not out yet. before: the context of an earlier answer to the same question."""
        from fbrag_cli.render import as_json
        from fbrag_cli.render.answer import answer_of, said_of
        from fbrag_cli.render.markdown import markdown, section
        from fbrag_cli.render.text import text
        from fbrag_cli.session.pictures import sentence_boxes

        self.line.clear()
        self._n_out += 1
        if self._events:
            self._put_json(self._events.done(trace, peak_memory_mb(), boxes=sentence_boxes(trace)))
        elif self._form == "json":
            boxes = sentence_boxes(trace)
            self._put_json(as_json.answer(trace, memory_mb=peak_memory_mb(), typed=self.typed, boxes=boxes))
        elif self._form == "md":
            shown, layout = answer_of(trace), layout_for(self._options)
            self.write(markdown(shown, layout) + "\n" if self.typed is None else section(shown, layout, self._n_out) + "\n\n")
        elif self._options.answer_only:
            self.write(one_line(said_of(trace)) + "\n")
        else:
            terminal = self._stream.isatty()
            colored = self.console.colored(self._stream)
            linked = colored and terminal and os.environ.get("TERM") != "dumb"
            layout = replace(layout_for(self._options), colored=colored, linked=linked, columns=columns_of(self._stream))
            above, below = "\n" if terminal or self._n_out > 1 else "", "\n" if terminal else ""  # air
            about = {} if self.typed is None else {"anyway": "", "more": ": /more"}  # a conversation takes no options
            self.write(f"{above}{text(answer_of(trace), layout, before, **about)}\n{below}")
        self.is_out = True

    def _put_json(self, value: dict[str, object]) -> None:
        self.write(dumps(value) + "\n")

    def write(self, text: str) -> None:
        """Write a text to the stream."""
        self._stream.write(text)
        self._stream.flush()


def layout_for(options: AnswerOptions) -> Layout:
    """Return how much of the sources the options ask for."""
    from fbrag_cli.render.text import Layout

    return Layout(context=options.lines, sources="none" if options.answer_only else options.sources)


def answer(
    query: Query,
    session: Session,
    writer: AnswerWriter,
    cancellation: Cancellation,
    *,
    earlier: Trace | None = None,
    more: str = "",
) -> Trace:
    """Answer a query, write the answer, and say how it went. Return its trace. Raises what the session raises.

    earlier: the answer to the same question from less. more: what the user types to ask it with more to read, "" if that is not
    possible; printed if the document does not say and a passage that matches was not read.
    """
    from fbrag_cli.render.text import last_line, summary

    line, console = writer.line, writer.console
    listener = Listener(progress=writer.event, cancellation=cancellation)
    line.forecast = forecast(session, query.method, query.corpus, query.models)
    line.preview = Preview(query) if writer.has_preview else None
    trace = session.retrieve(query, listener)
    before = earlier.context if earlier else ()
    writer.selected(trace)
    trace = session.answer(trace, listener)
    writer.finish(trace, before)
    keep(line.forecast, session, trace.method, trace)
    if trace.truncated:
        console.warning(f"the answer was cut off at {trace.method.max_tokens} tokens; raise --max-tokens for more")
    console.info(summary(trace, session.device_details), level=1, dim=True)
    console.info(last_line(trace, session.device), dim=True)
    if earlier and trace.context == before:
        console.info("nothing more to read: every matching passage has been read")
    elif more and trace.status == "not_found" and trace.has_more:
        console.hint(f"to search further: {more}")
    return trace
