"""Keeps twelve foreign turns of phrase out of everything that a person reads.

Strings, docstrings and comments of the package are read with `ast` and `tokenize`, pages as text. ALLOWED has the number of
turns that each file may still have. It only shrinks: the test also fails if a file has fewer.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

_UNITS = "rows?|questions?|tokens?|words?|characters|bytes|[kMG]B|replies|samples"
_PER = "second|minute|line|row|question|document|chunk|page|token"

#: Turn -> what a native writer says.
TURNS = {
    r"\bwhere (it|they|there|none|no|nothing|nobody)\b": "if, when",
    r"\banew\b": "again; start over; refresh",
    r"\bin place of\b": "instead of",
    r"\bgo(es)? on\b": "continue, resume",
    r"(?<!there )\bis no (?!more\b|\w+er\b)[a-z]": "is not a; invalid",
    r"\bstands?\b": "is, appears, occurs",
    r", at most\b": "at most N",
    r"\bbeside\b": "next to; besides; with",
    r"\d %": "75.6%",
    r"\bcannot be had\b": "could not download",
    r"\bso (many|long)\b(?! as\b| that\b)": "N seconds",
    rf"\b({_UNITS}) an? ({_PER})\b": "per",
}

# The turns that each file still has, until somebody rewrites them. The numbers only shrink.
ALLOWED: dict[str, int] = {
    "CONTRIBUTING.md": 3,
    "docs/json.md": 1,
    "fbrag_cli/__main__.py": 1,
    "fbrag_cli/documents/decoding/guesses.py": 2,
    "fbrag_cli/documents/pdf/running_lines.py": 1,
    "fbrag_cli/documents/readers/epub.py": 1,
    "fbrag_cli/documents/readers/rtf.py": 1,
    "fbrag_cli/documents/readers/writer.py": 1,
    "fbrag_cli/indexing/embeddings.py": 1,
    "fbrag_cli/methods/fit_rag/method.py": 3,
    "fbrag_cli/methods/fit_rag/parts.py": 1,
    "fbrag_cli/methods/fit_rag/windows.py": 2,
    "fbrag_cli/methods/prompts.py": 6,
    "fbrag_cli/methods/relevance/former.py": 2,
    "fbrag_cli/methods/r2ag/method.py": 5,
    "fbrag_cli/render/as_json.py": 1,
    "fbrag_cli/render/model_list.py": 1,
    "fbrag_cli/render/tables.py": 1,
    "fbrag_cli/serving/desk.py": 1,
    "fbrag_cli/serving/mcp/server.py": 1,
    "fbrag_cli/serving/process/__init__.py": 1,
    "fbrag_cli/serving/process/access.py": 1,
}


def written(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, kind, text) for each string, docstring and comment in a module. Values in f-strings become x0."""
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
    """Yield the Markdown pages for users, but only the newest version in the changelog."""
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
    """Return the turns in each file that has any: (line, kind, the turn with the words around it and the better ones)."""
    texts = [
        (path, line, kind, text)
        for path in sorted((ROOT / "fbrag_cli").rglob("*.py"))
        for line, kind, text in written(path.read_text("utf-8"))
    ]
    texts += [(path, 1, "page", text) for path, text in pages()]
    found: dict[str, list[tuple[int, str, str]]] = {}
    for turn, better in TURNS.items():
        pattern = re.compile(turn if "(?<" in turn else turn.replace(" ", r"\s+"), re.IGNORECASE)
        for path, line, kind, text in texts:
            for match in pattern.finditer(text):
                words = " ".join(text[max(0, match.start() - 40) : match.end() + 30].split())
                place = line + text.count("\n", 0, match.start())
                found.setdefault(path.relative_to(ROOT).as_posix(), []).append((place, kind, f"{words} ({better})"))
    return found


def test_the_words_are_those_of_a_native_writer() -> None:
    found = turns()
    new = [
        f"{path}:{line}: {words}"
        for path, places in found.items()
        if len(places) > ALLOWED.get(path, 0)
        for line, _, words in sorted(places)
    ]
    assert not new, "\n".join(("turns of phrase to rewrite:", *new))
    too_many = {path: len(found.get(path, ())) for path, allowed in ALLOWED.items() if len(found.get(path, ())) < allowed}
    assert not too_many, f"ALLOWED is too large; there are only: {too_many}"
