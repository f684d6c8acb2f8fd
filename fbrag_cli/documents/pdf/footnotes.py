"""Keep the notes at the foot of a page out of a sentence that continues with the next page.

Lines at the end of a page that are smaller than its text follow that sentence, if it is surely cut: the line above them ends no
sentence, and the next page begins with a small letter.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from statistics import median

from fbrag_cli.documents.pdf.page_text import PageLines
from fbrag_cli.documents.pdf.running_lines import PageParts
from fbrag_cli.text.sentences import sentence_spans

_SMALLER = 0.95  # size of a note, in sizes of the text
_LONGEST = 2_000  # characters of the rest of a sentence
_END = re.compile(r"""[.!?:;…。！？]["'”’»)\]]*(?:\^?[0-9]{1,3}|[*†‡])?$""")


def count_notes(pages: Sequence[PageLines], parts: Sequence[PageParts], apart: Collection[int]) -> list[int]:
    """Return for each page how many lines at the end of its body are notes within a sentence; 0 for most.

    parts: what `without_running_lines` made of `pages`. apart: indices of pages that do not continue the page before.
    """
    known = [size for page in pages for size in page.sizes if size > 0]
    usual = median(known) if known else 0.0
    sizes = [page.sizes[part.first : part.first + len(part.body)] for page, part in zip(pages, parts, strict=True)]
    counts = []
    for index, part in enumerate(parts):
        n_notes = _n_small(part.body, sizes[index], usual)
        following = index + 1
        is_cut = (
            0 < n_notes < len(part.body)
            and following < len(parts)
            and following not in apart
            and not _END.search(part.body[-n_notes - 1])
            and parts[following].body[0][:1].islower()
            and sizes[following][:1] >= (_SMALLER * usual,)
        )
        counts.append(n_notes if is_cut else 0)
    return counts


def _n_small(lines: Sequence[str], sizes: Sequence[float], usual: float) -> int:
    """Return how many lines at the end are smaller than usual; lines without letters, as a page's number, count with them."""
    n_notes = 0
    for number, (line, size) in enumerate(zip(reversed(lines), reversed(sizes), strict=False), 1):
        if any(map(str.isalpha, line)):
            if size >= _SMALLER * usual:
                break
            n_notes = number
    return n_notes


def end_of_sentence(text: str) -> int:
    """Return where the first sentence of a page ends; 0 if that is not clear."""
    spans = sentence_spans(text[:_LONGEST])
    return spans[0][1] if len(spans) > 1 else 0
