"""Decode the bytes of a text. A certain encoding is used silently; a guess or a loss gives a warning that names it."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from encodings.aliases import aliases

from fbrag_cli.documents.decoding.guesses import (
    LATIN_ENCODINGS,
    likeliest_alphabet,
    likeliest_east_asian,
    likeliest_latin,
    mean_run,
)
from fbrag_cli.documents.source import Source
from fbrag_cli.documents.unsupported_formats import binary, refuse_known
from fbrag_cli.errors import FbragError
from fbrag_cli.text.suggest import suggestion

_UTF32_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

# Encodings of texts without Unicode. Without this list, charset-normalizer also guesses encodings of mainframes.
_LEGACY_ENCODINGS = [
    *LATIN_ENCODINGS,
    *("cp1251", "cp866", "koi8_r", "koi8_u", "iso8859_5", "mac_cyrillic", "cp1253", "iso8859_7", "cp1255", "cp1256", "cp874"),
    *(_EAST_ASIAN := ("gb18030", "big5", "big5hkscs", "cp932", "euc_jp", "cp949")),
]
_CONTROLS = bytes(code for code in range(0x20) if code not in b"\t\n\v\f\r\x1a\x1b") + b"\x7f"
_ESCAPED_ENCODINGS = ("iso2022_jp_2", "iso2022_jp_ext", "iso2022_kr")

_BEYOND_ASCII = re.compile(rb"[\x80-\xff]+[\x00-\x7f]{0,80}")
_BEFORE = 80  # bytes that are read before them. Within the expression, they would be tried at every byte of the file
_SAMPLE = 1 << 16  # bytes or characters that a guess looks at

# The largest share of odd characters in what is accepted as text: UTF-8 with stray NULs, a guess.
_MAX_ODD_UTF8 = 0.05
_MAX_ODD_GUESS = 0.01
# Signs and small letters of Western texts in UTF-8. Their bytes hardly ever meet in another encoding, so they weigh more.
_FAMILIAR = re.compile(rb"\xe2\x80[\x90-\xaf]|\xe2\x82\xac|\xc3[\xa0-\xbf]")
_SEQUENCE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_FEWEST_LINES = 2  # of each of two encodings: one line may have a cut character or a stray byte
# What cp1252 has instead of the controls of Latin-1, as these; and the beginning of UTF-8 that was taken for either of the two.
_AS_LATIN = {
    ord(bytes([byte]).decode("cp1252")): byte for byte in range(0x80, 0xA0) if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}
_SIGN = f"[\xc2-\xf4][\x80-\xbf{''.join(map(chr, _AS_LATIN))}]"
_MAYBE_TWICE = re.compile(_SIGN)  # ten times as fast as the next
_TWICE = re.compile(f"(?<=[A-Za-z]){_SIGN}|{_SIGN}(?=[A-Za-z])|(?:{_SIGN}){{3}}")  # in a word
_SURROGATE = re.compile("[\ud800-\udfff]")
# On the web, some names mean a larger encoding (WHATWG, Encoding).
_WEB_NAMES = {
    **dict.fromkeys(("ascii", "us-ascii", "iso-8859-1", "iso8859-1", "latin1", "latin-1"), "cp1252"),
    **dict.fromkeys(("gb2312", "gb_2312-80", "gbk", "x-gbk", "cp936"), "gb18030"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "ms_kanji"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "ksc5601", "korean"), "cp949"),
    **dict.fromkeys(("big5", "big5-hkscs", "x-x-big5"), "big5hkscs"),
    **{"iso-8859-9": "cp1254", "tis-620": "cp874", "iso-8859-11": "cp874"},
}
# Codecs of Python for purposes of its own, which no document means.
_OF_PYTHON = ("charmap", "idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined", "unicode-escape")
_FEW_LOST = 3
_WHOLE_PER_LOST = 50  # of a declared encoding: Japanese, Chinese or Korean in a wrong one lacks one character in 10 to 50
_MAX_RUN_LATIN = 2  # bytes: accented letters and signs such as “«” and “°” are alone


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded text. text: line ends as "\\n", no byte order mark. encoding: Python name. warnings: one line each."""

    text: str
    encoding: str
    warnings: tuple[str, ...] = ()


