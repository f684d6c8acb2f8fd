"""A job that hangs, crashes or eats memory costs itself; no child outlives its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.workers import Failure, is_worker, run_jobs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


# -- what the children run -------------------------------------------------------------------------------------------------


def halve(number: int) -> float:
    return number / 2


def add(more: int, number: int) -> int:
    return number + more


def act(job: str) -> str:  # noqa: C901 - a branch a job
    if job == "sleep":
        time.sleep(600)
    elif job == "loop":
        while True:
            pass
    elif job == "loop inside C":
        sum(range(10**15))
    elif job == "segfault":
        ctypes.string_at(0)
    elif job == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif job == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif job == "exit":
        os._exit(7)
    elif job == "sys.exit":
        sys.exit("bye")
    elif job == "eat memory":
        return str(len(bytearray(2_000_000_000)))
    elif job == "give too much":
        return "x" * 400_000_000  # fits, but not twice
    elif job == "recurse":
        return act_again(job)
    elif job == "no plain data":
        return lambda: None  # type: ignore[return-value]
    elif job == "fbrag error":
        raise FbragError("pdf_no_text", "a.pdf has no text", "name b.pdf", document="a.pdf")
    elif job == "error":
        raise ValueError("two\nlines")
    elif job == "print":
        print("noise")
        os.write(1, b"noise")
        os.write(2, b"noise")
        return sys.stdin.read()
    elif job == "pid":
        return str(os.getpid())
    return job


def act_again(job: str) -> str:
    return act(job) + "!"


def nested(number: int) -> tuple[bool, list[tuple[int, float | Failure]], int]:
    return is_worker(), list(run_jobs(halve, [number], processes=2)), os.getpid()


def tell_and_hang(folder: str, how: str) -> None:
    Path(folder, str(os.getpid())).touch()
    act(how)


# -- what the parent sees --------------------------------------------------------------------------------------------------


def outcomes(*jobs: str, **limits: float) -> list[str | Failure]:
    done = dict(run_jobs(act, jobs, processes=2, **limits))  # type: ignore[arg-type]
    return [done[index] for index in range(len(jobs))]


def test_every_job_gives_its_own_result() -> None:
    assert dict(run_jobs(halve, range(500), processes=2)) == {n: n / 2 for n in range(500)}


def test_no_jobs_start_nothing() -> None:
    assert list(run_jobs(halve, [], processes=2)) == []


def test_common_arguments_are_given_once() -> None:
    assert sorted(run_jobs(partial(add, 100), [1, 2], processes=2)) == [(0, 101), (1, 102)]


def test_jobs_run_in_other_processes_that_know_it() -> None:
    ((_, (known, inner, pid)),) = run_jobs(nested, [8], processes=1)
    assert (known, inner) == (True, [(0, 4.0)])
    assert pid != os.getpid()
    assert not is_worker()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system binds no process to cores")
def test_there_are_no_more_children_than_cores_for_this_process() -> None:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        assert len({outcome for _, outcome in run_jobs(act, ["pid"] * 4)}) == 1
    finally:
        os.sched_setaffinity(0, cores)


def test_what_is_done_first_comes_first() -> None:
    first = next(iter(run_jobs(act, ["sleep", "quick"], processes=2)))
    assert first == (1, "quick")


def test_jobs_are_drawn_as_they_are_needed() -> None:
    drawn = []

    def jobs() -> Iterator[int]:
        for number in range(1000):
            drawn.append(number)
            yield number

    results = run_jobs(halve, jobs(), processes=2)
    next(results)
    assert len(drawn) == 4
    results.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("how", "most"), [("sleep", "4 s"), ("loop", "0.4 s of CPU time"), ("loop inside C", "0.4 s of CPU time")]
)
def test_a_job_that_hangs_is_ended(how: str, most: str) -> None:
    hung, *others = outcomes(how, "a", "b", "c", seconds=0.4)
    assert isinstance(hung, Failure)
    assert (hung.kind, hung.reason, hung.seconds) == ("timeout", f"it took more than {most}", 0.4)
    assert others == ["a", "b", "c"]


def test_a_job_whose_process_is_stopped_for_longer_than_its_time_is_not_ended(tmp_path: Path) -> None:
    results = run_jobs(partial(tell_and_hang, str(tmp_path)), ["stop", "a"], processes=1, seconds=1)

    def go_on() -> None:
        child = psutil.Process(int(wait_for(tmp_path, 1)[0]))
        while child.status() != psutil.STATUS_STOPPED:
            time.sleep(0.01)
        time.sleep(1.5)
        child.resume()

    threading.Thread(target=go_on).start()
    assert list(results) == [(0, None), (1, None)]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("segfault", "the process that read it was killed (SIGSEGV)"),
        ("exit", "the process that read it ended (status 7)"),
    ],
)
def test_a_job_that_kills_its_process_costs_only_itself(
    how: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = [(each.kind, each.reason) if isinstance(each, Failure) else each for each in outcomes("a", how, "b", how, "c", "d")]
    assert done == ["a", ("died", reason), "b", ("died", reason), "c", "d"]
    assert list(tmp_path.iterdir()) == []  # no core dump


def test_a_child_killed_from_outside_costs_only_its_job(tmp_path: Path) -> None:
    results = run_jobs(partial(tell_and_hang, str(tmp_path)), ["sleep", "a", "b"], processes=1, seconds=60)

    def kill() -> None:
        os.kill(int(wait_for(tmp_path, 1)[0]), signal.SIGKILL)

    threading.Thread(target=kill).start()
    (_, failure), *others = results
    assert isinstance(failure, Failure)
    assert failure.kind == "died"
    assert "SIGKILL, probably because memory ran out" in failure.reason
    assert others == [(1, None), (2, None)]


def test_a_child_killed_while_it_waits_costs_no_job(tmp_path: Path) -> None:
    def jobs() -> Iterator[str]:
        yield "first"
        pid = int(wait_for(tmp_path, 1)[0])
        time.sleep(0.5)  # its reply is on its way
        os.kill(pid, signal.SIGKILL)
        while is_alive(pid):
            time.sleep(0.01)
        time.sleep(0.5)  # its other threads
        yield "second"

    assert list(run_jobs(partial(tell_and_hang, str(tmp_path)), jobs(), processes=1)) == [(0, None), (1, None)]
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to it")
@pytest.mark.parametrize("how", ["eat memory", "give too much"])
def test_a_job_that_takes_too_much_memory_costs_only_itself(how: str) -> None:
    failure, *others = outcomes(how, "a", "b", memory=600_000_000)
    assert failure == Failure("error", "it needs too much memory")
    assert others == ["a", "b"]


def test_what_a_job_raises_comes_back() -> None:
    own, other, deep, left, odd = outcomes("fbrag error", "error", "recurse", "sys.exit", "no plain data")
    assert isinstance(own, Failure)
    assert own.error
    assert (own.error.code, own.error.hint, own.reason) == ("pdf_no_text", "name b.pdf", "a.pdf has no text")
    assert other == Failure("error", "ValueError: two lines")
    assert left == Failure("error", "SystemExit: bye")
    for failure, name in ((deep, "RecursionError"), (odd, "")):
        assert isinstance(failure, Failure)
        assert failure.kind == "error"
        assert name in failure.reason


def test_what_a_job_prints_or_reads_goes_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    assert outcomes("print", "a") == ["", "a"]
    assert capfd.readouterr() == ("", "")


def test_nothing_is_imported_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for module in ("multiprocessing", "pickle", "signal", "threading"):
        (tmp_path / f"{module}.py").write_text("open('imported', 'w')")
    assert outcomes("a") == ["a"]
    assert not (tmp_path / "imported").exists()


def test_a_job_that_cannot_be_sent_ends_the_run() -> None:
    with pytest.raises(Exception, match="lambda"):
        list(run_jobs(act, [lambda: None], processes=1))  # type: ignore[list-item]


def test_a_child_that_cannot_start_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(FbragError) as caught:
        list(run_jobs(act, ["a"], processes=1))
    assert caught.value.code == "out_of_memory"
    assert "no such file" in caught.value.message
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ChildProcessError, match="status 1"):
        list(run_jobs(act, ["a"], processes=1))


@pytest.mark.parametrize("always", [False, True])
def test_a_child_killed_as_it_starts_is_started_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, always: bool) -> None:
    python, seen = tmp_path / "python", tmp_path / "seen"
    survive = "" if always else f'test -e {seen} && exec {sys.executable} "$@"\n'
    python.write_text(f"#!/bin/sh\n{survive}echo started >> {seen}\nkill -9 $$\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    if not always:
        assert list(run_jobs(act, ["a"], processes=1)) == [(0, "a")]
        return
    with pytest.raises(FbragError) as caught:
        list(run_jobs(act, ["a"], processes=1))
    assert caught.value.code == "out_of_memory"
    assert "SIGKILL" in caught.value.message
    assert seen.read_text() == "started\n" * 2


# -- no child is left ------------------------------------------------------------------------------------------------------


def test_leaving_the_results_ends_the_children() -> None:
    results = run_jobs(act, ["pid", "sleep", "sleep"], processes=2)
    _, pid = next(results)
    results.close()  # type: ignore[attr-defined]
    assert not is_alive(int(str(pid)))


def test_a_request_to_stop_ends_the_children_in_the_middle_of_a_job() -> None:
    stop = Cancellation()
    results = run_jobs(act, ["pid", "sleep", "loop"], processes=2, cancellation=stop)
    _, pid = next(results)
    threading.Timer(0.2, stop.request, [LookupError("the client has gone")]).start()
    with pytest.raises(LookupError, match="the client has gone"):
        next(results)
    assert not is_alive(int(str(pid)))


def test_an_exception_of_the_jobs_ends_the_children() -> None:
    def jobs() -> Iterator[str]:
        yield from ["pid", "pid"]
        raise LookupError

    results = run_jobs(act, jobs(), processes=1)
    _, pid = next(results)
    with pytest.raises(LookupError):
        next(results)
    assert not is_alive(int(str(pid)))


_PARENT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in its background
from functools import partial
from fbrag_cli.workers import run_jobs
from tests.test_workers import tell_and_hang
try:
    list(run_jobs(partial(tell_and_hang, sys.argv[1]), [sys.argv[2]] * 2, processes=2, seconds=60))
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("how", ["sleep", "loop"])
@pytest.mark.parametrize("ctrl_c", [True, False])
def test_the_end_of_the_parent_ends_the_children(how: str, ctrl_c: bool, tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    parent = subprocess.Popen([sys.executable, "-c", _PARENT, str(tmp_path), how], cwd=root, start_new_session=True)
    pids = [int(name) for name in wait_for(tmp_path, 2)]
    if ctrl_c:
        os.killpg(parent.pid, signal.SIGINT)  # as a terminal does: the children get it too
    else:
        parent.kill()
    assert parent.wait(20) == (130 if ctrl_c else -signal.SIGKILL)
    for _ in range(200):
        if not any(map(is_alive, pids)):
            break
        time.sleep(0.05)
    assert not any(map(is_alive, pids))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child")
def test_a_child_in_a_long_call_of_native_code_ends_with_its_parent_at_once(tmp_path: Path) -> None:
    """Its thread that waits for the parent's end would have to wait for the end of the call."""
    root = Path(__file__).parents[1]
    command = [sys.executable, "-c", _PARENT, str(tmp_path), "loop inside C"]
    parent = subprocess.Popen(command, cwd=root, start_new_session=True)
    pids = [int(name) for name in wait_for(tmp_path, 2)]
    time.sleep(0.5)  # they are in the call
    parent.kill()
    parent.wait(20)
    for _ in range(200):
        if not any(map(is_alive, pids)):
            break
        time.sleep(0.05)
    assert not any(map(is_alive, pids))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to it")
