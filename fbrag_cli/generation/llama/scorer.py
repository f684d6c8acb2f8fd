"""The bi-label document scorer of FIT-RAG as a GGUF file, through llama.cpp: [CLS] question [SEP] text [SEP] -> two logits.

llama.cpp gives all positions the token type 0, and so does the training.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from fbrag_cli.generation.cancellation import Cancellation
from fbrag_cli.generation.llama.encoder import Encoder, normalised
from fbrag_cli.generation.llama.machine import WHERE_IT_FITS, Placement

#: Tokens of a question, and of question and text together; longer texts are read in windows.
QUESTION_TOKENS, INPUT_TOKENS = 64, 512
#: What a scorer says of a text: the names of its outputs.
LABELS = ("has_answer", "llm_prefer")


class LlamaScorer:
    """The `DocumentScorer` for GGUF files of a BERT model with a classifier of two outputs. The parameters, and the errors
    raised, are those of `Encoder`; also FbragError `model_corrupt` for a model with other outputs."""

    def __init__(
        self,
        path: Path,
        *,
        name: str | None = None,
        placement: Placement = WHERE_IT_FITS,
        threads: int | None = None,
        cancellation: Cancellation | None = None,
        verbose: bool = False,
    ) -> None:
        self._open = partial(
            Encoder, path, name, placement=placement, threads=threads, cancellation=cancellation, verbose=verbose
        )
        self._encoder = self._open()
        self._embedding: Encoder | None = None
        self.name = self._encoder.name
        if self._encoder.pooling != llama_cpp.LLAMA_POOLING_TYPE_RANK or self._encoder.width != len(LABELS):
            error = self._encoder.broken(f"is no document scorer: it has not the outputs {' and '.join(LABELS)}")
            self.close()
            raise error

    def scores(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(texts), 2)`: the logits of Has_Answer and of LLM_Prefer; of a text in several windows the largest.

        Raises FbragError `out_of_memory`, and the error of a cancellation.
        """
        asked = self._encoder.tokens_of(question)[:QUESTION_TOKENS]
        windows = [(i, window) for i, text in enumerate(texts) for window in self._windows_of(asked, text)]
        scores = np.full((len(texts), len(LABELS)), -np.inf, np.float32)
        for (i, _), logits in zip(windows, self._encoder.vectors([window for _, window in windows]), strict=True):
            np.maximum(scores[i], logits, out=scores[i])
        return scores

    def embed(self, questions: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(questions), d)`, each row of length 1: the mean over a question's tokens.

        A question is cut at QUESTION_TOKENS. Raises as `scores`.
        """
        if self._embedding is None:
            self._embedding = self._open()
            self._embedding.pool(llama_cpp.LLAMA_POOLING_TYPE_MEAN)
        encoder = self._embedding
        windows = [encoder.head + encoder.tokens_of(each)[:QUESTION_TOKENS] + encoder.tail for each in questions]
        found = np.empty((len(questions), encoder.width), np.float32)
        for i, vector in enumerate(encoder.vectors(windows)):
            found[i] = vector
        return normalised(found)

    def close(self) -> None:
        """Free the model. The scorer cannot be used afterwards."""
        self._encoder.close()
        if self._embedding is not None:
            self._embedding.close()

    def __enter__(self) -> LlamaScorer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _windows_of(self, question: list[int], text: str) -> list[list[int]]:
        """Return question and text as the model reads them, in as few windows as needed, of about equal length."""
        encoder = self._encoder
        head = encoder.head + question + encoder.tail
        body = encoder.tokens_of(text)
        room = min(INPUT_TOKENS, encoder.window) - len(head) - len(encoder.tail)
        n = max(1, -(-len(body) // room))
        ends = [len(body) * i // n for i in range(n + 1)]
        return [head + body[start:end] + encoder.tail for start, end in pairwise(ends)]