def decode(source: Source, codec: str | None = None, declared: str | None = None) -> Decoded:
    """Decode the text of `source`. codec: encoding, a name from `codec_name`, used whatever the bytes look like.

    Without a codec, the encoding is that of a byte order mark, else the one that the document declares (`declared`) if it fits,
    else UTF-8 if it is valid, else a guess with a warning.
    Raises FbragError: unsupported_format for what is not text, doc_unreadable where `codec` does not fit.
    """
    refuse_known(source)
    if codec:
        decoded = _forced(source, codec)
    else:
        certain = _marked(source) or _declared(source, declared) or _escaped(source)
        decoded = certain or _utf8(source, declared=declared_codec(declared or "") == "utf-8") or _guessed(source)
    text = without_surrogates(decoded.text).replace("\r\n", "\n").replace("\r", "\n")
    if codec or (once := decoded_once(text)) == text:
        return Decoded(text, decoded.encoding, decoded.warnings)
    warning = f"{source.name} was encoded twice{_specimen(text)}: read as it was meant{_specimen(once)}"
    return Decoded(once, decoded.encoding, (*decoded.warnings, warning))


def decoded_once(text: str) -> str:
    """Return a text whose UTF-8 was taken for cp1252 or Latin-1 and encoded again ("MÃ¼ll") as it was ("Müll").

    A line is changed if all of it becomes UTF-8 by that, and only if most lines beyond ASCII do: others quote such words.
    """
    if not _MAYBE_TWICE.search(text) or not _TWICE.search(text):
        return text
    lines = text.split("\n")
    once = {i: found for i, line in enumerate(lines) if _TWICE.search(line) if (found := _line_once(line))}
    if 2 * len(once) <= sum(not line.isascii() for line in lines):
        return text
    return "\n".join(once.get(i, line) for i, line in enumerate(lines))


def _line_once(line: str) -> str:
    """Return a line that was encoded twice as it was before; "" if it was not."""
    try:
        once = line.translate(_AS_LATIN).encode("latin-1").decode("utf-8")
    except UnicodeError:
        return ""
    return once if any(map(str.isalpha, once)) and not once.isascii() and not any(map(_is_odd, once)) else ""


