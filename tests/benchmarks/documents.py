"""Word recall of the readers: which words of a document a reader keeps, by format, against a reference made in another way.

The files are the test documents of other projects: folders of sources, as `apt-get source libreoffice libapache-poi-java pandoc
calligra abiword` and `pip download --no-binary :all: pypdf python-docx …` unpack them. Each content counts once.

python tests/benchmarks/documents.py read FOLDER... -o rows.jsonl   # some 15 minutes of processor for 7,000 files
python tests/benchmarks/documents.py table rows.jsonl [docx]        # the table; of a format, the files that lose most words

References: docx, pptx, xlsx, odt, ods: text of the raw XML; html: the page without tags; eml: Python's email; pdf: pdftotext;
xls: xls2csv; rtf, epub: pandoc. They err themselves, and count what readers leave out on purpose (as hidden sheets).
"""

from __future__ import annotations

import argparse
import email
import email.policy
import hashlib
import json
import os
import re
import resource
import signal
import subprocess
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from statistics import mean, median
from typing import Any

from lxml import etree, html

from fbrag_cli.documents.load import load
from fbrag_cli.errors import FbragError

WORD = re.compile(r"\w+")
LEAST = 5  # words of a reference
SECONDS = 90  # of a file
PARSER = etree.XMLParser(recover=True, huge_tree=True, resolve_entities=False, no_network=True)
BREAKS = {"p", "h", "tc", "tab", "br", "cr", "s", "line-break"}

# -- references --------------------------------------------------------------------------------------------------------------


def local(element: Any) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def attribute(element: Any, name: str) -> str | None:
    return next((value for key, value in element.attrib.items() if etree.QName(key).localname == name), None)


def words_of(root: Any, taken: Collection[str] | None, skipped: Callable[[Any, str], bool]) -> str:
    """Return the text of the elements named `taken` (None: of all), without those skipped."""
    out: list[str] = []
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        element, done = stack.pop()
        name = local(element)
        if done:
            out.append("\n" if name in BREAKS else "")
            if taken is None and element is not root:
                out.append(element.tail or "")
        elif not name or skipped(element, name):
            out.append((element.tail or "") if taken is None and element is not root else "")
        else:
            out.append(element.text or "" if taken is None or name in taken else "")
            stack.append((element, True))
            stack += ((child, False) for child in reversed(element))
    return "".join(out)


def docx(path: Path) -> str:
    def skipped(element: Any, name: str) -> bool:
        if name in ("Fallback", "del", "moveFrom") or (name == "rt" and local(element.getparent()) == "ruby"):
            return True
        return name == "r" and any(attribute(mark, "val") not in ("0", "false") for mark in element.iterfind("{*}rPr/{*}vanish"))

    with zipfile.ZipFile(path) as package:
        name = next(name for name in package.namelist() if re.search(r"(^|/)document\d*\.xml$", name))
        return words_of(etree.fromstring(package.read(name), PARSER), {"t"}, skipped)


def pptx(path: Path) -> str:
    def skipped(element: Any, name: str) -> bool:
        kinds = {mark.get("type") for mark in element.iter("{*}ph")} if name == "sp" else set()
        return name == "Fallback" or bool(kinds & {"dt", "sldNum", "ftr"})

    out = []
    with zipfile.ZipFile(path) as package:
        for name in package.namelist():
            if re.fullmatch(r"ppt/(slides/slide|diagrams/data)\d+\.xml", name):
                root = etree.fromstring(package.read(name), PARSER)
                if root.get("show") != "0":
                    out.append(words_of(root, {"t"}, skipped))
    return "\n".join(out)


def xlsx(path: Path) -> str:
    out = []
    with zipfile.ZipFile(path) as package:
        names = package.namelist()
        shared = next((name for name in names if name.lower().endswith("sharedstrings.xml")), None)
        items = etree.fromstring(package.read(shared), PARSER) if shared else ()
        strings = [words_of(item, {"t"}, lambda element, name: name == "rPh") for item in items]
        for name in names:
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                for cell in etree.fromstring(package.read(name), PARSER).iter("{*}c"):
                    value = cell.findtext("{*}v") or ""
                    if cell.get("t") == "s" and value.strip().isdigit() and int(value) < len(strings):
                        out.append(strings[int(value)])
                    elif cell.get("t") == "inlineStr":
                        out.append("".join(each.text or "" for each in cell.iter("{*}t")))
    return "\n".join(out)


def opendocument(path: Path) -> str:
    left = set(
        "tracked-changes annotation forms settings database-ranges named-expressions content-validations desc title script"
        " event-listeners ruby-text variable-decls sequence-decls user-field-decls shapes object".split()
    )
    data = path.read_bytes()
    if data[:2] == b"PK":
        with zipfile.ZipFile(path) as package:
            data = package.read("content.xml")
    body = next(each for each in etree.fromstring(data, PARSER).iter() if local(each) in ("text", "spreadsheet"))
    return words_of(body, None, lambda element, name: name in left)


def page(path: Path) -> str:
    return _without_tags(path.read_bytes(), "script style template noscript head select nav")


def _without_tags(data: bytes | str, left: str) -> str:
    root = html.document_fromstring(data, parser=html.HTMLParser(huge_tree=True))
    for element in [*root.iter(*left.split())]:
        if element.getparent() is not None:
            element.drop_tree()
    return "\n".join(root.itertext())


def mail(path: Path) -> str:
    def texts(part: Any) -> Iterator[str]:
        if part.get_content_type() == "multipart/alternative" and (body := part.get_body(("plain", "html"))) is not None:
            part = body
        if part.is_multipart():
            for each in part.iter_parts():
                yield from texts(each)
        elif part.get_content_type() == "text/plain":
            yield part.get_content()
        elif part.get_content_type() == "text/html":
            yield _without_tags(part.get_content() or "<p/>", "script style head")

    return "\n".join(texts(email.message_from_bytes(path.read_bytes(), policy=email.policy.default)))


