"""Selection of chunks by their scores: copies of a chunk count once. `ChunkMethod` is the base of methods that select some."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING

from fbrag_cli.corpus import Corpus, Passage
from fbrag_cli.methods.method import Method, Tools
from fbrag_cli.progress import Event, stage
from fbrag_cli.query import Query
from fbrag_cli.settings import knob
from fbrag_cli.trace import Scores, Selection, Stage, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

#: The help of `select`.
SELECT = "how much the large model reads, in chunks"
#: The number of chunks that are read if none is given.
UNLESS_GIVEN = 5

_NEAREST = 3  # chunks that a listener learns of at once
_MOST_OTHERS = 100  # chunks of other text with the same score, after which no copy is looked for: reading them takes time
_MOST_AT_PLACE = 3  # chunks of a place that a question names, which are read next to the best
_MOST_NEAR, _ALIKE = (
    100,
    0.9,
)  # best chunks among which near copies are looked for; the share of the terms that these have in common
_DATED = re.compile(r"(?<!\d)((?:19|20)\d\d)(?:[-_.]?(0[1-9]|1[0-2])(?:[-_.]?([0-3]\d))?)?(?!\d)")
_SAME = 1e-5  # the relative difference up to which two scores count as equal: copies may differ by rounding


def no_match_warning(scores: NDArray[np.float32]) -> tuple[str, ...]:
    """Return a warning if every score is 0, so that a selection means nothing."""
    return () if scores.any() else ("no chunk matches the question; try other words",)


def whole_chunks(corpus: Corpus, positions: Iterable[int]) -> tuple[Passage, ...]:
    """Return the chunks at `positions`, in that order."""
    return tuple(corpus.chunks[position] for position in positions)


def top_unique_chunks(
    corpus: Corpus, scores: NDArray[np.float32], n: int, question: str | None = None
) -> dict[int, tuple[int, ...]]:
    """Return the positions of the `n` best chunks of different text, best first, each with the positions of its copies.

    scores: (n_chunks,). Copies are chunks of the same words, whatever white space is between them, in one file or in several.
    They have the same score, so only chunks that score no lower than the last selected one are compared; if that one has score 0,
    the search ends with it. The names of files change the scores of copies; then chunks with as many words as a selected one are
    compared too. question: if given, near copies of a better chunk count as copies of it (`_is_near_copy`), and those of the same
    score as copies of the newest.
    """
    import numpy as np

    from fbrag_cli.retrieval.ranking import best

    chosen: dict[str, list[int]] = {}
    last, strangers, folded = 0.0, 0, False
    for rank, position in enumerate(best(scores, None)):
        score = float(scores[position])
        full = len(chosen) == n
        near = question is not None and score > 0 and rank < _MOST_NEAR and (not full or folded)
        if full and (last == 0 or score < last - _SAME * abs(last) or strangers == _MOST_OTHERS) and not near:
            break
        chunk = corpus.chunks[position]
        text = chunk.words
        if near and text not in chosen:
            above = ((key, corpus.chunks[first]) for key, (first, *_) in chosen.items())
            text = next((key for key, each in above if _is_near_copy(chunk, each, question or "")), text)
            folded = folded or text in chosen
        if text in chosen:
            newest = text != chunk.words and _is_newer(chunk, corpus.chunks[chosen[text][0]], scores, question or "")
            chosen[text].insert(0 if newest else len(chosen[text]), position)
        elif not full:
            chosen[text], last = [position], score
        else:
            strangers += 1
    if last > 0 and any(document.label for document in corpus.documents):
        n_words = corpus.spans[:, 3]
        known = [position for copies in chosen.values() for position in copies]
        lower = (scores > 0) & (scores < last) & np.isin(n_words, n_words[known])
        for position in best(np.where(lower, scores, 0), min(_MOST_OTHERS, int(lower.sum()))):
            chosen.get(corpus.chunks[position].words, []).append(position)
    return {first: tuple(sorted({*copies} - {first})) for first, *copies in chosen.values()}


def _is_near_copy(chunk: Passage, above: Passage, question: str) -> bool:
    """Return whether nearly all terms of two chunks are the same, and whether the better one has each term of the question, each
    name and each number that the other has outside its headings."""
    from fbrag_cli.retrieval.term_counts import counted
    from fbrag_cli.text.term_forms import further_terms
    from fbrag_cli.text.word_forms import is_name
    from fbrag_cli.text.words import terms

    if not _ALIKE * chunk.n_words <= above.n_words <= chunk.n_words / _ALIKE:
        return False
    words, others = {*chunk.text.split()}, {*above.text.split()}
    if len(words & others) < (2 * _ALIKE - 1) * len(words):
        return False
    language = (chunk.document.language,)
    (own, further), (theirs, around) = counted(chunk), counted(above)
    if (own & theirs).total() < _ALIKE * max(own.total(), theirs.total()):
        return False
    asked = {*terms(question, language), *further_terms(question, language)}
    held = {*own, *further, *chunk.document.name_terms}
    headings = {word for each in chunk.document.sections if chunk.start <= each.start < chunk.end for word in each.title.split()}
    named = {*terms(" ".join(word for word in words - headings if any(map(is_name, re.findall(r"\w+", word)))), language)}
    return (asked & held) | named <= {*theirs, *around, *above.document.name_terms}


def _is_newer(chunk: Passage, copy: Passage, scores: NDArray[np.float32], question: str) -> bool:
    """Return whether a near copy of a chunk that scores the same has a later date, and all that the chunk has."""
    score, other = (float(scores[each.position]) for each in (chunk, copy))
    return abs(score - other) <= _SAME * other and _date(chunk) > _date(copy) and _is_near_copy(copy, chunk, question)


def _date(chunk: Passage) -> str:
    """Return the date that the name of a chunk's file, a heading or the head of its mail tells, as "2024-03-12"; else ""."""
    from fbrag_cli.surroundings import head_of, headings_of
    from fbrag_cli.text.term_forms import further_terms

    document, start, end = chunk.document, chunk.start, chunk.end
    headings = (each.title for each in document.sections if start <= each.start < end)
    for text in (PurePath(document.name).name, *headings, *headings_of(document, start, end), head_of(document, start)):
        if date := _DATED.search(text):
            day = next((each for each in further_terms(text, (document.language,)) if "-" in each), "")  # as "03-12"
            return "-".join(filter(None, (date[1], date[2] or day, date[3])))
    return ""


