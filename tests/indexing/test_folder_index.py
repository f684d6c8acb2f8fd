from hashlib import sha256
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fbrag_cli.corpus import Corpus, texts_for
from fbrag_cli.documents.document import Content
from fbrag_cli.documents.source import read_source
from fbrag_cli.indexing.collect import collect_one
from fbrag_cli.indexing.entry import ReadSettings, file_key, load_content, make_entry, save_entry
from fbrag_cli.indexing.folder_index import FolderFile, folder_index_key, load_folder_index, make_folder_index
from fbrag_cli.indexing.store import IndexStore
from fbrag_cli.methods.ranking import top_unique_chunks
from fbrag_cli.progress import Listener
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.storage.cache import Cache
from fbrag_cli.text.words import terms
from tests.conftest import INQUIRY
from tests.retrieval.test_bm25 import okapi

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
        save_entry(members[-1].key, make_entry(source, reading, lambda source, numbers: {}), store)
    make_folder_index(members, reading.chunk_words, store, lambda done, total: None)

    def content_of(key: str, path: str) -> Content:
        found = load_content(key, store)
        assert found is not None
        return found

    found = load_folder_index(folder_index_key(members), paths, store, content_of)
    assert found is not None
    return found


@settings(max_examples=40)
@given(TEXTS, TEXTS.map(" ".join))
def test_a_folder_scores_as_rank_bm25_does_over_all_its_chunks(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], question: str
) -> None:
    corpus, retriever = indexed(tmp_path_factory.mktemp("folder"), texts)
    chunk_terms = [terms(chunk.text) for chunk in corpus.chunks]
    if not any(chunk_terms):
        assert not retriever.scores(question).any()
        return
    expected = okapi(chunk_terms).get_scores(terms(question))
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


