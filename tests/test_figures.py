"""The figures on the pages for users are those that tests/benchmarks/figures.py printed, and no others."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT

KEPT = ROOT / "tests" / "benchmarks"
RENEW = "after a change of rows or of what is read: cd tests/benchmarks && PYTHONPATH=../.. python figures.py > figures.txt"
FIGURES = [line.split("\t") for line in (KEPT / "figures.txt").read_text("utf-8").splitlines()]
PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "reference.md")]

#: What claims that something was measured: a percentage, a difference, a duration, a factor, F1, a count of questions.
CLAIM = re.compile(
    r"[\d.,]+%|(?<![\w.])[+-]\d+\.\d+|(?<![\w.-])\d+\.\d+(?![\w.-])"
    r"|(?<![\w.-])[\d.,]+ (?:s|seconds?|minutes?|hours?|times|[GM]B|points|(?:questions|tokens) (?:per|a|an) \w+)\b"
    r"|\bF1 (?:of )?[\d.]+|\bn = \d+|\b\d+ of (?:the )?\d+\b"
)
#: Limits, sizes, definitions, and versions: nothing of them was measured.
UNMEASURED = {
    "README.md": ["file of 1.1 GB", "Coder 1.5B", "1.5 billion", "F1 of at least 0.5"],
    "docs/http.md": [
        "after 15 minutes without",
        "a request 1 MB, an upload 100 MB",
        "after 5 minutes, waiting",
        "2.54 .* and 6.49",
    ],
    "docs/install.md": [
        r"[CG]PU, [\d or]+ GB",
        r"\d[\d.]* [GM]B \|",
        r"\([\d.]+ [GM]B(?: with CUDA)?\)",
        "takes 500 MB",
        "at most 5 GB",
        "2.5 GB of main",
        "than 90 s,",
        "CUDA 11.8",
        "With 3.12, 3.13, and 3.14",
    ],
    "docs/json.md": ["divided by 1.5", "least 0.8 of the best one", "0.6 if"],
    "docs/methods.md": ["fbrag 0.1.0", "95% bootstrap", r"\(95%\)", "0.2 MB", "the 0.5B"],
    "docs/page.md": ["1.3 million words"],
    "docs/rows.md": [r"German is 1234\.5"],
    "docs/use.md": ["section 4.2", "limit of 60 s"],
}
_VERSION = r"(?:Python|BY|BY-SA|Apache|Vulkan|abs/) ?[\d.]+\d"


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("page", sorted({page for page, *_ in FIGURES}))
def test_each_figure_is_on_its_page(page: str) -> None:
    text = plain((ROOT / page).read_text("utf-8"))
    assert [words for its, words, _ in FIGURES if its == page and plain(words) not in text] == [], RENEW


def test_each_figure_has_its_rows() -> None:
    names = {name for *_, of in FIGURES for name in of.split(", ")}
    assert {name for name in names if not (KEPT / "results" / f"{name}.jsonl.gz").is_file()} == set()


@pytest.mark.parametrize("page", PAGES)
def test_no_other_figure_is_on_a_page(page: str) -> None:
    text = plain(re.sub(r"^```.*?^```|`[^`\n]+`(?!`)", "`", (ROOT / page).read_text("utf-8"), flags=re.DOTALL | re.MULTILINE))
    for its, words, _ in FIGURES:
        if its == page:
            text = text.replace(plain(re.sub(r"`[^`]+`", "`", words)), "")
    for words in (_VERSION, *UNMEASURED.get(page, ())):
        text = re.sub(words, "", text)
    assert [text[max(0, found.start() - 40) : found.end() + 20] for found in CLAIM.finditer(text)] == [], "no rows print these"
