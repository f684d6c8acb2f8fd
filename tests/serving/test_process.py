"""The life of the server as its user meets it: it starts, is found, is stopped, and leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from fbrag_cli import __version__
from tests.conftest import INQUIRY
from tests.generation.tiny_gguf import Tiny
from tests.serving.running import PATIENCE, Environment, Served, fbrag, serving, until, user_of

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Python has no Unix sockets there")


@pytest.fixture
def user(clean_environment: Environment, tmp_path: Path) -> Environment:
    return user_of(clean_environment, tmp_path)


def test_only_its_user_can_open_it_and_nothing_is_left(user: Environment) -> None:
    with serving(user) as served:
        assert served.ready["pid"] == served.process.pid
        path = Path(served.ready["socket"])
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert served.get("/healthz") == (200, {"status": "ok", "version": __version__})
        assert served.end() == 143
        assert served.out == ""
        assert served.err == f"listening on {path}\n"
        assert not served.left()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_each_signal_ends_it(user: Environment, number: int, code: int) -> None:
    with serving(user, "--port", "0") as served:
        assert served.end(number) == code
        assert not served.left()


def test_status_says_what_it_does(user: Environment) -> None:
    with serving(user, str(INQUIRY), "--idle", "1h") as served:
        said = json.loads(fbrag(user, "serve", "status", "--json").stdout)
        assert said["pid"] == served.process.pid
        assert said["version"] == __version__
        assert said["socket"] == served.ready["socket"]
        assert [each["name"] for each in said["documents"]] == [str(INQUIRY)]
        assert said["questions"] == {"running": 0, "waiting": 0}
        assert said["ends_after"] == 3600
        shown = fbrag(user, "serve", "status")
        assert shown.returncode == 0
        assert f"process:   {served.process.pid}, fbrag {__version__}, since " in shown.stdout
        assert f"documents: 1 document ({INQUIRY})" in shown.stdout
        assert "of 3600 s, after which it ends" in shown.stdout


def test_stop_ends_it_and_where_none_runs_that_is_said(user: Environment) -> None:
    with serving(user) as served:
        stopped = fbrag(user, "serve", "stop")
        assert (stopped.returncode, stopped.stdout) == (0, "")
        assert stopped.stderr == f"fbrag serve (process {served.process.pid}) has ended\n"
        assert served.wait() == 0
        assert not served.left()
    again = fbrag(user, "serve", "stop")
    assert (again.returncode, again.stderr) == (1, f"no fbrag serve runs at {served.ready['socket']}\n")
    status = fbrag(user, "serve", "status")
    assert (status.returncode, status.stdout) == (1, f"no fbrag serve runs at {served.ready['socket']}\n")
    assert json.loads(fbrag(user, "serve", "status", "--json").stdout)["pid"] is None


def test_a_second_one_finds_the_first(user: Environment) -> None:
    with serving(user, str(INQUIRY)) as served:
        second = fbrag(user, "serve", "--print-ready")
        assert second.returncode == 0
        assert second.stderr == f"fbrag serve runs already, as process {served.process.pid} at {served.ready['socket']}\n"
        assert json.loads(second.stdout) == served.ready
        assert fbrag(user, "serve", str(INQUIRY)).returncode == 0
        others = fbrag(user, "serve", "--large", "smollm2-135m")
        assert others.returncode == 2
        assert "fbrag serve stop, and start it again" in others.stderr
        other = fbrag(user, "serve", str(Path(__file__)))
        assert other.returncode == 2
        assert f"and does not serve {__file__}" in other.stderr
        assert "fbrag serve stop" in other.stderr
        with serving(user, "--port", "0") as beside:
            assert beside.ready["socket"] is None
            assert beside.get("/healthz", tcp=True)[0] == 200
        with serving(user, "--socket", str(Path(served.ready["socket"]).with_name("own.sock"))) as own:
            assert own.get("/healthz")[0] == 200


def test_of_starts_at_once_one_serves(user: Environment) -> None:
    command = [sys.executable, "-m", "fbrag_cli", "serve", "--print-ready"]
    pipe = subprocess.PIPE
    started = [subprocess.Popen(command, env=user, stdout=pipe, stderr=pipe, text=True) for _ in range(4)]
    with ThreadPoolExecutor() as pool:
        ready = [json.loads(line) for line in pool.map(lambda each: each.stdout.readline(), started)]
    assert len({each["pid"] for each in ready}) == 1
    until(lambda: sum(each.poll() is None for each in started) == 1)
    assert fbrag(user, "serve", "stop").returncode == 0
    assert [each.wait() for each in started] == [0] * 4
    for each in started:
        each.communicate()


def test_what_a_killed_one_left_is_cleaned_up(user: Environment) -> None:
    with serving(user) as killed:
        killed.end(signal.SIGKILL)
        assert len(killed.left()) == 2
    assert fbrag(user, "serve", "status").returncode == 1
    with serving(user) as served:
        assert served.get("/healthz")[0] == 200
        assert served.end() == 143
        assert not served.left()


def test_systemd_may_hand_over_the_socket(user: Environment) -> None:
    path = Path(user["XDG_RUNTIME_DIR"]) / "fbrag" / "serve.sock"
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen()
        script = (
            f"exec 3<&{listener.fileno()}; export LISTEN_FDS=1 LISTEN_PID=$$; exec {sys.executable} -m fbrag_cli serve --idle 1s"
        )
        for _ in range(2):  # each time that somebody asks
            started = subprocess.Popen(["bash", "-c", script], env=user, pass_fds=[listener.fileno()])
            status, said = Served(started, {"socket": str(path)}, user).get("/process/status")
            assert (status, said["pid"], said["socket"]) == (200, started.pid, str(path))
            assert started.wait(timeout=PATIENCE) == 0
            assert [each.name for each in path.parent.iterdir()] == ["serve.sock"]


def test_it_ends_after_a_time_without_requests(user: Environment) -> None:
    with serving(user, "--idle", "2s") as served:
        begun = time.monotonic()
        while time.monotonic() < begun + 3:
            assert served.get("/page/alive") == (204, None)
            assert served.get("/healthz")[0] == 200
            time.sleep(0.1)
        assert served.wait() == 0
        assert not served.left()


def test_who_watches_does_not_keep_it(user: Environment) -> None:
    with serving(user, "--idle", "1s") as served:

        def is_gone() -> bool:
            try:
                served.get("/process/status")
            except (OSError, HTTPException):
                return True
            return False

        until(is_gone)
        assert served.wait() == 0


def test_where_the_socket_may_lie(user: Environment, tmp_path: Path) -> None:
    def refused(path: Path) -> str:
        run = fbrag(user, "serve", "--socket", str(path))
        assert run.returncode == 2
        return run.stderr

    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    assert "other users can write in its folder" in refused(open_folder / "s")
    assert "it has more than 107 bytes" in refused(tmp_path / ("s" * 107)) or sys.platform == "darwin"
    (tmp_path / "file").write_text("a file of the user")
    assert "it is something else" in refused(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "a file of the user"
    assert "cannot be a socket" in refused(tmp_path / "file" / "s")
    status = fbrag(user, "serve", "status", "--socket", str(tmp_path / "file" / "s"))
    assert (status.returncode, status.stdout) == (1, f"no fbrag serve runs at {tmp_path / 'file' / 's'}\n")
    (tmp_path / "own.lock").mkdir()
    assert "cannot be a socket: Is a directory" in refused(tmp_path / "own")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root makes files of another user")
def test_a_link_of_another_user_stands_for_no_folder(user: Environment, tmp_path: Path) -> None:
    from fbrag_cli.serving.process.unix_socket import is_trusted

    (tmp_path / "own").mkdir(mode=0o700)
    for name, owner in (("mine", 0), ("theirs", 65534)):
        (tmp_path / name).symlink_to("own")
        os.lchown(tmp_path / name, owner, owner)
    run = fbrag(user, "serve", "--socket", str(tmp_path / "theirs" / "s"))
    assert (run.returncode, "its folder belongs to another user" in run.stderr) == (2, True)
    with serving(user, "--socket", str(tmp_path / "mine" / "s")):
        assert is_trusted(tmp_path / "mine" / "s")
        assert not is_trusted(tmp_path / "theirs" / "s")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such.txt"], "there is no file no-such.txt"),
        (["--allow", "no-such"], "there is no such folder"),
        (["--idle", "soon"], '--idle is "soon", expected a number and s, m, h or d'),
        (["--idle", "0s"], '--idle is "0s", expected a number and s, m, h or d'),
        (["--host", "0.0.0.0"], "needs a token"),
        (["--host", "no.such.host.invalid"], "no address of this machine"),
        (["--port", "0", "--token-file", "no-such"], "cannot be read"),
    ],
)
def test_what_cannot_be_served_is_an_error_before_anything_is(user: Environment, arguments: list[str], said: str) -> None:
    run = fbrag(user, "serve", *arguments)
    assert run.returncode in (2, 3)
    assert run.stdout == ""
    assert said in run.stderr


def test_the_configuration_counts_for_the_page_too(user: Environment, tmp_path: Path) -> None:
    file = tmp_path / "fbrag.toml"
    file.write_text("idle = '1h'\n")
    for command in ("serve", "ui"):
        with serving({**user, "FBRAG_CONFIG": str(file)}, "--port", "0", command=command) as served:
            assert served.get("/process/status")[1]["ends_after"] == 3600
            served.end()


def test_without_a_screen_the_page_is_reached_by_ssh(user: Environment) -> None:
    away = {name: value for name, value in user.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}
    with serving({**away, "SSH_CONNECTION": "10.0.0.1 5000 10.0.0.2 22"}, "--port", "0", command="ui") as served:
        assert served.end(signal.SIGINT) == 130
        assert served.ready["url"] == f"http://127.0.0.1:{served.port}/"
        assert "token" not in json.dumps(served.ready)
        first, second = served.err.splitlines()
        assert first.startswith(f"serving the page until Ctrl-C: {served.ready['url']}?token=")
        assert f"ssh -L {served.port}:127.0.0.1:{served.port} " in second
        assert second.endswith("@10.0.0.2")


def test_a_port_that_is_taken(user: Environment) -> None:
    with serving(user, "--port", "0") as served:
        run = fbrag(user, "serve", "--port", str(served.port))
        assert run.returncode == 2
        assert f"127.0.0.1 port {served.port} cannot be listened on" in run.stderr


def test_without_the_extra_one_line_says_what_to_install(user: Environment, tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text("raise ModuleNotFoundError(name='uvicorn')")
    run = fbrag({**user, "PYTHONPATH": f"{tmp_path}:{user['PYTHONPATH']}"}, "serve")
    assert run.returncode == 2
    assert run.stderr.startswith("error: fbrag serve needs Starlette and uvicorn, which are not installed\nhint: ")


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
    connection = served.unix()
    headers = {"Accept": "text/event-stream", "Content-Type": "application/json"}
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


@pytest.mark.parametrize("how", ["stop", "signal"])
def test_what_runs_at_the_end_is_stopped_and_its_client_is_told(user: Environment, smollm2: Path, how: str) -> None:
    with serving(user, str(INQUIRY), "--small", str(smollm2), "--large", str(smollm2), "--no-cache") as served:

        def end() -> None:
            served.get("/process/status")
            if how == "stop":
                served.request("POST", "/process/stop")
            else:
                served.process.send_signal(signal.SIGTERM)

        found = events(served, end, settings={"max_tokens": 512})
        assert found[-1][0] == "error", found[-3:]
        assert found[-1][1]["error"]["code"] == "timeout"
        assert served.wait() == (0 if how == "stop" else 143)
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
        connection = served.unix()
        connection.request("POST", "/v1/documents?name=slow.pdf", slow_pdf())
        until(lambda: len(served.of_system().children()) > 0)
        connection.close()
        until(lambda: not served.of_system().children())
        assert served.get("/v1/documents")[1]["documents"] == []


def test_work_that_nothing_stops_does_not_hold_the_end(user: Environment, tmp_path: Path, smollm2: Path) -> None:
    (tmp_path / "slow.pdf").write_bytes(slow_pdf())
    with serving(user, "--allow", str(tmp_path), "--small", str(smollm2), "--large", str(smollm2)) as served:
        connection = served.unix()
        connection.request("POST", "/v1/ask", json.dumps({**QUESTION, "documents": [str(tmp_path / "slow.pdf")]}))
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


def test_idle_models_are_freed_while_a_page_is_open(user: Environment, tiny: list[str]) -> None:
    with serving(user, str(INQUIRY), "--idle", "2s", *tiny) as served:
        events(served, lambda: None)
        assert loaded(served)

        def freed() -> bool:
            served.get("/page/alive")
            return not loaded(served)

        until(freed)
        assert served.process.poll() is None
        events(served, lambda: None, question="Who sealed the chronometer box?")
        assert loaded(served)


def test_two_hundred_questions_leave_nothing(user: Environment, tiny: list[str], tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("The chronometer box was sealed by Ambrose Tull on the third of May.\n" * 20)
    with serving(user, str(short), *tiny, "--no-cache", "--parallel", "2") as served:

        def ask(n: int) -> None:
            for i in range(n):
                found = events(served, lambda: None, question=f"Who sealed box {i}?", settings={"max_tokens": 8, "samples": 1})
                assert found[-1][0] == "done"

        ask(50)
        process = served.of_system()
        memory, others = process.memory_info().rss, (process.num_fds(), process.num_threads())
        ask(200)
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


def test_a_page_answers_beside_another_process(user: Environment, tiny: list[str], tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("The chronometer box was sealed by Ambrose Tull on the third of May.\n" * 20)
    with serving(user, str(INQUIRY), *tiny), serving(user, str(other), *tiny, command="ui") as page:
        assert page.ready["socket"] is None
        token = page.process  # the page's address stands on its stderr
        assert token.stderr
        address = token.stderr.readline().split()[-1]
        headers = {"Authorization": f"Bearer {address.partition('?token=')[2]}", "Content-Type": "application/json"}
        body = json.dumps({**QUESTION, "settings": {"max_tokens": 8}})
        response, reply = page.request("POST", "/v1/ask", tcp=True, body=body, headers=headers)
        assert response.status == 200, reply
