"""What people install: the wheel, the sdist and the image hold all of the program and nothing else."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from email import message_from_string
from email.message import Message
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from fbrag_cli import __version__
from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BUILD = "import sys; from hatchling import build; print(getattr(build, sys.argv[1])(sys.argv[2]))"

PAGE = """
import sys; from pathlib import Path; from hatchling.metadata.core import ProjectMetadata
root, address, page = sys.argv[1:]
project = ProjectMetadata(root, __import__("hatchling.plugin.manager").plugin.manager.PluginManager())
project.config["project"]["urls"] = {"Repository": address}
Path(page).write_text(project.core.readme, "utf-8")
"""


def files_of(folder: str) -> set[str]:
    """Return the files of a folder that git has, or would add."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", folder]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {name for name in listed if (ROOT / name).is_file()}


# -- the wheel and the sdist ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Built:
    """wheel, sdist: from the clone. again: the wheel that the unpacked sdist builds."""

    wheel: Path
    sdist: Path
    again: Path

    def metadata(self) -> Message:
        with zipfile.ZipFile(self.wheel) as wheel:
            return message_from_string(wheel.read(f"fbrag-{__version__}.dist-info/METADATA").decode())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    pytest.importorskip("hatchling", reason="needs hatchling")
    made, again = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("again")

    def build(kind: str, clone: Path, into: Path) -> Path:
        command = [sys.executable, "-c", BUILD, f"build_{kind}", str(into)]
        return into / subprocess.run(command, capture_output=True, text=True, cwd=clone, check=True).stdout.split()[-1]

    wheel, sdist = build("wheel", ROOT, made), build("sdist", ROOT, made)
    with tarfile.open(sdist) as archive:
        archive.extractall(again, filter="data")
    return Built(wheel, sdist, build("wheel", again / f"fbrag-{__version__}", again))


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(built: Built) -> None:
    about = {f"fbrag-{__version__}.dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")}
    with zipfile.ZipFile(built.wheel) as wheel:
        assert {*wheel.namelist()} == files_of("fbrag_cli") | about | {f"fbrag-{__version__}.dist-info/licenses/LICENSE"}


def test_the_sdist_holds_the_package_its_papers_and_nothing_else(built: Built) -> None:
    papers = {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "hatch_build.py", "PKG-INFO", ".gitignore"}
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert names == files_of("fbrag_cli") | files_of("docs") | papers


def test_the_sdist_builds_the_very_wheel_of_the_clone(built: Built) -> None:
    assert built.again.name == built.wheel.name
    assert built.again.read_bytes() == built.wheel.read_bytes()


def test_both_are_small(built: Built) -> None:
    assert built.wheel.stat().st_size < 1_200_000
    assert built.sdist.stat().st_size < 1_200_000


def test_the_metadata_is_that_of_the_project(built: Built) -> None:
    metadata = built.metadata()
    assert (metadata["Name"], metadata["Version"], metadata["License-Expression"]) == ("fbrag", __version__, "Apache-2.0")
    assert (metadata["License-File"], metadata["Requires-Python"]) == ("LICENSE", PROJECT["requires-python"])
    assert {*metadata.get_all("Provides-Extra", ())} == PROJECT["optional-dependencies"].keys()
    assert metadata["Description-Content-Type"] == "text/markdown"
    text, readme = str(metadata.get_payload()).strip(), (ROOT / "README.md").read_text("utf-8").strip()
    assert text == readme or PROJECT.get("urls")  # with an address its links are others: see below
    assert {*metadata.get_all("Project-URL", ())} == {f"{name}, {address}" for name, address in PROJECT.get("urls", {}).items()}


