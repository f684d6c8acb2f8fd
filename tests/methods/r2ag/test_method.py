"""R2AG: which chunks are the list, what the model reads before each of them, and which models are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Blend, InputEmbeddings, Message, ModelInfo, Row
from fbrag_cli.methods.method import Tools
from fbrag_cli.methods.r2ag.method import R2Ag, RetrievalInformation, list_words
from fbrag_cli.methods.relevance.former import SHIPPED, R2Former, load
from fbrag_cli.render.as_json import explanation
from fbrag_cli.render.explain_text import table
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.trace import Trace
from tests.conftest import Run
from tests.methods.scripted import Scripted, retrieved, tools

FILLER = "grey water lay flat under low cloud all that watch"
CHUNKS = [FILLER.replace("water", f"water{i}") for i in range(8)]
CHUNKS[2] = "the lantern of the barque was sealed by Tobias Wrenn"
CHUNKS[5] = "the lantern and the man and the seal and lantern"
QUESTION = "Who sealed the lantern?"
SHA256 = "1" * 64
FEATURES = ("relevance", "precedent", "neighbour")
N_EMBD = 4


def corpus_of(chunks: list[str] = CHUNKS, language: str = "en") -> Corpus:
    return build_corpus([Document.of("d", "d", Extracted(Content("\n".join(chunks)), "text/plain"), language=language)], 10)


class Plain(R2Former):
    """Its H are the features as they are."""

    def encoded(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        return features


def former(**changed: Any) -> R2Former:
    """A logistic regression on the relevance alone, whose rows hold the three features and a one."""
    tensors = {
        "match.weight": np.array([[9.0, 0, 0]]),
        "match.bias": np.array([-1.0]),
        "projection.weight": np.eye(N_EMBD, 3),
        "projection.bias": np.eye(N_EMBD)[-1],
    }
    made = Plain(
        tensors={name: tensor.astype(np.float32) for name, tensor in tensors.items()},
        features=FEATURES,
        max_list=6,
        heads=1,
        retriever={"name": "bm25", "key": BM25.key},
        languages=("en",),
        model={"name": "taught", "sha256": SHA256},
        words=list_words(),
    )
    return replace(made, **changed)


def large(sha256: str | None = SHA256) -> Scripted:
    return Scripted(["Tobias Wrenn"], info=ModelInfo("taught", sha256, "0/1", 9999))


def with_parts(corpus: Corpus, model: Scripted, made: R2Former) -> Tools:
    return tools(corpus, large=model, part=made, digest=model.info.sha256)


def answered(corpus: Corpus, model: Scripted, made: R2Former | None = None, **settings: Any) -> Trace:
    method, given = R2Ag(**{"r2ag": "made", "select": 3} | settings), with_parts(corpus, model, made or former())
    method.adapter(given.part, given.digest)  # as a session does to make the large model
    return method.answer(retrieved(method, QUESTION, given), given)


def information(trace: Trace) -> RetrievalInformation:
    assert isinstance(trace.method_state, RetrievalInformation)
    return trace.method_state


def asked_of(model: Scripted) -> list[Message]:
    return [message for (message,), _, _ in model.asked]


def test_each_chunk_of_the_list_stands_behind_its_row_best_first() -> None:
    model = large()
    trace = answered(corpus_of(), model)
    assert trace.selection.ranked[:2] in ((2, 5), (5, 2))
    assert [excerpt.position for excerpt in trace.context] == list(trace.selection.ranked)
    for message in asked_of(model):  # the answer, and the check after it
        parts = message.parts
        rows = [i for i, part in enumerate(parts) if isinstance(part, InputEmbeddings)]
        assert len(rows) == 3
        for n, (i, position) in enumerate(zip(rows, trace.selection.ranked, strict=True)):
            row, words = parts[i], parts[i + 1]
            assert isinstance(row, InputEmbeddings)
            assert isinstance(words, str)
            np.testing.assert_allclose(row.vectors, [[*information(trace).features[n], 1]], atol=1e-6)
            assert words.strip().startswith(CHUNKS[position])
    answering, checking = asked_of(model)
    shared = len(parts_before_the_question(answering))
    assert parts_before_the_question(checking)[:shared] == parts_before_the_question(answering)
    assert "Proposed answer: Tobias Wrenn" in checking.text
    assert (trace.answer, trace.status, trace.verdict.support) == ("Tobias Wrenn", "answered", 1.0)


def parts_before_the_question(message: Message) -> tuple[str | Row, ...]:
    """All that a prompt begins with, up to the last row."""
    return message.parts[:-1]


def test_the_relevance_is_in_the_table_and_in_json() -> None:
    trace = answered(corpus_of(), large())
    shown = explanation(trace, memory_mb=0)
    best, *others = (shown["chunks"][position]["relevance"] for position in trace.selection.ranked)
    assert 1 > best > max(others) > 0
    assert "relevance" not in shown["chunks"][7]
    record = shown["retrieval_information"]
    assert [each["chunk"] - 1 for each in record] == list(trace.selection.ranked)
    assert [each["relevance"] for each in record] == [best, *others]
    assert list(record[0]["features"]) == list(FEATURES)
    header, *lines = table(trace, limit=None, by_position=True, count_tokens=None)
    column = header.split().index("relevance") + 1  # a rank stands beside the backward score
    assert lines[trace.selection.ranked[0]].split()[column + 1] == f"{best:.2f}"
    assert lines[7].split()[column] == "-"


def test_a_chunk_alone_has_no_row() -> None:
    model = large()
    trace = answered(corpus_of(CHUNKS[2:3]), model)
    assert [message.embeddings for message in asked_of(model)] == [(), ()]
    assert (trace.method_state, trace.answer) == (None, "Tobias Wrenn")


def test_a_longer_list_than_was_trained_is_cut_with_a_warning() -> None:
    trace = answered(corpus_of(), large(), select=8)
    assert len(trace.context) == 6
    assert any("lists of 6 chunks" in each for each in trace.warnings)
    assert answered(corpus_of(CHUNKS[:6]), large(), select=8).warnings == ()


def test_another_language_makes_a_warning() -> None:
    assert any("trained on en, not on de" in each for each in answered(corpus_of(language="de"), large()).warnings)


def test_the_adapter_is_that_of_the_parts(tmp_path: Path) -> None:
    lora = tmp_path / "lora.gguf"
    given = with_parts(corpus_of(), large(), former(adapter=lora))
    assert R2Ag(r2ag="made").adapter(given.part, given.digest) == lora


def without_projection(**changed: Any) -> R2Former:
    made = former()
    tensors = {name: tensor for name, tensor in made.tensors.items() if not name.startswith("projection.")}
    return replace(made, tensors=tensors, **changed)


@pytest.mark.parametrize("sha256", [SHA256, "2" * 64, None])
def test_parts_of_no_model_mark_each_chunk_between_two_words_for_every_model_and_server(sha256: str | None) -> None:
    model = large(sha256)
    trace = answered(corpus_of(), model, without_projection(model=None, words=""))
    for message in asked_of(model):  # the answer, and the check after it
        marks = [part for part in message.parts if isinstance(part, Blend)]
        assert [[word for word, _ in mark.words] for mark in marks] == [[" irrelevant", " relevant"]] * 3
        weights = np.array([[weight for _, weight in mark.words] for mark in marks])
        np.testing.assert_allclose(weights.sum(axis=1), 1)
        np.testing.assert_allclose(weights[:, 1], information(trace).relevance, atol=6e-4)
        said = message.blended(lambda blend: blend.word).text
        assert f"[1] similarity: relevant {CHUNKS[trace.selection.ranked[0]]}" in said
        assert f"[3] similarity: irrelevant {CHUNKS[trace.selection.ranked[2]]}" in said


def test_without_a_folder_the_part_in_the_package_says_which_chunks_are_relevant() -> None:
    model = large(None)
    trace = answered(corpus_of(), model, load(SHIPPED), r2ag=None)
    relevance = information(trace).relevance
    assert 1 > relevance[0] > relevance[2] > 0
    assert (trace.answer, trace.warnings) == ("Tobias Wrenn", ())
    R2Ag().check()
    assert R2Ag().described()["r2ag"].startswith("parts ")


def test_ask_answers_at_once(tmp_path: Path, fbrag: Run, smollm2: Path) -> None:
    (tmp_path / "log.txt").write_text("\n\n".join(CHUNKS))
    asked = ("log.txt", QUESTION, "-m", "smollm2-135m", "--method", "r2ag", "--chunk-words", "10", "--select", "2", "--json")
    done = fbrag("ask", *asked, "--max-tokens", "8")
    assert done.returncode in (0, 1), done.stderr
    record = json.loads(done.stdout)["retrieval_information"]
    assert len(record) == 2
    assert all(0 < each["relevance"] < 1 for each in record)
    assert fbrag("explain", *asked[:-1], "--show-prompt").stdout.count("similarity:⟨row⟩ ") == 2


def test_without_a_projection_the_prompts_of_a_trained_model_have_no_rows() -> None:
    model = large()
    trace = answered(corpus_of(), model, without_projection())
    assert [message.embeddings for message in asked_of(model)] == [(), ()]
    assert not any("similarity" in message.text for message in asked_of(model))
    assert (information(trace).rows, len(information(trace).relevance)) == (None, 3)


def test_the_control_gives_each_chunk_the_features_of_another() -> None:
    own = information(answered(corpus_of(), large()))
    shuffled = information(answered(corpus_of(), large(), former(control="shuffled")))
    assert sorted(map(tuple, own.features)) == sorted(map(tuple, shuffled.features))
    assert own.features.tolist() != shuffled.features.tolist()
    assert shuffled.rows is not None
    rows = [row.vectors[0] for row in shuffled.rows if isinstance(row, InputEmbeddings)]
    np.testing.assert_allclose(np.array(rows)[:, :3], shuffled.features, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "made", "settings", "said"),
    [
        (large(), former(words="0"), {}, "another prompt"),
        (large(), former(retriever={"name": "other", "key": "k"}), {}, "for the retriever other"),
        (large("2" * 64), former(), {}, "SHA-256 1111"),
        (large(None), former(), {}, "a server takes no input embeddings"),
    ],
)
def test_what_does_not_fit_is_refused(model: Scripted, made: R2Former, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(FbragError, match=said) as refused:
        answered(corpus_of(), model, made, **settings)
    assert refused.value.code == "usage"
    assert refused.value.hint
