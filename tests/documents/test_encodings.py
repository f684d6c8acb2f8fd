"""Texts that do not say what they are in: a few words and a page, right and said."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from fbrag_cli.documents.decoding.encoding import decode
from fbrag_cli.documents.source import Source
from tests.documents.making import written

_TEXTS = {
    "Déjà vu, à l'hôtel.": ["latin-1", "utf-16-le", "utf-16-be"],
    "Über die Straße gehen wir später. Die Mädchen spielen Fußball.": ["latin-1", "cp1252", "utf-16-le"],
    "Le garçon “naïf” a mangé à l’hôtel – déjà très fatigué, il rêvait.": ["cp1252"],
    "Plain English without a byte order mark.": ["utf-16-le", "utf-32-le"],
    "Zażółć gęślą jaźń.": ["cp1250", "iso8859-2"],
    "Příliš žluťoučký kůň úpěl ďábelské ódy.": ["cp1250", "iso8859-2"],
    "Işıklı şehirde güneşli bir gün yaşadık.": ["cp1254"],
    "Привет, мир!": ["cp1251", "koi8-r", "cp866", "iso8859-5", "utf-16-le", "utf-16-be"],
    "Все счастливые семьи похожи друг на друга.": ["cp1251", "koi8-r", "cp866", "iso8859-5", "mac_cyrillic"],
    "Їжак їсть яблука у нашому садку.": ["cp1251"],
    "Καλημέρα κόσμε, τι κάνεις;": ["cp1253", "iso8859-7"],
    "שלום עולם, מה שלומך היום?": ["cp1255", "iso8859-8"],
    "مرحبا بالعالم كيف حالك اليوم": ["cp1256"],
    "تفتح المكتبة الجديدة في الميناء": ["cp1256", "iso8859-6"],
    "สวัสดีชาวโลก วันนี้อากาศดี": ["cp874"],
    "你好，世界。": ["gbk", "gb18030"],
    "今天天气很好，我们去公园散步吧。": ["gb2312", "gbk"],
    "今天天氣很好，我們去公園散步吧。": ["big5"],
    "こんにちは、世界。": ["shift_jis", "euc_jp", "iso2022_jp"],
    "今日は天気がいいので、公園を散歩しましょう。": ["shift_jis", "euc_jp"],
    "안녕하세요, 세계!": ["euc_kr", "utf-16-le"],
    "오늘은 날씨가 좋아서 공원에서 산책을 합시다.": ["euc_kr"],
}


@pytest.mark.parametrize(("text", "encoding"), [(text, encoding) for text, encodings in _TEXTS.items() for encoding in encodings])
@pytest.mark.parametrize("times", [1, 40])
def test_the_guess_is_right_and_names_itself(tmp_path: Path, text: str, encoding: str, times: int) -> None:
    document = written(tmp_path, (text * times).encode(encoding), "a.txt")
    assert document.text == text * times
    (warning,) = document.warnings
    assert "a.txt is not UTF-8" in warning
    assert document.encoding is not None
    assert document.encoding in warning
    assert "--encoding" in warning


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_unicode_is_certain(tmp_path: Path, encoding: str) -> None:
    text = " ".join(_TEXTS)
    document = written(tmp_path, text.encode(encoding), "a.txt")
    assert document.text == text
    assert document.warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        "Heute sind es 25°C, morgen 27°C.",
        "See §A and §B of the ©Act.",
        "Ärger mit Ämtern, Äpfel und Öl",
        "«Bonjour» dit-il. «Ah!»",
    ],
)
def test_signs_in_latin_text_are_no_chinese(tmp_path: Path, text: str) -> None:
    assert written(tmp_path, text.encode("cp1252"), "a.txt").text == text


@pytest.mark.parametrize("text", list(_TEXTS))
def test_a_forced_encoding_reads_what_no_guess_would(tmp_path: Path, text: str) -> None:
    from fbrag_cli.documents.load import load

    encoding = _TEXTS[text][0]
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    document = load(str(tmp_path / "a.txt"), encoding=encoding)
    assert document.text == text
    assert document.warnings == ()


def test_one_letter_at_the_end_of_a_long_log_takes_no_minutes() -> None:
    log = "2026-11-22 17:05:01 worker4 INFO request served in 12 ms\n" * 400_000
    began = process_time()
    decoded = decode(Source("a.log", "a.log", (log + "Éa café").encode("cp1252")))
    assert process_time() - began < 6
    assert decoded.text == log + "Éa café"
    assert "(“Éa”)" in decoded.warnings[0]


def test_a_text_in_two_languages_is_read_as_both_write(tmp_path: Path) -> None:
    """No alphabet has ñ and ã. In Mac Roman these bytes are a capital and a quotation mark, which stand in no word."""
    text = "Mañana está el niño en España. O café não é já, e amanhã a manhã será de irmãs. Não há pão, señor.\n"
    assert written(tmp_path, text.encode("latin-1"), "a.txt").text == text


# Two encodings in one file, and text that was encoded twice

_NEW = "Die Müllgebühr beträgt 212 Euro.\nDer Schlüssel liegt bei Günther.\nÄltere zahlen nichts.\n"


@pytest.mark.parametrize(
    ("old", "encoding"),
    [
        ("Die Waschküche ist geöffnet.\nBügeleisen bleiben aus.\n", "latin-1"),
        ("Le café est fermé.\nÀ bientôt, élève.\n", "cp1252"),
        ("Стоянка закрыта до весны.\nКлючи лежат у дворника.\n", "cp1251"),
        ("Η πόρτα είναι κλειστή.\nΤο κλειδί είναι εδώ.\n", "cp1253"),
        ("„Straße“ – Größe §\nMüller\n", "cp1252"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_each_line_is_read_in_its_own_encoding(tmp_path: Path, old: str, encoding: str, first: bool) -> None:
    parts = [(_NEW * 2).encode(), b"Only ASCII.\n", old.encode(encoding)]
    document = written(tmp_path, b"".join(parts if first else parts[::-1]), "a.txt")
    assert document.text == "".join((_NEW * 2, "Only ASCII.\n", old) if first else (old, "Only ASCII.\n", _NEW * 2))
    (warning,) = document.warnings
    assert "has two encodings: 2 lines that are not UTF-8 are read as" in warning


def test_a_stray_byte_is_no_second_encoding(tmp_path: Path) -> None:
    document = written(tmp_path, (_NEW * 9).encode() + b"M\xfcller\n", "a.txt")
    assert document.text == _NEW * 9 + "M\ufffdller\n"


@pytest.mark.parametrize("through", ["cp1252", "latin-1"])
def test_what_was_encoded_twice_is_read_as_it_was_meant(tmp_path: Path, through: str) -> None:
    meant = "Müller sagt: „Größe“ – schön\nOnly ASCII\n" if through == "cp1252" else "Müller sagt Größe 😀\n"
    twice = meant.encode().decode(through).encode()
    document = written(tmp_path, twice, "a.txt")
    assert document.text == meant
    assert "was encoded twice" in document.warnings[0]
    assert written(tmp_path, r'{"a": "M\u00c3\u00bcller"}', "a.json").text == "a: Müller"


@pytest.mark.parametrize(
    "text",
    [
        "Müll was read as MÃ¼ll.\nMüller\nGröße\n",
        "SÃO PAULO É GRANDE\nIRMÃ\n",
        "Â« Bonjour Â»\nÉté\nÇa va\nÀ deux\n",
        "ÃŽle\nœuvre\nété\nNoël\n",
        "Ðà¶\nфыва\nпривет\nмир\n",
        "日本語\n한국어\n",
    ],
)
def test_clean_text_is_never_changed(tmp_path: Path, text: str) -> None:
    document = written(tmp_path, text, "a.txt")
    assert document.text == text
    assert document.warnings == ()
