"""--prompts: LongBench's form and the paper's, what is told to a model, and files that are neither."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.prompts import Task, Templates, asking, filled, read_prompt_file
from fbrag_cli.indexing.collect import collect_text
from fbrag_cli.methods.alone import ClosedBook, GenRead, Refeed
from fbrag_cli.methods.fb_rag.baselines import LongContext, SelfRoute, Vanilla
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.fit_rag.method import FitRag
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.prompts import forward_messages
from fbrag_cli.methods.r2ag.method import R2Ag
from fbrag_cli.query import Query
from fbrag_cli.trace import Trace

LONGBENCH = {
    "musique": "Read.\n\n{context}\n\nAnswer.\n\nQuestion: {input}\nAnswer:",
    "lcc": "Complete the code.\n{context}Next line of code:\n",
}


def written(tmp_path: Path, value: object) -> str:
    path = tmp_path / "prompts.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return str(path)


def asked(method: Method, texts: Sequence[str], question: str, *, whole: bool = False) -> str:
    """Return the prompt of Stage III of a method that reads the chunks `texts`. whole: of what it does when it declines."""
    document = Document.of("d", "d", Extracted(Content("\n".join(texts) or "Unread."), "text/plain"))
    collection = collect_text(document, len("".join(texts[:1]).split()) or 1)
    trace = Trace.start(Query(question, collection, method)).reading(collection.corpus.chunks if texts else ())
    if whole:
        method, trace = method.fallback(trace) or (method, trace)
    (message,) = method.messages(trace)
    return message.text


def test_longbenchs_form_replaces_the_answer_prompt_and_nothing_else(tmp_path: Path) -> None:
    task = read_prompt_file(written(tmp_path, LONGBENCH)).of("musique_e")
    method = asking(FBRag(), task)
    assert isinstance(method, FBRag)
    text = asked(method, ["One {input}.", "Two more."], "Who {context}?")
    assert text == "Read.\n\nOne {input}.\n\nTwo more.\n\nAnswer.\n\nQuestion: Who {context}?\nAnswer:"
    assert method.forward_messages("b", ["a"], "en") == forward_messages(["a"], "b")
    assert (method.max_tokens, method.order) == (FBRag().max_tokens, "document")  # its two prompts begin otherwise
    assert asking(FBRag(), Task()) == FBRag()


def test_the_papers_prompts_and_limits(shared: Path) -> None:
    """FB-RAG, Tables 4 to 6: musique has 32 new tokens, forward samples 64 more."""
    file = read_prompt_file(str(shared / "bench" / "paper_prompts.json"))
    method = asking(FBRag(), file.of("musique"))
    assert isinstance(method, FBRag)
    assert (method.max_tokens, method.forward_tokens) == (32, 96)
    routed = asking(SelfRoute(), file.of("musique"))
    assert method.forward_messages("Q?", ["C"], "en")[-1].text.endswith("Question: Q?\nRationale:")
    for text, end in (
        (asked(method, ["C"], "Q?"), "Question: Q?\nAnswer:"),
        (asked(routed, ["C"], "Q?"), 'write "unanswerable".\n\nQuestion: Q?\nAnswer:'),
        (asked(routed, ["C"], "Q?", whole=True), "Question: Q?\nAnswer:"),
    ):
        assert text.endswith(end)
        assert "{" not in text
        assert "unanswerable" in text or "unanswerable" not in end
    choice = asking(FBRag(), file.of("longbook_choice_eng"), ("x", "y"))
    assert asked(choice, ["C"], "Q?").endswith("Question: Q?\nA. x\nB. y\n\nAnswer:")


@pytest.mark.parametrize("kind", [ClosedBook, GenRead, Refeed, Vanilla, LongContext, FitRag, R2Ag])
def test_choices_stand_in_the_prompts_of_every_method(kind: type[Method]) -> None:
    method = asking(kind(), Task(), ("x", "y"))
    assert isinstance(method, kind)
    assert replace(method, seed=3).described() == {**method.described(), "seed": 3}
    text = asked(method, ["One more."], "Q?")
    assert text.endswith("Question: Q?\nA. x\nB. y")


def test_a_prompt_without_a_context_stays_ours() -> None:
    method = asking(ClosedBook(), Task(Templates(answer="Read {context} for {input}.")))
    assert asked(method, [], "Q?").startswith("Answer the question.")


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
    assert filled("{{x}} {context}", ["c"], "q").text == "{x} c"


@pytest.mark.parametrize(
    ("value", "dataset", "told"),
    [
        ("{", None, "is not JSON"),
        ("[1]", None, "not an object"),
        ({}, None, "it has no prompts"),
        ({"a": "{input}"}, None, "a prompt without {context}"),
        ({"a": ""}, None, "a prompt without {context}"),
        ({"a": "{context} {question}"}, None, "{question} is not one of"),
        ({"a": "{context} {"}, None, "a: "),
        ({"a": 1}, None, "neither a text nor an object of texts"),
        ({"prompts": {"a": {"reply": "{context}"}}}, None, "'reply' is not one of answer"),
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
