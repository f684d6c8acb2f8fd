"""Markdown and reStructuredText: the text stays, its headings are sections."""

from __future__ import annotations

from pathlib import Path

import pytest

from fbrag_cli.documents.document import Content, Document, Extracted, Section
from fbrag_cli.documents.lines import section_of
from fbrag_cli.documents.load import load
from tests.documents.making import written


def headings(tmp_path: Path, text: str, name: str) -> list[tuple[str, int, str]]:
    """Title, level and the line at which each section begins."""
    document = written(tmp_path, text, name)
    assert document.text == text
    return [(section.title, section.level, text[section.start :].split("\n")[0]) for section in document.sections]


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("# One #\ntext\n### Three\n", [("One", 1, "# One #"), ("Three", 3, "### Three")]),
        ("One\n===\n\nTwo\n---\n", [("One", 1, "One"), ("Two", 2, "Two")]),
        ("## *Bold* `code` [link](http://x)\n", [("Bold code link", 2, "## *Bold* `code` [link](http://x)")]),
        ("```\n# no\n```\n    # no\n\n<!--\n# no\n-->\n\n#no\n\n# yes\n", [("yes", 1, "# yes")]),
        ("---\ntitle: x\n---\n\n# yes\n", [("yes", 1, "# yes")]),
        ("> # quoted\n", [("quoted", 1, "> # quoted")]),
        ("no headings - at all\n", []),
        ("#\n", []),
    ],
)
def test_markdown(tmp_path: Path, text: str, sections: list[tuple[str, int, str]]) -> None:
    assert headings(tmp_path, text, "a.md") == sections


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        (
            "====\nBook\n====\n\nPart\n----\n\ntext\n\nNext\n----\n\nSub\n~~~\n",
            [("Book", 1), ("Part", 2), ("Next", 2), ("Sub", 3)],
        ),
        ("Title\n===\n\ntoo short is none\n", []),
        ("=====  =====\nA      B\n=====  =====\n1      2\n=====  =====\n", []),
        ("para\n\n----\n\npara\n", []),
        ("::\n\n    code\n    ====\n", []),
        ("日本\n====\n", [("日本", 1)]),
        ("====\n Mid\n====\n", [("Mid", 1)]),
    ],
)
def test_restructured_text(tmp_path: Path, text: str, sections: list[tuple[str, int]]) -> None:
    assert [(title, level) for title, level, _ in headings(tmp_path, text, "a.rst")] == sections


@pytest.mark.parametrize("name", ["a.md", "a.rst"])
def test_hostile_markup(tmp_path: Path, name: str) -> None:
    for text in (
        ">" * 20_000 + " # x\n",
        "- " * 5_000 + "# x\n",
        "[" * 50_000 + "\n---\n",
        "# " + "*a_" * 50_000 + "\n",
        "=\n" * 50_000,
    ):
        assert written(tmp_path, text, name).text == text


def test_the_section_of_a_span() -> None:
    sections = (Section("One", 1, 10), Section("Two", 2, 20), Section("Two b", 3, 20))
    document = Document.of("a", "a", Extracted(Content("x" * 40, sections=sections), "text/plain"))
    assert section_of(document, 0, 10) is None
    assert section_of(document, 0, 11) == sections[0]
    assert section_of(document, 10, 30) == sections[0]
    assert section_of(document, 19, 30) == sections[0]
    assert section_of(document, 20, 30) == sections[2]
    assert section_of(document, 39, 40) == sections[2]
    assert section_of(Document.of("a", "a", Extracted(Content("x"), "text/plain")), 0, 1) is None


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Meet on ~~Monday~~ Tuesday, ~~at ten\nor so~~.\n", "2 struck-out passages"),
        ("| ~~a~~ | b |\n|---|---|\n| c | d |\n", "1 struck-out passage"),
        ("```\n~~a~~\n```\n\n    ~~b~~\n\n`~~c~~` ~~ d ~~ ~~~e~~~\n", ""),
    ],
)
def test_markdown_is_read_as_written_and_its_struck_out_text_told(tmp_path: Path, text: str, count: str) -> None:
    path = str(tmp_path / "a.md")
    document = written(tmp_path, text, "a.md")
    assert document.text == text
    assert document.warnings == ((f"{path}: read as written: {count} (~~…~~)",) if count else ())
    assert load(path, markup=True).warnings == ()
