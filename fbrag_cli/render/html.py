"""Draws a `Trace` as one HTML page without network and scripts. Words of documents, models and users stay text in it.

Of a document that is not shown, the page has its name and its best score; its text is not read.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from itertools import pairwise
from os.path import commonprefix
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from fbrag_cli.corpus import Corpus, Passage
from fbrag_cli.documents.document import Document, itself
from fbrag_cli.documents.lines import page_label, page_name, section_of
from fbrag_cli.generation.build import versions
from fbrag_cli.render.answer import Answer, Source, answer_of
from fbrag_cli.render.as_json import settings
from fbrag_cli.render.blocks import blocks, unseen
from fbrag_cli.render.page_words import plain
from fbrag_cli.render.passages import (
    by_ocr,
    cut,
    digits,
    in_part,
    layout_of,
    location,
    parts,
    picture_pages,
    place,
    read_of,
    said_from,
    scored_samples,
    surrounded,
)
from fbrag_cli.render.tables import own_tables, rows_of
from fbrag_cli.retrieval.ranking import best, ranks
from fbrag_cli.text.printable import byte_size, one_line, plural, printable
from fbrag_cli.text.terminal import truncate
from fbrag_cli.trace import Trace

if TYPE_CHECKING:
    from jinja2 import Environment, Template

    from fbrag_cli.documents.pdf.picture import PagePicture

# The most that a page shows.
_CHUNKS = 6_000  # 1.8 million words
_DOCUMENTS = 50
_NEIGHBOURS = 20
_OTHERS = 1_000  # documents that are not shown, but have a cell in the map

_RAISED = 5  # chunks named for a forward sample
_CONTEXT = 1  # lines around a source's sentence
_BEGINNING = 90  # characters of the sentence of a source that is not shown in full
_SAID = 120  # characters of the summary of a sample
_SHADES = 10
_TITLE = 60  # characters of a section's title
_ROOM = 0.003  # around the letters in a box, in widths of the page

_STYLES = {"matrix": ("matrix",)}  # style sheets of a template, in their order
_SAVED = ("shared", "page")  # of others

#: What `Findings.of` says of a chunk, if nothing was asked.
_NOT_ASKED = {"shade": 0, "score": None, "sources": (), "read": "", "retrieved": False, "next_selected": None}

Shade = Callable[[float], int]  # a combined score -> 0 to 9
Pictures = Mapping[int, Sequence["PagePicture"]]


def page(trace: Trace, pictures: Pictures | None = None) -> str:
    """Return the whole page, to be written as UTF-8. pictures: as for `source_views`."""
    shown, answer = _positions_shown(trace), answer_of(trace)
    trace = _with_texts_in_memory(trace, shown)
    findings = Findings(trace, answer)
    documents = [*document_views(trace, shown, findings)]
    others = other_views(trace, {document["number"] - 1 for document in documents}, findings.shade)
    # How many cells the map has, by which the style chooses their size.
    few, some = len(shown) <= 120 and len(documents) <= 15, len(shown) <= 1200 and len(documents) <= 60
    return template("page").render(
        title=one_line(trace.question, 80),
        answer=answer,
        word=word_of(trace),
        in_part=in_part(trace),
        documents=documents,
        sources=[*source_views(trace, answer, pictures=pictures)],
        samples=[*sample_views(trace, answer, set(shown))],
        tables=[(table, rows_of(table)) for table in own_tables(trace)],
        others=sorted(others, key=lambda other: -other["score"])[:_OTHERS],
        n_others=len(others),
        density="few" if few else "some" if some else "many",
        warnings=warnings(trace),
        **cost(trace),
    )


def conversation(turns: Sequence[tuple[str, Trace, Pictures]]) -> str:
    """Return the questions of a conversation with their answers and sources as one page. turns: each question as it was typed,
    its trace, and the pictures of its sources, as for `source_views`."""
    views = []
    for number, (typed, trace, pictures) in enumerate(turns, 1):
        shown = named_shortly(trace)
        answer = answer_of(shown)
        sources = [view | {"chunk": None} for view in source_views(shown, answer, pictures=pictures)]
        views.append({"typed": typed, "question": trace.question, "answer": answer, "sources": sources, "prefix": f"t{number}-"})
    return template("conversation").render(title=one_line(turns[0][0], 80), turns=views, versions=versions())


def _positions_shown(trace: Trace) -> list[int]:
    """Return the positions of the chunks that the page shows, ascending. Reads no text.

    These are all chunks, if there are at most `_CHUNKS` in at most `_DOCUMENTS` documents; else all of the documents with a
    selected or retrieved chunk; and where these are too long as well, the selected and retrieved chunks with `_NEIGHBOURS` on
    either side.
    """
    corpus = trace.corpus
    if len(corpus.chunks) <= _CHUNKS and len(corpus.documents) <= _DOCUMENTS:
        return list(range(len(corpus.chunks)))
    named = sorted({*trace.selected, *trace.retrieved})
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
    read = set(np.unique(trace.corpus.spans[shown, 0]).tolist())
    documents = tuple(
        replace(document, content=partial(itself, document.content())) if i in read else document
        for i, document in enumerate(trace.corpus.documents)
    )
    return trace.over(replace(trace.corpus, documents=documents))


def warnings(trace: Trace) -> list[str]:
    """Return the warnings of a question and of its documents, each once, in words for a page."""
    told = [*trace.warnings, *(each for document in trace.corpus.documents for each in document.warnings)]
    return list(dict.fromkeys(map(plain, told)))


def cost(trace: Trace) -> dict[str, Any]:
    """Return the values of the macro `run`: a trace, its seconds, its settings, and the versions of the programs that ran."""
    own = {"corpus": trace.corpus.fingerprint}
    seconds = sum(stage.seconds for stage in trace.stages)
    return {"trace": trace, "seconds": seconds, "settings": settings(trace) | own, "versions": versions()}


@cache
def template(name: str) -> Template:
    """Return the template `name`.html.jinja with its style. What it prints is text: printable, and escaped."""
    style = styles(*_STYLES.get(name, _SAVED))
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
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def macro(file: str, name: str, *values: object, **named: object) -> str:
    """Return the output of a macro of `file`.html.jinja for some values."""
    return str(getattr(environment().get_template(f"{file}.html.jinja").module, name)(*values, **named))


# -- the chunks of documents ------------------------------------------------------------------------------------------


def shading(scores: NDArray[np.float32]) -> Shade:
    """Return a function from a score to its shade, from the lowest to the highest of `scores`, (n_chunks,)."""
    low, high = float(scores.min(initial=np.inf)), float(scores.max(initial=-np.inf))
    return lambda score: round((score - low) / (high - low) * (_SHADES - 1)) if high > low else 0


def shades(scores: NDArray[np.float32]) -> str:
    """Return the shades of scores, (n_chunks,), by `shading`: one digit per chunk."""
    low, high = float(scores.min(initial=np.inf)), float(scores.max(initial=-np.inf))
    if not high > low:
        return "0" * len(scores)
    found = np.rint((scores.astype(np.float64) - low) / (high - low) * (_SHADES - 1)).astype(np.uint8)
    return "".join(map(str, found.tolist()))


class Findings:
    """What an answer shows of chunks, for `chunk_views`. shade: of a combined score."""

    def __init__(self, trace: Trace, answer: Answer) -> None:
        self.shade = shading(trace.scores.combined)
        self._scores, self._read = trace.scores.combined, read_of(trace)
        self._following, self._retrieved = dict(pairwise(trace.selected)), set(trace.retrieved)
        self._sources: dict[int, list[Source]] = {}
        for source in answer.sources:
            self._sources.setdefault(source.passage.position, []).append(source)

    def of(self, chunk: Passage) -> dict[str, Any]:
        """Return what a page shows of a chunk besides its place: its text with marks, its score and shade (0 to 9), the labels of
        the sources in it, and, if a part of it is read, how many words that has."""
        position = chunk.position
        own, read = self._sources.get(position, []), self._read.get(position, ())
        unread = [part for part, is_read in parts(chunk, read) if not is_read] if read else []
        score = float(self._scores[position])
        return {
            "shade": self.shade(score),
            "score": score,
            "sources": [label(source) for source in own],
            "read": f"{sum(each.n_words for each in read)} of {plural(chunk.n_words, 'word')} read" if unread else "",
            "retrieved": position in self._retrieved,
            "next_selected": self._following[position] + 1 if position in self._following else None,
            "text": drawn(chunk, own, unread),
        }


def label(source: Source) -> int:
    """Return the number of a source, or its rank before it has a number."""
    return source.number or source.rank


def word_of(trace: Trace) -> str:
    """Return what `label` returns of the sources of a trace."""
    return "rank" if trace.status == "retrieved" else "source"


def chunk_views(
    corpus: Corpus, positions: Sequence[int], findings: Findings | None = None, *, before: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield chunks of one document for the macro `chunk`, each with its section if that begins there, and with the number of
    chunks left out before it.

    positions: of the chunks, ascending. findings: of an answer, None without one. before: the position of the last chunk shown
    elsewhere; None for the one before the document.
    """
    first = corpus.chunks_of(int(corpus.spans[positions[0], 0])).start
    before = first - 1 if before is None else before
    last = corpus.chunks[before] if before >= first else None
    section = last and section_of(last.document, last.start, last.end)
    for position in positions:
        chunk = corpus.chunks[position]
        document, start, end = chunk.document, chunk.start, chunk.end
        _, unit, numbers = location(chunk)
        last_section, section = section, section_of(document, start, end)
        yield {
            "number": position + 1,
            "place": place(chunk),
            "within": f"{unit} {numbers}{by_ocr(chunk)}",
            "section": one_line(section.title, _TITLE) if section and section != last_section else "",
            "after_gap": position - before - 1,
            **(findings.of(chunk) if findings else _NOT_ASKED | {"text": drawn(chunk, ())}),
        }
        before = position


