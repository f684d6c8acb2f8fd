"""A paper is a folder: without the folders of FIT-RAG or of R2AG, and their lines of registration, all else goes on."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
QUESTION = "Where was the Garefowl built?"

#: The folder of a paper -> its method.
PAPERS = {"fit_rag": "fit-rag", "r2ag": "r2ag"}


@pytest.fixture(scope="module", params=PAPERS)
def paper(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def house(paper: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and of its tests, without the paper."""
    root = tmp_path_factory.mktemp(paper)
    for name in ("fbrag_cli", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "benchmarks", "results", "*.jsonl*")
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", root)
    for folder in (*root.glob(f"fbrag_cli/*/{paper}"), *root.glob(f"tests/*/{paper}")):
        shutil.rmtree(folder)
    for registry in root.glob("fbrag_cli/*/registry.py"):
        _unregister(registry, paper)
    return root


def _unregister(registry: Path, paper: str) -> None:
    """Take a paper's import and its line out of a registry."""
    lines = registry.read_text("utf-8").splitlines()
    (gone,) = (line for line in lines if f".{paper}." in line)
    left = [line for line in lines if line not in (gone, f"    {gone.split()[-1]},")]
    assert len(left) == len(lines) - 2
    registry.write_text("\n".join(left) + "\n", "utf-8")


def run(house: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(house), "XDG_CACHE_HOME": str(house / "cache")}
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=house, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def fbrag(house: Path, *arguments: str) -> str:
    done = run(house, "fbrag_cli", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_module_is_missed(house: Path) -> None:
    """Imports inside functions count too."""
    package = house / "fbrag_cli"
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fbrag_cli."):
                target = package.joinpath(*str(node.module).split(".")[1:])
                assert target.is_dir() or target.with_suffix(".py").is_file(), f"{path.name} imports {node.module}"


def test_the_commands_go_on(house: Path, paper: str) -> None:
    document = "tests/documents/inquiry.txt"
    options = fbrag(house, "ask", "--help-all")
    assert "fb-rag" in options
    assert PAPERS[paper] not in options
    assert PAPERS[paper] not in fbrag(house, "train", "--help")
    assert "to recall" in fbrag(house, "ask", document, QUESTION, "--dry-run", "--gpu", "off")
    assert "inquiry.txt" in fbrag(house, "explain", document, QUESTION, "--method", "vanilla", "--gpu", "off", "-n", "3")
    refused = run(house, "fbrag_cli", "explain", document, QUESTION, "--method", PAPERS[paper])
    assert (refused.returncode, f"--method {PAPERS[paper]}" in refused.stderr) == (2, True)


def test_the_tests_of_the_core_pass(house: Path) -> None:
    others = [f"--ignore=tests/methods/{other}" for other in (*PAPERS, "test_adding_a_method.py")]  # the last takes long
    core = ("tests/methods", "tests/render/test_explain_text.py")
    done = run(house, "pytest", "-q", "-p", "no:cacheprovider", *others, *core)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
