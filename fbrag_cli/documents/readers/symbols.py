"""Translate the characters of symbol fonts (Symbol, Wingdings), which office programs store as numbers of their glyphs."""

from __future__ import annotations

import re

_SYMBOL = (
    " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼",
    "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪",
    "〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭",
)
_STARTS = (0x20, 0xA0, 0xF1)
_FONTS = {
    "symbol": {start + place: letter for start, row in zip(_STARTS, _SYMBOL, strict=True) for place, letter in enumerate(row)},
    "wingdings": {
        **{0x28: "☎", 0x2A: "✉", 0x46: "☞", 0x4A: "☺", 0x4C: "☹", 0x6C: "●", 0x6E: "■", 0x6F: "☐", 0x71: "❑", 0x72: "❒"},
        **{0x75: "◆", 0x76: "❖", 0x78: "☒", 0x9F: "•", 0xA7: "▪", 0xA8: "☐", 0xD8: "➢", 0xDF: "←", 0xE0: "→", 0xE1: "↑"},
        **{0xE2: "↓", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑"},
    },
    "wingdings 2": {0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0x54: "☒", 0x97: "●", 0xA3: "☐"},
    "wingdings 3": {0x22: "↔", 0x66: "←", 0x67: "→", 0x68: "↑", 0x69: "↓", 0x7D: "▶"},
}
_PRIVATE = 0xF000  # where Unicode texts keep the glyphs
_GLYPH = re.compile("[\uf001-\uf0ff]")
_UNKNOWN = "•"  # decoration in the other places


def symbol(font: str, number: int) -> str:
    """Return the character of glyph `number` (or _PRIVATE + number) in a symbol font; of another font, the character as it is."""
    table = _FONTS.get(font.lower())
    if _PRIVATE < number <= _PRIVATE + 0xFF:
        return (_FONTS["symbol"] if table is None else table).get(number - _PRIVATE, _UNKNOWN)
    if table is not None and number <= 0xFF:
        return table.get(number, _UNKNOWN)
    return chr(number) if 0x20 <= number < 0xD800 or 0xE000 <= number < 0x110000 else ""


def without_glyphs(text: str, font: str) -> str:
    """Replace the glyphs of symbol fonts in a text. font: font of the text; "" if unknown."""
    return text if text.isascii() else _GLYPH.sub(lambda found: symbol(font, ord(found[0])), text)
