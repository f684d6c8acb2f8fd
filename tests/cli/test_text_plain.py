"""`fbrag text --plain`: the text that the offsets in JSON count, so that a script can check them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.hostile import REAL

_WRITTEN = {
    "crlf.txt": "\r\n\r\n".join(f"Keeper Zoë lit lamp {n}." for n in range(9)).encode()
    + b"\x0cform feed, \x1b[31mred\x1b[0m\n\n",
    "bom.md": "# The log\n\nKeeper Zoë lit lamp 7 at dusk.\n".encode("utf-8-sig") * 9,
    "wide.csv": ("lamp,hour\n" + "".join(f"lamp {n},{n}\n" for n in range(20))).encode("utf-16"),
    **{f"log{suffix}": REAL[suffix] for suffix in (".html", ".docx", ".odt", ".epub", ".rtf")},
}


@pytest.mark.parametrize("name", [*_WRITTEN])
def test_the_offsets_in_json_count_characters_of_the_plain_text(fbrag: Run, tmp_path: Path, name: str) -> None:
    path, output = tmp_path / name, tmp_path / "plain.txt"
    path.write_bytes(_WRITTEN[name])
    assert fbrag("text", path, "--plain", "-o", output).returncode == 0
    text = output.read_bytes().decode("utf-8")
    told = json.loads(fbrag("explain", "--method", "vanilla", path, "Which lamp?", "--json", "--chunk-words", "20").stdout)
    assert told["documents"][0]["chars"] == len(text)
    chunks = sorted(told["chunks"], key=lambda chunk: chunk["start_char"])
    assert len(chunks) > 1
    for chunk in chunks:
        start, end = chunk["start_char"], chunk["end_char"]
        assert text.count("\n", 0, start) + 1 == chunk["start_line"]
        assert text.count("\n", 0, end - 1) + 1 == chunk["end_line"]
        assert text[start:end].strip()


def test_a_terminal_or_a_file_gets_one_document(fbrag: Run, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("Text.")
    assert fbrag("text", "--plain", tmp_path / "a.txt").stdout == "Text."
    done = fbrag("text", "--plain", tmp_path)
    assert done.returncode == 2
    assert "--plain prints one document, not 2" in done.stderr
