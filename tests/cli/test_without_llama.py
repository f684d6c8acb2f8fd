"""fbrag where llama.cpp is not there or does not load: what needs no model works, what needs one names the fix in one line."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from collections.abc import Callable
from pathlib import Path
from sysconfig import get_path

import pytest

from tests.conftest import INQUIRY, ROOT, Run
from tests.servers import Loopback, ollama

QUESTION = "Who was the master of the ship?"
Broken = Callable[..., subprocess.CompletedProcess[str]]
POSIX = pytest.mark.skipif(os.name != "posix", reason="links to packages")

_ABSENT = "cannot open shared object file: No such file or directory"

#: The exceptions by which importing llama_cpp fails, as its loader and the system word them, and what the error and its fix hold.
BROKEN = [
    ("RuntimeError", f"Failed to load shared library '/x/libllama.so': libgomp.so.1: {_ABSENT}", "python: libgomp", "libgomp1"),
    ("OSError", f"libgomp.so.1: {_ABSENT}", "libgomp.so.1", "dnf install libgomp"),
    (
        "OSError",
        "Error loading shared library libgomp.so.1: No such file or directory (needed by x)",
        "libgomp",
        "apk add libgomp",
    ),
    ("FileNotFoundError", "Shared library with base name 'llama' not found", "'llama' not found", "--no-binary llama-cpp-python"),
    ("OSError", f"libggml-cpu.so.0: {_ABSENT}", "libggml-cpu", "--no-binary llama-cpp-python"),
    ("OSError", f"libcudart.so.12: {_ABSENT}", "libcudart", "install CUDA 12"),
    ("OSError", f"libcuda.so.1: {_ABSENT}", "libcuda", "install the NVIDIA driver"),
    ("OSError", "/lib/libc.so.6: version `GLIBC_2.38' not found (required by /x/libllama.so)", "GLIBC_2.38", "--no-binary llama"),
    ("ImportError", "/x/libllama.so: undefined symbol: ggml_abort", "undefined symbol", "--no-binary llama-cpp-python"),
    ("AttributeError", "/x/libllama.so: undefined symbol: llama_batch_init", "undefined symbol", "--force-reinstall"),
]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python environment as uv makes it, with everything but pip and llama-cpp-python."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    packages = Path(get_path("purelib", vars={"base": str(folder)}))
    for each in Path(get_path("purelib")).iterdir():
        if not each.name.startswith(("llama_cpp", "pip", "__pycache__")):
            (packages / each.name).symlink_to(each)
    return folder / "bin" / "python"


@pytest.fixture
def fbrag_without(bare: Path, clean_environment: dict[str, str], tmp_path: Path) -> Run:
    def run(*arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(bare), "-m", "fbrag_cli", *map(str, arguments)]
        variables = {**clean_environment, "PYTHONPATH": str(ROOT), **(env or {})}
        return subprocess.run(
            command, capture_output=True, text=True, env=variables, cwd=tmp_path, stdin=subprocess.DEVNULL, check=False
        )

    return run


@pytest.fixture
def broken(fbrag: Run, tmp_path: Path) -> Broken:
    """Run a command whose llama_cpp fails to load with `error`, an expression."""

    def run(error: str, *arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        (tmp_path / "shadow" / "llama_cpp").mkdir(parents=True, exist_ok=True)
        (tmp_path / "shadow" / "llama_cpp" / "__init__.py").write_text(f"raise {error}\n")
        return fbrag(*arguments, env={"PYTHONPATH": f"{tmp_path / 'shadow'}{os.pathsep}{ROOT}", **(env or {})})

    return run


@POSIX
@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (("explain", INQUIRY, QUESTION, "--method", "vanilla"), "* selected"),
        (("explain", INQUIRY, QUESTION, "--method", "order-preserving", "--json"), '"schema":"fbrag.explanation/1"'),
        (("text", INQUIRY), "MINUTES OF THE INQUIRY"),
        (("ask", INQUIRY, QUESTION, "--dry-run"), "36 chunks"),
        (("models", "list", "--all"), "recommended"),
        (("models", "list"), "NAME"),
        (("models", "path"), "models"),
        (("config", "show"), "color"),
        (("cache", "size"), "total"),
        (("--version", "-v"), "llama-cpp-python is not installed"),
        (("train", "--help"), "Usage"),
        (("eval", INQUIRY.with_suffix(".questions.jsonl"), "--retrieval-only", "--method", "order-preserving"), "recall"),
    ],
)  # fmt: skip
def test_what_needs_no_model_works(fbrag_without: Run, arguments: tuple[object, ...], printed: str) -> None:
    done = fbrag_without(*arguments)
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
    assert "error" not in done.stderr


@POSIX
@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", INQUIRY, QUESTION),
        ("ask", INQUIRY, QUESTION, "--fast"),
        ("ask", INQUIRY, QUESTION, "--gpu", "require"),
        ("ask", INQUIRY, QUESTION, "--set", "device=CUDA0"),
        ("explain", INQUIRY, QUESTION),
        ("explain", INQUIRY, QUESTION, "--method", "vanilla", "--show-prompt"),
        ("explain", INQUIRY, QUESTION, "--method", "vanilla", "--retriever", "model.gguf"),
        ("eval", INQUIRY.with_suffix(".questions.jsonl"), "--limit", 1),
        ("batch", INQUIRY, "-Q", INQUIRY.with_suffix(".questions.jsonl"), "-o", "answers.csv"),
    ],
)
def test_what_needs_a_model_names_the_command_that_installs_it(
    fbrag_without: Run, smollm2: Path, tmp_path: Path, arguments: tuple[object, ...]
) -> None:
    (tmp_path / "model.gguf").symlink_to(smollm2)
    done = fbrag_without(*arguments, env={"FBRAG_SMALL": "smollm2-135m", "FBRAG_LARGE": "smollm2-135m"})
    error, hint = (line for line in done.stderr.splitlines() if line.startswith(("error", "hint")))
    assert (done.returncode, error) == (4, "error: llama-cpp-python is not installed (it runs models on this machine)")
    assert hint.startswith('hint: CMAKE_TOOLCHAIN_FILE="')
    assert " uv pip install --python " in hint
    assert hint.endswith(" llama-cpp-python==0.3.36")


@POSIX
def test_no_model_is_downloaded_that_nothing_could_run(fbrag_without: Run, tmp_path: Path) -> None:
    done = fbrag_without("ask", "-y", INQUIRY, QUESTION, env={"FBRAG_MODELS_DIR": str(tmp_path / "models")})
    assert (done.returncode, "llama-cpp-python is not installed" in done.stderr) == (4, True)
    assert not (tmp_path / "models").exists()


@POSIX
def test_servers_answer_without_it(fbrag_without: Run, tmp_path: Path) -> None:
    (tmp_path / "questions.txt").write_text(f"{QUESTION}\n")
    with Loopback() as server:
        pair = ("--small", server.address, "--large", server.address)
        asked = fbrag_without("ask", INQUIRY, QUESTION, "--json", *pair)
        batch = fbrag_without("batch", INQUIRY, "-Q", "questions.txt", "-o", "answers.jsonl", *pair)
        page = fbrag_without("ask", INQUIRY, QUESTION, "-a", "--html", "page.html", *pair)
    told = json.loads(asked.stdout)
    assert (asked.returncode, told["versions"]["llama_cpp_python"]) == (0, None), asked.stderr
    assert "error" not in asked.stderr
    assert (batch.returncode, page.returncode) == (0, 0), batch.stderr + page.stderr
    assert json.loads((tmp_path / "answers.jsonl").read_text())["status"] == "answered"
    assert (tmp_path / "page.html").exists()


@POSIX
@pytest.mark.parametrize("offline", [(), ("--offline",)])
def test_a_server_that_runs_here_is_offered_and_answers(fbrag_without: Run, smollm2: Path, offline: tuple[str, ...]) -> None:
    with ollama("m", loaded={"m": 8192}) as server:
        env = {"OLLAMA_HOST": f"127.0.0.1:{server.port}", "FBRAG_SMALL": "smollm2-135m", "FBRAG_LARGE": "smollm2-135m"}
        done = fbrag_without("ask", INQUIRY, QUESTION, *offline, env=env)
        assert (done.returncode, done.stdout, server.chats) == (4, "", [])
        found = f"found Ollama at 127.0.0.1:{server.port} (m); to use it without llama-cpp-python: --large local --small local"
        assert found in done.stderr
        assert "error: llama-cpp-python is not installed" in done.stderr
        done = fbrag_without("ask", INQUIRY, QUESTION, "--large", "local", "--small", "local", *offline, env=env)
        assert (done.returncode, "error" in done.stderr) == (0, False), done.stderr


@POSIX
def test_doctor_says_it_once_and_how_to_install_it(fbrag_without: Run, smollm2: Path) -> None:
    env = {"FBRAG_SMALL": "smollm2-135m", "FBRAG_LARGE": "smollm2-135m"}
    done = fbrag_without("doctor", "--offline", "--json", env=env)
    checks = {each["name"]: each for each in json.loads(done.stdout)["checks"]}
    assert (done.returncode, done.stderr) == (1, "")
    assert [name for name, each in checks.items() if each["status"] != "ok"] == ["llama.cpp"]
    assert checks["small model"]["finding"].endswith(", not run")
    assert checks["llama.cpp"]["fix"].endswith(" llama-cpp-python==0.3.36")
    with Loopback() as server:
        env = {"FBRAG_SMALL": server.address, "FBRAG_LARGE": server.address}
        done = fbrag_without("doctor", "--offline", "--json", env=env)
    assert done.returncode == 0  # servers need no llama.cpp
    assert json.loads(done.stdout)["checks"][1]["status"] == "warn"


@POSIX
def test_without_a_compiler_the_fix_is_a_wheel_and_never_a_build(fbrag_without: Run, tmp_path: Path) -> None:
    done = fbrag_without("doctor", "--offline", "--json", env={"PATH": str(tmp_path)})
    fix = json.loads(done.stdout)["checks"][1]["fix"]
    asked = fbrag_without("ask", INQUIRY, QUESTION, env={"PATH": str(tmp_path)})
    assert asked.stderr.splitlines()[-1] == f"hint: {fix}"
    assert "--only-binary llama-cpp-python --extra-index-url https://abetlen.github.io/llama-cpp-python/whl/" in fix


@pytest.mark.parametrize(("kind", "text", "said", "fix"), BROKEN)
def test_the_fix_fits_the_cause(broken: Broken, kind: str, text: str, said: str, fix: str) -> None:
    done = broken(f"{kind}({text!r})", "explain", INQUIRY, QUESTION)
    message, hint = (line for line in done.stderr.splitlines() if line.startswith(("error", "hint")))
    assert done.returncode == 4
    assert message.startswith("error: could not load llama-cpp-python: ")
    assert (said in message, fix in hint) == (True, True), done.stderr


def test_what_an_interrupted_installation_left_is_installed_again(fbrag: Run, tmp_path: Path) -> None:
    (tmp_path / "llama_cpp").mkdir()
    (tmp_path / "llama_cpp" / "__init__.py").write_text("")
    done = fbrag("ask", INQUIRY, QUESTION, env={"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"})
    error, hint = (line for line in done.stderr.splitlines() if line.startswith(("error", "hint")))
    assert (done.returncode, error) == (4, "error: could not load llama-cpp-python: No module named 'llama_cpp._ggml'")
    assert "--force-reinstall --no-deps" in hint


def test_a_library_that_llama_cpp_python_lacks_is_what_is_installed(broken: Broken) -> None:
    done = broken("ModuleNotFoundError(\"No module named 'diskcache'\", name='diskcache')", "explain", INQUIRY, QUESTION)
    assert done.returncode == 4
    assert done.stderr.splitlines()[-1].endswith(" install diskcache")


def test_what_needs_no_model_works_beside_a_broken_build(broken: Broken) -> None:
    error = "OSError('libgomp.so.1: cannot open shared object file: No such file or directory')"
    done = broken(error, "explain", INQUIRY, QUESTION, "--method", "vanilla")
    assert (done.returncode, "error" in done.stderr) == (0, False), done.stderr
    told = json.loads(broken(error, "doctor", "--offline", "--json").stdout)["checks"][1]
    assert (told["status"], "libgomp1" in told["fix"]) == ("fail", True)


def test_memory_that_runs_out_while_it_loads_is_no_broken_build(broken: Broken) -> None:
    error = "RuntimeError('Failed to load shared library') from OSError('libllama.so: failed to map segment from shared object')"
    done = broken(error, "explain", INQUIRY, QUESTION)
    assert (done.returncode, "out of memory" in done.stderr) == (5, True), done.stderr
