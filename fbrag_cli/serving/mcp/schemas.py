"""JSON schemas of what the tools of `fbrag mcp` return: the records of `results`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_OR_TEXT: Schema = {"type": ["string", "null"]}
_WHOLE: Schema = {"type": "integer"}
_OR_WHOLE: Schema = {"type": ["integer", "null"]}
_OR_NUMBER: Schema = {"type": ["number", "null"]}
_TRUTH: Schema = {"type": "boolean"}


def _list_of(each: Schema) -> Schema:
    return {"type": "array", "items": each}


def _object_of(required: Iterable[str], **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": [*required]}


_PLACED = {
    "document": _TEXT,
    "chunk": _WHOLE,
    "page": _OR_WHOLE,
    "last_page": _OR_WHOLE,
    "section": _OR_TEXT,
    "start_line": _WHOLE,
    "end_line": _WHOLE,
    "text": _TEXT,
    "cut": _TRUTH,
}
_SCORED = {"score": _OR_NUMBER, "sentence": _TEXT, "cited": _TRUTH}
_RANKED = {
    "rank": _WHOLE,
    **dict.fromkeys(("combined", "backward", "forward"), _OR_NUMBER),
    **dict.fromkeys(("recalled", "selected", "found"), _TRUTH),
}
_LISTS = {"absent": _list_of(_TEXT), "warnings": _list_of(_TEXT)}
_RUNNING = {"status": _TEXT, "job": _TEXT, "stage": _TEXT, "nearest": _list_of(_object_of(_PLACED, **_PLACED))}

#: The JSON schemas of what `found`, `answered` (or `running`), `explained` (or `running`) and `passage` return.
FOUND = _object_of(("passages", "absent"), passages=_list_of(_object_of(_PLACED, **_PLACED, **_SCORED)), **_LISTS)
ANSWERED = _object_of(
    ("status",),
    answer=_OR_TEXT,
    proposed=_OR_TEXT,
    unsure=_TRUTH,
    confidence=_OR_NUMBER,
    sources=_list_of(_object_of(_PLACED, **_PLACED, **_SCORED)),
    **_LISTS,
    **_RUNNING,
)
EXPLAINED = _object_of(
    ("status",),
    chunks=_list_of(_object_of(_PLACED, **_PLACED, **_RANKED)),
    samples=_list_of(_object_of(("rationale", "answer"), rationale=_TEXT, answer=_TEXT)),
    found=_OR_WHOLE,
    warnings=_list_of(_TEXT),
    **_RUNNING,
)
PASSAGE = _object_of((*_PLACED, "lines"), **_PLACED, lines=_WHOLE)

#: Of a job of either kind.
OF_A_JOB = _object_of(("status",), **{**EXPLAINED["properties"], **ANSWERED["properties"]})
