"""The HTTP interface of the server, as a program meets it: real requests, real models."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from fbrag_cli.errors import EXIT_CODES
from fbrag_cli.serving.door import Door
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.storage.cache import Cache
from tests.conftest import INQUIRY, Run
from tests.generation.tiny_gguf import Tiny
from tests.servers import Handler, Loopback, stuck

pytest.importorskip("uvicorn", reason="needs Starlette and uvicorn: pip install -e '.[test]'")

from tests.serving.live_server import PATIENCE, Live, events_of, live, pair

QUESTION = "Where was the anchor that lost its fluke forged?"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model, which answers nonsense at once."""
    return Tiny(weights=0.3, context=65_536).write(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("papers")
    (found / "inquiry.txt").write_bytes(INQUIRY.read_bytes())
    (found / "lamp.txt").write_text("The lamp of the Skarn Light was made in Brackness by Ada Quill.\n")
    return found


@pytest.fixture(scope="module")
def served(tiny: Path, folder: Path) -> Iterator[Live]:
    with live(pair(tiny), [str(folder / "inquiry.txt"), str(folder)], parallel=2) as server:
        yield server


def id_of(server: Live, name: str) -> str:
    return str(next(each["id"] for each in server.get("/v1/documents")[1]["documents"] if name.endswith(each["name"])))


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    """An answer without what two runs differ in: seconds, memory, and what was cached."""
    for stage in record["stages"]:
        stage["seconds"] = stage["first_token_seconds"] = 0
    return record | {"memory": None, "cached": None}


def test_an_answer_is_that_of_the_command_line(folder: Path, tiny: Path, fbrag: Run) -> None:
    document = str(folder / "inquiry.txt")
    with live(pair(tiny), [document]) as server:
        found = server.ask(QUESTION, settings={"samples": 2, "recall": 3, "max-tokens": 20})
    options = ["--small", tiny, "--large", tiny, "--samples", 2, "--set", "recall=3", "--max-tokens", 20]
    run = fbrag("ask", document, QUESTION, "--json", "--no-cache", *options)
    assert comparable(found) == comparable(json.loads(run.stdout))


def test_events_come_in_their_order(served: Live, folder: Path) -> None:
    found = served.events(QUESTION, documents=[id_of(served, "inquiry.txt")], settings={"samples": 2, "max_tokens": 30})
    names = [each["event"] for each in found if each["event"] != "progress"]
    assert list(dict.fromkeys(names)) == ["keyword_matches", "sample", "selected", "token", "checked", "done"]
    assert names.count("sample") == 2
    by_name = {each["event"]: each for each in found}
    assert all(each["schema"] == "fbrag.event/1" for each in found if each["event"] != "done")
    done = by_name["done"]
    assert done["schema"] == "fbrag.answer/1"
    assert "".join(each["text"] for each in found if each["event"] == "token").strip() == (
        done["answer"] or done["unsupported_answer"]
    )
    (best,) = (each for each in done["sources"] if each["rank"] == 1)
    assert (by_name["selected"]["sources"][0]["chunk"], by_name["selected"]["sources"][0]["id"]) == (best["chunk"], None)
    assert by_name["keyword_matches"]["chunks"][0]["document"] == str(folder / "inquiry.txt")
    assert by_name["keyword_matches"]["chunks"][0]["backward_score"] > 0
    assert by_name["checked"]["status"] == done["status"]
    samples = [each for each in found if each["event"] == "sample"]
    assert [each["answer"] for each in samples] == [each["answer"] for each in done["samples"]]
    assert by_name["progress"]["label"]


def test_a_selection_is_explained(served: Live) -> None:
    body = {"question": QUESTION, "documents": [id_of(served, "inquiry.txt")], "find": "property of Mrs. Lavinia Goss"}
    status, record = served.post("/v1/explain", body)
    assert status == 200
    assert record["schema"] == "fbrag.explanation/1"
    assert sum(each["contains_text"] for each in record["chunks"]) == 1


def test_all_that_is_served_is_asked_without_a_name(served: Live) -> None:
    record = served.ask("Who made the lamp?", settings={"method": "vanilla", "allow_unsupported": True, "max_tokens": 3})
    assert any(each["path"].endswith("lamp.txt") for each in record["documents"])
    assert record["method"]["name"] == "vanilla"


def test_more_is_read_for_the_same_question(served: Live) -> None:
    asked = {"documents": [id_of(served, "inquiry.txt")], "settings": {"method": "vanilla", "select": 2, "max_tokens": 2}}
    assert len(served.ask(QUESTION, **asked)["sources"]) == 2
    assert len(served.ask(QUESTION, **asked, more=2)["sources"]) == 8


def test_a_place_is_read(served: Live, folder: Path) -> None:
    lines = INQUIRY.read_text().split("\n")
    id = id_of(served, "inquiry.txt")
    status, record = served.get(f"/v1/source?document={id}&start_line=390&end_line=391")
    assert (status, record["text"]) == (200, "\n".join(lines[389:391]))
    assert (record["start_line"], record["end_line"], record["lines"], record["truncated"]) == (390, 391, len(lines), False)
    whole = served.get(f"/v1/source?document={id}")[1]
    assert len(whole["text"]) == 20_000
    assert whole["truncated"]
    part = served.get(f"/v1/source?document={folder}/lamp.txt&start_char=4&end_char=8")[1]
    assert part["text"] == "lamp"
    for wrong in ("start_line=0", "start_line=9&end_line=8", "start_line=99999", "start_line=x", "page=1", "end_char=-1"):
        status, record = served.get(f"/v1/source?document={id}&{wrong}")
        assert (status, record["error"]["code"]) == (400, "usage"), wrong
    assert served.get("/v1/source")[0] == served.get("/v1/source?document=")[0] == 400


def test_struck_out_text_is_read_for_a_question_that_asks_for_it(tiny: Path, tmp_path: Path) -> None:
    page = tmp_path / "fee.html"
    page.write_text("<!doctype html><p>The yearly fee is <del>120 euros</del> 150 euros.</p>")
    with live(pair(tiny), [str(page)]) as server:
        asked = {"settings": {"method": "vanilla", "max_tokens": 2}}
        texts = [server.ask("How high is the fee?", **asked, markup=each)["sources"][0]["text"] for each in (False, True, False)]
        plain, marked = "The yearly fee is 150 euros.", "The yearly fee is ~~120 euros~~ 150 euros."
        assert texts == [plain, marked, plain]
        assert server.get(f"/v1/source?document={page}")[1]["text"] == plain
        assert server.get(f"/v1/source?document={page}&markup=true")[1]["text"] == marked
        assert server.get(f"/v1/source?document={page}&markup=yes")[0] == 400


def test_only_what_is_served_can_be_named(served: Live, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("The key is under the stone.")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    named = (
        "/etc/hostname",
        str(tmp_path / "secret.txt"),
        str(folder / "link.txt"),
        "../x",
        "-",
        "a\0b",
        "none.txt",
        "https://x.y/z",
    )
    for name in named:
        status, record = served.post("/v1/ask", {"question": "Where is the key?", "documents": [name]})
        assert (status, record["error"]["code"]) in ((404, "doc_not_found"), (400, "usage")), name
        assert "key" not in json.dumps(record["error"]["message"].replace(str(tmp_path), ""))
    (folder / "link.txt").unlink()


def test_a_document_has_one_name_everywhere(served: Live, folder: Path) -> None:
    listed = served.get("/v1/documents")[1]["documents"]
    assert [each["name"] for each in listed] == ["inquiry.txt", folder.name]
    assert [each["id"] for each in served.get("/v1/models")[1]["data"]] == ["inquiry.txt", folder.name]
    for name in ("inquiry.txt", f"{folder.name}/lamp.txt", str(folder / "lamp.txt"), "lamp.txt"):
        last = name.rpartition("/")[2]
        assert served.get(f"/v1/source?document={name}&end_line=1")[1]["document"].endswith(last)
        found = served.ask("Who?", documents=[name], preset="fast", settings={"max_tokens": 2})
        assert {Path(each["document"]).name for each in found["sources"]} == {last}
        assert served.get(f"/v1/models/{name}")[0] == 200
        status, record = served.post("/v1/chat/completions", CHAT | {"model": name, "max_tokens": 2})
        assert (status, record["model"]) == (200, name)


def test_a_name_that_is_not_there_brings_those_that_are(served: Live, folder: Path) -> None:
    error = served.post("/v1/ask", {"question": "Who?", "documents": ["inqiry.txt"]})[1]["error"]
    assert (error["message"], error["hint"]) == ("there is no document inqiry.txt", "did you mean inquiry.txt?")
    error = served.post("/v1/ask", {"question": "Who?", "documents": ["x"]})[1]["error"]
    assert "inquiry.txt" in error["hint"]
    status, record = served.get("/v1/source?document=/etc/hostname")
    assert status == 404
    assert record["error"]["message"].startswith("/etc/hostname is not in a folder that may be read")
    status, record = served.post("/v1/ask", {"question": "Who?", "documents": [f"{folder}/none.txt"]})
    assert (status, "lamp.txt" in record["error"]["hint"]) == (404, True)


@pytest.mark.parametrize(("method", "path", "hint"), [("GET", "/v1/ask", "POST"), ("PUT", "/v1/documents", "GET or POST")])
def test_another_method_is_named(served: Live, method: str, path: str, hint: str) -> None:
    response = served.send(method, path)
    error = json.loads(response.read())["error"]
    assert (response.status, error["hint"]) == (405, f"use {hint}")


def test_an_upload_is_removed_and_what_is_served_is_not(served: Live) -> None:
    first, second = (upload(served, "note.txt", f"Note number {n}.".encode())[1]["documents"][0]["name"] for n in range(2))
    assert (first, second) == ("note.txt", "note.txt (2)")
    assert served.ask("Which?", documents=[second], preset="fast", settings={"max_tokens": 2})["sources"]
    for name in (first, second):
        assert served.send("DELETE", f"/v1/documents/{quote(name)}").status == 204
        assert served.send("DELETE", f"/v1/documents/{quote(name)}").status == 404
    assert served.send("DELETE", "/v1/documents/inquiry.txt").status == 400
    assert not [each for each in served.get("/v1/documents")[1]["documents"] if each["kind"] == "upload"]
    assert upload(served, "scan.pdf", b"%PDF-1.7 and no more")[0] == 422
    assert not [each for each in served.get("/v1/documents")[1]["documents"] if each["kind"] == "upload"]


def test_a_folder_of_the_door_can_be_named(tiny: Path, folder: Path) -> None:
    with live(pair(tiny), [], door=Door.to([str(folder)])) as server:
        status, record = server.post("/v1/ask", {"question": "Who?"})
        assert (status, record["error"]["code"]) == (400, "usage")
        found = server.ask("Who?", documents=[str(folder / "lamp.txt")], preset="fast", settings={"max_tokens": 2})
        assert found["sources"][0]["document"].endswith("lamp.txt")


def test_a_model_that_is_installed_can_be_chosen(served: Live, smollm2: Path) -> None:
    models = {"large": "smollm2-135m", "small": None}
    found = served.ask("Who made the lamp?", models=models, preset="fast", settings={"select": 1, "max_tokens": 3})
    assert found["models"]["large"]["name"] == "smollm2-135m"
    status, record = served.post("/v1/ask", {"question": "Who?", "models": {"large": "llama-3.1-70b"}})  # nobody has it here
    assert (status, "smollm2-135m" in record["error"]["hint"]) == (400, True)


WRONG = [
    {},
    {"question": ""},
    {"question": 5},
    {"question": None},
    {"question": "x" * 10_001},
    {"question": "?"},
    {"question": "Who\0?"},
    {"question": "Who?", "depth": 3},
    {"question": "Who?", "documents": "inquiry.txt"},
    {"question": "Who?", "documents": []},
    {"question": "Who?", "documents": [3]},
    {"question": "Who?", "preset": "slow"},
    {"question": "Who?", "preset": ["fast"]},
    {"question": "Who?", "settings": []},
    {"question": "Who?", "settings": {"sample": 3}},
    {"question": "Who?", "settings": {"samples": "three"}},
    {"question": "Who?", "settings": {"samples": True}},
    {"question": "Who?", "settings": {"samples": 65}},
    {"question": "Who?", "settings": {"samples": [[]]}},
    {"question": "Who?", "settings": {"method": "nothing"}},
    {"question": "Who?", "settings": {"method": "vanilla"}, "preset": "fast"},
    {"question": "Who?", "settings": {"instructions": "@/etc/hostname"}},
    {"question": "Who?", "settings": {"prompts": "/etc/hostname"}},
    {"question": "Who?", "settings": {"fit_rag": "/etc"}},
    {"question": "Who?", "models": "small"},
    {"question": "Who?", "models": {"medium": "x"}},
    {"question": "Who?", "models": {"large": "/etc/passwd"}},
    {"question": "Who?", "models": {"large": "http://10.0.0.1/v1#x"}},
    {"question": "Who?", "models": {"large": 3}},
    {"question": "Who?", "conversation": 3},
    {"question": "Who?", "conversation": "x" * 101},
    {"question": "Who?", "find": "x"},
    {"question": "Who?", "more": 10},
    {"question": "Who?", "more": "2"},
    {"question": "Who?", "more": 1, "settings": {"method": "closed-book"}},
    [],
    "Who?",
    None,
]


@pytest.mark.parametrize("body", WRONG, ids=lambda body: json.dumps(body)[:60])
def test_what_is_not_accepted_is_one_line(served: Live, body: object) -> None:
    status, record = served.post("/v1/ask", json.dumps(body))
    assert status == 400
    error = record["error"]
    assert (record["schema"], error["code"]) == ("fbrag.error/1", "usage")
    assert "\n" not in error["message"]
    assert len(error["message"]) < 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b'{"question": "Who?", "settings": {"temperature": NaN}}', 400),
        (b'{"question": "Who?", "settings": {"temperature": 1e999}}', 400),
        (b'{"question": "Who?", "settings": {"seed": ' + b"9" * 5000 + b"}}", 400),
        (b'{"question": ' + b"[" * 500 + b"]" * 500 + b"}", 400),
        (b'{"question": "Who?", "settings": {"samples": ' + b"[" * 500 + b"]" * 500 + b"}}", 400),
        (b"[" * 100_000, 400),
        (b'{"question": "' + b"x" * 10_000_000 + b'"}', 413),
    ],
    ids=["empty", "open", "utf16", "nan", "huge", "digits", "deep", "deep-setting", "deeper", "long"],
)
def test_hostile_json_is_refused(served: Live, body: bytes, status: int) -> None:
    found, record = served.post("/v1/ask", body)
    assert found == status, record
    assert record["schema"] == "fbrag.error/1"


