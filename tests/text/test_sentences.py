"""Sentences, in several scripts."""

import time

import pytest

from fbrag_cli.text.sentences import sentence_spans


@pytest.mark.parametrize(
    "sentences",
    [
        ["Mr. Bingley came at 3.5 miles an hour.", "The U.S. army won... then lost.", "What?", "Ask J. Austen (p. 4)."],
        ["“No!” he said, and left.", "“Yes.”", "See No. 12 for that."],
        ["他来了。", "她说：“走吧！”", "真的？"],
        ["Das ist z. B. gut.", "Er ging!"],
        ["¿Qué?", "Sí.", "«Oui.»", "Non!"],
        ["यह एक वाक्य है।", "यह दूसरा है।"],
        ["هل جاء؟", "نعم."],
    ],
)
def test_sentences_end_where_a_reader_ends_them(sentences: list[str]) -> None:
    text = ("" if sentences[0][0] > "\u2e80" else " ").join(sentences)
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences


def test_a_line_break_ends_no_sentence_and_a_blank_line_ends_one() -> None:
    text = "A Heading\n \nIts first line\r\nruns on. The next\nsentence\n\n\n"
    assert [text[start:end] for start, end in sentence_spans(text)] == [
        "A Heading",
        "Its first line\r\nruns on.",
        "The next\nsentence",
    ]


@pytest.mark.parametrize(
    "hostile", ["." * 1_000_000, ". " * 500_000, "." + " " * 1_000_000 + "x", '."' * 500_000, ". 1" * 300_000]
)
def test_hostile_text_is_cut_in_a_time_that_grows_with_its_length(hostile: str) -> None:
    def seconds(text: str) -> float:
        begun = time.process_time()
        sentence_spans(text)
        return time.process_time() - begun

    assert seconds(hostile) < 40 * max(seconds(hostile[: len(hostile) // 8]), 0.01)
