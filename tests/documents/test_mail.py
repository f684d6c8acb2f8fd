"""Mail: headers and text, the HTML part where there is no other, encodings, attachments named, malformed mail."""

from __future__ import annotations

import base64
from email.message import EmailMessage
from email.mime.text import MIMEText
from pathlib import Path

import pytest

from fbrag_cli.documents.load import load
from tests.documents.making import written


def mail(**headers: str) -> EmailMessage:
    message = EmailMessage()
    for name, value in {"From": "Zoë <z@example.org>", "To": "b@example.org", "Subject": "Grüße", **headers}.items():
        message[name] = value
    return message


def test_headers_and_text(tmp_path: Path) -> None:
    message = mail(Date="Mon, 02 Jan 2006 15:04:05 +0000", **{"X-Spam": "no"})
    message.set_content("Hello.\n\nBye.\n")
    document = written(tmp_path, bytes(message), "m.eml")
    assert document.text == (
        "Subject: Grüße\nFrom: Zoë <z@example.org>\nTo: b@example.org\nDate: Mon, 02 Jan 2006 15:04:05 +0000\n\nHello.\n\nBye."
    )
    assert document.media_type == "message/rfc822"
    assert document.warnings == ()


def test_the_plain_part_is_read_of_both_and_html_where_it_is_alone(tmp_path: Path) -> None:
    message = mail()
    message.set_content("plain")
    message.add_alternative("<p>html</p>", subtype="html")
    assert written(tmp_path, bytes(message), "m.eml").text.endswith("\n\nplain")
    blank = mail()
    blank.set_content(" \n")
    blank.add_alternative("<p>html</p>", subtype="html")
    assert written(tmp_path, bytes(blank), "m.eml").text.endswith("\n\nhtml")
    alone = mail()
    alone.set_content("<style>x</style><p>one</p><p>two &amp; three", subtype="html")
    assert written(tmp_path, bytes(alone), "m.eml").text.endswith("\n\none\n\ntwo & three")


def test_attachments_are_named(tmp_path: Path) -> None:
    message = mail()
    message.set_content("see attached")
    message.add_attachment(b"%PDF-1.4", maintype="application", subtype="pdf", filename="plan.pdf")
    document = written(tmp_path, bytes(message), "m.eml")
    assert "see attached" in document.text
    assert "plan.pdf" in document.warnings[0]


def test_a_later_part_is_read_and_what_lies_between_is_named(tmp_path: Path) -> None:
    """Apple Mail writes text, picture, text as parts of one mail."""
    message = mail()
    message.set_content("The plan is below.")
    message.make_mixed()
    message.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="a.png", disposition="inline")
    message.attach(MIMEText("The contract ends on 3 May 2027.", "plain", "utf-8"))
    message.attach(MIMEText("<p>Signed &amp; sent", "html", "utf-8"))
    document = written(tmp_path, bytes(message), "m.eml")
    assert document.text.split("\n\n")[1:] == ["The plan is below.", "The contract ends on 3 May 2027.", "Signed & sent"]
    assert [each.partition(": ")[2] for each in document.warnings] == ["not read: 1 attachment (a.png)"]


def test_messages_that_a_mail_forwards_are_read_with_their_headers(tmp_path: Path) -> None:
    inner = mail(Subject="The inner one")
    inner.set_content("Deeply said.")
    middle = mail(Subject="The middle one")
    middle.set_content("See below.")
    middle.add_attachment(inner)
    message = mail()
    message.set_content("Forwarded.")
    message.add_attachment(middle)
    document = written(tmp_path, bytes(message), "m.eml")
    blocks = document.text.split("\n\n")
    assert [block.partition("\nFrom")[0].strip() for block in blocks[1:]] == [
        "Forwarded.", "Subject: The middle one", "See below.", "Subject: The inner one", "Deeply said.",
    ]  # fmt: skip
    assert document.warnings == ()


def test_attached_text_is_read_under_its_name(tmp_path: Path) -> None:
    message = mail()
    message.set_content("See the list.")
    message.add_attachment("name,berth\nGarefowl,3\n", subtype="csv", filename="ships.csv")
    assert written(tmp_path, bytes(message), "m.eml").text.endswith("\n\nAttached: ships.csv\nname,berth\nGarefowl,3")


def test_a_file_beside_alternatives_is_named(tmp_path: Path) -> None:
    message = mail()
    message.set_content("plain")
    message.add_alternative("<p>html</p>", subtype="html")
    html = message.get_payload()[1]
    html.make_mixed()
    html.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="plan.pdf")
    document = written(tmp_path, bytes(message), "m.eml")
    assert document.text.endswith("\n\nplain")
    assert "plan.pdf" in document.warnings[0]


def test_a_signature_is_no_attachment(tmp_path: Path) -> None:
    data = (
        "From: a@b\nMIME-Version: 1.0\nContent-Type: multipart/signed; boundary=x\n\n--x\nContent-Type: text/plain\n\n"
        "signed text\n--x\nContent-Type: application/pgp-signature; name=s.asc\n\nabc\n--x--\n"
    )
    document = written(tmp_path, data, "m.eml")
    assert document.text.endswith("signed text")
    assert document.warnings == ()


