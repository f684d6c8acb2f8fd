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
    "CHANGELOG.md": 46,
    "CONTRIBUTING.md": 4,
    "README.md": 19,
    "docs/json.md": 12,
    "docs/machine.md": 6,
    "docs/options.md": 71,
    "docs/rows.md": 6,
    "docs/serve.md": 5,
    "fbrag_cli/__main__.py": 1,
    "fbrag_cli/citations.py": 14,
    "fbrag_cli/cli/SKILL.md": 1,
    "fbrag_cli/cli/chat.py": 12,
    "fbrag_cli/cli/method_options.py": 2,
    "fbrag_cli/cli/options.py": 18,
    "fbrag_cli/cli/serve.py": 7,
    "fbrag_cli/corpus.py": 1,
    "fbrag_cli/documents/decoding/encoding.py": 2,
    "fbrag_cli/documents/decoding/guesses.py": 6,
    "fbrag_cli/documents/format_detection.py": 2,
    "fbrag_cli/documents/pdf/annotations.py": 3,
    "fbrag_cli/documents/pdf/page_text.py": 6,
    "fbrag_cli/documents/pdf/pages.py": 1,
    "fbrag_cli/documents/pdf/reader.py": 1,
    "fbrag_cli/documents/pdf/running_lines.py": 2,
    "fbrag_cli/documents/readers/docx.py": 1,
    "fbrag_cli/documents/readers/docx_numbering.py": 1,
    "fbrag_cli/documents/readers/drawing.py": 1,
    "fbrag_cli/documents/readers/epub.py": 1,
    "fbrag_cli/documents/readers/html.py": 2,
    "fbrag_cli/documents/readers/markup.py": 1,
    "fbrag_cli/documents/readers/odt.py": 1,
    "fbrag_cli/documents/readers/rtf.py": 2,
    "fbrag_cli/documents/readers/spreadsheet.py": 1,
    "fbrag_cli/documents/readers/writer.py": 4,
    "fbrag_cli/documents/source.py": 1,
    "fbrag_cli/documents/tables.py": 1,
    "fbrag_cli/generation/generator.py": 1,
    "fbrag_cli/generation/llama/sample.py": 1,
    "fbrag_cli/indexing/collect.py": 2,
    "fbrag_cli/indexing/embeddings.py": 3,
    "fbrag_cli/indexing/entry.py": 1,
    "fbrag_cli/indexing/files.py": 1,
    "fbrag_cli/indexing/store.py": 1,
    "fbrag_cli/methods/fb_rag/fb_rag.py": 4,
    "fbrag_cli/methods/fb_rag/long_context.py": 2,
    "fbrag_cli/methods/fb_rag/order_preserving.py": 1,
    "fbrag_cli/methods/fit_rag/method.py": 3,
    "fbrag_cli/methods/fit_rag/parts.py": 2,
    "fbrag_cli/methods/fit_rag/windows.py": 4,
    "fbrag_cli/methods/method.py": 8,
    "fbrag_cli/methods/parts.py": 4,
    "fbrag_cli/methods/prompt_file.py": 2,
    "fbrag_cli/methods/prompts.py": 10,
    "fbrag_cli/methods/r2ag/former.py": 5,
    "fbrag_cli/methods/r2ag/method.py": 7,
    "fbrag_cli/methods/ranking.py": 2,
    "fbrag_cli/methods/registry.py": 4,
    "fbrag_cli/progress.py": 1,
    "fbrag_cli/render/answer.py": 11,
    "fbrag_cli/render/as_json.py": 5,
    "fbrag_cli/render/explain_text.py": 6,
    "fbrag_cli/render/html.py": 4,
    "fbrag_cli/render/live_page.py": 1,
    "fbrag_cli/render/markdown.py": 4,
    "fbrag_cli/render/matrix.py": 2,
    "fbrag_cli/render/model_list.py": 2,
    "fbrag_cli/render/passages.py": 11,
    "fbrag_cli/render/tables.py": 5,
    "fbrag_cli/render/text.py": 3,
    "fbrag_cli/retrieval/bm25.py": 5,
    "fbrag_cli/retrieval/sentence_model.py": 1,
    "fbrag_cli/serving/desk.py": 5,
    "fbrag_cli/serving/door.py": 2,
    "fbrag_cli/serving/http/documents.py": 4,
    "fbrag_cli/serving/http/inquiry.py": 3,
    "fbrag_cli/serving/http/openai_request.py": 5,
    "fbrag_cli/serving/http/page_events.py": 1,
    "fbrag_cli/serving/job.py": 5,
    "fbrag_cli/serving/library.py": 5,
    "fbrag_cli/serving/lifetime.py": 4,
    "fbrag_cli/serving/mcp/results.py": 2,
    "fbrag_cli/serving/mcp/server.py": 1,
    "fbrag_cli/serving/mcp/tools.py": 2,
    "fbrag_cli/serving/process/__init__.py": 1,
    "fbrag_cli/serving/process/connection.py": 1,
    "fbrag_cli/serving/process/entrance.py": 4,
    "fbrag_cli/serving/process/guard.py": 3,
    "fbrag_cli/serving/process/peers.py": 2,
    "fbrag_cli/serving/process/tcp_socket.py": 1,
    "fbrag_cli/serving/process/unix_socket.py": 6,
    "fbrag_cli/text/words.py": 1,
    "fbrag_cli/trace.py": 10,
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
