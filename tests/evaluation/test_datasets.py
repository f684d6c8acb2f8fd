"""Files of questions, as people have them: LongBench's, ∞Bench's, ours, and broken ones."""

import gzip
import json
import os
import tracemalloc
from pathlib import Path

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.datasets import load_examples

LONGBENCH = {
    "_id": "2hop__1",
    "dataset": "musique",
    "input": "Where is it?",
    "context": "Passage 1:\nIt is in Stanley.",
    "answers": ["Stanley", "in Stanley"],
    "length": 6,
    "all_classes": None,
    "language": "en",
}
CHOICE = {
    "id": 7,
    "context": "A book.",
    "input": "Who did it?",
    "answer": ["The cook"],
    "options": ["The butler", "The cook", "The heir", "Nobody"],
}


def written(path: Path, *rows: object, compress: bool = False) -> Path:
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8", "surrogatepass")
    path.write_bytes(gzip.compress(data) if compress else data)
    return path


def rows(n: int) -> list[dict[str, object]]:
    return [LONGBENCH | {"_id": f"q{i}"} for i in range(n)]


@pytest.mark.parametrize("compress", [False, True])
def test_longbench(tmp_path, compress):
    [example] = load_examples([written(tmp_path / "any.jsonl", LONGBENCH, compress=compress)])
    assert (example.id, example.dataset, example.question) == ("2hop__1", "musique", "Where is it?")
    assert example.answers == ("Stanley", "in Stanley")
    assert example.context() == LONGBENCH["context"]
    assert (example.evidence, example.choices, example.language, example.all_classes) == ((), (), "en", ())


def test_longbench_classes(tmp_path):
    row = LONGBENCH | {"dataset": "trec", "answers": ["City"], "all_classes": ["City", "Number"]}
    [example] = load_examples([written(tmp_path / "trec.jsonl", row)])
    assert example.all_classes == ("City", "Number")
    assert not example.choices


def test_infinitebench_questions(tmp_path):
    row = {"id": 0, "context": "A book.", "input": "Who?", "answer": ["Ann", "Anna"], "options": []}
    path = written(tmp_path / "longbook_qa_eng.jsonl", row, row | {"id": 1, "answer": "Bob"})
    first, second = load_examples([path])
    assert (first.id, first.dataset, first.answers, first.language) == ("0", "longbook_qa_eng", ("Ann", "Anna"), "en")
    assert second.answers == ("Bob",)
    assert first.document == second.document


@pytest.mark.parametrize("answer", [["The cook"], "The cook", ["The cook", "B"], "B", ["B"]])
def test_of_a_choice_count_its_text_and_its_letter(tmp_path, answer):
    [example] = load_examples([written(tmp_path / "longbook_choice_eng.jsonl.gz", CHOICE | {"answer": answer}, compress=True)])
    assert example.dataset == "longbook_choice_eng"
    assert example.answers == ("The cook", "B")
    assert example.choices == tuple(CHOICE["options"])


def test_choices_in_longbench_form(tmp_path):
    row = LONGBENCH | {"dataset": "longbook_choice_eng", "answers": ["The heir"], "all_classes": CHOICE["options"]}
    [example] = load_examples([written(tmp_path / "x.jsonl", row)])
    assert (example.choices, example.answers) == (tuple(CHOICE["options"]), ("The heir", "C"))


@pytest.mark.parametrize(("name", "language"), [("longbook_qa_chn", "zh"), ("dureader", "zh"), ("longbook_qa_eng", "en")])
def test_the_language_of_a_benchmark_that_does_not_say_it(tmp_path, name, language):
    row = {key: value for key, value in LONGBENCH.items() if key not in ("language", "dataset")}
    assert load_examples([written(tmp_path / f"{name}.jsonl", row)])[0].language == language


def test_longbench_e_lies_beside_longbench(tmp_path):
    written(tmp_path / "musique.jsonl", LONGBENCH)
    written(tmp_path / "musique_e.jsonl", LONGBENCH)
    assert [each.dataset for each in load_examples([tmp_path])] == ["musique", "musique_e"]


def test_blank_options_are_none(tmp_path):
    [example] = load_examples([written(tmp_path / "longbook_qa_eng.jsonl", CHOICE | {"options": [""]})])
    assert (example.choices, example.answers) == ((), ("The cook",))


@pytest.mark.parametrize("compress", [False, True])
def test_rows_share_a_file_as_their_document(tmp_path, compress):
    text = "\ufeffOne.\r\nTwo — 二."
    (tmp_path / "book.txt.gz").write_bytes(gzip.compress(text.encode()) if compress else text.encode())
    shared = LONGBENCH | {"context": "", "context_file": "book.txt.gz", "evidence": ["\ufeffOne.\r\nTwo", "二"]}
    inline = LONGBENCH | {"_id": "3", "context": text}
    first, second, third = load_examples([written(tmp_path / "d.jsonl", shared, shared | {"_id": "2"}, inline)])
    assert first.context() == text
    assert first.evidence == ("\ufeffOne.\r\nTwo", "二")
    assert first.document == second.document == third.document


