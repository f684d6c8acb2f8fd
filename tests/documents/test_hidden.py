"""What a person does not see of a document, whatever its format."""

from __future__ import annotations

import pytest

from fbrag_cli.documents.hidden import BLACK, WHITE, Color, Look, is_hidden, parse_color

GREEN = Color(0, 128, 0)


@pytest.mark.parametrize(
    "look",
    [
        Look(hidden=True),
        Look(hidden=True, on_picture=True),
        Look(size=0),
        Look(size=0.9, color=BLACK, ground=WHITE),
        Look(color=WHITE, ground=WHITE),
        Look(color=Color(250, 251, 252), ground=WHITE),
        Look(color=Color(4, 4, 4), ground=BLACK),
        Look(color=Color(3, 130, 6), ground=GREEN),
        Look(color=WHITE),  # on what, nobody says
        Look(color=Color(254, 254, 254)),
    ],
)
def test_what_nobody_sees_is_hidden(look: Look) -> None:
    assert is_hidden(look)


@pytest.mark.parametrize(
    "look",
    [
        Look(),
        Look(size=1),
        Look(size=4, color=BLACK),
        Look(color=BLACK),
        Look(color=GREEN),
        Look(color=WHITE, ground=BLACK),
        Look(color=WHITE, ground=GREEN),
        Look(color=WHITE, on_picture=True),
        Look(color=BLACK, ground=Color(40, 40, 40)),
        Look(color=Color(255, 255, 0), ground=WHITE),  # bad to read, but it is read
        Look(color=Color(221, 221, 221), ground=WHITE),  # a watermark
        Look(ground=WHITE),  # "automatic"
    ],
)
def test_what_somebody_sees_is_not_hidden(look: Look) -> None:
    assert not is_hidden(look)


@pytest.mark.parametrize(
    ("written", "color"),
    [
        ("FFFFFF", WHITE),
        ("#fff", WHITE),
        (" #FFFFFFFF ", WHITE),
        ("000", BLACK),
        ("white", WHITE),
        ("Green", GREEN),
        ("rgb(0, 128, 0)", GREEN),
        ("rgb(0 0 0 / 20%)", None),
        ("lab(100% 0 0)", None),
        ("rgba(0,128,0,1)", GREEN),
        ("hsl(120, 100%, 25%)", GREEN),
        ("rgb(999, -5, 0)", Color(255, 0, 0)),
        ("#ffffff80", None),
        ("rgba(255, 255, 255, .5)", None),
        ("transparent", None),
        ("auto", None),
        ("currentColor", None),
        ("", None),
        ("no color", None),
        ("#12345", None),
        ("(" * 1000, None),
    ],
)
def test_colors_are_read_as_documents_write_them(written: str, color: Color | None) -> None:
    assert parse_color(written) == color
