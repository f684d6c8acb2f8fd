from __future__ import annotations

from fbrag_cli.text.table import aligned, shortened


def test_columns_are_aligned_by_the_width_that_a_terminal_gives_them() -> None:
    assert list(aligned([("NAME", "N"), ("长文本", "10"), ("é", "7")], right={1})) == ["NAME     N", "长文本  10", "é        7"]


def test_a_control_character_is_shown_and_takes_a_column() -> None:
    assert list(aligned([("a\x1b", "x"), ("abc", "")])) == ["a␛   x", "abc"]


def test_no_rows_are_no_lines() -> None:
    assert list(aligned([])) == []


def test_a_cell_is_one_line() -> None:
    assert list(aligned([("a\nb", "x"), ("c\td", "y")], gap=1)) == ["a b x", "c d y"]


def test_a_text_is_cut_to_columns_at_its_end_or_its_start() -> None:
    assert shortened("abcdef", 6) == "abcdef"
    assert (shortened("abcdef", 4), shortened("abcdef", 4, at_start=True)) == ("abc…", "…def")
    assert (shortened("长文本长", 6), shortened("长文本长", 6, at_start=True)) == ("长文…", "…本长")
    assert shortened("ab cd", 4) == "ab…"
