"""Subtitles: one line a cue, with its time; tags, speakers, comments and captions that roll."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from tests.documents.making import written


def test_subrip(tmp_path: Path) -> None:
    data = (
        "\ufeff1\r\n00:00:01,600 --> 00:00:04,200\r\n<i>Hello</i>,\r\n{\\an8}world &amp; all\r\n\r\n"
        "2\r\n01:02:03,000 --> 01:02:04,000 X1:1\r\nThe answer is\r\n42\r\n\r\n3\r\n01:02:05,000 --> 01:02:06,000\r\n\r\n"
    )
    document = written(tmp_path, data, "a.srt")
    assert document.text == "00:00:01 Hello, world & all\n01:02:03 The answer is 42"
    assert document.media_type == "application/x-subrip"
    assert written(tmp_path, data, "a.txt").text == document.text


def test_webvtt(tmp_path: Path) -> None:
    data = (
        "WEBVTT - a talk\nKind: captions\n\nNOTE\na comment\n\nSTYLE\n::cue { color: red }\n\nintro\n"
        "00:01.000 --> 00:02.000 align:start\n<v.loud Ann Lee>Hi &lt;all&gt;</v>\n\n"
        "NOTE not read\n\n00:03.500 --> 00:04.000\n<c.red>bye</c>\n"
    )
    document = written(tmp_path, data, "a.vtt")
    assert document.text == "00:00:01 Ann Lee: Hi <all>\n00:00:03 bye"


def test_rolling_captions_are_written_once(tmp_path: Path) -> None:
    data = (
        "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\n \nso<00:00:01.200><c> we</c><00:00:01.400><c> begin</c>\n\n"
        "00:00:02.000 --> 00:00:03.000\nso we begin\nwith<00:00:02.500><c> this</c>\n"
    )
    assert written(tmp_path, data, "a.vtt").text == "00:00:01 so we begin\n00:00:02 with this"


def test_repeated_words_of_a_film_stay(tmp_path: Path) -> None:
    data = "".join(f"{n}\n00:00:0{n},000 --> 00:00:0{n},900\nNo!\n\n" for n in (1, 2, 3))
    assert written(tmp_path, data, "a.srt").text.count("No!") == 3


@pytest.mark.parametrize("name", ["a.srt", "a.vtt"])
def test_without_a_cue_it_is_plain_text_and_said(tmp_path: Path, name: str) -> None:
    document = written(tmp_path, "no times here", name)
    assert document.text == "no times here"
    assert "no subtitles" in document.warnings[0]


def test_hostile_lines(tmp_path: Path) -> None:
    for line in ("<" * 300_000, "<a" * 300_000, "{\\" * 300_000, "<v x" * 300_000, "0" * 300_000):
        text = written(tmp_path, f"1\n00:00:01,000 --> 00:00:02,000\n{line}\nend\n", "a.srt").text
        assert text.endswith("end")


def test_rolling_captions_of_many_lines_take_no_minutes(tmp_path: Path) -> None:
    first, second = ("\n".join(f"{word} {n}" for n in range(40_000)) for word in ("one", "two"))
    data = f"WEBVTT\n\n00:01.000 --> 00:02.000\n<00:00:01.200>{first}\n\n00:02.000 --> 00:03.000\n{second}\n"
    began = process_time()
    text = written(tmp_path, data, "a.vtt").text
    assert process_time() - began < 5
    assert text.count("one") == text.count("two") == 40_000
