"""Read LaTeX as it is written, with the files that it includes, without comments, preamble and what follows the end.

Accents are written out. Lines keep their numbers, but for those of included files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from unicodedata import normalize

from fbrag_cli.documents.decoding.encoding import decode
from fbrag_cli.documents.document import Content, Extracted
from fbrag_cli.documents.source import Source, read_source
from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import counted_names

# Longest first: what is literal, comments, commands, braces. A group that is named says what was found.
_TOKEN = re.compile(
    r"""(?x)
      (?P<comment> %[^\n]* )
    | \\begin[ ]?\{ (?P<begin> [^{}\n]{1,40} ) \}
    | \\end[ ]?\{ (?P<end> [^{}\n]{1,40} ) \}
    | \\(?:verb|(?:lstinline|mintinline)(?:\[[^\[\]\n]{0,200}\])?(?:\{\w{1,40}\})?)\*? (?P<quote> [^\sA-Za-z*\[] )
    | \\(?:url|path|nolinkurl|href|hyperimage)\s?\{ [^{}\n]{0,2000} \}
    | (?P<accent> (?P<open> \{ )?
        \\ (?: (?P<mark> ["'`^~=.] ) [ ]* | (?P<letter> [uvHcdbkr] ) (?: [ ]+ | (?=\{) ) )
        (?: \{ (?P<braced> \\[ij] | [A-Za-z] ) \} | (?P<bare> \\[ij](?:[ ]+|(?![A-Za-z])) | [A-Za-z] ) ) (?(open) \} ) )
    | (?P<special> (?P<begun> \{ )?
        \\ (?P<sign> [LloOij] | ss | ae | AE | oe | OE | aa | AA | l?dots | textendash | textemdash | textellipsis )
        (?![A-Za-z@]) (?: \{\} | [ \t]+(?=\w) )? (?(begun) \} ) )
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
_NEW_LETTER = re.compile(r"\\(?:(?:new|renew|provide)command\*?\s?\{?|def\s?)\\([A-Za-z]{1,2})(?![A-Za-z])")
_MARKS = dict(
    zip(
        "\"'`^~=.uvHcdbkr",
        "\u0308\u0301\u0300\u0302\u0303\u0304\u0307\u0306\u030c\u030b\u0327\u0323\u0331\u0328\u030a",
        strict=True,
    )
)
_SIGNS = dict(
    zip(
        "L l o O i j ss ae AE oe OE aa AA dots ldots textellipsis textendash textemdash".split(),
        "Ł ł ø Ø ı ȷ ß æ Æ œ Œ å Å … … … – —".split(),
        strict=True,
    )
)
_INCLUDED = re.compile(r"\\(?:input|include|subfile|subfileinclude)(?:[ ]*\{([^{}\n]{1,400})\}|[ ]+([^\s{}\\]{1,400}))")
_MAX_INCLUDED = 64_000_000  # bytes of all included files
_MOST_INCLUDED = 1000  # files
_MAX_NESTED = 10  # files in files
_MAYBE_INCLUDES = re.compile(rb"\\(?:input|include|subfile)")

_Span = tuple[int, int, str]  # start and end (characters) of what is replaced, and by what


def read_latex(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    r"""Read LaTeX with the files that it includes (\input, \include), each in the place of its command.

    Only files in the folder of this one, or below it, are read; others are named in the warning. Comments and the preamble, but
    for what is printed of it, become blanks: each line keeps its number. codec, errors: as `read_plain`.
    """
    whole = _Whole(source, codec)
    content = Content(_printed(_without_comments(whole.text)))
    left_out = (counted_names(whole.missing, "included file"),) if whole.missing else ()
    return Extracted(content, "text/x-tex", whole.encoding, warnings=tuple(whole.warnings), left_out=left_out)


def included_files(source: Source) -> list[Source]:
    """Return the files that are read with a file of LaTeX, which includes them."""
    if not _MAYBE_INCLUDES.search(source.data):
        return []
    try:
        return _Whole(source, None).included
    except FbragError:  # for who reads it
        return []


class _Whole:
    """A file of LaTeX with the files that it includes. text: of all, each in its place. missing: names of those that are not
    read, after the preamble."""

    def __init__(self, source: Source, codec: str | None) -> None:
        self._codec, self._folder = codec, os.path.realpath(os.path.dirname(source.path) or ".")
        self._is_file = source.signature is not None  # not stdin, nor an upload
        self._left = _MAX_INCLUDED
        self.included: list[Source] = []
        self.missing: dict[str, None] = {}
        self.warnings: list[str] = []
        self.encoding = ""
        self.text = self._text(source, (os.path.realpath(source.path),))

    def _text(self, source: Source, inside: tuple[str, ...]) -> str:
        decoded = decode(source, self._codec)
        self.encoding = self.encoding or decoded.encoding
        self.warnings += decoded.warnings
        text, begin = decoded.text, decoded.text.find("\\begin{document}")
        spans = [
            (start, match.end(), part)
            for kind, name, start, _ in _tokens(text)
            if kind == "name"
            and name in ("input", "include", "subfile", "subfileinclude")
            and (match := _INCLUDED.match(text, start))
            if (part := self._part((match[1] or match[2]).strip(), inside, shown=start > begin)) is not None
        ]
        return _replaced(text, spans, keep_lines=False)

    def _part(self, name: str, inside: tuple[str, ...], *, shown: bool) -> str | None:
        """Return the text of an included file; None if it is not read. shown: whether it is not of the preamble."""
        if name in self.missing or len(self.included) + len(self.missing) >= _MOST_INCLUDED:
            return None
        base = os.path.join(self._folder, name)
        for path in (f"{base}.tex", base) if self._is_file and len(inside) <= _MAX_NESTED else ():
            try:
                real = os.path.realpath(path)
                if os.path.commonpath([real, self._folder]) != self._folder or real in inside or not os.path.isfile(real):
                    continue
                part = read_source(real)
                self._left -= len(part.data)
                if self._left < 0:
                    break
                self.included.append(part)
                return _inside_document(self._text(part, (*inside, real)))
            except (FbragError, OSError, ValueError):  # ValueError: a NUL in the name
                continue
        if shown:
            self.missing[name] = None
        return None


def _inside_document(text: str) -> str:
    """Return what a file that is included prints, if it is a document itself (of the package subfiles)."""
    _, begin, after = text.partition("\\begin{document}")
    return after.partition("\\end{document}")[0] if begin else text


def _without_comments(text: str) -> str:
    r"""Blank comments, the environment `comment`, and what is between \iffalse and its \else or \fi.

    A comment in the middle of a sentence leaves its sign: a blank line would end the paragraph.
    """
    spans: list[_Span] = []
    braces: list[int] = []  # starts of the open groups
    conditionals: list[tuple[str, int, list[int]]] = []  # name, start and innermost group of each open one
    for kind, content, start, end in _tokens(text):
        match kind:
            case "comment":
                line = text.rfind("\n", 0, start) + 1
                spans.append((start, end, "") if text[line:start].strip() else (line, end, "%"))
            case "environment":
                spans.append((start, end, ""))
            case "brace" if content == "{":
                braces.append(start)
            case "brace" if braces:
                braces.pop()
            case "name" if content.startswith("if") and content not in _NO_CONDITIONALS:
                conditionals.append((content, start, braces[-1:]))
            case "name" if content in ("else", "fi") and conditionals:
                name, begin, group = conditionals.pop()
                if name == "iffalse" and group == braces[-1:]:  # not that of a command that begins a comment
                    spans.append((begin, end, ""))
                    name, begin = "else", start
                if content == "else":
                    conditionals.append((name, begin, group))
                elif name == "else":
                    spans.append((start, end, ""))
    return _ALONE.sub(_blank_unless_inside, _replaced(text, spans))


def _blank_unless_inside(found: re.Match[str]) -> str:
    runs_on = found.string[found.end() : found.end() + 1].islower()
    return found[0] if runs_on else found[0].replace("%", "")


def _printed(text: str) -> str:
    """Blank the preamble and what follows the document, and write out accents."""
    tokens = list(_tokens(text))
    begin = next((end for kind, found, _, end in tokens if (kind, found) == ("begin", "document")), 0)
    ends = (start for kind, found, start, _ in tokens if (kind, found) == ("end", "document") and start >= begin)
    closings = _closings(tokens)
    shown: list[tuple[int, int]] = []
    for kind, name, start, stop in tokens:
        if start >= begin:
            break
        if kind == "name" and start >= (shown[-1][1] if shown else 0):
            option = _OPTION.match(text, stop)
            end = closings.get(option.end() if option else stop)
            if name in _PRINTED and end is not None:
                shown.append((start, end))
    shown.append((begin, next(ends, len(text)) if begin else len(text)))

    spans: list[_Span] = []
    at = 0
    for first, last in shown:
        spans.append((at, first, ""))
        at = last
    spans.append((at, len(text), ""))
    own = {*_NEW_LETTER.findall(text)}  # \d and \c may be commands of the author
    for kind, found, start, end in tokens:
        if kind in ("accent", "special") and (written := _accented(found, own)):
            spans.append((start, end, written))
    return _replaced(text, spans)


def _accented(command: str, own: set[str]) -> str:
    """Return the letter or sign that a command prints; "" for a command of the author."""
    match = _TOKEN.match(command)
    if match is None or (match["letter"] or match["sign"]) in own:
        return ""
    if match["sign"]:
        return _SIGNS[match["sign"]]
    letter = (match["braced"] or match["bare"]).strip("\\ ")
    return normalize("NFC", letter + _MARKS[match["mark"] or match["letter"]])


def _tokens(text: str) -> Iterator[tuple[str, str, int, int]]:
    """Yield kind, content, start and end (characters) of each token that matters here. What is literal is none.

    Kinds: "comment", "environment" (a whole one: `comment`), "begin" and "end" of one, "name" of a command, "brace".
    """
    literal = _LITERAL.union(_OWN_LITERAL.findall(text)[:_MAX_OWN_LITERAL])
    endless: set[str] = set()  # environments that do not end after here
    at = 0
    while (match := _TOKEN.search(text, at)) is not None:
        at, kind = match.end(), match.lastgroup
        if kind is None:
            continue
        content = match[kind]
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
                yield "environment", content, match.start(), at
        else:
            yield kind, content, match.start(), at


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


def _replaced(text: str, spans: Sequence[_Span], *, keep_lines: bool = True) -> str:
    """Return a text with spans of it replaced. Of two that overlap the first counts. keep_lines: whether line ends are kept."""
    parts: list[str] = []
    at = 0
    for start, end, by in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start >= at:
            parts += text[at:start], by, "\n" * text.count("\n", start, end) if keep_lines else ""
            at = end
    return "".join((*parts, text[at:]))
