"""Subtitles (SubRip, WebVTT) become one line a cue: the time at which it begins, and its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

from fbrag_cli.documents.decoding import decode
from fbrag_cli.documents.document import Content, Extracted
from fbrag_cli.documents.source import Source

# Our own, for pysubs2 takes a cue's last line for the next one's number where it is a number, and comments for text.
_TIMING = re.compile(r"[ \t]*(?:(\d{1,4}):)?(\d\d):(\d\d)(?:[,.]\d{1,3})?[ \t]*-->[ \t]*\d")
_VOICE = re.compile(r"<v(?:\.[^\s<>]{1,80})*[ \t]+([^<>\n]{1,200})>")
_TAG = re.compile(r"</?[a-zA-Z\d][^<>\n]{0,200}>|\{\\[^{}\n]{0,200}\}")
_KARAOKE = re.compile(r"<\d\d:\d\d(?::\d\d)?\.\d{3}>")  # captions that are spoken into: each cue repeats the line before


def read_srt(source: Source, codec: str | None = None) -> Extracted:
    """codec: the encoding, instead of finding it. What has no cue is plain text. Raises FbragError as `decoding.decode`."""
    return _read(source, codec, "application/x-subrip")


def read_vtt(source: Source, codec: str | None = None) -> Extracted:
    """As `read_srt`; who speaks (a voice tag) is written before the words."""
    return _read(source, codec, "text/vtt")


def _read(source: Source, codec: str | None, media_type: str) -> Extracted:
    decoded = decode(source, codec)
    if cues := "\n".join(_cues(decoded.text)):
        return Extracted(Content(cues), media_type, decoded.encoding, warnings=decoded.warnings)
    warnings = (*decoded.warnings, f"{source.name} has no subtitles with a time: read as plain text")
    return Extracted(Content(decoded.text), "text/plain", decoded.encoding, warnings=warnings)


def _cues(text: str) -> Iterator[str]:
    """A cue is the lines below its timing, to the next empty line or timing."""
    rolling = _KARAOKE.search(text) is not None
    lines = [*text.split("\n"), "", ""]
    spoken: list[str] = []
    position = 0
    while position < len(lines):
        timing = _TIMING.match(lines[position])
        position += 1
        if timing is None:
            continue
        before, spoken = spoken, []
        while position < len(lines) and not _ends_cue(lines[position], rolling) and not _TIMING.match(lines[position]):
            spoken.append(_words(lines[position]))
            position += 1
        words = " ".join(line for line in spoken if line and not (rolling and line in before))
        if words:
            yield f"{int(timing[1] or 0):02}:{timing[2]}:{timing[3]} {words}"


def _ends_cue(line: str, rolling: bool) -> bool:
    """An empty line; captions that roll have lines of a space within a cue."""
    return not line if rolling else not line.strip()


def _words(line: str) -> str:
    return " ".join(unescape(_TAG.sub("", _VOICE.sub(r"\1: ", line))).split())
