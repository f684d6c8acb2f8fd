"""A cross-encoder through llama.cpp: it reads a question together with a text, and gives the text a logit for each label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.generation.llama.encoder import LlamaEncoder, split_evenly
from fbrag_cli.generation.llama.library import llama_cpp

QUESTION_TOKENS = 64  # what is more of a question is cut off


class LlamaScorer(LlamaEncoder):
    """The `Scorer` for GGUF files: an encoder that pools by rank and names its outputs.

    It reads [CLS] question [SEP] text [SEP], at most 512 tokens. Of a text in several windows each label's largest logit counts.
    Several threads may call it. Raises as `LlamaEncoder`; also FbragError `model_corrupt` for another kind of model.
    """

    longest_window = 512
    shortest_window = 2 * QUESTION_TOKENS

    def scores(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(texts), len(labels))`: logits, of any sign.

        Raises FbragError `out_of_memory`; `model_corrupt` where a logit is not finite; the error of a cancellation.
        """
        windows = [(i, window) for i, text in enumerate(texts) for window in self.windows(question, text)]
        logits = np.full((len(texts), len(self.labels)), -np.inf, np.float32)
        with self._lock:
            for (i, _), vector in zip(windows, self._vectors([window for _, window in windows]), strict=True):
                logits[i] = np.maximum(logits[i], vector)
        return logits

    def embed(self, questions: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(questions), d)`, each row of length 1: the mean over the first `QUESTION_TOKENS` tokens.

        For it the model pools by the mean; making its context anew takes milliseconds. Raises as `scores`.
        """
        windows = [[*self._head, *self._tokens_of(each)[:QUESTION_TOKENS], *self._tail] for each in questions]
        with self._lock:
            try:
                self._make_context(llama_cpp.LLAMA_POOLING_TYPE_MEAN)
                self._n_outputs = llama_cpp.llama_model_n_embd_out(self._weights.model)
                found = [vector / max(float(np.linalg.norm(vector)), 1e-9) for vector in self._vectors(windows)]
            finally:
                self._make_context(self._pooling)
                self._n_outputs = len(self.labels)
        return np.array(found, np.float32)

    def windows(self, question: str, text: str) -> list[list[int]]:
        """Return the token ids that the model reads for a pair, in as few windows as needed, of about equal length.

        Each begins with the question. Training reads the same, with token type 0 throughout, as llama.cpp has it.
        """
        head = [*self._head, *self._tokens_of(question)[:QUESTION_TOKENS], *self._tail]
        pieces = split_evenly(self._tokens_of(text), self._window - len(head) - len(self._tail))
        return [[*head, *piece, *self._tail] for piece in pieces]

    def _prepare(self) -> int:
        model = self._weights.model
        labels = [llama_cpp.llama_model_cls_label(model, i) for i in range(llama_cpp.llama_model_n_cls_out(model))]
        self.labels = tuple((label or b"").decode("utf-8", "replace") for label in labels)
        self._pooling = self._make_context(llama_cpp.LLAMA_POOLING_TYPE_UNSPECIFIED)
        if self._pooling != llama_cpp.LLAMA_POOLING_TYPE_RANK:
            raise self._broken("is no document scorer: it does not pool by rank")
        return len(self.labels)

    def _settings(self) -> list[object]:
        return [self._pooling, self._window, QUESTION_TOKENS]
