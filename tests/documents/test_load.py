"""Text and Markdown from files and stdin: what is read, what is warned of, what is refused and how it says so."""

from __future__ import annotations

import codecs
import io
import os
import pickle
import socket
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fbrag_cli.documents import load as formats_read
from fbrag_cli.documents import source
from fbrag_cli.documents.decoding.encoding import decoded_once
from fbrag_cli.documents.document import Content, Document, Extracted, Section
from fbrag_cli.documents.lines import section_of
from fbrag_cli.documents.load import load
from fbrag_cli.documents.ocr.engine import how_to_install
from fbrag_cli.errors import ExitCode, FbragError


def refused(path: object, stdin: io.BytesIO | None = None, **options: str) -> FbragError:
    """The error of loading `path`: one line that names the document, one hint, and exit code 3 but for wrong usage."""
    with pytest.raises(FbragError) as caught:
        load(str(path), source=None if stdin is None else source.read_source(str(path), stdin), **options)  # type: ignore[arg-type]
    error = caught.value
    assert error.document == str(path)
    assert error.hint
    assert "\n" not in error.message + error.hint
    assert error.exit_code == (ExitCode.USAGE if error.code == "usage" else ExitCode.DOCUMENT)
    if error.code != "usage":
        assert ("stdin" if path == "-" else str(path)) in error.message
    return error


def written(tmp_path: Path, data: bytes, name: str = "book.txt") -> Document:
    (tmp_path / name).write_bytes(data)
    return load(str(tmp_path / name))


# What is read


def test_plain_text_is_read_as_it_is(tmp_path: Path) -> None:
    data = "Café “Zürich”.\nSecond line.\n".encode()
    document = written(tmp_path, data)
    assert document.text == data.decode()
    assert document.encoding == "utf-8"
    assert document.media_type == "text/plain"
    assert document.path == document.name == str(tmp_path / "book.txt")
    assert document.sha256 == sha256(data).hexdigest()
    assert document.pages == document.skipped_pages == document.warnings == ()


@pytest.mark.parametrize("name", ["notes.md", "NOTES.MD", "notes.markdown"])
def test_markdown_is_known_by_its_suffix(tmp_path: Path, name: str) -> None:
    assert written(tmp_path, b"# Title\n", name).media_type == "text/markdown"


