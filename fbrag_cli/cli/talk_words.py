"""The words of `fbrag chat` that begin with a slash."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fbrag_cli.cli.inputs import check_apart
from fbrag_cli.cli.streams import open_output
from fbrag_cli.cli.talk import Talk
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.choosing import PRESETS
from fbrag_cli.methods.registry import all_settings
from fbrag_cli.session.memory import peak_memory_mb
from fbrag_cli.text.near import suggestion
from fbrag_cli.text.printable import counted, dumps, one_line
from fbrag_cli.text.table import columns_of

_ROWS = 20  # chunks of /explain, as of `fbrag explain`


def obey(talk: Talk, line: str) -> None:
    """Do what a line asks that begins with a slash. Raises FbragError `usage` for an unknown word, and what the word raises."""
    word, rest = [*line.split(maxsplit=1), ""][:2]
    if word not in WORDS:
        hint = suggestion(word, WORDS, "/help names the words; a space before the slash makes it a question")
        raise FbragError("usage", f"there is no {word}", hint)
    WORDS[word][2](talk, rest.strip())


def _explain(talk: Talk, rest: str) -> None:
    from fbrag_cli.render import as_json, explain_text

    trace = talk.last().trace
    if talk.in_json:
        talk.write(dumps(as_json.explanation(trace, memory_mb=peak_memory_mb())) + "\n")
        return
    assert talk.asked
    columns, count = columns_of(sys.stdout), talk.asked.count_tokens if trace.rounds else None
    colored = talk.console.colored(sys.stdout)
    _print(talk, explain_text.table(trace, limit=_ROWS, by_position=False, count_tokens=count, columns=columns, colored=colored))
    _print(talk, explain_text.own_lines(trace, columns))


def _find(talk: Talk, rest: str) -> None:
    from fbrag_cli.render import as_json, explain_text

    trace, rest = talk.last().trace, " ".join(rest.split())
    if not rest:
        raise FbragError("usage", "/find: the text is missing", "/find TEXT")
    found = explain_text.holders(trace, rest)
    if talk.in_json:
        talk.write(dumps(as_json.explanation(trace, memory_mb=peak_memory_mb(), found=found)) + "\n")
    elif found:
        _print(talk, explain_text.found(trace, found, columns_of(sys.stdout)))
    else:
        talk.console.warn(f"no chunk holds {rest!r}")


def _source(talk: Talk, rest: str) -> None:
    from fbrag_cli.render.conversation import surroundings

    sources = talk.last().trace.sources
    if talk.in_json:
        raise FbragError("usage", "/source: with --json each answer has its sources", "leave out --json")
    if not rest.isascii() or not rest.isdigit() or not 1 <= int(rest[:9]) <= len(sources):
        raise FbragError("usage", f"/source {rest}: the answer has {counted(len(sources), 'source')}", "/source 1")
    columns, colored = columns_of(sys.stdout), talk.console.colored(sys.stdout)
    _print(talk, surroundings(talk.last().trace, int(rest), columns, colored=colored))


def _again(talk: Talk, rest: str) -> None:
    talk.last()
    if not rest:
        raise FbragError("usage", "/again: nothing would change", "name an option: /again --select 8, or /again --more")
    preset, changes, more = _changes(_split(rest))
    before, talk.preset = talk.preset, preset or talk.preset
    try:
        talk.ask_again(talk.method(changes, more))
    finally:
        talk.preset = before


def _changes(words: Sequence[str]) -> tuple[str, dict[str, Any], int]:
    """Return the preset, the settings by name, and the number of --more that the words of a command line name."""
    options = {name: setting for setting in all_settings().values() for name in setting.names}
    known = [*options, *(f"--{preset}" for preset in PRESETS), "--more"]
    preset, changes, more, rest = "", dict[str, Any](), 0, iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name not in known:
            raise FbragError("usage", f"/again {word}: there is no such option", suggestion(name, known, "/again --select 8"))
        if name == "--more":
            more += 1
        elif name[2:] in PRESETS:
            preset = name[2:]
        elif (setting := options[name]).kind is bool:
            changes[setting.name] = True
        else:
            value = value if equals else next(rest, "")
            if (parsed := setting.parsed(value)) is None:
                raise FbragError("usage", f"{name} {value}: expected {setting.expects}", f"/again {name} VALUE")
            changes[setting.name] = parsed
    return preset, changes, more


def _preset(name: str) -> Callable[[Talk, str], None]:
    def follow(talk: Talk, rest: str) -> None:
        before, talk.preset = talk.preset, "" if talk.preset == name else name
        try:
            talk.method()
        except FbragError:
            talk.preset = before
            raise
        talk.console.note(f"from now on as with --{name}" if talk.preset else f"from now on without --{name}", dim=True)

    return follow


def _plain(talk: Talk, rest: str) -> None:
    talk.conversation.plain = not talk.conversation.plain
    how = "as they are typed" if talk.conversation.plain else "made whole from those before them"
    talk.console.note(f"questions are now asked {how}", dim=True)


def _open(talk: Talk, rest: str) -> None:
    if not rest:
        raise FbragError("usage", "/open: the document is missing", "/open FILE")
    paths = [rest] if os.path.exists(os.path.expanduser(rest)) else _split(rest)
    if "-" in paths:
        raise FbragError("usage", "/open -: '-' is stdin, which carries the questions", "name a file in place of it")
    talk.open([os.path.expanduser(path) for path in paths])
    documents = talk.conversation.collection.corpus.documents
    talk.console.note(f"open: {', '.join(one_line(each.name) for each in documents[:3])}{' …' * (len(documents) > 3)}", dim=True)


def _save(talk: Talk, rest: str) -> None:
    from fbrag_cli.render import conversation
    from fbrag_cli.render.html import page

    if not rest:
        raise FbragError("usage", "/save: the file is missing", "/save FILE.md, or /save FILE.html")
    exchanges = talk.conversation.exchanges
    if not exchanges:
        talk.last()
    path = os.path.expanduser(rest)
    check_apart({"/save": path}, (source.path for each in exchanges for source in each.trace.corpus.documents))
    is_page = Path(path).suffix.lower() in (".html", ".htm")
    with open_output(path, "/save") as stream:
        if is_page:
            stream.write(page(exchanges[-1].trace))
        else:
            shown = talk.options.answer
            traces = enumerate((each.trace for each in exchanges), 1)
            parts = [conversation.markdown(trace, number, shown.context, full=shown.full) for number, trace in traces]
            stream.write("\n\n".join(parts) + "\n")
    what = "the last answer" if is_page else counted(len(exchanges), "question")
    talk.console.note(f"saved: {what} in {path}", dim=True)


def _help(talk: Talk, rest: str) -> None:
    for word, (argument, said, _) in WORDS.items():
        talk.console.note(f"{word} {argument}".rstrip() + f": {said}")


def _quit(talk: Talk, rest: str) -> None:
    talk.ended = True


def _print(talk: Talk, lines: Iterator[str]) -> None:
    talk.write("".join(f"{line}\n" for line in lines))


def _split(rest: str) -> list[str]:
    try:
        return shlex.split(rest, posix=os.name != "nt")
    except ValueError as error:
        raise FbragError("usage", f"{rest}: {str(error).lower()}", "close the quotes") from None


#: Word -> what follows it, what it does, and the function that does it.
WORDS: Mapping[str, tuple[str, str, Callable[[Talk, str], None]]] = {
    "/explain": ("", "the scores of the chunks for the last question", _explain),
    "/find": ("TEXT", "rank and fate of the chunks that hold TEXT", _find),
    "/source": ("N", "source N of the last answer, with what stands around it", _source),
    "/again": ("OPTIONS", "the last question with other settings: --select 8, --more, --thorough", _again),
    "/fast": ("", "the next questions as with --fast; once more: no longer", _preset("fast")),
    "/thorough": ("", "the next questions as with --thorough; once more: no longer", _preset("thorough")),
    "/plain": ("", "ask questions as they are typed; once more: make them whole from those before", _plain),
    "/open": ("FILE", "other documents, in place of these", _open),
    "/save": ("FILE", "the conversation as Markdown; FILE.html: the page of the last answer", _save),
    "/help": ("", "this list", _help),
    "/quit": ("", "the end, as Ctrl-D", _quit),
}

#: Those that a path follows.
PATH_WORDS = ("/open", "/save")