def document_views(trace: Trace, shown: Sequence[int], findings: Findings) -> Iterator[dict[str, Any]]:
    """Yield the documents of the chunks at the positions `shown`, each with the number of chunks left out at its end."""
    corpus = trace.corpus
    owners = corpus.spans[shown, 0]
    for owner in np.unique(owners).tolist():
        first, end = np.searchsorted(owners, [owner, owner + 1])
        document, positions = corpus.documents[owner], corpus.chunks_of(owner)
        yield {
            "number": owner + 1,
            "document": document,
            "n_words": corpus.words_of(owner),
            "n_chunks": len(positions),
            "chunks": [*chunk_views(corpus, shown[first:end], findings)],
            "after_gap": positions.stop - 1 - shown[end - 1],
            "layout": layout_of(document).kind,
        }


def drawn(passage: Passage, sources: Iterable[Source], unread: Iterable[Passage] = ()) -> Markup:
    """Return the text of a passage, escaped, with its headings, its tables, and marks. sources, unread: as of `marked`."""

    def part(start: int, end: int) -> str:
        if is_plain:
            return str(escape(printable(text[start:end])))
        return str(marked(passage.part(start, end), own, layout.breaks(start, end), left_out))

    own, left_out, layout, text = [*sources], [*unread], layout_of(passage.document), passage.document.text
    is_plain = not (own or left_out or layout.flows or any(unseen(passage.document, passage.start, passage.end)))
    pieces: list[str] = []
    for block in blocks(passage.document, passage.start, passage.end):
        if block.kind == "rows":
            rows = ("".join(f"<td>{part(*cell)}</td>" for cell in row) for row in block.rows)
            pieces.append(f'<table class="rows">{"".join(f"<tr>{row}</tr>" for row in rows)}</table>')
        else:
            shown = (part(*row[0]) for row in block.rows)
            pieces += [f"<b>{each}</b>" if block.kind == "heading" else each for each in shown]
    return Markup("".join(pieces))


