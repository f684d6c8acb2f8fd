from __future__ import annotations

from itertools import pairwise
from operator import gt

from hypothesis import given
from hypothesis import strategies as st

from fbrag_cli.text.spans import joined

spans = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8)).map(lambda span: (span[0], sum(span))))


def test_spans_that_touch_are_one_unless_only_overlaps_join() -> None:
    assert joined([(4, 6), (0, 2), (2, 4), (7, 9), (7, 8)]) == [(0, 6), (7, 9)]
    assert joined([(0, 2), (2, 4), (3, 5)], gt) == [(0, 2), (2, 5)]


@given(spans)
def test_what_is_joined_covers_the_same_characters_and_lies_apart(given: list[tuple[int, int]]) -> None:
    found = joined(given)
    assert {at for span in found for at in range(*span)} == {at for span in given for at in range(*span)}
    assert all(end < start for (_, end), (start, _) in pairwise(found))
