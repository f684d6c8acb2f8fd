import itertools

from hypothesis import given
from hypothesis import strategies as st

from fbrag_cli.words import term_spans, terms


def test_forms_of_a_word_are_one_term() -> None:
    assert terms("elopes ELOPED eloping") == ["elop"] * 3


def test_function_words_and_halves_of_contractions_are_no_terms() -> None:
    assert terms("She didn't say what it's about") == ["say"]


def test_compatibility_forms_are_folded() -> None:
    assert terms("ﬁrst ＦＩＲＳＴ first") == ["first"] * 3


@given(st.text())
def test_spans_are_the_terms_and_point_at_their_words(text: str) -> None:
    spans = list(term_spans(text))
    assert [term for _, _, term in spans] == terms(text)
    assert all(terms(text[start:end]) == [term] for start, end, term in spans)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
