"""Presentations: slides as sections, in their order, with tables, diagrams and notes; damaged and hostile files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fbrag_cli.documents.load import load
from fbrag_cli.documents.readers import package
from fbrag_cli.documents.readers import slides as reader
from tests.documents.making import pptx, refused, relations, shape, slide, written, zipped


def test_titles_frames_and_order(tmp_path: Path) -> None:
    """The number of a slide is its place in the presentation, not in the name of its file; its title comes first."""
    first = shape("Harbours of", "the north", kind="ctrTitle") + shape("A report", kind="subTitle")
    second = shape("Hull", "Grimsby", kind="body") + shape("Ports", kind="title") + shape("a box") + shape("7", kind="sldNum")
    document = written(tmp_path, pptx([first, second, shape("", kind="title"), shape("the end")]), "deck.pptx")
    assert document.text == (
        "Slide 1: Harbours of the north\n\nA report\n\nSlide 2: Ports\n\nHull\nGrimsby\n\na box\n\nSlide 4\n\nthe end"
    )
    assert [section.title for section in document.sections] == ["Slide 1: Harbours of the north", "Slide 2: Ports", "Slide 4"]
    assert document.media_type.endswith("presentationml.presentation")


def _cell(text: str) -> str:
    return f"<a:tc><a:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a:txBody></a:tc>"


def test_tables_groups_breaks_and_copies_for_older_programs(tmp_path: Path) -> None:
    rows = "".join(f"<a:tr>{_cell(a)}{_cell(b)}</a:tr>" for a, b in (("Port", "Ships"), ("Hull", "12")))
    table = f"<p:graphicFrame><a:graphic><a:graphicData><a:tbl>{rows}</a:tbl></a:graphicData></a:graphic></p:graphicFrame>"
    group = f"<p:grpSp>{shape('inside')}<p:grpSp>{shape('deeper')}</p:grpSp></p:grpSp>"
    broken = "<p:sp><p:txBody><a:p><a:r><a:t>one</a:t></a:r><a:br/><a:r><a:t>two</a:t></a:r></a:p></p:txBody></p:sp>"
    choice = (
        '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
        f"<mc:Choice>{shape('once')}</mc:Choice><mc:Fallback>{shape('once')}</mc:Fallback></mc:AlternateContent>"
    )
    document = written(tmp_path, pptx([table + group + broken + choice]), "deck.pptx")
    assert document.text == "Slide 1\n\nPort\tShips\nHull\t12\n\ninside\n\ndeeper\n\none\ntwo\n\nonce"


def test_notes_and_diagrams_belong_to_their_slide(tmp_path: Path) -> None:
    notes = slide(shape("", kind="sldImg") + shape("Say this.", "And that.", kind="body") + shape("3", kind="sldNum"), "notes")
    diagram = '<dgm:pt xmlns:dgm="d" xmlns:a="a"><dgm:t><a:p><a:r><a:t>boxed step</a:t></a:r></a:p></dgm:t></dgm:pt>'
    more: dict[str, bytes | str] = {
        "ppt/slides/_rels/slide2.xml.rels": relations(
            ("slideLayout", "../slideLayouts/slideLayout1.xml"),
            ("notesSlide", "../notesSlides/notesSlide1.xml"),
            ("diagramData", "/ppt/diagrams/data1.xml"),
            external="file:///etc/passwd",
        ),
        "ppt/slideLayouts/slideLayout1.xml": slide(shape("Click to add a title", kind="title"), "sldLayout"),
        "ppt/notesSlides/notesSlide1.xml": notes,
        "ppt/diagrams/data1.xml": diagram,
    }
    document = written(tmp_path, pptx([shape("first"), shape("second")], more), "deck.pptx")
    assert document.text == ("Slide 1\n\nfirst\n\nboxed step\n\nNotes: Say this.\nAnd that.\n\nSlide 2\n\nsecond")


_BOMB = '<!DOCTYPE d [<!ENTITY a "lol"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (zipped({"[Content_Types].xml": "x", "ppt/presentation.xml": "x"}), "XML is broken"),
        (pptx(["<p:sp>"]), "XML is broken"),
        (pptx([""], {"ppt/slides/slide1.xml": _BOMB + "<p/>"}), "entities"),
    ],
)
def test_damaged_and_hostile_presentations_are_refused(tmp_path: Path, data: bytes, says: str) -> None:
    error = refused(tmp_path, data, "deck.pptx")
    assert error.code == "doc_unreadable"
    assert says in error.message


def test_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note that many slides share counts each time that it is read."""
    more = {f"ppt/slides/_rels/slide{n}.xml.rels": relations(("notesSlide", "../notes.xml")) for n in range(1, 41)}
    deck = pptx([shape("a")] * 40, {**more, "ppt/notes.xml": slide(shape("x" * 50_000))})
    monkeypatch.setattr(package, "MAX_UNPACKED", 1_000_000)
    assert "more than 1 MB" in refused(tmp_path, deck, "deck.pptx").message


