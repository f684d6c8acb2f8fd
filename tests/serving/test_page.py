"""The live page over HTTP: documents in windows, and answers as fragments in which nothing is markup that a document brought."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

pytest.importorskip("uvicorn", reason="needs Starlette and uvicorn: pip install -e '.[test]'")

from fbrag_cli.progress import Listener
from fbrag_cli.render.html import short_names
from fbrag_cli.serving import desk
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.text.printable import one_line, printable
from tests.generation.parrot_gguf import END, Parrot, saying
from tests.generation.test_reasoning import as_tokens
from tests.render.test_html import HOSTILE, WATCH, _Page
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


def window(server: Live, first: int, end: int, *documents: str, answer: str = "") -> str:
    query = urlencode({"documents": documents, "first": first, "end": end} | ({"answer": answer} if answer else {}), doseq=True)
    return html_of(server, f"/page/chunks?{query}")


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
    for entry in served.desk.library.entries():
        assert entry.id in html_of(served, "/")
    for path, kind in (("/page/live.js", "text/javascript"), ("/page/live.css", "text/css")):
        response = served.send("GET", path)
        assert response.headers["Content-Type"].startswith(kind)
        assert not re.search(rb"(https?:)?//[a-z0-9.]+\.[a-z]", response.read())


def test_windows_give_the_whole_text_and_nothing_of_it_is_markup(served: Live) -> None:
    for entry in served.desk.library.entries():
        corpus = served.desk.library.collection([entry.id], Listener()).corpus
        outline = served.get(f"/page/outline?documents={entry.id}")[1]
        assert outline["n_chunks"] == len(corpus.chunks)
        assert [each["name"] for each in outline["documents"]] == [
            one_line(each) for each in short_names([each.name for each in corpus.documents])
        ]
        windows = [window(served, at, at + 2, entry.id) for at in range(0, len(corpus.chunks), 2)]
        html = "".join(windows)
        assert_is_text(html)
        assert _Page(html).chunks == [printable(chunk.text) for chunk in corpus.chunks]
        assert _Ids(html).ids == [f"c{n + 1}" for n in range(len(corpus.chunks))]
    assert window(served, 500, 600) == ""


def test_a_folder_has_its_files_and_what_could_not_be_read(served: Live) -> None:
    found = served.get(f"/page/outline?documents={id_of(served, 'letters')}")[1]
    assert len(found["documents"]) == 12
    assert len(found["unread"]) == 1
    assert "broken.pdf" in found["unread"][0]
    every = served.get("/page/outline")[1]
    assert len(every["documents"]) == 14


def test_a_hostile_document_is_asked_and_is_text_everywhere(served: Live) -> None:
    (name,) = (each.id for each in served.desk.library.entries() if "script" in each.name)
    job = asked(served, name, question=f"{QUESTION} {HOSTILE}")
    found = list(events_of(events(served, job)))
    for _, record in found:
        for key, value in record.items():
            if key.endswith("html"):
                assert_is_text(value)
            assert not isinstance(value, str) or not set(value) & set("\x1b\x9b\x07\x00\u202e\u200b")
    assert_is_text(window(served, 0, 50, name, answer=job))
    saved = _Page(html_of(served, f"/page/save/{job}"))
    assert not saved.tags & {"script", "img", "iframe", "link"}
    assert "<script>alert('name')" in saved.text
    assert "alert(" not in "".join(str(each) for each in _Ids(html_of(served, "/")).scripts)


def test_a_folder_is_asked_and_its_file_is_named(served: Live) -> None:
    letters = id_of(served, "letters")
    done = dict(ask(served, letters))["done"]
    files = served.get(f"/page/outline?documents={letters}")[1]["documents"]
    (at,) = done["marked"]
    (owner,) = (each["name"] for each in files if each["first"] <= at < each["first"] + len(each["chars"]))
    assert owner.endswith("07.txt")
    assert "07.txt" in done["sources_html"]


def test_presets_and_models_are_those_that_are_there(served: Live) -> None:
    log = id_of(served, "log.txt")
    fast = dict(ask(served, log, preset="fast", settings={}))
    assert fast["done"]["samples_html"] == ""
    status, record = served.post("/page/ask", {"question": QUESTION, "models": {"large": "/etc/passwd"}})
    assert (status, record["error"]["code"]) == (400, "usage")


def test_a_text_is_found_in_the_chunks_that_hold_it(served: Live) -> None:
    log = id_of(served, "log.txt")
    at = dict(ask(served, log))["done"]["marked"]
    text = quote("BOX was\n sealed")
    assert served.get(f"/page/find?documents={log}&text={text}")[1] == {"chunks": at, "n": 1}
    assert served.get(f"/page/find?documents={log}&text=%20")[1] == {"chunks": [], "n": 0}
    assert served.get(f"/page/find?documents={log}&text=nowhere")[1] == {"chunks": [], "n": 0}


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
        job = asked(server, settings={"max_tokens": 400, "answer_anyway": True})
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
        "/page/chunks?first=0&end=5&answer=nobody": 404,
        "/page/chunks?first=-1&end=5": 400,
        "/page/chunks?first=0&end=%3Cb%3E": 400,
        "/page/chunks?first=0&end=99999999999999999999": 400,
        "/page/outline?documents=nobody": 404,
        "/page/outline?documents=/etc/passwd": 404,
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
    for i in range(400):
        (folder / f"{i}.txt").write_text(f"Letter {i}. {WATCH * 40}")
    with live(pair(parrot(tmp_path / "model.gguf", "Tobias")), [str(folder)]) as server, ThreadPoolExecutor(1) as pool:
        outline, said = pool.submit(server.get, "/page/outline"), []
        while not outline.done():
            said.append(server.get("/page/reading")[1])
            time.sleep(0.01)  # requests without a pause would hold the interpreter's lock, which the reading needs
        assert outline.result()[1]["n_chunks"] == 800
        shares = [each["share"] for each in said if each["said"].startswith("reading the documents: ")]
        assert shares == sorted(shares)
        assert shares
        assert any(each["said"].endswith(" of 400 files") for each in said)
        assert server.get("/page/reading")[1] == {"said": "", "share": None}


def test_a_page_goes_on_with_the_text_that_it_was_told_of(tmp_path: Path) -> None:
    """A window has the positions of the outline; the next outline has the new text."""
    path = tmp_path / "log.txt"
    path.write_text(SEALED + WATCH * 80)
    with live(pair(parrot(tmp_path / "model.gguf", "Tobias")), [str(path)]) as server:
        before = server.get("/page/outline")[1]["n_chunks"]
        path.write_text("The log was rewritten. " * 400)
        assert SEALED.strip() in window(server, 0, 1)
        assert server.get("/page/outline")[1]["n_chunks"] != before
        assert "rewritten" in window(server, 0, 1)