def test_halves_of_characters_are_replaced(served: Live) -> None:
    body = b'{"question": "Who \\ud800 lit the lamp?", "preset": "fast", "settings": {"max_tokens": 2}}'
    status, record = served.post("/v1/ask", body)
    assert (status, record["question"]) == (200, "Who \ufffd lit the lamp?")
    assert served.post("/v1/ask", b'{"question": "Who?", "documents": ["\\ud800"]}')[0] == 404


def test_each_code_has_a_status() -> None:
    from fbrag_cli.errors import FbragError
    from fbrag_cli.serving.failure import status_of

    found = {code: status_of(FbragError(code, "")) for code in EXIT_CODES}
    assert set(found.values()) == {400, 404, 413, 422, 429, 500, 503}
    assert {found[code] for code in ("model_missing", "out_of_memory", "timeout")} == {503}
    assert {found[code] for code in ("doc_unreadable", "pdf_no_text", "unsupported_format", "doc_empty")} == {422}


# -- uploads ---------------------------------------------------------------------------------------------------------------


def upload(server: Live, name: str, data: bytes) -> tuple[int, Any]:
    from urllib.parse import quote

    return server.post(f"/v1/documents?name={quote(name)}", data)


def test_an_upload_is_asked_and_nothing_of_it_is_on_the_disk(tiny: Path, folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    secret = b"The bell of Ironhythe weighs nine tons, says Zebediah Quork.\n"
    with live(pair(tiny), [str(folder / "lamp.txt")], cache=Cache(cache)) as server:
        status, record = upload(server, "bell.txt", secret)
        (entry,) = record["documents"]
        assert (status, entry["name"], entry["kind"]) == (201, "bell.txt", "upload")
        assert upload(server, "bell.txt", secret)[1]["documents"] == [entry]  # once
        alone = server.ask("Who weighs the bell?", documents=[entry["id"]], settings={"max_tokens": 4})
        assert [each["document"] for each in alone["sources"]] == ["bell.txt"]
        both = server.ask("Who weighs the bell?", documents=[entry["id"], id_of(server, "lamp.txt")], settings={"max_tokens": 4})
        assert [each["path"].rpartition("/")[2] for each in both["documents"]] == ["bell.txt", "lamp.txt"]
        place = server.get(f"/v1/source?document={entry['id']}&start_line=1&end_line=1")[1]
        assert place["text"] == secret.decode().strip()
        assert server.get("/v1/source?document=bell.txt")[1]["text"] == secret.decode()
    held = [each for each in cache.rglob("*") if each.is_file()]
    assert not [each for each in held if b"Quork" in each.read_bytes()]


def test_an_upload_of_any_kind_is_read_as_by_ask(served: Live) -> None:
    page = b"<html><body><h1>Bells</h1><p>The bell of Ironhythe.</p></body></html>"
    status, record = upload(served, "bells.html", page)
    assert status == 201
    assert "<p>" not in served.get(f"/v1/source?document={record['documents'][0]['id']}")[1]["text"]
    for name, data, code in (
        ("empty.txt", b"", "doc_empty"),
        ("broken.pdf", b"%PDF-1.7 nothing", "doc_unreadable"),
        ("sound.mp3", b"ID3\x04" + b"\0" * 100, "unsupported_format"),
    ):
        status, record = upload(served, name, data)
        assert (status, record["error"]["code"]) == (422, code)
    assert served.post("/v1/documents", b"text")[0] == 400


def test_a_hostile_name_is_text(served: Live) -> None:
    names = (
        "../../etc/passwd",
        "/etc/passwd",
        "<script>alert(1)</script>.txt",
        "a\nb.txt",
        "\u202egnp.txt",
        "-",
        "x" * 5000 + ".txt",
        "\0",
    )
    for name in names:
        status, record = upload(served, name, f"A text named {name!r:.80}.".encode())
        assert status == 201, record
        (entry,) = record["documents"]
        assert entry["name"].isprintable()
        assert "/" not in entry["name"]
        assert len(entry["name"]) <= 200
        text = served.get(f"/v1/source?document={entry['id']}")[1]["text"]
        assert text.startswith("A text named")


def test_uploads_are_bounded(served: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    from fbrag_cli.serving import library
    from fbrag_cli.serving.http import documents

    monkeypatch.setattr(documents, "MOST_BYTES", 1000)
    status, record = upload(served, "long.txt", b"word " * 1000)
    assert (status, record["error"]["code"]) == (413, "too_large")
    monkeypatch.setattr(library, "MOST_UPLOADS", 3)
    ids = [upload(served, f"{i}.txt", f"Text number {i}.".encode())[1]["documents"][0]["id"] for i in range(5)]
    kept = [each["id"] for each in served.get("/v1/documents")[1]["documents"] if each["kind"] == "upload"]
    assert kept == ids[2:]
    status, record = served.post("/v1/ask", {"question": "Which?", "documents": [ids[0]]})
    assert (status, record["error"]["code"]) == (404, "doc_not_found")


# -- time, and many clients --------------------------------------------------------------------------------------------------


def test_two_questions_at_once_get_their_own_answers(served: Live, folder: Path) -> None:
    asked = {"inquiry.txt": QUESTION, "lamp.txt": "Who made the lamp?"}
    found: dict[str, Any] = {}

    def ask(name: str) -> None:
        found[name] = served.ask(asked[name], documents=[str(folder / name)], settings={"max_tokens": 40})

    threads = [threading.Thread(target=ask, args=(name,)) for name in asked]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    for name, question in asked.items():
        assert found[name]["question"] == question
        assert {each["document"] for each in found[name]["sources"]} == {str(folder / name)}


def test_two_questions_run_side_by_side(smollm2: Path, folder: Path) -> None:
    with live(pair(smollm2), [str(folder)], parallel=2) as server:
        long = server.send("POST", "/v1/ask", ASKED, Accept="text/event-stream")
        events = events_of(long)
        assert any(each["event"] == "progress" and each["stage"] == "forward" and each["total"] for each in events)
        short = {"documents": [str(folder / "lamp.txt")], "settings": {"samples": 2, "forward_tokens": 10, "max_tokens": 10}}
        answer = server.ask("Who made the lamp?", **short)
        assert {each["document"] for each in answer["sources"]} == {str(folder / "lamp.txt")}
        assert server.desk.n_running == 1  # the other one is not done
        long.close()


def test_a_document_that_cannot_be_read_is_the_error_of_ask(tiny: Path, tmp_path: Path) -> None:
    for name, data in (("broken.pdf", b"%PDF-1.7 nothing"), ("gone.txt", b"A bell."), ("empty.txt", b"")):
        (tmp_path / name).write_bytes(data)
    names = [str(tmp_path / name) for name in ("broken.pdf", "gone.txt", "empty.txt")]
    with live(pair(tiny), names) as server:
        (tmp_path / "gone.txt").unlink()
        for name, code, status in zip(names, ("doc_unreadable", "doc_not_found", "doc_empty"), (422, 404, 422), strict=True):
            found, record = server.post("/v1/ask", {"question": "Who?", "documents": [id_of(server, name)]})
            assert (found, record["error"]["code"]) == (status, code)
            (*_, last) = server.events("Who?", documents=[id_of(server, name)])
            assert last == record


def test_answers_to_programs_push_no_answer_off_the_page(tiny: Path, folder: Path) -> None:
    fast = {"preset": "fast", "settings": {"select": 1, "max_tokens": 2}}
    with live(pair(tiny), [str(folder / "lamp.txt")]) as server:
        job = server.post("/page/ask", {"question": "Who made the lamp?", **fast})[1]["job"]
        for i in range(20):
            server.events(f"Who made lamp {i}?", **fast)
            server.ask(f"Who lit lamp {i}?", **fast)
        assert b"event: done" in server.send("GET", f"/page/events/{job}").read()


def test_replies_are_kept_while_other_questions_run(tiny: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with live(pair(tiny), [str(folder / "lamp.txt")], parallel=2) as server:
        running: list[int] = []
        monkeypatch.setattr(server.desk.session, "forget", lambda: running.append(server.desk.n_running))
        questions = [f"Who made lamp {n}?" for n in range(4)]
        jobs = [server.post("/page/ask", {"question": each, "settings": {"max_tokens": 4}})[1]["job"] for each in questions]
        for job in jobs:
            assert b"event: done" in server.send("GET", f"/page/events/{job}").read()
    assert set(running) == {0}


def test_a_document_that_changes_is_read_again(tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "bell.txt"
    path.write_text("The bell weighs nine tons.")
    fast = {"preset": "fast", "settings": {"max_tokens": 2}}
    with live(pair(tiny), [str(path)]) as server:
        assert server.ask("What does the bell weigh?", **fast)["sources"][0]["text"] == path.read_text()
        assert "text" in server.ask("What does it weigh?", **fast)["cached"]
        path.write_text("The bell weighs eleven tons.")
        assert server.ask("What does the bell weigh?", **fast)["sources"][0]["text"] == path.read_text()


ASKED = json.dumps({"question": QUESTION}).encode()
CHAT = {"model": INQUIRY.name, "messages": [{"role": "user", "content": QUESTION}]}


@pytest.fixture
def silent() -> Iterator[Loopback]:
    """A server of models that never answers."""
    with Loopback() as server:
        server.default = stuck()
        yield server


def served_by(models: Loopback) -> ModelSettings:
    return ModelSettings(small=models.address, large=models.address)


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        ("/v1/ask", ASKED, {}),
        ("/v1/ask", ASKED, {"Accept": "text/event-stream"}),
        ("/v1/explain", ASKED, {}),
        ("/v1/chat/completions", json.dumps(CHAT), {}),
        ("/v1/chat/completions", json.dumps({**CHAT, "stream": True}), {}),
    ],
)
def test_a_client_that_goes_away_stops_its_question(
    silent: Loopback, path: str, body: bytes | str, headers: dict[str, str]
) -> None:
    begun, gone = threading.Event(), threading.Event()

    def endless(handler: Handler, sent: dict[str, Any]) -> None:
        handler.begin()
        begun.set()
        with suppress(OSError):
            while not handler.server.over.wait(0.05):
                handler.piece("and ")
            return
        gone.set()

    silent.default = endless
    with live(served_by(silent), [str(INQUIRY)]) as server, closing(HTTPConnection("127.0.0.1", server.port)) as client:
        client.request("POST", path, body, headers)
        assert begun.wait(PATIENCE)
        assert client.sock
        client.sock.close()
        assert gone.wait(PATIENCE), "the model still writes"


def test_while_a_model_is_silent_comments_keep_the_connection(silent: Loopback) -> None:
    with live(served_by(silent), [str(INQUIRY)]) as server:
        response = server.send("POST", "/v1/ask", ASKED, Accept="text/event-stream")
        comments = (line for line in response if line.startswith(b":"))
        assert all(next(comments) for _ in range(3))
        response.close()


def test_what_a_model_reads_is_told_a_few_times_a_second(smollm2: Path) -> None:
    with live(pair(smollm2), [str(INQUIRY)]) as server:
        began = time.monotonic()
        found = server.events(QUESTION, settings={"recall": 1, "select": 1, "samples": 1, "max_tokens": 4})
        assert [each["event"] for each in found].count("progress") <= 4 * (time.monotonic() - began) + 10


def test_past_the_places_of_the_queue_a_client_waits(silent: Loopback) -> None:
    with live(served_by(silent), [str(INQUIRY)], places=1) as server:
        running = [server.send("POST", "/v1/ask", ASKED, Accept="text/event-stream") for _ in range(2)]
        response = server.send("POST", "/v1/ask", ASKED)
        assert response.status == 429
        assert 1 <= int(response.headers["Retry-After"]) <= 600
        assert json.loads(response.read())["error"]["code"] == "busy"
        assert next(events_of(running[1]))["event"] in ("progress", "keyword_matches")  # the one that waits has read its document
        for each in running:
            each.close()


def test_a_question_has_its_time(silent: Loopback) -> None:
    with live(served_by(silent), [str(INQUIRY)], limit=1.0) as server:
        status, record = server.post("/v1/ask", ASKED)
        assert (status, record["error"]["code"]) == (503, "timeout")


def test_the_end_of_the_desk_ends_its_questions(silent: Loopback) -> None:
    with live(served_by(silent), [str(INQUIRY)]) as server:
        response = server.send("POST", "/v1/ask", ASKED, Accept="text/event-stream")
        next(events_of(response))
        server.desk.close()
        *_, last = events_of(response)
        assert last["error"]["code"] == "timeout"
        assert not [each for each in threading.enumerate() if each.name.startswith("job ")]


def test_a_question_is_understood_from_those_before_it(served: Live, folder: Path) -> None:
    about = {"documents": [str(folder / "inquiry.txt")], "preset": "fast", "settings": {"max_tokens": 5}, "conversation": "tab-1"}
    served.ask(QUESTION, **about)
    found = served.events("And who paid for it?", **about)
    (understood,) = [each for each in found if each["event"] == "resolved_question"]
    assert understood["question"] != "And who paid for it?"
    assert (found[-1]["question"], found[-1]["resolved_question"]) == ("And who paid for it?", understood["question"])
    other = served.events("And who paid for it?", **{**about, "conversation": "tab-2"})
    assert not [each for each in other if each["event"] == "resolved_question"]


def test_a_conversation_about_an_upload_leaves_nothing_on_the_disk(tiny: Path, folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"

    def n_replies() -> int:
        return sum(each.is_file() for each in cache.rglob("samples/**/*"))

    with live(pair(tiny), [str(folder / "inquiry.txt")], cache=Cache(cache)) as server:
        about = {"settings": {"max_tokens": 5}, "conversation": "tab-1"}
        uploaded = upload(server, "bell.txt", b"The bell of Ironhythe weighs nine tons, says Zebediah Quork.\n")[1]["documents"][
            0
        ]["id"]
        served = id_of(server, "inquiry.txt")
        server.ask("Who weighs the bell?", documents=[uploaded], **about)
        server.ask("And who paid for it?", documents=[served], **about)
        assert n_replies() == 0
        server.ask("And who paid for it?", documents=[served], settings={"max_tokens": 5})
        assert n_replies() > 0
