"""The trained parts of FIT-RAG, in a folder: scorer.gguf, fit-rag.safetensors and fit-rag.json. Pickles are never read.

The scorer gives a text two labels (section 4.2), the recognizer says whether the model knows the answer, so that nothing need be
retrieved (4.3), the detector whether the windows that were taken are enough to answer from (4.4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Scorer
from fbrag_cli.methods.parts import PartsFormat, is_count, is_files, is_number, is_texts, read_tensors, refuse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]


SCORER = "scorer.gguf"
#: Labels of the scorer (section 4.2): a text holds the answer, and the language model answers from it.
LABELS = ("has_answer", "llm_prefer")
#: Windows that the detector sees: the best ones, two labels each.
WINDOWS = 10
#: Below so many candidates their share means nothing: the model reads them.
LEAST_CANDIDATES = 30
FIT_RAG = PartsFormat("FIT-RAG", "fbrag.fit-rag/1", "fit-rag.json", "fit-rag.safetensors")


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRagParts:
    """The trained parts.

    model: name and SHA-256 of the language model whose labels were learnt. languages: languages (ISO 639-1) of the rows that the
    parts were trained on. detector, recognizer: None if the folder has none."""

    scorer: Scorer
    detector: Detector | None
    recognizer: Recognizer | None = None
    model: Mapping[str, str]
    languages: tuple[str, ...]


def load(folder: Path, open_scorer: Callable[[Path], Scorer]) -> FitRagParts:
    """Return the parts of a folder. open_scorer: loads a GGUF file.

    Raises FbragError: model_missing without a folder or file; model_corrupt for another format, a changed file, or numbers that
    are NaN or infinite.
    """
    about = FIT_RAG.read(folder, _fits)
    FIT_RAG.check_files(folder, about["files"])
    tensors = read_tensors(folder / FIT_RAG.tensors) if FIT_RAG.tensors in about["files"] else {}
    detector, recognizer = about.get("detector"), about.get("recognizer")
    scorer = open_scorer(folder / SCORER)
    if scorer.labels != LABELS:
        refuse(folder / SCORER, f"its outputs are {', '.join(scorer.labels) or 'none'}, not {' and '.join(LABELS)}")
    return FitRagParts(
        scorer=scorer,
        detector=Detector.of(tensors, detector["threshold"]) if detector else None,
        recognizer=Recognizer.of(tensors, recognizer) if recognizer else None,
        model=about["model"],
        languages=tuple(about["languages"]),
    )


def _fits(about: Mapping[str, Any]) -> bool:
    files, detector, recognizer = about.get("files"), about.get("detector"), about.get("recognizer")
    return (
        isinstance(files, dict)
        and is_files(files, {SCORER, FIT_RAG.tensors}, {SCORER})
        and is_texts(about.get("model"), "name", "sha256")
        and is_texts(about.get("languages"))
        and (detector is None or (isinstance(detector, dict) and is_number(detector.get("threshold"))))
        and (recognizer is None or (isinstance(recognizer, dict) and recognizer.keys() == {"k", "delta", "told", "known"}))
        and (recognizer is None or (all(map(is_number, recognizer.values())) and is_count(recognizer["k"])))
        and (FIT_RAG.tensors in files) == (detector is not None or recognizer is not None)
    )


class Detector:
    """A fully connected network: the labels of the windows taken so far -> the probability that they are enough.

    layers: (weight (n_out, n_in), bias (n_out,)) each, with ReLU between them; the first takes 2 * WINDOWS numbers, the last
    gives one. threshold: the least probability that counts as enough.
    """

    def __init__(self, layers: Sequence[tuple[Array, Array]], threshold: float) -> None:
        self._layers, self.threshold = layers, threshold

    @classmethod
    def of(cls, tensors: Mapping[str, Array], threshold: float) -> Detector:
        """Return the network with the layers `detector.N.weight` and `detector.N.bias`, N from 0. Raises FbragError
        `model_corrupt` for other shapes."""
        layers: list[tuple[Array, Array]] = []
        width = 2 * WINDOWS
        while (weight := tensors.get(f"detector.{len(layers)}.weight")) is not None:
            bias = tensors.get(f"detector.{len(layers)}.bias")
            if bias is None or weight.ndim != 2 or weight.shape[1] != width or bias.shape != weight.shape[:1]:
                raise _broken("detector", f"layer {len(layers)} has another shape")
            width = len(bias)
            layers.append((weight, bias))
        if not layers or width != 1:
            raise _broken("detector", "it does not end with one number")
        return cls(layers, threshold)

    def probability(self, labels: Array) -> float:
        """Return the probability that windows with these labels are enough. labels: (n_windows, 2), best first, 0 to 1. Raises
        FbragError `model_corrupt` if the numbers of the network are too large."""
        x = features(labels)
        with np.errstate(all="ignore"):
            for weight, bias in self._layers[:-1]:
                x = np.maximum(weight @ x + bias, 0)
            weight, bias = self._layers[-1]
            probability = float(1 / (1 + np.exp(-(weight @ x + bias)[0])))
        if math.isnan(probability):
            raise _broken("detector", "its numbers are too large")
        return probability


def features(labels: Array) -> Array:
    """Return float32 (2 * WINDOWS,): both labels of each window, best first, then zeros."""
    x = np.zeros(2 * WINDOWS, np.float32)
    flat = labels[:WINDOWS].reshape(-1)
    x[: len(flat)] = flat
    return x


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognizer:
    """Two signs that the model knows the answer: many chunks hold it, and the model knew the answers to similar questions.

    embeddings: float32 (n_questions, d), of length 1, by the scorer's encoder. right: (n_questions,), 1 if the language model
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
            raise _broken("self-knowledge recognizer", "its questions and labels have other shapes")
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
            raise _broken("self-knowledge recognizer", what)
        with np.errstate(all="ignore"):
            nearest = np.argsort(-(self.embeddings @ embedding), kind="stable")[: self.k]
        return float(self.right[nearest].mean())

    def knows(self, told: float, known: float, n_candidates: int) -> bool:
        """Return whether nothing need be retrieved (equation 14)."""
        return n_candidates >= LEAST_CANDIDATES and told > self.told and known > self.known


def _broken(part: str, what: str) -> FbragError:
    return FbragError("model_corrupt", f"the {part} of FIT-RAG cannot be used: {what}", "train it again: fbrag train fit-rag")
