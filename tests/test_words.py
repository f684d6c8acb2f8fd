"""Turns of phrase that a native reader stumbles over stay out of everything that a person reads.

Strings, docstrings and comments of the package are read with `ast` and `tokenize`, the pages by their text. ALLOWED says
how many such turns each file may still have, and only shrinks: the test also fails if a file has fewer than it says.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

TURNS = {
    r"\bwhere (?:it|they|there|none|no|nothing|nobody)\b": "if, when",
    r"\banew\b": "again; start over; refresh",
    r"\bin place of\b": "instead of",
    r"\bgo(?:es)? on\b": "continue, resume",
    r"(?<!there )\bis no (?!\w+er\b|more\b)[a-z]": "is not a; invalid",
    r"\bstands?\b": "is, appears, occurs",
    r", at most\b": "at most N",
    r"\bbeside\b": "next to; besides; with",
    r"\d %(?! ?[a-z(])": "75.6%",
    r"\bcannot be had\b": "could not download",
    r"\bso (?:many|long)\b(?! as\b| that\b)": "N seconds",
    r"\b(?:rows?|questions?|tokens?|words?|characters|bytes|[kMG]B|replies|samples) an? (?:second|line|row|question|minute|document|chunk|token|page)\b": "per",
}
TURN = re.compile("|".join(f"(?:{turn})" for turn in TURNS), re.IGNORECASE)

# The turns that each file still has: prompts of published measurements, words that are meant ("stand" in a list of words),
# and what nobody has rewritten yet.
ALLOWED: dict[str, int] = {}


def written(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, kind, text) for each string, docstring and comment of a module; a value in an f-string reads as x0."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and isinstance(node.body[0], ast.Expr)
    }
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "x0" for part in node.values)
            yield node.lineno, "string", "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, "docstring" if id(node) in docstrings else "string", node.value
    first, last, lines = 0, -1, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1:
                yield first, "comment", " ".join(lines)
                first, lines = token.start[0], []
            last = token.start[0]
            lines.append(token.string.lstrip("# "))
    yield first, "comment", " ".join(lines)


def pages() -> Iterator[tuple[Path, str]]:
    """Yield the pages that a user reads, of the changelog the newest version."""
    for path in (
        *sorted((ROOT / "docs").glob("*.md")),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "fbrag_cli").rglob("*.md")),
    ):
        yield path, path.read_text("utf-8")
    changelog = ROOT / "CHANGELOG.md"
    yield changelog, "## ".join(changelog.read_text("utf-8").split("\n## ")[:2])


def turns() -> dict[str, list[tuple[int, str, str]]]:
    """Return the turns of each file that has one: (line, kind, the turn with the words around it)."""
    found: dict[str, list[tuple[int, str, str]]] = {}
    texts = [
        (path, line, kind, text)
        for path in sorted((ROOT / "fbrag_cli").rglob("*.py"))
        for line, kind, text in written(path.read_text("utf-8"))
    ]
    texts += [(path, 1, "page", text) for path, text in pages()]
    for path, line, kind, text in texts:
        for turn in TURN.finditer(re.sub(r"\s", " ", text)):
            words = text[max(0, turn.start() - 40) : turn.end() + 30].replace("\n", " ")
            at = line + text.count("\n", 0, turn.start())
            found.setdefault(path.relative_to(ROOT).as_posix(), []).append((at, kind, words))
    return found


def test_the_words_are_those_of_a_native_reader() -> None:
    found = turns()
    new = [
        f"{path}:{line}: {words}"
        for path, places in found.items()
        if len(places) > ALLOWED.get(path, 0)
        for line, _, words in places
    ]
    assert not new, "\n".join(("turns of phrase to rewrite (TURNS has better ones):", *new))
    fewer = {path: len(found.get(path, ())) for path, allowed in ALLOWED.items() if len(found.get(path, ())) < allowed}
    assert not fewer, f"ALLOWED has more than there is, which is: {fewer}"
