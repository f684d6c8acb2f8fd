"""The live page and its fragments as HTML. What documents, models and users write stays text in them."""

from __future__ import annotations

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
    """Return what a page needs to know of documents before it shows their texts. Reads no text.

    first: position of a document's first chunk. chars: number of characters of each chunk.
    """
    names, documents = short_names([document.name for document in corpus.documents]), []
    for owner, name in enumerate(names):
        positions = corpus.chunks_of(owner)
        starts, ends = corpus.spans[positions.start : positions.stop, 1:3].T
        about = {"name": one_line(name), "first": positions.start, "n_words": corpus.words_of(owner)}
        documents.append(about | {"chars": (ends - starts).tolist()})
    return {"n_words": corpus.n_words, "n_chunks": len(corpus.chunks), "documents": documents}


def chunks(corpus: Corpus, window: Sequence[int], findings: Findings | None = None, prefix: str = "") -> str:
    """Return chunks at neighbouring positions as elements, one after the other. prefix: of the ids of the sources."""
    found = []
    for owner, positions in groupby(window, key=lambda position: int(corpus.spans[position, 0])):
        own, document = [*positions], corpus.documents[owner]
        views = chunk_views(corpus, own, findings, before=own[0] - 1)
        found += [macro("page_parts", "chunk", view, document.language, prefix, layout_of(document.text).kind) for view in views]
    return "".join(found)
