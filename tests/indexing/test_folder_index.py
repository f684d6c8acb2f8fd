from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from fbrag_cli.corpus import Corpus
from fbrag_cli.documents.document import Content
from fbrag_cli.documents.source import read_source
from fbrag_cli.indexing.collect import collect_one
from fbrag_cli.indexing.entry import ReadSettings, file_key, load_content, make_entry, save_entry
from fbrag_cli.indexing.folder_index import FolderFile, folder_index_key, load_folder_index, make_folder_index
from fbrag_cli.indexing.store import IndexStore
from fbrag_cli.progress import Listener
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.storage.cache import Cache
from fbrag_cli.text.words import terms

TEXTS = st.lists(
    st.lists(st.sampled_from("ship storm harbour captain café 北京 the of 1893".split()), min_size=1, max_size=40).map(" ".join),
    min_size=1,
    max_size=5,
)
WORDS_A_CHUNK = 4


def indexed(folder: Path, texts: list[str]) -> tuple[Corpus, BM25]:
    folder.mkdir(exist_ok=True)
    store, reading = IndexStore(Cache(folder / "cache")), ReadSettings(WORDS_A_CHUNK, language="en")
    paths = [str(folder / f"{i}.txt") for i in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        Path(path).write_text(text, "utf-8")
    return indexed_paths(paths, reading, store)


def indexed_paths(paths: list[str], reading: ReadSettings, store: IndexStore) -> tuple[Corpus, BM25]:
    members = []
    for path in paths:
        source = read_source(path)
        members.append(FolderFile(file_key(source, reading), path))
        save_entry(members[-1].key, make_entry(source, reading), store)
    make_folder_index(members, reading.chunk_words, store, lambda done, total: None)

    def content_of(key: str, path: str) -> Content:
        found = load_content(key, store)
        assert found is not None
        return found

    found = load_folder_index(folder_index_key(members), paths, store, content_of)
    assert found is not None
    return found


@settings(max_examples=40, deadline=None)
@given(TEXTS, TEXTS.map(" ".join))
def test_a_folder_scores_as_rank_bm25_does_over_all_its_chunks(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], question: str
) -> None:
    corpus, retriever = indexed(tmp_path_factory.mktemp("folder"), texts)
    chunk_terms = [terms(chunk.text) for chunk in corpus.chunks]
    if not any(chunk_terms):
        assert not retriever.scores(question).any()
        return
    expected = BM25Okapi(chunk_terms).get_scores(terms(question))
    np.testing.assert_allclose(retriever.scores(question), expected, rtol=1e-5, atol=1e-5)
    assert [chunk.document.path for chunk in corpus.chunks] == sorted(chunk.document.path for chunk in corpus.chunks)
    assert all(chunk.text == chunk.document.text[chunk.start : chunk.end] for chunk in corpus.chunks)
    assert sum(map(corpus.words_of, range(len(texts)))) == sum(len(text.split()) for text in texts) == corpus.n_words


def test_a_file_scores_the_same_alone_and_in_a_indexed_paths_one(tmp_path: Path, shared: Path) -> None:
    text = (shared / "books" / "pride-and-prejudice.txt").read_text("utf-8")
    _, in_folder = indexed(tmp_path, [text])
    alone = collect_one(
        str(tmp_path / "0.txt"), ReadSettings(WORDS_A_CHUNK, language="en"), Cache(tmp_path / "other"), None, Listener()
    ).retriever
    for question in ("Whom does Mr. Collins marry?", "the sister of Mr. Darcy at Pemberley, Georgiana, and Wickham", "of the"):
        assert np.array_equal(alone.scores(question), in_folder.scores(question))


def test_function_words_of_a_question_do_not_raise_documents_of_another_language(tmp_path: Path) -> None:
    french = "Le phare est sur la côte, et la mer est grise. « The Storm of the Century » est le titre de la carte. " * 3
    english = "Agnes Moor was the keeper of the lighthouse, and the lamp of it was her care. She kept it until the war. " * 3
    german = "Die Wärterin des Leuchtturms hieß Agnes Moor, und die Lampe war ihre Sorge. Sie blieb bis zum Krieg. " * 3
    folder = tmp_path / "p"
    folder.mkdir()
    paths = [str(folder / name) for name in ("fr.txt", "en.txt", "de.txt")]
    for path, text in zip(paths, (french, english, german), strict=True):
        Path(path).write_text(text, "utf-8")
    corpus, retriever = indexed_paths(paths, ReadSettings(300), IndexStore(Cache(tmp_path / "cache")))
    assert corpus.languages == ("fr", "en", "de")
    scores = retriever.scores("Who was the keeper of the lighthouse before the war?")
    assert scores[0] == 0 < scores[1]
    assert retriever.scores("Wie hieß die Wärterin des Leuchtturms?")[2] > 0
