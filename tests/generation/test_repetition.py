"""A loop is found, whatever its length; what people write is none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fbrag_cli.generation.repetition import Repetition

VERSE = "Freude schöner Götterfunken , Tochter aus Elysium , wir betreten feuertrunken , Himmlische , dein Heiligtum !".split()


def drawn(words: Sequence[str]) -> tuple[str, bool]:
    """Return the text of a sample of these tokens, and whether it was cut. What was certain on the way begins it."""
    repetition, text, certain = Repetition(), "", 0
    for word in words:
        text += f"{word} "
        repetition.add(hash(word), text)
        assert repetition.n_fresh >= certain
        certain = repetition.n_fresh
        if (end := repetition.loop()) is not None:
            assert certain <= end
            return text[:end].rstrip(), True
    return text.rstrip(), False


@pytest.mark.parametrize("period", [1, 2, 3, 16, 17, 64, 128])
@pytest.mark.parametrize("start", [[], ["it", "begins"], VERSE])
def test_a_loop_is_cut_back_to_its_first_period(start: list[str], period: int) -> None:
    cycle = [f"w{i}" for i in range(period)]
    assert drawn(start + cycle * 200) == (" ".join(start + cycle), True)


def test_a_loop_of_noughts_is_cut_when_it_is_longer_than_any_matrix() -> None:
    row = ["0", ","] * 8 + ["\n"]
    assert not drawn(row * 8)[1]
    assert not drawn(["0"] * 100)[1]
    assert not drawn(["|", "---"] * 40)[1]
    assert drawn(["0"] * 300) == ("0", True)
    assert drawn(row * 40)[1]


def test_verse_and_lists_stay() -> None:
    refrain = "merrily merrily merrily merrily life is but a dream".split()
    assert not drawn((VERSE + refrain * 3) * 3)[1]
    assert not drawn(VERSE * 3)[1]
    assert not drawn("na na na na na na na na hey hey hey goodbye".split() * 3)[1]
    assert not drawn([word for i in range(200) for word in ("-", f"item {i}", "is", "open", "\n")])[1]
    assert not drawn([word for name in VERSE for word in ("assert", name, "==", "0", "\n")])[1]
    assert not drawn(["<td>", "none", "</td>"] * 12)[1]


def test_a_loop_of_more_than_128_tokens_is_none() -> None:
    assert not drawn([f"w{i}" for i in range(129)] * 6)[1]


@given(st.lists(st.sampled_from("abc"), max_size=300))
def test_what_is_cut_was_said_before(words: list[str]) -> None:
    kept, cut = drawn(words)
    n_kept = len(kept.split())
    assert words[:n_kept] == kept.split()
    assert not cut or words[n_kept] in words[:n_kept]


def test_text_that_a_token_does_not_end_is_cut_where_characters_end() -> None:
    """Byte tokens: three of them make a character."""
    repetition, text = Repetition(), ""
    for i in range(300):
        text += "漢" if i % 3 == 2 else ""
        repetition.add(i % 3, text)
        if (end := repetition.loop()) is not None:
            assert text[:end] == "漢"
            return
    pytest.fail("no loop was found")
