"""Which selected chunks show an answer, in which sentence, and which words none of them has: counted from words, without a model.

A sentence of a chunk is scored by the terms that it shares with the answer (or one sentence of the answer) and with the question.
Terms that are rare among the sentences of all selected chunks weigh more, and so do names and numbers. A term counts half in the
sentence before or after, and a quarter elsewhere in the chunk: "He lives there" follows the name. The words of the sample that
raised a chunk count through the chunk's score. Counted here too, they make citations worse (tests/benchmarks/README.md).

A citation means proof: its sentence holds what the answer adds to the question, and besides a content word of the question, or a
name from a sentence with half of the question. Names of the question do not count unless they are half of it. After an answer's
first sentence a content word of its own does as well. A heading alone has to hold half of the question. Among several files, what
the answer adds may also be in the file's name. If all samples agree, a sentence that holds the whole answer is proof. If none
were drawn, it holds a short answer whole. A name or a number that the cited sources lack cites the source that has it as well.

OCR misreads letters: a source that it has read also holds a long word of the answer or the question if it has one that differs by
one letter.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from operator import gt

from fbrag_cli.corpus import Passage
from fbrag_cli.text.languages import detect, yes_and_no
from fbrag_cli.text.sentences import sentence_spans
from fbrag_cli.text.spans import Span, joined
from fbrag_cli.text.word_forms import are_alike, differ_by_one, is_name, is_number, word_terms
from fbrag_cli.text.words import term_of, term_spans, terms, word_spans

_NAMED, _ASKED = 2.0, 0.5  # weight of a name or number of the answer, and of the question's terms, where other terms have 1
_UNSAMPLED = 0.5  # of the weight of a term of the answer that no sample has
_BESIDE, _ELSEWHERE = 0.5, 0.25  # of a term's weight if it is next to the sentence, and elsewhere in the chunk
_RANKED = 0.25  # added to a chunk's support for the best score of all chunks, in proportion to the score
_SHORT = 4  # new terms of a short answer, which a sentence holds whole if no samples agree or disagree with it
_LEAST = 0.5  # of what a sentence of the answer says, by weight, for one of a chunk to show it; of the question too, by names
_CLOSE, _MOST = 0.9, 3  # of the best chunk's support, for another one to be cited as well; citations a sentence
_LONGEST = 400  # characters of a sentence; a longer one is a table or has no punctuation, and each line counts for itself
_TITLE = 4  # characters of a title at most, which is not highlighted: Mr., Prof.
_MISREAD = 5  # letters of a word of which OCR may misread one
_FEW, _RARE = 3, 0.1  # sentences, or their share, that have a rare term

_CAPITAL_NOUNS = frozenset({"de"})  # languages in which a capital shows no name


@dataclass(frozen=True, slots=True)
class Candidate:
    """A source that may be cited, its combined score (the best chunk has 1; 0 if none is above 0), and what the sample says
    that raised it ("" without one)."""

    passage: Passage
    score: float
    sample_text: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the answer: `answer[start:end]`. sources: numbers (from 1) of those that show it, best first; at most 3."""

    start: int
    end: int
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The part of a source that shows the answer.

    sentence: the one that shows it best; None if no sentence has a term that is sought. marks: names, numbers and rare words
    of the answer in this sentence (of the question, if it has none of the answer), and rare names and numbers elsewhere in the
    source, in characters of the document.
    """

    sentence: Passage | None
    marks: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Citations:
    """What shows an answer. claims: of an answer that was given from the document, else none. evidence: aligned with
    the sources. nearest: number (from 1) of the source with the sentence that is nearest to what is sought; 0 without sources.
    unsupported_terms: words, names and numbers of such an answer that are in no source, as the answer spells them.
    uncited: whether no sentence of the sources shows a claim; False for an answer in another language."""

    claims: tuple[Claim, ...]
    evidence: tuple[Evidence, ...]
    unsupported_terms: tuple[str, ...]
    uncited: bool
    nearest: int


def citations(
    question: str,
    answer: str,
    sources: Sequence[Candidate],
    *,
    declined: bool,
    agreed: bool | None = None,
    samples: Sequence[str] = (),
) -> Citations:
    """Return which sources show an answer from the document; "" without one.

    declined: whether the document does not say; a source then shows what is nearest to the question. agreed: whether all samples
    hold the answer; None if none were drawn. samples: their texts. A source without a term of the answer or the question shows
    what its sample says; without an answer, each does.
    """
    evidence = _Judge(question, sources, agreed, samples, answer)
    said = question if declined else answer
    sought, shown = evidence.sought(said) if said else None, []
    for i, source in enumerate(sources):
        found = evidence.shown(i, sought) if sought else None
        shown.append(found or evidence.shown(i, evidence.sought(source.sample_text)) or Evidence(None, ()))
    claims, foreign = tuple(_claims(evidence, answer)), evidence.is_foreign(answer)
    unproved = bool(claims) and not foreign and not any(claim.sources for claim in claims)
    nearest = evidence.nearest(sought) if sought else min(1, len(sources))
    return Citations(claims, tuple(shown), tuple(_unseen(evidence, answer, foreign)), unproved, nearest)


@dataclass(frozen=True, slots=True)
class _Terms:
    """What a text says. weights: of its terms and the question's. new: its terms that the question does not have; all if the
    question has all; the question's if it has none. names: terms of its names and numbers. other_terms: other terms of the
    question, without names if it has others, of which a proof holds one."""

    weights: Mapping[str, float]
    new: frozenset[str]
    names: frozenset[str]
    other_terms: frozenset[str]


class _Source:
    """The sentences of a source, and the terms of each. named: terms of the name of its file, if there are several; each of
    its sentences is read below it. headings: numbers of sentences that are nothing else. held: the terms of all."""

    def __init__(self, passage: Passage, languages: Sequence[str], sought: str) -> None:
        """sought: a text whose words OCR may have misread in the passage."""
        self.passage, self.text = passage, (text := passage.cells_apart)
        self.spans = list(_sentences(passage.text))
        self.terms = [frozenset(terms(text[start:end], languages)) for start, end in self.spans]
        if passage.by_ocr:
            read = _misread(sought, text, languages)
            self.terms = [own.union(*(read[term] for term in own & read.keys())) for own in self.terms]
        self.headings = frozenset(i for i, (start, end) in enumerate(self.spans) if _is_heading(passage, start, end))
        self.named = frozenset(terms(passage.document.label, languages))
        self.held = self.named.union(*self.terms)

    def best(self, weights: Mapping[str, float], among: Iterable[int]) -> tuple[float, int]:
        """Return the support of the sentence that has most of the weighted terms, and its number; 0 and -1 if none has any.

        among: numbers of sentences, ascending.
        """
        sought = weights.keys() & self.held
        whole = _sum(weights, sought)
        best, best_at = 0.0, -1
        for i in among:
            if here := self.terms[i] & sought:
                near_by = (self.around(i) & sought) - here
                elsewhere = whole - _sum(weights, here | near_by)
                support = _sum(weights, here) + _BESIDE * _sum(weights, near_by) + _ELSEWHERE * elsewhere
                if support > best:
                    best, best_at = support, i
        return best, best_at

    def around(self, i: int) -> frozenset[str]:
        """Return the terms of sentence `i` and those next to it."""
        return frozenset(chain.from_iterable(self.terms[max(0, i - 1) : i + 2]))


class _Judge:
    """The sources of an answer, and the weights of terms in them."""

    def __init__(
        self, question: str, sources: Sequence[Candidate], agreed: bool | None, samples: Sequence[str], answer: str
    ) -> None:
        self.languages = tuple(dict.fromkeys(source.passage.document.language for source in sources)) or ("",)
        self.sources = [_Source(source.passage, self.languages, f"{question}\n{answer}") for source in sources]
        self.question, self.asked, self._agreed = question, frozenset(terms(question, self.languages)), agreed
        self._sampled = frozenset(terms("\n".join(samples), self.languages))
        self._plain = frozenset(self.plain(question))
        self._ranks = [1 + _RANKED * max(0.0, source.score) for source in sources]
        sentences = [held for source in self.sources for held in source.terms]
        self._n, self._shared = len(sentences), Counter(chain.from_iterable(sentences))

    def sought(self, text: str) -> _Terms:
        """Return the terms to look for: those of `text` and the question."""
        weights = {term: _ASKED * self._idf(term) for term in sorted(self.asked)}
        own, names = set(), set()
        for start, end, term in term_spans(text, self.languages):
            word = text[start:end]
            if word.casefold() in yes_and_no():
                continue
            own.add(term)
            if is_name(word):
                names.add(term)
            weight = (_NAMED if term in names else 1) * (_UNSAMPLED if self._sampled and term not in self._sampled else 1)
            weights[term] = max(weights.get(term, 0.0), self._idf(term) * weight)
        new = frozenset(own - self.asked or own or self.asked)
        return _Terms(weights, new, frozenset(names), self._plain - new or self.asked - new)

    def cited(self, sought: _Terms) -> tuple[int, ...]:
        """Return the numbers of the sources that show what is sought, best first."""
        supports = {}
        for i, source in enumerate(self.sources):
            support, at = source.best(sought.weights, self._supporting(source, sought))
            if at >= 0:
                supports[i + 1] = support * self._ranks[i]
        ranked = sorted(supports, key=lambda number: -supports[number])[:_MOST]
        shown = [number for number in ranked if supports[number] >= _CLOSE * supports[ranked[0]]]
        while shown and (lacking := self.lacking(sought, shown)) and len(shown) < _MOST:
            held = [self._weight(source.held & lacking) * rank for source, rank in zip(self.sources, self._ranks, strict=True)]
            if not (most := max(held)):
                break
            shown.append(held.index(most) + 1)
        return tuple(shown)

    def lacking(self, sought: _Terms, shown: Iterable[int]) -> frozenset[str]:
        """Return the terms of names and numbers, new in what is sought, that none of these sources (numbers from 1) holds."""
        return (sought.names & sought.new).difference(*(self.sources[number - 1].held for number in shown))

    def nearest(self, sought: _Terms) -> int:
        """Return the number of the source with the sentence that is nearest to what is sought; 1 if none has a term."""
        supports = [
            source.best(sought.weights, self._supporting(source, sought) or range(len(source.spans)))[0] * rank
            for source, rank in zip(self.sources, self._ranks, strict=True)
        ]
        return supports.index(max(supports)) + 1 if supports else 0

    def shown(self, i: int, sought: _Terms) -> Evidence | None:
        """Return the sentence of source `i` that shows best what is sought, and the words to highlight; None if none does."""
        source = self.sources[i]
        _, at = source.best(sought.weights, self._supporting(source, sought) or range(len(source.spans)))
        if at < 0:
            return None
        start, end = source.spans[at]
        within = (sought.new & source.terms[at]) or sought.weights.keys()
        inside, outside = [], []
        for first, last, term in term_spans(source.text, self.languages):
            word, here = source.text[first:last], start <= first and last <= end
            if word.istitle() and len(word) <= _TITLE and source.text[last : last + 1] == "." and last + 1 != end:
                continue
            if here and term in within and (term in sought.names or self._is_rare(term)):
                inside.append((first, last))
            elif not here and term in sought.names & sought.new and self._is_rare(term) and is_name(word):
                outside.append((first, last))
        # Where terms are pairs of characters, neighbours overlap; words that only touch keep a mark each.
        before, marks = source.passage.start, sorted([*joined(inside, gt), *joined(outside, gt)])
        sentence = source.passage.part(before + start, before + end)
        return Evidence(sentence, tuple((before + first, before + last) for first, last in marks))

    def plain(self, text: str, *, first: bool = True) -> Iterator[str]:
        """Yield the terms of the words of `text` that are no names and no numbers. first: even if they begin a sentence."""
        begins = {start for start, _ in sentence_spans(text)} if first else ()
        capitals = not _CAPITAL_NOUNS.isdisjoint(self.languages)
        for start, end, term in term_spans(text, self.languages):
            word = text[start:end]
            if not is_number(word) and (capitals or start in begins or not is_name(word)):
                yield term

    @cached_property
    def plain_terms(self) -> frozenset[str]:
        """The terms of words of the sources that are certainly no names and no numbers."""
        return frozenset(chain.from_iterable(self.plain(source.text, first=False) for source in self.sources))

    @cached_property
    def linked_names(self) -> frozenset[str]:
        """The terms of names in sentences that hold half of the question: a second fact is next to such a name."""
        half, every = _LEAST * self._weight(self.asked), chain.from_iterable(source.terms for source in self.sources)
        held = (own for own in every if self._weight(own & self.asked) >= half > 0)
        return frozenset(chain.from_iterable(held)) - self.plain_terms - self.asked

    def is_foreign(self, answer: str) -> bool:
        """Return whether an answer is in another language than the sources."""
        spoken = detect(answer) or detect(self.question)
        return spoken != "" and spoken not in self.languages

    def _supporting(self, source: _Source, sought: _Terms) -> list[int]:
        """Return the numbers of the sentences that show what is sought; "yes" is shown together with the sentences next to it."""
        rest = self.asked - sought.new
        whole, half = self._weight(sought.new), _LEAST * self._weight(rest)
        least = whole if self._agreed is None and len(sought.new) <= _SHORT else _LEAST * whole
        if not rest:
            return [i for i in range(len(source.terms)) if self._weight(sought.new & (source.around(i) | source.named)) >= least]
        besides, shown = sought.other_terms | (self.linked_names - sought.new), []
        for i, own in enumerate(source.terms):
            held = self._weight((own | source.named) & sought.new)
            asked = (own & besides and i not in source.headings) or self._weight(own & rest) >= half
            if held >= (least if asked else whole) and (asked or (self._agreed and i not in source.headings)):
                shown.append(i)
        return shown

    def _weight(self, sought: Iterable[str]) -> float:
        return math.fsum(map(self._idf, sought))  # its result does not depend on the order

    def _is_rare(self, term: str) -> bool:
        return self._shared[term] <= max(_FEW, _RARE * self._n)

    def _idf(self, term: str) -> float:
        return math.log(1 + (self._n + 1) / (self._shared[term] + 0.5))


def _claims(evidence: _Judge, answer: str) -> Iterator[Claim]:
    at = 0
    for line in answer.split("\n"):  # nobody cuts the lines of an answer at a width
        for start, end in sentence_spans(line):
            sought = evidence.sought(line[start:end])
            if at + start:
                sought = replace(sought, other_terms=sought.other_terms.union(evidence.plain(line[start:end])))
            yield Claim(at + start, at + end, evidence.cited(sought))
        at += len(line) + 1


def _unseen(evidence: _Judge, answer: str, foreign: bool) -> Iterator[str]:
    """Yield what is in no source, neighbouring words together; of an answer in another language, only numbers. Words that
    are no names are seen where a source has another form of them."""
    seen = evidence.asked.union(*(source.held for source in evidence.sources))
    spoken, plain = detect(answer) or detect(evidence.question), frozenset(evidence.plain(answer))
    spans = []
    for start, end, held in word_terms(answer, evidence.languages):
        word = answer[start:end]
        silent = foreign or word.casefold() in yes_and_no() or not term_of(word, spoken)
        if held & seen or (silent and not is_number(word)):
            continue
        if not any(are_alike(term, other) for term in held & plain for other in evidence.plain_terms):
            spans.append((start, end))
    sentences = {start for start, _ in sentence_spans(answer)}

    def is_one_name(end: int, start: int) -> bool:
        return answer[end:start].strip(" ") in ("", ".") and start not in sentences  # "Silas Pell", "Mrs. Goss"

    yield from dict.fromkeys(answer[start:end] for start, end in joined(spans, is_one_name))


def _misread(sought: str, text: str, languages: Sequence[str]) -> dict[str, set[str]]:
    """Return the terms of the words in `sought` that a text has only with another letter, by the terms of the words that it
    has."""

    def words(text: str) -> dict[str, str]:
        return {text[start:end].casefold(): term for start, end, term in term_spans(text, languages)}

    found: dict[str, set[str]] = {}
    held = words(text)
    known = {*held.values()}
    for word, term in words(sought).items():
        if term not in known and len(word) >= _MISREAD and word.isalpha():
            for other in held:
                if differ_by_one(word, other):
                    found.setdefault(held[other], set()).add(term)
    return found


def _is_heading(passage: Passage, start: int, end: int) -> bool:
    """Return whether `passage.text[start:end]` is a heading of its document, whatever marks it as one."""
    sections, first = passage.document.sections, passage.start + start
    at = bisect_left(sections, first, key=lambda section: section.start)
    if at == len(sections) or sections[at].start >= passage.start + end:
        return False
    said, title = ("".join(filter(str.isalnum, text)) for text in (passage.text[start:end], sections[at].title))
    return said == title


def _sentences(text: str) -> Iterator[Span]:
    for start, end in sentence_spans(text):
        if end - start <= _LONGEST:
            yield start, end
            continue
        at = start
        for line in text[start:end].split("\n"):
            yield from ((at + first, at + last) for first, last in _pieces(line))
            at += len(line) + 1


def _pieces(line: str) -> list[Span]:
    """Return the pieces of a line of at most `_LONGEST` characters, cut between words; a longer word is cut as well."""
    if len(line) <= _LONGEST:
        return [(0, len(line))] if line else []
    lines: list[Span] = []
    for start, end in word_spans(line):
        if lines and end - lines[-1][0] <= _LONGEST:
            lines[-1] = (lines[-1][0], end)
        else:
            lines += [(at, min(at + _LONGEST, end)) for at in range(start, end, _LONGEST)]
    return lines


def _sum(weights: Mapping[str, float], sought: Iterable[str]) -> float:
    return math.fsum(weights[term] for term in sought)  # its result does not depend on the order
