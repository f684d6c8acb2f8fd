"""Durations: one notation for every option that takes a time, and a number in seconds only for time limits."""

from __future__ import annotations

import pytest

from fbrag_cli.cli.keys import known_keys
from fbrag_cli.cli.options import RunOptions
from fbrag_cli.errors import FbragError
from fbrag_cli.settings import seconds_of

TIMES = {"90s": 90, "15m": 900, "2h": 7200, "30d": 2_592_000, "0.5s": 0.5, "0m": 0}


@pytest.mark.parametrize("text", TIMES)
def test_a_duration_is_a_number_and_a_unit(text: str) -> None:
    assert seconds_of(text) == seconds_of(text, plain=True) == TIMES[text]


@pytest.mark.parametrize("text", ["", "m", "-1d", "3x", "5 m", "1e3s", "15m30s", "inf", "9" * 40 + "d"])
def test_other_text_is_no_duration(text: str) -> None:
    for plain in (False, True):
        with pytest.raises(ValueError):  # noqa: PT011  # the text, which may be empty
            seconds_of(text, plain=plain)


def test_a_number_is_in_seconds_for_a_time_limit_only() -> None:
    assert seconds_of("90", plain=True) == 90
    with pytest.raises(ValueError, match="90"):
        seconds_of("90")


@pytest.mark.parametrize(("value", "seconds"), [("15m", 900), ("300", 300), (300, 300), (0.2, 0.2)])
def test_a_time_limit_is_the_same_from_an_option_and_from_the_file(value: object, seconds: float) -> None:
    assert RunOptions({"timeout": known_keys()["timeout"].check(value)}).time_limit == seconds


@pytest.mark.parametrize("value", ["0", "1e10", "3000d", True, -1, "never"])
def test_a_time_limit_has_bounds(value: object) -> None:
    with pytest.raises(FbragError, match=r"expected .*90s, 15m, 2h or 30d"):
        known_keys()["timeout"].check(value)
