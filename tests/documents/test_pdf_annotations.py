"""What lies on a page of a PDF beside its text: form fields, text boxes, comments, embedded files; and text that is garbled."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from fbrag_cli.documents.document import Document
from fbrag_cli.documents.lines import pages_of
from fbrag_cli.documents.load import load
from fbrag_cli.documents.ocr.engine import how_to_install
from fbrag_cli.errors import FbragError
from tests.documents.test_pdf import FONT, pdf, pdf_of_objects, shown, stream, written


def annotated(
    *annotations: bytes, text: bytes = b"Name and signature", catalog: bytes = b"", more: tuple[bytes, ...] = ()
) -> bytes:
    """A PDF of one page. annotations: objects 6 and so on; then come `more`. catalog: entries of the catalog."""
    listed = b" ".join(b"%d 0 R" % (6 + n) for n in range(len(annotations)))
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents 5 0 R/Annots[%b]>>" % listed
    kids = b"<</Type/Pages/Count 1/Kids[4 0 R]>>"
    return pdf_of_objects(b"<</Type/Catalog/Pages 2 0 R%b>>" % catalog, kids, FONT, page, shown(text), *annotations, *more)


def widget(entries: bytes) -> bytes:
    return b"<</Type/Annot/Subtype/Widget/Rect[0 0 9 9]%b>>" % entries


def read(folder: Path, data: bytes, **options: bool) -> Document:
    return load(written(folder, data), **options)  # type: ignore[arg-type]


# Forms


def test_many_fields_with_one_long_value_take_little_memory(tmp_path: Path) -> None:
    fields = (widget(b"/FT/Tx/T(field %d)/V 300 0 R" % number) for number in range(294))
    document = read(tmp_path, annotated(*fields, more=(b"(" + b"long value " * 9_000 + b")",)))
    assert "field 0: long value" in document.text
    assert len(document.text) < 500_000


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (b"/FT/Tx/T(name)/V(Ann Lee)", "name: Ann Lee"),
        (b"/FT/Tx/T(f1)/TU(Full name)/V(Ann Lee)", "Full name: Ann Lee"),
        (b"/FT/Tx/T(address)/V(1 Quay Street\rStennick)", "address: 1 Quay Street\nStennick"),
        (b"/FT/Tx/T(name)/V<FEFF00C9007A>", "name: Éz"),
        (b"/FT/Ch/T(country)/V(no)/Opt[[(no)(Norway)][(fi)(Finland)]]", "country: Norway"),
        (b"/FT/Ch/T(days)/V[(Monday)(Friday)]", "days: Monday, Friday"),
        (b"/FT/Btn/T(smoker)/V/Yes/AS/Yes", "smoker: checked"),
        (b"/FT/Btn/Ff 32768/T(sex)/V/Male/AS/Male", "sex: Male"),
        (b"/FT/Btn/T(smoker)/AS/Off", ""),
        (b"/FT/Btn/Ff 65536/T(print)/AS/Yes", ""),
        (b"/FT/Tx/T(empty)/V()", ""),
        (b"/FT/Tx/Ff 8192/T(password)/V(secret)", ""),
        (b"/FT/Tx/F 2/T(hidden)/V(unseen)", ""),
        (b"/FT/Sig/T(signature)", ""),
        (b"/FT/Tx/T(bad)/V 99 0 R", ""),
    ],
)
def test_a_filled_field_is_read_below_the_text_of_its_page(tmp_path: Path, entries: bytes, expected: str) -> None:
    document = read(tmp_path, annotated(widget(entries)))
    assert document.text == "\n".join(filter(None, ("Name and signature", expected)))
    assert [(page.number, page.end) for page in document.pages] == [(1, len(document.text))]


def test_a_field_has_the_value_and_the_name_of_the_field_it_belongs_to(tmp_path: Path) -> None:
    fields = [widget(b"/Parent 7 0 R"), widget(b"/Parent 8 0 R"), b"<</FT/Tx/T(total)/V(42)/Parent 7 0 R>>"]
    document = read(tmp_path, annotated(widget(b"/Parent 9 0 R"), *fields))  # 7 belongs to itself, 8 to 7
    assert document.text.splitlines()[1:] == ["total: 42"]


def test_a_form_without_other_text_is_read(tmp_path: Path) -> None:
    document = read(tmp_path, annotated(widget(b"/FT/Tx/T(name)/V(Ann Lee)"), text=b""))
    assert (document.text, document.skipped_pages) == ("name: Ann Lee", ())


# Comments


def test_a_text_box_is_text_of_its_page_and_a_comment_is_read_on_request(tmp_path: Path) -> None:
    box = b"<</Type/Annot/Subtype/FreeText/Rect[0 0 9 9]/Contents(Received 3 May)>>"
    note = b"<</Type/Annot/Subtype/Highlight/Rect[0 0 9 9]/T(Ann)/Contents(too\nhigh)>>"
    popup = b"<</Type/Annot/Subtype/Popup/Rect[0 0 9 9]/Contents(too high)>>"
    data = annotated(box, note, popup)
    document = read(tmp_path, data)
    assert document.text == "Name and signature\nReceived 3 May"
    assert [each.partition(": ")[2] for each in document.warnings] == ["not read: 1 comment (--markup reads them)"]
    document = read(tmp_path, data, markup=True)
    assert document.text.endswith("\n\nComments\n\nComment by Ann on page 1: too high\n")
    start = document.text.index("Comments")
    assert pages_of(document, 0, len(document.text)) == (1, 1)
    assert pages_of(document, start, len(document.text)) is None  # each names its own


def test_a_pdf_of_comments_alone_is_no_scan(tmp_path: Path) -> None:
    data = annotated(b"<</Type/Annot/Subtype/Text/Rect[0 0 9 9]/Contents(why?)>>", text=b"")
    with pytest.raises(FbragError, match="no text but comments") as caught:
        read(tmp_path, data)
    assert caught.value.code == "doc_empty"
    assert "on page 1: why?" in read(tmp_path, data, markup=True).text


# Files inside


def embedding(name: bytes, entries: bytes = b"", catalog: bytes = b"") -> bytes:
    names = b"/Names<</EmbeddedFiles<</Names[(%b)6 0 R]>>>>%b" % (name, catalog)
    specification = b"<</Type/Filespec/F(%b)/EF<</F 7 0 R>>%b>>" % (name, entries)
    return annotated(text=b"See the plan", catalog=names, more=(specification, stream(b"plan", b"/Type/EmbeddedFile")))


def test_embedded_files_are_named(tmp_path: Path) -> None:
    document = read(tmp_path, embedding(b"plan.docx"))
    assert document.text == "See the plan"
    assert [each.partition(": ")[2] for each in document.warnings] == ["not read: 1 embedded file (plan.docx)"]


def test_a_portfolio_says_that_only_its_cover_is_read(tmp_path: Path) -> None:
    portfolio, left_out = read(tmp_path, embedding(b"plan.docx", catalog=b"/Collection<<>>")).warnings
    assert "is a portfolio" in portfolio
    assert "plan.docx" in left_out


def test_a_wrapper_around_an_encrypted_document_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FbragError, match=r"is a cover: .* encrypted \(plan.pdf\)") as caught:
        read(tmp_path, embedding(b"plan.pdf", b"/AFRelationship/EncryptedPayload"))
    assert caught.value.code == "pdf_encrypted"


# Garbled text


def test_a_page_that_is_garbled_is_named(tmp_path: Path, without_ocr: None) -> None:
    document = read(tmp_path, pdf(b"plain words " * 200, b"\x05\x06\x07\x0e\x0f " * 20, b"more of them"))
    assert [each.partition(": ")[2] for each in document.warnings if "garbled" in each] == [
        "much of page 2 is garbled (a font has no table of letters); to read by OCR: " + how_to_install()
    ]


def mapped(letters: str) -> bytes:
    """A PDF whose font says that its codes from 1 on are these letters."""
    lines = "\n".join(f"<{code:02X}> <{letter.encode('utf-16-be').hex()}>" for code, letter in enumerate(letters, 1))
    cmap = f"1 begincodespacerange <00> <FF> endcodespacerange {len(letters)} beginbfchar\n{lines}\nendbfchar".encode()
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 6 0 R>>"
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents 5 0 R>>"
    codes = "".join(f"{code:02X}" for code in range(1, len(letters) + 1))
    drawn = stream(f"BT /F1 12 Tf 72 720 Td <{codes}> Tj ET".encode())
    return pdf_of_objects(
        b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count 1/Kids[4 0 R]>>", font, page, drawn, stream(cmap)
    )


@pytest.mark.parametrize(
    ("text", "garbled"),
    [
        ("ࠁউޛҴо", True),  # Samaritan, Bengali, Thaana, Cyrillic in one word
        ("소득세법 시행규칙", False),
        ("東京とうきょうPDFファイル", False),
        ("Привет, мир αβγ", False),
        ("naïve µm Ωmega", False),
    ],
)
def test_words_that_mix_scripts_are_garbled(tmp_path: Path, text: str, garbled: bool) -> None:
    document = read(tmp_path, mapped(text))
    assert text in document.text
    assert any("garbled" in each for each in document.warnings) == garbled


# Signatures


def test_a_signature_is_read_as_the_page_shows_it(tmp_path: Path) -> None:
    shown_text = b"BT /F1 9 Tf 2 20 Td (Digitally signed by Ann Lee) Tj 0 -10 Td (Date: 2027.05.03) Tj ET"
    form = b"<</Subtype/Form/BBox[0 0 99 30]/Resources<</Font<</F1 3 0 R>>>>/Length %d>>\nstream\n%b\nendstream"
    signed = b"/FT/Sig/T(Signature1)/V<</Type/Sig/Name(Ann Lee)/M(D:20270503101500)>>"
    drawn = annotated(widget(signed + b"/AP<</N 7 0 R>>"), more=(form % (len(shown_text), shown_text),))
    assert read(tmp_path, drawn).text.split("\n")[1:] == ["Signature: Digitally signed by Ann Lee Date: 2027.05.03"]
    assert read(tmp_path, annotated(widget(signed))).text.split("\n")[1:] == ["Signature: signed by Ann Lee on 2027-05-03"]
    unsigned = annotated(widget(b"/FT/Sig/T(Signature1)/AP<</N 7 0 R>>"), more=(form % (len(shown_text), shown_text),))
    assert read(tmp_path, unsigned).text == "Name and signature"


def test_a_signature_that_draws_itself_does_not_cost_the_page(tmp_path: Path) -> None:
    body = b"q /X Do Q " * 50_000
    form = b"<</Subtype/Form/BBox[0 0 99 30]/Resources<</XObject<</X 46 0 R>>>>/Length %d>>\nstream\n%b\nendstream"
    signed = widget(b"/FT/Sig/T(s)/V<</Name(Ann Lee)>>/AP<</N 7 0 R>>")
    began = process_time()
    document = read(tmp_path, annotated(*[signed] * 40, more=(form % (len(body), body),)).replace(b"/N 7 0", b"/N 46 0"))
    assert document.text.startswith("Name and signature\nSignature: signed by Ann Lee")
    assert process_time() - began < 12


# Text outside of the page


def placed(*lines: tuple[int, int, str], box: str = "0 0 612 792") -> bytes:
    """A PDF of one page with this crop box, and lines at these places."""
    drawn = "".join(f"BT /F1 12 Tf {x} {y} Td ({text}) Tj ET " for x, y, text in lines)
    return (
        pdf(b"")
        .replace(b"/MediaBox[0 0 612 792]", f"/MediaBox[0 0 1224 792]/CropBox[{box}]".encode())
        .replace(stream(b"BT /F1 12 Tf 72 720 Td 14 TL  ET"), stream(drawn.encode()))
    )


def test_a_page_that_was_cut_from_a_spread_holds_its_own_text_alone(tmp_path: Path) -> None:
    spread = [(72, 700, "left one"), (72, 680, "left two"), (700, 700, "right one"), (700, 680, "right two")]
    left, right = (read(tmp_path, placed(*spread, box=box)) for box in ("0 0 612 792", "612 0 1224 792"))
    assert (left.text, right.text) == ("left one\nleft two", "right one\nright two")
    assert [each.partition(": ")[2] for each in left.warnings] == ["not read: text outside of page 1"]


def test_a_box_that_shows_next_to_nothing_is_not_trusted(tmp_path: Path) -> None:
    document = read(tmp_path, placed((72, 700, "one"), (72, 680, "two"), box="0 0 4 4"))
    assert (document.text, document.warnings) == ("one\ntwo", ())
