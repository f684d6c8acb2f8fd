"""The rows of a batch as a matrix, documents down and questions across; and as one HTML page without network and scripts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product

from markupsafe import Markup

from fbrag_cli.text.printable import plural

#: By this a page is known again.
MARK = '<meta name="generator" content="fbrag batch">'

_CELLS = 20_000  # the most that a page shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is shown of a row; "" for what it lacks. status: answered, not_found, error. location, quote: of cited sentences.
    value: of an answer to a question of a type."""

    document: str
    question: str
    status: str
    answer: str
    unsupported_answer: str
    location: str
    quote: str
    error: str
    low_confidence: bool
    uncited: bool
    value: object = None

    @property
    def said(self) -> str:
        """The answer as one text, or what is shown instead."""
        if self.status == "answered":
            return f"Low confidence: {self.answer}" if self.low_confidence else self.answer
        return f"error: {self.error}" if self.status == "error" else "not found"


@dataclass
class Matrix:
    """documents: in their order. questions: in their order, with the name of the column for values, "" for none. asked: each
    document with each question that a job asks it. cells: by document and question; the last row of both counts."""

    documents: dict[str, None] = field(default_factory=dict)
    questions: dict[str, str] = field(default_factory=dict)
    asked: set[tuple[str, str]] = field(default_factory=set)
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)

    def name(self, document: str, question: str, column: str = "") -> None:
        """Add a question asked of a document: a row and a column after the existing ones."""
        self.documents.setdefault(document)
        self.questions.setdefault(question, column)
        self.asked.add((document, question))

    def add(self, cell: Cell) -> None:
        self.name(cell.document, cell.question)
        self.cells[cell.document, cell.question] = cell

    def fail(self, cell: Cell) -> None:
        """Show `cell` for every question that is asked of its document, which cannot be read."""
        for document, question in self.asked:
            if document == cell.document:
                self.cells.setdefault((document, question), replace(cell, question=question))


def page(matrix: Matrix) -> str:
    """Return the whole page, to be written as UTF-8. Of very many rows it shows the first documents."""
    from fbrag_cli.render.html import template

    documents = list(matrix.documents)[: max(1, _CELLS // max(1, len(matrix.questions)))]
    rows = []
    for document in documents:
        places = product((document,), matrix.questions)
        # None: not asked yet. "": nobody asks it.
        rows.append((document, [matrix.cells.get(place, None if place in matrix.asked else "") for place in places]))
    statuses = [cell.status for cell in matrix.cells.values()]
    return template("matrix").render(
        mark=Markup(MARK),
        questions=list(matrix.questions),
        rows=rows,
        counts=[
            f"{plural(len(matrix.documents), 'document')}, {plural(len(matrix.questions), 'question')}",
            f"{statuses.count('answered'):,} answered, {statuses.count('not_found'):,} not found",
            *([plural(n_errors, "error")] if (n_errors := statuses.count("error")) else []),
            *([f"{n_open:,} not asked yet"] if (n_open := len(matrix.asked) - len(statuses)) else []),
        ],
        n_left_out=len(matrix.documents) - len(documents),
    )
