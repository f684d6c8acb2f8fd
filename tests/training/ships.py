"""Questions on ships to train on, and a file of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fbrag_cli.training.rows import GoldQuestion


def asked(number: int, *, dev: bool = False, **changed: Any) -> GoldQuestion:
    fields = {"id": str(number), "dataset": "ships", "text": "Who?", "answers": ("Smith",), "group": "g", "gold": ()}
    return GoldQuestion(**{**fields, "verbatim": True, "dev": dev, **changed})


def rows_file(folder: Path, n: int = 10) -> Path:
    """Questions on ships, one a passage. The last fifth is for checking."""
    path = folder / "ships.jsonl"
    lines = []
    for i in range(n):
        documents = [{"title": f"Ship {i}", "text": f"The brig number {i} was built by Captain Smith{i} in Hull.", "gold": True}]
        lines.append(
            {
                "_id": str(i),
                "dataset": "ships",
                "input": f"Who built brig number {i}?",
                "answers": [f"Smith{i}"],
                "documents": documents,
            }
        )
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    return path
