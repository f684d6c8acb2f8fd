"""Which OCR engine reads scanned pages: recall and precision of the words that fbrag would search, by page and state of the scan.

    pip install rapidocr onnxruntime pillow
    apt-get install tesseract-ocr tesseract-ocr-deu tesseract-ocr-ita tesseract-ocr-chi-sim fonts-wqy-microhei
    python tests/benchmarks/ocr.py read OUT.jsonl [--engines fbrag rapidocr tesseract]
    python tests/benchmarks/ocr.py compare ROWS.jsonl[.gz]

Eleven A4 pages: English (the novel), German, Italian (scans.json) and Chinese (xquad.zh), in one column, in two and as a table.
Each is drawn at 300 dpi and made worse in four ways. Words are those of `fbrag_cli.text.words.terms`, counted with repetitions,
without their order. Engines: rapidocr with the models and settings of its wheel, one thread; fbrag, which is rapidocr as fbrag
sets it, with the lines in fbrag's order; tesseract with the language that the page has. A row is one page in one state by one
engine; a run that is started again goes on.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import subprocess
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from statistics import mean
from time import process_time
from typing import Any

import numpy as np
from sample_languages import read as rows_in

from fbrag_cli.documents.ocr.engine import read_lines
from fbrag_cli.documents.ocr.page import OcrPage
from fbrag_cli.text.words import terms

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared"
FONTS = {
    "zh": "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
    "": "/usr/share/fonts/truetype/dejavu/DejaVuSerif.ttf",
}
TESSERACT = {"en": "eng", "de": "deu", "it": "ita", "zh": "chi_sim"}
DPI = 300
PAGE, MARGIN, GAP = (2480, 3508), 250, 120  # of A4, in pixels
SIZE, LEADING = 46, 66  # 11 points

#: How a scan differs from the page: its resolution, then whether it is blurred and noisy, and the quality of its JPEG.
STATES = {
    "300 dpi": (300, False, 95),
    "200 dpi, JPEG 40": (200, False, 40),
    "150 dpi, blur, noise": (150, True, 75),
    "100 dpi": (100, False, 90),
}


def written() -> dict[str, Any]:
    """Pages in German and Italian, and tables, which were invented for this."""
    made: dict[str, Any] = json.loads((HERE / "scans.json").read_text("utf-8"))
    return made


def texts() -> dict[str, str]:
    novel = (SHARED / "books" / "pride-and-prejudice.txt").read_text("utf-8").split("\n\n")
    with gzip.open(SHARED / "bench" / "xquad.zh.txt.gz", "rt", encoding="utf-8") as file:
        chinese = file.read()
    return {"en": "\n\n".join(" ".join(each.split()) for each in novel[200:240]), "zh": chinese[:4000], **written()["texts"]}


@cache
def font(language: str) -> Any:
    from PIL import ImageFont

    return ImageFont.truetype(FONTS.get(language, FONTS[""]), SIZE)


def wrapped(text: str, language: str, width: int) -> Iterator[str]:
    """Yield the lines of a text that fit `width` pixels."""
    per_line = width // int(font(language).getlength("中") if language == "zh" else font(language).getlength("n" * 20) / 21)
    for paragraph in text.split("\n"):
        if language == "zh":
            yield from (paragraph[i : i + per_line - 1] for i in range(0, len(paragraph), per_line - 1))
        else:
            yield from textwrap.wrap(paragraph, per_line) or [""]


def pages() -> Iterator[tuple[str, str, Any, str]]:
    """Yield (language, layout, image, text that is on it)."""
    from PIL import Image, ImageDraw

    rows = (PAGE[1] - 2 * MARGIN) // LEADING
    for language, text in texts().items():
        for layout in ("one column", "two columns", "table"):
            image = Image.new("L", PAGE, 255)
            draw, said = ImageDraw.Draw(image), list[str]()
            if layout == "table":
                if language not in written()["tables"]:
                    continue
                for i, row in enumerate(written()["tables"][language]):
                    for j, cell in enumerate(row):
                        draw.text((MARGIN + j * 640, MARGIN + i * 2 * LEADING), cell, font=font(language), fill=0)
                    said.append("\t".join(row))
            else:
                n = 1 if layout == "one column" else 2
                width = (PAGE[0] - 2 * MARGIN - (n - 1) * GAP) // n
                lines = list(wrapped(text, language, width))[: rows * n]
                for i, line in enumerate(lines):
                    at = (MARGIN + (i // rows) * (width + GAP), MARGIN + (i % rows) * LEADING)
                    draw.text(at, line, font=font(language), fill=0)
                said = lines
            yield language, layout, image, ("" if language == "zh" else "\n").join(said)


def scanned(image: Any, state: str) -> Any:
    from PIL import Image, ImageFilter

    dpi, is_bad, quality = STATES[state]
    image = image.resize((image.width * dpi // DPI, image.height * dpi // DPI), Image.Resampling.LANCZOS)
    if is_bad:
        image = image.rotate(0.5, fillcolor=255).filter(ImageFilter.GaussianBlur(0.6))
        noise = np.random.default_rng(0).normal(0, 12, (image.height, image.width))
        image = Image.fromarray((np.asarray(image).astype(float) + noise).clip(0, 255).astype("uint8"))
    packed = io.BytesIO()
    image.save(packed, "JPEG", quality=quality, dpi=(dpi, dpi))
    return Image.open(packed).convert("L")


def by_rapidocr() -> Callable[[Any, str, int], str]:
    os.environ |= dict.fromkeys(("ORT_DISABLE_TELEMETRY", "ORT_TELEMETRY_DISABLED"), "1")
    from rapidocr import RapidOCR

    engine = RapidOCR(
        params={
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            "Global.log_level": "error",
            "Global.max_side_len": 2400,
        }
    )

    def text(image: Any, language: str, dpi: int) -> str:
        found = engine(np.asarray(image.convert("RGB"))[:, :, ::-1])
        return "\n".join(found.txts or ())

    return text


def by_fbrag() -> Callable[[Any, str, int], str]:
    def text(image: Any, language: str, dpi: int) -> str:
        picture = np.asarray(image.convert("RGB"))[:, :, ::-1]
        lines, turn = read_lines(picture)
        return "\n".join(OcrPage.of(lines, picture.shape[1], picture.shape[0], turn).page_lines().lines)

    return text


def by_tesseract() -> Callable[[Any, str, int], str]:
    def text(image: Any, language: str, dpi: int) -> str:
        packed = io.BytesIO()
        image.save(packed, "PNG")
        command = ["tesseract", "-", "-", "-l", TESSERACT[language], "--psm", "1", "--dpi", str(dpi)]
        done = subprocess.run(command, input=packed.getvalue(), capture_output=True, env={"OMP_THREAD_LIMIT": "1"}, check=True)
        return done.stdout.decode("utf-8", "replace")

    return text


ENGINES = {"fbrag": by_fbrag, "rapidocr": by_rapidocr, "tesseract": by_tesseract}


def measured(said: str, found: str, language: str) -> dict[str, float]:
    """Recall and precision of terms, with repetitions. Lines of Chinese, whose terms are pairs of characters, are joined."""
    joined = "".join(found.split()) if language == "zh" else found
    own, got = Counter(terms(said, (language,))), Counter(terms(joined, (language,)))
    both = (own & got).total()
    return {"recall": both / own.total(), "precision": both / max(1, got.total())}


def read(options: argparse.Namespace) -> None:
    done = (
        {(r["engine"], r["language"], r["layout"], r["state"]) for r in rows_in(options.rows)} if options.rows.exists() else set()
    )
    engines = {name: ENGINES[name]() for name in options.engines}
    with options.rows.open("a", encoding="utf-8") as out:
        for language, layout, image, said in pages():
            for state, (dpi, *_) in STATES.items():
                scan = scanned(image, state)
                for name, engine in engines.items():
                    if (name, language, layout, state) in done:
                        continue
                    begun = process_time()
                    found = engine(scan, language, dpi)
                    row = {"engine": name, "language": language, "layout": layout, "state": state}
                    row |= measured(said, found, language) | {"text": found}
                    row["cpu_seconds"] = round(process_time() - begun, 2) if name != "tesseract" else None
                    print(json.dumps(row, ensure_ascii=False), file=out, flush=True)


def compare(options: argparse.Namespace) -> None:
    rows = rows_in(options.rows)
    for of in ("state", "language", "layout"):
        for value in dict.fromkeys(row[of] for row in rows):
            cells = []
            for engine in ENGINES:
                some = [row for row in rows if row["engine"] == engine and row[of] == value]
                cells.append(
                    f"{engine} {100 * mean(r['recall'] for r in some):.1f} / {100 * mean(r['precision'] for r in some):.1f}"
                )
            print(f"{of:9} {value:22} n {len(some):2}  {'  '.join(cells)}")
    for engine in ENGINES:
        some = [row for row in rows if row["engine"] == engine]
        recall, precision = (100 * mean(row[name] for row in some) for name in ("recall", "precision"))
        print(f"all {engine:10} n {len(some)}  recall {recall:.1f}, precision {precision:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    for name, run in {"read": read, "compare": compare}.items():
        verb = verbs.add_parser(name)
        verb.add_argument("rows", type=Path)
        verb.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
        verb.set_defaults(run=run)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
