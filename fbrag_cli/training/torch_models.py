"""What trained networks share: the device and the numbers they compute with, and silence."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers.utils import logging


def device() -> str:
    """Return where networks train: "cuda" where torch finds a GPU, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def has_bfloat16(device: str) -> bool:
    """Return whether the device computes with bfloat16 as fast as with float32, or faster."""
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()  # newer than torch 2.4
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers and peft from writing to the terminal: a model may lack a part, or have others that nothing uses."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft calls what transformers is about to remove
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
