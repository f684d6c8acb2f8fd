"""A session of a tiny model, for tests of many questions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.storage.cache import Cache
from tests.generation.tiny_gguf import Tiny


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Tiny(blocks=2, heads=4, width=64, weights=0.3).write(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture
def session(tiny: Path, tmp_path: Path) -> Iterator[Session]:
    settings = ModelSettings(small=str(tiny), large=str(tiny), gpu="off", threads=1)
    with Session.open(settings, Cache(tmp_path / "cache")) as opened:
        yield opened
