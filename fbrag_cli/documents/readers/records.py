"""Read JSON, JSON Lines and XML as what they say: a line for each value under its key, and a blank line between two records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from fbrag_cli.documents.decoding.encoding import Decoded, declared_codec, decode, decoded_once, without_surrogates
from fbrag_cli.documents.document import Content, Extracted
from fbrag_cli.documents.readers.markup import read_prose
from fbrag_cli.documents.readers.nested import Target
from fbrag_cli.documents.readers.package import MAX_UNPACKED, feed
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError

_MAX_DEPTH = 100  # values within values
_INDENTED = 8  # of them, by two spaces each: deeper ones would be all spaces
_LONGEST_INLINE = 100  # characters of a list of numbers or words in one line
_DECLARED = re.compile(rb"""<\?xml\s[^>]*?encoding\s*=\s*["']([\w.:-]{1,40})["']""")
_LINE_END = re.compile(r"[ \t]*\n\s*|[ \t]{2,}")
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_DRAWN = "{http://www.w3.org/2000/svg}"  # what a drawing has in attributes are its coordinates


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of an object, in order, with those that have the same key."""


class _TooMuch(Exception):
    """The text would be longer, or deeper, than any that is written by people."""


def read_json(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read JSON, or JSON Lines; a line of these that is damaged stays as it is. Anything else is plain text.

    codec: its encoding; None to detect it. Raises FbragError as `decode`.
    """
    decoded = decode(source, codec)
    decoder = json.JSONDecoder(object_pairs_hook=_Pairs, parse_int=str, parse_float=str, parse_constant=str, strict=False)
    try:
        if len(decoded.text) > MAX_UNPACKED:
            raise _TooMuch
        try:
            value = decoder.decode(decoded.text)
        except ValueError:
            lines = [line.strip() for line in decoded.text.split("\n") if line.strip()]
            value = [_value(decoder, line) for line in lines]
            if sum(isinstance(each, list) for each in value) <= len(value) / 2:
                raise
        if isinstance(value, list):
            return _extracted(decoded, value, "application/json")
    except (ValueError, RecursionError, _TooMuch):
        pass
    return read_prose(source, codec)


def _value(decoder: json.JSONDecoder, line: str) -> Any:
    try:
        return decoder.decode(line)
    except ValueError:
        return line


def read_xml(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read XML: the text of its elements, and their attributes, under their names.

    What declares entities, and what is damaged, is plain text. codec, errors: as `read_json`.
    """
    declared = _DECLARED.match(source.data.removeprefix(b"\xef\xbb\xbf"))
    decoded = decode(source, codec, declared=declared[1].decode() if declared else None)
    target = _Elements()
    try:
        if len(source.data) > MAX_UNPACKED:
            raise _TooMuch
        data = source.data
        if codec or (declared and declared_codec(declared[1].decode()) != "utf-8"):
            data = re.sub(r"^\s*<\?xml[^>]*\?>", "", decoded.text).encode("utf-8", "replace")
        feed(data, target, lambda reason: FbragError("doc_unreadable", reason, ""))
        return _extracted(decoded, target.root, "application/xml")
    except (FbragError, RecursionError, _TooMuch):
        return read_prose(source, codec)


class _Elements(Target):
    """What lxml calls while it reads XML. root: the elements, as values under their names; texts have the name ""."""

    def __init__(self) -> None:
        self.root = _Pairs()
        self._open: list[tuple[str, int, _Pairs]] = [("", 0, self.root)]

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(self._open) > _MAX_DEPTH:
            raise _TooMuch
        own = [] if tag.startswith(_DRAWN) else [(_name(key), value) for key, value in attributes.items() if key != _SPACE]
        self._open.append((_name(tag), len(own), _Pairs(own)))

    def data(self, text: str) -> None:
        self._open[-1][2].append(("", text))

    def end(self, tag: str) -> None:
        name, n_own, pairs = self._open.pop()
        inside = _Pairs()
        for key, values in groupby(pairs[n_own:], lambda pair: pair[0]):  # texts come in pieces
            own = list(values)
            inside += own if key else [("", "".join(text for _, text in own))]
        if any(not key and text.strip() for key, text in inside):
            texts = [_sentence(value) for _, value in inside]
            if None not in texts:  # words in a sentence, as of a link
                inside = _Pairs([("", "".join(text or "" for text in texts))])
        inside = _Pairs(
            (key, _LINE_END.sub("\n", value.strip()) if not key else value) for key, value in inside if key or value.strip()
        )
        whole = _Pairs([*pairs[:n_own], *inside])
        self._open[-1][2].append((name, whole[0][1] if len(whole) == 1 and not whole[0][0] else whole))


def _sentence(value: Any) -> str | None:
    """Return the text of an element with other text around it; None if it has elements itself."""
    if isinstance(value, list):
        return None if any(isinstance(each, list) for _, each in value) else "".join(each for key, each in value if not key)
    return str(value)


def _name(tag: str) -> str:
    return tag.rpartition("}")[2]


def _extracted(decoded: Decoded, value: list[Any], media_type: str) -> Extracted:
    parts: list[str] = []
    size = 0
    for line in _lines(value, 0, apart=True):
        parts.append(line)
        size += len(line) + 1
        if size > MAX_UNPACKED:
            raise _TooMuch
    text = without_surrogates("\n".join(parts)).replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    text = decoded_once(text)  # in escapes, as chats are exported
    return Extracted(Content(text), media_type, decoded.encoding, warnings=decoded.warnings)


def _lines(value: list[Any], depth: int, *, apart: bool) -> Iterator[str]:
    """Yield the lines of an object or a list. apart: whether it is in no record, so that its own objects are records."""
    if depth > _MAX_DEPTH:
        raise _TooMuch
    indent = "  " * min(depth, _INDENTED)
    is_object = isinstance(value, _Pairs)
    pairs = value if is_object else [("-", each) for each in value]
    inside = [each for _, each in pairs if isinstance(each, list) and each]
    # The objects of a list are records, and so are those of an object if they begin with the same key.
    alike = not is_object or len({each[0][0] if isinstance(each, _Pairs) else "" for each in inside}) == 1
    records = apart and len(inside) > 1 and 2 * len(inside) >= len(pairs) and alike and isinstance(inside[0], _Pairs)
    for key, item in pairs:
        sign = "" if not is_object and records else f"{key}: " if is_object and key else "- " * (not is_object)
        if not isinstance(item, list):
            yield (indent + sign + _scalar(item).replace("\n", f"\n{indent}  ")).rstrip(" ")
        elif (inline := _inline(item)) is not None:
            yield (indent + sign + inline).rstrip(" ")
        else:
            if sign:
                yield (indent + sign).rstrip()
            yield from _lines(item, depth + bool(sign), apart=apart and not records)
        if records:
            yield ""


def _inline(value: list[Any]) -> str | None:
    """Return a short list of words and numbers as one line; None for any other value."""
    if (value and isinstance(value, _Pairs)) or any(isinstance(each, list) for each in value):
        return None
    line = ", ".join(map(_scalar, value))
    return line if len(line) <= _LONGEST_INLINE and "\n" not in line else None


def _scalar(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
