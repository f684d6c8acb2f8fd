"""GGUF encoders in llama.cpp: embedding models and cross-encoders.

The input is windows of tokens, several per batch as separate sequences; the output is vectors. A text longer than a window is
read window by window, without cutting anything off.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256 as sha256_hash
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.llama.machine import corrupt, llama_cpp, metadata, native_log, version
from fbrag_cli.generation.llama.weights import BY_DEFAULT, Loading, Weights
from fbrag_cli.storage.files import sha256_of

QUESTION_TOKENS = 64  # maximum for the question of a cross-encoder; the rest is cut off
_BATCH = 512  # tokens per llama_decode; more would waste attention between separate texts
_SEQUENCES = 64

Self = TypeVar("Self", bound="LlamaEncoder")

#: Returns a model's prefixes for queries and for chunks, by its name (`retrieval.dense.prefixes_of`).
Prefixes = Callable[[str], tuple[str, str]]


class LlamaEncoder:
    """The base of `LlamaEmbedder` and `LlamaScorer`: the loaded file, its context, windows, batches, and the cache key.

    `key` computes the file's digest if it is unknown. Raises the errors of `Weights`, and FbragError `model_corrupt` if the
    model's window is too short.
    """

    #: Maximum and minimum number of tokens in a window; a model may allow longer ones.
    longest_window = 2048
    shortest_window = 64

    def __init__(self, path: Path, loading: Loading = BY_DEFAULT) -> None:
        self._path, self._sha256 = path, loading.sha256
        self._context: Any = None
        self._lock = threading.Lock()  # guards the context: one call at a time
        self.name = loading.name or path.stem
        self._weights = Weights(path, loading)
        self._tokens_of = self._weights.tokens_of
        self._window = min(llama_cpp.llama_model_n_ctx_train(self._weights.model), self.longest_window)
        self._size = max(self._window, _BATCH)
        try:
            self._n_outputs = self._prepare()
            self._head, self._tail = self._surroundings()
            if self._window < self.shortest_window:
                raise corrupt(f"{self.name} has a window of only {self._window} tokens")
        except BaseException:
            self.close()
            raise

    @property
    def cancellation(self) -> Cancellation:
        """The cancellation that stops the running call."""
        return self._weights.cancellation

    @cancellation.setter
    def cancellation(self, cancellation: Cancellation) -> None:
        self._weights.cancellation = cancellation

    @cached_property
    def key(self) -> str:
        """The SHA-256 (hex) of everything that a result depends on besides the text."""
        inputs = [self._sha256 or sha256_of(self._path), *self._settings(), version()]
        return sha256_hash(repr(inputs).encode()).hexdigest()

    def close(self) -> None:
        """Free the context and the model, which cannot be used afterwards."""
        self._free_context()
        self._weights.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- to be defined by each kind of encoder ---------------------------------------------------------------------------

    def _prepare(self) -> int:
        """Make the context, and return the length of the vectors. Raises FbragError for the wrong kind of model."""
        raise NotImplementedError

    def _settings(self) -> list[object]:
        """Return what a result depends on besides the file, the text and the version of llama.cpp."""
        raise NotImplementedError

    # -- steps of a call -------------------------------------------------------------------------------------------------

    def _vectors(self, windows: Sequence[Sequence[int]]) -> Iterator[NDArray[np.float32]]:
        """Yield the vector of each window, float32 `(n_outputs,)`, valid until the next one. windows: token ids.

        Raises FbragError `out_of_memory`; `model_corrupt` for a vector that is not finite; the error of a cancellation.
        """
        for batch in _batches(windows, self._size):
            yield from self._decode(batch)

    def _decode(self, windows: Sequence[Sequence[int]]) -> Iterator[NDArray[np.float32]]:
        """Yield the vector of each window, after decoding all of them in one batch."""
        batch, i = self._batch, 0
        for sequence, tokens in enumerate(windows):
            for position, token in enumerate(tokens):
                batch.token[i], batch.pos[i] = token, position
                batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
                batch.logits[i] = True
                i += 1
        batch.n_tokens = i
        if memory := llama_cpp.llama_get_memory(self._context):  # an encoder has none
            llama_cpp.llama_memory_clear(memory, False)
        status = self._weights.decode(self._context, batch)
        if status != 0:
            raise FbragError(
                "out_of_memory",
                f"llama.cpp stopped at a batch of {i} tokens (status {status}): {native_log.last_error()}",
                "close other programs, or use a smaller model",
            )
        for sequence in range(len(windows)):
            pointer = llama_cpp.llama_get_embeddings_seq(self._context, sequence)
            vector = np.ctypeslib.as_array(pointer, (self._n_outputs,))
            if not np.isfinite(vector).all():
                raise corrupt(f"{self.name} outputs values that are not numbers (NaN)")
            yield vector

    # -- model and context -----------------------------------------------------------------------------------------------

    def _make_context(self, pooling: int) -> int:
        """Make a context with this pooling. Return the pooling that llama.cpp chose."""
        self._free_context()
        params = llama_cpp.llama_context_default_params()
        params.embeddings = True
        params.pooling_type = pooling
        params.n_ctx = params.n_batch = params.n_ubatch = params.n_outputs_max = self._size
        params.n_seq_max = _SEQUENCES
        self._context = self._weights.context(params)
        if not self._context:
            raise FbragError(
                "out_of_memory",
                f"llama.cpp could not make a context of {self._size} tokens for {self.name}: {native_log.last_error()}",
                "close other programs, or use a smaller model",
            )
        self._batch = llama_cpp.llama_batch_init(self._size, 0, 1)
        return int(llama_cpp.llama_pooling_type(self._context))

    def _free_context(self) -> None:
        if self._context is not None:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self._context)
            self._context = None

    def _surroundings(self) -> tuple[list[int], list[int]]:
        """Return the tokens that the model expects before and after a text."""
        bare, whole = self._tokens_of("a"), self._tokens_of("a", surrounded=True)
        start = next((i for i in range(len(whole)) if bare and whole[i : i + len(bare)] == bare), None)
        if start is None:
            raise corrupt(f"{self.name} has no token for a single letter")
        return whole[:start], whole[start + len(bare) :]


class LlamaEmbedder(LlamaEncoder):
    """The `Embedder` for GGUF files.

    The embedding of a long text is the mean over its windows. prefixes: called with the file's name and the name in the model's
    metadata. Raises the errors of `LlamaEncoder`, and FbragError `usage` if the model is a reranker, which cannot pool.

    problems: warnings about the model.
    """

    def __init__(self, path: Path, loading: Loading = BY_DEFAULT, *, prefixes: Prefixes = lambda name: ("", "")) -> None:
        self._prefixes_of = prefixes
        self.problems: tuple[str, ...] = ()
        super().__init__(path, loading)

    # -- the Embedder protocol -------------------------------------------------------------------------------------------

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        """Return float32 `(len(texts), d)`, each row of length 1. query: whether the texts are queries rather than chunks.

        Raises FbragError `out_of_memory`, and the error of a cancellation.
        """
        prefix = self._prefixes[0 if query else 1]
        windows = [(i, window) for i, text in enumerate(texts) for window in self._windows_of(prefix, text)]
        sums = np.zeros((len(texts), self._n_outputs), np.float32)
        for (i, _), vector in zip(windows, self._vectors([window for _, window in windows]), strict=True):
            # The windows of a text have the same length, so the normalized mean is the normalized sum.
            sums[i] += _normalised(vector)
        return _normalised(sums)

    # -- the model ---------------------------------------------------------------------------------------------------------

    def _prepare(self) -> int:
        self._prefixes = self._prefixes_of(f"{self._path.stem} {metadata(self._weights.model, 'general.name')}")
        self._pooling = self._make_context(llama_cpp.LLAMA_POOLING_TYPE_UNSPECIFIED)
        if self._pooling == llama_cpp.LLAMA_POOLING_TYPE_NONE:
            self._pooling = self._make_context(llama_cpp.LLAMA_POOLING_TYPE_MEAN)
            what = "is not marked as an embedding model: using the mean over a text's tokens, which may rank poorly"
            self.problems = (f"{self.name} {what}",)
        if self._pooling == llama_cpp.LLAMA_POOLING_TYPE_RANK:
            hint = "use an embedding model, such as all-MiniLM or bge"
            raise FbragError("usage", f"{self.name} is a reranker, not an embedding model", hint)
        return int(llama_cpp.llama_model_n_embd_out(self._weights.model))

    def _settings(self) -> list[object]:
        return [self._pooling, self._window, self._prefixes]

    def _windows_of(self, prefix: str, text: str) -> list[list[int]]:
        """Return a text's tokens with prefix and markers, in as few windows as possible, of about equal length."""
        tokens = self._tokens_of(prefix + text)
        if len(tokens) <= self._window - len(self._head) - len(self._tail):
            whole = self._head + tokens + self._tail
            return [whole] if whole else []
        head = self._head + self._tokens_of(prefix.rstrip())
        pieces = split_evenly(self._tokens_of(text), self._window - len(head) - len(self._tail))
        return [[*head, *piece, *self._tail] for piece in pieces]


