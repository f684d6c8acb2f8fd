"""BGE-M3 with both of its scores: the cosine of embeddings, and lexical weights of the tokens that both texts share.

This is M3Flag in the paper's Table 7.

The lexical weight of a token is relu(w · h + b) of its last hidden state h; w and b are the model's own `sparse_linear.pt`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.corpus import Passage
from fbrag_cli.errors import FbragError
from fbrag_cli.retrieval.dense import Array, Dense
from fbrag_cli.retrieval.sentence_model import SentenceModel, folder_of

#: Weights of the cosine and of the lexical score, from the paper's Table 7, which also has (1, 0).
WEIGHTS = (1.0, 0.3)

_HEAD = "sparse_linear.pt"


def has_lexical_weights(name: str) -> bool:
    """Return whether a model on this machine has lexical weights. Raises FbragError (model_missing)."""
    return (folder_of(name) / _HEAD).is_file()


@dataclass(frozen=True, slots=True)
class LexicalWeights:
    """The tokens of several texts with their weights, text after text.

    tokens: int32 (n_tokens,), ids, each once in a text. weights: float32 (n_tokens,), above zero. counts: int32 (n_texts,), the
    number of tokens of each text.
    """

    tokens: NDArray[np.int32]
    weights: NDArray[np.float32]
    counts: NDArray[np.int32]

    @classmethod
    def joined(cls, parts: Sequence[LexicalWeights]) -> LexicalWeights:
        """Return the texts of all `parts`, in their order."""
        return cls(
            np.concatenate([np.zeros(0, np.int32), *(part.tokens for part in parts)]),
            np.concatenate([np.zeros(0, np.float32), *(part.weights for part in parts)]),
            np.concatenate([np.zeros(0, np.int32), *(part.counts for part in parts)]),
        )

    def scores(self, asked: LexicalWeights) -> Array:
        """Return float32 (n_texts,): the products of both weights, summed over the tokens shared with the one text `asked`."""
        table = np.zeros(max(self.tokens.max(initial=0), asked.tokens.max(initial=0)) + 1, np.float32)
        table[asked.tokens] = asked.weights
        totals = np.concatenate(([0], np.cumsum(self.weights * table[self.tokens], dtype=np.float64)))
        ends = np.cumsum(self.counts)
        return np.asarray(totals[ends] - totals[ends - self.counts], np.float32)


class BgeM3(SentenceModel):
    """An `Embedder` whose model has lexical weights too. Raises FbragError like `SentenceModel`."""

    batch: ClassVar = 8

    def __init__(self, name: str) -> None:
        super().__init__(name)
        import torch

        try:
            state = torch.load(self._folder / _HEAD, map_location="cpu", weights_only=True)
            self._weight, self._bias = state["weight"].float(), state["bias"].float()
        except Exception as error:  # whatever a damaged file makes torch raise
            what = f"{self._folder / _HEAD} cannot be read ({type(error).__name__})"
            raise FbragError("model_corrupt", what, "fetch the model again") from error

    def weigh(self, texts: Sequence[str]) -> LexicalWeights:
        """Return the lexical weights of texts, as far as they fit in the model's window (8192 tokens)."""
        return LexicalWeights.joined(
            [self._weigh(texts[start : start + self.batch]) for start in range(0, len(texts), self.batch)]
        )

    def _weigh(self, texts: Sequence[str]) -> LexicalWeights:
        """Return the lexical weights of one batch. A token counts once in a text, with its greatest weight there."""
        import torch
        from sentence_transformers.util import batch_to_device

        transformer, special = self._model[0], set(self._model.tokenizer.all_special_ids)
        features = batch_to_device(self._model.preprocess(list(texts)), self._model.device)
        tokens = features["input_ids"].tolist()
        with torch.inference_mode():
            hidden = transformer(features)["token_embeddings"].float().cpu()
            weights = torch.relu(hidden @ self._weight.T + self._bias).squeeze(-1).tolist()
        found: list[dict[int, float]] = []
        for ids, row in zip(tokens, weights, strict=True):
            heaviest: dict[int, float] = {}
            for token, weight in zip(ids, row, strict=True):
                if weight > heaviest.get(token, 0.0) and token not in special:
                    heaviest[token] = weight
            found.append(heaviest)
        return LexicalWeights(
            np.array([token for each in found for token in each], np.int32),
            np.array([weight for each in found for weight in each.values()], np.float32),
            np.array([len(each) for each in found], np.int32),
        )


class DenseAndLexical:
    """A `Retriever` by the weighted mean of the cosine and the lexical score. weights: of the two."""

    def __init__(self, model: BgeM3, embeddings: Array, lexical: LexicalWeights, weights: tuple[float, float]) -> None:
        self._model, self._dense, self._lexical, self._weights = model, Dense(model, embeddings), lexical, weights
        self.name = f"dense:{model.name} ({weights[0]:g}, {weights[1]:g})"
        self.key = f"{model.key} {weights[0]:g}:{weights[1]:g}"

    def scores(self, text: str) -> Array:
        """Return float32 `(n_chunks,)`: the weighted mean of the cosine and the lexical score."""
        dense, lexical = self._weights
        total = dense * self._dense.scores(text) + lexical * self._lexical.scores(self._model.weigh([text]))
        return np.asarray(total / (dense + lexical), np.float32)

    def excerpt_scores(self, texts: Sequence[str], excerpts: Sequence[Passage]) -> Array:
        """Return float32 `(len(texts), len(excerpts))`. The excerpts are embedded and weighed for it."""
        read = [each.as_read for each in excerpts]
        embeddings = self._model.embed(read, query=False)
        over = DenseAndLexical(self._model, embeddings, self._model.weigh(read), self._weights)
        return np.stack([over.scores(text) for text in texts])

    def bounds(self, text: str) -> tuple[float, float]:
        """Return the least and the largest cosine. Lexical weights have no bound, so a score may exceed it."""
        return -1.0, 1.0

    def similarities(self, chunks: Sequence[Passage]) -> Array:
        """Return float32 `(n, n)`, -1..1: the cosines of the chunks' embeddings, without their lexical weights."""
        return self._dense.similarities(chunks)
