"""The self-knowledge recognizer of FIT-RAG (section 4.3): does the model know the answer, so that nothing need be retrieved?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fbrag_cli.errors import FbragError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

#: Below so many candidates their share means nothing: the model reads them.
LEAST_CANDIDATES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognizer:
    """Two signs that the model knows the answer: many chunks hold it, and the model knew the answers to similar questions.

    embeddings: float32 (n_questions, d), of length 1, by the scorer's encoder. right: (n_questions,), 1 where the language model
    answers without a document. k: neighbours. delta: logit of Has_Answer above which a chunk holds the answer. told, known: the
    shares above which nothing is retrieved (s_l and s_n of the paper).
    """

    embeddings: Array
    right: NDArray[np.uint8]
    k: int
    delta: float
    told: float
    known: float

    @classmethod
    def of(cls, tensors: Mapping[str, Any], settings: Mapping[str, Any]) -> Recognizer:
        """Return the recognizer with the tensors `recognizer.embeddings` and `recognizer.right`. Raises FbragError
        `model_corrupt` for other shapes."""
        embeddings, right = tensors.get("recognizer.embeddings"), tensors.get("recognizer.right")
        if embeddings is None or right is None or embeddings.ndim != 2 or right.shape != embeddings.shape[:1] or not len(right):
            raise _broken("its questions and labels have other shapes")
        return cls(embeddings=embeddings.astype(np.float32), right=(right > 0).astype(np.uint8), **settings)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return what `of` takes, to be written."""
        return {"recognizer.embeddings": self.embeddings.astype(np.float16), "recognizer.right": self.right}

    def settings(self) -> dict[str, float]:
        """Return the numbers that `of` takes, to be written."""
        return {"k": self.k, "delta": min(self.delta, 1e9), "told": self.told, "known": self.known}

    def told_share(self, has_answer: Array) -> float:
        """Return S_ltod (equation 12): the share of candidates that hold the answer.

        has_answer: probabilities (n_candidates,).
        """
        with np.errstate(over="ignore"):
            least = 1 / (1 + np.exp(-np.float64(self.delta)))
        return float((has_answer > least).mean()) if len(has_answer) else 0.0

    def known_share(self, embedding: Array) -> float:
        """Return S_nn (equation 13): the share of the k nearest questions that the model answered.

        embedding: (d,), of length 1. Raises FbragError `model_corrupt` for another d than the recognizer's.
        """
        if len(embedding) != self.embeddings.shape[1]:
            what = f"it has questions of {self.embeddings.shape[1]} numbers, and the scorer makes {len(embedding)}"
            raise _broken(what)
        with np.errstate(all="ignore"):
            nearest = np.argsort(-(self.embeddings @ embedding), kind="stable")[: self.k]
        return float(self.right[nearest].mean())

    def knows(self, told: float, known: float, n_candidates: int) -> bool:
        """Return whether nothing need be retrieved (equation 14)."""
        return n_candidates >= LEAST_CANDIDATES and told > self.told and known > self.known


def _broken(what: str) -> FbragError:
    what = f"the self-knowledge recognizer of FIT-RAG cannot be used: {what}"
    return FbragError("model_corrupt", what, "train it again: fbrag train fit-rag")
