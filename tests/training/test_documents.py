"""Long documents for training questions: what stands in them, where the evidence is, and that they are the same each time."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.training.documents import WORDS, LongQuestion, read_long


def write(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path


def told(name: str) -> str:
    """A passage of 150 words."""
    return f"{name} was found at last. " + "The sea was cold and the old mill was far. " * 14 + "So it was told to all of them."


def passages_file(folder: Path, n: int) -> Path:
    """n questions with two passages each, of which one holds the answer."""

    def passage(name: str, gold: bool) -> dict[str, Any]:
        return {"title": f"About {name}", "text": told(name), "gold": gold}

    rows = (
        {
            "_id": f"q{i}",
            "input": f"Which {i}?",
            "answers": [f"gold{i}"],
            "documents": [passage(f"gold{i}", True), passage(f"own{i}", False)],
        }
        for i in range(n)
    )
    return write(folder / "facts.jsonl", rows)


def evidence(question: LongQuestion) -> list[str]:
    document = question.document()
    return [document.text[start:end] for start, end in document.gold]


def test_passages_stand_among_those_of_other_questions(tmp_path: Path) -> None:
    questions = read_long([passages_file(tmp_path, 60)], None).questions
    assert len(questions) == 60
    assert sum(each.dev for each in questions) == 12
    starts = []
    for question in questions[:8]:
        document, number = question.document(), question.id[1:]
        assert WORDS - 200 < len(document.text.split()) <= WORDS
        assert evidence(question) == [told(f"gold{number}")]
        assert f"\n\nAbout own{number}\n" in f"\n\n{document.text}"
        parts = document.text.split("\n\n")
        assert len(set(parts)) == len(parts)
        assert question.document() == document
        starts.append(document.gold[0][0] / len(document.text))
    assert min(starts) < 0.4
    assert max(starts) > 0.6


def test_a_smaller_limit_takes_some_of_a_larger_ones_from_each_file_in_turn(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    files = [passages_file(tmp_path, 40), passages_file(tmp_path / "b", 40).rename(tmp_path / "b" / "more.jsonl")]
    few, many = (read_long(files, limit).questions for limit in (4, 8))
    assert {each.key for each in few} < {each.key for each in many}
    assert [len([each for each in many if each.dev == dev and each.dataset == "facts"]) for dev in (False, True)] == [8, 2]
    assert {each.dataset for each in many[:4]} == {"facts", "more"}


def test_a_story_stands_whole_among_others_of_its_book(tmp_path: Path) -> None:
    stories = {
        f"{book}/{i}": {str(n): " ".join([f"{book}{i}part{n}"] * 700) for n in range(1, 4)} for book in "ab" for i in range(6)
    }
    (tmp_path / "tales-stories.json.gz").write_bytes(gzip.compress(json.dumps(stories).encode()))
    asked = [{"_id": f"{i}", "input": "Who?", "answers": ["x"], "story": f"b/{i}", "gold_sections": ["3", "1"]} for i in range(5)]
    for question in read_long([write(tmp_path / "tales.jsonl", asked)], None).questions:
        text = question.document().text
        assert "\n".join(stories[f"b/{question.id}"].values()) in text
        assert evidence(question) == [stories[f"b/{question.id}"][name] for name in ("3", "1")]
        assert "a0part1" not in text
        assert len(text.split()) == 4 * 2100


def test_a_meeting_is_a_document_and_its_turns_are_the_evidence(tmp_path: Path) -> None:
    turns = [f"Speaker {i}: {'said ' * i}" for i in range(9)]
    (tmp_path / "talks-meetings.json.gz").write_bytes(gzip.compress(json.dumps({"m": turns}).encode()))
    row = {"_id": "1", "input": "What?", "answers": ["x"], "meeting": "m", "gold_turns": [[2, 4], [7, 7]]}
    (question,) = read_long([write(tmp_path / "talks.jsonl", [row])], None).questions
    assert question.document().text == "\n".join(turns)
    assert evidence(question) == ["\n".join(turns[2:5]), turns[7]]


def test_questions_without_evidence_are_left_out(tmp_path: Path) -> None:
    bare = {"input": "Who?", "answers": ["x"]}
    known = bare | {"_id": "2", "documents": [{"text": "It was x.", "gold": True}]}
    path = write(tmp_path / "some.jsonl", [bare | {"_id": "1"}, known])
    assert [each.id for each in read_long([path], None).questions] == ["2"]
    with pytest.raises(FbragError, match="names no evidence"):
        read_long([write(tmp_path / "none.jsonl", [bare | {"_id": "1"}])], None)
