from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fbrag_cli.render import as_json
from fbrag_cli.render.explain_text import excerpts, found, holders, one_chunk, table
from fbrag_cli.text.table import width_of
from tests.render.test_passages import TEXT, read_in_part, trace_of


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
@pytest.mark.parametrize("name", ["log.txt", "a/very/long/path/to/the/folder/of/all/logs/log.txt", "长的文件名在这里.txt"])
@pytest.mark.parametrize("text", [TEXT, "箱は船長によって封印された。" * 40], ids=["en", "ja"])
def test_the_table_fits_the_terminal(columns: int, name: str, text: str) -> None:
    trace = trace_of(text, "", "", chunk_words=8, name=name)
    header, *rows = table(trace, limit=None, by_position=True, count_tokens=None, columns=columns)
    assert max(map(width_of, [header, *rows])) <= columns
    assert ":1-1" in rows[0]  # the lines are what a reader needs most of a place
    assert ("first words" in header) == (columns > 60)
    whole = list(table(trace, limit=None, by_position=True, count_tokens=None))
    assert name in whole[1]
    if columns == 200:
        assert [header, *rows] == whole


def test_find_finds_a_text_over_the_ends_of_chunks() -> None:
    trace = trace_of(TEXT, "", "", chunk_words=8)
    assert list(holders(trace, "IN the  roads. nobody\nslept")) == [0, 1]
    assert list(holders(trace, "roads. Nobody slept. The rain kept on. The box was sealed")) == [0, 1, 2]
    assert list(holders(trace, "the barque lay")) == [0]
    assert not holders(trace, "roads. slept")
    assert len(list(found(trace, holders(trace, "roads. Nobody")))) == 2


def test_find_needs_no_spaces_between_chunks_of_a_script_without_them() -> None:
    trace = trace_of("箱は船長によって封印された", "", "", chunk_words=3)
    assert len(trace.corpus.chunks) > 2
    assert list(holders(trace, "箱は船長によって封印された")) == list(range(len(trace.corpus.chunks)))


def test_find_in_json_marks_the_chunks() -> None:
    trace = trace_of(TEXT, "", "", chunk_words=8)
    chunks = as_json.explanation(trace, memory_mb=0, found=[1])["chunks"]
    assert [chunk["chunk"] for chunk in chunks if chunk["found"]] == [2]
    assert "found" not in json.dumps(as_json.explanation(trace, memory_mb=0))


def test_the_excerpts_are_listed_in_reading_order_with_their_number_of_words() -> None:
    header, *rows, total = excerpts(read_in_part())
    assert header.split() == ["words", "place", "first", "words"]
    assert [row.split(maxsplit=2) for row in rows] == [
        ["2", "log.txt:2-2", "Nobody slept."],
        ["9", "log.txt:3-3", "The box was sealed by Tobias Wrenn with lea…"],
        ["6", "log.txt:5-5", "At dawn the wind went round."],
    ]
    assert total == "3 excerpts, 17 words for the large model"


@pytest.mark.parametrize("columns", [40, 80])
def test_the_excerpts_fit_the_terminal(columns: int) -> None:
    assert max(map(width_of, excerpts(read_in_part(), columns))) <= columns


@pytest.mark.parametrize(
    ("sought", "fates"),
    [
        ("sealed by tobias", ["selected, read"]),
        ("the steward", ["selected, not read"]),
        ("slept.  The rain", ["selected, read in part"]),
        ("with lead. The steward", ["selected, read", "selected, not read"]),
    ],
)
def test_find_says_whether_the_text_of_a_selected_chunk_is_read(sought: str, fates: list[str]) -> None:
    trace = read_in_part()
    ends = [line.rpartition("  ")[2] for line in found(trace, holders(trace, sought))]
    assert ends == [f"{fate}, recalled" for fate in fates]


def test_find_says_nothing_of_parts_where_chunks_are_read_whole() -> None:
    trace = trace_of(TEXT, "", "", chunk_words=8)
    trace = replace(trace, context=trace.context[:1])
    assert [line.rpartition("  ")[2] for line in found(trace, holders(trace, "in the roads. Nobody"))] == [
        "selected, recalled",
        "not selected, recalled",
    ]


def test_a_chunk_says_what_is_read_of_it() -> None:
    assert list(one_chunk(read_in_part(), 0, None))[3] == "read 11 of 23 words: log.txt:2-2, log.txt:3-3"
    assert not any(line.startswith("read") for line in one_chunk(trace_of(TEXT, "", ""), 0, None))


def test_json_has_what_is_read_of_each_chunk() -> None:
    trace = read_in_part()
    first, second = as_json.explanation(trace, memory_mb=0)["chunks"]
    assert [TEXT[start:end] for start, end in first["read"]] == [
        "Nobody slept.",
        "The box was sealed by Tobias Wrenn with lead.",
    ]
    assert [TEXT[start:end] for start, end in second["read"]] == ["At dawn the wind went round."]
    unread = replace(trace, context=trace.context[:1])
    assert [chunk["read"] for chunk in as_json.explanation(unread, memory_mb=0)["chunks"]] == [first["read"][:1], []]


@given(st.text("ab ", min_size=1, max_size=60), st.text("ab ", min_size=1, max_size=6), st.integers(1, 3))
def test_find_finds_what_is_there(text: str, sought: str, chunk_words: int) -> None:
    trace = trace_of(f"x {text}", "", "", chunk_words=chunk_words)
    words, needle = " ".join(f"x {text}".split()), " ".join(sought.split())
    spots = [at for at in range(len(words)) if words.startswith(needle, at)]
    starts, at = [], 0
    for chunk in trace.corpus.chunks:
        starts.append(at)
        at += len(" ".join(chunk.text.split())) + 1
    ends = [start - 1 for start in [*starts[1:], at]]
    held = {i for i in range(len(starts)) for spot in spots if spot < ends[i] and spot + len(needle) > starts[i]}
    assert list(holders(trace, sought)) == (sorted(held) if needle else list(range(len(starts))))
