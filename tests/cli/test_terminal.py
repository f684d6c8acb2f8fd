"""What a person sees of `fbrag` on terminals of 60, 80 and 100 columns: the answer first, no line too wide, no word broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.screen import on_screen

WIDTHS = pytest.mark.parametrize("columns", [60, 80, 100])


def words(lines: list[str]) -> list[str]:
    return " ".join(lines).split()


@WIDTHS
def test_errors_and_hints_are_broken_between_words(columns: int, clean_environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "inquiry.txt").write_text("The keeper lit the lamp.")
    asked = "What salary did the keeper of the Skarn Light receive in the year of the wreck?"
    screen, code = on_screen(columns, 30, ["ask", "inquiry.txt", *asked.split()], clean_environment, tmp_path)
    assert code == 2
    assert all(len(line) < columns for line in screen.lines())
    said = words(screen.lines())
    assert said[:9] == "error: there is no file What: a question of".split()
    assert "\x1b[33m" not in screen.raw
    assert "".join("".join(said).split("'\\'")).endswith(f"fbragaskinquiry.txt'{asked.replace(' ', '')}'")
