"""Mail: headers and text, the HTML part where there is no other, encodings, attachments named, malformed mail."""

from __future__ import annotations

import base64
import random
from email.message import EmailMessage
from email.mime.text import MIMEText
from pathlib import Path

import pytest

from fbrag_cli.documents.load import load
from fbrag_cli.text.words import terms
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


# One wrong part


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"PK\x03\x04" + bytes(range(256)) * 3, "list.csv"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "scan.txt"),
        (b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\n", "plan.txt"),
        (bytes(range(256)) * 20, "noise.txt"),
        ("Müller zahlt für Größe".encode("cp1252"), "guess.txt"),
        (b"{\\rtf1 text}", "letter.txt"),
    ],
)
def test_an_attachment_that_is_no_text_costs_only_itself(tmp_path: Path, data: bytes, name: str) -> None:
    message = mail()
    message.set_content("The fee is 500 euros.")
    message.add_attachment(data, maintype="text", subtype="csv" if name.endswith("csv") else "plain", filename=name)
    document = written(tmp_path, bytes(message), "m.eml")
    assert document.text.endswith("\n\nThe fee is 500 euros.")
    assert document.warnings == (f"{tmp_path / 'm.eml'}: not read: 1 attachment ({name})",)


def test_a_calendar_without_a_name_beside_the_text_is_told(tmp_path: Path) -> None:
    message = mail()
    message.set_content("You are invited.")
    message.add_alternative(b"BEGIN:VCALENDAR\nEND:VCALENDAR\n", maintype="text", subtype="calendar")
    document = written(tmp_path, bytes(message), "m.eml")
    assert document.text.endswith("\n\nYou are invited.")
    assert document.warnings == (f"{tmp_path / 'm.eml'}: not read: 1 attachment (text/calendar)",)


# Older messages


@pytest.mark.parametrize(
    "attribution",
    [
        "On Mon, 3 March 2024, Ann Lee wrote:",
        "On Mon, Mar 3, 2024 at 10:12 AM Ann Lee <ann@example.org>\nwrote:",
        "Am 03.03.2024 um 10:12 schrieb Ann Lee:",
        "Le lun. 3 mars 2024 à 10:12, Ann Lee <ann@example.org> a écrit :",
        "El lun, 3 mar 2024 a las 10:12, Ann Lee escribió:",
        "2024年3月3日(月) 10:12 Ann Lee <ann@example.org>:",
    ],
)
@pytest.mark.parametrize("below", [False, True])
def test_a_quoted_message_follows_under_its_sender_and_date(tmp_path: Path, attribution: str, below: bool) -> None:
    own, quote = "The key is at the office.", "> Where is the key\n> of the shed?\n>\n> Ann"
    parts = [f"{attribution}\n\n{quote}", own] if below else [own, f"{attribution}\n{quote}"]
    message = mail()
    message.set_content("\n\n".join(parts))
    text = written(tmp_path, bytes(message), "m.eml").text
    head = " ".join(attribution.split())
    assert text.split("\n\n", 1)[1] == f"{own}\n\n{head}\nWhere is the key\nof the shed?\n\nAnn"


@pytest.mark.parametrize(
    ("rule", "headers"),
    [
        ("-----Original Message-----", "From: Ann Lee\nSent: Monday, March 3, 2024 10:12\nTo: Bo\nSubject: Key"),
        ("-----Ursprüngliche Nachricht-----", "Von: Ann Lee\nGesendet: Montag, 3. März 2024 10:12\nAn: Bo\nBetreff: Schlüssel"),
        ("________________________________", "De : Ann Lee\nEnvoyé : lundi 3 mars 2024 10:12\nÀ : Bo\nObjet : Clé"),
        ("", "De: Ann Lee\nEnviado el: lunes, 3 de marzo de 2024 10:12\nPara: Bo\nAsunto: Llave"),
        ("---------- Forwarded message ---------", "From: *Ann Lee* <a@b>\nDate: Mon, Mar 3, 2024\nSubject: Key\nTo: Bo"),
    ],
)
def test_an_older_message_with_headers_is_told_apart(tmp_path: Path, rule: str, headers: str) -> None:
    message = mail()
    message.set_content(f"At the office.\n\n{rule}\n{headers}\n\nWhere is it?\n\nOn 1 March 2024, Bo wrote:\n> It is lost.\n")
    text = written(tmp_path, bytes(message), "m.eml").text
    assert text.split("\n\n", 1)[1] == f"At the office.\n\n{headers}\nWhere is it?\n\nOn 1 March 2024, Bo wrote:\nIt is lost."


