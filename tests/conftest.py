"""What tests share: the real models, the repository's document, and the command as a user runs it."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from fbrag_cli.generation.process import set_environment
from fbrag_cli.models.catalog import load_catalog
from fbrag_cli.models.pull import pull, read_spec
from fbrag_cli.models.store import ModelFile
from fbrag_cli.progress import silent
from fbrag_cli.storage.paths import models_dir
from tests import servers
from tests.fork_server import ForkServer

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

    from fbrag_cli.generation.llama.generator import LlamaGenerator

ROOT = Path(__file__).parent.parent
INQUIRY = ROOT / "tests" / "documents" / "inquiry.txt"
SHARED = ROOT.parent / "shared"

set_environment()
# A test is not timed: the machine may be busy.
hypothesis.settings.register_profile("fbrag", deadline=None)
hypothesis.settings.load_profile("fbrag")

Run = Callable[..., subprocess.CompletedProcess[str]]

#: Variables that a run of the command reads. Others may be read when Python or a library is loaded.
_READ_BY_A_RUN = ("FBRAG_", "_FBRAG_", "COMP_", "_TYPER_", "XDG_", "NO_COLOR", "FORCE_COLOR")
_ALL = "pip install -e '.[test-all]'"
_SKIPPED = "fbrag/skipped"  # in pytest's cache: the ids of tests and modules that the last run skipped for want of a library
_skipped: set[str] = set()


def needs(library: str) -> Any:
    """Import and return a library of the extra `test-all`. Without it the test or module that asks is skipped."""
    __tracebackhide__ = True  # the place of a skip is that of the test
    return pytest.importorskip(library, reason=f"needs {library.partition('.')[0]}: {_ALL}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--skipped", action="store_true", help="run only what the last run skipped for want of a library")


def pytest_configure(config: pytest.Config) -> None:
    """Give each worker of pytest-xdist cores of its own. llama.cpp then starts as many threads as the worker has cores."""
    number, n_workers = os.environ.get("PYTEST_XDIST_WORKER", ""), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if number and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[int(number.removeprefix("gw")) % len(cores) :: n_workers])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and _ALL in str(report.longrepr):
        _skipped.add(report.nodeid)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.skipped:
        wanted = set(config.cache.get(_SKIPPED, []))
        left_out = {item for item in items if not {item.nodeid, item.nodeid.partition("::")[0]} & wanted}
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Note what was skipped, in the process that has the reports of all workers. To have nothing to run is no failure."""
    if session.config.option.skipped:
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK
    elif hasattr(session.config, "cache") and not hasattr(session.config, "workerinput"):
        session.config.cache.set(_SKIPPED, sorted(_skipped))


def _pulled(name: str) -> ModelFile:
    """A model that cannot be had is a failure, not a skip."""
    return pull(read_spec(name, load_catalog()), models_dir(), progress=silent, offline=False, environ=os.environ)


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The 135M model: for mechanics, not for answers."""
    return _pulled("smollm2-135m").path


@pytest.fixture(scope="session")
def default_pair() -> tuple[Path, Path]:
    catalog = load_catalog()
    return _pulled(catalog.default_small).path, _pulled(catalog.default_large).path


@pytest.fixture(scope="session")
def generator(smollm2: Path) -> Iterator[LlamaGenerator]:
    from fbrag_cli.generation.llama.generator import LlamaGenerator

    with LlamaGenerator(smollm2) as loaded:
        yield loaded


@pytest.fixture(scope="session")
def llama_cpp_server(smollm2: Path) -> Iterator[str]:
    """The address of llama.cpp's own server with the 135M model."""
    needs("xllamacpp")
    with servers.llama_cpp_server(smollm2) as address:
        yield address


@pytest.fixture(scope="session")
def llama_cpp_python_server(smollm2: Path) -> Iterator[str]:
    """The address of llama-cpp-python's server with the 135M model."""
    pytest.importorskip("uvicorn", reason="needs llama-cpp-python[server]")
    from fbrag_cli.generation.llama.machine import amx_in_use

    if amx_in_use():
        pytest.skip("llama.cpp's code for AMX crashes, which that server uses")
    with servers.llama_cpp_python_server(smollm2) as address:
        yield address


def heed_hangup() -> None:
    """Let a child process end at SIGHUP, also when the tests run under `nohup`: its `preexec_fn`."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _clean_environment(folder: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FBRAG_", "NO_COLOR", "FORCE_COLOR", "HF_", "COLUMNS", "LINES"))
    }
    folders = {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache")}
    if folder.is_dir():
        (folder / "run").mkdir(0o700, exist_ok=True)
        folders["XDG_RUNTIME_DIR"] = str(folder / "run")  # a server of the developer is not found
    nobody = {"OLLAMA_HOST": "127.0.0.1:9"}  # an Ollama of the developer is not found
    return kept | folders | nobody | {"FBRAG_MODELS_DIR": str(models_dir())}


@functools.cache
def _server(training: bool) -> ForkServer:
    return ForkServer(_clean_environment(Path("nowhere")), training)


def _command(environment: dict[str, str], folder: Path) -> Run:
    def run(
        *arguments: object, stdin: str = "", env: dict[str, str] | None = None, timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        words, both = [*map(str, arguments)], environment | (env or {})
        if sys.platform == "linux" and all(name.startswith(_READ_BY_A_RUN) for name in env or {}):
            return _server(words[:1] == ["train"]).run(words, stdin=stdin, env=both, cwd=folder, timeout=timeout)
        return subprocess.run(
            [sys.executable, "-m", "fbrag_cli", *words],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            env=both,
            cwd=folder,
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture
def without_ocr(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is as one without the extra `ocr`."""
    monkeypatch.setitem(sys.modules, "rapidocr", None)


@pytest.fixture
def clean_environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a user without settings of their own, and without color."""
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


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """A browser without a window."""
    from tests.chromium import started

    with started(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="session")
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"needs {SHARED}, which stands beside a developer's checkout only")
    return SHARED
