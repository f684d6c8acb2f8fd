from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fbrag_cli.retrieval.ranking import best, ranks


@given(st.lists(st.sampled_from([-1.5, 0.0, 0.25, 3.0])), st.integers(0, 12))
def test_the_best_come_first_and_of_equal_ones_the_earlier(values: list[float], n: int) -> None:
    scores = np.array(values, np.float32)
    ordered = sorted(range(len(values)), key=lambda position: (-values[position], position))
    assert best(scores, n) == tuple(ordered[:n])
    assert best(scores, None) == tuple(ordered)
    assert [ordered[rank - 1] for rank in ranks(scores)] == list(range(len(values)))
