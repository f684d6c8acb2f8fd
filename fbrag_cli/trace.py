"""`Trace`: all that happened to one question. Commands print it, explain it, dump it; nobody computes anything twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fbrag_cli.corpus import Corpus
from fbrag_cli.generation.generator import ModelInfo
from fbrag_cli.methods.prompts import Templates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Status = Literal["answered", "not_found", "retrieved"]  # "retrieved": Stages I and II only


@dataclass(frozen=True, slots=True)
class ForwardSample:
    """One look forward. Without the asked format, `rationale` is the whole text and `answer` is empty."""

    index: int
    seed: int
    text: str
    rationale: str
    answer: str
    finish: Literal["stop", "length"]

    @property
    def said(self) -> str:
        """[R_k, A_k]: rationale and answer without their labels, as chunks are scored by it."""
        return f"{self.rationale}\n{self.answer}"


@dataclass(frozen=True, slots=True)
class Scores:
    """Arrays aligned with `Corpus.chunks`; higher is better.

    backward: S_B, float32 (n_chunks,). per_sample: S(C_i; [R_k, A_k]), float32 (n_samples, n_chunks). forward: S_F, the maximum
    over the samples, and best_sample, int (n_chunks,), the sample that gave it (-1: no sample). combined: float32 (n_chunks,).
    """

    backward: NDArray[np.float32]
    per_sample: NDArray[np.float32]
    forward: NDArray[np.float32]
    best_sample: NDArray[np.intp]
    combined: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Stage:
    """What one stage cost. Seconds of wall time; tokens are 0 where no model ran."""

    name: Literal["read", "load", "recall", "forward", "select", "answer", "verify"]
    seconds: float
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    first_token_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """question and method settings; recalled (Stage I) and selected (Stage II): chunk positions in document order, `ranked` the
    selected ones best first; answer: None until Stage III. support: how sure the large model is that the selected chunks say
    what it answered, 0 to 1, None where it was not asked. cached: of "text", "index" and "samples", what was not computed
    for this question. route: which way Self-Route went.
    """

    question: str
    method: MethodSettings
    corpus: Corpus
    retriever: str
    recalled: tuple[int, ...]
    samples: tuple[ForwardSample, ...]
    scores: Scores
    selected: tuple[int, ...]
    ranked: tuple[int, ...]
    stages: tuple[Stage, ...]
    models: dict[str, ModelInfo]
    status: Status = "retrieved"
    answer: str | None = None
    truncated: bool = False
    support: float | None = None
    warnings: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    route: Literal["", "retrieved", "long-context"] = ""


@dataclass(frozen=True, slots=True)
class MethodSettings:
    """How a question is answered.

    recall, select: chunks that Stage I hands the small model, and Stage II the large one. samples: K. eta_forward,
    eta_backward: weights of the two lookups (equation 6); fusion: on the retriever's raw scores, or each scaled to 0..1. pooling:
    whether a chunk's forward score is its best over the samples, as in equation 5, or its mean.
    forward_tokens, max_tokens: length limits of a sample and of the answer. instructions: the asked form of the answer.
    templates: prompts in place of ours. answer_anyway: never say that the document does not say.
    """

    name: str = "fb-rag"
    recall: int = 8
    select: int = 5
    samples: int = 5
    eta_forward: float = 0.5
    eta_backward: float = 0.5
    fusion: Literal["raw", "minmax"] = "raw"
    pooling: Literal["max", "mean"] = "max"
    temperature: float = 1.0
    top_p: float = 0.9
    top_k: int = 50
    forward_tokens: int = 128
    max_tokens: int = 512
    seed: int = 0
    instructions: str | None = None
    templates: Templates | None = None
    answer_anyway: bool = False
