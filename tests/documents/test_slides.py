"""Presentations: slides as sections, in their order, with tables, diagrams and notes; damaged and hostile files."""

from __future__ import annotations

from pathlib import Path

import pytest

from fbrag_cli.documents.readers import archive
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


_FINE = pptx([shape("text " * 500)])
_BOMB = '<!DOCTYPE d [<!ENTITY a "lol"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (pptx([]), "names no slides"),
        (zipped({"[Content_Types].xml": "x", "ppt/presentation.xml": "x"}), "XML is broken"),
        (pptx(["<p:sp>"]), "XML is broken"),
        (pptx([""], {"ppt/slides/slide1.xml": _BOMB + "<p/>"}), "entities"),
        (_FINE[: len(_FINE) // 2], "zip"),
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
    monkeypatch.setattr(archive, "MAX_UNPACKED", 1_000_000)
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


def test_an_empty_presentation(tmp_path: Path) -> None:
    assert refused(tmp_path, pptx([shape("")]), "deck.pptx").code == "doc_empty"