def test_slides_that_are_missing_or_too_many_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    presentation = {"ppt/_rels/presentation.xml.rels": relations(("slide", "slides/slide2.xml"), ("slide", "slides/gone.xml"))}
    deck = pptx([shape("first"), shape("second")], presentation)  # type: ignore[arg-type]
    document = written(tmp_path, deck, "deck.pptx")
    assert document.text == "Slide 1\n\nfirst"
    assert document.warnings == (f"{tmp_path / 'deck.pptx'}: 1 of its 2 slides are missing",)
    monkeypatch.setattr(reader, "_MAX_SLIDES", 1)
    document = written(tmp_path, pptx([shape("first"), shape("second")]), "deck.pptx")
    assert document.text == "Slide 1\n\nfirst"
    assert document.warnings == (f"{tmp_path / 'deck.pptx'}: of its 2 slides only the first 1 are read",)


_R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'


def _frame(inside: str) -> str:
    return f"<p:graphicFrame {_R}><a:graphic><a:graphicData>{inside}</a:graphicData></a:graphic></p:graphicFrame>"


def _points(kind: str, *values: str) -> str:
    points = "".join(f'<c:pt idx="{at}"><c:v>{value}</c:v></c:pt>' for at, value in enumerate(values))
    return f"<c:{kind}><c:strRef><c:strCache>{points}</c:strCache></c:strRef></c:{kind}>"


CHART = (
    '<c:chartSpace xmlns:c="c" xmlns:a="a"><c:chart>'
    "<c:title><c:tx><c:rich><a:p><a:r><a:t>Ships in port</a:t></a:r></a:p></c:rich>"
    "</c:tx></c:title><c:plotArea><c:barChart><c:ser>"
    + _points("tx", "2024")
    + _points("cat", "Hull", "Leith")
    + _points("val", "12", "7.5")
    + "</c:ser></c:barChart></c:plotArea></c:chart></c:chartSpace>"
)


def test_charts_and_diagrams_stand_where_they_are_shown(tmp_path: Path) -> None:
    diagram = '<dgm:pt xmlns:dgm="d" xmlns:a="a"><dgm:t><a:p><a:r><a:t>boxed step</a:t></a:r></a:p></dgm:t></dgm:pt>'
    parts: dict[str, bytes | str] = {
        "ppt/slides/_rels/slide1.xml.rels": relations(
            ("chart", "../charts/chart1.xml"), ("diagramData", "../diagrams/data1.xml"), ("chartEx", "../charts/chartEx1.xml")
        ),
        "ppt/charts/chart1.xml": CHART,
        "ppt/charts/chartEx1.xml": "<x/>",
        "ppt/diagrams/data1.xml": diagram,
    }
    frames = _frame('<c:chart xmlns:c="c" r:id="r1"/>') + shape("between") + _frame('<dgm:relIds xmlns:dgm="d" r:dm="r2"/>')
    tree_map = _frame('<cx:chart xmlns:cx="cx" r:id="r3"/>')
    document = written(tmp_path, pptx([frames + shape("below") + tree_map], parts), "deck.pptx")
    chart = "Chart: Ships in port\n\t2024\nHull\t12\nLeith\t7.5"
    assert document.text == f"Slide 1\n\n{chart}\n\nbetween\n\nboxed step\n\nbelow"
    assert document.warnings == (f"{tmp_path / 'deck.pptx'}: not read: 1 chart",)


def _picture(text: str, more: str = "") -> str:
    return f'<p:pic><p:nvPicPr><p:cNvPr id="2" name="Picture 1" descr="{text}"{more}/></p:nvPicPr></p:pic>'


def test_alternative_texts_are_read_but_not_those_that_office_makes_up(tmp_path: Path) -> None:
    pictures = _picture("A map of Hull") + _picture("A duck&#10;&#10;Description automatically generated")
    assert written(tmp_path, pptx([shape("a") + pictures]), "deck.pptx").text == "Slide 1\n\na\n\n[A map of Hull]"