def without_surrogates(text: str) -> str:
    """Replace each pair of surrogates with its character, and a lone one, which has no UTF-8 form, with U+FFFD."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _forced(source: Source, codec: str) -> Decoded:
    try:
        return Decoded(source.data.decode(codec).removeprefix("\ufeff"), codec)
    except UnicodeDecodeError as error:
        where = f"byte 0x{source.data[error.start : error.start + 1].hex()} at offset {error.start}: {error.reason}"
    except (UnicodeError, ValueError) as error:
        where = str(error)
    what = f"{source.name} is not {codec} ({where})"
    raise FbragError("doc_unreadable", what, "leave out --encoding: fbrag then detects it", document=source.path) from None


def _marked(source: Source) -> Decoded | None:
    """Decode by a byte order mark. The mark of UTF-32 LE begins like that of UTF-16 LE, so UTF-32 must fit without errors."""
    if source.data.startswith(codecs.BOM_UTF8):
        replaced, n_lost, _ = _replaced(source.data, "utf-8-sig")
        if not n_lost:
            return Decoded(replaced, "utf-8")
        if n_lost <= max(_FEW_LOST, _MAX_ODD_UTF8 * len(replaced)):
            return _with_losses(source, replaced, "utf-8", n_lost)
    if source.data.startswith(_UTF32_MARKS) and (text := _strict(source.data, "utf-32")) is not None:
        return Decoded(text, "utf-32")
    if not source.data.startswith(_UTF16_MARKS):
        return None
    if (text := _strict(source.data, "utf-16")) is not None:
        return Decoded(text, "utf-16")
    text = source.data.decode("utf-16", "replace")
    return _with_losses(source, text, "utf-16", text.count("\ufffd")) if _share(_is_odd, text) <= _MAX_ODD_GUESS else None


def _declared(source: Source, name: str | None) -> Decoded | None:
    """Decode by the declared encoding, if the bytes fit but for a few. UTF-8 goes first, unless an East Asian encoding is
    declared: text in other encodings is hardly ever valid UTF-8 by chance."""
    codec = declared_codec(name or "")
    if codec is None or codec.startswith("utf"):
        return None
    if codec.startswith("iso2022"):
        return _declared_escapes(source, codec)
    if codec not in _EAST_ASIAN and _strict(source.data, "utf-8") is not None:
        return None
    try:
        text, n_lost, n_whole = _replaced(source.data, codec)
    except (UnicodeError, LookupError):  # LookupError: no encoding of text
        return None
    if not n_lost:
        return Decoded(text, codec)
    few = n_whole > 4 * n_lost if n_lost <= _FEW_LOST else n_whole > _WHOLE_PER_LOST * n_lost
    return _utf8(source) or (_with_losses(source, text, codec, n_lost) if few and 0 not in source.data else None)


def _declared_escapes(source: Source, codec: str) -> Decoded | None:
    """Decode 7-bit text by the declared encoding, or by one with more characters that loses fewer; None without escapes."""
    if b"\x1b" not in source.data or not source.data.isascii():
        return None
    readings = {encoding: _replaced(source.data, encoding) for encoding in (codec, *_ESCAPED_ENCODINGS)}
    best = min(readings, key=lambda encoding: readings[encoding][1])  # of equals the first
    text, n_lost, _ = readings[best]
    return _with_losses(source, text, best, n_lost) if n_lost else Decoded(text, best)


def _utf8(source: Source, *, declared: bool = False) -> Decoded | None:
    """Decode UTF-8 but for a few broken sequences. declared: whether the document says that it is UTF-8."""
    data = source.data
    text = _strict(data, "utf-8-sig")
    if text is not None and (0 not in data or _share(_is_odd, text) <= _MAX_ODD_UTF8):
        return Decoded(text, "utf-8")
    if 0 in data:
        return None
    if (found := _utf8_and_another(source)) is not None:
        return found
    # A few broken sequences among many whole ones (a text cut within a character, two encodings pasted into one file)
    # are still UTF-8: any other reading would spoil all the whole ones.
    text, n_lost, n_whole = _replaced(data, "utf-8-sig")
    few = n_lost <= _FEW_LOST and len(_FAMILIAR.findall(data)) >= 2 * n_lost
    return _with_losses(source, text, "utf-8", n_lost) if few or n_whole > (1 if declared else 4) * n_lost else None


def _utf8_and_another(source: Source) -> Decoded | None:
    """Decode a text whose lines are in UTF-8 or in another encoding, as of two files that were joined; None for other texts."""
    lines = source.data.split(b"\n")
    kinds = Counter(kind for line in lines if (kind := _kind_of(line)))
    others = [line for line in lines if _kind_of(line) == "other"]
    if min(kinds["utf-8"], kinds["other"]) < _FEWEST_LINES or 10 * kinds["both"] > kinds.total():
        return None
    try:
        guess = _guessed(Source(source.path, source.name, b"\n".join(others)))
    except FbragError:
        return None
    found = iter(guess.text.split("\n"))
    text = "\n".join(next(found) if _kind_of(line) == "other" else line.decode("utf-8", "replace") for line in lines)
    what = f"{source.name} has two encodings: {len(others)} lines that are not UTF-8 are read as {guess.encoding}, a guess"
    return Decoded(text.removeprefix("\ufeff"), "utf-8", (f"{what}{_specimen(guess.text)}",))


def _kind_of(line: bytes) -> str:
    """Return "utf-8", "other" for a line without any sequence of UTF-8, "both", or "" for ASCII."""
    if line.isascii():
        return ""
    if _strict(line, "utf-8") is not None:
        return "utf-8"
    return "both" if _SEQUENCE.search(line) else "other"


def _escaped(source: Source) -> Decoded | None:
    """Decode the 7-bit encodings of Japanese and Korean mail, which are valid UTF-8 but make no sense as such."""
    if b"\x1b$" in source.data:
        for encoding in _ESCAPED_ENCODINGS:
            if (text := _strict(source.data, encoding)) is not None:
                return _guess(source, text, encoding)
    return None


def _guessed(source: Source) -> Decoded:
    for encoding in _wide_candidates(source.data) if 0 in source.data else _legacy_candidates(source.data):
        if (text := _strict(source.data, encoding)) is not None:
            return _guess(source, text, encoding)
    raise binary(source)


def _guess(source: Source, text: str, encoding: str) -> Decoded:
    name = codecs.lookup(encoding).name
    warning = f"{source.name} is not UTF-8; read as {name}, a guess{_specimen(text)}: --encoding NAME overrides it"
    return Decoded(text, name, (warning,))


def _legacy_candidates(data: bytes) -> list[str]:
    """Return the encodings without Unicode that `data` may be in, likeliest first; none if it is not text."""
    from charset_normalizer import from_bytes

    sample = _parts_beyond_ascii(data)
    if len(sample.translate(None, _CONTROLS)) < (1 - _MAX_ODD_GUESS) * len(sample):
        return []
    if likeliest := likeliest_east_asian(sample) or likeliest_alphabet(sample):
        return [likeliest, *_LEGACY_ENCODINGS]
    matches = from_bytes(sample, cp_isolation=_LEGACY_ENCODINGS)
    best = matches.best()
    if best is None:  # text, by its lack of controls, but too odd or too short to tell; latin-1 takes every byte
        return [likeliest_latin(sample), "latin-1"]
    is_latin = best.encoding in LATIN_ENCODINGS or (best.encoding in _EAST_ASIAN and mean_run(sample) < _MAX_RUN_LATIN)
    latin = [likeliest_latin(sample)] if is_latin else []
    return [*latin, *(match.encoding for match in matches)]


def _wide_candidates(data: bytes) -> list[str]:
    """Return the forms of UTF-16 and UTF-32 that `data`, which has NULs but no byte order mark, may be in, likeliest first.

    The likeliest has most spaces. ASCII with NULs is UTF-8 too, and as UTF-16 any two letters make a Chinese character: such
    bytes are taken for UTF-16 only where that gives letters of an alphabet.
    """
    is_utf8 = _strict(data, "utf-8") is not None
    spaces = {}
    for encoding in ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be"):
        text = data[:_SAMPLE].decode(encoding, "replace")
        if _share(_is_odd, text) <= _MAX_ODD_GUESS and not (is_utf8 and _share(lambda c: c >= "\u1000", text) > _MAX_ODD_UTF8):
            spaces[encoding] = text.count(" ") + text.count("\n")
    return sorted(spaces, key=lambda encoding: -spaces[encoding])


def _share(belongs: Callable[[str], bool], text: str) -> float:
    """Return the share of the characters of `text` (of its beginning, if it is long) for which `belongs` is true."""
    counts = Counter(text[:_SAMPLE])
    return sum(n for character, n in counts.items() if belongs(character)) / max(1, counts.total())


def _is_odd(character: str) -> bool:
    """Return whether no text has this character: a control, unassigned, private, or the replacement character."""
    if character in "\t\n\v\f\r\x1a\x1b":
        return False
    return character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cn", "Co", "Cs")


def _parts_beyond_ascii(data: bytes) -> bytes:
    """Return the parts of `data` around its bytes beyond ASCII, wherever they are in a long text."""
    parts, size, end = [], 0, 0
    for match in _BEYOND_ASCII.finditer(data):
        part = data[max(end, match.start() - _BEFORE) : match.end()]
        parts.append(part)
        size += len(part)
        end = match.end()
        if size >= _SAMPLE:
            break
    return b"".join(parts)


def _strict(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _replaced(data: bytes, encoding: str) -> tuple[str, int, int]:
    """Return the text with U+FFFD for what is no character, the number of these, and that of the other ones beyond ASCII."""
    text = data.decode(encoding, "replace")
    own = "\ufffd".encode(encoding.removesuffix("-sig"), "ignore")  # the text itself may have some
    n_lost = text.count("\ufffd") - (data.count(own) if own else 0)
    return text, n_lost, len(text) - len(text.encode("ascii", "ignore")) - n_lost


def _with_losses(source: Source, text: str, encoding: str, n_lost: int) -> Decoded:
    first = 0
    try:
        source.data.decode(encoding)
    except UnicodeDecodeError as error:
        first = error.start
    lost = "1 broken sequence" if n_lost == 1 else f"{n_lost} broken sequences"
    warning = f"{source.name} is {encoding} with {lost}, read as \ufffd; the first is at byte {first}"
    return Decoded(text, encoding, (warning,))


def _specimen(text: str) -> str:
    """Return the first word that depends on the guess, in parentheses: a reader sees at once whether it is right."""
    first = re.search(r"[^\s\x00-\x7f]", text)
    found = first and re.compile(r"\w{0,20}[^\s\x00-\x7f]\w{0,20}").search(text, max(0, first.start() - 20))
    return f" (“{found.group()}”)" if found else ""


def codec_name(name: str, path: str) -> str:
    """Return Python's name of the encoding `name`. path: path of the document, for the error. Raises FbragError usage if there is
    no such encoding."""
    try:
        " ".encode(name)  # a codec from bytes to bytes is found by `lookup`, but not here
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        pass
    known = [each.replace("_", "-") for each in (*aliases, *aliases.values())]
    hint = suggestion(name.lower().replace("_", "-"), known, "for example utf-8, utf-16, cp1252, gb18030, shift_jis")
    raise FbragError("usage", f"--encoding: there is no encoding {name!r}", hint, document=path)


def declared_codec(name: str) -> str | None:
    """Return Python's name of the encoding that a document declares; None if there is no such encoding."""
    try:
        codec = codecs.lookup(_WEB_NAMES.get(name.lower(), name)).name
    except (LookupError, ValueError):
        return None
    return None if codec in _OF_PYTHON else codec
