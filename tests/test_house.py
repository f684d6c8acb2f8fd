"""The rules of the house, by reading the code: imports go down, libraries have their homes, nothing grows too large."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "fbrag_cli"

#: Homes from the bottom up: a module imports its own home and those of lower floors. Homes of one floor do not know each other.
FLOORS = [
    ["errors", "cancellation", "installation", "limits"],
    ["progress", "children"],
    ["text"],
    ["storage"],
    ["documents", "citations"],
    ["corpus"],
    ["retrieval", "generation"],
    ["trace"],
    ["methods", "models"],
    ["render", "indexing", "doctor"],
    ["session"],
    ["evaluation", "batch", "serving"],
    ["training"],
    ["cli"],
    ["__main__"],
]
FLOOR = {home: floor for floor, homes in enumerate(FLOORS) for home in homes}

#: A library -> the homes that may import it. Those marked "module" may be imported inside functions elsewhere.
HOMES_OF = {
    "llama_cpp": ("generation/llama",),
    "typer": ("cli",),
    "click": ("cli",),
    "mcp": ("serving/mcp",),
    "starlette": ("serving",),
    "uvicorn": ("serving",),
    "rich": ("cli", "text", "evaluation"),  # text and tables measure the width of characters by rich.cells
}
#: Never imported when a module is loaded: the start would pay for them.
LAZY = {
    "pypdf",
    "lxml",
    "python_calamine",
    "sentence_transformers",
    "torch",
    "transformers",
    "matplotlib",
    "jieba",
    "rouge",
    "httpx2",
    "ray",
}

#: Papers whose methods were added to FB-RAG's, and the places that may name them.
PAPERS = r"fit[-_ ]?rag|r2[-_ ]?(ag|former)\b"
PLACES_OF_A_PAPER = r"(methods|training)/(fit_rag/|r2ag/|registry\.py)"

MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 60
MOST_PARAMETERS = 6

MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").as_posix().removesuffix("/__init__") or "__init__"


def home_of(module: str) -> str:
    return module.split("/")[0]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imports(path: Path, *, at_load: bool = False, for_types: bool = True) -> Iterator[str]:
    """The modules that a file imports, as "a.b.c".

    at_load: only those that are imported with it. for_types: also those that only annotations need.
    """
    tree = parsed(path)
    for node in ast.walk(tree) if for_types and not at_load else _run(tree, at_load=at_load):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _run(tree: ast.Module, *, at_load: bool) -> Iterator[ast.AST]:
    """What runs of a module: when it is loaded (at_load), or ever."""
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop()
        if at_load and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            todo += node.orelse
            continue
        yield node
        todo += ast.iter_child_nodes(node)


def own_imports(path: Path) -> Iterator[str]:
    """The homes of this package that a file imports."""
    for name in imports(path, for_types=home_of(name_of(path)) != "__init__"):
        parts = name.split(".")
        if parts[0] == "fbrag_cli" and len(parts) > 1 and parts[1] in FLOOR:
            yield parts[1]


def test_every_home_has_a_floor() -> None:
    homes = {home_of(name_of(path)) for path in MODULES} - {"__init__"}
    assert homes == set(FLOOR)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_down(path: Path) -> None:
    home = home_of(name_of(path))
    if home == "__init__":
        assert not list(own_imports(path))
        return
    up = {other for other in own_imports(path) if other != home and FLOOR[other] >= FLOOR[home]}
    assert not up, f"{name_of(path)} imports {', '.join(sorted(up))}, which do not lie below {home}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_libraries_stay_in_their_homes(path: Path) -> None:
    module = name_of(path)
    for library, homes in HOMES_OF.items():
        if any(name.split(".")[0] == library for name in imports(path)):
            assert module.startswith(homes), f"{module} imports {library}, which is for {', '.join(homes)}"
    heavy = {name.split(".")[0] for name in imports(path, at_load=True)} & LAZY
    allowed = {"documents/readers", "documents/pdf", "retrieval/sentence_model", "retrieval/bge_m3", "models", "evaluation/plots"}
    allowed |= {"generation/server/", "training/"}
    assert not heavy or module.startswith(tuple(allowed)), f"{module} imports {', '.join(heavy)} when it is loaded"


def test_nothing_happens_at_import() -> None:
    """No module writes to the environment, or installs a hook, when it is loaded."""
    for path in MODULES:
        for node in _run(parsed(path), at_load=True):
            written = ast.unparse(node) if isinstance(node, ast.Expr | ast.Assign | ast.AugAssign) else ""
            assert not re.search(r"environ(\[|\.setdefault|\.update| \|=)|log_set\(", written), name_of(path)


def test_the_core_names_no_paper() -> None:
    """A paper is named in its folders and where it is registered, and nowhere else, whatever the file."""
    named = []
    for path in PACKAGE.rglob("*"):
        place = path.relative_to(PACKAGE).as_posix()
        if path.suffix in (".py", ".jinja", ".css", ".toml", ".json") and not re.match(PLACES_OF_A_PAPER, place):
            lines = enumerate(path.read_text("utf-8").splitlines(), 1)
            named += [f"{place}:{number}: {line}" for number, line in lines if re.search(PAPERS, line, re.IGNORECASE)]
    assert not named, "\n".join(named)


def test_the_sizes() -> None:
    """What is too large is listed with its size, and may only shrink; nothing else may become too large."""
    found: dict[str, int] = {}
    for path in MODULES:
        text = path.read_text("utf-8")
        module = name_of(path)
        if (lines := text.count("\n")) > MOST_LINES:
            found[module] = lines
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef):
                if (length := (node.end_lineno or 0) - node.lineno + 1) > MOST_LINES_OF_A_FUNCTION:
                    found[f"{module}:{node.name}"] = length
                parameters = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                if (many := len([each for each in parameters if each not in ("self", "cls")])) > MOST_PARAMETERS:
                    found[f"{module}:{node.name}()"] = many
    grown = {what: size for what, size in found.items() if size > LARGE.get(what, 0)}
    assert not grown, f"too large, or grown: {grown}"
    gone = {what: (listed, found.get(what, 0)) for what, listed in LARGE.items() if found.get(what, 0) < listed}
    assert not gone, f"smaller than listed: take them off the list, or lower their size: {gone}"


def test_no_circle() -> None:
    """No two modules need each other, to be loaded or to run."""
    needs: dict[str, set[str]] = defaultdict(set)
    known = {name_of(path).replace("/", "."): path for path in MODULES}
    for module, path in known.items():
        for name in imports(path, for_types=False):
            target = name.removeprefix("fbrag_cli.")
            while target and target not in known:
                target = target.rpartition(".")[0]
            if name.startswith("fbrag_cli.") and target and target != module:
                needs[module].add(target)
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " -> ".join((*way[way.index(module) :], module))
        if module not in done:
            for other in sorted(needs[module]):
                visit(other, (*way, module))
            done.add(module)

    for module in sorted(known):
        visit(module, ())


#: Sizes above the limits: lines of modules and of functions, and parameters of functions ("()").
LARGE: dict[str, int] = {
    "documents/load:load()": 7,
}
