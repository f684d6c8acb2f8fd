"""Scans and pictures on the command line: what is said of them, with OCR and without it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from fbrag_cli.installation import extra
from tests.conftest import Run, needs
from tests.documents.scans import Sheet, lines, pdf_of_sheets, scan_of
from tests.documents.test_pdf import encrypted, pdf

TYPED = ("The parish council met on Monday evening in the school.", "It heard the report of the treasurer on the clock.")
SCANNED = ("The sexton wound the church clock on Friday.", "He was paid nine shillings for the work.")
MODEL = {"FBRAG_SMALL": "smollm2-135m", "FBRAG_LARGE": "smollm2-135m"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scans")
    (folder / "minutes.pdf").write_bytes(pdf_of_sheets(Sheet(lines(*TYPED)), scan_of(lines(*SCANNED))))
    (folder / "scan.pdf").write_bytes(pdf_of_sheets(scan_of(lines(*SCANNED))))
    (folder / "blank.pdf").write_bytes(pdf(b""))
    return folder


# With OCR


def test_a_source_from_a_scan_is_named_as_one(fbrag_cached: Run, files: Path, smollm2: Path, tmp_path: Path) -> None:
    needs("rapidocr")
    ask = ("ask", files / "minutes.pdf", "Who wound the church clock?", "--fast", "--allow-unsupported", "--chunk-words", "20")
    done = fbrag_cached(*ask, "--sources", "all", "--html", tmp_path / "page.html", env=MODEL)
    assert "minutes.pdf p. 2, read by OCR\n" in done.stdout
    assert "minutes.pdf p. 1\n" in done.stdout
    assert f"warning: {files}/minutes.pdf: 1 page was read by OCR (2)\n" in done.stderr
    assert re.search(r"p\. 2</bdi>(</a>)?, read by OCR", (tmp_path / "page.html").read_text("utf-8"))
    told = json.loads(fbrag_cached(*ask, "--json", env=MODEL).stdout)
    assert {source["page"]: source["ocr"] for source in told["sources"]} == {1: False, 2: True}
    assert told["documents"][0]["ocr_pages"] == [2]


def test_a_sentence_of_a_typed_page_is_not_named_as_a_scan(fbrag_cached: Run, files: Path, smollm2: Path) -> None:
    needs("rapidocr")
    ask = ("ask", files / "minutes.pdf", "Who heard the report of the treasurer?", "--fast", "--allow-unsupported")
    done = fbrag_cached(*ask, "--sources", "all", env=MODEL)
    assert "minutes.pdf p. 1\n" in done.stdout  # of a passage that continues on the scanned page
    assert [source["ocr"] for source in json.loads(fbrag_cached(*ask, "--json", env=MODEL).stdout)["sources"]] == [True]


def test_the_text_of_a_scan_is_printed_and_kept_by_page(fbrag_cached: Run, files: Path) -> None:
    needs("rapidocr")
    done = fbrag_cached("text", files / "scan.pdf", "--plain")
    assert (done.stdout.splitlines(), done.stderr) == ([*SCANNED], f"warning: {files}/scan.pdf was read by OCR\n")
    kinds = {each["kind"]: each for each in json.loads(fbrag_cached("cache", "size", "--json").stdout)["kinds"]}
    assert kinds["scans"]["bytes"] > 0
    assert fbrag_cached("cache", "clear", "-y", "--kind", "scans").returncode == 0
    again = fbrag_cached("text", files / "scan.pdf", "--plain", "--refresh")
    assert again.stdout == done.stdout


def test_nothing_of_a_scan_with_a_password_is_left_on_disk(fbrag: Run, files: Path, tmp_path: Path) -> None:
    needs("rapidocr")
    (tmp_path / "secret.pdf").write_bytes(encrypted((files / "scan.pdf").read_bytes(), "geheim", "owner", "AES-256"))
    (tmp_path / "pw.txt").write_text("geheim")
    before = {*tmp_path.rglob("*")}
    done = fbrag("text", tmp_path / "secret.pdf", "--plain", "--password-file", tmp_path / "pw.txt")
    assert done.stdout.splitlines() == [*SCANNED]
    assert [path for path in {*tmp_path.rglob("*")} - before if path.is_file()] == []


# Without it


@pytest.fixture
def without(fbrag: Run, tmp_path: Path) -> Run:
    """Run the command where the extra is not installed."""
    (tmp_path / "sitecustomize.py").write_text('import sys\nsys.modules["rapidocr"] = None\n')
    return lambda *arguments: fbrag(*arguments, env={"PYTHONPATH": f"{tmp_path}:{':'.join(sys.path)}"})


def test_a_scan_names_the_command_that_installs_ocr(without: Run, files: Path) -> None:
    done = without("text", files / "scan.pdf")
    error, hint = done.stderr.splitlines()
    assert (done.returncode, error) == (3, f"error: {files}/scan.pdf has no text on its only page (scanned images)")
    assert hint == f"hint: to read by OCR: {extra('ocr')}"
    warned = without("text", files / "minutes.pdf", "--plain")
    assert (warned.returncode, warned.stdout.splitlines()) == (0, [*TYPED])
    assert warned.stderr.startswith(f"warning: {files}/minutes.pdf: page 2 is scanned and not read; to read by OCR: ")
    doctor = json.loads(without("doctor", "--offline", "--skip-gpu", "--json").stdout)
    found = next(check for check in doctor["checks"] if check["name"] == "ocr")
    assert found["finding"] == f"not installed, scans and pictures are not read: {hint.removeprefix('hint: to read by OCR: ')}"


def test_ocr_of_all_pages_needs_the_extra(without: Run, files: Path) -> None:
    done = without("text", files / "scan.pdf", "--ocr", "all")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --ocr all: OCR is not installed\nhint: ")


def test_a_blank_page_is_no_scan(without: Run, files: Path) -> None:
    done = without("text", files / "blank.pdf")
    assert done.stderr.startswith(f"error: {files}/blank.pdf has no text on its only page (nothing is drawn there)\n")


def test_scans_of_a_folder_are_skipped_with_a_warning(without: Run, files: Path) -> None:
    done = without("explain", files, "Who heard the report?", "--method", "vanilla", "--json")
    told = json.loads(done.stdout)
    assert [Path(each["path"]).name for each in told["documents"]] == ["minutes.pdf"]
    assert f"left out: {files}/scan.pdf has no text on its only page (scanned images)" in told["warnings"]
