"""Read LaTeX as it is written, without comments, preamble and what follows the end. Lines keep their numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fbrag_cli.documents.decoding.encoding import decode
from fbrag_cli.documents.document import Content, Extracted
from fbrag_cli.documents.source import Source

# Longest first: what is literal, comments, commands, braces. A group that is named says what was found.
_TOKEN = re.compile(
    r"""(?x)
      (?P<comment> %[^\n]* )
    | \\begin[ ]?\{ (?P<begin> [^{}\n]{1,40} ) \}
    | \\end[ ]?\{ (?P<end> [^{}\n]{1,40} ) \}
    | \\(?:verb|(?:lstinline|mintinline)(?:\[[^\[\]\n]{0,200}\])?(?:\{\w{1,40}\})?)\*? (?P<quote> [^\sA-Za-z*\[] )
    | \\(?:url|path|nolinkurl|href|hyperimage)\s?\{ [^{}\n]{0,2000} \}
    | \\(?P<name> [A-Za-z@]+ )
    | (?P<brace> [{}] )
    | \\.
    """,
    re.DOTALL,
)
_LITERAL = frozenset(
    "verbatim verbatim* Verbatim Verbatim* BVerbatim LVerbatim SaveVerbatim lstlisting minted alltt tcblisting filecontents"
    " filecontents*".split()
)
_OWN_LITERAL = re.compile(r"\\(?:lstnewenvironment|DefineVerbatimEnvironment)\s?\{(\w{1,40}\*?)\}")
_MAX_OWN_LITERAL = 20  # each may be sought to the end of the text
_NO_CONDITIONALS = ("iff", "ifthenelse")  # although they begin with "if"
_LONGEST_QUOTED = 1000  # characters of \verb
_ALONE = re.compile(r"^(?:%(?:\n|\Z))+[ \t]{0,40}", re.MULTILINE)  # lines of comments
# What of the preamble is printed: by \maketitle, or on the first slide.
_PRINTED = frozenset("title subtitle author date institute affil affiliation address abstract keywords subject".split())
_OPTION = re.compile(r"(?:\s?\[[^\[\]\n]{0,400}\])?\s?")
_DEFINITION = re.compile(
    r"\\(?:(?:re)?newcommand|providecommand|DeclareRobustCommand)\*?\s?\{?\s?\\(?P<new>[A-Za-z@]+)\s?\}?\s?(?=\{)"
    r"|\\[gex]?def\s?\\(?P<defined>[A-Za-z@]+)\s?(?=\{)"
)
_COMMAND = re.compile(r"\\(?P<name>[A-Za-z@]+)(?:\{\})?")
_MAX_NESTED = 10  # macros in macros
_MAX_WORK = 4  # characters of commands that are written out for each one of the file; people write fewer, bombs more

_Span = tuple[int, int, str]  # start and end (characters) of what is replaced, and by what


def read_latex(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read LaTeX. Comments and the preamble, but for what is printed of it, become blanks: each line keeps its number.

    Commands of the file's own without arguments are replaced by what they mean. codec, errors: as `read_plain`.
    """
    decoded = decode(source, codec)
    content = Content(_printed(_without_comments(decoded.text)))
    return Extracted(content, "text/x-tex", decoded.encoding, warnings=decoded.warnings)


def _without_comments(text: str) -> str:
    r"""Blank comments, the environment `comment`, and what is between \iffalse and its \else or \fi.

    A comment in the middle of a sentence leaves its sign: a blank line would end the paragraph.
    """
    spans: list[_Span] = []
    braces: list[int] = []  # starts of the open groups
    conditionals: list[tuple[str, int, list[int]]] = []  # name, start and innermost group of each open one
    for kind, found, start, end in _tokens(text):
        match kind:
            case "comment":
                line = text.rfind("\n", 0, start) + 1
                spans.append((start, end, "") if text[line:start].strip() else (line, end, "%"))
            case "environment":
                spans.append((start, end, ""))
            case "brace" if found == "{":
                braces.append(start)
            case "brace" if braces:
                braces.pop()
            case "name" if found.startswith("if") and found not in _NO_CONDITIONALS:
                conditionals.append((found, start, braces[-1:]))
            case "name" if found in ("else", "fi") and conditionals:
                name, begin, group = conditionals.pop()
                if name == "iffalse" and group == braces[-1:]:  # not that of a command that begins a comment
                    spans.append((begin, end, ""))
                    name, begin = "else", start
                if found == "else":
                    conditionals.append((name, begin, group))
                elif name == "else":
                    spans.append((start, end, ""))
    return _ALONE.sub(_blank_unless_inside, _replaced(text, spans))


def _blank_unless_inside(found: re.Match[str]) -> str:
    runs_on = found.string[found.end() : found.end() + 1].islower()
    return found[0] if runs_on else found[0].replace("%", "")


def _printed(text: str) -> str:
    """Blank the preamble and what follows the document, and write out the file's own commands."""
    tokens = list(_tokens(text))
    begin = next((end for kind, found, _, end in tokens if (kind, found) == ("begin", "document")), 0)
    ends = (start for kind, found, start, _ in tokens if (kind, found) == ("end", "document") and start >= begin)
    closings = _closings(tokens)
    macros = _Macros(text, closings)

    # 1. Find what is printed, and the commands that are defined before the document.
    shown: list[tuple[int, int]] = []
    for kind, name, start, stop in tokens:
        if start >= begin:
            break
        if kind == "name" and start >= (shown[-1][1] if shown else 0):
            macros.define(start)
            option = _OPTION.match(text, stop)
            end = closings.get(option.end() if option else stop)
            if name in _PRINTED and end is not None:
                shown.append((start, end))
    shown.append((begin, next(ends, len(text)) if begin else len(text)))

    # 2. Write out the commands in it.
    spans: list[_Span] = []
    at = 0
    for first, last in shown:
        spans.append((at, first, ""))
        at = last
    spans.append((at, len(text), ""))
    at, ranges = 0, iter(shown)
    first, last = next(ranges)
    for kind, name, start, _ in tokens:
        while start >= last:
            first, last = next(ranges, (len(text), len(text) + 1))
        if kind != "name" or start < max(at, first):
            continue
        at = macros.define(start)
        if not at and (value := macros.value(name)) is not None and (used := _COMMAND.match(text, start)):
            spans.append((start, used.end(), value))
    return _replaced(text, spans)


class _Macros:
    """The own commands of a file that have no arguments, as they are defined up to if it is read.

    text: of the file. closings: where each of its groups ends.
    """

    def __init__(self, text: str, closings: dict[int, int]) -> None:
        self._text, self._closings = text, closings
        self._bodies: dict[str, str] = {}
        self._work = _MAX_WORK * len(text)

    def define(self, start: int) -> int:
        """Take the definition that begins at `start`. Return its end; 0 if none begins there."""
        found = _DEFINITION.match(self._text, start)
        end = self._closings.get(found.end(), 0) if found else 0
        if found and end:
            body = " ".join(self._text[found.end() + 1 : end - 1].replace("\\xspace", "").split())
            name = found["new"] or found["defined"]
            if "@" in body:  # how LaTeX itself is changed, as the look of a section
                self._bodies.pop(name, None)
            else:
                self._bodies[name] = body
        return end

    def value(self, name: str, inside: tuple[str, ...] = ()) -> str | None:
        """Return what a command means; None for one that is not known, or that takes too long to write out."""
        body = self._bodies.get(name)
        if body is None or name in inside or len(inside) >= _MAX_NESTED or self._work < 0:
            return None
        self._work -= len(body) + 1

        def written(found: re.Match[str]) -> str:
            value = self.value(found["name"], (*inside, name))
            return found[0] if value is None else value

        return _COMMAND.sub(written, body)


def _tokens(text: str) -> Iterator[tuple[str, str, int, int]]:
    """Yield kind, content, start and end (characters) of each token that matters here. What is literal is none.

    Kinds: "comment", "environment" (a whole one: `comment`), "begin" and "end" of one, "name" of a command, "brace".
    """
    literal = _LITERAL.union(_OWN_LITERAL.findall(text)[:_MAX_OWN_LITERAL])
    endless: set[str] = set()  # environments that do not end after here
    at = 0
    while (found := _TOKEN.search(text, at)) is not None:
        at, kind = found.end(), found.lastgroup
        if kind is None:
            continue
        content = found[kind]
        if kind == "quote":
            end = text.find("}" if content == "{" else content, at, at + _LONGEST_QUOTED)
            at = end + 1 if end >= 0 else at
        elif kind == "begin" and (content in literal or content == "comment") and content not in endless:
            closing = f"\\end{{{content}}}"
            end = text.find(closing, at)
            if end < 0:
                endless.add(content)
                continue
            at = end + len(closing)
            if content == "comment":
                yield "environment", content, found.start(), at
        else:
            yield kind, content, found.start(), at


def _closings(tokens: Iterable[tuple[str, str, int, int]]) -> dict[int, int]:
    """Return the end of each group (after its brace) by its start."""
    opened: list[int] = []
    closings = {}
    for kind, found, start, end in tokens:
        if kind == "brace" and found == "{":
            opened.append(start)
        elif kind == "brace" and opened:
            closings[opened.pop()] = end
    return closings


def _replaced(text: str, spans: list[_Span]) -> str:
    """Return a text with spans of it replaced, and all its line ends kept. Of two that overlap the first counts."""
    parts: list[str] = []
    at = 0
    for start, end, by in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start >= at:
            parts += text[at:start], by, "\n" * text.count("\n", start, end)
            at = end
    return "".join((*parts, text[at:]))