def marked(passage: Passage, sources: Iterable[Source], breaks: Iterable[int], unread: Iterable[Passage] = ()) -> Markup:
    """Return the text of a passage, escaped, with its unread parts marked and a `<br>` at each of `breaks`.

    sources: those of which it may hold the sentence, which is marked, and in the cited ones the words that show the answer.
    """
    tags = [(at, 2, "<br>", 0) for at in breaks]  # position, order at the same position, tag, characters that are not shown

    def surround(start: int, end: int, order: int, name: str, kind: str = "") -> None:
        start, end = max(start, passage.start), min(end, passage.end)
        if start < end:
            opening = f'<{name} class="{kind}">' if kind else f"<{name}>"
            tags.extend([(start, order, opening, 0), (end, 4 - order, f"</{name}>", 0)])

    for each in unread:
        surround(each.start, each.end, 3, "span", "unread")
    for source in sources:
        if source.sentence and source.shows:
            surround(source.sentence.start, source.sentence.end, 3, "mark", source.shows)
        for start, end in source.marks if source.shows == "best" else ():
            surround(start, end, 4, "mark")
    tags += [(start, 5, "", end - start) for start, end in unseen(passage.document, passage.start, passage.end)]
    text, first = printable(passage.text), passage.start
    pieces, done = [], first
    for at, _, tag, skipped in sorted(tags):
        pieces += [escape(text[done - first : max(at, done) - first]), Markup(tag)]
        done = max(at + skipped, done)
    return Markup("").join([*pieces, escape(text[done - first :])])


