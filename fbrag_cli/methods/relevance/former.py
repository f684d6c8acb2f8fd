"""The R2-Former of R2AG (equation 2): from the features of a list of chunks, the probability that each of them is relevant.

Its folder has r2ag.safetensors and r2ag.json. NumPy computes the forward pass, 26 million multiplications for 20 chunks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.parts import PartsFormat, is_count, is_files, is_number, is_texts, read_tensors, refuse
from fbrag_cli.methods.relevance.features import FEATURES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fbrag_cli.retrieval import Retriever

    Array = NDArray[np.float32]

#: The folder of the part that ships with fbrag: of any model, for BM25.
SHIPPED = Path(__file__).with_name("parts")
#: LoRA of the language model, where it was trained.
ADAPTER = "lora.gguf"
R2AG = PartsFormat("R2AG", "fbrag.r2ag/1", "r2ag.json", "r2ag.safetensors")
_EPSILON = 1e-5  # of the layer norms
_STEEPEST = 30.0  # logits are cut there, so that a probability is never 0


@dataclass(frozen=True, slots=True, kw_only=True)
class R2Former:
    """A network that encodes lists of chunks. tensors: float32, by the names of `shapes`.

    features: names of `list_features`, in the order of columns. max_list: number of chunks of the longest list. heads:
    number of attention heads. row_scale: factor of the rows. retriever: name and key of the retriever whose features were learnt.
    languages: languages (ISO 639-1) of the rows that it was trained on. model: name and SHA-256 of the language model that it was
    trained with, None if only the relevance was trained. adapter: LoRA of that model, a GGUF file. words: SHA-256 of the words of
    that model's prompt (`prompts.list_words`). control: "shuffled" for parts that take the features of other chunks of the list.
    """

    tensors: Mapping[str, Array]
    features: tuple[str, ...]
    max_list: int
    heads: int
    row_scale: float = 1.0
    retriever: Mapping[str, str]
    languages: tuple[str, ...]
    model: Mapping[str, str] | None = None
    words: str = ""
    adapter: Path | None = None
    control: str = ""

    @property
    def makes_rows(self) -> bool:
        """Whether `rows` can be asked for."""
        return "projection.weight" in self.tensors

    def check(self, retriever: Retriever) -> None:
        """Raise FbragError `usage` for another retriever than the one whose features were learnt."""
        name, key = retriever.name, retriever.key
        if key != self.retriever["key"]:
            learnt = self.retriever["name"]
            problem = f"the trained parts are for the retriever {learnt}, and this is {name}"
            problem += f" (keys {self.retriever['key'][:24]} and {key[:24]})" if name == learnt else ""
            raise FbragError("usage", problem, "choose the other --retriever, or train them again: fbrag train --help")

    def relevance(self, features: Array) -> Array:
        """Return float32 (n,), 0 to 1: the probability that each chunk is relevant, given all of the list.

        features: (n, n_features), best first, n at most `max_list`. Raises FbragError model_corrupt as `rows`.
        """
        with np.errstate(all="ignore"):
            logits = _linear(self.tensors, "match", self.encoded(features))[:, 0]
            return _finite(1 / (1 + np.exp(-np.clip(logits, -_STEEPEST, _STEEPEST))))

    def rows(self, features: Array) -> Array:
        """Return float32 (n, n_embd): a row of the language model's embedding space for each chunk (equation 3).

        Raises ValueError if no projection was trained, FbragError model_corrupt if the rows are not finite.
        """
        if "projection.weight" not in self.tensors:
            raise ValueError("this R2-Former has no projection")
        with np.errstate(all="ignore"):
            return _finite(self.row_scale * _linear(self.tensors, "projection", self.encoded(features)))

    def encoded(self, features: Array) -> Array:
        """Return H, float32 (n, width). Raises ValueError for a longer list than `max_list`."""
        if len(features) > self.max_list:
            raise ValueError(f"a list of {len(features)} chunks, and {self.max_list} are the most")
        named = self.tensors
        x = (features - named["feature.mean"]) / named["feature.std"]
        h = _linear(named, "input", x) + named["position"][: len(x)]
        h = _normed(named, "norm1", h + _attention(named, h, self.heads))
        h = _normed(named, "norm2", h + _linear(named, "ffn.down", np.maximum(_linear(named, "ffn.up", h), 0)))
        return np.asarray(h, np.float32)


def _finite(found: NDArray[Any]) -> Array:
    if not np.isfinite(numbers := found.astype(np.float32)).all():
        what = "the trained parts of R2AG cannot be used: their numbers are too large, or a spread too small"
        raise FbragError("model_corrupt", what, "train them again: fbrag train --help")
    return numbers


def _linear(named: Mapping[str, Array], name: str, x: Array) -> Array:
    return np.asarray(x @ named[f"{name}.weight"].T + named[f"{name}.bias"])


def _normed(named: Mapping[str, Array], name: str, x: Array) -> Array:
    centred = x - x.mean(axis=1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + _EPSILON)
    return np.asarray(centred / deviation * named[f"{name}.weight"] + named[f"{name}.bias"])


def _attention(named: Mapping[str, Array], h: Array, heads: int) -> Array:
    """Attention of each chunk to all of the list, in both directions. h: (n, width)."""
    n, width = h.shape
    # (n, 3 width) -> three of (heads, n, width / heads)
    q, k, v = _linear(named, "attention.in", h).reshape(n, 3, heads, width // heads).transpose(1, 2, 0, 3)
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(width // heads)  # (heads, n, n)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    mixed = weights / weights.sum(axis=2, keepdims=True) @ v  # (heads, n, width / heads)
    return _linear(named, "attention.out", mixed.transpose(1, 0, 2).reshape(n, width))


# -- the folder --------------------------------------------------------------------------------------------------------------


def load(folder: Path) -> R2Former:
    """Return the R2-Former of a folder.

    Raises FbragError: model_missing without a folder or file; model_corrupt for another format, a feature that this version
    cannot make, a changed file, or tensors that are missing, unknown, of a wrong shape or not finite.
    """
    about = R2AG.read(folder, _fits)
    if unknown := [name for name in about["features"] if name not in FEATURES]:
        refuse(folder / R2AG.record, f"this version cannot make the features {', '.join(map(repr, unknown))}")
    R2AG.check_files(folder, about["files"])
    tensors = {name: np.asarray(tensor, np.float32) for name, tensor in read_tensors(folder / R2AG.tensors).items()}
    if problem := _misfit(tensors, about):
        refuse(folder / R2AG.tensors, problem)
    return R2Former(
        tensors=tensors,
        features=tuple(about["features"]),
        max_list=about["max_list"],
        heads=about["heads"],
        row_scale=about["row_scale"],
        retriever=about["retriever"],
        languages=tuple(about["languages"]),
        model=about.get("model"),
        adapter=folder / ADAPTER if ADAPTER in about["files"] else None,
        words=about.get("words", ""),
        control=about.get("control", ""),
    )


def _fits(about: Mapping[str, Any]) -> bool:
    return (
        is_files(about.get("files"), {R2AG.tensors, ADAPTER}, {R2AG.tensors})
        and is_texts({"control": "", "words": "", **about}, "words", "control")
        and ("model" not in about or is_texts(about["model"], "name", "sha256"))
        and is_texts(about.get("retriever"), "name", "key")
        and is_texts(about.get("features"))
        and is_texts(about.get("languages"))
        and len({*about["features"]}) == len(about["features"]) > 0
        and all(is_count(about.get(name)) for name in ("max_list", "heads"))
        and is_number(about.get("row_scale"))
    )


def _misfit(tensors: Mapping[str, Array], about: Mapping[str, Any]) -> str:
    """Return what is wrong with the tensors, "" for nothing. Their own widths are read from them."""

    def rows_of(name: str) -> int:
        found = tensors.get(name)
        return found.shape[0] if found is not None and found.ndim else 0

    width, n_embd = rows_of("input.weight"), rows_of("projection.weight")
    expected = shapes(len(about["features"]), width, about["max_list"], rows_of("ffn.up.weight"), n_embd)
    if lacking := sorted(expected.keys() - tensors.keys()):
        return f"it lacks the tensors {', '.join(lacking)}"
    if strange := sorted(tensors.keys() - expected.keys()):
        return f"it has the tensors {', '.join(map(repr, strange))}, which nothing reads"
    if "model" not in about and (n_embd or ADAPTER in about["files"]):
        return f"{R2AG.record} does not name the language model of its rows or its adapter"
    if wrong := [name for name, shape in expected.items() if tensors[name].shape != shape]:
        told = (f"{name} has the shape {tensors[name].shape} in place of {expected[name]}" for name in wrong)
        return "; ".join(told)
    if width % about["heads"]:
        return f"its width {width} cannot be shared by {about['heads']} heads"
    return "" if (tensors["feature.std"] > 0).all() else "a feature has no spread"


def shapes(n_features: int, width: int, max_list: int, feed_forward: int, n_embd: int = 0) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor by name. n_embd: 0 without a projection."""
    linear = {
        "input": (width, n_features),
        "match": (1, width),
        "attention.in": (3 * width, width),
        "attention.out": (width, width),
        "ffn.up": (feed_forward, width),
        "ffn.down": (width, feed_forward),
    }
    tensors: dict[str, tuple[int, ...]] = dict.fromkeys(("feature.mean", "feature.std"), (n_features,))
    tensors["position"] = (max_list, width)
    tensors |= {f"{name}.{kind}": (width,) for name in ("norm1", "norm2") for kind in ("weight", "bias")}
    if n_embd:
        linear["projection"] = (n_embd, width)
    for name, shape in linear.items():
        tensors |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return tensors