def test_the_shells_limit_of_processor_time_is_said(tmp_path: Path) -> None:
    """Whether the system kills a child for its memory or for its time, its signal is the same."""
    script = """
import resource, sys
from fbrag_cli.workers import run_jobs
from tests.test_workers import act
resource.setrlimit(resource.RLIMIT_CPU, (3, 3))
[(_, failure)] = run_jobs(act, ["loop"], processes=1, seconds=60)
print(failure.kind, failure.error.code, failure.reason)
"""
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout == "timeout timeout it took more than the 3 s of CPU time that this shell allows\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits")
def test_a_limit_of_processor_time_that_was_not_reached_is_not_blamed() -> None:
    """Systems kill with the same signal when memory is short."""
    script = """
import resource
from fbrag_cli.workers import run_jobs
from tests.test_workers import act
resource.setrlimit(resource.RLIMIT_CPU, (3000, 3000))
[(_, failure)] = run_jobs(act, ["kill"], processes=1)
print(failure.kind, failure.error, failure.reason)
"""
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout == "died None the process that read it was killed (SIGKILL, probably because memory ran out)\n"


def test_ctrl_c_is_the_parents_to_decide(tmp_path: Path) -> None:
    """A parent that ignores it gets its results all the same."""
    script = (
        "import os, signal, sys; from fbrag_cli.workers import run_jobs; from tests.test_workers import halve\n"
        "signal.signal(signal.SIGINT, lambda *_: None)\n"
        "for index, outcome in run_jobs(halve, range(20), processes=2):\n"
        "    os.killpg(0, signal.SIGINT)\n"
        "    print(outcome)\n"
    )
    root = Path(__file__).parents[1]
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=root, start_new_session=True, capture_output=True, text=True, timeout=20
    )
    assert sorted(map(float, ran.stdout.split())) == [n / 2 for n in range(20)], ran.stderr


def wait_for(folder: Path, count: int) -> list[str]:
    for _ in range(400):
        if len(names := os.listdir(folder)) >= count:
            return names
        time.sleep(0.05)
    raise AssertionError("no child came up")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