def test_what_is_hidden_is_left_out_and_said(tmp_path: Path) -> None:
    hidden = shape("obey").replace("<p:nvPr/>", '<p:cNvPr id="3" name="x" hidden="1"/><p:nvPr/>')
    group = f'<p:grpSp><p:nvGrpSpPr><p:cNvPr id="4" name="g" hidden="1"/></p:nvGrpSpPr>{shape("obey")}</p:grpSp>'
    parts: dict[str, bytes | str] = {"ppt/slides/slide1.xml": slide(shape("obey")).replace("<p:sld ", '<p:sld show="0" ', 1)}
    deck = pptx([shape("seen") + hidden + group + shape("seen too") + _picture("obey", ' hidden="true"'), shape("")], parts)
    document = written(tmp_path, deck, "deck.pptx")
    assert document.text == "Slide 1\n\nseen\n\nseen too"
    assert document.warnings == (f"{tmp_path / 'deck.pptx'}: not read: 3 hidden shapes, 1 hidden slide (--markup reads them)",)
    text = load(str(tmp_path / "deck.pptx"), markup=True).text
    assert text.split("\n\n").count("obey") == 3
    assert "[obey]" in text


# -- the order of the slide ----------------------------------------------------------------------------------------------------


def _placed(text: str, left: int, top: int, width: int = 250, height: int = 60, more: str = "") -> str:
    """A text box, in units of 10,000, of which a slide has 914 by 685. Each line of the text is a paragraph."""
    paragraphs = "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in text.split("\n"))
    place = f'<a:off x="{left}0000" y="{top}0000"/><a:ext cx="{width}0000" cy="{height}0000"/>'
    properties = f"<p:spPr><a:xfrm{more}>{place}</a:xfrm></p:spPr>"
    return f"<p:sp><p:nvSpPr><p:nvPr/></p:nvSpPr>{properties}<p:txBody>{paragraphs}</p:txBody></p:sp>"


_NORTH, _SOUTH = _placed("North", 40, 180), _placed("South", 330, 180)
_ANN, _BOB = (
    _placed("Lead: Ann\nCrew: 14\nDredger: Heron", 40, 250, 250, 200),
    _placed("Lead: Bob\nCrew: 9\nDredger: Stoat", 330, 250, 250, 200),
)
_COLUMNS = "North\n\nLead: Ann\nCrew: 14\nDredger: Heron\n\nSouth\n\nLead: Bob\nCrew: 9\nDredger: Stoat"


def _group(inside: str, x: int, y: int, size: int = 500) -> str:
    edges = f'<a:off x="{x}0000" y="{y}0000"/><a:ext cx="{size}0000" cy="{size}0000"/>'
    edges += '<a:chOff x="0" y="0"/><a:chExt cx="5000000" cy="5000000"/>'
    return f"<p:grpSp><p:nvGrpSpPr/><p:grpSpPr><a:xfrm>{edges}</a:xfrm></p:grpSpPr>{inside}</p:grpSp>"


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        (_SOUTH + _ANN + _NORTH + _BOB, _COLUMNS),
        (_BOB + _ANN + _SOUTH + _NORTH, _COLUMNS),
        (_placed("below", 40, 400) + _placed("above", 40, 100), "above\n\nbelow"),
        (
            _placed("last", 40, 300) + _group(_placed("second", 0, 200) + _placed("first", 0, 20), 40, 40),
            "first\n\nsecond\n\nlast",
        ),
        (_group(_placed("low", 0, 300), 0, 0) + _group(_placed("high", 0, 300, 50, 20), 0, 0, size=250), "high\n\nlow"),
        (_placed("below", 40, 400) + shape("with it") + _placed("above", 40, 100), "above\n\nbelow\n\nwith it"),
        (shape("b") + shape("a"), "b\n\na"),
    ],
)
def test_shapes_are_read_in_their_order_on_the_slide(tmp_path: Path, shapes: str, text: str) -> None:
    assert written(tmp_path, pptx([shapes]), "deck.pptx").text == f"Slide 1\n\n{text}"


