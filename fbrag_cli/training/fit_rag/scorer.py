"""Trains FIT-RAG's bi-label document scorer (section 4.2, algorithm 2) on labeled pairs, and writes `scorer.gguf`.

The torch network is an encoder with LoRA, its pooler, and two outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peft import LoraConfig, get_peft_model
from safetensors import SafetensorError
from transformers import BertModel

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.llama.encoder import LlamaScorer
from fbrag_cli.generation.llama.weights import Loading
from fbrag_cli.generation.placement import ON_THE_CPU
from fbrag_cli.methods.fit_rag.parts import LABELS
from fbrag_cli.progress import Event, Progress, silent, stage
from fbrag_cli.training.base_encoder import BaseEncoder, write_gguf
from fbrag_cli.training.fit_rag.pairs import (
    START,
    Batches,
    DevMetrics,
    Pair,
    PairKind,
    direction,
    label_counts,
    measure,
    moved,
    split,
)
from fbrag_cli.training.networks import Checkpoint, Tensor, device, has_bfloat16, quiet
from fbrag_cli.training.training import writing

FILE, CHECKPOINT = "scorer.gguf", "scorer.checkpoint.safetensors"
_FORMAT = "fbrag.fit-rag-checkpoint/1"
_BY_RANK = 4  # llama.cpp's number for pooling by rank
_RANK, _ALPHA, _DROPOUT = 16, 32, 0.05  # LoRA, as in the paper
_AT_ONCE = 32  # pairs scored together, without gradients
_COMPARED = 32  # dev pairs whose logits are compared between llama.cpp and torch
_NO_PREFERENCE = 0.5  # weight of a pair whose LLM_Prefer is unknown: that of all pairs before w is learned

Windows = Sequence[Sequence[int]]  # token ids of a pair: `LlamaScorer.windows`


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerSettings:
    """Settings of algorithm 2.

    epochs: maximum number; the one with the best balanced dev loss is kept. batch: pairs per step, at least 8. rate: learning
    rate of AdamW. alpha: maximum change of w per update; 0 keeps it at 0.5. every: steps between updates. validation: pairs of
    each kind per update.
    """

    epochs: int = 5
    batch: int = 16
    rate: float = 3e-4
    alpha: float = 0.01
    every: int = 10
    validation: int = 16
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch. loss: mean over the steps of the estimated loss per training pair, unweighted. dev: measures after the epoch."""

    loss: float
    dev: DevMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedScorer:
    """The scorer of the best epoch, in a file.

    path: of scorer.gguf. best: number of the best epoch, from 1. weights: history of w, from 0.5 through its value after each
    update. labels: counts of label pairs, by use (`pairs.label_counts`). llama_difference: largest difference between llama.cpp's
    and torch's logits over some dev pairs.
    """

    path: Path
    best: int
    epochs: tuple[Epoch, ...]
    weights: tuple[float, ...]
    labels: dict[str, dict[str, int]]
    llama_difference: float

    @property
    def dev(self) -> DevMetrics:
        return self.epochs[self.best - 1].dev


def train_scorer(
    pairs: Sequence[Pair],
    base: BaseEncoder,
    folder: Path,
    settings: ScorerSettings | None = None,
    progress: Progress = silent,
) -> TrainedScorer:
    """Train a scorer and write it atomically to `folder`/scorer.gguf. A stopped run resumes after its last epoch.

    progress: stage "train", in steps, and one note per epoch. The same pairs, settings and number of threads give the same
    scorer. Raises FbragError `usage` if pairs for training or for checking are missing, or `folder` has another training's
    checkpoint; `output` if it cannot be written.
    """
    settings = settings or ScorerSettings()
    parts = split(pairs, settings.seed)
    if not parts.train or not parts.dev:
        what = f"{len(parts.train)} for training, {len(parts.dev)} for checking"
        raise FbragError("usage", f"not enough pairs to train a document scorer: {what}", "add rows, or raise --limit")
    with stage("train", progress), torch.random.fork_rng():
        fit = _Fit(pairs, base, folder, settings)
        fit.run(progress)
        return fit.finish()


