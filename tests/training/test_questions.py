"""Rows to train on: which are refused, which passages and answers count, and who gets which questions."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from fbrag_cli.corpus import Passage as Chunk
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.errors import FbragError
from fbrag_cli.training.rows import Passage, Pool, is_relevant, read_material
from tests.training.ships import asked, rows_file

BARE: dict[str, Any] = {"_id": "1", "input": "Who?", "answers": ["Smith"]}


def write(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"_id": 1}, "needs _id, input and answers"),
        ({"documents": None}, "`documents` must be a list"),
        ({"documents": [{"title": "Brig"}]}, "`documents` must be a list"),
        ({"story": "none", "gold_sections": ["1"]}, "unknown story 'none'"),
        ({"story": "s", "gold_sections": ["9"]}, "`gold_sections` names a part that the story does not have"),
        ({"meeting": "none", "gold_turns": []}, "unknown meeting 'none'"),
        ({"meeting": "m", "gold_turns": [[0, 7]]}, "`gold_turns` names a part that the meeting does not have"),
        ({"meeting": "m", "gold_turns": [0, 1]}, "`gold_turns` names a part that the meeting does not have"),
        ({"documents": [{"text": "A \ud800 brig."}]}, "lone surrogate"),
        ({"_id": "\udfff"}, "lone surrogate"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(tmp_path: Path, row: dict[str, Any], told: str) -> None:
    for kind, content in (("stories", {"s": {"1": "A brig."}}), ("meetings", {"m": ["A: the brig.", "B: yes."]})):
        (tmp_path / f"ships-{kind}.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))
    with pytest.raises(FbragError) as refused:
        read_material([write(tmp_path / "ships.jsonl", [BARE | {"_id": "0"}, BARE | row])])
    assert refused.value.code == "doc_unreadable"
    assert f"{tmp_path / 'ships.jsonl'}, line 2: " in refused.value.message
    assert told in refused.value.message


@pytest.mark.parametrize("content", [b"no JSON", b"[]", b'{"s": ["A brig."]}', b'{"s": {"1": "\\ud800"}}'])
def test_a_file_of_stories_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ships-stories.json.gz").write_bytes(gzip.compress(content))
    with pytest.raises(FbragError, match=r"ships-stories\.json\.gz is not a JSON object") as refused:
        read_material([write(tmp_path / "ships.jsonl", [BARE | {"story": "s", "gold_sections": ["1"]}])])
    assert refused.value.code == "doc_unreadable"


def test_a_story_or_meeting_without_evidence_is_a_question_without(tmp_path: Path) -> None:
    (tmp_path / "ships-meetings.json.gz").write_bytes(gzip.compress(b'{"m": ["A: the brig.", "B: yes."]}'))
    path = write(tmp_path / "ships.jsonl", [BARE | {"meeting": "m"}, BARE | {"_id": "2", "meeting": "m", "gold_turns": [[1, 1]]}])
    assert [bool(each.gold) for each in read_material([path]).questions] == [False, True]


def test_blank_passages_are_left_out_and_the_others_keep_their_labels(tmp_path: Path) -> None:
    texts = ["", "The brig lay in Hull.", " \n", "Smith built the brig.", "A cutter lay in York."]
    documents = [{"text": text, "gold": "Smith" in text} for text in texts]
    material = read_material([write(tmp_path / "ships.jsonl", [BARE | {"input": "Who built the brig?", "documents": documents}])])
    (question,), pool = material.questions, Pool(material)
    passages, chunks = material.passages["ships.jsonl"], pool.of("ships.jsonl").corpus.chunks
    assert [each.text for each in passages] == [each.text for each in chunks] == [text for text in texts if text.strip()]
    assert question.gold == tuple(each.id for each in passages if "Smith" in each.text)


def test_a_blank_section_is_no_evidence_for_every_chunk(tmp_path: Path) -> None:
    (tmp_path / "ships-stories.json.gz").write_bytes(gzip.compress(json.dumps({"s": {"1": " ", "2": "A brig."}}).encode()))
    path = write(tmp_path / "ships.jsonl", [BARE | {"story": "s", "gold_sections": ["1"]}])
    assert read_material([path]).questions[0].gold == ()
    (tmp_path / "ships-meetings.json.gz").write_bytes(gzip.compress(json.dumps({"m": ["", "B: the brig."]}).encode()))
    path = write(tmp_path / "ships.jsonl", [BARE | {"meeting": "m", "gold_turns": [[0, 0]]}])
    assert read_material([path]).questions[0].gold == ()


def test_a_short_answer_beside_a_long_one_counts_in_replies_only() -> None:
    question = asked(1, answers=("5", "five"))
    assert question.is_telling
    assert question.answered_in("5 ships")
    assert not question.has_answer(Passage("p", "On page 5 nothing is said.", "g"))
    assert question.has_answer(Passage("p", "There were five.", "g"))


def test_an_id_is_unique_in_a_file_and_refused_in_another(tmp_path: Path) -> None:
    documents = {"documents": [{"text": "Smith built it.", "gold": True}]}
    rows = [BARE | documents | {"_id": name, "dataset": "ships"} for name in ("a", "b", "a", "a")]
    path = write(tmp_path / "ships.jsonl", rows)
    assert [each.id for each in read_material([path]).questions] == ["a", "b", "a#2", "a#3"]
    other = write(tmp_path / "more.jsonl", [rows[1] | {"_id": "c"}, rows[1]])
    with pytest.raises(FbragError, match=r"more\.jsonl, line 2: duplicate id 'b' in ships, also in .*ships\.jsonl"):
        read_material([path, other])


@pytest.mark.parametrize(
    ("gold", "relevant"),
    [
        ((120, 140), True),  # wholly in the chunk
        ((90, 110), True),  # half of the evidence
        ((88, 110), False),
        ((150, 900), True),  # half of the chunk
        ((151, 900), False),
        ((200, 300), False),
    ],
)
def test_half_of_the_evidence_or_half_of_the_chunk_makes_it_relevant(gold: tuple[int, int], relevant: bool) -> None:
    document = Document.of("d", "d", Extracted(Content("x" * 1000), "text/plain"))
    assert is_relevant(Chunk(1, document, 100, 200), [(500, 510), gold]) == relevant


def test_the_last_fifth_is_for_checking_and_passages_are_pooled(tmp_path: Path) -> None:
    material = read_material([rows_file(tmp_path)])
    assert [question.dev for question in material.questions] == [False] * 8 + [True] * 2
    (passages,) = material.passages.values()
    assert [passage.id for passage in passages] == [question.gold[0] for question in material.questions]


def test_rows_of_the_papers_data(shared: Path) -> None:
    material = read_material([shared / "train" / "nq.jsonl.gz", shared / "train" / "fairytaleqa.jsonl.gz"])
    by_set = {name: [each for each in material.questions if each.dataset == name] for name in ("nq", "fairytaleqa")}
    assert {name: len(found) for name, found in by_set.items()} == {"nq": 1600, "fairytaleqa": 5735}
    assert sum(each.dev for each in by_set["nq"]) == 320
    ids = {group: {each.id for each in passages} for group, passages in material.passages.items()}
    assert all(set(each.gold) <= ids[each.group] and each.gold for each in material.questions)


def test_the_passages_of_a_meeting_are_its_chunks(shared: Path) -> None:
    material = read_material([shared / "train" / "qmsum.jsonl.gz"])
    assert len(material.questions) == 1095
    assert len(material.passages) == 162
    having = [each for each in material.questions if each.gold]
    assert len(having) > 1000
    for each in having[::100]:
        passages = material.passages[each.group]
        assert set(each.gold) < {passage.id for passage in passages}
        assert all(270 <= len(passage.text.split()) <= 330 for passage in passages[:-1])


@pytest.mark.parametrize(("answers", "is_telling"), [(["yes"], False), (["7"], False), (["UK"], False), (["No", "Hull"], True)])
def test_short_answers_tell_nothing(answers: list[str], is_telling: bool) -> None:
    assert asked(1, answers=tuple(answers)).is_telling == is_telling
