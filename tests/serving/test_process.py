"""The life of the warm process as its user meets it: it starts, is found, is stopped, and leaves nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fbrag_cli import __version__
from tests.conftest import INQUIRY
from tests.serving.running import Environment, fbrag, serving, until, user_of

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


def test_it_ends_after_a_time_without_requests(user: Environment) -> None:
    with serving(user, "--idle", "1s") as served:
        begun = time.monotonic()
        while time.monotonic() < begun + 2:
            assert served.get("/page/alive") == (204, None)
            assert served.get("/healthz")[0] == 200
            time.sleep(0.2)
        left = time.monotonic()
        assert served.wait() == 0
        assert 0.5 < time.monotonic() - left < 5
        assert not served.left()


def test_who_watches_does_not_keep_it(user: Environment) -> None:
    with serving(user, "--idle", "1s") as served:
        begun = time.monotonic()
        while served.process.poll() is None:
            try:
                served.get("/process/status")
            except OSError:
                break
            time.sleep(0.1)
        assert time.monotonic() - begun < 5


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such.txt"], "there is no file no-such.txt"),
        (["--allow", "no-such"], "there is no such folder"),
        (["--idle", "soon"], "--idle soon is no time"),
        (["--idle", "0s"], "--idle 0s is no time"),
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


def test_a_port_that_is_taken(user: Environment) -> None:
    with serving(user, "--port", "0") as served:
        run = fbrag(user, "serve", "--port", str(served.port))
        assert run.returncode == 2
        assert f"127.0.0.1 port {served.port} cannot be listened on" in run.stderr


def test_many_requests_leave_nothing(user: Environment) -> None:
    with serving(user, "--port", "0") as served:

        def ask(n: int) -> None:
            for _ in range(n):
                served.get("/healthz")
                served.get("/no-such", tcp=True)
                served.get("/process/status")

        ask(50)
        process = served.of_system()
        memory, others = process.memory_info().rss, (process.num_fds(), process.num_threads())
        ask(200)
        until(lambda: process.num_fds() <= others[0] and process.num_threads() <= others[1])
        assert process.memory_info().rss - memory < 4_000_000
        assert not process.children()


def test_without_the_extra_one_line_says_what_to_install(user: Environment, tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text("raise ModuleNotFoundError(name='uvicorn')")
    run = fbrag({**user, "PYTHONPATH": f"{tmp_path}:{user['PYTHONPATH']}"}, "serve")
    assert run.returncode == 2
    assert run.stderr.startswith("error: fbrag serve needs Starlette and uvicorn, which are not installed\nhint: ")
