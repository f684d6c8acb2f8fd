"""What a person does not see of Word, OpenDocument and rich text is not read, and counted; what stands on a fill is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from fbrag_cli.documents.load import load
from tests.documents.making import docx, odf, odt, w_paragraph, written

_COUNTED = "not read: 1 hidden passage (--markup reads them)"
_DRAWING = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_WPS = f'{_DRAWING} xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
_PIC = f'{_DRAWING} xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"'
_VML = 'xmlns:v="urn:schemas-microsoft-com:vml"'
_WHITE = '<w:color w:val="FFFFFF"/>'
_THEME = (
    f"<a:theme {_DRAWING}><a:themeElements><a:clrScheme>"
    '<a:dk1><a:sysClr val="windowText" lastClr="000000"/></a:dk1><a:lt1><a:sysClr val="window" lastClr="FFFFFF"/></a:lt1>'
    '<a:accent1><a:srgbClr val="4F81BD"/></a:accent1></a:clrScheme></a:themeElements></a:theme>'
)


def _run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def _p(text: str, properties: str = "", of_paragraph: str = "") -> str:
    return f"<w:p><w:pPr>{of_paragraph}</w:pPr>{_run(text, properties)}</w:p>"


def _shd(fill: str, more: str = 'w:val="clear"') -> str:
    return f'<w:shd {more} w:color="auto" w:fill="{fill}"/>'


def _style(kind: str, name: str, content: str, base: str = "") -> str:
    based = f'<w:basedOn w:val="{base}"/>' if base else ""
    return f'<w:style w:type="{kind}" w:styleId="{name}"><w:name w:val="{name}"/>{based}{content}</w:style>'


_STYLES = "".join(
    (
        _style("character", "Vanished", "<w:rPr><w:vanish/></w:rPr>"),
        _style("character", "Descendant", "", "Vanished"),
        _style("character", "Pale", f"<w:rPr>{_WHITE}</w:rPr>"),
        _style("paragraph", "PaleText", f"<w:rPr>{_WHITE}</w:rPr>"),
        _style("paragraph", "PaleChild", "", "PaleText"),
        _style("paragraph", "Banner", f"<w:pPr>{_shd('1F3864')}</w:pPr><w:rPr>{_WHITE}</w:rPr>"),
        _style("paragraph", "BannerChild", "", "Banner"),
        _style("paragraph", "Tiny", '<w:rPr><w:sz w:val="1"/></w:rPr>'),
        _style("paragraph", "Secret", "<w:rPr><w:vanish/></w:rPr>"),
        _style("character", "Marked", f"<w:rPr>{_shd('000000')}{_WHITE}</w:rPr>"),
    )
)


@pytest.mark.parametrize(
    "secret",
    [
        _p("secret", "<w:vanish/>"),
        _p("secret", '<w:rStyle w:val="Descendant"/>'),
        _p("secret", "", '<w:pStyle w:val="Secret"/>'),
        _p("secret", _WHITE),
        _p("secret", '<w:color w:val="FDFDFD"/>'),
        _p("secret", '<w:color w:val="auto" w:themeColor="background1"/>'),
        _p("secret", '<w:rStyle w:val="Pale"/>'),
        _p("secret", "", '<w:pStyle w:val="PaleChild"/>'),
        _p("secret", '<w:sz w:val="1"/>'),
        _p("secret", "", '<w:pStyle w:val="Tiny"/>'),
        _p("secret", '<w:color w:val="FFFF00"/><w:highlight w:val="yellow"/>'),
        _p("secret", '<w:color w:val="1F3864"/>', _shd("1F3864")),
        _p("secret", _WHITE, _shd("auto")),
        _p("secret", f'{_WHITE}<w:highlight w:val="none"/>'),
        f"<w:tbl><w:tr><w:tc>{_p('secret', _WHITE)}</w:tc></w:tr></w:tbl>",
        f"<w:p>{_run('sec', _WHITE)}{_run(' ', '')}{_run('ret', '<w:vanish/>')}</w:p>",
    ],
)
def test_text_that_a_reader_of_word_does_not_see_is_counted(tmp_path: Path, secret: str) -> None:
    body = w_paragraph("before") + secret + w_paragraph("after")
    document = written(tmp_path, docx(body, _STYLES, {"word/theme/theme1.xml": _THEME}), "d.docx")
    assert document.text == "before\n\nafter"
    assert document.warnings[0].endswith(_COUNTED)
    assert "sec" in load(str(tmp_path / "d.docx"), markup=True).text


def _box(shape: str, text: str = "") -> str:
    box = f"<wps:txbx><w:txbxContent>{text or _p('seen', _WHITE)}</w:txbxContent></wps:txbx>"
    anchor = f'<wp:anchor behindDoc="0"><wps:wsp {_WPS}>{shape}{box}</wps:wsp></wp:anchor>'
    return f"<w:p><w:r><w:drawing>{anchor}</w:drawing></w:r></w:p>"


_LINE = '<a:ln><a:solidFill><a:srgbClr val="FFFFFF"/></a:solidFill></a:ln>'
_BEHIND = f'<w:p><w:r><w:drawing><wp:anchor behindDoc="1"><pic:pic {_PIC}/></wp:anchor></w:drawing></w:r></w:p>'


@pytest.mark.parametrize(
    "seen",
    [
        _p("seen", _WHITE, _shd("1F3864")),
        _p("seen", "", '<w:pStyle w:val="BannerChild"/>'),
        _p("seen", f"{_WHITE}{_shd('000000')}"),
        _p("seen", '<w:rStyle w:val="Marked"/>'),
        _p("seen", f'{_WHITE}<w:highlight w:val="darkBlue"/>'),
        _p("seen", f'{_WHITE}<w:highlight w:val="darkYellow"/>'),
        _p("seen", f'{_WHITE}<w:shd w:val="pct50" w:fill="auto"/>'),
        _p("seen", f'{_WHITE}<w:shd w:val="clear" w:fill="auto" w:themeFill="accent1"/>'),
        _p("seen", '<w:color w:val="FFFF00"/>'),
        _p("seen", '<w:color w:val="auto"/><w:sz w:val="2"/>'),
        _p("seen", '<w:rStyle w:val="Pale"/><w:color w:val="333333"/>'),
        _p("seen", '<w:vanish w:val="0"/>', '<w:pStyle w:val="Secret"/>'),
        f"<w:tbl><w:tr><w:tc><w:tcPr>{_shd('1F3864')}</w:tcPr>{_p('seen', _WHITE)}</w:tc></w:tr></w:tbl>",
        f"<w:tbl><w:tblPr>{_shd('1F3864')}</w:tblPr><w:tr><w:tc>{_p('seen', _WHITE)}</w:tc></w:tr></w:tbl>",
        f"<w:tbl><w:tr><w:tc><w:tcPr>{_shd('1F3864')}</w:tcPr><w:tbl><w:tr><w:tc>{_p('seen', _WHITE)}</w:tc></w:tr></w:tbl>"
        "</w:tc></w:tr></w:tbl>",
        _box(f'<wps:spPr><a:solidFill><a:srgbClr val="1F3864"/></a:solidFill>{_LINE}</wps:spPr>'),
        _box(f'<wps:spPr>{_LINE}</wps:spPr><wps:style><a:fillRef idx="1"><a:schemeClr val="accent1"/></a:fillRef></wps:style>'),
        _box("<wps:spPr><a:gradFill><a:gsLst><a:gs><a:srgbClr val='FFFFFF'/></a:gs></a:gsLst></a:gradFill></wps:spPr>"),
        _box("<wps:spPr><a:solidFill><a:schemeClr val='bg1'><a:lumMod val='50000'/></a:schemeClr></a:solidFill></wps:spPr>"),
        _BEHIND + _p("seen", _WHITE),
        _BEHIND.replace('behindDoc="1"', 'behindDoc="0"') + _box("<wps:spPr><a:noFill/></wps:spPr>"),
        f'<w:p><w:r><w:pict><v:rect {_VML} fillcolor="#1f3864 [3204]"><v:textbox><w:txbxContent>{_p("seen", _WHITE)}'
        "</w:txbxContent></v:textbox></v:rect></w:pict></w:r></w:p>",
        f'<w:p><w:r><w:pict><v:rect {_VML}><v:fill type="gradient"/><v:textbox><w:txbxContent>{_p("seen", _WHITE)}'
        "</w:txbxContent></v:textbox></v:rect></w:pict></w:r></w:p>",
    ],
)
def test_text_on_a_fill_is_seen_in_word(tmp_path: Path, seen: str) -> None:
    more: dict[str, bytes | str] = {"word/theme/theme1.xml": _THEME}
    document = written(tmp_path, docx(w_paragraph("before") + seen, _STYLES, more), "d.docx")
    assert document.text == "before\n\nseen"
    assert not any("hidden" in each for each in document.warnings)


def test_a_page_of_a_dark_color(tmp_path: Path) -> None:
    body, settings = _p("seen", _WHITE) + _p("secret", '<w:color w:val="000000"/>'), "<w:settings {}>{}</w:settings>"
    page = '<w:background w:color="0A0A0A"/>'
    word = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    for shown, text in (("<w:displayBackgroundShape/>", "seen"), ("", "secret")):
        data = docx(body, more={"word/settings.xml": settings.format(word, shown)})
        data = docx(body, more={"word/settings.xml": settings.format(word, shown), **_with_background(data, page)})
        assert written(tmp_path, data, "d.docx").text == text


def _with_background(data: bytes, page: str) -> dict[str, bytes | str]:
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {"word/document.xml": archive.read("word/document.xml").decode().replace("<w:body>", f"{page}<w:body>")}


def _conditional(kind: str, fill: str) -> str:
    return f'<w:tblStylePr w:type="{kind}"><w:rPr>{_WHITE}</w:rPr><w:tcPr>{_shd(fill)}</w:tcPr></w:tblStylePr>'


def _table(look: str, white: tuple[int, int], n: int = 3) -> str:
    """A table of n rows and columns, in which the text of one cell is white."""
    rows = ""
    for row in range(n):
        cells = (_p(f"{row}{column}", _WHITE if (row, column) == white else "") for column in range(n))
        rows += f"<w:tr>{''.join(f'<w:tc>{cell}</w:tc>' for cell in cells)}</w:tr>"
    return f'<w:tbl><w:tblPr><w:tblStyle w:val="Styled"/>{look}</w:tblPr>{rows}</w:tbl>'


_ALL = '<w:tblLook w:val="04A0" w:firstRow="1" w:lastRow="0" w:firstColumn="1" w:lastColumn="0" w:noHBand="0" w:noVBand="1"/>'


@pytest.mark.parametrize(
    ("formats", "look", "cell", "is_seen"),
    [
        (_conditional("firstRow", "4F81BD"), _ALL, (0, 1), True),
        (_conditional("firstRow", "4F81BD"), '<w:tblLook w:val="0020"/>', (0, 2), True),
        (_conditional("firstRow", "4F81BD"), "", (0, 1), True),
        (_conditional("firstRow", "4F81BD"), _ALL, (1, 1), False),
        (_conditional("firstRow", "4F81BD"), '<w:tblLook w:val="0600"/>', (0, 1), False),
        (_conditional("firstCol", "4F81BD"), _ALL, (2, 0), True),
        (_conditional("firstCol", "4F81BD"), _ALL, (2, 1), False),
        (_conditional("band1Horz", "1F3864"), _ALL, (1, 1), True),
        (_conditional("band1Horz", "1F3864"), _ALL, (2, 1), False),
        (_conditional("band2Horz", "1F3864"), _ALL, (2, 1), True),
        (_conditional("band1Vert", "1F3864"), '<w:tblLook w:val="0200"/>', (1, 0), True),
        (_conditional("lastRow", "4F81BD"), '<w:tblLook w:val="0040"/>', (2, 1), True),
        (_conditional("lastCol", "4F81BD"), '<w:tblLook w:val="0100"/>', (2, 2), True),
        (_conditional("lastRow", "4F81BD"), _ALL, (2, 1), False),
        (_conditional("wholeTable", "1F3864"), _ALL, (1, 1), True),
        (f"<w:tcPr>{_shd('1F3864')}</w:tcPr>", _ALL, (2, 2), True),
        (f"<w:tblPr>{_shd('1F3864')}</w:tblPr>", "", (2, 2), True),
    ],
)
def test_table_styles_fill_their_cells(tmp_path: Path, formats: str, look: str, cell: tuple[int, int], is_seen: bool) -> None:
    styles = _style("table", "Base", formats) + _style("table", "Styled", "", "Base")
    document = written(tmp_path, docx(_table(look, cell), styles), "d.docx")
    assert (f"{cell[0]}{cell[1]}" in document.text.split()) == is_seen
    assert len(document.text.split()) == 8 + is_seen


# -- OpenDocument ------------------------------------------------------------------------------------------------------------


def _odf_style(family: str, name: str, kind: str, properties: str, parent: str = "") -> str:
    based = f'style:parent-style-name="{parent}"' if parent else ""
    inner = f"<style:{kind}-properties {properties}/>" if properties else ""
    return f'<style:style style:name="{name}" style:family="{family}" {based}>{inner}</style:style>'


_PALE, _DARK = 'fo:color="#ffffff"', 'fo:background-color="#1f3864"'
_ODF_STYLES = "".join(
    (
        _odf_style("text", "Pale", "text", _PALE),
        _odf_style("text", "PaleChild", "text", "", "Pale"),
        _odf_style("text", "Marked", "text", f"{_PALE} {_DARK}"),
        _odf_style("text", "Tiny", "text", 'fo:font-size="0.5pt"'),
        _odf_style("text", "Small", "text", 'fo:font-size="1pt"'),
        _odf_style("text", "Dark", "text", 'fo:color="#1f3864"'),
        _odf_style("text", "Auto", "text", f'{_PALE} style:use-window-font-color="true"'),
        _odf_style("text", "Yellow", "text", 'fo:color="#ffff00"'),
        _odf_style("paragraph", "PaleText", "text", _PALE),
        _odf_style("paragraph", "PaleTextChild", "text", "", "PaleText"),
        _odf_style("paragraph", "Banner", "paragraph", _DARK),
        _odf_style("paragraph", "BannerChild", "text", _PALE, "Banner"),
        _odf_style("table-cell", "DarkCell", "table-cell", _DARK),
        _odf_style("table-cell", "OpenCell", "table-cell", 'fo:background-color="transparent"'),
        _odf_style("table", "DarkTable", "table", _DARK),
        _odf_style("section", "DarkSection", "section", _DARK),
        _odf_style("graphic", "DarkFrame", "graphic", 'draw:fill="solid" draw:fill-color="#1f3864"'),
        _odf_style("graphic", "OpenFrame", "graphic", 'draw:fill="none" draw:fill-color="#1f3864"'),
        _odf_style("graphic", "Photo", "graphic", 'draw:fill="bitmap"'),
        _odf_style("graphic", "Below", "graphic", 'style:run-through="background"'),
    )
)
_O_P = "<text:p>{}</text:p>".format
_O_STYLED = '<text:p text:style-name="{}">{}</text:p>'.format
_O_PALE = '<text:span text:style-name="Pale">{}</text:span>'.format


def _o_span(style: str, text: str) -> str:
    return f'<text:p><text:span text:style-name="{style}">{text}</text:span></text:p>'


def _o_table(cell: str, text: str, table: str = "") -> str:
    inner = f'<table:table-cell table:style-name="{cell}">{text}</table:table-cell>'
    return f"<table:table {table}><table:table-row>{inner}</table:table-row></table:table>"


def _o_frame(style: str, text: str, kind: str = "frame") -> str:
    box = f"<draw:text-box>{text}</draw:text-box>" if kind == "frame" else text
    return f'<text:p><draw:{kind} draw:style-name="{style}">{box}</draw:{kind}></text:p>'


@pytest.mark.parametrize(
    "secret",
    [
        _o_span("Pale", "secret"),
        _o_span("PaleChild", "secret"),
        _o_span("Tiny", "secret"),
        _O_STYLED("PaleTextChild", "secret"),
        _O_STYLED("Banner", '<text:span text:style-name="Dark">secret</text:span>'),
        _o_table("OpenCell", _O_P(_O_PALE("secret"))),
        _o_table("DarkCell", _O_P("<text:span text:style-name='Dark'>secret</text:span>")),
        '<text:p><text:hidden-text text:is-hidden="true">secret</text:hidden-text></text:p>',
        _o_frame("OpenFrame", _O_P(_O_PALE("secret"))),
    ],
)
def test_text_that_a_reader_of_opendocument_does_not_see_is_counted(tmp_path: Path, secret: str) -> None:
    document = written(tmp_path, odt(_O_P("before") + secret + _O_P("after"), styles=_ODF_STYLES), "d.odt")
    assert document.text == "before\n\nafter"
    assert document.warnings[0].endswith(_COUNTED)
    assert "secret" in load(str(tmp_path / "d.odt"), markup=True).text


@pytest.mark.parametrize(
    "seen",
    [
        _o_span("Marked", "seen"),
        _o_span("Auto", "seen"),
        _o_span("Yellow", "seen"),
        _o_span("Small", "seen"),
        _O_STYLED("BannerChild", "seen"),
        _O_STYLED("Banner", _O_PALE("seen")),
        _O_STYLED("PaleText", '<text:span text:style-name="Dark">seen</text:span>'),
        _o_table("DarkCell", _O_P(_O_PALE("seen"))),
        _o_table("DarkCell", _o_table("OpenCell", _O_P(_O_PALE("seen")))),
        _o_table("OpenCell", _O_P(_O_PALE("seen")), 'table:style-name="DarkTable"'),
        _o_table("", _O_P(_O_PALE("seen")), 'table:template-name="Academic"'),
        f'<text:section text:style-name="DarkSection">{_O_P(_O_PALE("seen"))}</text:section>',
        _o_frame("DarkFrame", _O_P(_O_PALE("seen"))),
        _o_frame("Photo", _O_P(_O_PALE("seen"))),
        _o_frame("", _O_P(_O_PALE("seen")), "custom-shape"),
        "<text:p><draw:frame><draw:image/></draw:frame></text:p>" + _o_frame("OpenFrame", _O_P(_O_PALE("seen"))),
        '<text:p><draw:frame draw:style-name="Below"><draw:image/></draw:frame></text:p>' + _O_P(_O_PALE("seen")),
    ],
)
def test_text_on_a_fill_is_seen_in_opendocument(tmp_path: Path, seen: str) -> None:
    document = written(tmp_path, odt(_O_P("before") + seen, styles=_ODF_STYLES), "d.odt")
    assert document.text == "before\n\nseen"
    assert not any("hidden" in each for each in document.warnings)


def test_a_page_of_a_dark_color_of_opendocument(tmp_path: Path) -> None:
    layout = '<style:page-layout style:name="L"><style:page-layout-properties fo:background-color="#1f3864"/></style:page-layout>'
    styles = odf(f"<office:automatic-styles>{layout}</office:automatic-styles>", "document-styles")
    body = _O_P("before") + _o_span("Pale", "seen") + _o_span("Dark", "secret")
    document = written(tmp_path, odt(body, {"styles.xml": styles}, styles=_ODF_STYLES), "d.odt")
    assert document.text == "before\n\nseen"


# -- rich text ---------------------------------------------------------------------------------------------------------------

_COLORS = r"{\colortbl;\red255\green255\blue255;\red31\green56\blue100;\red255\green255\blue0;}"


@pytest.mark.parametrize(
    "body",
    [
        r"{\v secret}",
        r"{\cf1 secret}",
        r"{\fs1 secret}",
        r"{\cf3\highlight3 secret}",
        r"\pard\cbpat2{\cf2 secret}",
        r"{\cf1\highlight0 secret}",
    ],
)
def test_text_that_a_reader_of_rich_text_does_not_see_is_counted(tmp_path: Path, body: str) -> None:
    document = written(tmp_path, rf"{{\rtf1{_COLORS}\pard before\par {body}\par\pard\plain after\par}}", "d.rtf")
    assert document.text == "before\n\nafter"
    assert document.warnings[0].endswith(_COUNTED)
    assert "secret" in load(str(tmp_path / "d.rtf"), markup=True).text


@pytest.mark.parametrize(
    "body",
    [
        r"{\cf1\highlight2 seen}",
        r"{\cf1\chcbpat2 seen}",
        r"\pard\cbpat2{\cf1 seen}",
        r"{\cf0 seen}",
        r"{\cf9 seen}",
        r"{\cf1\cf0\fs2 seen}",
        r"{\cf1\plain seen}",
        r"\trowd\clcbpat2\cellx1\intbl{\cf1 seen}\cell\row\pard",
        r"\trowd\clshdng5000\cellx1\intbl{\cf1 seen}\cell\row\pard",
        r"\pard\shading5000{\cf1 seen}",
    ],
)
def test_text_on_a_fill_is_seen_in_rich_text(tmp_path: Path, body: str) -> None:
    document = written(tmp_path, rf"{{\rtf1{_COLORS}\pard before\par {body}\par}}", "d.rtf")
    assert document.text == "before\n\nseen"
    assert not document.warnings


def test_the_first_color_of_rich_text_is_that_of_text_without_one(tmp_path: Path) -> None:
    colors = r"{\colortbl" + "\n" + r"\red0\green0\blue0;" + "\n" + r"\red255\green255\blue255;}"  # as AbiWord writes it
    document = written(tmp_path, rf"{{\rtf1{colors}\pard\cf0 seen\par\plain seen too\par\cf1\cb0 secret}}", "d.rtf")
    assert document.text == "seen\n\nseen too"


def test_the_second_cell_of_a_row_has_its_own_fill(tmp_path: Path) -> None:
    row = r"\trowd\cellx1\clcbpat2\cellx2\intbl{\cf1 secret}\cell{\cf1 seen}\cell\row"
    document = written(tmp_path, rf"{{\rtf1{_COLORS}{row}\trowd\cellx1\cellx2\intbl a\cell{{\cf1 secret}}\cell\row}}", "d.rtf")
    assert document.text.split() == ["seen", "a"]
