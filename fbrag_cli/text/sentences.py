"""Splits text in any script into sentences, by Unicode's default sentence boundaries (UAX #29), adapted to documents.

Three rules differ from the default. A line break inside a paragraph does not end a sentence, since lines are often wrapped; a
blank line does. No sentence ends before a word in lower case: "“No!” he said". None ends after a title or an initial before a
name: "Mr. Bingley", "J. Austen".
"""

from __future__ import annotations

import regex

_IGNORED = r"[\p{SB=Extend}\p{SB=Format}]*+"  # rule SB5
_TERMINATOR = rf"[\p{{SB=STerm}}\p{{SB=ATerm}}]{_IGNORED}"
_CLOSING = rf"(?:\p{{SB=Close}}{_IGNORED})*+"
_SPACES = r"(?:[\p{SB=Sp}\r]|\n(?![^\S\n]*\n))*+"
_TITLE = r"\b(?:Mr|Mrs|Ms|Messrs|Mme|Mlle|Dr|Prof|St|Rev|Hon|Capt|Col|Gen|Lt|Sgt|Sr|Jr|vs|cf|Hr|Fr|[\p{L}--I])"
_BEFORE_A_NUMBER = r"\b(?:No|Nos|Nr|Vol|Fig|Art|Sec|pp)"
_CASED = r"\p{SB=OLetter}\p{SB=Upper}\p{SB=Lower}"

_END = regex.compile(
    rf"""(?x)
    (?P<blank> \n [^\S\n]*+ \n \s*+ )                                      # a blank line
    | (?: {_TERMINATOR} (?: {_CLOSING} {_SPACES} {_TERMINATOR} )*+ )       # SB8a, SB9, SB10
      (?<! \p{{SB=ATerm}} {_IGNORED} (?= \p{{SB=Numeric}} ) )              # SB6: 3.5
      (?<! [\p{{SB=Upper}}\p{{SB=Lower}}] \p{{SB=ATerm}} {_IGNORED} (?= \p{{SB=Upper}} ) )  # SB7: U.S
      (?<! {_TITLE} \. (?= \s ) )
      (?<! {_BEFORE_A_NUMBER} \. (?= \s*+ \p{{SB=Numeric}} ) )
      {_CLOSING} {_SPACES}
      (?! \p{{SB=SContinue}} )                                            # SB8a
      (?! [^{_CASED}\p{{SB=STerm}}\p{{SB=ATerm}}\n]*+ \p{{SB=Lower}} )      # SB8
    """,
    regex.V1,
)


# Blank lines separate paragraphs.
_PARAGRAPH = regex.compile(r"\S(?:.*\S)?(?:[^\S\n]*+\n.*\S)*")
_LINE = regex.compile(r"\S(?:.*\S)?")
_RUNS_ON = regex.compile(r"(?=\p{Ll}|\p{Lo})")  # the beginning of a line of prose other than the first
_LONGEST_LINE = 100  # characters; wrapped prose has longer lines


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each sentence of `text`, in characters, in order, without surrounding white space."""
    spans, start = [], 0
    for end in (*(match.end() for match in _END.finditer(text)), len(text)):
        sentence = text[start:end]
        if stripped := sentence.strip():
            first = start + len(sentence) - len(sentence.lstrip())
            spans.append((first, first + len(stripped)))
        start = end
    return spans


def unbroken_spans(text: str, most: int = 1000) -> list[tuple[int, int]]:
    """Return (start, end) of each part of `text` that should not be split, in characters, in order.

    A part is a sentence, or a paragraph of short separate lines (a poem, a table, a list or code). In a paragraph of more than
    `most` characters it is a line.
    """
    spans = []
    for paragraph in _PARAGRAPH.finditer(text):
        start, lines = paragraph.start(), paragraph.group()
        if not _keeps_its_lines(lines):
            spans += [(start + first, start + last) for first, last in sentence_spans(lines)]
        elif len(lines) <= most:
            spans.append(paragraph.span())
        else:
            spans += [(start + line.start(), start + line.end()) for line in _LINE.finditer(lines)]
    return spans


def sentence_starts(text: str, start: int, end: int) -> dict[int, bool]:
    """Return the offsets of the sentences in `text[start:end]` except the first, and whether each begins a paragraph.

    A paragraph begins after a blank line that follows a sentence. Text after a heading, or after a page break within a sentence,
    does not begin one.
    """
    ends, before = {}, -1
    for match in _END.finditer(text, start, end):
        ends[match.end()] = match.lastgroup == "blank" and match.start() == before
        before = match.end()
    return ends


def _keeps_its_lines(paragraph: str) -> bool:
    lines = paragraph.split("\n")
    run_on = sum(_RUNS_ON.match(line) is not None for line in lines[1:])
    return len(lines) > 1 and 2 * run_on < len(lines) - 1 and max(map(len, lines)) <= _LONGEST_LINE