def output(*command: str) -> Callable[[Path], str]:
    def run(path: Path) -> str:
        words = [str(path) if word == "FILE" else word for word in command]
        done = subprocess.run(words, capture_output=True, timeout=SECONDS, stdin=subprocess.DEVNULL, check=False)
        return done.stdout.decode("utf-8", "replace")

    return run


REFERENCES: dict[str, Callable[[Path], str]] = {
    **dict.fromkeys(("docx", "docm"), docx),
    **dict.fromkeys(("pptx", "pptm", "ppsx"), pptx),
    **dict.fromkeys(("xlsx", "xlsm"), xlsx),
    **dict.fromkeys(("odt", "fodt", "ods"), opendocument),
    **dict.fromkeys(("html", "htm"), page),
    "eml": mail,
    "pdf": output("pdftotext", "-enc", "UTF-8", "FILE", "-"),
    "xls": output("xls2csv", "-d", "utf-8", "FILE"),
    "rtf": output("pandoc", "-f", "rtf", "-t", "plain", "--wrap=none", "FILE"),
    "epub": output("pandoc", "-f", "epub", "-t", "plain", "--wrap=none", "FILE"),
}


def reference(path: Path, format_: str) -> str | None:
    try:
        return REFERENCES[format_](path)
    except Exception:  # damaged: it has no reference
        return None


# -- rows --------------------------------------------------------------------------------------------------------------------


def files(folders: list[Path]) -> Iterator[Path]:
    """Yield the files of known formats, each content once."""
    seen = set()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix.lower().removeprefix(".") in REFERENCES and path.is_file():
                digest = hashlib.sha256(path.read_bytes()).digest()
                if digest not in seen:
                    seen.add(digest)
                    yield path


def read_in_child(path: Path) -> dict[str, Any]:
    """Return what a process of its own makes of a file: text and warnings, or the error; seconds of processor and peak MB."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        signal.alarm(SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        row: dict[str, Any]
        try:
            document = load(str(path))
            sections = [(each.title, each.level) for each in document.sections]
            row = {"code": "", "text": document.text, "warnings": document.warnings, "sections": sections}
        except FbragError as error:
            row = {"code": error.code, "message": error.message}
        except BaseException as error:
            row = {"code": "crash", "message": repr(error)[:300]}
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        row["seconds"] = round(sum(each.ru_utime + each.ru_stime for each in used), 4)
        row["mb"] = max(each.ru_maxrss for each in used) // 1000  # kB on Linux
        with os.fdopen(sink, "wb") as file:
            file.write(json.dumps(row).encode())
        os._exit(0)
    os.close(sink)
    with os.fdopen(source, "rb") as file:
        data = file.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(data) if data else {"code": "killed", "message": str(status)}


def read(folders: list[Path], to: Path) -> None:
    with to.open("w") as rows:
        for path in files(folders):
            format_ = path.suffix.lower().removeprefix(".")
            row, expected = read_in_child(path), reference(path, format_)
            row.pop("sections", None)
            found, wanted = (Counter(WORD.findall(text.lower())) for text in (row.pop("text", ""), expected or ""))
            row |= {"file": str(path), "format": format_, "words": wanted.total()}
            if found and wanted:
                kept = (found & wanted).total()
                missing = [word for word, _ in (wanted - found).most_common(12)]
                row |= {"recall": kept / wanted.total(), "precision": kept / found.total(), "missing": missing}
            rows.write(json.dumps(row) + "\n")


def table(path: Path, format_: str | None) -> None:
    groups = defaultdict(list)
    for line in path.read_text().splitlines():
        row = json.loads(line)
        groups[row["format"]].append(row)
    if format_:
        judged = [row for row in groups[format_] if "recall" in row and row["words"] >= LEAST]
        for row in sorted(judged, key=lambda row: (row["recall"] - 1) * row["words"])[:40]:
            print(f"{row['recall']:.3f} of {row['words']} {row['file']} {row['missing'][:8]}")
        return
    numbers = "n | words | recall, mean | median | below .95 | precision | processor s | peak MB"
    print(f"| format | files | read | refused with text | {numbers} |")
    print("|---" * (5 + numbers.count("|")) + "|")
    for name, rows in sorted(groups.items()):
        judged = [row for row in rows if "recall" in row and row["words"] >= LEAST]
        recall = [row["recall"] for row in judged] or [0.0]
        n_read, lost = sum(not row["code"] for row in rows), sum(bool(row["code"]) and row["words"] >= LEAST for row in rows)
        print(
            f"| {name} | {len(rows)} | {n_read} | {lost} | {len(judged)} |"
            f" {sum(row['words'] for row in judged)} | {mean(recall):.3f} | {median(recall):.3f} |"
            f" {sum(each < 0.95 for each in recall)} | {mean([row['precision'] for row in judged] or [0.0]):.2f} |"
            f" {sum(row.get('seconds', 0) for row in rows):.1f} | {max(row.get('mb', 0) for row in rows)} |"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    reading = commands.add_parser("read")
    reading.add_argument("folders", nargs="+", type=Path)
    reading.add_argument("-o", dest="to", type=Path, required=True)
    tabling = commands.add_parser("table")
    tabling.add_argument("rows", type=Path)
    tabling.add_argument("format", nargs="?")
    asked = parser.parse_args()
    if asked.command == "read":
        read(asked.folders, asked.to)
    else:
        table(asked.rows, asked.format)
