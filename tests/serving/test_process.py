"""The life of the server as its user meets it: it starts, is found, is stopped, and leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import zlib
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from fbrag_cli.version import version
from tests.conftest import INQUIRY
from tests.generation.tiny_gguf import Tiny
from tests.serving.running import Environment, Served, fbrag, serving, until, user_of

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")


@pytest.fixture
def user(clean_environment: Environment, tmp_path: Path) -> Environment:
    return user_of(clean_environment, tmp_path)


def test_it_listens_on_loopback_with_a_token_and_nothing_is_left(user: Environment) -> None:
    with serving(user) as served:
        assert served.ready["pid"] == served.process.pid
        assert served.ready["address"] == f"127.0.0.1:{served.port}"
        (file,) = map(Path, served.left())
        for each in (file, Path(served.ready["token_file"])):
            assert each.stat().st_mode & 0o777 == 0o600
            assert each.parent.stat().st_mode & 0o777 == 0o700
        assert file.name == f"serve-{served.port}.json"
        assert served.get("/healthz") == (200, {"status": "ok", "version": version()})
        assert served.end() == 143
        assert served.out == ""
        assert served.err == f"listening on {served.ready['url']}; programs send the token in {served.ready['token_file']}\n"
        assert not served.left()


def test_the_token_is_made_once(user: Environment) -> None:
    with serving(user, "--port", "0") as first, serving(user, "--port", "0") as second:
        assert first.token == second.token
        assert len(first.token) >= 40
        assert second.get("/v1/documents")[0] == 200


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGHUP", 143)])
def test_each_signal_ends_it(user: Environment, name: str, code: int) -> None:
    with serving(user, "--port", "0") as served:
        assert served.end(signal.Signals[name]) == code
        assert not served.left()


def test_status_says_what_each_does(user: Environment) -> None:
    none = fbrag(user, "serve", "status")
    assert (none.returncode, none.stdout, none.stderr) == (1, "", "no fbrag server is running\n")
    assert json.loads(fbrag(user, "serve", "status", "--json").stdout)["processes"] == []
    with serving(user, str(INQUIRY), "--port", "0") as served, serving(user, "--port", "0", command="ui") as page:
        processes = json.loads(fbrag(user, "serve", "status", "--json").stdout)["processes"]
        assert {each["pid"]: each["url"] for each in processes} == {
            each.process.pid: each.ready["url"] for each in (served, page)
        }
        (said,) = (each for each in processes if each["pid"] == served.process.pid)
        assert said["version"] == version()
        assert said["token_file"] == served.ready["token_file"]
        assert [each["name"] for each in said["documents"]] == [INQUIRY.name]
        assert said["questions"] == {"running": 0, "waiting": 0}
        shown = fbrag(user, "serve", "status")
        assert shown.returncode == 0
        assert f"address:   {served.ready['url']}\ntoken:     in {served.ready['token_file']}\n" in shown.stdout
        assert f"process:   {served.process.pid}, fbrag {version()}, since " in shown.stdout
        assert f"documents: 1 document ({INQUIRY.name})" in shown.stdout


def test_stop_ends_one_by_its_port(user: Environment) -> None:
    with serving(user, "--port", "0") as first, serving(user, "--port", "0") as second:
        which = fbrag(user, "serve", "stop")
        assert which.returncode == 2
        assert "2 processes serve, at the ports" in which.stderr
        stopped = fbrag(user, "serve", "stop", str(first.port))
        assert (stopped.returncode, stopped.stdout) == (0, "")
        assert stopped.stderr == f"fbrag serve (process {first.process.pid}) has ended\n"
        assert first.wait() == 143
        assert fbrag(user, "serve", "stop").returncode == 0
        assert second.wait() == 143
        assert not second.left()
    again = fbrag(user, "serve", "stop")
    assert (again.returncode, again.stderr) == (1, "no fbrag server is running\n")
    assert fbrag(user, "serve", "stop", "1").stderr == "no fbrag server is running at port 1\n"


def test_what_a_killed_one_left_is_cleaned_up(user: Environment) -> None:
    with serving(user) as killed:
        killed.end(signal.SIGKILL)
        (left,) = map(Path, killed.left())
        assert fbrag(user, "serve", "status").returncode == 1
        assert not left.exists()


def test_another_process_of_that_number_or_at_that_port_is_not_told_the_token(user: Environment, tmp_path: Path) -> None:
    told: list[bytes] = []
    with serving(user, "--port", "0") as served, socket.create_server(("127.0.0.1", 0)) as other:
        folder = Path(served.left()[0]).parent
        port = other.getsockname()[1]
        fake = {"pid": served.process.pid, "url": f"http://127.0.0.1:{port}/", "token_file": served.ready["token_file"]}
        (folder / f"serve-{port}.json").write_text(json.dumps(fake))
        (folder / "serve-1.json").write_text("{")
        other.settimeout(0.1)
        shown = fbrag(user, "serve", "status", "--json")
        assert [each["url"] for each in json.loads(shown.stdout)["processes"]] == [served.ready["url"]]
        with pytest.raises(TimeoutError):
            told.append(other.accept()[0].recv(1000))
        assert len(served.left()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such.txt"], "there is no file no-such.txt"),
        (["--allow", "no-such"], "there is no such folder"),
        (["--idle", "soon"], '--idle is "soon", expected a duration such as 90s, 15m, 2h or 30d, or never'),
        (["--idle", "0s"], '--idle is "0s", expected a duration such as 90s, 15m, 2h or 30d, or never'),
        (["--host", "no.such.host.invalid"], "no address of this machine"),
        (["--port", "0", "--token-file", "no-such"], "cannot be read"),
    ],
)
def test_what_cannot_be_served_is_an_error_before_anything_is(user: Environment, arguments: list[str], said: str) -> None:
    run = fbrag(user, "serve", *arguments)
    assert run.returncode in (2, 3)
    assert run.stdout == ""
    assert said in run.stderr


def test_without_a_screen_the_page_is_reached_by_ssh(user: Environment) -> None:
    away = {name: value for name, value in user.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}
    with serving({**away, "SSH_CONNECTION": "10.0.0.1 5000 10.0.0.2 22"}, "--port", "0", command="ui") as served:
        assert served.end(signal.SIGINT) == 130
        assert served.ready["url"] == f"http://127.0.0.1:{served.port}/"
        assert served.token not in json.dumps(served.ready)
        first, second = served.err.splitlines()
        assert first.startswith(f"serving the page until Ctrl-C: {served.ready['url']}?token=")
        assert served.token not in first
        assert f"ssh -L {served.port}:127.0.0.1:{served.port} " in second
        assert second.endswith("@10.0.0.2")


def test_a_port_that_is_taken(user: Environment) -> None:
    with serving(user, "--port", "0") as served:
        run = fbrag(user, "serve", "--port", str(served.port))
        assert run.returncode == 2
        assert f"127.0.0.1 port {served.port} cannot be listened on" in run.stderr


def test_without_the_extra_one_line_says_what_to_install(user: Environment, tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text("raise ModuleNotFoundError(name='uvicorn')")
    for command in ("serve", "ui"):
        run = fbrag({**user, "PYTHONPATH": f"{tmp_path}:{user['PYTHONPATH']}"}, command)
        assert run.returncode == 2
        assert run.stderr.startswith(f"error: fbrag {command} needs Starlette and uvicorn, which are not installed\nhint: ")


# -- with models -----------------------------------------------------------------------------------------------------------

QUESTION = {"question": "Where was the anchor that lost its fluke forged?"}


@pytest.fixture
def tiny(tmp_path: Path) -> list[str]:
    """The options of a pair of random models, which answer nonsense at once."""
    path = str(Tiny(weights=0.3, context=65_536).write(tmp_path / "tiny.gguf"))
    return ["--small", path, "--large", path]


def loaded(served: Served) -> list[str]:
    return [each["name"] for each in served.get("/process/status")[1]["models"]]


def events(served: Served, begun: Callable[[], object], **question: Any) -> list[tuple[str, Any]]:
    """The events of an answer. begun: called at the first one."""
    connection = served.connection()
    headers = {"Accept": "text/event-stream", "Content-Type": "application/json", **served.bearer}
    connection.request("POST", "/v1/ask", json.dumps({**QUESTION, **question}), headers)
    response, found, name = connection.getresponse(), [], ""
    try:
        while line := response.readline().decode():
            if line.startswith("event: "):
                name = line[7:].strip()
            elif line.startswith("data: "):
                found.append((name, json.loads(line[6:])))
                if len(found) == 1:
                    begun()
    except (OSError, HTTPException):
        pass
    connection.close()
    return found


def test_what_runs_at_the_end_is_stopped_and_its_client_is_told(user: Environment, smollm2: Path) -> None:
    with serving(user, str(INQUIRY), "--small", str(smollm2), "--large", str(smollm2), "--no-cache") as served:
        found = events(served, lambda: served.process.send_signal(signal.SIGTERM), settings={"max_tokens": 512})
        assert found[-1][0] == "error", found[-3:]
        assert found[-1][1]["error"]["code"] == "timeout"
        assert served.wait() == 143
        assert not served.left()
        assert "Traceback" not in served.err


def slow_pdf() -> bytes:
    """A page of a PDF that PDFium reads for longer than a page may take."""
    from tests.documents.test_pdf import CATALOG, FONT, pdf_of_objects

    text = zlib.compress(b"BT /F1 12 Tf 14 TL 72 700 Td " + b"(a line of text) Tj T* " * 1_000_000 + b"ET")
    content = b"<</Filter/FlateDecode/Length %d>>\nstream\n%b\nendstream" % (len(text), text)
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents 4 0 R>>"
    tree = b"<</Type/Pages/Count 1/Kids[5 0 R]>>"
    return pdf_of_objects(CATALOG, tree, FONT, content, page)


def test_an_upload_whose_client_goes_away_is_read_no_longer(user: Environment) -> None:
    with serving(user) as served:
        connection = served.connection()
        connection.request("POST", "/v1/documents?name=slow.pdf", slow_pdf(), served.bearer)
        until(lambda: len(served.of_system().children()) > 0)
        connection.close()
        until(lambda: not served.of_system().children())
        assert served.get("/v1/documents")[1]["documents"] == []


def test_work_that_nothing_stops_does_not_hold_the_end(user: Environment, tmp_path: Path, smollm2: Path) -> None:
    (tmp_path / "slow.pdf").write_bytes(slow_pdf())
    with serving(user, "--allow", str(tmp_path), "--small", str(smollm2), "--large", str(smollm2)) as served:
        connection = served.connection()
        body = json.dumps({**QUESTION, "documents": [str(tmp_path / "slow.pdf")]})
        connection.request("POST", "/v1/ask", body, served.bearer)
        until(lambda: served.get("/process/status")[1]["questions"]["running"] == 1)
        served.process.send_signal(signal.SIGTERM)
        response = connection.getresponse()
        assert response.status == 503
        assert json.loads(response.read())["error"]["code"] == "timeout"
        assert served.wait() == 143
        assert not served.left()


def test_a_killed_one_leaves_its_client_with_an_error(user: Environment, smollm2: Path) -> None:
    with serving(user, str(INQUIRY), "--small", str(smollm2), "--large", str(smollm2), "--no-cache") as served:
        children = served.of_system().children(recursive=True)
        found = events(served, lambda: served.process.send_signal(signal.SIGKILL))
        assert found[-1][0] not in ("done", "error")
        served.wait()
        until(lambda: not any(each.is_running() for each in children))
    with serving(user, str(INQUIRY)) as again:
        assert again.get("/healthz")[0] == 200


def test_models_load_with_the_first_question_or_before_it_where_documents_are_named(user: Environment, tiny: list[str]) -> None:
    with serving(user, *tiny) as bare:
        assert loaded(bare) == []
        bare.end()
    with serving(user, str(INQUIRY), *tiny) as served:
        assert dict(events(served, lambda: None))["done"]["schema"] == "fbrag.answer/1"
        assert loaded(served) == ["tiny"]


def test_idle_models_are_freed(user: Environment, tiny: list[str]) -> None:
    with serving(user, str(INQUIRY), "--idle", "2s", *tiny) as served:
        events(served, lambda: None)
        assert loaded(served)
        until(lambda: not loaded(served))
        assert served.process.poll() is None
        events(served, lambda: None, question="Who sealed the chronometer box?")
        assert loaded(served)


def test_a_hundred_questions_leave_nothing(user: Environment, tiny: list[str], tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("The chronometer box was sealed by Ambrose Tull on the third of May.\n" * 20)
    with serving(user, str(short), *tiny, "--no-cache", "--jobs", "2") as served:

        def ask(n: int) -> None:
            for i in range(n):
                found = events(served, lambda: None, question=f"Who sealed box {i}?", settings={"max_tokens": 8, "samples": 1})
                assert found[-1][0] == "done"

        ask(25)
        process = served.of_system()
        memory, others = process.memory_info().rss, (process.num_fds(), process.num_threads())
        ask(100)
        until(lambda: process.num_fds() <= others[0] and process.num_threads() <= others[1] + 1)  # the one that frees idle models
        assert process.memory_info().rss - memory < 10_000_000
        assert not process.children(recursive=True)
        assert served.end() == 143


def test_an_encrypted_document_is_served_and_nothing_of_it_is_cached(user: Environment, tmp_path: Path) -> None:
    from tests.documents.test_pdf import encrypted, pdf

    path, password = tmp_path / "locked.pdf", tmp_path / "pw.txt"
    path.write_bytes(encrypted(pdf(b"the chronometer box was sealed"), "geheim", "owner", "AES-256"))
    password.write_text("geheim\n")
    with serving(user, str(path), "--password-file", str(password)) as served:
        (document,) = served.get("/v1/documents")[1]["documents"]
        status, source = served.get(f"/v1/source?document={document['id']}&start_line=1&end_line=1")
        assert status == 200, source
        assert source["text"] == "the chronometer box was sealed"
        served.end()
    cached = [each for each in Path(user["XDG_CACHE_HOME"]).rglob("*") if each.is_file()]
    assert not any(b"chronometer" in each.read_bytes() for each in cached)
    assert not cached