def test_documents_are_kept_once_and_small(tmp_path):
    """100 questions on one book of a megabyte take less memory than two copies of it."""
    book = "".join(f"Chapter {i}. It was a dark and stormy night.\n" for i in range(24_000))
    path = written(tmp_path / "d.jsonl", *(LONGBENCH | {"_id": str(i), "context": book} for i in range(100)))
    tracemalloc.start()
    examples = load_examples([path])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert examples[99].context() == book
    assert held < 2 * len(book)


def test_a_json_array(tmp_path):
    path = tmp_path / "array.json"
    path.write_text(json.dumps([LONGBENCH, LONGBENCH | {"_id": "b"}], indent=1))
    assert [example.id for example in load_examples([path])] == ["2hop__1", "b"]


def test_a_folder_has_its_datasets_by_name_and_nothing_else(tmp_path):
    written(tmp_path / "b.jsonl", {**LONGBENCH, "dataset": "b"})
    written(tmp_path / "a.jsonl.gz", {**LONGBENCH, "dataset": "a"}, compress=True)
    (tmp_path / "c.json").write_text(json.dumps([{**LONGBENCH, "dataset": "c"}]))
    (tmp_path / "prompts.json").write_text('{"musique": "..."}')
    (tmp_path / "README.md").write_text("# about")
    assert [each.dataset for each in load_examples([tmp_path, tmp_path / "a.jsonl.gz"])] == ["a", "b", "c"]


def test_the_limit_draws_the_same_rows_every_time_in_order(tmp_path):
    path = written(tmp_path / "d.jsonl", *rows(50))
    drawn = [example.id for example in load_examples([path], limit=10, seed=3)]
    assert drawn == [example.id for example in load_examples([path], limit=10, seed=3)]
    assert drawn == sorted(drawn, key=lambda id_: int(id_[1:]))
    assert len(set(drawn)) == 10
    assert drawn != [example.id for example in load_examples([path], limit=10, seed=4)]
    assert set(drawn) < {example.id for example in load_examples([path], limit=20, seed=3)}
    assert len(load_examples([path], limit=80)) == 50


def test_the_limit_is_for_each_file(tmp_path):
    written(tmp_path / "a.jsonl", *({**row, "dataset": "a"} for row in rows(5)))
    written(tmp_path / "b.jsonl", *({**row, "dataset": "b"} for row in rows(5)))
    assert [each.dataset for each in load_examples([tmp_path], limit=2)] == ["a", "a", "b", "b"]


def test_missing_ids_stay_the_same_when_rows_move(tmp_path):
    row = {key: value for key, value in LONGBENCH.items() if key != "_id"}
    one, two = row | {"input": "One?"}, row | {"input": "Two?"}
    first = {each.question: each.id for each in load_examples([written(tmp_path / "d.jsonl", one, two)])}
    moved = {each.question: each.id for each in load_examples([written(tmp_path / "d.jsonl", two, one)])}
    assert first == moved
    assert len(set(first.values())) == 2


def test_two_datasets_may_have_the_same_ids(tmp_path):
    path = written(tmp_path / "d.jsonl", LONGBENCH, LONGBENCH | {"dataset": "hotpotqa"})
    assert len({(each.dataset, each.id) for each in load_examples([path])}) == 2


def test_an_unanswerable_question_has_no_answers(tmp_path):
    [example] = load_examples([written(tmp_path / "d.jsonl", LONGBENCH | {"answers": []})])
    assert (example.answers, example.answerable) == ((), False)


def test_a_row_says_itself_whether_it_is_answerable(tmp_path):
    """As in MuSiQue, whose unanswerable rows have the answer of the question that they were made of."""
    unanswerable = [LONGBENCH | {"_id": "a", "answerable": False}, CHOICE | {"id": "b", "answerable": False}]
    unanswerable += [{"_id": "c", "input": "Where?", "context": "Here.", "answerable": False}]
    without_gold = LONGBENCH | {"_id": "d", "answerable": True, "answers": []}
    plain = LONGBENCH | {"_id": "e"}
    found = load_examples([written(tmp_path / "d.jsonl", *unanswerable, without_gold, plain)])
    assert [example.answerable for example in found] == [False, False, False, True, True]
    assert [len(example.answers) for example in found] == [0, 0, 0, 0, 2]


