"""The pages of docs/ are true: their examples are read, and they name what the code knows."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fbrag_cli.cli.keys import unknown_variables
from fbrag_cli.cli.main import COMMANDS
from fbrag_cli.evaluation.datasets import load_examples
from fbrag_cli.training.rows import read_material
from tests.conftest import INQUIRY, ROOT, Run
from tests.reference import commands, flags, page

DOCS = ROOT / "docs"


def section(page: str, title: str) -> str:
    """Return the part of a page under a heading that begins with `title`."""
    (found,) = re.findall(rf"^## {re.escape(title)}.*?(?=^## |\Z)", (DOCS / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return str(found)


def example(text: str) -> str:
    (found,) = re.findall(r"^```json\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return str(found)


def keys(text: str) -> set[str]:
    """Return the names in the first column of a section's tables."""
    return {name for line in text.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line.split(" | ")[0])}


def test_the_row_for_eval_is_read(tmp_path: Path) -> None:
    text = section("rows.md", "`fbrag eval`")
    (tmp_path / "set.jsonl").write_text(example(text))
    (tmp_path / "inquiry.txt").write_bytes(INQUIRY.read_bytes())
    (row,) = load_examples([tmp_path / "set.jsonl"])
    assert (row.id, row.answers, len(row.evidence)) == ("t01", ("Dunlathe",), 1)
    assert set(json.loads(example(text))) <= keys(text)


def test_the_row_for_train_is_read(tmp_path: Path) -> None:
    text = section("rows.md", "`fbrag train`")
    (tmp_path / "nq.jsonl").write_text(example(text))
    material = read_material([tmp_path / "nq.jsonl"])
    (question,) = material.questions
    assert (question.text, question.answers, len(question.gold)) == ("who wrote the song", ("Ann Lee",), 1)


@pytest.mark.parametrize(("title", "module"), [("`fbrag eval`", "evaluation/datasets.py"), ("`fbrag train`", "training/rows.py")])
def test_every_key_of_a_row_is_one_that_the_code_reads(title: str, module: str) -> None:
    code = (ROOT / "fbrag_cli" / module).read_text("utf-8")
    assert [name for name in keys(section("rows.md", title)) if f'"{name}"' not in code] == []


def test_the_extras_are_those_of_the_project() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"].keys() - {"test", "test-all", "lint"}
    assert set(re.findall(r"pip install -e '\.\[(\w+)\]'", section("install.md", "Extras"))) == extras


# -- commands and options -----------------------------------------------------------------------------------------------------


def test_the_reference_is_what_the_program_declares() -> None:
    kept, made = (DOCS / "reference.md").read_text("utf-8"), page()
    assert kept == made, "run: python -m tests.reference > docs/reference.md"


#: Options of other programs: of CMake, pip, uv, and llm.
FOREIGN = {"-DGGML_VULKAN", "--no-build-package", "--only-binary", "-e", "--value"}

_CODE = re.compile(r"^```[a-z]*\n(.*?)^```|`([^`\n]+(?:\n[^`\n]+)?)`", re.DOTALL | re.MULTILINE)
_WORDS = re.compile(r"(?:[^\s'\"|;&>#)]|'[^']*'|\"[^\"]*\")+")


def shown(text: str) -> Iterator[list[str]]:
    """Yield the words after `fbrag` of each command that a page shows, and the words of code that begins with an option or with a
    command's own name, as `--set order=document`."""
    for block, inline in _CODE.findall(text):
        if block or "fbrag " in inline:
            for line in re.split(r"(?<![\w.-])fbrag ", block or inline)[1:]:
                if words := re.match(rf"(?:{_WORDS.pattern} ?)+", line):
                    yield _WORDS.findall(words[0])
        elif inline.startswith("-") or inline.split()[0] in COMMANDS:
            yield inline.split()


def unknown(words: list[str]) -> Iterator[str]:
    """Yield what no command has, or not the command that is named: a command, options, and settings of --set."""
    known, path = commands(), "fbrag"
    for word in words:
        if f"{path} {word}" not in known:
            if hasattr(known[path].command, "commands") and word.islower() and word.isalpha() and word not in ("help", "version"):
                yield f"{path} {word}"
            break
        path += f" {word}"
    of = [known[path], known["fbrag"]] if path != "fbrag" else [*known.values()]
    options = set().union(*map(flags, of))
    experts = set().union(*(getattr(each.command, "experts", {}) for each in of))
    for word, after in zip(words, [*words[1:], ""], strict=True):
        for name in re.findall(r"--?[A-Za-z][\w-]*", word.partition("=")[0]) if word.startswith("-") else ():
            short = name[0:2] if not name.startswith("--") else name
            if short not in options and name not in FOREIGN:
                yield name
        setting, sign, _ = after.partition("=")
        if word in ("-s", "--set") and sign and setting != "NAME" and setting.replace("-", "_") not in experts:
            yield f"--set {setting}"


SHOWING = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "fbrag_cli/cli/SKILL.md"]


@pytest.mark.parametrize("name", [*SHOWING, *(f"docs/{path.name}" for path in sorted(DOCS.glob("*.md")))])
def test_the_commands_and_options_that_a_page_shows_exist(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    if name == "CHANGELOG.md":  # what is new: no earlier version, no old names
        text = "## ".join(text.split("\n## ")[:2])
        text = re.sub(r"^\| `[^|]*\||^- Removed:.*?(?=^\n|^- )", "", text, flags=re.DOTALL | re.MULTILINE)
    assert {" ".join(words): found for words in shown(text) if (found := [*unknown(words)])} == {}


def test_the_variables_that_pages_show_exist() -> None:
    texts = [(ROOT / name).read_text("utf-8") for name in SHOWING] + [path.read_text("utf-8") for path in DOCS.glob("*.md")]
    named = {name: "" for text in texts for name in re.findall(r"\bFBRAG_[A-Z_]*[A-Z]\b", text)}
    assert len(named) >= 10
    assert unknown_variables(named) == {}


# -- JSON ----------------------------------------------------------------------------------------------------------------------


def named(text: str) -> set[str]:
    """Return every name of a section's tables, also those in the second column."""
    return {name for line in text.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)}


