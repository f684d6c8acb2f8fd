from __future__ import annotations

from fbrag_cli.text.table import aligned


def test_columns_are_aligned_by_the_width_that_a_terminal_gives_them() -> None:
    assert list(aligned([("NAME", "N"), ("长文本", "10"), ("é", "7")], right={1})) == ["NAME     N", "长文本  10", "é        7"]


def test_a_control_character_is_shown_and_takes_a_column() -> None:
    assert list(aligned([("a\x1b", "x"), ("abc", "")])) == ["a␛   x", "abc"]


def test_no_rows_are_no_lines() -> None:
    assert list(aligned([])) == []
