"""`fbrag explain` as a user runs it, with the 135M model."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import INQUIRY, Run
from tests.documents.making import pptx, shape

QUESTION = "In which town was the watchmaker who repaired the standard chronometer born?"
FAST = ("--set", "recall=2", "--select", "3", "--samples", "2", "--set", "forward-tokens=24", "--small", "smollm2-135m")


@pytest.fixture(scope="module", autouse=True)
def _model(smollm2: object) -> None:
    """Every test here needs it in the store."""


def test_the_table_is_in_the_order_of_rank_and_marks_what_is_selected(fbrag_cached: Run) -> None:
    done = fbrag_cached("explain", INQUIRY, QUESTION, "-n", "5", *FAST)
    assert done.returncode == 0, done.stderr
    header, *rows, legend = done.stdout.splitlines()
    assert header.split() == ["score", "question", "samples", "tok", "chunk", "lines", "starts", "with"]
    assert legend == "* selected. #: rank by the question, and by the forward samples."
    assert [int(row.split()[0]) for row in rows] == [1, 2, 3, 4, 5]
    assert [row.split()[1] == "*" for row in rows] == [True, True, True, False, False]
    assert all(re.search(r" \d+-\d+ ", row) for row in rows)


def test_json_has_every_chunk_with_its_scores_ranks_and_place(fbrag_cached: Run) -> None:
    told = json.loads(fbrag_cached("explain", INQUIRY, QUESTION, "--json", *FAST).stdout)
    chunks, text = told["chunks"], INQUIRY.read_text("utf-8")
    assert told["schema"] == "fbrag.explanation/1"
    assert sum(len(text[chunk["start_char"] : chunk["end_char"]].split()) for chunk in chunks) == len(text.split())
    assert sorted(chunk["rank"] for chunk in chunks) == list(range(1, len(chunks) + 1))
    assert sum(chunk["selected"] for chunk in chunks) == 3
    assert sum(chunk["retrieved"] for chunk in chunks) == 2
    for chunk in chunks:
        assert chunk["relative_score"] == pytest.approx(chunk["score"] / max(each["score"] for each in chunks), abs=1e-4)
        assert chunk["score"] == pytest.approx(0.5 * chunk["backward_score"] + 0.5 * chunk["forward_score"], abs=2e-4)


def test_weights_change_what_is_selected_as_the_paper_says(fbrag_cached: Run) -> None:
    only_question = json.loads(fbrag_cached("explain", INQUIRY, QUESTION, "--json", "--set", "weights=0:1", *FAST).stdout)
    assert all(chunk["rank"] == chunk["backward_rank"] for chunk in only_question["chunks"])
    for wrong in ("1", "1:a", "1:1:1", "-1:1"):
        refused = fbrag_cached("explain", INQUIRY, QUESTION, "--set", f"weights={wrong}")
        assert (refused.returncode, f'--set weights is "{wrong}", expected X:Y' in refused.stderr) == (2, True)


def test_what_was_sampled_once_is_not_sampled_again(fbrag: Run) -> None:
    command = ("explain", INQUIRY, QUESTION, "--json", "--chunk-words", "60", *FAST)
    first = fbrag(*command)
    again = fbrag(*command, "--select", "4", "--samples", "1")
    told, kept = json.loads(first.stdout), json.loads(again.stdout)
    assert kept["samples"] == told["samples"][:1]
    assert (kept["cached"], sum(chunk["selected"] for chunk in kept["chunks"])) == (["text", "index", "samples"], 4)
    (forward,) = (stage for stage in kept["stages"] if stage["name"] == "forward")
    assert (forward["seconds"], forward["cached_tokens"]) == (0, forward["prompt_tokens"])
    for changed in (("--seed", "1"), ("--set", "temperature=0.7"), ("--set", "recall=3"), ("--no-cache",)):
        assert "samples" not in json.loads(fbrag(*command, *changed).stdout)["cached"]


def test_find_tells_the_fate_of_a_passage_across_line_ends(fbrag_cached: Run) -> None:
    row = next(
        row for row in map(json.loads, INQUIRY.with_suffix(".questions.jsonl").read_text().splitlines()) if row["id"] == "t01"
    )
    done = fbrag_cached("explain", INQUIRY, QUESTION, "--find", " ".join(row["evidence"][1].split()), *FAST)
    told = done.stdout.replace(str(INQUIRY), "inquiry.txt")
    assert re.match(r"inquiry\.txt:\d+-\d+: .*selected.* \(rank \d+ of 36; question #\d+, samples #\d+\)\n", told)
    missing = fbrag_cached("explain", INQUIRY, QUESTION, "--find", "no such words here", *FAST)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "no chunk contains" in missing.stderr


def test_what_the_large_model_reads_is_listed_and_found(fbrag_cached: Run) -> None:
    models = ("--small", "smollm2-135m", "-m", "smollm2-135m")
    looking = ("--set", "recall=1", "--samples", "2", "--set", "forward-tokens=24")
    asked = ("explain", INQUIRY, QUESTION, "-n", "3", *looking, *models)
    told, text = json.loads(fbrag_cached(*asked, "--json").stdout), INQUIRY.read_text("utf-8")
    read = [text[start:end] for chunk in told["chunks"] for start, end in chunk["read"]]
    n_words = sum(len(part.split()) for part in read)
    assert 620 <= n_words <= 780, "a chunk, and 400 words of windows"
    done = fbrag_cached(*asked)
    *rows, total = done.stdout.split("\n\n")[1].splitlines()[1:]
    assert sorted(int(row.split()[0]) for row in rows) == sorted(len(part.split()) for part in read)
    assert total == f"{len(read)} excerpts, {n_words} words for the large model"
    n_selected = sum(chunk["selected"] for chunk in told["chunks"])
    assert f"{n_words} words of {n_selected} chunks read" in fbrag_cached(*asked, "-v").stderr
    assert fbrag_cached(*asked, "--dry-run").stdout.endswith(
        " 36 chunks: 1 to retrieve, 2 forward samples, 400 words of windows to read\n"
    )
    chunk = next(chunk for chunk in told["chunks"] if chunk["selected"] and chunk["start_char"] < chunk["read"][0][0] - 40)
    unread = text[chunk["start_char"] : chunk["read"][0][0] - 1]
    assert fbrag_cached(*asked, "--find", unread).stdout.count(": selected, not read (") == 1
    assert fbrag_cached(*asked, "--find", read[0]).stdout.count(": selected, read") == 1


def test_one_chunk_shows_its_terms_and_its_text(fbrag_cached: Run) -> None:
    done = fbrag_cached("explain", INQUIRY, QUESTION, "--chunk", "1", *FAST)
    assert done.stdout.startswith("chunk 1 of 36")
    assert INQUIRY.read_text("utf-8").split("\n")[0] in done.stdout
    assert fbrag_cached("explain", INQUIRY, QUESTION, "--chunk", "99", *FAST).returncode == 2


def test_samples_and_prompts_are_shown_when_asked_for(fbrag_cached: Run) -> None:
    done = fbrag_cached("explain", INQUIRY, QUESTION, "--show-samples", "-n", "1", *FAST)
    assert len(re.findall(r"^forward samples? \d.* · best match: lines ", done.stdout, re.MULTILINE)) == 2
    prompts = fbrag_cached("explain", INQUIRY, QUESTION, "--show-prompt", *FAST, "-m", "smollm2-135m").stdout
    assert prompts.count("<|im_start|>user") == 2
    assert prompts.count(f"Question: {QUESTION}") == 2


def test_what_shapes_the_answer_shapes_its_prompt(fbrag_cached: Run) -> None:
    command = ("explain", INQUIRY, QUESTION, "--method", "vanilla", "-m", "smollm2-135m", "--show-prompt")
    assert (
        "in one word"
        in fbrag_cached(*command, "--instructions", "in one word", "--max-tokens", "9", "--allow-unsupported").stdout
    )
    assert "in one word" not in fbrag_cached(*command).stdout


def test_a_dry_run_and_the_exit_code_are_those_of_ask(fbrag_cached: Run) -> None:
    planned = fbrag_cached("explain", INQUIRY, QUESTION, "--dry-run", "--select", "4")
    assert planned.stdout == fbrag_cached("ask", INQUIRY, QUESTION, "--dry-run", "--select", "4").stdout
    assert planned.returncode == 0
    sought = ("explain", INQUIRY, QUESTION, "--method", "vanilla", "--find", "no such words here")
    assert [fbrag_cached(*sought).returncode, fbrag_cached(*sought, "--exit-zero").returncode] == [1, 0]


def test_text_is_the_decoded_document_with_line_numbers(fbrag_cached: Run) -> None:
    done = fbrag_cached("text", INQUIRY)
    lines = INQUIRY.read_text("utf-8").split("\n")
    assert [line[len(str(len(lines))) :].strip() for line in done.stdout.splitlines()] == [line.strip() for line in lines]
    assert done.stdout.splitlines()[9].split()[0] == "10"


def test_texts_of_several_documents_have_their_names_and_may_go_to_a_file(fbrag: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The brig sailed at noon.\n", "utf-8")
    (tmp_path / "b.txt").write_text("The keeper stayed.\n", "utf-8")
    done = fbrag("text", tmp_path / "a.txt", tmp_path / "b.txt", "-o", tmp_path / "both.out")
    assert (done.returncode, done.stdout) == (0, "")
    assert re.findall(r"=== .*([ab]\.txt)\n *1 +(\w+ \w+)", (tmp_path / "both.out").read_text("utf-8")) == [
        ("a.txt", "The brig"),
        ("b.txt", "The keeper"),
    ]
    twice = fbrag("text", "-", "--password-file", "-")
    assert (twice.returncode, twice.stdout) == (2, "")


def on_terminal(columns: int, environment: dict[str, str], *arguments: object) -> list[str]:
    """The lines that a command prints on a terminal of `columns`, without escapes."""
    from tests.cli.screen import open_terminal, read

    master, slave = open_terminal(columns, 50)
    command = [sys.executable, "-m", "fbrag_cli", *map(str, arguments)]
    shown = b""
    with subprocess.Popen(command, stdout=slave, stderr=subprocess.DEVNULL, env=environment):
        os.close(slave)
        while piece := read(master):
            shown += piece
    return re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;;[!-~]*\x1b\\", "", shown.decode()).replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_the_table_fits_the_width_of_the_terminal(columns: int, module_environment: dict[str, str], fbrag_cached: Run) -> None:
    shown = on_terminal(columns, module_environment, "explain", INQUIRY, QUESTION, "--method", "vanilla")
    assert ("chunk" in shown[0].split()) == (columns >= 80)
    assert max(map(len, shown)) <= columns
    assert all(re.search(r" \d+-\d+ +\w", line) for line in shown[1:5])
    whole = fbrag_cached("explain", INQUIRY, QUESTION, "--method", "vanilla").stdout.splitlines()
    assert whole[0].split() == ["score", "question", "words", "chunk", "lines", "starts", "with"]
    assert (
        [line.split()[:2] for line in whole[1:6]]
        == [line.split()[:2] for line in shown[1:6]]
        == [[f"{i}", "*"] for i in range(1, 6)]
    )


def test_find_works_over_the_end_of_a_chunk_and_with_json(fbrag_cached: Run) -> None:
    vanilla = ("explain", INQUIRY, QUESTION, "--method", "vanilla", "--chunk-words", "50")
    words = INQUIRY.read_text("utf-8").split()
    sought = ("--find", " ".join(words[45:55]))
    assert len(fbrag_cached(*vanilla, *sought).stdout.splitlines()) == 2
    told = json.loads(fbrag_cached(*vanilla, *sought, "--json").stdout)
    assert [chunk["chunk"] for chunk in told["chunks"] if chunk["contains_text"]] == [1, 2]
    missing = fbrag_cached(*vanilla, "--find", "no such words here", "--json")
    assert missing.returncode == 1
    assert not any(chunk["contains_text"] for chunk in json.loads(missing.stdout)["chunks"])


def test_one_chunk_is_not_called_chunks(fbrag_cached: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The keeper is Tamsin Vale.")
    asked = (tmp_path / "a.txt", "Who keeps the lamp?")
    shown = fbrag_cached("explain", "-v", *asked, "--method", "vanilla")
    assert "1 chunk: 1 selected" in shown.stderr
    assert "1 chunk" in (refused := fbrag_cached("explain", *asked, "--method", "vanilla", "--chunk", "2").stderr)
    assert "1 chunk: " in (planned := fbrag_cached("ask", *asked, "--dry-run").stdout)
    assert "1 chunks" not in shown.stderr + refused + planned


@pytest.mark.parametrize(
    "command",
    [
        ("ask", "x\x9b31m\u202e\U000e0041.txt", "Who?", "--json"),
        ("models", "list", "--json"),
        ("cache", "size", "--json"),
        ("config", "show", "--config", "x\x9b31m\u202e.toml", "--json"),
        ("doctor", "--config", "x\x9b31m\u202e.toml", "--json", "--offline", "--skip-gpu"),
    ],
)
def test_no_json_carries_what_a_terminal_would_obey(command: tuple[str, ...], fbrag: Run, tmp_path: Path) -> None:
    hostile = tmp_path / "x\x9b31m\u202e"
    folders = {"FBRAG_CACHE_DIR": str(hostile / "cache"), "FBRAG_MODELS_DIR": str(hostile / "models")}
    (tmp_path / "x\x9b31m\u202e.toml").write_text("")
    done = fbrag(*command, env=folders)
    assert not re.search(r"[\x7f-\x9f\u202a-\u202e\U000e0000-\U000e007f]", done.stdout + done.stderr)
    assert "x\x9b31m\u202e" in json.dumps(json.loads(done.stdout), ensure_ascii=False)


def test_a_chunk_says_in_which_sections_it_begins_and_ends(fbrag: Run, tmp_path: Path) -> None:
    """Slides are short: a chunk holds several."""
    deck = tmp_path / "deck.pptx"
    titles = [shape(title, kind="title") + shape(text) for title, text in (("Cost", "It costs 40."), ("Date", "Due in May."))]
    deck.write_bytes(pptx(titles))
    (chunk,) = json.loads(fbrag("explain", "--json", "--method", "order-preserving", deck, "When is it due?").stdout)["chunks"]
    assert [chunk[key].partition(": ")[2] for key in ("section", "last_section")] == ["Cost", "Date"]