@pytest.mark.parametrize(
    ("charset", "text"),
    [("koi8-r", "Вчера мы гуляли"), ("iso-2022-jp", "昨日の夜"), ("iso-2022-jp", "半角ｶﾅ"), ("gb2312", "昨天晚上")],
)
def test_encodings_of_the_body(tmp_path: Path, charset: str, text: str) -> None:
    for transfer in ("base64", "8bit"):
        head = f"From: a@b\nMIME-Version: 1.0\nContent-Type: text/plain; charset={charset}\n"
        head += f"Content-Transfer-Encoding: {transfer}\n\n"
        body = text.encode("iso2022_jp_ext" if charset == "iso-2022-jp" else charset)
        data = head.encode() + (base64.b64encode(body) if transfer == "base64" else body)
        document = written(tmp_path, data, "m.eml")
        assert document.text.endswith(text)
        assert document.warnings == ()


def test_mail_is_known_by_its_headers(tmp_path: Path) -> None:
    data = "Message-ID: <1@x>\nDate: Mon, 14 May 2001\nFrom: a@b.com\nTo: c@d.com\nSubject: S\n\nthe body"
    assert written(tmp_path, data, "1").media_type == "message/rfc822"
    assert written(tmp_path, "From: me\nTo: you\n\nA letter.", "letter.txt").media_type == "text/plain"


@pytest.mark.parametrize(
    "data",
    [
        "no headers at all",
        "From: a\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\ntext",
        "From: a\nMIME-Version: 1.0\nContent-Type: text/plain; charset=klingon\n\ntext",
        "From: a\nMIME-Version: 1.0\nContent-Type: text/plain\nContent-Transfer-Encoding: base64\n\n!!!not base64!!!",
        "From: a\nMIME-Version: 1.0\n" + "Content-Type: multipart/mixed; boundary=x\n\n--x\n" * 500 + "\ntext",
        "From: " + "(" * 5000 + "\nMIME-Version: 1.0\n\ntext",
    ],
)
def test_malformed_mail_is_read_or_refused(tmp_path: Path, data: str) -> None:
    from fbrag_cli.errors import FbragError

    try:
        assert written(tmp_path, data, "m.eml").text.strip()
    except FbragError as error:
        assert error.code == "doc_unreadable"  # noqa: PT017
        assert "mail that cannot be read" in error.message  # noqa: PT017


def test_endless_headers_are_cut_and_the_text_is_not(tmp_path: Path) -> None:
    head = "From: a@b\nMIME-Version: 1.0\nTo: " + "a@b.c, " * 20_000 + "\nContent-Type: text/plain; " + "a=b; " * 20_000
    document = written(tmp_path, f"{head}\n\nthe text", "m.eml")
    assert document.text.endswith("\n\nthe text")
    assert len(document.text) < 5000


def test_a_guess_at_the_encoding_of_the_body_is_said(tmp_path: Path) -> None:
    data = b"From: a@b\nMIME-Version: 1.0\n\n" + "Вчера вечером мы долго гуляли по городу.".encode("cp1251")
    document = written(tmp_path, data, "m.eml")
    assert document.text.endswith("Вчера вечером мы долго гуляли по городу.")
    assert "read as cp1251" in document.warnings[0]


@pytest.mark.parametrize("address", ['"', "a:b,;c", "a@[", "=?utf-8?q?=ff?= <", ",,,;:<>@@"])
def test_a_malformed_address_is_no_loss_of_the_mail(tmp_path: Path, address: str) -> None:
    data = f"From: a\nTo: {address}\nDate: yesterday\nMIME-Version: 1.0\n\nthe text"
    assert written(tmp_path, data, "m.eml").text.endswith("\n\nthe text")


def test_a_character_that_the_declared_japanese_lacks_is_the_only_one_lost(tmp_path: Path) -> None:
    head = b"From: a@b\nMIME-Version: 1.0\nContent-Type: text/plain; charset=iso-2022-jp\n\n"
    document = written(tmp_path, head + "第".encode("iso2022_jp") + b"\x1b$B\x2d\x21\x1b(B" + "章".encode("iso2022_jp"), "m.eml")
    assert document.text.endswith("\n\n第\ufffd章")
    (warning,) = document.warnings
    assert "iso2022_jp with 1 broken sequence" in warning


def test_struck_out_text_of_a_page_is_left_out_and_told(tmp_path: Path) -> None:
    mail = "From: a@example.org\nMIME-Version: 1.0\nContent-Type: text/html\n\n<p>We offer <del>300</del> 280 euros.</p>\n"
    document = written(tmp_path, mail, "m.eml")
    assert document.text == "From: a@example.org\n\nWe offer 280 euros."
    assert document.warnings == (f"{tmp_path / 'm.eml'}: not read: 1 struck-out passage (--markup reads them)",)
    assert load(str(tmp_path / "m.eml"), markup=True).text.endswith("We offer ~~300~~ 280 euros.")
