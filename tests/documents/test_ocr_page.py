"""What OCR has read becomes the lines of a page: rows, columns, turned and skewed pages, and spaces that the engine loses."""

from __future__ import annotations

from math import cos, radians, sin

import pytest

from fbrag_cli.documents.ocr.engine import OcrLine
from fbrag_cli.documents.ocr.page import OcrPage
from fbrag_cli.documents.pdf.columns import with_columns

WIDTH, HEIGHT = 600.0, 800.0
Placed = tuple[str, float, float, float]  # text, left, top, width


def page(*lines: Placed, score: float = 0.99, turn: int = 0, degrees: float = 0.0) -> OcrPage:
    """Lines of 13 points, whose boxes have 16, on a page that was scanned turned by quarters, clockwise, and by some degrees."""
    return OcrPage.of([OcrLine(text, score, corners(*at, turn, degrees)) for text, *at in lines], *size(turn), -turn % 4)


def size(turn: int) -> tuple[float, float]:
    return (WIDTH, HEIGHT) if turn % 2 == 0 else (HEIGHT, WIDTH)


def corners(left: float, top: float, width: float, turn: int, degrees: float) -> tuple[float, ...]:
    points = [(left, top), (left + width, top), (left + width, top + 16), (left, top + 16)]
    angle = radians(degrees)
    found: list[float] = []
    for x, y in points:
        x, y = x - WIDTH / 2, y - HEIGHT / 2
        x, y = x * cos(angle) - y * sin(angle) + WIDTH / 2, x * sin(angle) + y * cos(angle) + HEIGHT / 2
        found += ((x, y), (HEIGHT - y, x), (WIDTH - x, HEIGHT - y), (y, WIDTH - x))[turn]
    return tuple(found)


PROSE = [(f"Line {i} of the left column, which ends", 50.0, 60.0 + 20 * i, 230.0) for i in range(12)]
PROSE += [(f"Line {i} of the right column, which ends", 320.0, 60.0 + 20 * i, 230.0) for i in range(12)]
IN_ORDER = tuple(f"Line {i} of the {side} column, which ends" for side in ("left", "right") for i in range(12))


@pytest.mark.parametrize("turn", range(4))
@pytest.mark.parametrize("degrees", [0.0, 1.5, -1.5])
def test_columns_are_read_one_after_the_other(turn: int, degrees: float) -> None:
    assert page(*sorted(PROSE, key=lambda line: line[2]), turn=turn, degrees=degrees).page_lines().lines == IN_ORDER


@pytest.mark.parametrize("n", [5, 10])
def test_columns_of_short_lines_that_are_far_apart_are_columns(n: int) -> None:
    texts = ["never see a fault in anybody, she", "says to her sister, who is older"]
    lines = [(f"{i} {text}", 50.0 + 240 * at, 60.0 + 28 * i, 220.0) for i in range(n) for at, text in enumerate(texts)]
    in_order = [f"{i} {text}" for text in texts for i in range(n)]
    assert list(page(*lines).page_lines().lines) == in_order


@pytest.mark.parametrize("degrees", [0.0, 1.0])
def test_a_table_has_its_columns(degrees: float) -> None:
    rows = [("Item", "Quantity", "Price"), *((f"Rope {i}", f"{i}", f"{i}.50") for i in range(10, 16))]
    cells = [(text, 50.0 + 180 * at, 60.0 + 24 * row, 60.0) for row, texts in enumerate(rows) for at, text in enumerate(texts)]
    (written,) = with_columns([page(*cells, degrees=degrees).page_lines()])
    assert written.lines == tuple("\t".join(row) for row in rows)


def test_parts_of_a_line_are_one_line() -> None:
    parts = [("passed by the gate", 160.0, 61.0, 120.0), ("In Meryton they", 50.0, 60.0, 105.0)]
    assert page(*parts).page_lines().lines == ("In Meryton they passed by the gate",)


@pytest.mark.parametrize(
    ("read", "meant"),
    [
        ("held her in contempt for it.She was", "held her in contempt for it. She was"),
        ("in1846 and the2001 census", "in 1846 and the 2001 census"),
        ("on 14August", "on 14 August"),
        *(
            (text, text)
            for text in (
                "www.example.com",
                "U.S.Army",
                "ISO9001",
                "a 3D film",
                "the 2nd",
                "3.5 m",
                "e.g.The",
                "item1234x",
                "12kg",
            )
        ),
    ],
)
def test_spaces_that_the_engine_loses(read: str, meant: str) -> None:
    assert page((read, 50.0, 60.0, 300.0)).page_lines().lines == (meant,)


def test_lines_that_cannot_be_made_out_are_dropped_and_counted() -> None:
    lines = [OcrLine(text, score, corners(50, 60, 200, 0, 0)) for text, score in (("clear", 0.99), ("§%&", 0.3), ("/|", 0.2))]
    found = OcrPage.of(lines, WIDTH, HEIGHT, 0)
    assert ([line.text for line in found.lines], found.n_dropped, found.is_poor) == (["clear"], 2, True)


@pytest.mark.parametrize(("score", "is_poor"), [(0.99, False), (0.97, False), (0.95, True)])
def test_a_low_score_is_a_poor_page(score: float, is_poor: bool) -> None:
    assert page(*PROSE, score=score).is_poor == is_poor


def test_it_is_the_same_from_the_cache() -> None:
    first = page(*PROSE, turn=1, degrees=0.5)
    again = OcrPage.from_json(first.as_json())
    assert again.page_lines().lines == first.page_lines().lines
    assert (again.turn, again.n_dropped, again.width) == (first.turn, first.n_dropped, first.width)
