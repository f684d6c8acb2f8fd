"""The context of a model at a server: whether a prompt fits it, and whether the server has read the whole of it.

Ollama and others cut a prompt that is too long, and answer what is left. Tokens are not counted here, but bounded by characters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.host import Host

_BYTES_OF_A_TOKEN = 3  # or more, in most languages; English has four and a half
_CHARACTERS_OF_A_TOKEN = 6  # or fewer, on the average over a prompt
_MOST_CHARACTERS_OF_A_TOKEN = 8  # beyond doubt
_NEAR = 16  # tokens: Ollama leaves half of its context, and some tokens of the beginning
_LONGER = {
    "Ollama": "set OLLAMA_CONTEXT_LENGTH={tokens} where Ollama starts",
    "LM Studio": "load the model there with a context of {tokens} tokens",
}


def most_tokens(text: str) -> int:
    """Return a guess at the number of tokens of a text that is rather too high."""
    return math.ceil(len(text.encode("utf-8", "replace")) / _BYTES_OF_A_TOKEN)


@dataclass(frozen=True, slots=True)
class Window:
    """The context of a model at a server.

    tokens: most of a prompt with its reply, None where it is not known. program: "Ollama", "LM Studio", or "" for another.
    """

    host: Host
    tokens: int | None
    program: str

    def check(self, text: str, max_tokens: int) -> None:
        """Raise FbragError `prompt_too_long` for a prompt that cannot fit. It is not sent. max_tokens: of the reply."""
        n_characters = len(" ".join(text.split()))
        if self.program and self.tokens and n_characters > _MOST_CHARACTERS_OF_A_TOKEN * self.tokens:
            raise self._too_long(text, max_tokens, f"its context has {self.tokens:,} tokens")

    def check_read(self, text: str, max_tokens: int, n_read: int) -> str:
        """Check that a server has read the whole prompt. n_read: tokens that it says to have read. Returns a warning, or "".

        Raises FbragError `prompt_too_long` where the context is known and the prompt was cut to fit it.
        """
        n_characters = len(" ".join(text.split()))
        seems_cut = n_characters > _CHARACTERS_OF_A_TOKEN * n_read
        if self.program and self.tokens and most_tokens(text) > self.tokens:
            halved = abs(n_read - self.tokens // 2) <= _NEAR
            if seems_cut or (halved and self.program == "Ollama"):
                raise self._too_long(text, max_tokens, f"its context has {self.tokens:,} tokens, and it read {n_read:,}")
        if not seems_cut:
            return ""
        read = f"it read {n_read:,} tokens, and was sent {n_characters:,} characters"
        hint = "give it a longer context (Ollama: OLLAMA_CONTEXT_LENGTH)"
        return f"{self.host.address.origin} seems to have cut the prompt: {read}; {hint}"

    def _too_long(self, text: str, max_tokens: int, why: str) -> FbragError:
        enough = 2 ** math.ceil(math.log2(most_tokens(text) + max_tokens))
        hint = f"{_LONGER[self.program].format(tokens=enough)}, or read less (--recall, --select, --budget; no --more)"
        return self.host.error(f"the prompt is too long for it: {why}", hint, "prompt_too_long")