def at_named_place(question: str, corpus: Corpus, scores: NDArray[np.float32]) -> list[int]:
    """Return the positions of the chunks of the page, slide, chapter or section that a question names, best first; at most three.

    Of several documents, those of the best chunks are looked at. scores: (n_chunks,).
    """
    from fbrag_cli.documents.named_places import named_places, names_a_place
    from fbrag_cli.retrieval.ranking import best

    if not names_a_place(question):
        return []
    one = len(corpus.documents) == 1
    documents = [0] if one else sorted({int(corpus.spans[each, 0]) for each in best(scores, _MOST_AT_PLACE)})
    named: set[int] = set()
    for number in documents:
        chunks = corpus.chunks_of(number)
        starts, ends = corpus.spans[chunks.start : chunks.stop, 1], corpus.spans[chunks.start : chunks.stop, 2]
        for start, end in named_places(question, corpus.documents[number]):
            named.update((((starts < end) & (ends > start)).nonzero()[0] + chunks.start).tolist())
    return sorted(named, key=lambda position: (-scores[position], position))[:_MOST_AT_PLACE]


def backward_scores(question: str, tools: Tools) -> NDArray[np.float32]:
    """Return S_B, float32 (n_chunks,). The listener receives the positions of the best chunks, before any model is loaded."""
    from fbrag_cli.retrieval.ranking import best

    scores = tools.retriever.scores(question)
    nearest = tuple(position for position in best(scores, _NEAREST) if scores[position])
    tools.progress(Event("recall", "ranked", positions=nearest))
    return scores