def named(folder: Path, files: dict[str, str]) -> tuple[Corpus, BM25]:
    """The folder index of files by their names."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    paths = [str(folder / name) for name in files]
    return indexed_paths(paths, ReadSettings(300, language="en"), IndexStore(Cache(folder / "cache")))


def ranking(corpus: Corpus, retriever: BM25, question: str) -> list[str]:
    return [corpus.chunks[position].document.label for position in best(retriever.scores(question), 3)]


NOTES = {
    "People/Orla Finch.md": "Phone: 555-0142\nWorks at the tannery.",
    "People/Ines Varga.md": "Phone: 555-0119\nWorks at the mill.",
    "People/Bram Teale.md": "Phone: 555-0177\nAsk for the Finch account.",
    "2024-03-12 visit.md": "The roof leaks above the kitchen.",
    "2025-12-01 visit.md": "The roof is mended above the kitchen.",
}


def test_the_name_of_a_file_counts_in_each_of_its_chunks(tmp_path: Path) -> None:
    corpus, retriever = named(tmp_path, NOTES)
    assert ranking(corpus, retriever, "What is Orla Finch's phone number?")[0] == "People/Orla Finch.md"
    assert ranking(corpus, retriever, "What was seen on the visit in March 2024?")[0] == "2024-03-12 visit.md"
    assert ranking(corpus, retriever, "What was seen on the visit of 2025-12?")[0] == "2025-12-01 visit.md"
    assert retriever.missing_terms("What is Orla's phone?") == ()
    assert retriever.missing_terms("Who is Mira?") == ("Mira",)
    first = corpus.chunks[0]
    assert texts_for("Who?", [[first]]) == ["People/Orla Finch.md\nPhone: 555-0142\nWorks at the tannery."]
    assert first.text_with_header == first.text == NOTES["People/Orla Finch.md"]
    windows = [corpus.chunks[position] for position in range(3)]
    assert retriever.excerpt_scores(["Orla Finch"], windows)[0].argmax() == 0


def test_a_name_counts_as_one_occurrence_and_no_word_is_worth_less_for_it(tmp_path: Path) -> None:
    storm = "The storm broke the mast, and the harbour was closed."
    calm = "The mast was whole, and the harbour was open for the fleet."
    rest = {f"{i}.txt": f"The gulls of day {i} slept on the pier." for i in range(6)}
    _, plain = named(tmp_path / "plain", {"1a.txt": storm, "2a.txt": calm, **rest})
    corpus, retriever = named(tmp_path / "named", {"storm.txt": storm, "2a.txt": calm, **rest})
    assert corpus.documents[0].name_terms == ("storm",)
    for question in ("Was the harbour closed?", "gulls on the pier"):
        assert np.array_equal(plain.scores(question), retriever.scores(question))
    before, after = plain.scores("storm")[0], retriever.scores("storm")[0]
    assert before < after < 2 * before  # as much as to say it twice


BAD_NAMES = {
    "downloads": [f"download ({i}).txt" for i in range(8)],
    "scans": [f"scan{i:04}.txt" for i in range(8)],
    "photographs": [f"IMG_{2301 + i}.txt" for i in range(8)],
    "hashes": [f"{sha256(bytes([i])).hexdigest()}.txt" for i in range(8)],
    "identifiers": [f"{UUID(int=i * 7**40)}.txt" for i in range(8)],
    "counters": [f"{i}.txt" for i in range(8)],
    "copies": [f"Copy of Copy of Document ({i}).txt" for i in range(8)],
    "dates that are uncertain": [f"0{i + 1}-04-25.txt" for i in range(8)],
    "times": [f"{i}12345.6789.txt" for i in range(8)],
    "shouted": [f"FINAL_v{i}_FINAL.txt" for i in range(8)],
}


@pytest.mark.parametrize("kind", BAD_NAMES)
def test_names_that_say_nothing_change_no_score(tmp_path: Path, kind: str) -> None:
    texts = [
        "The scan of the document was final, and a copy was sent in April 2025.",
        "A download of the photograph took two hours.",
        *(f"The keeper wrote {i} letters to the harbour office in the winter of 19{i}0." for i in range(1, 7)),
    ]
    corpus, retriever = named(tmp_path / "named", dict(zip(BAD_NAMES[kind], texts, strict=True)))
    _, plain = named(tmp_path / "plain", {f"{i}": text for i, text in enumerate(texts)})
    assert not any(document.name_terms for document in corpus.documents)
    for question in ("When was the final copy of the document sent?", "Who wrote to the harbour office in 1940?", "IMG 2303"):
        assert np.array_equal(retriever.scores(question), plain.scores(question))


def test_bad_names_of_several_kinds_leave_the_best_chunk_where_it_is(tmp_path: Path) -> None:
    texts = [" ".join(each.split()) for each in INQUIRY.read_text("utf-8").split("\n\n") if len(each.split()) > 40][:10]
    names = [each[i] for i, each in enumerate([*BAD_NAMES.values()][:8])] + ["Untitled document.txt", "New folder.txt"]
    _, retriever = named(tmp_path / "named", dict(zip(names, texts, strict=True)))
    _, plain = named(tmp_path / "plain", {f"{i}": text for i, text in enumerate(texts)})
    for text in texts:
        for question in (text[:120], " ".join(text.split()[20:32])):
            assert best(retriever.scores(question), 1) == best(plain.scores(question), 1)


def test_copies_are_known_whatever_their_files_are_called(tmp_path: Path) -> None:
    leave = "Each employee has 24 days of paid leave a year. Leave is asked for in writing."
    rest = {f"{i}.txt": f"The gulls of day {i} slept on the pier in the year." for i in range(6)}
    corpus, retriever = named(tmp_path, {"handbook 2021.md": leave, "handbook 2024.md": leave.replace(" ", "\n", 3), **rest})
    scores = retriever.scores("How many days of leave does the handbook of 2024 give?")
    assert scores[1] > scores[0] > 0
    assert top_unique_chunks(corpus, scores, 1) == {1: (0,)}


def test_a_folder_of_one_file_is_read_as_the_file(tmp_path: Path) -> None:
    corpus, _ = named(tmp_path, {"Orla Finch.md": NOTES["People/Orla Finch.md"]})
    alone = collect_one(str(tmp_path / "Orla Finch.md"), ReadSettings(300, language="en"), Cache(tmp_path), None, Listener())
    assert texts_for("Who?", [[corpus.chunks[0]]]) == [corpus.chunks[0].text]
    assert corpus.fingerprint == alone.corpus.fingerprint
