"""The live page and its fragments as HTML. Words of documents, models and users stay text in them.

Positions are those of chunks in the corpus of the page or of the question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fbrag_cli.corpus import Corpus, Passage
from fbrag_cli.render.answer import Answer, Source, answer_of
from fbrag_cli.render.html import (
    Findings,
    chunk_views,
    cost,
    environment,
    macro,
    named_shortly,
    picture_view,
    sample_views,
    shades,
    short_names,
    source_views,
    styles,
    warnings,
    with_short_names,
    word_of,
)
from fbrag_cli.render.passages import layout_of, nearest_sentence, picture_pages, place, place_within, said_from
from fbrag_cli.render.tables import own_tables, rows_of
from fbrag_cli.render.text import Layout, text
from fbrag_cli.text.printable import one_line, printable
from fbrag_cli.text.terminal import truncate
from fbrag_cli.trace import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fbrag_cli.documents.pdf.picture import PagePicture

#: Of documents of more than 1.3 million words, a page shows a part: a browser lays out some 10 million characters, and draws
#: nothing below some 17 million pixels.
_PART_SIZE = 10_000_000
_CHUNK_SIZE = 500  # characters for which the place of a chunk counts

_SENTENCE = 240  # characters
_COPIED_LINES = 1  # around the sentence of a source


def shell(**values: Any) -> str:
    """Return the page without documents and answers, which its script fetches."""
    return environment().get_template("live.html.jinja").render(**values)


@cache
def script() -> str:
    """Return the page's only script, a module."""
    return Path(__file__).with_name("live.js").read_text("utf-8")


@cache
def style() -> str:
    """Return the style of the page: the part shared with the page of --html, and its own."""
    return styles("shared", "live")


def outline(corpus: Corpus, at: int = 0) -> tuple[dict[str, Any], range]:
    """Return what a page needs of documents before it shows their texts, and the positions of the chunks that it shows: all, or
    the part with the chunk at `at`. Reads no text.

    first: position of the first chunk of a document, and of what is shown.
    """
    import numpy as np

    n_chunks, (starts, ends) = len(corpus.chunks), corpus.spans[:, 1:3].T
    part_of = np.cumsum(ends - starts + _CHUNK_SIZE, dtype=np.int64) // _PART_SIZE  # (n_chunks,)
    part = int(part_of[min(at, n_chunks - 1)]) if n_chunks else 0
    shown = range(*np.searchsorted(part_of, [part, part + 1]).tolist())
    names = short_names([document.name for document in corpus.documents])
    documents = [
        {"name": one_line(name), "first": corpus.chunks_of(owner).start, "n_words": corpus.words_of(owner)}
        for owner, name in enumerate(names)
    ]
    about = {"corpus": corpus.fingerprint, "n_chunks": n_chunks, "documents": documents, "first": shown.start, "end": shown.stop}
    return about | {"part": part + 1, "n_parts": int(part_of[-1]) + 1 if n_chunks else 1}, shown


def texts(corpus: Corpus, window: Sequence[int]) -> list[tuple[int, str]]:
    """Return chunks at neighboring positions as elements, those of each document together, with its number from 0."""
    owners = groupby(window, key=lambda position: int(corpus.spans[position, 0]))
    return [(owner, chunks(corpus, [*positions])) for owner, positions in owners]


def chunks(corpus: Corpus, positions: Sequence[int], findings: Findings | None = None, prefix: str = "") -> str:
    """Return chunks at neighboring positions in one document as elements. prefix: of the ids of the sources."""
    document = corpus.documents[int(corpus.spans[positions[0], 0])]
    layout, views = layout_of(document).kind, chunk_views(corpus, positions, findings, before=positions[0] - 1)
    return "".join(macro("page_parts", "chunk", view, document.language, prefix, layout, stops=False) for view in views)


# -- one answer, in the order in which its parts come about: `prefix` precedes the ids of its sources and samples ------


