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
        ("```\n# no\n```\n    # no\n\n#no\n\n# yes\n", [("yes", 1, "# yes")]),
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


@pytest.mark.parametrize(
    ("text", "read", "n_hidden"),
    [
        ("a <!-- x --> b\n", "a  b\n", 1),
        ("a\n\n<!--\nx\n\n# y\n-->\n\n# b\n", "a\n\n\n\n\n\n\n\n# b\n", 1),
        ("a %%x%% b\n\n%%\nx\n\nx\n%%\nc\n", "a  b\n\n\n\n\n\n\nc\n", 2),
        ("<!-- x %% --> a <!-- x --> %%x <!-- x%% b\n", " a   b\n", 3),
        ("# Head <!-- x -->\n\n> %% x %%\n- <!-- x -->b\n", "# Head \n\n> \n- b\n", 3),
        ("`a` <!-- x `y` --> b `<!-- c -->`\n", "`a`  b `<!-- c -->`\n", 1),
        ("---\ntitle: x\n---\na<!---->b %% %% c\n", "---\ntitle: x\n---\nab  c\n", 0),
    ],
)
def test_comments_of_markdown_are_hidden_and_lines_keep_their_numbers(
    tmp_path: Path, text: str, read: str, n_hidden: int
) -> None:
    document = written(tmp_path, text, "a.md")
    assert document.text == read
    assert "x" not in read.replace("title: x", "")
    assert "y" not in {section.title for section in document.sections}
    told = f"{tmp_path / 'a.md'}: not read: {n_hidden} hidden passage{'s' * (n_hidden > 1)} (--markup reads them)"
    assert document.warnings == ((told,) if n_hidden else ())
    everything = load(str(tmp_path / "a.md"), markup=True)
    assert (everything.text, everything.warnings) == (text, ())


@pytest.mark.parametrize(
    "text",
    [
        "```html\n<!-- seen -->\n```\n",
        "~~~~\n%% seen\n~~~\n%%\n~~~~\n",
        "- ```\n  <!-- seen -->\n  ```\n",
        "> ```\n> %%seen%%\n> ```\n",
        "```\n<!-- never closed: code to the end -->\n",
        "a `<!-- seen -->` and ``%% ` %%`` b\n",
        "50%% and 60%% of it\n",
        "100 %%% and %%%%\n",
        "<!-- never closed\n\nseen\n",
        "%% never closed\n\nseen\n",
        "---\ntitle: a\nnote: <!-- seen --> %%seen%%\n---\n",
    ],
)
def test_what_is_no_comment_of_markdown_is_read(tmp_path: Path, text: str) -> None:
    document = written(tmp_path, text, "a.md")
    assert (document.text, document.warnings) == (text, ())


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("---\ntitle: Rules\n# a comment\ndate: 2026\n---\n# Club\n", ["Club"]),
        ("---\n# a comment\ntitle: Rules\n...\n# Club\n", ["Club"]),
        ("+++\ntitle = 'Rules'\n# a comment\n+++\n# Club\n", ["Club"]),
        ("---\n\n# Club\n\ntext\n\n---\n\n# More\n", ["Club", "More"]),  # lines across the page
        ("# Club\n\n---\ntitle: x\n---\n", ["Club", "title: x"]),
        ("---\ntitle: Rules\n", []),
    ],
)
def test_front_matter_is_text_without_headings(tmp_path: Path, text: str, titles: list[str]) -> None:
    document = written(tmp_path, text, "a.md")
    assert [section.title for section in document.sections] == titles
    assert document.text == text


def test_comments_that_do_not_end_cost_little(tmp_path: Path) -> None:
    for text in (
        "<!-- " * 200_000,
        "%% <!--" * 100_001,
        "`" * 300_000,
        "``` `" * 100_000,
        "<!-- a --> %%b%% " * 50_000,
        "> " * 200_000,
    ):
        written(tmp_path, f"text {text}", "a.md")