@pytest.mark.parametrize(
    "text",
    [
        "On 3 March 2024, Ann wrote:\n> Is it open?\n\nYes.\n\n> And on Sunday?\n\nNo.",  # answered piece by piece
        "He quotes:\n> To be\n> or not to be",
        "> only quoted",
        "a > b\nTo: nobody\nFrom here: on",
        "From: the harbor\nTo: the light it is a mile.",
    ],
)
def test_what_is_no_older_message_stays_as_written(tmp_path: Path, text: str) -> None:
    message = mail()
    message.set_content(text)
    assert written(tmp_path, bytes(message), "m.eml").text.split("\n\n", 1)[1] == text


# Boxes of mails


def box(*messages: EmailMessage) -> bytes:
    separator = b"From someone@example.org Mon Sep 11 06:15:00 2026\n"
    return b"\n".join(separator + bytes(each).replace(b"\nFrom ", b"\n>From ") for each in messages)


def simple(subject: str, text: str, **headers: str) -> EmailMessage:
    message = mail(Subject=subject, Date="Mon, 02 Jan 2006 15:04:05 +0000", **headers)
    message.set_content(text, cte="base64")
    return message


def test_each_mail_of_a_box_is_a_section_with_its_date(tmp_path: Path) -> None:
    data = box(simple("Heizung", "Der Kessel wird geprüft."), simple("Key", "From here it is a mile.\n"))
    for name in ("a.mbox", "Inbox", "a.txt"):
        document = written(tmp_path, data, name)
        date = "Mon, 02 Jan 2006 15:04:05 +0000"
        assert [each.title for each in document.sections] == [f"Heizung ({date})", f"Key ({date})"]
        assert [document.text[each.start :].split("\n")[0] for each in document.sections] == ["Subject: Heizung", "Subject: Key"]
        assert "\n\nDer Kessel wird geprüft.\n\n" in document.text
        assert document.text.endswith("\n\nFrom here it is a mile.")
        assert document.warnings == ()


def test_a_message_that_is_in_the_box_is_read_once(tmp_path: Path) -> None:
    first = simple("Key", "Where is the key?")
    answer = simple("Re: Key", "At the office.\n\nOn 2 Jan 2006, Zoë wrote:\n> Where is\n> the key?\n")
    third = simple(
        "Re: Key", "Thanks!\n\nOn 3 Jan 2006, B wrote:\n> At the office.\n>\n> On 2 Jan 2006, Zoë wrote:\n>> Where is the key?\n"
    )
    other = simple("Re: Shed", "No.\n\nOn 1 Jan 2006, C wrote:\n> Is the shed dry?\n")
    again = simple("Re: Shed", "Yes.\n\nOn 1 Jan 2006, C wrote:\n> Is the shed dry?\n")
    for mails in ((first, answer, third, other, again), (again, third, other, answer, first)):
        text = written(tmp_path, box(*mails), "a.mbox").text
        for once in ("key?", "At the office.", "Is the shed dry?", "On 1 Jan 2006, C wrote:"):
            assert text.count(once) == 1, once


def test_a_box_is_read_whatever_is_in_one_mail(tmp_path: Path) -> None:
    wrong = simple("Scan", "see it")
    wrong.add_attachment(b"\x89PNG\r\n\x1a\n", maintype="text", subtype="plain", filename="scan.txt")
    document = written(tmp_path, box(simple("One", "first"), wrong, simple("Two", "last")), "a.mbox")
    assert [each.title.split(" ")[0] for each in document.sections] == ["One", "Scan", "Two"]
    assert document.warnings == (f"{tmp_path / 'a.mbox'}: not read: 1 attachment (scan.txt)",)


def test_the_terms_of_a_box_are_those_of_its_texts(tmp_path: Path) -> None:
    """What is packed in base64 was read as words: a question took minutes, and found nothing."""
    mails = []
    for n in range(300):
        message = simple(f"Mail {n}", "The boiler is checked on 9 October.")
        message.add_attachment(random.Random(n).randbytes(20_000), maintype="image", subtype="jpeg", filename=f"{n}.jpg")
        mails.append(message)
    document = written(tmp_path, box(*mails), "a.mbox")
    assert len({*terms(document.text)}) < 700
    assert len(document.text) < 300 * 250


def test_a_box_of_ten_thousand_mails(tmp_path: Path) -> None:
    mails = (f"From a@b Mon Sep 11 06:15:00 2026\nFrom: a@b\nSubject: Mail {n}\n\nText {n}.\n" for n in range(10_000))
    document = written(tmp_path, "\n".join(mails), "a.mbox")
    assert len(document.sections) == 10_000
    assert document.text.endswith("Text 9999.")


def test_a_text_about_mail_is_no_box(tmp_path: Path) -> None:
    for text in ("From the harbor at 10:15 he left.\n\nFrom here on it rained.", "From a to b\n\nFrom c to d\n"):
        assert written(tmp_path, text, "a.txt").text == text