def nearest(corpus: Corpus, found: Mapping[int, Mapping[str, float]], scores: NDArray[np.float32]) -> dict[str, Any]:
    """Return the chunks that are nearest to the question, best first, as list items, and the shades of all.

    found: their positions, each with the score of each term of the question. scores: (n_chunks,), by the question alone.
    """
    items, named_corpus, where = [], with_short_names(corpus), _where(corpus)
    for position, weights in found.items():
        chunk = named_corpus.chunks[position]
        sentence = nearest_sentence(chunk, weights)
        said = truncate(said_from(chunk, sentence), _SENTENCE)
        items.append(macro("live_parts", "nearest", position + 1, where(sentence), chunk.document.language, said))
    return {"html": "".join(items), "shades": shades(scores)}


def selected(trace: Trace, prefix: str) -> dict[str, Any]:
    """Return the sources before there is an answer, one line each, and the forward samples."""
    trace = named_shortly(trace)
    answer = answer_of(trace)
    views = [view | {"in_full": False} for view in source_views(trace, answer, _where(trace.corpus))]
    return {
        "html": macro("page_parts", "source_list", views, prefix, numbered=False) if views else "",
        "samples_html": _samples(trace, answer, prefix),
        **_chunks(trace, answer),
    }


def done(trace: Trace, prefix: str) -> dict[str, Any]:
    """Return the answer with all that is shown of it.

    chunks: positions and HTML of the chunks of the sources, with what is marked in them. marked: positions of those in which a
    sentence is marked, even if it is only the closest one. copied: the answer with its sources as text.
    """
    shown = named_shortly(trace)
    answer = answer_of(shown)
    views, findings = [*source_views(shown, answer, _where(trace.corpus))], Findings(trace, answer)
    tables, about = [(table, rows_of(table)) for table in own_tables(trace)], _chunks(trace, answer)
    return {
        "question": printable(trace.question),
        "status": trace.status,
        "answer_html": macro("page_parts", "answered", answer, prefix, fold=True),
        "sources_heading": answer.heading,
        "sources_html": macro("page_parts", "source_list", views, prefix, live=True) if views else "",
        "samples_html": _samples(shown, answer, prefix),
        "figures_html": macro("live_parts", "more", answer, views, tables, prefix, **cost(trace)),
        "corpus": trace.corpus.fingerprint,
        "warnings": [printable(each) for each in warnings(trace)],
        "has_more": trace.has_more and trace.method.reading_twice() is not None,
        **about,
        "chunks": [(at, chunks(trace.corpus, [at], findings, prefix)) for at in dict.fromkeys(about["sources"])],
        "marked": sorted({source.passage.position for source in answer.sources if source.shows}),
        "copied": text(answer_of(trace), Layout(context=_COPIED_LINES), anyway="", more=""),
    }


def picture(source: Source, page: PagePicture) -> dict[str, Any]:
    """Return a page of a source as a picture, with what goes to the other pages of the source, as HTML."""
    pages, view = picture_pages(source.passage), picture_view(page, source.passage.document)
    sought = source.sentence and page.number in picture_pages(source.sentence)
    near = {name: number if number in pages else 0 for name, number in (("before", page.number - 1), ("after", page.number + 1))}
    return {"name": view["name"], "html": macro("live_parts", "sheet", view, near, is_lost=bool(sought) and not page.boxes)}


def _where(corpus: Corpus) -> Callable[[Passage], str]:
    """Return what names a place: the name of the only document is next to its text."""
    return place_within if len(corpus.documents) == 1 else place


def _samples(trace: Trace, answer: Answer, prefix: str) -> str:
    """Return the forward samples as list items."""
    views = sample_views(trace, answer, range(len(trace.corpus.chunks)))
    return "".join(macro("page_parts", "sample", view, number, prefix, word_of(trace)) for number, view in enumerate(views, 1))


def _chunks(trace: Trace, answer: Answer) -> dict[str, Any]:
    """Return the shades of all chunks, and the position of the chunk of each source."""
    return {"shades": shades(trace.scores.combined), "sources": [source.passage.position for source in answer.sources]}
