"""Read the formulas and charts in an OpenDocument text, each of which is a document by itself."""

from __future__ import annotations

from fbrag_cli.documents.readers.blocks import Block, BlockBuilder
from fbrag_cli.documents.readers.equations import Equation

_NAMESPACE = "urn:oasis:names:tc:opendocument:xmlns:"
_MATH = "{http://www.w3.org/1998/Math/MathML}"
_TEXT = f"{{{_NAMESPACE}text:1.0}}"
_TABLE = f"{{{_NAMESPACE}table:1.0}}"
_CHART = f"{{{_NAMESPACE}chart:1.0}}"
_CELLS = frozenset((_TABLE + "table-cell", _TABLE + "covered-table-cell"))


class Object:
    """The target of lxml's parser for a formula or a chart in a document. text: the formula in a line; "" for others. blocks: the
    chart: its title, and a row for each category."""

    def __init__(self) -> None:
        self.text = ""
        self._builder = BlockBuilder()
        self._equation: Equation | None = None
        self._is_chart = False
        self._titles: list[str] = []
        self._in_title = self._in_paragraph = False

    @property
    def blocks(self) -> list[Block]:
        rows = self._builder.blocks() if self._is_chart else []
        title = " ".join("".join(self._titles).split())
        return [Block(f"Chart: {title}" if title else "Chart", group=rows[0].group if rows else ""), *rows] if rows else []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._equation is not None:
            self._equation.start(tag.rpartition("}")[2], attributes)
        elif tag == _MATH + "math":
            self._equation = Equation()
        elif tag == _CHART + "chart":
            self._is_chart = True
            self._builder.begin_group()
        elif tag == _CHART + "title":
            self._in_title = True
        elif tag == _TABLE + "table-row":
            self._builder.begin_row()
        elif tag in _CELLS:
            self._builder.begin_cell()
        elif tag == _TEXT + "p":
            self._in_paragraph = True

    def end(self, tag: str) -> None:
        if self._equation is not None:
            if self._equation.is_open:
                self._equation.end()
            else:
                self.text, self._equation = self._equation.text(), None
        elif tag == _CHART + "title":
            self._in_title = False
            self._titles.append(" ")
        elif tag == _TABLE + "table-row":
            self._builder.end_row()
        elif tag in _CELLS:
            self._builder.end_cell()
        elif tag == _TEXT + "p":
            self._in_paragraph = False

    def data(self, data: str) -> None:
        if self._equation is not None:
            self._equation.data(data)
        elif self._in_title:
            self._titles.append(data)
        elif self._in_paragraph and self._is_chart:
            self._builder.text(data)

    def close(self) -> None:
        pass