# -- the sources and samples --------------------------------------------------------------------------------


def other_views(trace: Trace, shown: set[int], shade: Shade) -> list[dict[str, Any]]:
    """Return the documents with chunks whose positions are not in `shown`, with the best score of each. Reads no text."""
    corpus = trace.corpus
    highest = np.full(len(corpus.documents), -np.inf, np.float32)
    np.maximum.at(highest, corpus.spans[:, 0], trace.scores.combined)
    n_chunks = np.bincount(corpus.spans[:, 0], minlength=len(corpus.documents))
    return [
        {"name": document.name, "n_chunks": n_chunks[i], "score": float(highest[i]), "shade": shade(float(highest[i]))}
        for i, document in enumerate(corpus.documents)
        if i not in shown and n_chunks[i]
    ]


def source_views(
    trace: Trace, answer: Answer, where: Callable[[Passage], str] = place, pictures: Pictures | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the sources in their order, for the macros `source_list` and `figures`: with the passage around the sentence, the
    scores and their ranks among all chunks, and the number of the sample that raised the chunk.

    where: names a place. pictures: of the pages of sources, by the ranks of these.
    """
    scores = trace.scores
    backward_ranks, forward_ranks = ranks(scores.backward), ranks(scores.forward)
    for source in answer.sources:
        passage, position = source.passage, source.passage.position
        shown = surrounded(passage, source.sentence, _CONTEXT)
        yield {
            "number": label(source),
            "in_full": bool(source.shows),
            "chunk": position + 1,
            "chunk_place": place(trace.corpus.chunks[position]),
            "score": float(scores.combined[position]),
            "place": where(source.sentence or passage),
            "remark": source.remark(source.sentence or passage),
            "scored": source.score,
            "backward": f"{digits(trace, scores.backward[position])} (#{backward_ranks[position]})",
            "forward": f"{digits(trace, scores.forward[position])} (#{forward_ranks[position]})" if trace.samples else "",
            "sample": int(scores.best_sample[position]) + 1 if scores.forward[position] else None,
            "language": passage.document.language,
            "layout": layout_of(passage.document).kind,
            "excerpt": drawn(shown, [source]),
            "beginning": truncate(said_from(passage, source.sentence), _BEGINNING),
            "has_pages": bool(picture_pages(passage)),
            "pictures": [picture_view(each, passage.document) for each in (pictures or {}).get(source.rank, ())],
        }


def picture_view(picture: PagePicture, document: Document) -> dict[str, Any]:
    """Return a page as a picture for the macro `picture`."""
    pages, file = (picture.number, picture.number), one_line(document.name.replace("\\", "/").rpartition("/")[2])
    return {
        "name": f"Page {page_name(pages, one_line(page_label(document, pages) or '') or None)} of {file}",
        "address": Markup(f"data:{picture.media_type};base64,{b64encode(picture.data).decode()}"),
        "size": byte_size(len(picture.data)),
        "width": round(picture.width, 2),
        "height": round(picture.height, 2),
        "boxes": [[round(number, 1) for number in box] for box in _drawn_boxes(picture)],
    }


def _drawn_boxes(picture: PagePicture) -> Iterator[tuple[float, float, float, float]]:
    """Yield the left and upper edge, the width and the height of the boxes of a picture. They are a little larger than the
    letters in them, and do not overlap: two lines meet in the middle."""
    room, boxes = _ROOM * picture.width, picture.boxes
    for before, box, after in zip([None, *boxes], boxes, [*boxes[1:], None], strict=False):
        top, bottom = box.top - room, box.bottom + room
        if before and before.top < box.top < before.bottom + 2 * room and before.left < box.right and box.left < before.right:
            top = (before.bottom + box.top) / 2
        if after and after.bottom > box.bottom > after.top - 2 * room and after.left < box.right and box.left < after.right:
            bottom = (box.bottom + after.top) / 2
        yield box.left - room, top, box.right - box.left + 2 * room, bottom - top


def sample_views(trace: Trace, answer: Answer, shown: Container[int]) -> Iterator[dict[str, Any]]:
    """Yield the forward samples for the macro `sample`: each as one line, why it was cut, and the chunks that it raises most.

    shown: the positions of the chunks that the page shows; other chunks get no link.
    """
    sources: dict[int, list[int]] = {}
    for source in answer.sources:
        sources.setdefault(source.passage.position, []).append(label(source))
    for sample, scores in scored_samples(trace):
        raised = [
            {
                "number": position + 1,
                "score": digits(trace, scores[position]),
                "place": place(trace.corpus.chunks[position]) if position in shown else "",
                "sources": sources.get(position, []) if position in shown else [],
            }
            for position in best(scores, _RAISED)
            if scores[position]
        ]
        said = truncate(one_line(sample.answer or sample.rationale or "(empty)"), _SAID)
        yield {"sample": sample, "said": said, "cut": cut(sample), "raised": raised}


# -- names of documents, for pages that show their paths or do not need them --------------------------------------------


def short_names(names: Sequence[str]) -> list[str]:
    """Return the names without their common folder. Without a common folder, return what follows the last slash, if that differs
    for all."""
    folder = commonprefix(names).rpartition("/")[0]  # noqa: RUF071 cut at a "/"
    if folder:
        return [name[len(folder) + 1 :] for name in names]
    last = [name.rpartition("/")[2] for name in names]
    return last if all(last) and len({*last}) == len(last) else [*names]


def with_short_names(corpus: Corpus) -> Corpus:
    """Return the same corpus with short names of its documents."""
    names = short_names([document.name for document in corpus.documents])
    documents = (replace(document, name=name) for document, name in zip(corpus.documents, names, strict=True))
    return replace(corpus, documents=tuple(documents))


def named_shortly(trace: Trace) -> Trace:
    """Return the same trace with short names of its documents and sources."""
    corpus = with_short_names(trace.corpus)
    context = (corpus.chunks[each.position].part(each.start, each.end) for each in trace.context)
    return trace.over(corpus).reading(context)
