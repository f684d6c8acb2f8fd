"""Text of PDFs in the order of the page: columns, line numbers, initials."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from fbrag_cli.documents.load import load
from tests.documents.test_pdf import pdf_of_contents, stream, written

Piece = tuple[float, float, float, str]  # left edge, baseline, size, text

# Helvetica's widths of the signs that are used here, in thousandths.
WIDTHS = (
    dict.fromkeys("abdeghnopqu", 556)
    | dict.fromkeys("ckvxsyz", 500)
    | dict.fromkeys("iljt", 232)
    | {"f": 278, "r": 333, "m": 833, "w": 722}
)
WORDS = (
    "the harbor office keeps all letters of that year in one iron chest which nobody opens before the council has met and the "
    "clerk who wrote them is asked to come down from the hill with his book and lamp"
).split()


def width(text: str, size: float) -> float:
    return sum(WIDTHS.get(sign, 278 if sign in " .,'" else 556) for sign in text) * size / 1000


def prose(seed: int, columns: float, n: int, size: float = 10) -> list[str]:
    """Return lines of sentences that fill a column."""
    drawn = random.Random(seed)
    lines, line, begins = [], "", True
    while len(lines) < n:
        word = drawn.choice(WORDS)
        word = word.capitalize() if begins else word
        begins = drawn.random() < 0.1
        word += "." if begins else ""
        if width(f"{line} {word}", size) > columns:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return lines


def pieces(lines: Iterable[str], left: float, top: float, size: float = 10, step: float = 12.5) -> list[Piece]:
    return [(left, top - step * number, size, line) for number, line in enumerate(lines) if line]


def read(tmp_path: Path, *pages: Sequence[Piece]) -> list[str]:
    drawn = (
        b"\n".join(b"BT /F1 %g Tf 1 0 0 1 %g %g Tm (%b) Tj ET" % (size, x, y, text.encode("cp1252")) for x, y, size, text in page)
        for page in pages
    )
    return load(written(tmp_path, pdf_of_contents(*map(stream, drawn)))).text.split("\n")


def row_by_row(*columns: Sequence[Piece]) -> list[Piece]:
    """Return pieces as a program draws them that goes down the page in all columns at once."""
    return sorted((piece for column in columns for piece in column), key=lambda piece: (-piece[1], piece[0]))


LEFT, RIGHT = prose(1, 220, 30), prose(2, 220, 30)


@pytest.mark.parametrize("shift", [0, 4])
def test_columns_that_are_drawn_row_by_row(tmp_path: Path, shift: float) -> None:
    columns = pieces(LEFT, 60, 700), pieces(RIGHT, 305, 700 - shift)
    title, footer = pieces(["Harbor News, May"], 200, 750, 16), pieces(["The end of the page"], 250, 40, 9)
    assert read(tmp_path, [*title, *row_by_row(*columns), *footer]) == [title[0][3], *LEFT, *RIGHT, footer[0][3]]


def test_three_columns_of_unlike_length_below_headings(tmp_path: Path) -> None:
    texts = [["Works", *prose(3, 150, 25)], ["The regatta", *prose(4, 150, 25)], ["Dogs", *prose(5, 150, 9)]]
    columns = [pieces(text, 40 + 175 * at, 700) for at, text in enumerate(texts)]
    assert read(tmp_path, row_by_row(*columns)) == [line for text in texts for line in text]


def test_a_picture_across_with_a_caption_ends_the_columns_above(tmp_path: Path) -> None:
    parts = [
        pieces(LEFT[:10], 60, 700),
        pieces(RIGHT[:10], 305, 700),
        pieces(LEFT[10:20], 60, 320),
        pieces(RIGHT[10:20], 305, 320),
    ]
    caption = pieces(
        ["Figure 3: what the harbor office keeps in the chest that nobody opens before the council has met"], 70, 360, 9
    )
    expected = [*LEFT[:10], *RIGHT[:10], caption[0][3], *LEFT[10:20], *RIGHT[10:20]]
    assert read(tmp_path, row_by_row(*parts, caption)) == expected


def test_columns_with_a_table_above(tmp_path: Path) -> None:
    table = [
        (left, 720 - 14.0 * number, 10.0, cell)
        for number, cells in enumerate(
            [["Berth", "Length", "Depth", "Owner"], *([f"B{n}", f"{n}0", "4", "Pell"] for n in range(8))]
        )
        for left, cell in zip((60, 180, 300, 420), cells, strict=True)
    ]
    lines = read(tmp_path, [*table, *row_by_row(pieces(LEFT, 60, 560), pieces(RIGHT, 305, 560))])
    assert lines[:2] == ["Berth\tLength\tDepth\tOwner", "B0\t00\t4\tPell"]
    assert lines[9:] == [*LEFT, *RIGHT]


def test_the_order_of_the_file_stays_without_columns_and_with_columns_that_follow_each_other(tmp_path: Path) -> None:
    assert read(tmp_path, pieces(prose(6, 460, 40), 60, 740)) == prose(6, 460, 40)
    assert read(tmp_path, [*pieces(RIGHT, 305, 700), *pieces(LEFT, 60, 700)]) == [*RIGHT, *LEFT]


@pytest.mark.parametrize(
    ("lefts", "rows"),
    [
        ((60, 200), [["Name of owner", "Pell"], ["Date of birth", "4 May 1961"], ["Street and town", "Mole 4, Tornby"]] * 5),
        ((60, 330), [[f"Lamp oil for berth {n}", f"{n}1.50"] for n in range(12)]),
        ((60, 90), [[f"{n}.", "the harbor office keeps letters in a chest"] for n in range(1, 12)]),
        ((60, 300, 420), [["the harbor office of the town", f"{n}12", "the clerk"] for n in range(10)]),
    ],
    ids=["form", "prices", "list", "table"],
)
def test_rows_stay_rows(tmp_path: Path, lefts: Sequence[float], rows: list[list[str]]) -> None:
    page = [(left, 700 - 14.0 * at, 10.0, cell) for at, row in enumerate(rows) for left, cell in zip(lefts, row, strict=True)]
    assert [line.replace("\t", " ") for line in read(tmp_path, page)] == [" ".join(row) for row in rows]


# -- line numbers -------------------------------------------------------------------------------------------------------------


def numbered(lines: Sequence[str], first: int, step: int, left: float, *, apart: bool = False) -> list[Piece]:
    """Return lines with a number at each `step`th."""
    text = pieces(lines, 100, 720, 11, 24)
    numbers = [
        (left - width(str(number), 11), y, 11.0, str(number))
        for number, (_, y, _, _) in enumerate(text, first)
        if number % step == 0
    ]
    return [*numbers, *text] if apart else row_by_row(numbers, text)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("left", [80, 575])
@pytest.mark.parametrize(("first", "step"), [(1, 1), (26, 1), (1, 5), (9998, 1)])
def test_line_numbers_in_a_margin_are_left_out(tmp_path: Path, first: int, step: int, left: float, apart: bool) -> None:
    lines = prose(7, 420, 26, 11)
    assert read(tmp_path, numbered(lines, first, step, left, apart=apart)) == lines


def test_words_are_joined_across_lines_with_numbers(tmp_path: Path) -> None:
    lines = prose(8, 420, 25, 11)
    lines[3] += " con-"
    lines[4] = "veyance " + lines[4][:50]
    assert "conveyance" in read(tmp_path, numbered(lines, 1, 1, 80))[3]


NO_LINE_NUMBERS = {
    "a list": [(str(n), f"{word.capitalize()} of the harbor office") for n, word in enumerate(WORDS[:12], 1)],
    "a table": [(str(n), f"{word.capitalize()} 4.50") for n, word in enumerate(WORDS[:12], 1)],
    "years": [(str(1990 + n), line.capitalize()) for n, line in enumerate(prose(9, 420, 12, 11))],
    "verses": [(str(n) if n in (1, 4, 5, 9, 11) else "", line) for n, line in enumerate(prose(10, 420, 12, 11), 1)],
    "four lines": [(str(n), line) for n, line in enumerate(prose(11, 420, 4, 11), 1)],
    "numbers that fall": [(str(20 - n), line) for n, line in enumerate(prose(12, 420, 12, 11))],
    "a poem": [(str(n) if n % 5 == 0 else "", " ".join(WORDS[n : n + 5]).capitalize()) for n in range(1, 31)],
}


@pytest.mark.parametrize("kind", NO_LINE_NUMBERS)
def test_numbers_that_do_not_count_lines_of_prose_stay(tmp_path: Path, kind: str) -> None:
    rows = NO_LINE_NUMBERS[kind]
    page = row_by_row(pieces([n for n, _ in rows], 70, 720, 11, 20), pieces([text for _, text in rows], 110, 720, 11, 20))
    assert " ".join(read(tmp_path, page)).split() == " ".join(f"{n} {text}" for n, text in rows).split()


# -- initials -----------------------------------------------------------------------------------------------------------------


def with_initial(letter: str, rest: str, *, size: float = 44, after: bool = False, n: int = 3) -> list[Piece]:
    indent = width(letter, size) + 6
    lines = [rest, *prose(13, 250, 8, 11)]
    text = [(60 + (indent if at < n else 0), 700 - 15.0 * at, 11.0, line) for at, line in enumerate(lines)]
    initial = (60.0, 700 - 15.0 * (n - 1), size, letter)
    return [*text, initial] if after else [initial, *text]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("letter", "rest", "whole"),
    [
        ("B", "arnaby Voss founded it", "Barnaby Voss founded it"),
        ("C", "obalt came from Saxony", "Cobalt came from Saxony"),
        ("T", "HE works made tiles", "THE works made tiles"),
        ("\xc9", "lise a parti", "\xc9lise a parti"),
        ("A", "clerk keeps the clerk on the hill", "A clerk keeps the clerk on the hill"),
        ("A", "t the harbor", "At the harbor"),
    ],
)
def test_an_initial_is_read_with_its_word(tmp_path: Path, letter: str, rest: str, whole: str, after: bool) -> None:
    lines = read(tmp_path, with_initial(letter, rest, after=after))
    assert lines == [whole, *prose(13, 250, 8, 11)]


def test_an_initial_of_two_lines_and_a_quotation_mark(tmp_path: Path) -> None:
    assert read(tmp_path, with_initial('"W', "e keep it", size=30, n=2))[0] == '"We keep it'


@pytest.mark.parametrize(
    "page",
    [
        [(60, 740, 30, "A"), *pieces(prose(14, 400, 6), 60, 700)],
        [(60, 700, 30, "B"), *pieces(prose(14, 300, 6), 160, 700)],
        [(60, 690, 12, "C"), *pieces(prose(14, 300, 6), 72, 700)],
    ],
    ids=["a heading", "far away", "a small letter"],
)
def test_a_letter_that_begins_no_paragraph(tmp_path: Path, page: Sequence[Piece]) -> None:
    text = prose(14, 400 if page[0][1] == 740 else 300, 6)
    assert not any(page[0][3] + text[0] in line for line in read(tmp_path, page))