class _Fit:
    """A run of algorithm 2, which resumes from its checkpoint. weights: the history of w."""

    def __init__(self, pairs: Sequence[Pair], base: BaseEncoder, folder: Path, settings: ScorerSettings) -> None:
        self._pairs, self._base, self._folder, self._settings = pairs, base, folder, settings
        self._split = split(pairs, settings.seed)
        self._batches = Batches(pairs, self._split.train, settings.batch, settings.seed)
        self._validation = Batches(pairs, self._split.validation, settings.batch, settings.seed + 1)
        self._steps = -(-len(self._split.train) // settings.batch)  # per epoch
        self._network = ScorerNetwork(base, settings.seed)
        self._windows = self._read_windows()
        parameters = self._network.parameters
        self._optimizer = torch.optim.AdamW(parameters.values(), lr=settings.rate)
        self._checkpoint = Checkpoint(folder / CHECKPOINT, _FORMAT, self._key(), parameters, self._optimizer)
        self._epochs, self._weights = self._checkpoint.read(_standing) or ([], [START])
        both = (PairKind.MATCHED, PairKind.MISMATCHED)
        has_both = all(kind in part.quotas for kind in both for part in (self._batches, self._validation))
        self._learns_w = settings.alpha > 0 and has_both

    def run(self, progress: Progress) -> None:
        """Train the remaining epochs."""
        total = self._settings.epochs * self._steps
        if not self._learns_w and self._settings.alpha > 0:
            what = "no matched or no mismatched pairs in training or validation: the weight w stays at 0.5"
            progress(Event("train", "warning", text=what))
        for epoch in range(len(self._epochs), self._settings.epochs):
            losses = []
            for k in range(epoch * self._steps, (epoch + 1) * self._steps):
                losses.append(self._step(k))
                progress(Event("train", "progress", k + 1, total, "steps"))
            dev = measure([self._pairs[i] for i in self._split.dev], self._logits(self._split.dev))
            self._epochs.append(Epoch(float(np.mean(losses)), dev))
            if self._best == len(self._epochs):
                self._checkpoint.keep_best()
            with writing(self._folder):
                self._checkpoint.write({"epochs": [asdict(each) for each in self._epochs], "weights": self._weights})
            text = f"epoch {epoch + 1}: training loss {np.mean(losses):.3f}, dev loss {dev.loss:.3f}, w {self._w:.2f}"
            progress(Event("train", "note", text=text))

    def finish(self) -> TrainedScorer:
        """Write the best epoch's scorer."""
        self._checkpoint.restore_best()
        with writing(self._folder):
            path = self._write(self._folder / FILE)
        parts = asdict(self._split)
        return TrainedScorer(
            path=path,
            best=self._best,
            epochs=tuple(self._epochs),
            weights=tuple(self._weights),
            labels={name: label_counts(self._pairs, positions) for name, positions in parts.items()},
            llama_difference=self._difference(path),
        )

    # -- a step of algorithm 2 ---------------------------------------------------------------------------------------------

    def _step(self, k: int) -> float:
        """Take one optimizer step, and every few steps update w. Return an estimate of the mean loss per training pair."""
        torch.manual_seed(self._settings.seed * 1_000_003 + k)  # for dropout: a resumed run draws the same
        self._network.train(True)
        drawn = self._batches.batch(k)
        # For each kind, the sum over its pairs divided by the number of all pairs: the batch's mean times the kind's share.
        losses = self._losses(drawn)
        parts = {kind: self._batches.shares[kind] * loss for kind, loss in losses.items()}
        if self._learns_w and (k + 1) % self._settings.every == 0:
            # 1. g_mat and g_mis at θ_(k-1), whose weighted sum is also the gradient of this step.
            gradients = {kind: self._network.gradients(part) for kind, part in parts.items()}
            weighted = [[self._weight(kind) * each for each in gradients[kind]] for kind in parts]
            self._take(sum(of_kinds[1:], of_kinds[0]) for of_kinds in zip(*weighted, strict=True))
            # 2. u_mat and u_mis at θ_k; 3. w against the slope of the balanced validation loss.
            self._update_w(k, _flat(gradients[PairKind.MATCHED]), _flat(gradients[PairKind.MISMATCHED]))
        else:
            self._take(self._network.gradients(sum(self._weight(kind) * part for kind, part in parts.items())))
        return float(sum(part.detach() for part in parts.values()))

    def _take(self, gradients: Any) -> None:
        """Take an optimizer step with these gradients."""
        for parameter, gradient in zip(self._network.parameters.values(), gradients, strict=True):
            parameter.grad = gradient
        self._optimizer.step()

    def _update_w(self, k: int, g_mat: NDArray[np.float32], g_mis: NDArray[np.float32]) -> None:
        self._network.train(False)
        number, n = k // self._settings.every, self._settings.validation
        drawn = {kind: self._validation.drawn(kind, number, n) for kind in (PairKind.MATCHED, PairKind.MISMATCHED)}
        losses = self._losses(drawn)
        u_mat, u_mis = (_flat(self._network.gradients(losses[kind])) for kind in drawn)
        d = direction(u_mat, u_mis, g_mat, g_mis)
        self._weights.append(moved(self._w, d, self._settings.alpha))

    def _losses(self, drawn: dict[PairKind, list[int]]) -> dict[PairKind, Tensor]:
        """Return the mean loss of the pairs of each kind, from one pass over all of them."""
        positions = [i for of_kind in drawn.values() for i in of_kind]
        losses = self._network.losses([self._windows[i] for i in positions], [self._pairs[i] for i in positions])
        sizes = [len(of_kind) for of_kind in drawn.values()]
        return {kind: part.mean() for kind, part in zip(drawn, losses.split(sizes), strict=True)}

    @property
    def _w(self) -> float:
        return self._weights[-1]

    @property
    def _best(self) -> int:
        """The epoch with the lowest dev loss, from 1; among equals, the earliest."""
        return 1 + min(range(len(self._epochs)), key=lambda i: self._epochs[i].dev.loss)

    def _weight(self, kind: PairKind) -> float:
        return {PairKind.MATCHED: self._w, PairKind.MISMATCHED: 1 - self._w, PairKind.ONE_LABEL: _NO_PREFERENCE}[kind]

    # -- reading and writing -----------------------------------------------------------------------------------------------

    def _logits(self, positions: Sequence[int], *, exact: bool = False) -> NDArray[np.float32]:
        """Return the logits of pairs, float32 `(len(positions), 2)`, without dropout. Pairs of similar length are batched
        together."""
        self._network.train(False)
        logits = np.zeros((len(positions), len(LABELS)), np.float32)
        order = sorted(range(len(positions)), key=lambda i: sum(map(len, self._windows[positions[i]])))
        with torch.inference_mode():
            for start in range(0, len(order), _AT_ONCE):
                part = order[start : start + _AT_ONCE]
                found = self._network.logits([self._windows[positions[i]] for i in part], exact=exact)
                logits[part] = found.cpu().numpy()
        return logits

    def _read_windows(self) -> list[Windows]:
        """Return the token ids of each pair exactly as they are read at run time."""
        with TemporaryDirectory(prefix="fbrag-") as temporary:
            with writing(Path(temporary)):
                path = self._write(Path(temporary) / FILE)
            with LlamaScorer(path, Loading(placement=ON_THE_CPU, threads=1)) as scorer:
                return [scorer.windows(pair.question, pair.text) for pair in self._pairs]

    def _write(self, path: Path) -> Path:
        window = min(self._base.positions, LlamaScorer.longest_window)
        changed = self._network.tensors()
        return write_gguf(self._base.folder, path, pooling=_BY_RANK, window=window, changed=changed, labels=LABELS)

    def _difference(self, path: Path) -> float:
        positions = self._split.dev[:_COMPARED]
        expected = self._logits(positions, exact=True)
        with LlamaScorer(path, Loading(placement=ON_THE_CPU, threads=1)) as scorer:
            found = [scorer.scores(pair.question, [pair.text])[0] for pair in (self._pairs[i] for i in positions)]
        return float(np.abs(np.array(found) - expected).max())

    def _key(self) -> str:
        """Return the SHA-256 (hex) of everything that the epochs depend on, except their number."""
        settings = {name: value for name, value in asdict(self._settings).items() if name != "epochs"}
        inputs = [settings, self._base.sha256, [asdict(pair) for pair in self._pairs]]
        return sha256(repr(inputs).encode()).hexdigest()


def _standing(record: Mapping[str, Any]) -> tuple[list[Epoch], list[float]]:
    """Return the epochs and the history of w from a checkpoint's record."""
    epochs = [Epoch(each["loss"], DevMetrics(**each["dev"])) for each in record["epochs"]]
    return epochs, [float(w) for w in record["weights"]]


def _flat(gradients: Sequence[Tensor]) -> NDArray[np.float32]:
    flat: NDArray[np.float32] = torch.cat([each.flatten() for each in gradients]).float().cpu().numpy()
    return flat


# -- the network -----------------------------------------------------------------------------------------------------------------


class ScorerNetwork:
    """An encoder with LoRA of rank 16 on query and value; the pooler (dense and tanh) and the head (two outputs) are fully
    trained.

    parameters: the trained ones, by name. It computes in bfloat16 if the device is fast with it. Raises FbragError
    `model_corrupt` if transformers cannot load the base encoder.
    """

    def __init__(self, base: BaseEncoder, seed: int) -> None:
        self.device = device()
        with torch.random.fork_rng(), quiet():
            torch.manual_seed(seed)
            try:
                encoder = BertModel.from_pretrained(base.folder, dtype=torch.float32, use_safetensors=True, local_files_only=True)
            except (OSError, RuntimeError, ValueError, SafetensorError) as error:
                what = f"could not load {base.folder}: {error}"
                raise FbragError("model_corrupt", what, "use another folder (--base)") from None
            lora = LoraConfig(r=_RANK, lora_alpha=_ALPHA, lora_dropout=_DROPOUT, target_modules=["query", "value"])
            self._encoder = get_peft_model(encoder, lora).to(self.device)
            self._head = torch.nn.Linear(base.width, len(LABELS)).to(self.device)
        self._encoder.base_model.model.pooler.requires_grad_(True)
        modules = torch.nn.ModuleDict({"encoder": self._encoder, "classifier": self._head})
        self._modules = modules
        self.parameters = {name: each for name, each in modules.named_parameters() if each.requires_grad}

    def logits(self, windows: Sequence[Windows], *, exact: bool = False) -> Tensor:
        """Return the logits of pairs, float32 `(len(windows), 2)`: for each label, the largest over the pair's windows.

        exact: compute in 32 bits throughout.
        """
        flat = [window for each in windows for window in each]
        owners = torch.tensor([i for i, each in enumerate(windows) for _ in each], device=self.device)
        longest = max(map(len, flat))
        ids = torch.tensor([[*window, *[0] * (longest - len(window))] for window in flat], device=self.device)
        lengths = torch.tensor([len(window) for window in flat], device=self.device)
        mask = torch.arange(longest, device=self.device) < lengths[:, None]
        with torch.autocast(self.device, torch.bfloat16, enabled=not exact and has_bfloat16(self.device)):
            # Token type 0 throughout, the only one in llama.cpp.
            pooled = self._encoder(input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids)).pooler_output
            logits = self._head(pooled).float()  # (n_windows, 2)
        lowest = torch.full((len(windows), len(LABELS)), -torch.inf, device=self.device)
        return lowest.scatter_reduce(0, owners[:, None].expand_as(logits), logits, "amax")

    def losses(self, windows: Sequence[Windows], pairs: Sequence[Pair]) -> Tensor:
        """Return the loss of each pair, `(len(pairs),)`: binary cross-entropy, summed over the known labels (equation 1)."""
        labels = torch.tensor([[float(pair.has_answer), float(bool(pair.prefers))] for pair in pairs], device=self.device)
        known = torch.tensor([[1.0, float(pair.prefers is not None)] for pair in pairs], device=self.device)
        losses = torch.nn.functional.binary_cross_entropy_with_logits(self.logits(windows), labels, reduction="none")
        return (losses * known).sum(dim=1)

    def gradients(self, loss: Tensor) -> list[Tensor]:
        """Return the gradient of a loss with respect to each of `parameters`; the loss can be used again."""
        return list(torch.autograd.grad(loss, list(self.parameters.values()), retain_graph=True))

    def train(self, on: bool) -> None:
        """Turn dropout on or off."""
        self._modules.train(on)

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """Return all weights by their names in transformers' BertForSequenceClassification, with LoRA merged."""
        merged = deepcopy(self._encoder).merge_and_unload()
        tensors = {name: each for name, each in merged.state_dict().items() if each.is_floating_point()}
        tensors |= {f"classifier.{name}": each for name, each in self._head.state_dict().items()}
        return {name: each.detach().cpu().numpy() for name, each in tensors.items()}
