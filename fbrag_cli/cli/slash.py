"""The commands of `fbrag chat`: lines that begin with a slash, and the three words that people type without one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fbrag_cli.cli.options import check_outputs
from fbrag_cli.cli.streams import open_output
from fbrag_cli.errors import FbragError
from fbrag_cli.storage.files import on_disk
from fbrag_cli.text.printable import one_line, plural
from fbrag_cli.text.suggest import suggestion
from fbrag_cli.text.table import columns_of

if TYPE_CHECKING:
    from fbrag_cli.cli.chat import Talk


class Command(NamedTuple):
    """What may follow a word, what the word does, and the function that does it. "[X]" may be missing, and "" follows nothing."""

    argument: str
    help: str
    obey: Callable[[Talk, str], object]


def obey(talk: Talk, line: str) -> bool:
    """Follow a line if it is a command, and return whether it is one.

    Raises FbragError `usage` for an unknown word, for what may not follow it, and for what has to and is missing.
    """
    word, rest = [*line.split(maxsplit=1), "", ""][:2]
    word = ALIASES.get(line.strip().lower()) or ALIASES.get(word, word)
    if not word.startswith("/") or line.startswith(" "):
        return False
    if (found := COMMANDS.get(word)) is None:
        hint = suggestion(word, COMMANDS, "/help lists the commands; a space before the slash makes it a question")
        raise FbragError("usage", f"unknown command {one_line(word)}", hint)
    if rest and not found.argument:
        raise FbragError("usage", f"{word} takes nothing after it", word)
    if not rest and found.argument and not found.argument.startswith("["):
        raise FbragError("usage", f"{word}: {found.argument} is missing", f"{word} {found.argument}")
    found.obey(talk, rest.strip())
    return True


def _docs(talk: Talk, rest: str) -> None:
    for document in talk.conversation.collection.corpus.documents:
        talk.console.info(one_line(document.name))


def _model(talk: Talk, rest: str) -> None:
    if rest:
        talk.use(rest)
    small, large = talk.session.names(talk.conversation.models)
    talk.console.info(one_line(large if small == large else f"{large}, and {small} for the forward samples"))


def _preset(name: str) -> Callable[[Talk, str], None]:
    def obey(talk: Talk, rest: str) -> None:
        talk.preset = name
        if rest:
            talk.ask(rest)

    return obey


def _source(talk: Talk, rest: str) -> None:
    from fbrag_cli.render.answer import answer_of
    from fbrag_cli.render.text import surroundings

    trace = talk.last().trace
    if talk.in_json:
        raise FbragError("usage", "/source: with --json each answer has its sources", "leave out --json")
    sources = answer_of(trace).sources
    if not rest and len(sources) == 1:
        rest = "1"
    if not rest.isascii() or not rest.isdigit() or not 1 <= int(rest[:9]) <= len(sources):
        raise FbragError("usage", f"/source {rest}".rstrip() + f": the answer has {plural(len(sources), 'source')}", "/source 1")
    lines = surroundings(trace, sources[int(rest) - 1], columns_of(sys.stdout), colored=talk.console.colored(sys.stdout))
    print(*lines, sep="\n", flush=True)


def _save(talk: Talk, rest: str) -> None:
    from fbrag_cli.render.answer import answer_of
    from fbrag_cli.render.html import page
    from fbrag_cli.render.markdown import questions_in, section
    from fbrag_cli.render.text import Layout
    from fbrag_cli.session.pictures import cited_pages

    exchanges = talk.conversation.exchanges
    if not exchanges:
        talk.last()
    path = on_disk(os.path.expanduser(rest))
    inputs = (source.path for source in talk.conversation.collection.corpus.documents)
    check_outputs([("/save", path)], [*inputs, talk.options.chat.password_file, talk.options.models.key_file])
    if os.path.exists(path) and path not in talk.saved and not talk.console.yes:
        raise FbragError("usage", f"/save: there is a file {one_line(path)}", "choose another name")
    is_page = Path(path).suffix.lower() in (".html", ".htm")
    with open_output(path, "/save") as stream:
        if is_page:
            trace = exchanges[-1].trace
            stream.write(page(trace, cited_pages(trace)))
        else:
            layout = Layout(context=talk.options.answer.lines)
            numbered = enumerate(exchanges, len(questions_in(talk.before)) + 1)
            parts = [section(answer_of(each.trace), layout, number) for number, each in numbered]
            stream.write("\n\n".join([*filter(None, [talk.before.rstrip()]), *parts]) + "\n")
    talk.saved.add(path)
    what = "the last answer" if is_page else plural(len(exchanges), "question")
    talk.console.info(f"saved: {what} in {path}", dim=True)


def _help(talk: Talk, rest: str) -> None:
    for word, (argument, said, _) in COMMANDS.items():
        talk.console.info(f"{word} {argument}".rstrip() + f": {said}")
    talk.console.info("Every other line is a question.")


def _quit(talk: Talk, rest: str) -> None:
    talk.ended = True


COMMANDS: Mapping[str, Command] = {
    "/more": Command("", "ask the last question again, and read twice as much", lambda talk, rest: talk.more()),
    "/fast": Command("[QUESTION]", "ask this question, or the next one, without forward samples", _preset("fast")),
    "/thorough": Command("[QUESTION]", "ask this question, or the next one, and read more", _preset("thorough")),
    "/source": Command("[N]", "show source N of the last answer, with the text around it", _source),
    "/docs": Command("", "list the documents", _docs),
    "/model": Command("[NAME]", "use another model for the next answers; without NAME: say which one answers", _model),
    "/new": Command("", "forget the questions before", lambda talk, rest: talk.begin_anew()),
    "/save": Command("FILE", "save the conversation as Markdown, or the last answer as FILE.html", _save),
    "/help": Command("", "this list (also: help)", _help),
    "/quit": Command("", "quit (also: exit, quit, Ctrl-D)", _quit),
}

#: What people type for some of them. A word without a slash is one only if the line has nothing else.
ALIASES = {"exit": "/quit", "quit": "/quit", "/exit": "/quit", "/q": "/quit", "help": "/help"}
