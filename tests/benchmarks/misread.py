"""False comfort of the letter that OCR may have misread: words of wrong answers that a source then seems to hold.

    python tests/benchmarks/misread.py [--questions 40] [--others 10]

A wrong answer is the gold answer of another question of the set (../shared/bench). It is compared with the five passages of 300
words that match its question best, once as a text and once as if OCR had read it. Counted are the words of five letters or more
that no source and no question has: how many, and how many of them only the misread letter supports.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import replace

from question_recall import questions

from fbrag_cli.citations import Candidate, citations
from fbrag_cli.documents.document import Content, Document, Extracted, PageSpan
from fbrag_cli.indexing.collect import collect_text
from fbrag_cli.retrieval.ranking import best

SETS = ["musique", "hotpotqa", "2wikimqa", "qmsum", "xquad.en"]
_LONG = re.compile(r"[^\W\d_]{5,}")


def sources(question: str, context: str) -> list[Candidate]:
    content = Content(context, (PageSpan(1, 0, len(context)),))
    found = collect_text(Document.of("a.pdf", "a.pdf", Extracted(content, "application/pdf")))
    scores = found.retriever.scores(question)
    return [Candidate(found.corpus.chunks[at], 1.0, "") for at in best(scores, 5)]


def unsupported(question: str, answer: str, read: list[Candidate], *, by_ocr: bool) -> Iterator[str]:
    pages = (1,) if by_ocr else ()
    candidates = [
        replace(each, passage=replace(each.passage, document=replace(each.passage.document, ocr_pages=pages))) for each in read
    ]
    for terms in citations(question, answer, candidates, declined=False).unsupported_terms:
        yield from _LONG.findall(terms)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--others", type=int, default=10)
    arguments = parser.parse_args()
    for name in SETS:
        rows = list(questions(name, arguments.questions))
        n_words = n_found = n_answers = n_whole = 0
        seen: list[str] = []
        for at, row in enumerate(rows):
            read = sources(row["input"], row["context"])
            for step in range(1, arguments.others + 1):
                answer = rows[(at + step) % len(rows)]["answers"][0]
                alone = [*unsupported(row["input"], answer, read, by_ocr=False)]
                if alone:
                    left = [*unsupported(row["input"], answer, read, by_ocr=True)]
                    n_words, n_answers = n_words + len(alone), n_answers + 1
                    n_found, n_whole = n_found + len(alone) - len(left), n_whole + (not left)
                    seen += {*alone} - {*left}
        share = n_found / max(1, n_words)
        print(f"{name}: {n_found} of {n_words} words ({share:.2%}), all of {n_whole} of {n_answers} answers: {sorted({*seen})}")


if __name__ == "__main__":
    main()
