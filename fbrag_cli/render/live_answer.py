"""One answer of the live page as fragments of HTML, in the order in which they come about.

Positions are those of chunks in the corpus of the question. `prefix` stands before the ids of the answer's sources and samples:
several answers stand on one page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fbrag_cli.corpus import Corpus
from fbrag_cli.render import answer_text
from fbrag_cli.render.html import cost, heading, macro, warnings
from fbrag_cli.render.page_chunks import evidence, shades
from fbrag_cli.render.page_views import answer_view, sample_views, source_views
from fbrag_cli.render.passages import nearest_sentence, place, said_from
from fbrag_cli.render.short_names import named_shortly, with_short_names
from fbrag_cli.render.tables import own_tables, rows_of
from fbrag_cli.text.printable import printable
from fbrag_cli.text.terminal import beginning
from fbrag_cli.trace import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SENTENCE = 240  # characters
_COPIED_LINES = 1  # around the sentence of a source


def nearest(corpus: Corpus, found: Mapping[int, Mapping[str, float]], scores: NDArray[np.float32]) -> dict[str, Any]:
    """Return the chunks that are nearest to the question, best first, as list items, and the shades of all.

    found: their positions, each with the score of each term of the question. scores: (n_chunks,), by the question alone.
    """
    items, named_corpus = [], with_short_names(corpus)
    for position, weights in found.items():
        chunk = named_corpus.chunks[position]
        start, end = nearest_sentence(chunk, weights)
        sentence = beginning(said_from(chunk, (start, end)), _SENTENCE)
        named = (chunk.position + 1, place(chunk, (start, end)), chunk.document.language, sentence)
        items.append(macro("live_parts", "nearest", *named))
    return {"html": "".join(items), "shades": shades(scores)}


def samples(trace: Trace, prefix: str) -> Iterator[dict[str, Any]]:
    """Yield each forward sample as a list item, with the positions of the chunks that it raises most."""
    trace = named_shortly(trace)
    for number, view in enumerate(sample_views(trace, range(len(trace.corpus.chunks))), 1):
        raised = [each.number - 1 for each in view.raised]
        yield {"html": macro("page_parts", "sample", view, number, prefix), "raised": raised}


def selected(trace: Trace, prefix: str) -> dict[str, Any]:
    """Return the sources before there is an answer, a line each, and the forward samples. raised: positions of the chunks that a
    sample raised most."""
    shown = named_shortly(trace)
    views = [replace(view, in_full=False) for view in source_views(shown, shown.citations)]
    looked = [*samples(trace, prefix)]
    return {
        "html": macro("page_parts", "source_list", views, prefix) if views else "",
        "samples_html": "".join(each["html"] for each in looked),
        "raised": sorted({position for each in looked for position in each["raised"]}),
        **_chunks(trace),
    }


def done(trace: Trace, prefix: str) -> dict[str, Any]:
    """Return the answer with all that is shown of it.

    marked: positions of the chunks in which a sentence is marked, be it the closest one alone. copied: the answer with its
    sources as text.
    """
    cited, sources = trace.citations, trace.sources
    views = tuple(source_views(named_shortly(trace), cited))
    tables = [(table, rows_of(table)) for table in own_tables(trace)]
    return {
        "question": printable(trace.question),
        "status": trace.status,
        "answer_html": macro("page_parts", "answered", answer_view(trace, cited, prefix), True),
        "sources_heading": heading(trace, cited),
        "sources_html": macro("page_parts", "source_list", views, prefix) if views else "",
        "samples_html": "".join(each["html"] for each in samples(trace, prefix)),
        "figures_html": macro("live_parts", "more", views, tables, prefix, **cost(trace)),
        "warnings": [printable(each) for each in warnings(trace)],
        **_chunks(trace),
        "marked": sorted({sources[number - 1].position for number in evidence(trace, cited) if number}),
        "copied": answer_text.text(trace, cited, answer_text.Layout(context=_COPIED_LINES)),
    }


def _chunks(trace: Trace) -> dict[str, Any]:
    """Return the shades of all chunks, the position of the chunk of each source, and those of the recalled chunks."""
    return {
        "shades": shades(trace.scores.combined),
        "sources": [source.position for source in trace.sources],
        "recalled": list(trace.recalled),
    }