def test_a_document_can_be_sent_to_another_process(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Ships\n\nThe Garefowl sailed.")
    document = load(str(tmp_path / "a.md"))
    sent = pickle.loads(pickle.dumps(document))
    assert (sent, sent.text, sent.sections) == (document, document.text, document.sections)


def test_line_ends_of_every_system_become_one_kind(tmp_path: Path) -> None:
    assert written(tmp_path, b"dos\r\nmac\runix\n\r\n\r\rend").text == "dos\nmac\nunix\n\n\n\nend"


def test_control_characters_and_form_feeds_stay(tmp_path: Path) -> None:
    text = "page one\fpage two \x1b[31mred\x1b[0m \x07 " + "and so on " * 10 + "\x00 end"
    document = written(tmp_path, text.encode())
    assert document.text == text
    assert document.warnings == ()


def test_stdin_is_read_to_its_end() -> None:
    document = load("-", source=source.read_source("-", io.BytesIO(b"from a pipe\r\n")))
    assert (document.path, document.name, document.text) == ("-", "stdin", "from a pipe\n")


def test_stdin_is_not_touched_without_a_dash(tmp_path: Path) -> None:
    stdin = io.BytesIO(b"not me")
    (tmp_path / "a.txt").write_bytes(b"a text")
    source.read_source(str(tmp_path / "a.txt"), stdin)
    assert stdin.tell() == 0


_TEXTS = st.text(st.characters(codec="utf-8"), min_size=1)


@given(text=_TEXTS, encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_text_comes_back_from_every_unicode_encoding(tmp_path: Path, text: str, encoding: str) -> None:
    unified = text.replace("\r\n", "\n").replace("\r", "\n")
    assume(unified.strip())
    assume(decoded_once(text) == text)  # "Ã\x80A" is "ÀA", encoded twice
    if encoding == "utf-8":  # without a mark, a first U+FEFF is one, and NULs in a short text look binary
        assume(not text.startswith("\ufeff") and "\0" not in text)
    if encoding == "utf-16":  # its mark and a NUL are the mark of UTF-32
        assume(not text.startswith("\0"))
    document = written(tmp_path, text.encode(encoding))
    assert document.text == unified
    assert document.warnings == ()


def test_the_novel(shared: Path) -> None:
    document = load(str(shared / "books" / "pride-and-prejudice.txt"))
    assert len(document.text.split()) == 124_592
    assert "\r" not in document.text
    assert document.warnings == ()


# Encodings that do not say what they are


def test_a_guess_shows_a_word_by_which_to_judge_it(tmp_path: Path) -> None:
    (warning,) = written(tmp_path, "Le garçon “naïf” a mangé à l’hôtel – déjà très fatigué.".encode("cp1252")).warnings
    assert "garçon" in warning


def test_one_foreign_letter_deep_in_a_long_text_decides(tmp_path: Path) -> None:
    text = "plain words and more of them, " * 30_000 + "un café très fort à l’hôtel"
    document = written(tmp_path, text.encode("cp1252"))
    assert document.text == text
    assert document.warnings


def test_text_that_no_detector_can_tell_is_still_read(tmp_path: Path) -> None:
    document = written(tmp_path, "café".encode("cp1252") * 20)
    assert document.text.startswith("caf")
    assert len(document.text) == 80
    assert document.warnings


def test_utf8_cut_within_a_character_stays_utf8(tmp_path: Path) -> None:
    data = "“Curly” quotes — and dashes. ".encode() * 50
    document = written(tmp_path, data + "“".encode()[:2])
    assert document.text == data.decode() + "\ufffd"
    (warning,) = document.warnings
    assert "1 broken sequence" in warning
    assert f"byte {len(data)}" in warning


def test_utf8_with_three_bad_bytes_is_utf8(tmp_path: Path) -> None:
    text = "It’s the café’s “house rule” — closed on Mondays."
    document = written(tmp_path, text.encode().replace(b"house", b"h\xffou\xe9se\xfe"))
    assert document.text == text.replace("house", "h\ufffdou\ufffdse\ufffd")
    (warning,) = document.warnings
    assert "utf-8 with 3 broken sequences" in warning


def test_a_mark_of_utf8_with_a_bad_byte_is_utf8(tmp_path: Path) -> None:
    document = written(tmp_path, codecs.BOM_UTF8 + b"A short text \xff.")
    assert (document.text, document.encoding) == ("A short text \ufffd.", "utf-8")
    (warning,) = document.warnings
    assert "1 broken sequence" in warning


def test_utf16_cut_within_a_character_is_read_with_a_warning(tmp_path: Path) -> None:
    text = "Half a character is missing at the end. " * 10
    document = written(tmp_path, (text + "x").encode("utf-16")[:-1])
    assert document.text == text + "\ufffd"
    assert len(document.warnings) == 1


# --encoding


def test_encoding_is_taken_at_its_word(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("zażółć gęślą jaźń".encode("iso8859-2"))
    document = load(str(tmp_path / "a.txt"), encoding="Latin2")
    assert document.text == "zażółć gęślą jaźń"
    assert document.encoding == "iso8859-2"
    assert document.warnings == ()


@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", codecs.BOM_UTF8), ("utf-16-le", codecs.BOM_UTF16_LE)])
def test_a_byte_order_mark_is_no_text_with_encoding_given(tmp_path: Path, encoding: str, mark: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(mark + "text".encode(encoding))
    assert load(str(tmp_path / "a.txt"), encoding=encoding).text == "text"


def test_bytes_that_the_encoding_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine so far \xe9")
    error = refused(tmp_path / "a.txt", encoding="utf-8")
    assert error.code == "doc_unreadable"
    assert "0xe9 at offset 12" in error.message
    assert "--encoding" in str(error.hint)


@pytest.mark.parametrize("name", ["utf8x", "klingon", "hex", "rot13", "", "a\0b"])
def test_an_encoding_that_there_is_not(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.txt").write_bytes(b"text")
    assert refused(tmp_path / "a.txt", encoding=name).code == "usage"


def test_a_misspelt_encoding_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"text")
    assert "cp1252" in str(refused(tmp_path / "a.txt", encoding="cp-12522").hint)


# What is refused


def test_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "Pride and Prejudice.txt").write_bytes(b"text")
    error = refused(tmp_path / "pride and prejudise.txt")
    assert error.code == "doc_not_found"
    assert f"did you mean '{tmp_path}/Pride and Prejudice.txt'?" == error.hint


def test_missing_file_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "alice.txt").write_bytes(b"text")
    monkeypatch.chdir(tmp_path)
    assert refused("alcie.txt").hint == "did you mean alice.txt?"
    assert refused("something-else.md").hint == "check its name, or give its folder too"


def test_missing_folder_and_file_used_as_folder(tmp_path: Path) -> None:
    assert "nowhere" in str(refused(tmp_path / "nowhere" / "a.txt").hint)
    (tmp_path / "a.txt").write_bytes(b"text")
    assert refused(tmp_path / "a.txt" / "b.txt").code == "doc_not_found"


def test_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "link.txt").symlink_to("gone.txt")
    error = refused(tmp_path / "link.txt")
    assert error.code == "doc_not_found"
    assert "gone.txt" in error.message


def test_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "loop.txt").symlink_to("loop.txt")
    assert refused(tmp_path / "loop.txt").code == "doc_unreadable"


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.txt"
    path.write_bytes(b"text")
    path.chmod(0)
    if os.access(path, os.R_OK):  # root reads everything

        def denied(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(source, "open", denied, raising=False)
    error = refused(path)
    assert error.code == "doc_unreadable"
    assert "permission denied" in error.message


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n ", codecs.BOM_UTF8, "\u3000\n".encode("utf-16")])
def test_nothing_to_read(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    assert refused(tmp_path / "a.txt").code == "doc_empty"
    assert refused("-", stdin=io.BytesIO(data)).code == "doc_empty"


def test_folder(tmp_path: Path) -> None:
    error = refused(tmp_path)
    assert error.code == "unsupported_format"
    assert f'fbrag ask {tmp_path}/*.txt "…"' in str(error.hint)


def test_pipe_device_and_socket(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "a pipe" in refused(tmp_path / "pipe").message  # and does not wait for a writer
    assert "a device" in refused("/dev/null").message
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert refused(tmp_path / "s").code == "doc_unreadable"


def test_too_large_is_said_in_figures_before_reading(tmp_path: Path) -> None:
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(3_100_000_000)  # sparse: takes no room
    error = refused(tmp_path / "huge.txt")
    assert error.code == "doc_unreadable"
    assert "3.1 GB" in error.message
    assert "2.0 GB" in error.message


class _Stream(io.RawIOBase):
    """Endless, with a limit to what is asked at once."""

    def read(self, size: int = -1) -> bytes:
        assert 0 < size < 10_000_000
        return b"x" * size


def test_endless_stdin_is_read_in_pieces_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_BYTES", 10_000_000)
    assert "more than 10 MB" in refused("-", stdin=_Stream()).message  # type: ignore[arg-type]
    assert len(load("-", source=source.read_source("-", io.BytesIO(b"x" * 10_000_000))).text) == 10_000_000


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="needs a file whose size is 0 but that has content")
def test_a_file_without_a_size_is_refused_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_BYTES", 1000)
    assert "more than" in refused("/proc/self/smaps").message


@pytest.mark.parametrize(
    ("data", "kind", "hint"),
    [
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "gzip", "gzip -dc"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "Office", "libreoffice"),
        (b"SQLite format 3\x00" + bytes(80), "SQLite", "sqlite3"),
        (b"\x7fELF\x02\x01\x01" + bytes(20), "binary", "text, PDF, HTML"),
        (bytes(range(256)) * 4, "binary", "file "),
        (b"one\0two\0three\0four\0", "binary", "file "),
    ],
)
@pytest.mark.parametrize("name", ["a file.bin", "a file.txt"])
def test_other_formats_are_named_with_a_way_out(tmp_path: Path, data: bytes, kind: str, hint: str, name: str) -> None:
    (tmp_path / name).write_bytes(data)
    error = refused(tmp_path / name)
    assert error.code == "unsupported_format"
    assert kind in error.message
    assert hint in str(error.hint)
    if "{" not in hint and "FILE" not in str(error.hint) and str(tmp_path) in str(error.hint):
        assert f"'{tmp_path / name}'" in str(error.hint)  # quoted for the shell


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", b"\xff\xd8\xff\xe0\x00\x10JFIF"])
def test_a_picture_names_what_reads_it(tmp_path: Path, without_ocr: None, data: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    error = refused(tmp_path / "a.txt")
    assert (error.code, error.message) == ("library_missing", f"{tmp_path / 'a.txt'} is a picture, which only OCR reads")
    assert error.hint == f"to read by OCR: {how_to_install()}"


def test_text_that_begins_like_a_known_format_is_text(tmp_path: Path) -> None:
    for data in (b"BMW, a car maker", b"MZ is what programs begin with", b"ID3 tags are", b"PK is a name", b"GGUF is a format"):
        assert written(tmp_path, data).text == data.decode()


def test_text_about_pdf_is_text(tmp_path: Path) -> None:
    assert written(tmp_path, b'Every PDF begins with "%PDF-1.7".', "pdf.md").media_type == "text/markdown"


def test_pages_of_a_text_are_a_warning_and_of_nonsense_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"text")
    assert "--pages" in load(str(tmp_path / "a.txt"), pages="1-2").warnings[0]
    assert refused(tmp_path / "a.txt", pages="1;2").code == "usage"


# What is not read


def test_what_was_left_out_is_one_warning_and_comments_are_read_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader stands in for those of Word, slides and PDF, whose own tests cover what each fills in."""
    content = Content("The price is 40.\n")
    extracted = Extracted(content, "text/plain", left_out=("2 charts", "a\x1b[31m.png"), comments=("Ann: too high", "Bo: no"))
    monkeypatch.setattr(formats_read, "reader_of", lambda _: lambda *_: extracted)
    path = tmp_path / "offer.txt"
    path.write_text("anything")
    (warning,) = load(str(path)).warnings
    assert warning == f"{path}: not read: 2 charts, a␛[31m.png, 2 comments (--markup reads them)"
    read = load(str(path), markup=True)
    assert read.text == "The price is 40.\n\nComments\n\nAnn: too high\n\nBo: no\n"
    assert section_of(read, read.text.index("Bo"), len(read.text)) == Section("Comments", 1, 18)
    assert read.warnings == (f"{path}: not read: 2 charts, a␛[31m.png",)


def test_a_document_of_comments_alone_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        formats_read, "reader_of", lambda _: lambda *_: Extracted(Content(""), "text/plain", comments=("Ann: why?",))
    )
    path = tmp_path / "notes.txt"
    path.write_text("anything")
    error = refused(path)
    assert (error.code, error.hint) == ("doc_empty", "add --markup, which reads them")
    assert "Ann: why?" in load(str(path), markup=True).text
