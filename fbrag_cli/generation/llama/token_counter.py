"""Counts the tokens of a text with tiktoken and the model's vocabulary, if the result agrees with llama.cpp on a probe text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fbrag_cli.generation.llama.machine import llama_cpp, metadata

# The regular expressions with which models with byte-level BPE split text before merging, by the name in the GGUF.
_SPLIT = {
    "qwen2": (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
    "llama-bpe": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}

# Text on which different tokenizers are likely to differ.
_PROBE = (
    "It's 1,234.50 EUR; they'LL meet at 07:45 (or not?)…\n\n\tNaïve café — “quoted”, ‘single’ e\u0301.  Two  spaces \n"
    "def f(x):\n    return x**2  # 10^-3\r\n"
    "日本語のテキスト。한국어 텍스트, Русский текст, العربية, ไทย 🙂👩‍🚀 <|im_end|> <s> </s> [INST] <|eot_id|>\n"
)


class TokenCounter:
    """Counts tokens with tiktoken if `exact`, else with llama.cpp's slower tokenizer. The count is the same."""

    def __init__(self, model: Any, vocab: Any, tokenize: Callable[[str], list[int]]) -> None:
        self._tokenize = tokenize
        self._encoding = _encoding(model, vocab)
        if self._encoding is not None and self._encoding.encode_ordinary(_PROBE) != tokenize(_PROBE):
            self._encoding = None

    @property
    def exact(self) -> bool:
        """Whether the tiktoken encoding is in use."""
        return self._encoding is not None

    def count(self, text: str) -> int:
        if self._encoding is not None and not _has_long_blank(text):
            try:
                return len(self._encoding.encode_ordinary(text))
            except BaseException as error:
                if not _is_panic(error):
                    raise
        return len(self._tokenize(text))


def _has_long_blank(text: str) -> bool:
    """Return whether the text has a run of white space so long that tiktoken may panic (500,000 characters always do)."""
    block = 250_000
    return any(text[at : at + block].isspace() for at in range(0, len(text) - block + 1, block))


def _is_panic(error: BaseException) -> bool:
    """Return whether tiktoken's Rust code panicked. The exception is not an `Exception`, and cannot be imported."""
    return type(error).__name__ == "PanicException"


def _encoding(model: Any, vocab: Any) -> Any:
    """Return a tiktoken `Encoding` with token id = rank, or None if the vocabulary is of another kind."""
    import tiktoken

    split = _SPLIT.get(metadata(model, "tokenizer.ggml.pre"))
    if split is None or metadata(model, "tokenizer.ggml.model") != "gpt2":
        return None
    to_byte = _byte_of_character()
    ranks: dict[bytes, int] = {}
    for token in range(llama_cpp.llama_vocab_n_tokens(vocab)):
        if llama_cpp.llama_vocab_get_attr(vocab, token) & llama_cpp.LLAMA_TOKEN_ATTR_NORMAL:
            text = llama_cpp.llama_vocab_get_text(vocab, token).decode("utf-8", "replace")
            try:
                ranks[bytes(to_byte[character] for character in text)] = token
            except KeyError:
                return None
    try:
        return tiktoken.Encoding("gguf", pat_str=split, mergeable_ranks=ranks, special_tokens={})
    except ValueError:
        return None
    except BaseException as error:  # tiktoken's Rust code panics on a vocabulary without single bytes
        if _is_panic(error):
            return None
        raise


def _byte_of_character() -> dict[str, int]:
    """Return the byte for each character of byte-level BPE: printable bytes are themselves, the others start at U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}
