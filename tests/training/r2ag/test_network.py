"""The R2-Former in torch is the one in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fbrag_cli.methods.relevance.former import R2Former
from tests.conftest import needs

torch = needs("torch")

from fbrag_cli.training.r2ag.fit import R2FormerNetwork, Sizes  # noqa: E402

PAPER, FEATURES = Sizes(), tuple("abcde")
N = len(FEATURES)


def network(sizes: Sizes) -> R2FormerNetwork:
    torch.manual_seed(1)
    made = R2FormerNetwork(np.full(N, 0.3, np.float32), np.linspace(0.1, 2, N, dtype=np.float32), 40, sizes)
    with torch.no_grad():
        for parameter in made.parameters():  # norms and biases that do something
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made.eval()


def lists(*lengths: int) -> list[NDArray[np.float32]]:
    random = np.random.default_rng(2)
    return [random.normal(size=(n, N)).astype(np.float32) for n in lengths]


@pytest.mark.parametrize("sizes", [PAPER, Sizes(width=8, heads=2, feed_forward=20)])
def test_both_compute_the_same(sizes: Sizes) -> None:
    made = network(sizes)
    about = {"features": FEATURES, "max_list": 40, "heads": sizes.heads, "model": {}, "words": ""}
    former = R2Former(tensors=made.tensors(), retriever={}, languages=(), **about)  # type: ignore[arg-type]
    for features in lists(1, 2, 33, 40):
        with torch.no_grad():
            whole = torch.from_numpy(features)
            np.testing.assert_allclose(former.encoded(features), made.encoded(whole).numpy(), atol=1e-5)
            logits = made(whole).numpy()
        np.testing.assert_allclose(former.relevance(features), 1 / (1 + np.exp(-logits)), atol=1e-5)


def test_the_sizes_are_the_papers() -> None:
    """1,318,913 parameters with a list of 10 and three features, as R2AG.md, 2.4 has checked."""
    made = R2FormerNetwork(np.zeros(3, np.float32), np.ones(3, np.float32), 10, PAPER)
    assert sum(each.numel() for each in made.parameters()) == 1_318_913