def test_placeholders_have_the_places_of_their_layout_or_its_master(tmp_path: Path) -> None:
    def placeholder(text: str, index: int, place: str = "", kind: str = "body") -> str:
        properties = f'<p:nvSpPr><p:nvPr><p:ph type="{kind}" idx="{index}"/></p:nvPr></p:nvSpPr>'
        return f"<p:sp>{properties}<p:spPr>{place}</p:spPr><p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"

    def place(top: int) -> str:
        return f'<a:xfrm><a:off x="400000" y="{top}0000"/><a:ext cx="2500000" cy="600000"/></a:xfrm>'

    more: dict[str, bytes | str] = {
        "ppt/slides/_rels/slide1.xml.rels": relations(("slideLayout", "../slideLayouts/l1.xml")),
        "ppt/slideLayouts/l1.xml": slide(
            placeholder("Click", 13, place(400)) + placeholder("Click", 14, place(100)), "sldLayout"
        ),
        "ppt/slideLayouts/_rels/l1.xml.rels": relations(("slideMaster", "../slideMasters/m1.xml")),
        "ppt/slideMasters/m1.xml": slide(placeholder("Click", 2, place(550), "obj"), "sldMaster"),
    }
    shapes = placeholder("third", 5, kind="obj") + placeholder("second", 13) + placeholder("first", 14)
    assert written(tmp_path, pptx([shapes], more), "deck.pptx").text == "Slide 1\n\nfirst\n\nsecond\n\nthird"


@pytest.mark.parametrize(
    ("box", "is_seen"),
    [
        (_placed("perhaps", 920, 10), False),
        (_placed("perhaps", -300, 10), False),
        (_placed("perhaps", 10, 700), False),
        (_placed("perhaps", 10, -61), False),
        (_group(_placed("perhaps", 500, 0), 500, 0), False),
        (_placed("perhaps", 900, 10), True),
        (_placed("perhaps", -240, 10), True),
        (_placed("perhaps", 920, 300, 300, 300, ' rot="2700000"'), True),
    ],
)
def test_shapes_outside_the_slide_are_left_out_and_told(tmp_path: Path, box: str, is_seen: bool) -> None:
    path = tmp_path / "deck.pptx"
    path.write_bytes(pptx([box + _placed("seen", 10, 300)]))
    document = load(str(path))
    assert ("perhaps" in document.text) == is_seen
    assert document.warnings == (() if is_seen else (f"{path}: not read: 1 hidden shape (--markup reads them)",))
    assert "perhaps" in load(str(path), markup=True).text


# -- text that cannot be seen --------------------------------------------------------------------------------------------------


def _solid(color: str) -> str:
    kind = "srgbClr" if len(color) == 6 and color.upper() == color else "schemeClr"
    return f'<a:solidFill><a:{kind} val="{color}"/></a:solidFill>'


def _run(text: str, color: str, fill: str = "", style: str = "", more: str = "", left: int = 10, size: str = "1800") -> str:
    """A text box with a run of a color. fill, style: its own. more: further properties of the run."""
    place = f'<a:xfrm><a:off x="{left}0000" y="100000"/><a:ext cx="1000000" cy="1000000"/></a:xfrm>'
    run = f'<a:r><a:rPr sz="{size}">{_solid(color) if color else ""}{more}</a:rPr><a:t>{text}</a:t></a:r>'
    properties = f"<p:spPr>{place}{fill}<a:ln>{_solid('000000')}</a:ln></p:spPr>{style}"
    return f"<p:sp><p:nvSpPr><p:nvPr/></p:nvSpPr>{properties}<p:txBody><a:p>{run}</a:p></p:txBody></p:sp>"


_WHITE = _run("perhaps", "FFFFFF")
_CLEAR = "<a:noFill/>"
_PHOTO = ('<p:pic><p:nvPicPr/><p:spPr><a:xfrm><a:off x="0" y="0"/><a:ext cx="{}" cy="9000000"/></a:xfrm></p:spPr></p:pic>').format
_STYLED = '<p:style><a:lnRef idx="1"/><a:fillRef idx="{}"><a:schemeClr val="accent1"/></a:fillRef></p:style>'.format
_DARK = f"<p:bg><p:bgPr>{_solid('1F2A44')}</p:bgPr></p:bg>"
_THEME = (
    '<a:theme xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><a:clrScheme>'
    '<a:dk1><a:sysClr val="windowText" lastClr="000000"/></a:dk1><a:lt1><a:sysClr val="window" lastClr="FFFFFF"/></a:lt1>'
    '<a:accent1><a:srgbClr val="4472C4"/></a:accent1></a:clrScheme></a:theme>'
)
_REFERENCE = '<p:bg><p:bgRef idx="{}"><a:schemeClr val="bg1"/></p:bgRef></p:bg>'.format


