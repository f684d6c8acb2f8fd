"""Renders a `Trace` as one HTML page without network and scripts. What documents, models and users write stays text in it.

Of a document that is not shown, the page has the name and the best score; its text is not read.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from fbrag_cli.citations import Citations
from fbrag_cli.documents.document import Content
from fbrag_cli.generation.build import versions
from fbrag_cli.render.as_json import settings
from fbrag_cli.render.page_chunks import Findings, document_views
from fbrag_cli.render.page_views import answer_view, other_views, sample_views, source_views
from fbrag_cli.render.passages import in_part
from fbrag_cli.render.tables import own_tables, rows_of
from fbrag_cli.text.printable import one_line, printable
from fbrag_cli.trace import Trace

if TYPE_CHECKING:
    from jinja2 import Environment, Template

# The most that a page shows.
_CHUNKS = 6_000  # 1.8 million words
_DOCUMENTS = 50
_NEIGHBOURS = 20
_OTHERS = 1_000  # documents that are not shown, but have a cell in the map

_STYLES = {"page": ("shared", "page"), "matrix": ("matrix",)}  # style sheets of each template, in their order


def page(trace: Trace) -> str:
    """Return the whole page, to be written as UTF-8."""
    shown, cited = _positions_shown(trace), trace.citations
    trace = _with_texts_in_memory(trace, shown)
    findings = Findings(trace, cited)
    documents = tuple(document_views(trace, shown, findings))
    others = other_views(trace, {document.number - 1 for document in documents}, findings.shade)
    return template("page").render(
        title=one_line(trace.question, 80),
        answer=answer_view(trace, cited),
        heading=heading(trace, cited),
        in_part=in_part(trace),
        documents=documents,
        sources=tuple(source_views(trace, cited)),
        samples=tuple(sample_views(trace, set(shown))),
        tables=[(table, rows_of(table)) for table in own_tables(trace)],
        others=sorted(others, key=lambda other: -other.score)[:_OTHERS],
        n_others=len(others),
        density=_density(len(shown), len(documents)),
        warnings=warnings(trace),
        **cost(trace),
    )


def _positions_shown(trace: Trace) -> list[int]:
    """Return the positions of the chunks that the page shows, ascending. Reads no text.

    These are all chunks, if there are at most `_CHUNKS` in at most `_DOCUMENTS` documents; else all of the documents with a
    selected or recalled chunk; and where these are too long as well, the selected and recalled chunks with `_NEIGHBOURS` on
    either side.
    """
    corpus = trace.corpus
    if len(corpus.chunks) <= _CHUNKS and len(corpus.documents) <= _DOCUMENTS:
        return list(range(len(corpus.chunks)))
    named = sorted({*trace.selected, *trace.recalled})
    owners = corpus.spans[named, 0].tolist()
    by_owner = {owner: corpus.chunks_of(owner) for owner in sorted(set(owners))}
    if sum(map(len, by_owner.values())) <= _CHUNKS:
        return [position for chunks in by_owner.values() for position in chunks]
    near = set()
    for position, owner in zip(named, owners, strict=True):
        chunks = by_owner[owner]
        near |= {*range(max(position - _NEIGHBOURS, chunks.start), min(position + _NEIGHBOURS + 1, chunks.stop))}
    return sorted(near)


def _with_texts_in_memory(trace: Trace, shown: Sequence[int]) -> Trace:
    """Return the same trace with the texts of the documents of the chunks at `shown` in memory."""
    import numpy as np

    read = set(np.unique(trace.corpus.spans[shown, 0]).tolist())
    documents = tuple(
        replace(document, content=_in_memory(document.content())) if i in read else document
        for i, document in enumerate(trace.corpus.documents)
    )
    return trace.over(replace(trace.corpus, documents=documents))


def _in_memory(content: Content) -> Callable[[], Content]:
    return lambda: content


def heading(trace: Trace, cited: Citations) -> str:
    """Return what stands above the sources."""
    if trace.status == "retrieved":
        return "Selected chunks"
    return "Closest" if trace.status == "not_found" or cited.unproved else "Sources"


def _density(n_chunks: int, n_documents: int) -> str:
    """Return how many cells the map has, by which the style chooses their size."""
    if n_chunks <= 120 and n_documents <= 15:
        return "few"
    return "some" if n_chunks <= 1200 and n_documents <= 60 else "many"


def warnings(trace: Trace) -> list[str]:
    """Return the warnings of a question and of its documents, each once."""
    return list(dict.fromkeys([*trace.warnings, *(each for document in trace.corpus.documents for each in document.warnings)]))


def cost(trace: Trace) -> dict[str, Any]:
    """Return the values of the macro `run`: a trace, its seconds, its settings, and the versions of what ran."""
    own = {"templates": trace.method.templates.name if trace.method.templates else None, "corpus": trace.corpus.fingerprint}
    seconds = sum(stage.seconds for stage in trace.stages)
    return {"trace": trace, "seconds": seconds, "settings": settings(trace) | own, "versions": versions()}


def _made_visible(value: object) -> object:
    """Return a value of the template as it is printed, before it is escaped."""
    return printable(value) if type(value) is str else value


@cache
def template(name: str) -> Template:
    """Return the template `name`.html.jinja with its style. What it prints is text: printable, and escaped."""
    style = styles(*_STYLES[name])
    # The style is the only thing that the page may use; the hash keeps out any other that a document might bring.
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return environment().get_template(f"{name}.html.jinja", globals={"style": Markup(style), "style_hash": digest})


def styles(*names: str) -> str:
    """Return style sheets as one."""
    return "".join(Path(__file__).with_name(f"{name}.css").read_text("utf-8") for name in names)


@cache
def environment() -> Environment:
    """Return the environment of the templates, which escapes what they print, and makes it printable."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=_made_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def macro(file: str, name: str, *values: object, **named: object) -> str:
    """Return what a macro of `file`.html.jinja makes of some values."""
    return str(getattr(environment().get_template(f"{file}.html.jinja").module, name)(*values, **named))