class LlamaScorer(LlamaEncoder):
    """The `Scorer` for GGUF files: an encoder that pools by rank and names its outputs.

    It reads [CLS] question [SEP] text [SEP], up to 512 tokens. If a text has several windows, the largest logit per label counts.
    Thread-safe. Raises the errors of `LlamaEncoder`, and FbragError `model_corrupt` for another kind of model.
    """

    longest_window = 512
    shortest_window = 2 * QUESTION_TOKENS

    def scores(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(texts), len(labels))`: logits, of any sign.

        Raises FbragError `out_of_memory`; `model_corrupt` if a logit is not finite; the error of a cancellation.
        """
        windows = [(i, window) for i, text in enumerate(texts) for window in self.windows(question, text)]
        logits = np.full((len(texts), len(self.labels)), -np.inf, np.float32)
        with self._lock:
            for (i, _), vector in zip(windows, self._vectors([window for _, window in windows]), strict=True):
                logits[i] = np.maximum(logits[i], vector)
        return logits

    def embed(self, questions: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(questions), d)`, each row of length 1: the mean over the first `QUESTION_TOKENS` tokens.

        The model then pools by the mean, for which its context is remade in milliseconds. Raises the same errors as `scores`.
        """
        windows = [[*self._head, *self._tokens_of(each)[:QUESTION_TOKENS], *self._tail] for each in questions]
        with self._lock:
            try:
                self._make_context(llama_cpp.LLAMA_POOLING_TYPE_MEAN)
                self._n_outputs = llama_cpp.llama_model_n_embd_out(self._weights.model)
                vectors = [vector / max(float(np.linalg.norm(vector)), 1e-9) for vector in self._vectors(windows)]
            finally:
                self._make_context(self._pooling)
                self._n_outputs = len(self.labels)
        return np.array(vectors, np.float32)

    def windows(self, question: str, text: str) -> list[list[int]]:
        """Return the token ids for a pair, in as few windows as possible, of about equal length.

        Each begins with the question. Training uses the same, with token type 0 throughout, as in llama.cpp.
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
            raise corrupt(f"{self.name} is not a document scorer: it does not pool by rank")
        return len(self.labels)

    def _settings(self) -> list[object]:
        return [self._pooling, self._window, QUESTION_TOKENS]


def split_evenly(tokens: Sequence[int], room: int) -> list[Sequence[int]]:
    """Return the tokens in as few pieces of up to `room` tokens as possible, of about equal length; one empty piece for no
    tokens."""
    n = max(1, -(-len(tokens) // room))
    ends = [len(tokens) * i // n for i in range(n + 1)]
    return [tokens[start:end] for start, end in pairwise(ends)]


def _batches(windows: Sequence[Sequence[int]], size: int) -> Iterator[list[Sequence[int]]]:
    """Yield runs of windows with up to `size` tokens in total."""
    batch: list[Sequence[int]] = []
    n_tokens = 0
    for window in windows:
        if batch and (n_tokens + len(window) > size or len(batch) == _SEQUENCES):
            yield batch
            batch, n_tokens = [], 0
        batch.append(window)
        n_tokens += len(window)
    if batch:
        yield batch


def _normalised(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return each row scaled to length 1; rows of zeros are unchanged."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)
