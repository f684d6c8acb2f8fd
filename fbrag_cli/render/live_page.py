"""The live page and its fragments as HTML. What documents, models and users write stays text in them.

Positions are those of chunks in the corpus of the page or of the question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fbrag_cli.corpus import Corpus
from fbrag_cli.render.answer import Answer, answer_of
from fbrag_cli.render.html import (
    Findings,
    chunk_views,
    cost,
    environment,
    macro,
    named_shortly,
    sample_views,
    shades,
    short_names,
    source_views,
    styles,
    warnings,
    with_short_names,
    word_of,
)
from fbrag_cli.render.passages import layout_of, nearest_sentence, place, said_from
from fbrag_cli.render.tables import own_tables, rows_of
from fbrag_cli.render.text import Layout, text
from fbrag_cli.text.printable import one_line, printable
from fbrag_cli.text.terminal import truncate
from fbrag_cli.trace import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SENTENCE = 240  # characters
_COPIED_LINES = 1  # around the sentence of a source


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


# -- one answer, in the order in which its parts come about: `prefix` stands before the ids of its sources and samples ------


def nearest(corpus: Corpus, found: Mapping[int, Mapping[str, float]], scores: NDArray[np.float32]) -> dict[str, Any]:
    """Return the chunks that are nearest to the question, best first, as list items, and the shades of all.

    found: their positions, each with the score of each term of the question. scores: (n_chunks,), by the question alone.
    """
    items, named_corpus = [], with_short_names(corpus)
    for position, weights in found.items():
        chunk = named_corpus.chunks[position]
        sentence = nearest_sentence(chunk, weights)
        said = truncate(said_from(chunk, sentence), _SENTENCE)
        items.append(macro("live_parts", "nearest", position + 1, place(sentence), chunk.document.language, said))
    return {"html": "".join(items), "shades": shades(scores)}


def selected(trace: Trace, prefix: str) -> dict[str, Any]:
    """Return the sources before there is an answer, a line each, and the forward samples. raised: positions of the chunks that a
    sample raised most."""
    trace = named_shortly(trace)
    answer = answer_of(trace)
    views = [view | {"in_full": False} for view in source_views(trace, answer)]
    looked = [*_samples(trace, answer, prefix)]
    return {
        "html": macro("page_parts", "source_list", views, prefix, numbered=False) if views else "",
        "samples_html": "".join(each["html"] for each in looked),
        "raised": sorted({position for each in looked for position in each["raised"]}),
        **_chunks(trace, answer),
    }


def done(trace: Trace, prefix: str) -> dict[str, Any]:
    """Return the answer with all that is shown of it.

    marked: positions of the chunks in which a sentence is marked, be it the closest one alone. copied: the answer with its
    sources as text.
    """
    shown = named_shortly(trace)
    answer = answer_of(shown)
    views = [*source_views(shown, answer)]
    tables = [(table, rows_of(table)) for table in own_tables(trace)]
    return {
        "question": printable(trace.question),
        "status": trace.status,
        "answer_html": macro("page_parts", "answered", answer, prefix, fold=True),
        "sources_heading": answer.heading,
        "sources_html": macro("page_parts", "source_list", views, prefix) if views else "",
        "samples_html": "".join(each["html"] for each in _samples(shown, answer, prefix)),
        "figures_html": macro("live_parts", "more", views, tables, prefix, **cost(trace)),
        "warnings": [printable(each) for each in warnings(trace)],
        **_chunks(trace, answer),
        "marked": sorted({source.passage.position for source in answer.sources if source.shows}),
        "copied": text(answer_of(trace), Layout(context=_COPIED_LINES)),
    }


def _samples(trace: Trace, answer: Answer, prefix: str) -> Iterator[dict[str, Any]]:
    """Yield each forward sample as a list item, with the positions of the chunks that it raises most."""
    word = word_of(trace)
    for number, view in enumerate(sample_views(trace, answer, range(len(trace.corpus.chunks))), 1):
        raised = [each["number"] - 1 for each in view["raised"]]
        yield {"html": macro("page_parts", "sample", view, number, prefix, word), "raised": raised}


def _chunks(trace: Trace, answer: Answer) -> dict[str, Any]:
    """Return the shades of all chunks, the position of the chunk of each source, and those of the recalled chunks."""
    return {
        "shades": shades(trace.scores.combined),
        "sources": [source.passage.position for source in answer.sources],
        "recalled": list(trace.retrieved),
    }
