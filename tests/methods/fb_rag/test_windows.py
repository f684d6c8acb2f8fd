"""Windows: parts of chunks that a model reads in place of whole chunks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from fbrag_cli.corpus import Corpus, Passage, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.documents.load import load
from fbrag_cli.methods.fb_rag.windows import best_windows, in_reading_order, windows_of
from fbrag_cli.retrieval.bm25 import BM25
from tests.conftest import INQUIRY

POEM = "\n".join(f"The {n} of the Osterwick bells. It calls," for n in "one two three four five six seven eight nine ten".split())


def corpus_of(text: str, chunk_words: int = 300, language: str = "en") -> Corpus:
    return build_corpus([Document.of("d", "d", Extracted(Content(text), "text/plain"), language=language)], chunk_words)


def windows(corpus: Corpus, n_words: int = 80) -> list[Passage]:
    return [window for chunk in corpus.chunks for window in windows_of(chunk, n_words)]


def test_windows_hold_every_word_of_a_chunk_once_and_end_with_sentences() -> None:
    corpus = build_corpus([load(str(INQUIRY))])
    found = windows(corpus)
    assert [word for window in found for word in window.text.split()] == [
        word for chunk in corpus.chunks for word in chunk.text.split()
    ]
    lengths = [len(window.text.split()) for window in found]
    assert max(lengths) <= 150
    assert sum(50 <= length <= 120 for length in lengths) >= 0.9 * len(lengths)
    whole = corpus.documents[0].text
    inner = [window for window in found if window.end < corpus.chunks[window.position].end]
    assert all(window.text[-1] in ".!?\"”'’)" or whole[window.end :].startswith("\n\n") for window in inner)


@pytest.mark.parametrize(
    "block",
    [
        POEM,
        "\n".join(f"| row {n}. | The value. | {n} |" for n in range(12)),
        "\n".join(f"{n}. First do this. Then do that." for n in range(1, 12)),
        "for i in range(3):\n    Print. It(i)\n    print. It(i)\n" + "    Call. Me()\n" * 14,
    ],
)
def test_a_poem_a_table_a_list_and_code_are_not_cut(block: str) -> None:
    prose = "The harbour master wrote the book. " * 12
    corpus = corpus_of(f"{prose.strip()}\n\n{block.strip()}\n\n{prose.strip()}")
    assert any(block.strip() in window.text for window in windows(corpus, 40))


def test_a_long_table_is_cut_between_its_lines() -> None:
    rows = [f"| The {n}th row. | It has a value. | {n} |" for n in range(60)]
    found = windows(corpus_of("\n".join(rows), 900))
    assert len(found) > 4
    assert [line for window in found for line in window.text.split("\n")] == rows


def test_windows_of_chinese_are_of_whole_sentences() -> None:
    sentence = "港口的灯笼是由船长亲手封上的，没有人知道原因。"
    found = windows(corpus_of(sentence * 60, language="zh"))
    assert len(found) > 5
    assert all(window.text.endswith("。") for window in found)


def test_the_best_windows_come_first_and_spend_the_words() -> None:
    filler = "Grey water lay flat under low cloud all that watch, and nobody spoke of it. " * 30
    told = "The lantern of the barque was sealed by Tobias Wrenn."
    corpus = corpus_of(f"{filler}{told} {filler}")
    retriever = BM25.of(corpus)

    def found(question: str, max_words: int) -> list[Passage]:
        def scores(windows: Sequence[Passage]) -> NDArray[np.float32]:
            return retriever.excerpt_scores([question], windows)[0]

        best = best_windows(corpus.chunks, scores, max_words, 80)
        values = scores(best).tolist()
        assert values == sorted(values, reverse=True)
        assert not {*best} & {*best_windows(corpus.chunks, scores, max_words, 80, best)}
        return best

    assert told in found("Who sealed the lantern?", 200)[0].text
    assert len(found("Who sealed the lantern?", 10**6)) == 1  # no other has a word of the question
    assert 160 <= sum(len(window.text.split()) for window in found("Mermaids?", 200)) <= 240  # no window has it: the first ones
    assert len(found("Mermaids?", 1)) == 1


def test_windows_that_touch_become_one_excerpt() -> None:
    corpus = corpus_of(" ".join(f"Grey water lay flat under low cloud on day {i}." for i in range(60)))
    one, two, _, four, *_ = (window for chunk in corpus.chunks for window in windows_of(chunk, 40))
    assert in_reading_order([four, two, one]) == (one.part(one.start, two.end), four)
