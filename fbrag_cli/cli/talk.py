"""`Talk`: what `fbrag chat` keeps while it runs: the conversation, how its answers are written, and what may stop them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.cli.answer_writer import AnswerWriter
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.live import Preview
from fbrag_cli.cli.method_options import MethodOptions, chosen_method
from fbrag_cli.cli.options import AnswerOptions
from fbrag_cli.cli.progress_line import ProgressLine
from fbrag_cli.cli.streams import print_after_error
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.methods.choosing import preset_settings, reading_more
from fbrag_cli.methods.method import Method
from fbrag_cli.progress import Listener
from fbrag_cli.session.asked import Asked
from fbrag_cli.session.conversation import Conversation, Exchange
from fbrag_cli.session.forecast import forecast, keep
from fbrag_cli.session.memory import peak_memory_mb
from fbrag_cli.session.session import Choice, Session
from fbrag_cli.session.settings import DocumentSettings
from fbrag_cli.text.printable import dumps
from fbrag_cli.trace import Trace

_PATIENCE = 3  # presses of Ctrl-C while one call runs, after which the process ends


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkOptions:
    """How documents are read, and questions answered. form: "text", "json", "jsonl" or "md". timeout: seconds of a question."""

    form: str
    answer: AnswerOptions
    reading: DocumentSettings
    method: MethodOptions
    knobs: Any
    timeout: float | None

    def chosen(self, preset: str = "", changes: Mapping[str, Any] | None = None, more: int = 0, *, on_gpu: bool) -> Method:
        """Return the method with the settings of a preset ("" for none), and with `changes` by their names.

        more: how often as much again is read. Raises FbragError `usage`.
        """
        values = {**preset_settings(preset, self.method.retriever), **(changes or {})}
        named = replace(self.method, method=values.pop("method", self.method.method))
        return reading_more(chosen_method(named, replace(self.knobs, **values), on_gpu=on_gpu), more)


class Talk:
    """A conversation on the command line. One thread uses it; `interrupt` is called by the handler of a signal.

    failed: the exit code of the first question that failed, 0 without one. ended: whether the user wants no more. preset: the one
    that questions follow, "" without one. asked: the last question that has an answer.
    """

    def __init__(
        self, session: Session, options: TalkOptions, console: Console, line: ProgressLine, *, password: str | None = None
    ) -> None:
        self.session, self.options, self.console = session, options, console
        self.failed, self.ended, self.preset = 0, False, ""
        self.asked: Asked | None = None
        self._line, self._password = line, password
        self._running: Cancellation | None = None
        self._presses, self._n_out = 0, 0
        self.conversation: Conversation

    # -- documents and questions -----------------------------------------------------------------------------------------

    def open(self, paths: Sequence[str], listener: Listener | None = None) -> None:
        """Read documents, which take the place of those before. Missing models are fetched. Raises as `Session.collect`."""
        method, choice = self.method(), Choice(retriever=self.options.method.retriever)
        self.session.check(method, choice)
        with self._call() as own:
            listener = listener or Listener(progress=self._line, cancellation=own)
            words = self.options.method.words
            collection = self.session.collect(paths, self.options.reading, words, password=self._password, listener=listener)
            self.session.prepare(method, choice, listener=listener)
        if before := getattr(self, "conversation", None):
            before.collection, self.asked = collection, None
        else:
            self.conversation = Conversation(session=self.session, collection=collection, method=method, choice=choice)

    def method(self, changes: Mapping[str, Any] | None = None, more: int = 0) -> Method:
        """Return the method of the next question, with `changes` to its settings. Raises FbragError `usage`."""
        return self.options.chosen(self.preset, changes, more, on_gpu=self.session.on_gpu)

    def ask(self, typed: str) -> None:
        """Understand a question, answer it, and write the answer. Raises what answering raises."""
        talk = self.conversation
        talk.method = self.method()
        self._answer(typed, lambda listener: talk.ask(typed, listener))

    def ask_again(self, method: Method) -> None:
        """Answer the last question by another method, in place of its answer. Raises as `ask`; `usage` without one."""
        last, talk = self.last(), self.conversation

        def ask(listener: Listener) -> Asked:
            asked = talk.session.ask(last.trace.question, talk.collection, method, talk.choice, listener)
            return replace(asked, candidates=self.asked.candidates if self.asked else ())

        self._answer(last.typed, ask)
        talk.exchanges[-2:] = talk.exchanges[-1:]

    def last(self) -> Exchange:
        """Return the last question with its answer. Raises FbragError `usage` where these documents were asked nothing yet."""
        if self.asked is None:
            raise FbragError("usage", "nothing was asked yet", "ask a question first")
        return self.conversation.exchanges[-1]

    @property
    def unanswered(self) -> bool:
        """Whether the document does not say the answer to a question, also when it was asked again."""
        return any(each.trace.status != "answered" for each in self.conversation.exchanges)

    def _answer(self, typed: str, ask: Callable[[Listener], Asked]) -> None:
        talk, session, line = self.conversation, self.session, self._line
        writer = AnswerWriter(sys.stdout, "text", self.options.answer, self.console, line)
        with self._call() as cancellation:
            asked = ask(Listener(progress=writer.event, cancellation=cancellation))
            line.clear()
            if asked.question != typed:
                self.console.note(f"understood: {asked.question}", dim=True)
            line.forecast = forecast(session, asked.method, talk.collection.corpus)
            line.preview = Preview(asked.question, talk.collection) if self._has_preview() else None
            trace = asked.answer()
        line.clear()
        self._write(typed, trace, writer)
        keep(line.forecast, session, asked.method, trace)
        self._say_how(trace)
        talk.add(typed, trace)
        self.asked = asked

    # -- what is written -------------------------------------------------------------------------------------------------

    @property
    def in_json(self) -> bool:
        return self.options.form in ("json", "jsonl")

    def write(self, text: str) -> None:
        """Write a text to stdout."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def _write(self, typed: str, trace: Trace, writer: AnswerWriter) -> None:
        from fbrag_cli.render import as_json, conversation

        options, self._n_out = self.options.answer, self._n_out + 1
        if self.in_json:
            told = as_json.answer(trace, memory_mb=peak_memory_mb())
            self.write(dumps({**told, "typed": typed, "understood": trace.question}) + "\n")
        elif self.options.form == "md":
            cited = options.sources != "none" and not options.answer_only
            self.write(conversation.markdown(trace, self._n_out, options.context, full=options.full, cited=cited) + "\n\n")
        else:
            if self._n_out > 1 and not options.answer_only and not sys.stdout.isatty():
                self.write("\n")
            writer.finish(trace)

    def _say_how(self, trace: Trace) -> None:
        from fbrag_cli.render.answer_text import summary

        if trace.truncated:
            self.console.warn(f"the answer was cut at {trace.method.max_tokens} tokens (--max-tokens)")
        self.console.note(summary(trace, self.session.device), dim=True)

    def _has_preview(self) -> bool:
        return self.options.form == "text" and not self.options.answer.answer_only and self.console.shows_preview()

    def fail(self, error: FbragError) -> None:
        """Report the error of a line. With --json it is an object, with -a an empty line: each question has one line."""
        self.clear()
        self.failed = self.failed or error.exit_code
        self.console.error(error)
        if self.in_json:
            record = {"code": error.code, "message": error.message, "hint": error.hint, "document": error.document}
            print_after_error(dumps({"schema": "fbrag.error/1", "error": record}))
        elif self.options.answer.answer_only:
            print_after_error("")

    def clear(self) -> None:
        """Erase what the terminal shows of a question."""
        self._line.preview = None
        self._line.clear()

    # -- what stops it ---------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Stop the call that runs. Raises KeyboardInterrupt in the main thread, at once or when native code has returned."""
        self._presses += 1
        if self._running is None:
            raise KeyboardInterrupt
        if self._presses > _PATIENCE:
            os._exit(ExitCode.INTERRUPTED)
        self._running.interrupt(KeyboardInterrupt())

    def interrupted(self) -> bool:
        """Return whether the last Ctrl-C stopped a call."""
        was, self._presses = self._stopped, 0
        self._stopped = False
        return was

    _stopped = False

    @contextmanager
    def _call(self) -> Iterator[Cancellation]:
        """Surround a call that Ctrl-C and the time limit stop."""
        own, seconds = Cancellation(), self.options.timeout
        hint = "allow more seconds (--timeout), or ask for less work"
        timer = own.after(seconds, FbragError("timeout", f"not done within {seconds:g} s", hint)) if seconds else None
        self._running, self._presses = own, 0
        try:
            yield own
        finally:
            self._running, self._stopped = None, isinstance(own.error, KeyboardInterrupt)
            if timer:
                timer.cancel()
            self.clear()