@pytest.mark.parametrize(
    ("shapes", "background", "master", "is_seen"),
    [
        (_WHITE, "", "", False),
        (_run("perhaps", "FFFFFF", _CLEAR), "", "", False),
        (_run("perhaps", "bg1"), "", "", False),
        (_run("perhaps", "FFFFFF", _solid("FFFFFF")), "", "", False),
        (_run("perhaps", "1F2A44"), _DARK, "", False),  # dark on the same dark
        (_run("perhaps", "000000", size="50"), "", "", False),  # half a point
        (_WHITE, "", _REFERENCE(1001), False),
        (_run("perhaps", "FFFFFF", style=_STYLED(0)), "", "", False),
        (_run("box", "", _solid("1F2A44"), left=400) + _WHITE, "", "", False),  # elsewhere
        (_WHITE, _DARK, "", True),
        (_WHITE, "", _DARK, True),
        (_WHITE, "", _REFERENCE(1003), True),  # a gradient or picture of the theme
        (_WHITE, "", _REFERENCE(1001).replace("bg1", "accent1"), True),
        (_WHITE, "<p:bg><p:bgPr><a:blipFill/></p:bgPr></p:bg>", "", True),
        (_run("perhaps", "FFFFFF", _solid("4472C4")), "", "", True),
        (_run("perhaps", "bg1", _solid("accent1")), "", "", True),
        (_run("perhaps", "FFFFFF", "<a:gradFill/>"), "", "", True),
        (_run("perhaps", "FFFFFF", style=_STYLED(1)), "", "", True),
        (_run("box", "", _solid("1F2A44")) + _WHITE, "", "", True),  # on another box
        (_PHOTO(9_000_000) + _WHITE, "", "", True),
        (_PHOTO(500_000) + _WHITE, "", "", True),  # on a part of one
        (_WHITE, "", "photo", True),
        (_run("perhaps", "FFFFFF", more="<a:highlight><a:srgbClr val='000000'/></a:highlight>"), "", "", True),
        (_run("perhaps", "808080"), "", "", True),
        (_run("perhaps", ""), "", "", True),
    ],
)
def test_text_in_the_color_of_its_ground_is_left_out(
    tmp_path: Path, shapes: str, background: str, master: str, is_seen: bool
) -> None:
    def made(inside: str, before: str, root: str) -> str:
        return slide(inside, root).replace("<p:spTree>", f"{before}<p:spTree>")

    below = (_PHOTO(9_000_000), "") if master == "photo" else ("", master)
    colors = '<p:clrMap bg1="lt1" tx1="dk1" accent1="accent1"/></p:sldMaster>'
    more: dict[str, bytes | str] = {
        "ppt/slides/slide1.xml": made(shapes + _run("seen", "000000", _solid("FF0000"), left=700), background, "sld"),
        "ppt/slides/_rels/slide1.xml.rels": relations(("slideLayout", "../slideLayouts/l1.xml")),
        "ppt/slideLayouts/l1.xml": slide("", "sldLayout"),
        "ppt/slideLayouts/_rels/l1.xml.rels": relations(("slideMaster", "../slideMasters/m1.xml")),
        "ppt/slideMasters/m1.xml": made(*below, "sldMaster").replace("</p:sldMaster>", colors),
        "ppt/slideMasters/_rels/m1.xml.rels": relations(("theme", "../theme/theme1.xml")),
        "ppt/theme/theme1.xml": _THEME,
    }
    path = tmp_path / "deck.pptx"
    path.write_bytes(pptx([""], more))
    document = load(str(path))
    assert "seen" in document.text
    assert ("perhaps" in document.text) == is_seen
    assert ("1 hidden passage" in " ".join(document.warnings)) != is_seen
    assert "perhaps" in load(str(path), markup=True).text


def test_a_slide_without_shapes_is_read_with_the_others(tmp_path: Path) -> None:
    more: dict[str, bytes | str] = {
        "ppt/slides/_rels/slide2.xml.rels": relations(("notesSlide", "../notes.xml")),
        "ppt/notes.xml": slide(shape("Say this.", kind="body"), "notes"),
    }
    document = written(tmp_path, pptx(["", shape("a")], more), "deck.pptx")
    assert document.text == "Slide 1\n\nNotes: Say this.\n\nSlide 2\n\na"


def test_pictures_are_counted(tmp_path: Path) -> None:
    document = written(tmp_path, pptx([shape("a") + _picture("A map") + _picture("")]), "deck.pptx")
    assert document.text == "Slide 1\n\na\n\n[A map]"
    assert document.warnings == (f"{tmp_path / 'deck.pptx'}: not read: 2 pictures",)


