"""What tests share: the real models, the repository's document, and the command as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fbrag_cli.generation.start import set_environment
from fbrag_cli.models.catalogue import load_catalogue
from fbrag_cli.models.pull import pull, read_spec
from fbrag_cli.models.store import ModelFile
from fbrag_cli.progress import silent
from fbrag_cli.storage.places import models_dir
from tests import servers

if TYPE_CHECKING:
    from fbrag_cli.generation.llama.generator import LlamaGenerator

ROOT = Path(__file__).parent.parent
INQUIRY = ROOT / "tests" / "documents" / "inquiry.txt"
SHARED = ROOT.parent / "shared"

set_environment()

Run = Callable[..., subprocess.CompletedProcess[str]]


def pytest_configure(config: pytest.Config) -> None:
    """Give each worker of pytest-xdist cores of its own. llama.cpp then starts as many threads as the worker has cores."""
    number, n_workers = os.environ.get("PYTEST_XDIST_WORKER", ""), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if number and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[int(number.removeprefix("gw")) % len(cores) :: n_workers])


def _pulled(name: str) -> ModelFile:
    """A model that cannot be had is a failure, not a skip."""
    return pull(read_spec(name, load_catalogue()), models_dir(), progress=silent, offline=False, environ=os.environ)


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The 135M model: for mechanics, not for answers."""
    return _pulled("smollm2-135m").path


@pytest.fixture(scope="session")
def default_pair() -> tuple[Path, Path]:
    catalogue = load_catalogue()
    return _pulled(catalogue.default_small).path, _pulled(catalogue.default_large).path


@pytest.fixture(scope="session")
def generator(smollm2: Path) -> Iterator[LlamaGenerator]:
    from fbrag_cli.generation.llama.generator import LlamaGenerator

    with LlamaGenerator(smollm2) as loaded:
        yield loaded


@pytest.fixture(scope="session")
def llama_cpp_server(smollm2: Path) -> Iterator[str]:
    """The address of llama.cpp's own server with the 135M model."""
    pytest.importorskip("xllamacpp", reason="needs xllamacpp, which has no wheel for this platform")
    with servers.llama_cpp_server(smollm2) as address:
        yield address


@pytest.fixture(scope="session")
def llama_cpp_python_server(smollm2: Path) -> Iterator[str]:
    """The address of llama-cpp-python's server with the 135M model."""
    pytest.importorskip("uvicorn", reason="needs llama-cpp-python[server]")
    with servers.llama_cpp_python_server(smollm2) as address:
        yield address


def _clean_environment(folder: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FBRAG_", "NO_COLOR", "FORCE_COLOR", "HF_", "COLUMNS", "LINES"))
    }
    folders = {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache")}
    return kept | folders | {"FBRAG_MODELS_DIR": str(models_dir())}


def _command(environment: dict[str, str], folder: Path) -> Run:
    def run(
        *arguments: object, stdin: str = "", env: dict[str, str] | None = None, timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "fbrag_cli", *map(str, arguments)],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            env=environment | (env or {}),
            cwd=folder,
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture
def clean_environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a user without settings of their own, and without colour."""
    return _clean_environment(tmp_path)


@pytest.fixture
def fbrag(clean_environment: dict[str, str], tmp_path: Path) -> Run:
    """Run the installed command: `fbrag("ask", path, question, stdin=b"…")`. Its cache is empty when a test begins."""
    return _command(clean_environment, tmp_path)


@pytest.fixture(scope="module")
def module_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same for all tests of a module, so that they share a cache: what one of them samples, the next one finds there."""
    return _clean_environment(tmp_path_factory.mktemp("module"))


@pytest.fixture(scope="module")
def fbrag_cached(module_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the installed command with the module's cache, for tests to which it does not matter where samples come from."""
    return _command(module_environment, tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"needs {SHARED}, which stands beside a developer's checkout only")
    return SHARED
