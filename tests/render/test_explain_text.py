from __future__ import annotations

import json
import re
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted, Section
from fbrag_cli.render import as_json
from fbrag_cli.render.explain_text import excerpts, found, holders, one_chunk, samples, table
from fbrag_cli.text.table import width_of
from tests.render.test_passages import TEXT, read_in_part, trace_of


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
@pytest.mark.parametrize("name", ["log.txt", "a/very/long/path/to/the/folder/of/all/logs/log.txt", "长的文件名在这里.txt"])
@pytest.mark.parametrize("text", [TEXT, "箱は船長によって封印された。" * 40], ids=["en", "ja"])
def test_the_table_fits_the_terminal(columns: int, name: str, text: str) -> None:
    trace = trace_of(text, "", "", chunk_words=8, name=name)
    header, *rows = table(trace, limit=None, by_position=True, count_tokens=None, columns=columns)
    assert max(map(width_of, [header, *rows])) <= columns
    assert " 1 " in rows[0]  # the lines are what a reader needs most of a location
    assert name not in "".join(rows)
    assert "starts with" in header
    if columns == 200:
        assert [header, *rows] == list(table(trace, limit=None, by_position=True, count_tokens=None))


WORDS = "The standard chronometer was repaired in August 1893 by a watchmaker of the town, whom nobody had asked for his name. "


@pytest.mark.parametrize(("columns", "least"), [(60, 12), (80, 26), (100, 30)])
def test_a_narrow_table_gives_its_width_to_the_first_words(columns: int, least: int) -> None:
    trace = trace_of(WORDS * 40, "", "", chunk_words=20, name="folder/of/the/inquiry.txt")
    header, *rows, _ = table(trace, limit=5, by_position=True, count_tokens=None, columns=columns)
    left = header.removesuffix("starts with").split()
    assert columns >= 100 or "words" not in left
    assert ("chunk" in left) == (columns >= 80)
    assert "inquiry" not in rows[0]  # the same in each row
    shown = rows[0][header.index("starts with") :]
    assert least <= len(shown) <= columns
    assert WORDS.startswith(shown.removesuffix(" …"))  # cut between words


@pytest.mark.parametrize("columns", [60, 80, 120, 150])
@pytest.mark.parametrize("title", ["The lamps", "The master of the barque, and what he said of her cargo"])
def test_a_table_with_sections_fits_and_keeps_its_heading(columns: int, title: str) -> None:
    read = Extracted(Content(WORDS * 40, (), (Section(title, 1, 0),)), "text/plain", "utf-8")
    corpus = build_corpus([Document.of("loc", "loc", read), Document.of("loc2", "loc2", read)], 20)  # as "location" begins
    trace = trace_of(WORDS * 80, "", "", chunk_words=20).over(corpus)
    header, *rows = table(trace, limit=5, by_position=True, count_tokens=None, columns=columns)
    assert max(map(width_of, [header, *rows])) <= columns
    assert " location " in header


def test_rows_of_several_documents_keep_the_names_without_their_common_folder() -> None:
    names = ("all/of/the/logs/1893/april.txt", "all/of/the/logs/1894/may.txt")
    read = Extracted(Content(WORDS, ()), "text/plain", "utf-8")
    corpus = build_corpus([Document.of(name, name, read) for name in names], 20)
    trace = trace_of(WORDS * 2, "", "", chunk_words=20).over(corpus)
    assert len(corpus.chunks) == len(trace.scores.combined)
    rows = list(table(trace, limit=None, by_position=True, count_tokens=None, columns=80))
    assert [row for row in rows if " 1893/april.txt:1 " in row]
    assert [row for row in rows if " 1894/may.txt:1 " in row]


def test_colour_marks_what_is_selected_and_changes_no_word() -> None:
    trace = trace_of(TEXT, "", "", chunk_words=8)
    trace = trace.reading(trace.context[:2])
    plain = list(table(trace, limit=None, by_position=True, count_tokens=None, columns=80))
    painted = list(table(trace, limit=None, by_position=True, count_tokens=None, columns=80, colored=True))
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in painted] == plain
    assert [line.startswith("\x1b[1m") for line in painted[1:-1]] == ["*" in line.split() for line in plain[1:-1]]
    assert {line[:4] for line in painted[1:-1]} == {"\x1b[1m", "\x1b[2m"}


def test_samples_and_chunks_are_broken_between_words() -> None:
    trace = trace_of(WORDS * 3, "", "")
    sampled = trace_of(TEXT, "", WORDS * 3)
    for lines in (list(one_chunk(trace, 0, None, 40)), list(samples(sampled, 40))):
        assert max(map(width_of, lines)) <= 40
        assert not {word for line in lines for word in line.split()} & {"chronomet", "Augus", "watchmak"}
        assert " ".join(" ".join(lines).split()).endswith(WORDS.strip())
    assert list(samples(sampled))[1] == f"    {WORDS * 3}".rstrip()


def test_a_chunk_of_prose_has_full_lines_in_a_narrow_terminal() -> None:
    text = "\n".join(textwrap.wrap(WORDS * 8, 76))
    trace = trace_of(text, "", "")
    lines = list(one_chunk(trace, 0, None, 50))
    lines = lines[lines.index("") + 1 :]
    assert max(map(len, lines)) <= 50
    assert min(map(len, lines[:-1])) > 30
    assert " ".join(lines) == " ".join(text.split())
    assert list(one_chunk(trace, 0, None))[-1] == text


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
    assert [chunk["chunk"] for chunk in chunks if chunk["contains_text"]] == [2]
    assert "contains_text" not in json.dumps(as_json.explanation(trace, memory_mb=0))


def test_the_excerpts_are_listed_in_reading_order_with_their_number_of_words() -> None:
    header, *rows, total = excerpts(read_in_part())
    assert header.split() == ["words", "lines", "starts", "with"]
    assert [row.split(maxsplit=2) for row in rows] == [
        ["2", "2", "Nobody slept."],
        ["9", "3", "The box was sealed by Tobias Wrenn with lead."],
        ["6", "5", "At dawn the wind went round."],
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
    told = [line.partition(": ")[2].partition(" (")[0] for line in found(trace, holders(trace, sought))]
    assert told == [f"{fate}, retrieved" for fate in fates]


def test_find_says_nothing_of_parts_where_chunks_are_read_whole() -> None:
    trace = trace_of(TEXT, "", "", chunk_words=8)
    trace = trace.reading(trace.context[:1])
    told = [line.partition(": ")[2].partition(" (")[0] for line in found(trace, holders(trace, "in the roads. Nobody"))]
    assert told == ["selected, retrieved", "not selected, retrieved"]


def test_a_chunk_says_what_is_read_of_it() -> None:
    assert list(one_chunk(read_in_part(), 0, None))[3] == "read 11 of 23 words: log.txt:2, log.txt:3"
    assert not any(line.startswith("read") for line in one_chunk(trace_of(TEXT, "", ""), 0, None))


def test_json_has_what_is_read_of_each_chunk() -> None:
    trace = read_in_part()
    first, second = as_json.explanation(trace, memory_mb=0)["chunks"]
    assert [TEXT[start:end] for start, end in first["read"]] == [
        "Nobody slept.",
        "The box was sealed by Tobias Wrenn with lead.",
    ]
    assert [TEXT[start:end] for start, end in second["read"]] == ["At dawn the wind went round."]
    unread = trace.reading(trace.context[:1])
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
