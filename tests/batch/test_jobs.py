"""Files of questions and jobs, as people write them."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from fbrag_cli.batch.jobs import Job, by_document, read_jobs, read_questions, shard
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Event


def file(folder: Path, name: str, text: str, encoding: str = "utf-8") -> str:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return str(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_lines_of_text_without_comments_and_blank_lines(tmp_path: Path, encoding: str) -> None:
    path = file(tmp_path, "q.txt", "# of the café\r\n\r\n  Who sealed the café's box? \r\nWhen?\r\n", encoding)
    heard: list[Event] = []
    assert read_questions(path, progress=heard.append) == [Job((), "1", "Who sealed the café's box?"), Job((), "2", "When?")]
    assert [path in event.text for event in heard] == ([True] if encoding == "cp1252" else [])  # a guess


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_columns_by_their_names(tmp_path: Path, delimiter: str) -> None:
    lines = ["Id", "Question", "answers"], ["a", '"Who, and\nwhen?"', '"[""Tom"", ""Tim""]"'], ["b", "Why?", "rain"]
    path = file(tmp_path, "q.csv", "\n".join(delimiter.join(line) for line in lines))
    assert read_questions(path) == [Job((), "a", "Who, and\nwhen?", ("Tom", "Tim")), Job((), "b", "Why?", ("rain",))]


def test_types_of_answers(tmp_path: Path) -> None:
    path = file(tmp_path, "q.csv", "question,name,type\nWho?,tenant,Text\nHow sure?,,low; high\nWhy?,why,\n")
    found = [(job.name, job.type) for job in read_questions(path)]
    assert found == [("tenant", "text"), ("How sure?", "low;high"), ("", "")]


def test_spaces_beside_delimiters(tmp_path: Path) -> None:
    path = file(tmp_path, "jobs.csv", 'document, question, id\n a.txt , "Who, and when?", x \n')
    assert read_jobs(path) == [Job(("a.txt",), "x", "Who, and when?")]


def test_a_line_that_is_too_long_for_csv(tmp_path: Path) -> None:
    line = "x" * 140_000
    for read, name in ((read_questions, "q.csv"), (read_jobs, "jobs")):
        with pytest.raises(FbragError, match=r'line 1: no "question" column \(columns: none\)'):
            read(file(tmp_path, name, line))


@pytest.mark.skipif(os.name != "posix", reason="a device and a pipe")
def test_a_file_that_is_none_is_for_stdin(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/null", str(tmp_path / "pipe"), str(tmp_path)):
        with pytest.raises(FbragError) as questions:
            read_questions(path)
        with pytest.raises(FbragError) as jobs:
            read_jobs(path)
        assert str(questions.value.hint).endswith("-Q -")
        assert str(jobs.value.hint).endswith("--pairs -")


def test_an_id_that_is_the_number_of_another_row(tmp_path: Path) -> None:
    with pytest.raises(FbragError, match="line 3: id 1 is also on line 2") as raised:
        read_questions(file(tmp_path, "q.csv", "question,id\nWho?,\nWhy?,1\n"))
    assert "give each row its own" in raised.value.message


def test_json_lines(tmp_path: Path) -> None:
    records = '{"question":"Who?","id":7,"answers":["Tom"],"more":1}', '{"question":"Why?"}'
    for name, text in (
        ("q.jsonl", "\n\n".join(records)),
        ("q.json", f"[{','.join(records)}]"),
        ("q", f'[{records[0]},\n"Why?"]'),
    ):
        assert read_questions(file(tmp_path, name, text)) == [Job((), "7", "Who?", ("Tom",)), Job((), "2", "Why?")]


def test_a_file_that_is_none_of_these_is_told_as_questions(tmp_path: Path) -> None:
    path = tmp_path / "q.txt"
    path.write_bytes(bytes(range(256)) * 20)
    with pytest.raises(FbragError) as raised:
        read_questions(str(path))
    assert (raised.value.code, raised.value.hint) == ("usage", "questions are in text, CSV or JSON")


@pytest.mark.parametrize("text", ["Who?\nWhy?", "id,question\n1,Who?\n2,Why?", '{"question":"Who?"}\n{"question":"Why?"}'])
def test_stdin_is_what_it_looks_like(text: str) -> None:
    assert [question.question for question in read_questions("-", io.BytesIO(text.encode()))] == ["Who?", "Why?"]


def test_jobs_name_their_documents(tmp_path: Path) -> None:
    path = file(tmp_path, "jobs.csv", "document,question,id\nb.txt,Who?,x\na.txt,Why?,\nb.txt,When?,y\n")
    jobs = [Job(("b.txt",), "x", "Who?"), Job(("a.txt",), "2", "Why?")]
    found = read_jobs(path)
    assert found[:2] == jobs
    assert [job.id for job in by_document(found)] == ["x", "y", "2"]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("q.csv", "id,text\n1,Who?\n", 'line 1: no "question" column (columns: id, text)'),
        ("q.csv", "question,id\nWho?,1\n,2\n", "line 3: missing question"),
        ("q.csv", 'question,id\n"Who?,1\n', "line 2: unexpected end of data"),
        ("q.csv", "question\nWho?,when?\n", "line 2: 2 values for 1 columns"),
        ("q.csv", "question,id\nWho?,1\nWhy?,1\n", "line 3: id 1 is also on line 2"),
        ("q.jsonl", '{"question":"Who?"}\n{"question":', "line 2: invalid JSON"),
        ("q.jsonl", '{"question":"Who?"}\n["Why?"]', "line 2: not an object"),
        ("q.json", '[{"question":"Who?"},{"quest":"Why?"}]', "row 2: missing question"),
        ("q.json", '[\n  "Who?",\n  5\n]', "row 2: not an object"),
        ("q.json", '[\n  "Who?",\n', "line 3: invalid JSON"),
        ("q.json", "[" * 100_000, "line 1: invalid JSON"),
        ("q.jsonl", '{"question":5}', "line 1: missing question"),
        ("q.txt", "Who?\n?\n", "line 2: the question has no letter and no digit"),
        ("q.jsonl", '{"question":"Who\\u0000?"}', "line 1: the question has a NUL character"),
        ("q.csv", "question\n" + "x" * 10_001, "line 2: the question has more than 10,000 characters"),
        ("q.jsonl", '{"question":"Who?","answers":[{}]}', "line 1: answers must be text"),
        ("q.csv", "question,type\nWho?,numbers\n", "line 2: unknown type 'numbers': expected text, number, date, yes-no, or"),
        ("q.csv", "question,name,type\nWho?,x,text\nWhy?,x,text\n", "line 3: name x is already of another question"),
        ("q.jsonl", '{"question":"Who?","type":5}', "line 1: name and type must be text"),
        ("q.txt", "# nothing yet\n", "no questions in"),
        ("q.txt", "", "no questions in"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, name: str, text: str, told: str) -> None:
    path = file(tmp_path, name, text)
    with pytest.raises(FbragError) as raised:
        read_questions(path)
    assert raised.value.code == "usage"
    assert path in raised.value.message
    assert told in raised.value.message


def test_a_job_without_a_document(tmp_path: Path) -> None:
    with pytest.raises(FbragError, match="line 2: missing document"):
        read_jobs(file(tmp_path, "jobs.csv", "document,question\n,Who?\n"))


@pytest.mark.parametrize("wrong", ["0/3", "4/3", "1", "a/b", "1/0", "1/" + "9" * 5000])
def test_a_shard_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(FbragError, match="expected I/N"):
        shard([], wrong)
