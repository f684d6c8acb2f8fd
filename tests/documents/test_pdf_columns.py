"""Two columns in PDFs, drawn here by column, as most programs do, and by row across the gutter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fbrag_cli.documents.load import load
from tests.documents.test_pdf import pdf_of_contents, stream

LEFT = """The left column tells of rain that
fell upon the town for many a day,
and of the clerk who wrote it down
in letters which no other man read.
He kept them in a box of oak, and
when the box was full he bought an-
other, and set it beside the first
so that in time the boxes stood up
to the ceiling of his narrow room,
where the rain was heard but faint
and the candle was put out at nine
in winter and at ten in the summer.""".split("\n")
RIGHT = """years later the sun came back to
the town, and the people who lived
in it came out to the market place
and danced there until it was dark.
Only the clerk stayed in his room,
because his letters were not ended
and there was no one else to write
of the sun as he had of the rain a
long time before. The last of them
he sealed on the day of his death,
and it says nothing of the weather
but that it would surely be better.""".split("\n")


def show(x: float, y: float, text: str) -> bytes:
    return b"BT /F1 10 Tf 1 0 0 1 %.1f %.1f Tm (%b) Tj ET" % (x, y, text.encode())


def rows(*columns: tuple[float, Sequence[str]], top: float = 650) -> list[bytes]:
    """The columns' lines, each column at its x, drawn row by row."""
    return [
        show(x, top - 14 * index, lines[index])
        for index in range(max(len(lines) for _, lines in columns))
        for x, lines in columns
        if index < len(lines)
    ]


def text_of(tmp_path: Path, *pieces: bytes) -> str:
    path = tmp_path / "paper.pdf"
    path.write_bytes(pdf_of_contents(stream(b"\n".join(pieces))))
    return load(str(path)).text


IN_ORDER = "\n".join([*LEFT, *RIGHT]).replace("an-\nother,", "another,\n").replace("\n ", "\n")


def test_columns_drawn_one_after_the_other_keep_their_order(tmp_path: Path) -> None:
    pieces = [show(72, 650 - 14 * index, line) for index, line in enumerate(LEFT)]
    pieces += [show(320, 650 - 14 * index, line) for index, line in enumerate(RIGHT)]
    assert text_of(tmp_path, *pieces) == IN_ORDER


def test_columns_drawn_row_by_row_are_read_one_after_the_other(tmp_path: Path) -> None:
    assert text_of(tmp_path, *rows((72, LEFT), (320, RIGHT))) == IN_ORDER


def test_what_stands_above_and_below_the_columns_stays_there(tmp_path: Path) -> None:
    title, foot = "Letters of the rain and of the sun, and of the clerk who wrote them all his life", "continued on the next page"
    pieces = [show(72, 700, title), *rows((72, LEFT), (320, RIGHT)), show(250, 40, foot)]
    assert text_of(tmp_path, *pieces) == f"{title}\n{IN_ORDER}\n{foot}"


def test_a_shorter_right_column_and_indents(tmp_path: Path) -> None:
    pieces = [show(72, 650 - 14 * 0, LEFT[0]), show(330, 650, RIGHT[0]), *rows((72, LEFT[1:]), (320, RIGHT[1:]), top=636)]
    assert text_of(tmp_path, *pieces) == IN_ORDER
    pieces = rows((72, LEFT), (320, RIGHT[:10]))
    assert text_of(tmp_path, *pieces) == IN_ORDER.removesuffix("\n".join(["", *RIGHT[10:]]))


TABLE = [("Smith, John", "Clerk of the court"), ("Brown, Mary", "Keeper of the letters"), ("Jones, Ann", "Maker of candles")] * 5


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([name for name, _ in TABLE], [office for _, office in TABLE]),
        ([f"Item {number} of the list in full words" for number in range(15)], [f"{number}.00" for number in range(15)]),
        (["Words of a cell that fills its whole width now"] * 12, ["Other words of another cell in the next column"] * 12),
        (LEFT[:8], RIGHT[:8]),
    ],
    ids=["names", "prices", "long cells", "few rows"],
)
def test_tables_are_read_row_by_row(tmp_path: Path, left: list[str], right: list[str]) -> None:
    lines = text_of(tmp_path, *rows((72, left), (320, right))).replace("an-\nother,", "another,").split("\n")
    assert lines[0] == f"{left[0]} {right[0]}"
    assert lines[-1] == f"{left[-1]} {right[-1]}"


def test_three_columns_keep_the_order_of_the_file(tmp_path: Path) -> None:
    narrow = [line[:18] for line in LEFT]
    lines = text_of(tmp_path, *rows((60, narrow), (220, narrow), (380, narrow))).split("\n")
    assert lines[0].count(narrow[0].strip()) == 3


def test_a_line_across_the_gutter_amid_the_columns_keeps_the_order_of_the_file(tmp_path: Path) -> None:
    pieces = rows((72, LEFT), (320, RIGHT))
    pieces.insert(12, show(72, 650 - 14 * 5 - 7, "A heading that runs across both of the columns of this page, left to right"))
    assert text_of(tmp_path, *pieces).startswith(f"{LEFT[0]} {RIGHT[0]}")


def test_single_columns_drawn_word_by_word(tmp_path: Path) -> None:
    pieces = []
    for index, line in enumerate(LEFT):
        x = 72.0
        for word in line.split():
            pieces.append(show(x, 650 - 14 * index, word))
            x += 45
    assert text_of(tmp_path, *pieces).startswith("The left column tells of rain that\nfell upon")
