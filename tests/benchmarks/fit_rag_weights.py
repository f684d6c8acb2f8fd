"""FIT-RAG's weight between matched and mismatched pairs: learnt, against 0.5 throughout, over several seeds.

    python tests/benchmarks/fit_rag_weights.py LABELS.jsonl --embedder FILE.gguf [--seeds 5] [--steps 600] [--alpha 0.01]

LABELS is what `fbrag train fit-rag --stage labels` made of ../shared/train/nq.jsonl.gz. Whole trainings of the scorer would take
hours, so a small network stands for it: what MiniLM's vectors of a question and of a passage have in common (their product and
their distance, number by number) goes through one hidden layer to the two labels. Pairs, batches, split and the update of the
weight are the scorer's own. Prints, for each seed, the balanced loss on the pairs for checking, the lowest of the course, both
ways, and where w ends; then the mean difference and in how many seeds the learnt weight is better. Last, how the network of the
first seed ranks the 100 passages that BM25 finds for each of the last 260 questions, which neither train nor choose it: the share
of questions with an answer among the best k.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fit_rag import AT, NQ, Passages

from fbrag_cli.generation.llama.embedding import LlamaEmbedder
from fbrag_cli.generation.llama.weights import Loading
from fbrag_cli.generation.placement import ON_THE_CPU
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.training.fit_rag import imbalance
from fbrag_cli.training.fit_rag import labels as fit_rag_labels
from fbrag_cli.training.fit_rag.pairs import Batches, DevMetrics, Pair, PairKind, label_counts, measure, split
from fbrag_cli.training.questions import Pool
from fbrag_cli.training.rows import read_material

BATCH, VALIDATION, EVERY, CHECK, RATE, WIDTH, CANDIDATES = 16, 16, 10, 50, 1e-3, 128, 100
BOTH = (PairKind.MATCHED, PairKind.MISMATCHED)


def labelled(path: Path) -> list[Pair]:
    rows = [row for row in map(json.loads, path.read_text("utf-8").splitlines()) if row["kind"] == "reply"]
    material, asked = read_material([NQ]), {row["question"] for row in rows}
    questions = [each for each in material.questions if each.id in asked]
    return [each for each in fit_rag_labels.pairs_of(questions, Pool(material), rows) if each.prefers is not None]


def common(question: Any, text: Any) -> Any:
    """Return float32 (n, 2 * d), of vectors (n, d) both."""
    both = np.concatenate([question * text, np.abs(question - text)], axis=1) * np.sqrt(question.shape[1])
    return torch.from_numpy(both.astype(np.float32))


def features(pairs: Sequence[Pair], embedder: LlamaEmbedder) -> Any:
    """Return float32 (n_pairs, 2 * d)."""
    return common(*(vectors(embedder, [getattr(each, name) for each in pairs]) for name in ("question", "text")))


def vectors(embedder: LlamaEmbedder, texts: Sequence[str]) -> Any:
    """Return (n, d); each text is embedded once."""
    distinct = list(dict.fromkeys(texts))
    found = dict(zip(distinct, embedder.embed(distinct, query=False), strict=True))
    return np.stack([found[each] for each in texts])


def rank(training: Training, embedder: LlamaEmbedder) -> None:
    asked = Passages()
    questions, matrix = asked.questions[60:], embedder.embed([each.text for each in asked.passages], query=False)
    hits: dict[str, list[list[bool]]] = {"BM25": [], "cosine": [], "Has_Answer": [], "LLM_Prefer": [], "sum": []}
    for each, vector in zip(questions, vectors(embedder, [each.text for each in questions]), strict=True):
        bm25 = asked.retriever.scores(each.text)
        found = list(best(bm25, CANDIDATES))
        holds = np.array([each.has_answer(asked.passages[i]) for i in found])
        own = matrix[found]
        labels = 1 / (1 + np.exp(-training.logits(common(np.repeat(vector[None], len(own), axis=0), own))))
        for name, scores in zip(hits, (bm25[found], own @ vector, labels[:, 0], labels[:, 1], labels.sum(axis=1)), strict=True):
            ranked = holds[np.argsort(-scores, kind="stable")]
            hits[name].append([bool(ranked[:k].any()) for k in AT])
    for name, rows in hits.items():
        print(f"{name:10} " + ", ".join(f"@{k} {100 * share:.1f}" for k, share in zip(AT, np.mean(rows, axis=0), strict=True)))


class Training:
    """alpha: how far one update moves w at most; 0 for a weight of 0.5 throughout."""

    def __init__(self, pairs: Sequence[Pair], x: Any, seed: int, alpha: float) -> None:
        self._pairs, self._x, self._alpha, self.w = pairs, x, alpha, imbalance.START
        self._split = split(pairs, seed)
        self._batches = Batches(pairs, self._split.train, BATCH, seed)
        self._validation = Batches(pairs, self._split.validation, BATCH, seed + 1)
        self._y = torch.tensor([[float(each.has_answer), float(bool(each.prefers))] for each in pairs])
        torch.manual_seed(seed)
        layers = torch.nn.Linear(x.shape[1], WIDTH), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(WIDTH, 2)
        self._network = torch.nn.Sequential(*layers)
        self._optimizer = torch.optim.AdamW(self._network.parameters(), lr=RATE)

    def logits(self, x: Any) -> Any:
        """Return (n, 2), by the network of the last step."""
        self._network.eval()
        with torch.no_grad():
            return self._network(x).numpy()

    def run(self, steps: int) -> DevMetrics:
        """Return the metrics of the best check."""
        checks = []
        for k in range(steps):
            self._step(k)
            if (k + 1) % CHECK == 0:
                logits = self.logits(self._x[list(self._split.dev)])
                checks.append(measure([self._pairs[i] for i in self._split.dev], logits))
        return min(checks, key=lambda each: each.loss)

    def _step(self, k: int) -> None:
        self._network.train()
        weights = {PairKind.MATCHED: self.w, PairKind.MISMATCHED: 1 - self.w}
        losses = {kind: self._batches.shares[kind] * loss for kind, loss in self._losses(self._batches.batch(k)).items()}
        gradients = {kind: self._gradients(loss) for kind, loss in losses.items()}
        for i, parameter in enumerate(self._network.parameters()):
            parameter.grad = sum(weights[kind] * gradients[kind][i] for kind in BOTH)
        self._optimizer.step()
        if self._alpha and (k + 1) % EVERY == 0:
            self._network.eval()
            drawn = {kind: self._validation.drawn(kind, k // EVERY, VALIDATION) for kind in BOTH}
            u_mat, u_mis = (_flat(self._gradients(loss)) for loss in self._losses(drawn).values())
            d = imbalance.direction(u_mat, u_mis, *(_flat(gradients[kind]) for kind in BOTH))
            self.w = imbalance.moved(self.w, d, self._alpha)

    def _losses(self, drawn: Mapping[PairKind, list[int]]) -> dict[PairKind, Any]:
        loss = torch.nn.functional.binary_cross_entropy_with_logits
        logits = {kind: self._network(self._x[positions]) for kind, positions in drawn.items()}
        return {kind: loss(logits[kind], self._y[drawn[kind]], reduction="none").sum(dim=1).mean() for kind in BOTH}

    def _gradients(self, loss: Any) -> list[Any]:
        return list(torch.autograd.grad(loss, list(self._network.parameters()), retain_graph=True))


def _flat(gradients: Sequence[Any]) -> Any:
    return torch.cat([each.flatten() for each in gradients]).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--embedder", type=Path, required=True, metavar="FILE.gguf")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--alpha", type=float, default=0.01)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pairs = labelled(options.labels)
    embedder = LlamaEmbedder(options.embedder, Loading(placement=ON_THE_CPU, threads=1))
    x = features(pairs, embedder)
    print(f"{len(pairs)} pairs: {label_counts(pairs, range(len(pairs)))}")
    differences, first = [], None
    for seed in range(options.seeds):
        ways = {alpha: Training(pairs, x, seed, alpha) for alpha in (options.alpha, 0.0)}
        learnt, fixed = (training.run(options.steps) for training in ways.values())
        differences.append(learnt.loss - fixed.loss)
        first = first or ways[options.alpha]
        print(
            f"seed {seed}: balanced loss {learnt.loss:.3f} learnt (w {ways[options.alpha].w:.2f}), {fixed.loss:.3f} at 0.5"
            f"  | AUC of both labels {learnt.auc_answer:.3f}, {learnt.auc_prefers:.3f} and {fixed.auc_answer:.3f},"
            f" {fixed.auc_prefers:.3f}"
        )
    assert first
    rank(first, embedder)
    better = sum(each < 0 for each in differences)
    print(f"learnt less 0.5: {np.mean(differences):+.4f}, better in {better} of {len(differences)} seeds")


if __name__ == "__main__":
    main()
