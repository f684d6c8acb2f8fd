"""Names of encodings, as users and documents write them, become those of Python's codecs."""

from __future__ import annotations

import codecs
from encodings.aliases import aliases

from fbrag_cli.errors import FbragError
from fbrag_cli.text.near import suggestion

# On the web, some names stand for a larger encoding (WHATWG, Encoding).
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
