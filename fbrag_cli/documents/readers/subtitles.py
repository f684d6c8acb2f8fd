"""Read subtitles (SubRip, WebVTT) as one line for each cue: its start time and its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

from fbrag_cli.documents.decoding.encoding import decode
from fbrag_cli.documents.document import Content, Extracted
from fbrag_cli.documents.source import Source

# Our own parser: pysubs2 takes a cue's last line for the next number if it is a number, and comments for text.
_TIMING = re.compile(r"[ \t]*(?:(\d{1,4}):)?(\d\d):(\d\d)(?:[,.]\d{1,3})?[ \t]*-->[ \t]*\d")
_VOICE = re.compile(r"<v(?:\.[^\s<>]{1,80})*[ \t]+([^<>\n]{1,200})>")
_TAG = re.compile(r"</?[a-zA-Z\d][^<>\n]{0,200}>|\{\\[^{}\n]{0,200}\}")
_KARAOKE = re.compile(r"<\d\d:\d\d(?::\d\d)?\.\d{3}>")  # rolling captions: each cue repeats the line before


def read_srt(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read SubRip; a file without cues is plain text. codec: its encoding; None to detect it. Raises FbragError as `decode`."""
    return _read(source, codec, "application/x-subrip")


def read_vtt(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read WebVTT as `read_srt` does. The speaker (a voice tag) comes before the words."""
    return _read(source, codec, "text/vtt")


def _read(source: Source, codec: str | None, media_type: str) -> Extracted:
    decoded = decode(source, codec)
    if cues := "\n".join(_cues(decoded.text)):
        return Extracted(Content(cues), media_type, decoded.encoding, warnings=decoded.warnings)
    warnings = (*decoded.warnings, f"{source.name} has no subtitles with a time: read as plain text")
    return Extracted(Content(decoded.text), "text/plain", decoded.encoding, warnings=warnings)


def _cues(text: str) -> Iterator[str]:
    """Yield a line for each cue: the lines below a timing, up to the next empty line or timing."""
    rolling = _KARAOKE.search(text) is not None
    lines = [*text.split("\n"), "", ""]
    spoken: list[str] = []
    position = 0
    while position < len(lines):
        timing = _TIMING.match(lines[position])
        position += 1
        if timing is None:
            continue
        before, spoken = {*spoken}, []
        # An empty line ends the cue; rolling captions have lines of one space within it.
        while position < len(lines) and lines[position].strip("" if rolling else None) and not _TIMING.match(lines[position]):
            words = unescape(_TAG.sub("", _VOICE.sub(r"\1: ", lines[position])))
            spoken.append(" ".join(words.split()))
            position += 1
        if line := " ".join(each for each in spoken if each and not (rolling and each in before)):
            yield f"{int(timing[1] or 0):02}:{timing[2]}:{timing[3]} {line}"
