"""Dense retrieval: what is kept, what is embedded again, and what a real encoder finds that words do not."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.llama.encoder import LlamaEmbedder
from fbrag_cli.generation.llama.weights import Loading
from fbrag_cli.indexing.embeddings import embed_corpus
from fbrag_cli.installation import extra
from fbrag_cli.methods.fb_rag.fb_rag import FBRag, score
from fbrag_cli.progress import Event, silent
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.retrieval.dense import Dense
from fbrag_cli.retrieval.sentence_model import SentenceModel
from fbrag_cli.storage.cache import Cache
from tests.conftest import needs
from tests.retrieval import minilm


class Counting:
    """An embedder that counts the texts it is given, and can fail after some."""

    name = "counting"

    def __init__(self, key: str = "00", fails_after: int = 10**9) -> None:
        self.key, self._left = key, fails_after
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        self.texts += texts
        if len(self.texts) > self._left:
            raise KeyboardInterrupt
        seeds = [int(sha256(text.encode()).hexdigest()[:8], 16) for text in texts]
        vectors = np.stack([np.random.default_rng(seed).normal(size=8) for seed in seeds])
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def document(name: str, n_words: int, sha256: str = "") -> Document:
    return Document.of(name, name, Extracted(Content(" ".join(f"{name}{i}" for i in range(n_words))), "text/plain"), sha256)


def corpus(*documents: Document) -> Corpus:
    return build_corpus(documents, 10)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def test_embeddings_are_those_of_the_chunks_in_their_order(cache: Cache) -> None:
    asked = corpus(document("a", 3005), document("b", 12), document("c", 5))
    expected = Counting().embed([chunk.text for chunk in asked.chunks], query=False)
    for _ in range(2):  # computed, and kept
        np.testing.assert_array_equal(embed_corpus(asked, Counting(), cache), expected)


def test_scores_are_cosines_with_the_text(cache: Cache) -> None:
    asked, embedder = corpus(document("a", 50)), Counting()
    dense = Dense(embedder, embed_corpus(asked, embedder, cache))
    scores = dense.scores(asked.chunks[3].text)
    assert scores.dtype == np.float32
    assert scores.argmax() == 3
    assert scores[3] == pytest.approx(1, abs=1e-5)
    assert not dense.scores(" \n").any()


def test_a_folder_embeds_only_the_file_that_changed(cache: Cache) -> None:
    embed_corpus(corpus(document("a", 40), document("b", 40)), Counting(), cache)
    again = Counting()
    embed_corpus(corpus(document("b", 40), document("c", 20), document("a", 40)), again, cache)
    assert [text.split()[0] for text in again.texts] == ["c0", "c10"]


def test_other_chunks_and_other_models_are_embedded_anew(cache: Cache) -> None:
    one = document("a", 40)
    embed_corpus(corpus(one), Counting(), cache)
    for asked, key, n in ((build_corpus([one], 20), "00", 2), (corpus(one), "01", 4)):
        other = Counting(key)
        embed_corpus(asked, other, cache)
        assert len(other.texts) == n


def test_a_document_read_otherwise_is_embedded_anew(cache: Cache) -> None:
    """The same file, of which other pages were read, of as many characters."""
    embed_corpus(corpus(document("a", 40, "f" * 64)), Counting(), cache)
    other = Counting()
    embed_corpus(corpus(document("b", 40, "f" * 64)), other, cache)
    assert len(other.texts) == 4


def test_the_same_text_with_other_headers_is_embedded_anew(cache: Cache) -> None:
    asked = corpus(document("a", 40))
    embed_corpus(asked, Counting(), cache)
    other = Counting()
    embed_corpus(replace(asked, documents=(replace(asked.documents[0], name="a.csv"),)), other, cache)
    assert len(other.texts) == 4


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of open files")
def test_a_folder_of_more_files_than_may_be_open_comes_from_the_cache(cache: Cache) -> None:
    import resource

    asked = corpus(*(document(f"d{i}-", 10) for i in range(60)))
    expected = embed_corpus(asked, Counting(), cache)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(free := os.dup(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 20, before[1]))
    try:
        again = Counting()
        np.testing.assert_array_equal(embed_corpus(asked, again, cache), expected)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert again.texts == []


def test_equal_documents_are_embedded_once(cache: Cache) -> None:
    embedder = Counting()
    embeddings = embed_corpus(corpus(document("a", 40), document("a", 40)), embedder, cache)
    assert len(embedder.texts) == 4
    np.testing.assert_array_equal(embeddings[:4], embeddings[4:])


def test_a_run_that_was_broken_off_goes_on(cache: Cache) -> None:
    asked = corpus(document("a", 6000))
    with pytest.raises(KeyboardInterrupt):
        embed_corpus(asked, Counting(fails_after=500), cache)
    rest = Counting()
    embed_corpus(asked, rest, cache)
    assert len(rest.texts) == 600 - 256


def test_progress_tells_the_chunks_of_the_corpus(cache: Cache) -> None:
    events: list[Event] = []
    embed_corpus(corpus(document("a", 1000)), Counting(), cache)
    embed_corpus(corpus(document("a", 1000), document("b", 1000)), Counting(), cache, events.append)
    assert {event.stage for event in events} == {"embed"}
    assert [(event.kind, event.done, event.total) for event in events] == [
        ("start", 100, 200),
        ("progress", 164, 200),
        ("progress", 200, 200),
        ("done", 200, 200),
    ]
    embed_corpus(corpus(document("a", 1000)), Counting(), cache, events.append)
    assert len(events) == 4


def test_a_damaged_entry_is_embedded_again(cache: Cache) -> None:
    asked = corpus(document("a", 40))
    expected = embed_corpus(asked, Counting(), cache)
    for entry in cache.entries("embeddings"):
        entry.path.write_bytes(entry.path.read_bytes()[:-8])
    np.testing.assert_array_equal(embed_corpus(asked, Counting(), cache), expected)


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    asked = corpus(document("a", 40))
    assert embed_corpus(asked, Counting(), Cache(tmp_path / "file" / "cache")).shape == (4, 8)


def test_an_empty_corpus_has_no_scores(cache: Cache) -> None:
    assert Dense(Counting(), embed_corpus(corpus(), Counting(), cache)).scores("whales").shape == (0,)


def test_negative_cosines_keep_their_order() -> None:
    backward, forward = np.float32([-0.2, -0.1, 0.3]), np.float32([[-0.4, -0.3, -0.2]])
    assert score(backward, forward, FBRag()).combined.argsort().tolist() == [0, 1, 2]


# -- with real encoders ------------------------------------------------------------------------------------------------------

KEEPERS = [
    "At nightfall the lighthouse was illuminated by its guard.",
    "Interest rates rose again in the third quarter.",
    "The recipe wants two eggs and a pound of flour.",
]


@pytest.fixture(scope="module")
def files(pytestconfig: pytest.Config) -> Path:
    return minilm.fetched(pytestconfig)


@pytest.fixture(scope="module")
def sentence_model(files: Path) -> SentenceModel:
    needs("sentence_transformers")
    return SentenceModel(str(files / "all-MiniLM-L6-v2"))


def test_a_chunk_is_found_that_shares_no_word_with_the_question(files: Path, cache: Cache) -> None:
    made = [Document.of(str(i), str(i), Extracted(Content(text), "text/plain")) for i, text in enumerate(KEEPERS)]
    asked, question = corpus(*made), "What did bankers charge for a loan?"
    assert not BM25.of(asked).scores(question).any()
    with LlamaEmbedder(files / "all-MiniLM-L6-v2.gguf", Loading(threads=1)) as embedder:
        assert Dense(embedder, embed_corpus(asked, embedder, cache)).scores(question).argmax() == 1


def test_both_engines_agree(files: Path, sentence_model: SentenceModel) -> None:
    """Short texts, long ones with several windows, and other scripts."""
    texts = [*KEEPERS, "Der Leuchtturmwärter – naïve Übermut", "東京は日本の首都です。", " ".join(KEEPERS * 20), "storm " * 700]
    with LlamaEmbedder(files / "all-MiniLM-L6-v2.gguf", Loading(threads=1)) as embedder:
        agreement = (embedder.embed(texts, query=False) * sentence_model.embed(texts, query=False)).sum(axis=1)
    assert agreement.min() > 0.999


def test_the_end_of_a_text_beyond_the_window_counts(sentence_model: SentenceModel) -> None:
    calm = "The harbour was empty and the sea was calm. " * 60
    plain, ended, whale = sentence_model.embed([calm, calm + "Then a white whale sank the ship.", "a white whale"], query=False)
    assert float(ended @ whale) > float(plain @ whale) + 0.02


def test_the_key_of_a_folder_is_by_its_content(files: Path, sentence_model: SentenceModel, tmp_path: Path) -> None:
    copy = shutil.copytree(files / "all-MiniLM-L6-v2", tmp_path / "copy")
    assert SentenceModel(str(copy)).key == sentence_model.key
    (copy / "config_sentence_transformers.json").write_text('{"prompts": {"query": "ask: ", "document": "told: "}}')
    prompted = SentenceModel(str(copy))
    assert prompted.key != sentence_model.key
    found = np.concatenate([prompted.embed(["whales"], query=True), prompted.embed(["whales"], query=False)])
    np.testing.assert_allclose(found, sentence_model.embed(["ask: whales", "told: whales"], query=False), atol=1e-5)


def test_loading_reaches_no_network_and_says_nothing(
    files: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    needs("sentence_transformers")

    def refuse(*address: object) -> None:
        raise AssertionError(f"a connection to {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    capfd.readouterr()
    SentenceModel(str(files / "all-MiniLM-L6-v2"))
    assert capfd.readouterr() == ("", "")


def test_code_of_a_model_is_not_run(files: Path, tmp_path: Path) -> None:
    needs("sentence_transformers")
    hostile = shutil.copytree(files / "all-MiniLM-L6-v2", tmp_path / "hostile")
    modules = json.loads((hostile / "modules.json").read_text("utf-8"))
    modules[1]["type"] = "hostile.Pooling"
    (hostile / "modules.json").write_text(json.dumps(modules))
    (hostile / "hostile.py").write_text(f"from pathlib import Path\nPath({str(tmp_path / 'was run')!r}).touch()\n")
    with pytest.raises(FbragError) as told:
        SentenceModel(str(hostile))
    assert told.value.code == "model_corrupt"
    assert not (tmp_path / "was run").exists()


def test_a_damaged_folder_is_told_in_one_line(files: Path, tmp_path: Path) -> None:
    needs("sentence_transformers")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(FbragError, match="cannot load") as told:
        SentenceModel(str(tmp_path))
    assert told.value.code == "model_corrupt"
    assert "\n" not in told.value.message


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("BAAI/bge-large-en-v1.5", "hf download BAAI/bge-large-en-v1.5"),
        (
            "all-mpnet-base-v2",
            "--retriever bm25, or if it is a model of sentence-transformers: hf download sentence-transformers/all-mpnet-base-v2",
        ),
        ("../no/such/folder", "name a folder"),
    ],
)
def test_a_model_that_is_not_here_is_told_with_what_helps(
    name: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(FbragError, match=name) as told:
        SentenceModel(name)
    assert (told.value.code, told.value.hint) == ("model_missing", hint)


def test_a_folder_and_a_file_that_are_no_model_are_told(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    for path, told_as in ((tmp_path, "neither"), (tmp_path / "model.gguf", "is a file")):
        with pytest.raises(FbragError, match=told_as) as told:
            SentenceModel(str(path))
        assert told.value.code == "model_missing"


def test_without_the_library_the_command_that_installs_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(FbragError) as told:
        SentenceModel(str(tmp_path))
    assert told.value.code == "model_missing"
    assert str(told.value.hint).endswith(extra("dense"))


def test_excerpts_are_scored_like_chunks(cache: Cache) -> None:
    chunks, embedder = corpus(document("a", 50)), Counting()
    dense = Dense(embedder, embed_corpus(chunks, embedder, cache, silent))
    whole = [*chunks.chunks]
    np.testing.assert_allclose(dense.excerpt_scores(["a7", "a3"], whole), [dense.scores("a7"), dense.scores("a3")], rtol=1e-5)
    assert dense.excerpt_scores(["a7"], []).shape == (1, 0)
