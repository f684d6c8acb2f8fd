from __future__ import annotations

from fbrag_cli.text.table import align_columns, shorten


def test_columns_are_aligned_by_the_width_that_a_terminal_gives_them() -> None:
    assert list(align_columns([("NAME", "N"), ("长文本", "10"), ("é", "7")], right={1})) == [
        "NAME     N",
        "长文本  10",
        "é        7",
    ]


def test_a_control_character_is_shown_and_takes_a_column() -> None:
    assert list(align_columns([("a\x1b", "x"), ("abc", "")])) == ["a␛   x", "abc"]


def test_no_rows_are_no_lines() -> None:
    assert list(align_columns([])) == []


def test_a_cell_is_one_line() -> None:
    assert list(align_columns([("a\nb", "x"), ("c\td", "y")], gap=1)) == ["a b x", "c d y"]


def test_a_text_is_cut_to_columns_at_its_end_or_its_start() -> None:
    assert shorten("abcdef", 6) == "abcdef"
    assert (shorten("abcdef", 4), shorten("abcdef", 4, at_start=True)) == ("abc…", "…def")
    assert (shorten("长文本长", 6), shorten("长文本长", 6, at_start=True)) == ("长文…", "…本长")
    assert shorten("ab cd", 4) == "ab…"