def names(value: object) -> set[str]:
    """Return all keys of JSON, at any depth, but the settings of a method and the names of models."""
    if isinstance(value, list):
        return set().union(*map(names, value))
    if not isinstance(value, dict):
        return set()
    return set().union(value, *(names(each) for key, each in value.items() if key not in ("method", "settings", "versions")))


def compared(shown: Any, made: Any, place: str = "") -> Iterator[str]:
    """Return the places at which an example and the JSON of a run have other keys."""
    if isinstance(shown, dict) and isinstance(made, dict):
        yield from (f"{place}.{key}" for key in shown.keys() ^ made.keys())
        for key in shown.keys() & made.keys():
            yield from compared(shown[key], made[key], f"{place}.{key}")
    elif isinstance(shown, list) and isinstance(made, list) and shown and made:
        yield from compared(shown[-1], made[-1], f"{place}[-1]")


@pytest.fixture(scope="module")
def outputs(smollm2: Path, fbrag_cached: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the commands print, by schema."""
    questions = tmp_path_factory.mktemp("json") / "questions.txt"
    questions.write_text("Where was the Garefowl built?\n")
    few = [
        "--samples",
        1,
        "--set",
        "recall=1",
        "--select",
        1,
        "--set",
        "forward-tokens=8",
        "--max-tokens",
        4,
        "--allow-unsupported",
    ]
    options = ["-m", smollm2, "--small", smollm2, *few]
    printed = [
        fbrag_cached("ask", "--json", *options, INQUIRY, "Where was the Garefowl built?"),
        fbrag_cached("explain", "--json", "--find", "Osterwick", *options, INQUIRY, "Where was the Garefowl built?"),
        fbrag_cached("batch", INQUIRY, "-Q", questions, *options),
        fbrag_cached("ask", "nosuch.txt", "Who?", "--json"),
    ]
    return {each["schema"]: each for each in (json.loads(run.stdout) for run in printed)}


def test_the_example_of_an_answer_has_the_keys_of_a_real_one(outputs: dict[str, Any]) -> None:
    shown = json.loads(example(section("json.md", "`fbrag.answer/1`")))
    assert [*compared(shown, outputs["fbrag.answer/1"])] == []


def test_the_example_of_an_error_is_a_real_one(outputs: dict[str, Any]) -> None:
    shown, made = json.loads(example(section("json.md", "`fbrag.error/1`"))), outputs["fbrag.error/1"]
    assert {**shown["error"], "hint": made["error"]["hint"]} == made["error"]


def test_every_key_is_explained(outputs: dict[str, Any]) -> None:
    told = named((DOCS / "json.md").read_text("utf-8"))
    assert {schema: names(made) - told for schema, made in outputs.items()} == {schema: set() for schema in outputs}


def test_the_tools_of_the_page_are_those_of_the_server() -> None:
    pytest.importorskip("mcp")
    import anyio

    from fbrag_cli.serving.door import Door
    from fbrag_cli.serving.mcp.server import create_server

    async def no_desk() -> Any:
        raise NotImplementedError

    tools = anyio.run(create_server(no_desk, Door(())).list_tools)
    rows = [line.split(" | ") for line in section("agents.md", "Tools").splitlines() if line.startswith("| `")]
    named = {row[0].strip("| `"): re.findall(r"`(\w+)`", row[1]) for row in rows}
    assert {name: sorted(arguments) for name, arguments in named.items()} == {
        tool.name: sorted(tool.input_schema["properties"]) for tool in tools
    }


# -- fbrag serve ---------------------------------------------------------------------------------------------------------------


def first_column(text: str, pattern: str) -> set[str]:
    return {name for line in text.splitlines() if line.startswith("| `") for name in re.findall(pattern, line.split(" | ")[0])}


def test_the_routes_of_the_page_are_those_of_the_server(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    from fbrag_cli.serving.desk import Desk
    from fbrag_cli.serving.http.app import create_app
    from fbrag_cli.serving.library import Library
    from fbrag_cli.session.session import Session
    from fbrag_cli.storage.cache import Cache

    with Session.open(cache=Cache(tmp_path)) as session:
        app = create_app(Desk(session, Library(session)))
    paths = {getattr(route, "path", "").replace("{name:path}", "NAME") for route in app.routes}
    asked = {path for path in paths if path.startswith("/v1/") and "{" not in path} | {"/healthz"}
    assert first_column(section("http.md", "HTTP"), r"(/[\w/]+)") == asked - {"/v1/models/NAME"}  # of OpenAI's form


def test_the_events_of_the_page_are_those_of_the_server() -> None:
    code = (ROOT / "fbrag_cli" / "render" / "as_json.py").read_text("utf-8")
    assert first_column(section("http.md", "Events"), r"`(\w+)`") == {*re.findall(r'"event": "(\w+)"', code), "error"}


def test_the_keys_of_a_question_are_those_that_the_server_knows() -> None:
    pytest.importorskip("starlette")
    from fbrag_cli.serving.http.inquiry import Inquiry

    table = section("http.md", "HTTP").partition("| key of a question |")[2]
    assert first_column(table, r"`(\w+)`") == {*Inquiry.model_fields}
