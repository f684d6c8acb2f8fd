"""Of every format: all words in their order and once, sections where their titles stand, chunks and lines where they say."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from email.message import EmailMessage
from html import escape
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Document
from fbrag_cli.documents.formats import FORMATS, PDF, PICTURES
from fbrag_cli.documents.lines import lines_of, section_of
from fbrag_cli.documents.readers import package
from fbrag_cli.documents.source import read_source
from tests.documents.making import (
    Part,
    docx,
    epub,
    html,
    o_row,
    ods,
    odt,
    pptx,
    refused,
    rtf,
    shape,
    w_paragraph,
    written,
    x_row,
    xlsx,
)

# Letters of many scripts; what is neither a letter nor a digit belongs to the syntax of one format or another.
_LETTERS = st.characters(categories=("Lu", "Ll", "Lo", "Nd"), codec="utf-8").filter(
    lambda letter: unicodedata.normalize("NFC", letter) == letter
)
_WORD = st.text(_LETTERS, min_size=1, max_size=12)
_TEXT = st.lists(_WORD, min_size=1, max_size=30).map(" ".join)
_PARTS = st.lists(st.builds(Part, _TEXT, st.sampled_from([0, 0, 0, 1, 2, 3])), min_size=1, max_size=12)


def _html(parts: Sequence[Part]) -> bytes:
    return html(parts, "<meta charset=utf-8><style>p { color: red }</style>").encode()


def _epub(parts: Sequence[Part]) -> bytes:
    """A page a heading; the zip holds them in the reverse of the reading order."""
    pages: list[str] = [""]
    for part in parts:
        if part.level:
            pages.append("")
        pages[-1] += f"<h{part.level}>{escape(part.text)}</h{part.level}>" if part.level else f"<p>{escape(part.text)}</p>"
    names = [f"page{number}.xhtml" for number in range(len(pages))]
    chapters = dict(zip(names, pages, strict=True))
    return epub(dict(reversed(chapters.items())), names)


def _odt(parts: Sequence[Part]) -> bytes:
    return odt(
        "".join(
            f'<text:h text:outline-level="{part.level}">{escape(part.text)}</text:h>'
            if part.level
            else f"<text:p>{escape(part.text)}</text:p>"
            for part in parts
        )
    )


def _markdown(parts: Sequence[Part]) -> bytes:
    return "\n\n".join("#" * part.level + " " * bool(part.level) + part.text for part in parts).encode()


def _notebook(parts: Sequence[Part]) -> bytes:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["#" * part.level + " " * bool(part.level) + part.text]}
        for part in parts
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, ensure_ascii=False).encode()


def _rst(parts: Sequence[Part]) -> bytes:
    lines = (f"{part.text}\n{'=-~'[part.level - 1] * (2 * len(part.text) + 2)}" if part.level else part.text for part in parts)
    return "\n\n".join(lines).encode()


def _srt(parts: Sequence[Part]) -> bytes:
    cues = (f"{n}\n00:{n // 60:02}:{n % 60:02},000 --> 00:59:59,000\n{part.text}\n" for n, part in enumerate(parts, 1))
    return "\n".join(cues).encode()


def _vtt(parts: Sequence[Part]) -> bytes:
    return ("WEBVTT\n\n" + "".join(f"00:0{n % 10}.000 --> 59:59.000\n{part.text}\n\n" for n, part in enumerate(parts))).encode()


def _mail(parts: Sequence[Part]) -> bytes:
    message = EmailMessage()
    message["From"] = message["To"] = "someone@example.org"
    message.set_content("\n\n".join(part.text for part in parts))
    return bytes(message)


def _mbox(parts: Sequence[Part]) -> bytes:
    return b"From someone@example.org Thu Jan  4 10:00:00 2024\n" + _mail(parts) + b"\n"


def _json(parts: Sequence[Part]) -> bytes:
    return json.dumps([part.text for part in parts]).encode()


def _xml(parts: Sequence[Part]) -> bytes:
    return f"<r><p>{'</p><p>'.join(escape(part.text) for part in parts)}</p></r>".encode()


def _plain(parts: Sequence[Part]) -> bytes:
    return "\n\n".join(part.text for part in parts).encode()


_WRITERS: dict[str, Callable[[Sequence[Part]], bytes]] = {
    ".html": _html,
    ".epub": _epub,
    ".docx": lambda parts: docx("".join(w_paragraph(each.text, f"Heading{each.level}" if each.level else "") for each in parts)),
    ".odt": _odt,
    ".xlsx": lambda parts: xlsx({"Sheet": "".join(x_row(part.text) for part in parts)}),
    ".ods": lambda parts: ods({"Sheet": "".join(o_row(part.text) for part in parts)}),
    ".pptx": lambda parts: pptx([shape(*(part.text for part in parts))]),
    ".md": _markdown,
    ".ipynb": _notebook,
    ".rst": _rst,
    ".rtf": lambda parts: rtf([part.text for part in parts]),
    ".srt": _srt,
    ".vtt": _vtt,
    ".eml": _mail,
    ".mbox": _mbox,
    ".json": _json,
    ".xml": _xml,
    ".tex": _plain,
    ".txt": _plain,
    ".py": _plain,
}
_WITHOUT_SECTIONS = (".rtf", ".srt", ".vtt", ".eml", ".json", ".xml", ".tex", ".txt", ".py")
_ONE_SECTION = {".xlsx": "Sheet", ".ods": "Sheet", ".pptx": "Slide 1", ".mbox": "someone@example.org"}


# What a format's own marks are in the text that is made of it.
_MARKS = {
    ".srt": r"(?m)^\d\d:\d\d:\d\d ",
    ".vtt": r"(?m)^\d\d:\d\d:\d\d ",
    ".eml": r"\AFrom: .*\nTo: .*\n",
    ".md": r"(?m)^#+ ",
    ".ipynb": r"(?m)^#+ ",
    ".rst": r"(?m)^[=~-]+$",
    **{suffix: rf"\A{title}\n" for suffix, title in _ONE_SECTION.items()},
    ".mbox": r"\AFrom: .*\nTo: .*\n",
    ".json": r"(?m)^- ",
    ".xml": r"\Ar:\n|(?m:^(?:  p|r\.p|r > p|r/p): )",
}


def _holds(document: Document, parts: Sequence[Part], suffix: str) -> None:
    # 1. Every paragraph is there in its order and once, on lines of its own.
    text = re.sub(_MARKS[suffix], "", document.text) if suffix in _MARKS else document.text
    assert [line for line in text.split("\n") if line.strip()] == [part.text for part in parts]

    # 2. Sections are the headings, each where its title stands.
    titles = [] if suffix in _WITHOUT_SECTIONS else [part.text for part in parts if part.level]
    titles = [_ONE_SECTION[suffix]] if suffix in _ONE_SECTION else titles
    assert [section.title for section in document.sections] == titles
    assert sorted(document.sections, key=lambda section: section.start) == list(document.sections)
    for section in document.sections:
        line = document.text[section.start :].split("\n", 1)[0].removeprefix("From: ")
        assert (
            line.removeprefix("#" * section.level + " ") == section.title
            if suffix in (".md", ".ipynb")
            else line == section.title
        )

    # 3. Chunks are spans of the text, and their lines are its lines.
    lines = document.text.split("\n")
    for chunk in build_corpus([document], 20).chunks:
        assert document.text[chunk.start : chunk.end] == chunk.text
        first, last = lines_of(document, chunk.start, chunk.end)
        assert chunk.text in "\n".join(lines[first - 1 : last])
        assert lines[first - 1].strip()
        assert lines[last - 1].strip()
        section = section_of(document, chunk.start, chunk.end)
        begun = [each for each in document.sections if each.start <= chunk.start]
        inside = [each for each in document.sections if chunk.start < each.start < chunk.end]
        assert section == (begun[-1] if begun else inside[0] if inside else None)


@pytest.mark.parametrize("suffix", _WRITERS)
def test_words_sections_chunks_and_lines(tmp_path: Path, suffix: str) -> None:
    @given(parts=_PARTS)
    @settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def check(parts: list[Part]) -> None:
        document = written(tmp_path, _WRITERS[suffix](parts), f"document{suffix}")
        assert document.warnings == ()
        _holds(document, parts, suffix)

    check()


def test_every_format_is_tested_here() -> None:
    for format_ in FORMATS:
        is_old = format_.suffixes == (".xls",)  # calamine reads it with the same interface, and nobody writes it any more
        by_page = format_ in (PDF, *PICTURES)  # see test_pdf.py and test_ocr.py
        assert by_page or is_old or any(suffix in _WRITERS for suffix in format_.suffixes), format_.kind


_ZIPS = {".epub", ".docx", ".odt", ".xlsx", ".ods", ".pptx"}


@pytest.mark.parametrize("suffix", sorted(_ZIPS))
def test_a_zip_that_is_cut_or_a_bomb_is_refused(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _WRITERS[suffix]([Part("text " * 999)])
    for data in (whole[: len(whole) // 2], whole[:-200]):
        error = refused(tmp_path, data, f"a{suffix}")
        assert (error.code, "zip" in error.message) == ("doc_unreadable", True)
    monkeypatch.setattr(package, "MAX_UNPACKED", 1_000_000)
    assert "unpacks to more than 1 MB" in refused(tmp_path, _WRITERS[suffix]([Part("x" * 1_100_000)]), f"a{suffix}").message


@pytest.mark.parametrize(
    "data",
    [
        docx("<w:p/>"),
        odt("<text:p/>"),
        xlsx({"S": ""}),
        ods({"S": ""}),
        pptx([shape("")]),
        pptx([]),
        epub({"a.xhtml": "<img src='a.jpg'/>"}),
        b"{\\rtf1\\ansi\\par}",
    ],
)
def test_a_document_without_text_is_empty(tmp_path: Path, data: bytes) -> None:
    error = refused(tmp_path, data, "a")
    assert (error.code, "has no text" in error.message) == ("doc_empty", True)


def test_a_notebook_has_its_code_and_what_it_printed(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": "# Ports\n\nShips | Port\n---|---\n3 | Hull"},
        {
            "cell_type": "code",
            "source": ["n = 3\n", "n"],
            "outputs": [{"text": ["loaded\n"]}, {"data": {"text/plain": "3", "image/png": "aGk="}}, {"ename": "E"}],
        },
        {"cell_type": "raw", "source": ""},
    ]
    document = written(tmp_path, json.dumps({"cells": cells, "nbformat": 4}), "a.ipynb")
    code = "```\nn = 3\nn\n```\n\n```\nloaded\n```\n\n```\n3\n```"
    assert document.text == f"# Ports\n\nShips | Port\n---|---\n3 | Hull\n\n{code}"
    assert [section.title for section in document.sections] == ["Ports"]
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": "n = 3", "outputs": []}]}], "nbformat": 3}
    assert written(tmp_path, json.dumps(old), "old.ipynb").text == "```\nn = 3\n```"
    for damaged in (
        '{"cells": [{"cell_type": "code", "outputs": 3}], "nbformat": 4}',
        '{"cells": 1, "cell_type": 1, "nbformat": 4',
        '{"cell_type": 0, "cells": ["nbformat"]}',
    ):
        assert "a notebook" in refused(tmp_path, damaged, "a.ipynb").message


@pytest.mark.parametrize("suffix", [".html", ".epub", ".docx", ".odt", ".xlsx", ".ods", ".pptx", ".rtf", ".srt", ".vtt"])
def test_content_tells_the_format_without_a_name(suffix: str) -> None:
    from fbrag_cli.documents.load import load

    parts = [Part("A title", 1), Part("And a paragraph.")]
    document = load("-", source=read_source("-", io.BytesIO(_WRITERS[suffix](parts))))
    assert "And a paragraph." in document.text
    assert document.media_type == next(format_.media_type for format_ in FORMATS if suffix in format_.suffixes)
    assert document.warnings == ()


def test_the_novel_as_a_page(shared: Path) -> None:
    from fbrag_cli.documents.load import load

    page = load(str(shared / "books" / "pride-and-prejudice.html"))
    chapters = [section for section in page.sections if section.title.startswith("Chapter")]
    assert [chapter.title for chapter in chapters] == [f"Chapter {number}" for number in range(1, 62)]
    assert all(page.text.startswith(f"{chapter.title}\n", chapter.start) for chapter in chapters)
    plain = load(str(shared / "books" / "pride-and-prejudice.txt"))
    of_page, of_plain = _words(page), _words(plain)
    assert (of_page & of_plain).total() > 0.998 * of_plain.total()  # the editions differ in notes and spelling


def _words(document: Document) -> Counter[str]:
    return Counter(re.findall(r"[A-Za-z]+", document.text))


def test_fences_in_the_code_of_a_notebook_end_nothing(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": "x = '''\n```\n# none\n```\n'''"}, {"cell_type": "markdown", "source": "# One"}]
    assert [section.title for section in written(tmp_path, json.dumps({"cells": cells, "nbformat": 4}), "d.ipynb").sections] == [
        "One"
    ]