def test_the_page_of_an_index_has_no_link_into_a_clone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    address = "https://github.com/owner/fbrag"
    command = [sys.executable, "-c", PAGE, str(ROOT), address, str(page)]
    subprocess.run(command, check=True)
    links = re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8"))
    of_clone = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))
    assert f"{address}/raw/v{__version__}/docs/page-light.webp" in links
    assert f"{address}/blob/v{__version__}/docs/README.md#when-not-to-use-fbrag" in links
    assert all(link.startswith(("https://", "#")) for link in links)
    assert [link.partition(f"/v{__version__}/")[2] or link for link in links] == of_clone
    readme = (ROOT / "README.md").read_text("utf-8")
    assert re.sub(rf"{re.escape(address)}/(?:raw|blob)/v{re.escape(__version__)}/", "", page.read_text("utf-8")) == readme


# -- the image -----------------------------------------------------------------------------------------------------------------

DOCKERFILE = ROOT / ".github" / "Dockerfile"


def instructions(name: str) -> list[str]:
    """Return what follows an instruction of the Dockerfile, each time that it stands there."""
    return re.findall(rf"^{name} (.*)$", DOCKERFILE.read_text("utf-8"), re.MULTILINE)


def test_what_the_package_imports_comes_with_it_or_with_an_extra_for_users() -> None:
    """Not with what only the tests and the checks install. anyio comes with Starlette, OpenCV with RapidOCR."""
    extras = (lines for name, lines in PROJECT["optional-dependencies"].items() if name not in ("test", "test-all", "lint"))
    declared = {_library(line) for lines in (PROJECT["dependencies"], *extras) for line in lines}
    declared |= {"anyio", "opencv-python-headless"}
    of_modules = packages_distributions()
    for path in (ROOT / "fbrag_cli").rglob("*.py"):
        for module in _imported(path) - sys.stdlib_module_names - {"fbrag_cli"}:
            # A library that is not here has its module's name, or another that is known.
            known = {"PIL": "pillow", "cv2": "opencv-python-headless"}.get(module, module)
            own = {_library(each) for each in of_modules.get(module, [known])}
            assert own & declared, f"{path.relative_to(ROOT)} imports {module}: pyproject.toml does not declare it"


def _library(requirement: str) -> str:
    """Return the normal name of a library, from a requirement or from its metadata."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-").replace(".", "-")


def _imported(path: Path) -> set[str]:
    """Return the modules that a file imports, without what lies below them."""
    nodes = [*ast.walk(ast.parse(path.read_text("utf-8")))]
    names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return {name.partition(".")[0] for name in names}


def test_the_image_has_a_python_that_fbrag_supports() -> None:
    (version,) = [each.removeprefix("PYTHON=") for each in instructions("ARG") if each.startswith("PYTHON=")]
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
    assert {each.split()[0] for each in instructions("FROM")} == {"python:${PYTHON}-slim"}


def test_the_image_is_built_from_all_that_the_wheel_needs_and_docker_sees_nothing_else() -> None:
    copied = {name for each in instructions("COPY") if not each.startswith("--from") for name in each.split()[:-1]}
    assert all((ROOT / name).exists() for name in copied)
    needed = {name.partition("/")[0] for name in copied}
    assert needed == {"pyproject.toml", "hatch_build.py", "README.md", *PROJECT["license-files"], "fbrag_cli"}
    ignored = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text("utf-8").splitlines()
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == needed


def test_the_image_builds_the_llama_cpp_that_the_project_pins() -> None:
    (search,) = [found for each in instructions("RUN") for found in re.findall(r"\$\((grep .*?)\)", each)]
    found = subprocess.run(["sh", "-c", search], capture_output=True, text=True, cwd=ROOT, check=True).stdout.split()
    assert len(found) == 1
    assert found[0] in PROJECT["dependencies"]


def test_the_image_runs_without_privileges_and_writes_to_its_volume_alone() -> None:
    (user,), (volume,) = instructions("USER"), instructions("VOLUME")
    assert user != "root"
    environment = instructions("ENV")[-1]
    folders = re.findall(r"(FBRAG_\w+)=(\S+)", environment)
    assert {name for name, _ in folders} == {"FBRAG_MODELS_DIR", "FBRAG_CACHE_DIR"}
    assert all(folder.startswith(f"{volume}/") for _, folder in folders)
