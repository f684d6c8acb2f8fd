"""The live page over HTTP: documents in pieces, and answers as fragments in which nothing is markup that a document brought."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

pytest.importorskip("uvicorn", reason="needs Starlette and uvicorn: pip install -e '.[test]'")

from fbrag_cli.progress import Listener
from fbrag_cli.render.html import short_names
from fbrag_cli.serving import desk
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.storage.cache import Cache
from fbrag_cli.text.printable import one_line, printable
from tests.documents.test_pdf import DRAWN, pdf_of_contents, shown
from tests.generation.parrot_gguf import END, Parrot, saying
from tests.generation.test_reasoning import as_tokens
from tests.render.test_html import HOSTILE, HOSTILE_QUESTION, WATCH, _Page
from tests.render.test_live_page import assert_is_text
from tests.serving.live_server import Live, live, pair

QUESTION = "Who sealed the box of the chronometer?"
SEALED = "The box was sealed by Tobias with lead. "
MARK = "<|assistant|>"
TEMPLATE = f"{{% for m in messages %}}<|user|>{{{{ m.content }}}}{{% endfor %}}{MARK}"


def parrot(path: Path, words: str) -> Path:
    """A model that says some words, in which no byte comes twice, as its answer and after "Rationale:"."""
    script = saying(MARK, *as_tokens(words), END)
    script[":"] = script[MARK]
    return Parrot(script=script, template=TEMPLATE, marks=[MARK, "<|user|>"], context=65_536).write(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ship's log with one sentence of its own, a document with hostile text and a hostile name, and a folder of files."""
    found = tmp_path_factory.mktemp("papers")
    (found / "log.txt").write_text(WATCH * 120 + SEALED + WATCH * 120)
    hostile = "<script>alert('name')<\u202escript> \x1b[31m.txt".replace("/", "")
    (found / hostile).write_bytes(f"{HOSTILE}\n{SEALED}{WATCH * 90}{HOSTILE}".encode("utf-8", "ignore"))
    (found / "letters").mkdir()
    for i in range(12):
        (found / "letters" / f"{i:02}.txt").write_text(f"Letter {i}. " + (SEALED if i == 7 else "") + WATCH * 40)
    (found / "letters" / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    return found


@pytest.fixture(scope="module")
def served(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    models = tmp_path_factory.mktemp("models")
    small, large = parrot(models / "small.gguf", "<script>\u202e&'\""), parrot(models / "large.gguf", "Tobias")
    names = [*sorted(str(each) for each in folder.iterdir() if each.is_file()), str(folder / "letters")]
    with live(ModelSettings(small=str(small), large=str(large)), names, parallel=2) as server:
        yield server


def html_of(server: Live, path: str) -> str:
    response = server.send("GET", path)
    body: str = response.read().decode()
    assert response.status == 200, body
    return body


def id_of(server: Live, name: str) -> str:
    return next(each.id for each in server.desk.library.entries() if each.name.endswith(name))


def lines(server: Live, *documents: str, at: int = 0) -> list[dict[str, Any]]:
    """What the page is sent of documents."""
    query = urlencode({"documents": documents, "at": at}, doseq=True)
    return [json.loads(line) for line in html_of(server, f"/page/text?{query}").splitlines()]


def outline(server: Live, *documents: str) -> dict[str, Any]:
    return next(each for each in lines(server, *documents) if "documents" in each)


def text_of(server: Live, *documents: str) -> str:
    return "".join(html for each in lines(server, *documents) for _, html in each.get("texts", ()))


def events_of(response: HTTPResponse) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    for raw in response:
        line = raw.decode().rstrip("\n")
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, json.loads(line[6:])


def ask(server: Live, *documents: str, question: str = QUESTION, **more: Any) -> list[tuple[str, dict[str, Any]]]:
    return list(events_of(events(server, asked(server, *documents, question=question, **more))))


def asked(server: Live, *documents: str, question: str = QUESTION, **more: Any) -> str:
    """The job of a question."""
    body = {
        "question": question,
        "settings": {"samples": 2, "temperature": 0},
        **({"documents": documents} if documents else {}),
        **more,
    }
    status, record = server.post("/page/ask", body)
    assert status == 200, record
    return str(record["job"])


def events(server: Live, job: str, **headers: str) -> HTTPResponse:
    response = server.send("GET", f"/page/events/{job}", **headers)
    assert response.status == 200, response.read()
    return response


class _Ids(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.scripts: list[dict[str, str | None]] = []
        self.attributes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.attributes |= {name for name, _ in attrs}
        if tag == "script":
            self.scripts.append(dict(attrs))


def test_the_page_is_one_template_one_script_and_one_style(served: Live) -> None:
    found = _Ids(html_of(served, "/"))
    assert len(found.ids) == len(set(found.ids))
    assert [each["src"] for each in found.scripts] == ["/page/live.js"]
    assert not {each for each in found.attributes if each.startswith("on") or each == "style"}
    rows = served.get("/page/shelf")[1]["documents"]
    assert [each["name"] for each in rows] == [each.name for each in served.desk.library.entries()]
    (letters,) = (each for each in rows if each["kind"] == "folder")
    assert letters["n_files"] == len(letters["files"]) > 0
    assert {name.partition("/")[0] for name in letters["files"]} == {"letters"}
    for path, kind in (("/page/live.js", "text/javascript"), ("/page/live.css", "text/css")):
        response = served.send("GET", path)
        assert response.headers["Content-Type"].startswith(kind)
        assert not re.search(rb"(https?:)?//[a-z0-9.]+\.[a-z]", response.read())


def test_the_whole_text_comes_in_pieces_and_nothing_of_it_is_markup(served: Live) -> None:
    for entry in served.desk.library.entries():
        corpus = served.desk.library.collection([entry.id], Listener()).corpus
        about = outline(served, entry.id)
        assert (about["n_chunks"], about["n_parts"]) == (len(corpus.chunks), 1)
        assert [each["name"] for each in about["documents"]] == [
            one_line(each) for each in short_names([each.name for each in corpus.documents])
        ]
        html = text_of(served, entry.id)
        assert_is_text(html)
        assert _Page(html).chunks == [printable(chunk.text) for chunk in corpus.chunks]
        assert _Ids(html).ids == [f"c{n + 1}" for n in range(len(corpus.chunks))]


def test_a_folder_has_its_files_and_what_could_not_be_read(served: Live, folder: Path) -> None:
    found = outline(served, id_of(served, "letters"))
    assert len(found["documents"]) == 12
    (why,) = found["unread"]
    assert why.startswith("broken.pdf")
    assert str(folder) not in why
    assert len(outline(served)["documents"]) == 14


def test_a_hostile_document_is_asked_and_is_text_everywhere(served: Live) -> None:
    (name,) = (each.id for each in served.desk.library.entries() if "script" in each.name)
    job = asked(served, name, question=f"{QUESTION} {HOSTILE_QUESTION}")
    found = list(events_of(events(served, job)))
    for _, record in found:
        for key, value in record.items():
            if key.endswith("html"):
                assert_is_text(value)
            assert not isinstance(value, str) or not set(value) & set("\x1b\x9b\x07\x00\u202e\u200b")
    assert found[-1][1]["chunks"]
    for _, html in found[-1][1]["chunks"]:
        assert_is_text(html)
    whole = _Page(html_of(served, f"/page/conversation?job={job}&job={job}"))
    assert not whole.tags & {"script", "img", "iframe", "link"}
    assert whole.text.count("Made by fbrag") == 1
    assert whole.text.count(SEALED.strip()) >= 2
    saved = _Page(html_of(served, f"/page/save/{job}"))
    assert not saved.tags & {"script", "img", "iframe", "link"}
    assert "<script>alert('name')" in saved.text
    assert "alert(" not in "".join(str(each) for each in _Ids(html_of(served, "/")).scripts)


def test_a_folder_is_asked_and_its_file_is_named(served: Live) -> None:
    letters = id_of(served, "letters")
    done = dict(ask(served, letters))["done"]
    (at,) = done["marked"]
    owner = [each["name"] for each in outline(served, letters)["documents"] if each["first"] <= at][-1]
    assert owner.endswith("07.txt")
    assert "07.txt" in done["sources_html"]


def test_presets_and_models_are_those_that_are_there(served: Live) -> None:
    log = id_of(served, "log.txt")
    fast = dict(ask(served, log, preset="fast", settings={}))
    assert fast["done"]["samples_html"] == ""
    status, record = served.post("/page/ask", {"question": QUESTION, "models": {"large": "/etc/passwd"}})
    assert (status, record["error"]["code"]) == (400, "usage")
    assert record["error"]["message"] == "the model /etc/passwd is not on this machine"


def test_how_long_a_question_takes_is_known_after_the_first_one(tmp_path: Path, folder: Path) -> None:
    """Each button has seconds after one question that was asked its way: with samples or without, by the models of the page."""
    other, usual = (str(parrot(tmp_path / f"{name}.gguf", "Tobias")) for name in ("other", "usual"))
    with live(
        ModelSettings(small=other, large=usual, gpu="off"), [str(folder / "log.txt")], cache=Cache(tmp_path / "cache")
    ) as server:
        assert outline(server)["seconds"] == {}
        assert dict(ask(server, settings={}, models={"small": usual}))["done"]["seconds"] == {}
        assert dict(ask(server, settings={}))["done"]["seconds"].keys() == {"default", "thorough"}
        fast = dict(ask(server, settings={}, preset="fast", question="Who kept the log?"))  # the models are loaded
        assert fast["done"]["seconds"].keys() == outline(server)["seconds"].keys() == {"fast", "default", "thorough"}


def test_events_go_on_where_a_client_has_lost_them(served: Live) -> None:
    """Each event has a number, by which a browser asks for those that it has not had, while the question runs and after."""
    job = asked(served, id_of(served, "log.txt"))
    response = events(served, job)
    raw = b"".join(iter(lambda: response.readline(), b"")).decode().split("\n\n")
    blocks = [block for block in raw if block.startswith("event: ")]
    names, numbers = [], []
    for block in blocks:
        name, _, number = block.split("\n")
        names.append(name.removeprefix("event: "))
        numbers.append(int(number.removeprefix("id: ")))
    assert numbers == sorted({*numbers})
    assert names[-1] == "done"
    assert [each for each in dict.fromkeys(names) if each != "progress"] == ["keyword_matches", "selected", "token", "done"]
    half = len(blocks) // 2
    again = events(served, job, Last_Event_ID=str(numbers[half])).read().decode().split("\n\n")
    kept = {"token", "selected", "done"}
    assert [each for each in again if each.split("\n")[0].removeprefix("event: ") in kept] == [
        each for each, name in zip(blocks[half + 1 :], names[half + 1 :], strict=True) if name in kept
    ]
    assert events(served, job, Last_Event_ID="no number").read().count(b"event: done") == 1


def test_a_question_of_the_page_runs_on_when_nobody_listens_and_is_stopped_by_its_job(smollm2: Path, folder: Path) -> None:
    with live(pair(smollm2), [str(folder / "log.txt")]) as server:
        job = asked(server, settings={"max_tokens": 400, "allow_unsupported": True})
        response = events(server, job)
        assert next(events_of(response))
        response.close()
        time.sleep(1.5)
        assert not server.desk.job(job).cancellation.requested
        assert server.send("POST", f"/page/stop/{job}", "").status == 204
        assert list(events_of(events(server, job)))[-1][0] == "stopped"


def test_an_answer_is_kept_for_a_while(served: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    job = asked(served, preset="fast", settings={})
    assert dict(events_of(events(served, job)))["done"]["typed"] == QUESTION
    monkeypatch.setattr(desk, "KEPT_SECONDS", 0.0)
    assert served.get(f"/page/events/{job}")[0] == 404


def test_what_is_not_there_is_said_in_a_line(served: Live) -> None:
    for path, status in {
        "/page/events/nobody": 404,
        "/page/save/nobody": 404,
        "/page/conversation?job=nobody": 404,
        "/page/conversation": 400,
        "/page/text?at=-1": 400,
        "/page/text?at=%3Cb%3E": 400,
        "/page/text?at=99999999999999999999": 400,
        "/page/text?documents=nobody": 404,
        "/page/text?documents=/etc/passwd": 404,
    }.items():
        found, record = served.get(path)
        assert (found, record["schema"]) == (status, "fbrag.error/1"), path
        assert "\n" not in record["error"]["message"]
    assert served.post("/page/stop/nobody", "")[0] == 404
    assert served.post("/page/ask", {"question": " "})[0] == 400


def test_a_document_that_went_away_is_an_error_of_its_question(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "a <b>.txt"
    path.write_text(SEALED + WATCH * 10)
    model = parrot(tmp_path / "model.gguf", "Tobias")
    with live(pair(model), [str(path)]) as server:
        path.unlink()
        name, record = ask(server)[-1]
        assert name == "error"
        assert "a <b>.txt" in record["message"]
        assert record["code"] == "doc_not_found"


def test_how_much_is_read_of_a_folder_is_said_meanwhile(tmp_path: Path) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()
    for i in range(1500):
        (folder / f"{i}.txt").write_text(f"Letter {i}. {WATCH * 40}")
    with live(pair(parrot(tmp_path / "model.gguf", "Tobias")), [str(folder)]) as server:
        found = lines(server)
        said = [each.pop("reading") for each in found if "reading" in each]
        assert any(re.fullmatch(r"reading documents: [\d,]+ of 1,500 files", each) for each in said)
        assert found[len(said)]["n_chunks"] == 3000
        assert not any(each.get("reading") for each in lines(server))


def test_a_document_that_cannot_be_read_is_said_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(SEALED)
    with live(pair(parrot(tmp_path / "model.gguf", "Tobias")), [str(path)]) as server:
        path.unlink()
        (line,) = lines(server)
        assert "log.txt" in line["error"]["message"]


def test_a_scan_and_a_picture_that_cannot_be_read_say_what_they_need_without_a_command(tmp_path: Path, without_ocr: None) -> None:
    (tmp_path / "scan.pdf").write_bytes(pdf_of_contents(DRAWN))
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
    (tmp_path / "log.pdf").write_bytes(pdf_of_contents(shown(SEALED.encode()), DRAWN))
    needed = "who runs fbrag on this machine can install OCR (docs/install.md)"
    with live(pair(parrot(tmp_path / "model.gguf", "Tobias")), [str(path) for path in sorted(tmp_path.glob("*.p*"))]) as server:
        for name in ("scan.pdf", "photo.png"):
            error = lines(server, id_of(server, name))[-1]["error"]
            assert error["hint"] == needed
        done = dict(ask(server, id_of(server, "log.pdf")))["done"]
        (warning,) = (each for each in done["warnings"] if "log.pdf" in each)
        assert warning.endswith(f"log.pdf: page 2 is scanned and not read; {needed}")
