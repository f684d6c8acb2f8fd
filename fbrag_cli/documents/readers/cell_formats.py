"""Write the values of a workbook's cells as their formats show them: 00417, 12.5 kg, CHF 318.40, 2.5%, in stock.

Decimal points, thousands and the names of months are the English ones. Dates in the reader's own form, which a workbook leaves to
the program that shows it, are written as 2024-05-17.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

_DATE, _DATE_AND_TIME = "yyyy-mm-dd", "yyyy-mm-dd hh:mm"
_ACCOUNT = '_(* #,##0{0}_);_(* \\(#,##0{0}\\);_(* "-"_);_(@_)'
#: The formats that a workbook names by number alone.
BUILT_IN = {
    **{1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?", 13: "# ??/??"},
    **{5: "$#,##0", 6: "$#,##0", 7: "$#,##0.00", 8: "$#,##0.00", 14: _DATE, 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy"},
    **{18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: _DATE_AND_TIME},
    **dict.fromkeys((*range(27, 32), 36, *range(50, 55), 57, 58), _DATE),
    **{37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)", 39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;(#,##0.00)"},
    **{41: _ACCOUNT.format(""), 42: _ACCOUNT.format(""), 43: _ACCOUNT.format(".00"), 44: _ACCOUNT.format(".00")},
    **{45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0", 48: "##0.0E+0", 49: "@"},
}
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|_.|(?P<fill>\*).|\[(?P<bracket>[^\]]*)\]|(?P<general>General)|(?P<half>AM/PM|A/P)'
    r"|(?P<time>y+|m+|d+|h+|s+(?:\.0+)?|e(?![+-]))|(?P<power>E[+-])|(?P<place>[0#?])|(?P<sign>[.,%/@])|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?\d+(?:\.\d*)?)")
_COMPARE = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "=": operator.eq, "<>": operator.ne}
_LONGEST = 255  # characters of a format, as in Excel
_LARGEST = 1e20  # a larger number has more digits than it keeps
_MONTHS = "January February March April May June July August September October November December".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_EXACT_INTEGERS = 2**53  # below, a float holds every integer
_HALF_SECOND = timedelta(milliseconds=500)
_BASE, _BASE_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)


class _Section(NamedTuple):
    """A part of a format between semicolons. tokens: kind and text of each. condition: comparison and number, or None."""

    tokens: tuple[tuple[str, str], ...]
    condition: tuple[str, float] | None = None

    def has(self, *kinds: str) -> bool:
        return any(kind in kinds for kind, _ in self.tokens)


def shown(value: float, code: str, *, from_1904: bool = False) -> str:
    """Return a number as a format shows it. from_1904: whether days are counted from 1904. "" for what the format hides."""
    if code == "General" or not abs(value) <= _LARGEST:
        return written(value)
    section, is_negative = _section_of(value, _sections(code[:_LONGEST]))
    if section is None or section.has("general"):
        around = ["".join(text for kind, text in part if kind == "text") for part in _around(section)]
        return " ".join(written(value).join(around).split())
    if section.has("time", "elapsed"):
        with suppress(OverflowError, ValueError):
            return " ".join(_time(value, section.tokens, from_1904).split())
        return written(value)
    sign = "-" if is_negative else ""
    if not section.has("place"):
        text = "".join(text for kind, text in section.tokens if kind == "text" or (kind == "sign" and text in "%/."))
        return " ".join((sign * bool(text.strip()) + text).split()) if not section.has("@") else sign + written(abs(value))
    with suppress(ArithmeticError):  # of more places than a number has
        return " ".join((sign + _number(abs(value), section.tokens)).split())
    return written(value)


def shown_text(text: str, code: str) -> str:
    """Return a text as a format shows it, whose fourth part it is."""
    sections = _sections(code[:_LONGEST])
    section = sections[3] if len(sections) > 3 else next((each for each in sections if each.has("@")), None)
    return text if section is None else "".join(text if kind == "@" else each for kind, each in section.tokens)


@lru_cache(maxsize=4096)
def _sections(code: str) -> tuple[_Section, ...]:
    """Return the parts of a format. Colors, languages and the widths of spaces are left out."""
    sections: list[list[tuple[str, str]]] = [[]]
    conditions: list[tuple[str, float] | None] = [None]
    for found in _TOKEN.finditer(code):
        kind, text = found.lastgroup or "", found[found.lastgroup] if found.lastgroup else ""
        match kind:
            case "bracket" if text.startswith("$"):
                code_of_language = text.partition("-")[2].upper()
                if code_of_language.startswith(("F800", "F400")):  # the reader's own long date, or time
                    return _sections(_DATE if code_of_language.startswith("F8") else "hh:mm:ss")
                sections[-1].append(("text", text[1:].partition("-")[0]))
            case "bracket" if (condition := _CONDITION.fullmatch(text.strip())) is not None:
                conditions[-1] = condition[1], float(condition[2])
            case "bracket" if text and text.lower() in ("h", "hh", "m", "mm", "s", "ss"):
                sections[-1].append(("elapsed", text.lower()))
            case "fill" | "":
                sections[-1].append(("text", " "))
            case "other" if text == ";":
                sections.append([])
                conditions.append(None)
            case "bracket":
                pass
            case "sign" if text == "@":
                sections[-1].append(("@", text))
            case "quoted" | "escaped" | "other":
                sections[-1].append(("text", text))
            case _:
                sections[-1].append((kind, text.lower() if kind == "time" else text))
    return tuple(_Section(tuple(tokens), condition) for tokens, condition in zip(sections, conditions, strict=True))


def _section_of(value: float, sections: Sequence[_Section]) -> tuple[_Section | None, bool]:
    """Return the part of a format that shows a number, None for none, and whether a minus sign is before it."""
    numeric = sections[:3]
    if any(each.condition for each in numeric):
        for at, section in enumerate(numeric):
            if section.condition is None and (at == len(numeric) - 1 or value >= 0):
                return section, value < 0
            if section.condition is not None and _COMPARE[section.condition[0]](value, section.condition[1]):
                return section, value < 0 and not (section.condition[0] in ("<", "<=") and section.condition[1] <= 0)
        return None, False
    if len(numeric) == 1 or value > 0 or (value == 0 and len(numeric) < 3):
        return numeric[0], value < 0
    return numeric[1 if value < 0 else 2], False


def _around(section: _Section | None) -> list[list[tuple[str, str]]]:
    """Return the tokens before and after "General"."""
    tokens = list(section.tokens) if section is not None else []
    at = next((at for at, (kind, _) in enumerate(tokens) if kind == "general"), len(tokens))
    return [tokens[:at], tokens[at + 1 :]]


def _number(value: float, tokens: Sequence[tuple[str, str]]) -> str:
    """Return a number, not negative, in the places of a format."""
    places = [at for at, (kind, _) in enumerate(tokens) if kind == "place"]
    signs = {at: text for at, (kind, text) in enumerate(tokens) if kind == "sign"}
    slash = next((at for at, text in signs.items() if text == "/" and places[0] < at < places[-1]), None)
    if slash is not None:
        return _fraction(value, tokens, slash)
    power = next((at for at, (kind, _) in enumerate(tokens) if kind == "power"), len(tokens))
    point = next((at for at, text in signs.items() if text == "." and at < power), power)
    whole = [at for at in places if at < point]
    decimals = [at for at in places if point < at < power]
    last = max((at for at in places if at < power), default=-1)
    number = Decimal(format(value, ".15g")) * 100 ** sum(text == "%" for text in signs.values())
    for at in range(last + 1, min(point if last < point else power, len(tokens))):
        if signs.get(at) != ",":
            break
        number /= 1000
    if whole and decimals:  # thousands above the point, as "0,.0"
        for at in range(whole[-1] + 1, point):
            number /= 1000 if signs.get(at) == "," else 1
    exponent = 0
    if power < len(tokens):
        exponent = number.adjusted() - len(whole) + 1 if number else 0
        exponent -= exponent % len(whole) if len(whole) > 1 else 0
        number = number.scaleb(-exponent)
    rounded = number.quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP)
    digits, _, after = format(rounded, "f").partition(".")
    digits = "" if digits == "0" else digits
    has_thousands = any(text == "," and whole and whole[0] < at < whole[-1] for at, text in signs.items())
    filled = _filled(digits, [tokens[at][1] for at in whole], has_thousands)
    kept = len(after)
    while kept and tokens[decimals[kept - 1]][1] != "0" and after[kept - 1] == "0":
        kept -= 1
    made = dict(zip(whole, filled, strict=True)) | dict(zip(decimals, after[:kept], strict=False))
    if power < len(tokens):
        exponents = [at for at in places if at > power]
        made |= dict(
            zip(
                exponents,
                _filled(str(abs(exponent)).strip("0") and str(abs(exponent)), [tokens[at][1] for at in exponents], False),
                strict=True,
            )
        )
        made[power] = "E" + ("-" if exponent < 0 else "+" if "+" in tokens[power][1] else "")
    if point < power and kept:
        made[point] = "."
    if not whole and point < power:
        made[point] = digits + made.get(point, "")
    made |= {at: "%" for at, text in signs.items() if text == "%"}
    return "".join(made.get(at, text if kind == "text" else "") for at, (kind, text) in enumerate(tokens))


def _filled(digits: str, places: Sequence[str], has_thousands: bool) -> list[str]:
    """Return what is in each place of a whole number: a digit, in the first place all that are left, a zero, or nothing."""
    first = next((at for at, place in enumerate(places) if place == "0"), len(places))
    digits = digits.rjust(len(places) - first, "0")
    if len(digits) < len(places):
        digits = digits.rjust(len(places))
    cut = len(digits) - len(places) + 1
    cells = [digits[:cut], *digits[cut:]] if places else []
    if not has_thousands:
        return [cell.strip() for cell in cells]
    grouped, n_right = [], 0
    for cell in reversed(cells):
        made = ""
        for digit in reversed(cell.strip()):
            made = digit + ("," if n_right and n_right % 3 == 0 else "") + made
            n_right += 1
        grouped.append(made)
    return grouped[::-1]


def _fraction(value: float, tokens: Sequence[tuple[str, str]], slash: int) -> str:
    """Return a number as a fraction: 2 1/2."""
    below = "".join(text for kind, text in tokens[slash:] if kind == "place" or (kind == "text" and text.isdecimal()))
    has_whole = any(kind == "text" and tokens[at - 1][0] == "place" for at, (kind, _) in enumerate(tokens[:slash]) if at)
    fraction = Fraction(value).limit_denominator(10 ** min(len(below), 4) - 1 or 1)
    whole, rest = divmod(fraction, 1) if has_whole else (0, fraction)
    parts = [str(whole)] if whole or not rest else []
    return " ".join([*parts, *([f"{rest.numerator}/{rest.denominator}"] if rest else [])])


def _time(value: float, tokens: Sequence[tuple[str, str]], from_1904: bool) -> str:
    """Return a number of days as a date, a time, or a time that has passed. Raises OverflowError or ValueError for no date."""
    times = [(at, text) for at, (kind, text) in enumerate(tokens) if kind in ("time", "elapsed")]
    parts = max((len(text.partition(".")[2]) for _, text in times), default=0)
    sign = "-" if value < 0 and any(kind == "elapsed" for kind, _ in tokens) else ""
    if value < 0 and not sign:
        raise ValueError("a day before the first")
    seconds = round(abs(value) * 86_400, parts)
    days, of_day = divmod(seconds, 86_400)
    hours, minutes, whole = int(of_day // 3600), int(of_day % 3600 // 60), of_day % 60
    day = (_BASE_1904 if from_1904 else _BASE) + timedelta(days=int(days) + (not from_1904 and 0 < days < 60))
    has_half = any(kind == "half" for kind, _ in tokens)
    made = ""
    for at, (kind, text) in enumerate(tokens):
        before = next((each[0] for place, each in reversed(times) if place < at), "")
        after = next((each[0] for place, each in times if place > at), "")
        match kind, text[:1]:
            case "elapsed", unit:
                made += f"{int(seconds // {'h': 3600, 'm': 60, 's': 1}[unit]):0{len(text)}}"
            case "half", _:
                made += ("AM" if hours < 12 else "PM")[: 2 if len(text) > 3 else 1]
            case "time", "y" | "e":
                made += f"{day.year % 100:02}" if text in ("y", "yy") else str(day.year)
            case "time", "m" if before == "h" or after == "s":
                made += f"{minutes:0{len(text)}}"
            case "time", "m":
                made += f"{day.month:0{len(text)}}" if len(text) < 3 else _name(_MONTHS[day.month - 1], text)
            case "time", "d":
                made += f"{day.day:0{len(text)}}" if len(text) < 3 else _name(_DAYS[day.weekday()], text)
            case "time", "h":
                made += f"{(hours % 12 or 12) if has_half else hours:0{min(len(text), 2)}}"
            case "time", "s":
                width = min(len(text.partition(".")[0]), 2)
                made += f"{whole:0{width + parts + 1}.{parts}f}" if "." in text else f"{int(whole):0{width}}"
            case _:
                made += text if kind in ("text", "sign") else ""
    return sign + made


def _name(name: str, text: str) -> str:
    return name if len(text) == 4 else name[:1] if len(text) > 4 else name[:3]


def written(value: object) -> str:
    """Return a cell's value, of which no format is known, as a person writes it: 3, 0.25, 2024-05-17, 14:30, TRUE."""
    match value:
        case str():
            return " ".join(value.split())
        case bool():
            return str(value).upper()
        case int() | float():
            whole = float(value).is_integer() and abs(value) < _EXACT_INTEGERS
            return str(int(value)) if whole else format(value, ".15g")  # 0.1 + 0.2 is 0.3
        case datetime():
            with suppress(OverflowError):  # in the last half second of the year 9999
                value += _HALF_SECOND
            value = value.replace(microsecond=0)
            return value.isoformat(" ", "seconds" if value.second else "minutes")
        case date():
            return value.isoformat()
        case time():
            return value.isoformat("seconds" if value.second else "minutes")
        case timedelta():
            minutes, seconds = divmod(abs(round(value.total_seconds())), 60)
            sign = "-" if value < timedelta() else ""
            return f"{sign}{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")
    return str(value)
