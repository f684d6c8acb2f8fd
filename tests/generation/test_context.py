"""What is left of a sequence in a context, on tiny models with sliding windows."""

from __future__ import annotations

from pathlib import Path

import pytest

from fbrag_cli.generation.llama.context import BatchToken, Context
from fbrag_cli.generation.llama.weights import Loading, Weights
from tests.generation.architectures import ARCHITECTURES

WINDOWS = [each.name for each in ARCHITECTURES.values() if "windows" in each.kind]


def put(context: Context, sequence: int, start: int, end: int) -> None:
    tokens = [BatchToken(65 + 7 * i % 20, i, sequence, i == end - 1) for i in range(start, end)]
    context.decode(tokens)


@pytest.mark.parametrize("n_written", [10, 77, 78, 200])
@pytest.mark.parametrize("name", WINDOWS)
def test_a_prompt_whose_samples_took_the_cells_of_its_window_is_not_gone_on_with(
    tmp_path: Path, name: str, n_written: int
) -> None:
    """A call that ended made room before the prompt: from there on, cells that left the window are taken before free ones.

    40 cells are free there, and the token after the prompt reads the last 63 of its 100.
    """
    weights = Weights(ARCHITECTURES[name].write(tmp_path / "tiny.gguf"), Loading(threads=1))
    context = Context(weights, 512, 2)
    try:
        put(context, 1, 0, 40)
        put(context, 0, 0, 100)
        context.clear(1)
        for i in range(100, 100 + n_written):
            put(context, 0, i, i + 1)
        assert context.cut(0, 100)
        reached = context.reaches(0, 100)
        assert reached == (n_written <= 77)
        if reached:
            put(context, 0, 100, 101)
            found = context.logits(0).copy()
            context.clear(0)
            put(context, 0, 0, 101)
            assert found == pytest.approx(context.logits(100), abs=1e-3)
    finally:
        context.close()
        weights.close()
