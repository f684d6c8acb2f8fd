"""Read a notebook (Jupyter) as Markdown: its texts as written, its code and what the code printed in fences, without pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.readers.markdown import read_markdown
from fbrag_cli.documents.source import Source

_MEDIA_TYPE = "application/x-ipynb+json"
_FENCE = re.compile("`{3,}")


def read_notebook(source: Source, codec: str | None = None) -> Extracted:
    """Read a notebook; the headings in its texts are the sections.

    codec: not used, because JSON is UTF-8. Raises FbragError doc_unreadable: damaged.
    """
    try:
        notebook = json.loads(source.data)
        old = [cell for sheet in notebook.get("worksheets", ()) for cell in sheet["cells"]]  # before version 4
        parts = [part for cell in notebook.get("cells", old) for part in _parts(cell)]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise source.damaged("a notebook", "it is no JSON of cells") from None
    data = "\n\n".join(parts).encode("utf-8", "replace")
    return replace(read_markdown(replace(source, data=data), "utf-8"), media_type=_MEDIA_TYPE)


def _parts(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the text of a cell, and of what its code printed, if there is any."""
    text = _joined(cell.get("source") or cell.get("input") or "").strip("\n")
    is_code = cell.get("cell_type") == "code"
    if text.strip():
        yield _fenced(text) if is_code else text
    for output in cell.get("outputs", ()) if is_code else ():
        printed = _joined(output.get("text") or output.get("data", {}).get("text/plain") or "").strip("\n")
        if printed.strip():
            yield _fenced(printed)


def _fenced(text: str) -> str:
    """Return a text between fences, longer ones than it has itself."""
    fence = "`" * max((len(found) + 1 for found in _FENCE.findall(text)), default=3)
    return f"{fence}\n{text}\n{fence}"


def _joined(text: object) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text)