def test_strange_characters_survive(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_bytes(
        b"\xef\xbb\xbf" + json.dumps(LONGBENCH | {"context": "half \ud83d a pair\u2028 \x85 \x00"}).encode() + b"\r\n\r\n"
    )
    [example] = load_examples([path])
    assert example.context() == "half \ud83d a pair\u2028 \x85 \x00"


BAD_ROWS = {
    "invalid JSON": '{"_id": ',
    "invalid JSON: ": "[" * 100_000,
    "not a JSON object": '"text"',
    "missing question": LONGBENCH | {"input": ""},
    "the question has no letter": LONGBENCH | {"input": "?"},
    "`input` must be a string": LONGBENCH | {"input": ["x"]},
    "no `answers`": {key: value for key, value in LONGBENCH.items() if key != "answers"},
    "`answerable` must be true or false": LONGBENCH | {"answerable": "no"},
    "`answers` must be a list of strings": LONGBENCH | {"answers": [["x"]]},
    "missing text": LONGBENCH | {"context": " \n"},
    "`context` must be a string": LONGBENCH | {"context": [["title", ["sentence"]]]},
    "`_id` must be a string or a whole number": LONGBENCH | {"_id": 1.5},
    "evidence 'elsewhere' is not in the context": LONGBENCH | {"evidence": ["Stanley", "elsewhere"]},
    "evidence '' is not in the context": LONGBENCH | {"evidence": [""]},
    "is outside the dataset's folder": LONGBENCH | {"context": "", "context_file": "../secret.txt"},
    "outside the dataset's folder": LONGBENCH | {"context": "", "context_file": "/etc/passwd"},
    "folder": LONGBENCH | {"context": "", "context_file": "link.txt"},
    "context_file not found": LONGBENCH | {"context": "", "context_file": "gone.txt"},
    "context_file not found: ": LONGBENCH | {"context": "", "context_file": "."},
    "cannot be read": LONGBENCH | {"context": "", "context_file": "nul\x00"},
    "is not UTF-8": LONGBENCH | {"context": "", "context_file": "latin.txt"},
    "missing text (`context` or": LONGBENCH | {"context": "", "context_file": "empty.txt"},
    "is not one of the options": CHOICE | {"answer": ["The gardener"]},
    "a multiple-choice row must have one answer": CHOICE | {"answer": ["The cook", "The heir"]},
    "5 options": CHOICE | {"options": [*CHOICE["options"], "All"]},
    "duplicate id 'q1' in musique, also in": LONGBENCH | {"_id": "q1"},
}


@pytest.mark.parametrize("what", BAD_ROWS)
def test_a_bad_row_is_named_by_file_and_line(tmp_path, what):
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    os.symlink(tmp_path / "secret.txt", folder / "link.txt")
    (folder / "latin.txt").write_bytes("naïve".encode("latin-1"))
    (folder / "empty.txt").write_text("\n")
    bad = BAD_ROWS[what]
    path = folder / "d.jsonl"
    path.write_text("\n".join([*map(json.dumps, rows(2)), "", bad if isinstance(bad, str) else json.dumps(bad)]))
    with pytest.raises(FbragError) as raised:
        load_examples([path])
    assert f"{path}, line 4: " in raised.value.message
    assert what in raised.value.message
    assert "\n" not in raised.value.message
    assert raised.value.document == str(path)
    assert raised.value.exit_code == 3


@pytest.mark.parametrize(
    ("text", "place"),
    [
        *(('[\n{"a": 1},\n{"b"}\n]', "line 3"), ('[{"a": 1}\n{"b": 2}]', "line 2"), ("[{}, ", "line 1")),
        *(("[\n" * 100_000, "line 1"), (json.dumps([LONGBENCH, 2], indent=1), "row 2")),
    ],
)
def test_a_bad_array_is_named_by_line_or_row(tmp_path, text, place):
    path = tmp_path / "d.json"
    path.write_text(text)
    with pytest.raises(FbragError, match=rf"d\.json, {place}: (invalid|not) "):
        load_examples([path], limit=1 << 30)


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("blank.jsonl", b"\n \n", "doc_empty"),
        ("none.json", b"[]", "doc_empty"),
        ("cut.jsonl.gz", gzip.compress(json.dumps(LONGBENCH).encode() * 9, mtime=0)[:-20], "doc_unreadable"),
        ("latin.jsonl", '{"input": "naïve"}'.encode("latin-1"), "doc_unreadable"),
        ("model.jsonl", bytes(range(256)), "doc_unreadable"),
    ],
)
def test_a_bad_file(tmp_path, name, data, code):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FbragError, match=name) as raised:
        load_examples([tmp_path])
    assert raised.value.code == code


def test_a_gzip_bomb_is_not_unpacked(tmp_path):
    with gzip.open(tmp_path / "bomb.jsonl.gz", "wb", compresslevel=1) as file:
        for _ in range(33):
            file.write(b" " * 1_000_000)
    with pytest.raises(FbragError, match=r"bomb\.jsonl\.gz, line 1: exceeds 32 MB"):
        load_examples([tmp_path / "bomb.jsonl.gz"])


def test_no_file_and_no_dataset(tmp_path):
    with pytest.raises(FbragError, match="file not found") as raised:
        load_examples([tmp_path / "gone.jsonl"])
    assert raised.value.code == "doc_not_found"
    with pytest.raises(FbragError, match="no dataset in") as raised:
        load_examples([tmp_path])
    assert raised.value.code == "doc_not_found"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "d.jsonl")
    with pytest.raises(FbragError, match="is not a file"):
        load_examples([tmp_path / "d.jsonl"])