def language_warning(part: str, languages: Sequence[str], chunks: Iterable[Passage]) -> tuple[str, ...]:
    """Return a warning if chunks are in other languages than a part was trained on, if these are known."""
    strange = sorted({chunk.document.language for chunk in chunks} - {*languages, ""}) if languages else []
    return (f"{part} was trained on {', '.join(languages)}, not on {', '.join(strange)}",) if strange else ()


def matching(corpus: Corpus, scores: NDArray[np.float32], n: int, question: str | None = None) -> dict[int, tuple[int, ...]]:
    """Return what `top_unique_chunks` returns, without chunks of score 0: of a document with more than `n` chunks, unless all
    score 0."""
    unique = top_unique_chunks(corpus, scores, n, question)
    scoring = {position: copies for position, copies in unique.items() if scores[position]}
    return scoring if scoring and n < len(scores) else unique


def continued(
    corpus: Corpus, read: Mapping[int, tuple[int, ...]], best: Mapping[int, tuple[int, ...]], sizes: Sequence[int]
) -> Selection:
    """Select the chunks that a model has read, which it reads first and in the same order, and the best others.

    read, best: positions of chunks, each with those of its copies; `best` comes best first. sizes: how many chunks are read at
    first, and after each doubling. The others follow in document order up to each of these sizes, so that a prompt for more
    chunks begins with the one for fewer. A chunk that is selected only because it was read ranks last.
    """
    ends = [max(0, size - len(read)) for size in sizes]
    others = unread(best, read)[: ends[-1]]
    order = [*sorted(read), *(position for start, end in pairwise([0, *ends]) for position in sorted(others[start:end]))]
    return Selection(ranked(best, read, others), whole_chunks(corpus, order))


def unread(best: Mapping[int, tuple[int, ...]], read: Mapping[int, tuple[int, ...]]) -> list[int]:
    """Return the positions of `best`, in their order, without those of `read` and of its copies."""
    known = {position for first, copies in read.items() for position in (first, *copies)}
    return [position for position in best if position not in known]


def ranked(
    best: Mapping[int, tuple[int, ...]], read: Mapping[int, tuple[int, ...]], others: Iterable[int]
) -> dict[int, tuple[int, ...]]:
    """Return the chunks of `read` and `others`, each with its copies: in the order of `best`, then what was only read."""
    first_of = {position: first for first, copies in read.items() for position in (first, *copies)}
    places = dict.fromkeys([*(first_of.get(position, position) for position in best), *sorted(read)])
    copies, chosen = {**best, **read}, {*read, *others}
    return {position: copies[position] for position in places if position in chosen}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkMethod(Method):
    """A method that selects a number of chunks. doubled: how often the user asked to read twice as much."""

    select: int | None = knob(UNLESS_GIVEN, SELECT, on_gpu=10, minimum=1)
    doubled: int = 0

    @property
    def n_selected(self) -> int:
        """The number of chunks that are selected, if the document has that many."""
        return (self.select or UNLESS_GIVEN) << self.doubled

    def steps(self, n_chunks: int, chunk_words: int) -> list[str]:
        return [f"{self.n_context_chunks(n_chunks, chunk_words)} to select"]

    def n_context_chunks(self, n_chunks: int, chunk_words: int) -> int:
        return min(self.n_selected, n_chunks)

    def reading_twice(self) -> Method | None:
        return replace(self, doubled=self.doubled + 1)

    @property
    def larger_select(self) -> int | None:
        return 2 * self.n_selected if self.reading_twice() else None

    def select_by_question(self, query: Query, tools: Tools) -> Trace:
        """Select the chunks that the retriever ranks highest for the question. The context has them in document order."""
        with stage("recall") as watch:
            backward = backward_scores(query.text, tools)
            best = top_unique_chunks(tools.corpus, backward, self.n_selected, query.text)
            known = {position for first, copies in best.items() for position in (first, *copies)}
            best |= {each: () for each in at_named_place(query.text, tools.corpus, backward) if each not in known}
        return replace(
            Trace.start(query),
            scores=replace(Scores.zero(len(backward)), backward=backward, combined=backward),
            selection=Selection(best, whole_chunks(tools.corpus, sorted(best))),
            stages=(Stage("recall", watch.seconds),),
            warnings=no_match_warning(backward),
        )
