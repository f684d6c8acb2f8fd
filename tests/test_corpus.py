from hypothesis import given
from hypothesis import strategies as st

from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.text.words import word_spans


def document(text: str, name: str = "d.txt", language: str = "en") -> Document:
    return Document.of(name, name, Extracted(Content(text), "text/plain"), "0" * 64, language)


@given(st.text(alphabet=" \n\tabcé日本-", max_size=400), st.integers(1, 20))
def test_chunks_are_spans_that_hold_every_word_once_in_order(text: str, chunk_words: int) -> None:
    corpus = build_corpus([document(text)], chunk_words)
    assert "".join("".join(chunk.text.split()) for chunk in corpus.chunks) == "".join(text.split())
    assert all(chunk.text == text[chunk.start : chunk.end] for chunk in corpus.chunks)
    assert all(abs(chunk.n_words - chunk_words) <= chunk_words // 10 for chunk in corpus.chunks[:-1])
    assert corpus.n_words == sum(1 for _ in word_spans(text))


def test_a_chunk_never_spans_two_documents() -> None:
    corpus = build_corpus([document("a b c", "1"), document("d e", "2")], 2)
    assert [(chunk.document.name, chunk.text) for chunk in corpus.chunks] == [("1", "a b"), ("1", "c"), ("2", "d e")]
    assert [chunk.position for chunk in corpus.chunks] == [0, 1, 2]


def test_chunks_begin_and_end_with_sentences() -> None:
    sentences = "The ferry waits at the old bridge. Nobody came. The toll is two coins, says a notice on its door.\n\n"
    corpus = build_corpus([document(sentences * 100)])
    assert {chunk.text[-1] for chunk in corpus.chunks} == {"."}
    assert {chunk.text.partition(" ")[0] for chunk in corpus.chunks} <= {"The", "Nobody"}
    assert all(270 <= chunk.n_words <= 330 for chunk in corpus.chunks[:-1])


def test_the_fingerprint_tells_text_language_tables_and_chunking_apart() -> None:
    one = build_corpus([document("a b c")], 2).fingerprint
    assert one == build_corpus([document("a b c", "e.md")], 2).fingerprint
    others = [([document("a b d")], 2), ([document("a b c", language="de")], 2), ([document("a b c")], 3)]
    others.append(([document("a b c", "e.csv")], 2))  # whose rows would have a header
    assert len({one, *(build_corpus(documents, words).fingerprint for documents, words in others)}) == 5
