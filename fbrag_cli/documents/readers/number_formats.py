"""Write the numbers of lists and headings as office programs and browsers do: digits, letters, Roman and Chinese numerals."""

from __future__ import annotations

from collections.abc import Callable

_MOST_LETTERS = 30  # of a number: programs show no longer ones, and hostile documents count from 10^9
_MOST_ROMAN = 4999
_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix")),
    *((5, "v"), (4, "iv"), (1, "i")),
)
_LATIN = "abcdefghijklmnopqrstuvwxyz"
_CHINESE = "〇一二三四五六七八九"


def roman(number: int) -> str:
    """Return a number in small Roman numerals, or in digits if it has none."""
    if not 0 < number <= _MOST_ROMAN:
        return str(number)
    written = ""
    for value, letters in _ROMAN:
        written += letters * (number // value)
        number %= value
    return written


def lettered(number: int) -> str:
    """Return a number as a letter, after the last one as "aa", "ab": as browsers count. In digits if it has no letters."""
    if number < 1:
        return str(number)
    written = ""
    while number:
        number, place = divmod(number - 1, len(_LATIN))
        written = _LATIN[place] + written
    return written


def repeated(number: int, alphabet: str = _LATIN) -> str:
    """Return a number as a letter, after the last one as "aa", "bb": as Word counts. In digits if it would be too long."""
    times, place = divmod(number - 1, len(alphabet))
    return alphabet[place] * (times + 1) if 0 <= times < _MOST_LETTERS else str(number)


def ordinal(number: int) -> str:
    """Return an English ordinal number, as "2nd"."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def chinese(number: int) -> str:
    """Return a number in Chinese numerals, as "二十一"; in digits from 100."""
    if not 0 <= number < 100:
        return str(number)
    tens, ones = divmod(number, 10)
    if not tens:
        return _CHINESE[ones]
    return ("" if tens == 1 else _CHINESE[tens]) + "十" + (_CHINESE[ones] if ones else "")


def upper(write: Callable[[int], str]) -> Callable[[int], str]:
    """Return `write` with capital letters."""
    return lambda number: write(number).upper()
