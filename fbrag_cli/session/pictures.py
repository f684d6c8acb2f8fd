"""Pictures of the pages of sources, and the places of their sentences on them.

They are made from the file of a document, if it is as it was when it was read, and are only in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fbrag_cli.documents.pdf.picture import PagePicture, Wanted, page_pictures
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Listener
from fbrag_cli.render.answer import Source, answer_of
from fbrag_cli.render.passages import picture_pages
from fbrag_cli.trace import Trace

_SAVED_WIDTH = 1_000  # pixels
_MOST_SAVED = 20  # pages of one answer


def source_page(trace: Trace, source: Source, number: int | None, width: int, listener: Listener) -> PagePicture:
    """Return a page of a source as a picture, with its sentence boxed.

    number: of the page; None for the first one with the sentence. width: in pixels, limited. Raises FbragError: usage for a page
    that the source does not have, those of `Originals.open` and of `page_pictures`, and the error of a cancellation.
    """
    pages, (sentence, *_) = picture_pages(source.passage), (*_on_pages(source), Wanted(0))
    number = number or sentence.number or next(iter(pages), 0)
    if number not in pages:
        raise FbragError("usage", f"the source has no page {number} that can be shown", "only PDFs and pictures have such pages")
    wanted = next((each for each in _on_pages(source, width) if each.number == number), Wanted(number, width))
    ((_, picture),) = _rendered(trace, [(source, wanted)], listener)
    if isinstance(picture, FbragError):
        raise picture
    return picture


def cited_pages(trace: Trace) -> dict[int, list[PagePicture]]:
    """Return the pages with the sentences of the cited sources as pictures, by the ranks of the sources: up to 20.

    A page that cannot be rendered, or whose file has changed, is left out.
    """
    cited = (source for source in answer_of(trace).sources if source.shows == "best")
    wanted = [(source, each) for source in cited for each in _on_pages(source, _SAVED_WIDTH)]
    found: dict[int, list[PagePicture]] = {}
    for source, picture in _rendered(trace, wanted[:_MOST_SAVED]):
        if isinstance(picture, PagePicture):
            found.setdefault(source.rank, []).append(picture)
    return found


def sentence_boxes(trace: Trace) -> dict[int, list[dict[str, Any]]]:
    """Return the boxes of the sentences of the sources that are shown in full, by the ranks of the sources, for JSON.

    Only sources in PDFs and pictures that can still be opened are included. A box is a line of a sentence, in points from the top
    left corner of its page as it is shown.
    """
    shown = (source for source in answer_of(trace).sources if source.shows)
    wanted = [(source, each) for source in shown for each in _on_pages(source)]
    found: dict[int, list[dict[str, Any]]] = {}
    for source, page in _rendered(trace, wanted):
        if isinstance(page, PagePicture):
            boxes = ({name: round(value, 1) for name, value in box._asdict().items()} for box in page.boxes)
            found.setdefault(source.rank, []).extend({"page": page.number, **box} for box in boxes)
    return found


def _on_pages(source: Source, width: int = 0) -> Iterator[Wanted]:
    """Yield the pages that can be shown and have the sentence of a source, each with its part of the sentence."""
    if (sentence := source.sentence) is None or not picture_pages(sentence):
        return
    text, parts = sentence.document.text, dict[int, Wanted]()
    for page in sentence.document.pages:
        start, end = max(page.start, sentence.start), min(page.end, sentence.end)
        if start < end and any(map(str.isalnum, text[start:end])):
            before = parts.get(page.number, Wanted(page.number, width, "", text[page.start : start]))
            parts[page.number] = Wanted(page.number, width, before.sentence + text[start:end], before.before)
    yield from parts.values()


def _rendered(
    trace: Trace, wanted: Sequence[tuple[Source, Wanted]], listener: Listener | None = None
) -> Iterator[tuple[Source, PagePicture | FbragError]]:
    """Yield each wanted page of a source, or why it has none. Each file is opened once, in one child process."""
    originals, by_document = trace.query.collection.originals, dict[tuple[str, str], list[tuple[Source, Wanted]]]()
    for source, each in wanted:
        document = source.passage.document
        by_document.setdefault((document.path, document.sha256), []).append((source, each))
    for pairs in by_document.values():
        document = pairs[0][0].passage.document
        try:
            file = originals.open(document)
        except FbragError as error:
            yield from ((source, error) for source, _ in pairs)
        else:
            pages = [replace(each, lines=originals.scanned(document, each.number)) for _, each in pairs]
            rendered = page_pictures(file, pages, originals.password, listener)
            yield from ((source, page) for (source, _), page in zip(pairs, rendered, strict=True))
