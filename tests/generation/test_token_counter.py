"""Counting of tokens where tiktoken gives up. No model is loaded."""

from __future__ import annotations

from typing import Any

import pytest
import tiktoken

from fbrag_cli.generation.llama import token_counter
from fbrag_cli.generation.llama.token_counter import TokenCounter


class PanicException(BaseException):
    """Named as the exception of Rust code."""


def counter(monkeypatch: pytest.MonkeyPatch, encoding: Any) -> TokenCounter:
    """A counter whose own tokenizer gives a token for each byte."""
    monkeypatch.setattr(token_counter, "_encoding", lambda model, vocab: encoding)
    return TokenCounter(None, None, lambda text: list(text.encode()))


@pytest.mark.parametrize("blank", [" ", "\t", "\n", " \t", "\u3000"])
@pytest.mark.parametrize("before", ["", "The keeper is Tamsin Vale."])
def test_a_megabyte_of_white_space_is_counted(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], blank: str, before: str
) -> None:
    bytewise = {bytes([byte]): byte for byte in range(256)}
    encoding = tiktoken.Encoding("bytes", pat_str=token_counter._SPLIT["qwen2"], mergeable_ranks=bytewise, special_tokens={})
    counting = counter(monkeypatch, encoding)
    assert counting.exact
    text = before + blank * 2_000_000 + "She keeps the lamp."
    assert counting.count(text) == len(text.encode())
    assert capfd.readouterr().err == ""  # where Rust reports its panics


@pytest.mark.parametrize("fault", [PanicException, KeyboardInterrupt, ValueError])
def test_a_panic_is_counted_by_the_models_own_tokenizer(monkeypatch: pytest.MonkeyPatch, fault: type[BaseException]) -> None:
    class Encoding:
        def encode_ordinary(self, text: str) -> list[int]:
            if text == "now":
                raise fault
            return list(text.encode())

    counting = counter(monkeypatch, Encoding())
    if fault is PanicException:
        assert counting.count("now") == 3
    else:
        with pytest.raises(fault):
            counting.count("now")