def test_comments_of_both_kinds(tmp_path: Path) -> None:
    old = '<p:cmLst xmlns:p="p"><p:cm authorId="0" idx="1"><p:text>too high</p:text></p:cm></p:cmLst>'
    reply = '<q:reply authorId="{B}"><q:txBody><a:p><a:r><a:t>no</a:t></a:r></a:p></q:txBody></q:reply>'
    text = "<a:p><a:r><a:t>check </a:t></a:r><a:r><a:t>this</a:t></a:r></a:p>"
    thread = f'<q:cm authorId="{{A}}"><q:replyLst>{reply}</q:replyLst><q:txBody>{text}</q:txBody></q:cm>'
    thread = f'<q:cmLst xmlns:q="q" xmlns:a="a">{thread}</q:cmLst>'
    parts: dict[str, bytes | str] = {
        "ppt/_rels/presentation.xml.rels": relations(
            ("slide", "slides/slide1.xml"), ("commentAuthors", "commentAuthors.xml"), ("authors", "authors.xml")
        ),
        "ppt/commentAuthors.xml": '<p:cmAuthorLst xmlns:p="p"><p:cmAuthor id="0" name="Ann Lee"/></p:cmAuthorLst>',
        "ppt/authors.xml": '<q:l xmlns:q="q"><q:author id="{A}" name="Bob"/><q:author id="{B}" name="Cid"/></q:l>',
        "ppt/slides/_rels/slide1.xml.rels": relations(("comments", "../comments/c1.xml"), ("comments", "../comments/m1.xml")),
        "ppt/comments/c1.xml": old,
        "ppt/comments/m1.xml": thread,
    }
    path = tmp_path / "deck.pptx"
    path.write_bytes(pptx([shape("price")], parts))
    assert load(str(path)).warnings == (f"{path}: not read: 3 comments (--markup reads them)",)
    comments = (
        "Comment by Ann Lee on slide 1: too high",
        "Comment by Bob on slide 1: check this",
        "Comment by Cid on slide 1: no",
    )
    read = load(str(path), markup=True)
    assert read.text == "\n\n".join(["Slide 1\n\nprice\n\nComments", *comments]) + "\n"
    assert read.warnings == ()


_STRUCTURE = ["sp", "pic", "grpSp", "graphicFrame", "p", "tr", "tc", "t", "cNvPr", "ph", "br", "tab", "chart", "Fallback"]
_TREE = st.recursive(
    st.builds(
        "<a:{0} hidden='{1}' type='{2}'/>".format,
        st.sampled_from(_STRUCTURE),
        st.integers(0, 1),
        st.sampled_from(["dt", "title"]),
    ),
    lambda inside: st.builds(
        "<a:{0}>x{1}</a:{0}>".format, st.sampled_from(_STRUCTURE), st.lists(inside, max_size=4).map("".join)
    ),
)


@given(tree=_TREE)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_elements_in_any_nesting_are_read(tmp_path: Path, tree: str) -> None:
    written(tmp_path, pptx([tree + shape("the end")]), "deck.pptx")


def test_struck_out_and_shifted_text(tmp_path: Path) -> None:
    def runs(*texts: tuple[str, str]) -> str:
        return "</a:r><a:r>".join(f"<a:rPr {properties}/><a:t>{text}</a:t>" for text, properties in texts)

    struck = 'strike="sngStrike"'
    title = runs(("Draft ", struck), ("Budget", 'strike="noStrike"'))
    body = runs(
        ("Cost 50", 'strike="dblStrike"'), (" 40 x 10", ""), ("6", 'baseline="30000"'), (" CO", ""), ("2", 'baseline="-25000"')
    )
    shapes = (shape("x", kind="title"), shape("x"), shape("x"))
    filled = (
        made.replace("<a:t>x</a:t>", each) for made, each in zip(shapes, (title, body, runs(("Gone", struck))), strict=True)
    )
    document = written(tmp_path, pptx(["".join(filled)]), "deck.pptx")
    assert document.text == "Slide 1: Budget\n\n40 x 10^6 CO2"
    assert document.warnings == (f"{tmp_path / 'deck.pptx'}: not read: 3 struck-out passages (--markup reads them)",)
    text = load(str(tmp_path / "deck.pptx"), markup=True).text
    assert text == "Slide 1: ~~Draft~~ Budget\n\n~~Cost 50~~ 40 x 10^6 CO2\n\n~~Gone~~"
