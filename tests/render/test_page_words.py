"""What a page says: nothing of the command line, which a reader of a page does not have."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fbrag_cli.render
from fbrag_cli.errors import EXIT_CODES, FbragError
from fbrag_cli.render import live_page, page_words
from fbrag_cli.render.html import page
from fbrag_cli.trace import Verdict
from tests.render.test_html import SEALED, WATCH, document, trace_of
from tests.render.test_live_page import fragments

TYPED = re.compile(r"(?<![\w-])--[a-z][\w-]*|\bqpdf\b|\w+(?:Error|Exception)\b")
OF_CSS = re.compile(r"<style>.*?</style>", re.DOTALL)
OF_CODE = re.compile(r"\{#[^#]*#\}|//[^\n]*|/\*.*?\*/|\"--at\"|TypeError|AbortError|extends Error", re.DOTALL)
WARNING = "log.txt is not UTF-8; read as cp1252, a guess: --encoding NAME overrides it"


@pytest.mark.parametrize("file", sorted(Path(fbrag_cli.render.__file__).parent.glob("*.j*")), ids=lambda file: file.name)
def test_no_template_and_no_script_names_what_is_typed(file: Path) -> None:
    text = OF_CODE.sub("", file.read_text("utf-8"))
    assert TYPED.findall(text) == []


def test_no_answer_on_a_page_names_what_is_typed() -> None:
    trace = trace_of([document(WATCH * 300 + SEALED)], [0], answer="Paris", warnings=(WARNING,))
    trace = replace(trace, scores=replace(trace.scores, backward=np.ones_like(trace.scores.backward)), truncated=True)
    withheld = replace(trace, status="not_found", missing_terms=("owns",))
    unsure = replace(trace, verdict=Verdict(agreement=0.0, answer_probability=0.5, confidence=0.3))
    for each in (trace, withheld, unsure):
        done = live_page.done(each, "j-")
        assert "matching passages read" in done["answer_html"]
        texts = [*fragments(each), *done["warnings"], done["copied"], OF_CSS.sub("", page(each))]
        assert [found for text in texts for found in TYPED.findall(text)] == []
    assert "Paris" in live_page.done(withheld, "j-")["copied"]


@pytest.mark.parametrize("code", EXIT_CODES)
def test_no_error_on_a_page_names_what_is_typed(code: str) -> None:
    message = "scan.pdf is damaged or not a PDF (PdfiumError: Failed to load document (PDFium: Data format error).)"
    told = page_words.error(FbragError(code, message, "use fewer chunks (--select), or drop --set device=2"))
    assert told.message == "scan.pdf is damaged or not a PDF"
    assert TYPED.findall(told.hint or "") == []
    if code == "usage":
        assert told.hint == "use fewer chunks, or drop device=2"


@pytest.mark.parametrize("way", ["/usr/bin/python -m pip install -e '/home/ann/fbrag[ocr]'", "--ocr auto"])
def test_a_page_says_in_words_what_a_scan_needs(way: str) -> None:
    told = page_words.error(
        FbragError("pdf_no_text", "scan.pdf has no text on its only page (scanned images)", f"to read by OCR: {way}")
    )
    warned = page_words.plain(f"scan.pdf: page 3 is scanned and not read; to read by OCR: {way}")
    for said in (told.hint or "", warned):
        assert "OCR" in said
        assert TYPED.findall(said) == []
        assert "pip" not in said
    assert page_words.error(FbragError("pdf_no_text", "x", "name a file that has text")).hint == "add a document with text"
