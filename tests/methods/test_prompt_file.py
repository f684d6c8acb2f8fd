"""--prompts: LongBench's form and the paper's, what is told to a model, and files that are neither."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.prompt_file import read_prompt_file
from fbrag_cli.methods.prompts import Templates, answer_messages, forward_messages, self_route_messages

LONGBENCH = {
    "musique": "Read.\n\n{context}\n\nAnswer.\n\nQuestion: {input}\nAnswer:",
    "lcc": "Complete the code.\n{context}Next line of code:\n",
}


def written(tmp_path: Path, value: object) -> str:
    path = tmp_path / "prompts.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return str(path)


def test_longbenchs_form_replaces_the_answer_prompt_and_nothing_else(tmp_path: Path) -> None:
    task = read_prompt_file(written(tmp_path, LONGBENCH)).of("musique_e")
    (message,) = answer_messages(["One {input}.", "Two."], "Who {context}?", templates=task.templates)
    assert message.text == "Read.\n\nOne {input}.\n\nTwo.\n\nAnswer.\n\nQuestion: Who {context}?\nAnswer:"
    assert forward_messages(["a"], "b", task.templates) == forward_messages(["a"], "b")
    assert task.applied(FBRag()).max_tokens == FBRag().max_tokens


def test_the_papers_prompts_and_limits(shared: Path) -> None:
    """FB-RAG, Tables 4 to 6: musique has 32 new tokens, forward samples 64 more."""
    file = read_prompt_file(str(shared / "bench" / "paper_prompts.json"))
    settings = file.of("musique").applied(FBRag())
    assert (settings.max_tokens, settings.forward_tokens) == (32, 96)
    for messages, end in (
        (forward_messages(["C"], "Q?", settings.templates), "Question: Q?\nRationale:"),
        (answer_messages(["C"], "Q?", templates=settings.templates), "Question: Q?\nAnswer:"),
        (self_route_messages(["C"], "Q?", templates=settings.templates), 'write "unanswerable".\n\nQuestion: Q?\nAnswer:'),
    ):
        assert messages[-1].text.endswith(end)
        assert "{" not in messages[-1].text
    choices = answer_messages(["C"], "Q?\nA. x\nB. y", templates=file.of("longbook_choice_eng").templates)
    assert choices[0].text.endswith("Question: Q?\nA. x\nB. y\n\nAnswer:")


def test_a_name_after_the_file_chooses_for_all_data_sets(tmp_path: Path) -> None:
    path = written(tmp_path, LONGBENCH)
    file = read_prompt_file(f"{path}:lcc")
    assert file.of("anything").templates.answer == LONGBENCH["lcc"]
    assert file.label != read_prompt_file(path).label
    only = read_prompt_file(written(tmp_path, {"mine": "{context} {input}"}))
    assert only.of().templates.answer == "{context} {input}"


def test_a_name_with_e_at_its_end_is_that_of_the_file_or_of_longbench_e(tmp_path: Path) -> None:
    path = written(tmp_path, {"my_e": "mine {context}", "lcc": "code {context}", "lcc_e": "short code {context}"})
    assert read_prompt_file(f"{path}:my_e").of().templates.answer == "mine {context}"
    assert read_prompt_file(path).of("lcc_e").templates.answer == "short code {context}"
    path = written(tmp_path, LONGBENCH)
    assert read_prompt_file(f"{path}:musique_e").of().templates.answer == LONGBENCH["musique"]


def test_double_braces_are_braces() -> None:
    assert answer_messages(["c"], "q", templates=Templates("{{x}} {context}"))[0].text == "{x} c"


@pytest.mark.parametrize(
    ("value", "dataset", "told"),
    [
        ("{", None, "is no JSON"),
        ("[1]", None, "not an object"),
        ({}, None, "it has no prompts"),
        ({"a": "{input}"}, None, "a prompt without {context}"),
        ({"a": ""}, None, "a prompt without {context}"),
        ({"a": "{context} {question}"}, None, "{question} is none of"),
        ({"a": "{context} {"}, None, "a: "),
        ({"a": 1}, None, "neither a text nor an object of texts"),
        ({"prompts": {"a": {"reply": "{context}"}}}, None, "'reply' is none of answer"),
        ({"prompts": {"a": "{context}"}, "max_new_tokens": {"a": "32"}}, None, "max_new_tokens, a is not a number"),
        (LONGBENCH, None, "prompts for 2 data sets"),
        (LONGBENCH, "musicue", "no prompt for musicue"),
    ],
)
def test_what_is_no_file_of_prompts_is_refused(tmp_path: Path, value: object, dataset: str | None, told: str) -> None:
    with pytest.raises(FbragError) as caught:
        read_prompt_file(written(tmp_path, value)).of(dataset)
    assert caught.value.code == "usage"
    assert told in caught.value.message
