"""What a model made of the blocks of prompts, kept on the disk: a chunk that was read once is not read for the next question."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version

from fbrag_cli.cache import Cache

#: In the cache.
KIND = "kv"


class BlockStates:
    """The cells of llama.cpp's KV memory, by layout, by the tokens of a block and of what stands before the first block.

    model: what tells the model, and where its layers lie, from all others.
    """

    def __init__(self, cache: Cache, model: str) -> None:
        self._cache = cache
        self._model = f"{model} {version('llama-cpp-python')}"

    def get(self, layout: str, beginning: Sequence[int], block: Sequence[int]) -> bytes | None:
        key = self._key(layout, beginning, block)
        if (path := self._cache.path(KIND, key)) is None:
            return None
        try:
            state = path.read_bytes()
        except OSError:  # another process removed it just now
            return None
        self._cache.touch(KIND, [key])
        return state

    def put(self, layout: str, beginning: Sequence[int], block: Sequence[int], state: bytes) -> None:
        with suppress(OSError), self._cache.new(KIND, self._key(layout, beginning, block)) as entry:
            entry.write_bytes(state)

    def discard(self, layout: str, beginning: Sequence[int], block: Sequence[int]) -> None:
        """Remove a state that llama.cpp does not take."""
        self._cache.discard(KIND, self._key(layout, beginning, block))

    def _key(self, layout: str, beginning: Sequence[int], block: Sequence[int]) -> str:
        told = sha256(f"{self._model} {layout}".encode())
        for tokens in (beginning, block):
            told.update(len(tokens).to_bytes(8, "little"))
            told.update(array("i", tokens).tobytes())
        return told.hexdigest()
