"""Seconds to read a large PDF with a plain loop and with several processes, in turns, and the ratio of the medians.

On a busy machine the processor seconds, which both lists have in brackets, tell more: sharing should take hardly more of them.

python tests/benchmarks/pdf_pages.py shared/books/pride-and-prejudice.pdf [--pages 1000] [--processes 2] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from pypdf import PdfReader, PdfWriter

from fbrag_cli.children import run_jobs
from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.pdf.reader import Share, read_pdf
from fbrag_cli.documents.source import read_source
from fbrag_cli.progress import Listener


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pdf", type=Path, help="whose pages are repeated")
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    plain: list[float] = []
    shared: list[float] = []
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "large.pdf")
        _write(options.pdf, options.pages, path)
        for _ in range(options.rounds):
            seconds, plain_work, expected = _timed(path, None)
            plain.append(seconds)
            seconds, shared_work, read = _timed(path, partial(run_jobs, processes=options.processes, seconds=60.0))
            shared.append(seconds)
            assert read == expected, "the two ways give different texts"
            print(f"plain {plain[-1]:.2f} s [{plain_work:.2f}], ", end="")
            print(f"{options.processes} processes {shared[-1]:.2f} s [{shared_work:.2f}]", flush=True)
    print(f"{options.pages} pages: plain {median(plain):.2f} s, shared {median(shared):.2f} s, ", end="")
    print(f"ratio {median(shared) / median(plain):.2f}")
    return 0


def _write(pdf: Path, n_pages: int, path: str) -> None:
    """A PDF of `n_pages` pages, each an object of its own with its own content."""
    writer = PdfWriter()
    source = PdfReader(pdf)
    while writer.get_num_pages() < n_pages:
        remaining = n_pages - writer.get_num_pages()
        writer.append(PdfReader(pdf), pages=(0, min(len(source.pages), remaining)))
    writer.write(path)


def _timed(path: str, share: Share | None) -> tuple[float, float, Extracted]:
    """Seconds of wall time and of processor time, of children too, and what was read."""
    source = read_source(path)
    before, work_before = perf_counter(), sum(os.times()[:4])
    read = read_pdf(source, ranges=None, password=None, listener=Listener(), share=share)
    return perf_counter() - before, sum(os.times()[:4]) - work_before, read


if __name__ == "__main__":
    sys.exit(main())
