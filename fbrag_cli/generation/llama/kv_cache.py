"""Shares the KV cells of one llama.cpp context between prompts with a common prefix, and evicts the least recently used.

A call reads only the part of its prompt that differs from those of running and earlier calls. The cells and sequences for a
call's samples are reserved when its prompt is admitted, so that no call runs out of them.

Keys and values can be cut anywhere. The recurrent state of a hybrid model cannot, so it is copied at each point of a prompt where
a later one may diverge. A copy is a separate sequence that shares its cells with the prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.llama.context import Context, fits_in_half, has_states
from fbrag_cli.generation.llama.input_embeddings import check_reading
from fbrag_cli.generation.llama.weights import Weights

_STEP = 256  # context sizes in llama.cpp are multiples of this
_SPARE = 256  # cells beyond a call's need, so that a follow-up on the same prompt has room
_SAMPLES = 8  # per call, with room from the start if calls run at once, because enlarging a context waits for all of them
_SAMPLES_WITH_STATES = 5  # the same if each needs a state of tens of MB: as many as a question has on a GPU
_COPIES = 4  # of states: two for each prompt of a question, before and after the question about the context
_MOST_SEQUENCES = 256  # per context: LLAMA_MAX_SEQ


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """What a call needs: its prompt, and `n_samples` samples of up to `max_tokens` tokens, after up to `reasoning_tokens` of
    reasoning.

    vectors: the input embeddings of the prompt, by the negative numbers that represent them among the tokens. branch_points:
    numbers of tokens, ascending, at which later prompts may diverge; reading stops there only for a model with a state.
    """

    tokens: list[int]
    n_samples: int
    max_tokens: int
    vectors: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)
    reasoning_tokens: int = 0
    branch_points: tuple[int, ...] = ()

    @property
    def n_written(self) -> int:
        """The maximum number of tokens in all samples."""
        return self.n_samples * (self.max_tokens + self.reasoning_tokens)

    @property
    def n_cells(self) -> int:
        return len(self.tokens) + self.n_written


@dataclass(slots=True, eq=False)
class Prompt:
    """A prompt in the context, and the samples that continue it.

    tokens: token ids of the whole prompt. n_read: how many of them are in the context. cells: a number per token; prompts that
    share a cell share its number. sequences: one per sample; the first is the prompt's own. n_reserved: number of cells reserved
    for the samples, while `live`. branch_points: from its `PromptRequest`.
    """

    tokens: list[int]
    n_read: int
    cells: list[int]
    sequences: list[int]
    n_reserved: int
    live: bool = True
    branch_points: tuple[int, ...] = ()

    @property
    def next_stop(self) -> int:
        """The number of tokens up to which to read next: to the next branch point, or the end."""
        return next((mark for mark in self.branch_points if mark > self.n_read), len(self.tokens))


class PromptCache:
    """The prompts of one model, in a context that is made on first use and enlarged when it is too small.

    weights: the model, which must outlive its prompts. name: name of the model, for errors. limit: maximum number of tokens of
    the model.

    at_once: number of calls that may run at once; fewer if memory is short. context: the current context. has_states: whether the
    model has a recurrent state. That is only the state at the end of a prompt: such a model can go back only to a copy, or to the
    beginning.
    """

    def __init__(self, weights: Weights, name: str, limit: int) -> None:
        self._weights, self._name, self._limit = weights, name, limit
        self._reads_rows = False  # whether this was checked
        self.has_states = has_states(weights)
        self._n_copies = _COPIES if self.has_states else 0
        self._held: list[Prompt] = []  # least recently used first
        self._numbers = count()
        self._most = _MOST_SEQUENCES  # calls at once that fit in memory, as far as known
        self.at_once = 1
        self.context: Context | None = None

    def check(self, need: PromptRequest) -> None:
        """Raise FbragError `prompt_too_long`, with both lengths, for a call that exceeds the model's context."""
        if need.n_cells > self._limit:
            raise FbragError(
                "prompt_too_long",
                f"the prompt is too long for {self._name}: with {need.n_samples} x {need.max_tokens} tokens for the reply it "
                f"has {need.n_cells:,} tokens, limit {self._limit:,}",
                "lower --select or --samples, or use a model with a longer context",
            )

    def admit(self, need: PromptRequest) -> Prompt | None:
        """Add a call's prompt to the context, sharing the beginning that it has in common with another (except the last token,
        which must be read for its logits). Return None if a running call has to end first.

        Raises FbragError `out_of_memory` if the context cannot be made, the errors of `check_reading` if a prompt has input
        embeddings, and the error of a cancellation.
        """
        if need.vectors and not self._reads_rows:
            check_reading(self._weights, self._name)
            self._reads_rows = True
        live = [each for each in self._held if each.live]
        if self._is_small_for(need):
            if live:
                return None
            self._enlarge(need)
        source, n_shared = self._nearest(need)
        shared = source.cells[:n_shared] if source else []
        if not self._fits(need, live, shared):
            return None
        for idle in [each for each in self._held if not each.live and each is not source]:
            if self._fits(need, self._held, shared):
                break
            self._remove(idle)
        if source and not self._fits(need, self._held, shared):
            prompt = self._continued(source, n_shared)
        else:
            prompt = self._begun(source, n_shared)
        prompt.tokens, prompt.branch_points, prompt.n_reserved = need.tokens, need.branch_points, need.n_written
        prompt.cells += [next(self._numbers) for _ in range(len(need.tokens) - n_shared)]
        while len(prompt.sequences) < need.n_samples:
            prompt.sequences.append(self._free_sequence(prompt.sequences))
        self._held.append(prompt)
        return prompt

    def note_read(self, prompt: Prompt, n_tokens: int) -> None:
        """Record that more tokens of a prompt have been read. At a branch point, keep a copy for prompts that diverge there."""
        prompt.n_read += n_tokens
        if prompt.n_read not in prompt.branch_points or not self._n_copies:
            return
        kept = [each for each in self._held if not each.live]
        if len(kept) >= self._n_copies:
            self._remove(kept[0])
        copy = self._begun(prompt, prompt.n_read)
        copy.tokens, copy.live = prompt.tokens[: prompt.n_read], False
        self._held.append(copy)

    def fork(self, prompt: Prompt) -> None:
        """Make every sample begin with the prompt, which has been read. Its cells are shared, not copied."""
        first, *others = prompt.sequences
        for each in others:
            self.opened.share(first, each, prompt.n_read)

    def release(self, prompt: Prompt) -> None:
        """End a call. The part of its prompt that was read is kept for prompts with the same beginning."""
        if prompt not in self._held:
            return  # the context was replaced
        first, *others = prompt.sequences
        for each in others:
            self.opened.clear(each)
        if not self.opened.cut(first, prompt.n_read):
            self._remove(prompt)  # its copies are kept
            return
        prompt.tokens, prompt.cells = prompt.tokens[: prompt.n_read], prompt.cells[: prompt.n_read]
        prompt.sequences = [first]
        prompt.live, prompt.n_reserved = False, 0
        self._held.remove(prompt)
        self._held.append(prompt)

    def close(self) -> None:
        """Free the context and all prompts. The next `admit` makes a new one."""
        if self.context is not None:
            self.context.close()
            self.context = None
        self._held.clear()

    @property
    def opened(self) -> Context:
        """The context with the prompts."""
        assert self.context
        return self.context

    # -- a prompt's beginning --------------------------------------------------------------------------------------------

    def _nearest(self, need: PromptRequest) -> tuple[Prompt | None, int]:
        """Return the prompt that shares the longest usable beginning with `need` (among equals, the least recently used), and the
        length of that beginning."""
        if not self._held:
            return None, 0
        lengths = [common_prefix(each.tokens[: each.n_read], need.tokens[:-1]) for each in self._held]
        lengths = [n if self.opened.reaches(each.sequences[0], n) else 0 for each, n in zip(self._held, lengths, strict=True)]
        return self._held[lengths.index(max(lengths))], max(lengths)

    def _continued(self, source: Prompt, n_shared: int) -> Prompt:
        """Return an earlier prompt, cut to its beginning, because there is no room for both."""
        self.opened.cut(source.sequences[0], n_shared)
        self._held.remove(source)
        return Prompt([], n_shared, source.cells[:n_shared], source.sequences, 0)

    def _begun(self, source: Prompt | None, n_shared: int) -> Prompt:
        """Return a new prompt that shares a beginning."""
        sequence = self._free_sequence()
        if source is None or not n_shared:
            return Prompt([], 0, [], [sequence], 0)
        self.opened.share(source.sequences[0], sequence, n_shared)
        self._held.remove(source)
        self._held.append(source)
        return Prompt([], n_shared, source.cells[:n_shared], [sequence], 0)

    def _remove(self, prompt: Prompt) -> None:
        self.opened.clear(prompt.sequences[0])
        self._held.remove(prompt)

    # -- room ------------------------------------------------------------------------------------------------------------

    def _fits(self, need: PromptRequest, beside: Iterable[Prompt], shared: Sequence[int]) -> bool:
        """Return whether there is room for a call in addition to other prompts, if it begins with the cells `shared`."""
        others = list(beside)
        used = set(shared).union(*(each.cells for each in others))
        n_cells = len(used) + sum(each.n_reserved for each in others) + need.n_cells - len(shared)
        n_missing = max(0, self._n_copies - sum(not each.live for each in others))  # copies that may still be made
        n_sequences = sum(len(each.sequences) for each in others) + need.n_samples + n_missing
        n_calls = len(others) + n_missing - self._n_copies
        return n_calls < self.at_once and n_cells <= self.opened.n_cells and n_sequences <= self.opened.n_sequences

    def _free_sequence(self, taken: Sequence[int] = ()) -> int:
        used = {*taken, *chain.from_iterable(each.sequences for each in self._held)}
        return next(each for each in range(self.opened.n_sequences) if each not in used)

    def _is_small_for(self, need: PromptRequest) -> bool:
        if self.context is None:
            return True
        n = min(self.at_once, self._most)
        return need.n_cells * n > self.context.n_cells or self._n_sequences(n, need) > self.context.n_sequences

    def _enlarge(self, need: PromptRequest) -> None:
        """Replace the context with one that is large enough for as many such calls as may run at once, or fewer if memory is
        short. Of the prompts, only the beginning of this one is kept."""
        source, n_shared = self._nearest(need)
        state = None
        if source and n_shared and self.opened.cut(source.sequences[0], n_shared):
            state = self.opened.state(source.sequences[0])
        least = (self.context.n_cells, self.context.n_sequences) if self.context else (0, 0)
        self.close()
        rounded = -(-(need.n_cells + _SPARE) // _STEP) * _STEP
        n_cells = min(rounded, max(self._limit, _STEP))
        n = min(self.at_once, self._most)
        while n > 1 and not fits_in_half(self._weights, n * n_cells, self._n_sequences(n, need)):
            n -= 1
        self.context = self._made(n, n_cells, need, least)
        if state and self.context.restore(0, state):
            numbers = [next(self._numbers) for _ in range(n_shared)]
            self._held.append(Prompt(need.tokens[:n_shared], n_shared, numbers, [0], 0, live=False))

    def _made(self, n: int, n_cells: int, need: PromptRequest, least: tuple[int, int]) -> Context:
        """Return a context for `n` calls of `n_cells` cells each; if memory is short for fewer, and finally for one without
        copies of states."""
        try:
            context = Context(self._weights, max(n * n_cells, least[0]), max(self._n_sequences(n, need), least[1]))
        except FbragError as error:
            if error.code != "out_of_memory" or (n == 1 and not self._n_copies):
                raise
            if n == 1:  # more must be read then
                self._n_copies, least = 0, (0, 0)
            return self._made(max(n // 2, 1), n_cells, need, least)
        if n < self.at_once:
            self._most = n
        return context

    def _n_sequences(self, n: int, need: PromptRequest) -> int:
        """Return the number of sequences that `n` such calls need, up to the maximum of a context."""
        least = 1 if n == 1 else _SAMPLES_WITH_STATES if self.has_states else _SAMPLES
        return min(n * max(need.n_samples, least) + self._n_copies, _MOST_SEQUENCES)


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Return the length of the common prefix of two token sequences."""
    for i, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return i
    return min(len(left), len(right))
