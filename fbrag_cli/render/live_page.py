"""The live page and its fragments as HTML. What documents, models and users write stays text in them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from fbrag_cli.corpus import Corpus
from fbrag_cli.render.html import environment, macro, styles
from fbrag_cli.render.line_layout import layout_of
from fbrag_cli.render.page_chunks import Findings, chunk_views
from fbrag_cli.render.short_names import short_names
from fbrag_cli.text.printable import one_line

_TITLE = 120  # characters of a section's title
_FEW = 20  # documents whose texts are read for an outline


def shell(**values: Any) -> str:
    """Return the page without documents and answers, which its script brings."""
    return environment().get_template("live.html.jinja").render(**values)


@cache
def script() -> str:
    """Return the page's only script, a module."""
    return Path(__file__).with_name("live.js").read_text("utf-8")


@cache
def style() -> str:
    """Return the style of the page: what it shares with that of --html, and its own."""
    return styles("shared", "live")


def outline(corpus: Corpus) -> dict[str, Any]:
    """Return what a page needs to know of documents before it shows their texts.

    first: position of a document's first chunk. chars: number of characters of each chunk. kind: layout of the lines, as of
    `LineLayout`. sections: with the position of the chunk in which each begins. Of more than 20 documents, no text is read: kinds
    and sections are empty.
    """
    documents, names = [], short_names([document.name for document in corpus.documents])
    for owner, document in enumerate(corpus.documents):
        positions = corpus.chunks_of(owner)
        starts, ends = corpus.spans[positions.start : positions.stop, 1:3].T.tolist()
        sections = document.sections if len(corpus.documents) <= _FEW else ()
        begin = [positions.start + max(0, bisect_right(starts, each.start) - 1) for each in sections]
        documents.append(
            {
                "name": one_line(names[owner]),
                "first": positions.start,
                "chars": [end - start for start, end in zip(starts, ends, strict=True)],
                "n_words": corpus.words_of(owner),
                "language": document.language,
                "kind": layout_of(document.text).kind if len(corpus.documents) <= _FEW else "",
                "sections": [
                    {"title": one_line(each.title, _TITLE), "chunk": at} for each, at in zip(sections, begin, strict=True)
                ],
            }
        )
    return {"n_words": corpus.n_words, "n_chunks": len(corpus.chunks), "documents": documents}


def chunks(corpus: Corpus, window: Sequence[int], findings: Findings | None = None, prefix: str = "") -> str:
    """Return chunks at neighbouring positions as elements, one after the other. prefix: of the ids of the sources."""
    found = []
    for owner, positions in groupby(window, key=lambda position: int(corpus.spans[position, 0])):
        own, document = [*positions], corpus.documents[owner]
        views = chunk_views(corpus, own, findings, before=own[0] - 1)
        found += [macro("page_parts", "chunk", view, document.language, prefix, layout_of(document.text).kind) for view in views]
    return "".join(found)
