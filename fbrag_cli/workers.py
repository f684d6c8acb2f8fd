"""Child processes with limits: a child that hangs, crashes or uses too much memory loses only its own result.

`run_jobs` calls a function for many jobs in a pool of children. `multiprocessing` and Pebble do not fit: they import from the
working folder when they start a child, and their children outlive a parent that is killed during a job.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from queue import Empty, SimpleQueue
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.limits import allowed_cores, end_with_parent, limit_resources, over_processor_limit

if TYPE_CHECKING:
    from subprocess import Popen

Job = TypeVar("Job")
Result = TypeVar("Result")

_POLL_SECONDS = 0.1  # between two checks for a cancellation; Ctrl-C cannot interrupt a wait on Windows


def command(entry: str, *arguments: str) -> list[str]:
    """Return the command line of a Python process that calls one function.

    entry: "package.module:function"; the function finds `arguments` in sys.argv. The parent's search path replaces the child's,
    so that nothing is imported from the working folder.
    """
    module, _, function = entry.partition(":")
    code = f"import sys; sys.path[:] = {sys.path!a}; from {module} import {function}; {function}()"
    return [sys.executable, "-c", code, *arguments]


def signal_name(number: int) -> str:
    """Return the name of a signal, such as "SIGKILL"."""
    return signal.Signals(number).name if number in {*signal.Signals} else f"signal {number}"


# -- a pool of children ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job has no result. kind: "timeout", "died" (its process ended or was killed) or "error" (an exception).

    reason: a clause, such as "it took more than 10 s of CPU time". error: the exception, if it was an FbragError. seconds: a
    bound of the CPU time that a job took whose process has ended; otherwise 0.
    """

    kind: Literal["timeout", "died", "error"]
    reason: str
    error: FbragError | None = None
    seconds: float = 0.0


# More threads would compete with the other children for the same cores.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

_WAITING = 10  # wall time that a job may take, in CPU times: a child may wait for a disk, or be stopped

# A child's exit status when its CPU time is up, and when its wall time is: killed by its own timers, or (Windows, which has only
# the second) ended by its watchdog.
_BUSY, _LATE = (-int(signal.SIGPROF), -int(signal.SIGALRM)) if hasattr(signal, "setitimer") else (None, 1)

_Todo = SimpleQueue[tuple[int, Any] | None]  # position and job; None: no more jobs
_Done = SimpleQueue[tuple[int, Any, Exception | None]]  # position and outcome, or an exception that ends the whole run


def run_jobs(
    function: Callable[[Job], Result],
    jobs: Iterable[Job],
    *,
    processes: int | None = None,
    seconds: float | None = None,
    memory: int | None = None,
    cancellation: Cancellation | None = None,
) -> Iterator[tuple[int, Result | Failure]]:
    """Call `function(job)` in child processes for each of `jobs`. Yield each job's position and result or Failure as it is done.

    function: a module-level function; a `functools.partial` of one sends common arguments to each child only once. Jobs and
    results are pickled. Jobs are drawn as children become free, up to two per child in advance. processes: number of
    children; None for `allowed_cores`. seconds: CPU time per job; ten times that in wall time.
    memory: bytes per child, without mapped files (on Linux). Called in a child, it runs the jobs there, within the child's
    limits. Leaving the iterator ends the children; they end on their own if the parent is killed. Raises the error of
    `cancellation` within 0.1 s of its request, and FbragError out_of_memory if no process can be started.
    """
    if is_worker():
        yield from ((index, _outcome_of(function, job)) for index, job in enumerate(jobs))
        return
    processes, cancellation = processes or allowed_cores(), cancellation or Cancellation()
    numbered, todo, done = enumerate(jobs), _Todo(), _Done()
    orders = pickle.dumps((function, seconds, memory))
    workers = [_Worker(orders, seconds, todo, done) for _ in range(processes)]
    waiting = 0
    try:
        while True:
            for numbered_job in islice(numbered, 2 * processes - waiting):
                todo.put(numbered_job)
                if waiting < processes and workers[waiting].ident is None:
                    workers[waiting].start()
                waiting += 1
            if not waiting:
                return
            waiting -= 1
            yield _next(done, cancellation)
    finally:
        started = [worker for worker in workers if worker.ident is not None]
        for worker in started:
            worker.stop()
        for worker in started:
            worker.join()


def _next(done: _Done, cancellation: Cancellation) -> tuple[int, Any]:
    """Return the next position and outcome, or raise the exception that ends the run."""
    while True:
        cancellation.raise_if_requested()
        with suppress(Empty):
            index, outcome, fault = done.get(timeout=_POLL_SECONDS)
            if fault is not None:
                raise fault
            return index, outcome


class _Worker(threading.Thread):
    """A thread that sends jobs to one child, and replaces the child when it has ended."""

    def __init__(self, orders: bytes, seconds: float | None, todo: _Todo, done: _Done) -> None:
        super().__init__(name="fbrag-worker", daemon=True)
        self._orders, self._seconds, self._todo, self._done = orders, seconds, todo, done
        self._lock = threading.Lock()  # stop() comes from another thread
        self._stopped = False
        self._child: Popen[bytes] | None = None

    def run(self) -> None:
        while (numbered := self._todo.get()) is not None and not self._stopped:
            index, job = numbered
            try:
                self._done.put((index, self._do(job), None))
            except Exception as fault:
                self._done.put((index, None, fault))
        self._end_child()

    def stop(self) -> None:
        """Kill the child, even during a job. The thread ends too."""
        with self._lock:
            self._stopped = True
            if self._child is not None:
                self._child.kill()
        self._todo.put(None)

    def _do(self, job: Any) -> Any:
        request = pickle.dumps(job)
        if self._child is not None and self._child.poll() is not None:  # killed while idle
            self._end_child()
        child = self._child or self._ready_child()
        began = monotonic()
        try:
            outcome = _exchange(child, request)
        except _GONE:
            failure, took = self._failure(self._end_child()), monotonic() - began
            return replace(failure, seconds=took if self._seconds is None else min(took, self._seconds))
        if isinstance(outcome, Failure) and outcome.error is None:
            self._end_child()  # an unexpected exception such as MemoryError may have left it unfit for the next job
        return outcome

    def _ready_child(self) -> Popen[bytes]:
        """Start the child and send its orders; try twice if it is killed meanwhile, as happens when memory is short."""
        for _ in range(2):
            with self._lock:
                if self._stopped:
                    raise InterruptedError
                self._child = child = _start()
            try:
                fault = _exchange(child, self._orders)
            except _GONE:
                status = self._end_child()
                if status < 0:
                    continue
                fault = f"status {status}"
            if fault is not None:
                raise ChildProcessError(f"a child process did not start: {fault}")
            return child
        raise _no_process(f"it is killed at startup ({signal_name(-status)})")

    def _end_child(self) -> int:
        """Kill the child, if it has not ended. Return its exit status, or the negative number of the signal that killed it."""
        with self._lock:
            child, self._child = self._child, None
        if child is None:
            return 0
        child.kill()
        for stream in (child.stdin, child.stdout):
            with suppress(OSError):  # unsent bytes have lost their reader
                stream.close()  # type: ignore[union-attr]
        return child.wait()

    def _failure(self, status: int) -> Failure:
        if self._seconds is not None and status in (_BUSY, _LATE):
            time = f"{self._seconds:g} s of CPU time" if status == _BUSY else f"{_WAITING * self._seconds:g} s"
            return Failure("timeout", f"it took more than {time}")
        if (limit := over_processor_limit(status)) is not None:
            took = f"took more than the {limit} s of CPU time that this shell allows"
            hint = "raise the limit (ulimit -t), or skip the document"
            return Failure("timeout", f"it {took}", FbragError("timeout", f"a document {took}", hint))
        if status >= 0:
            return Failure("died", f"the process that read it ended (status {status})")
        why = {"SIGKILL": ", probably because memory ran out"}
        why["SIGABRT"] = ", probably because memory ran out or the file is damaged"
        name = signal_name(-status)
        return Failure("died", f"the process that read it was killed ({name}{why.get(name, '')})")


def _start() -> Popen[bytes]:
    import subprocess

    try:
        return subprocess.Popen(
            command("fbrag_cli.workers:serve"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_ONE_THREAD},
            start_new_session=True,  # only the parent acts on Ctrl-C
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same on Windows
        )
    except OSError as error:
        raise _no_process((error.strerror or str(error)).lower()) from None


def _no_process(why: str) -> FbragError:
    what = f"could not start a process to read documents: {why}"
    return FbragError("out_of_memory", what, "close other programs, or raise the limits (ulimit -a)")


_GONE = (EOFError, OSError, pickle.UnpicklingError)  # the child has ended, perhaps during its reply


def _exchange(child: Popen[bytes], request: bytes) -> Any:
    assert child.stdin
    assert child.stdout
    child.stdin.write(request)
    child.stdin.flush()
    return pickle.load(child.stdout)


# -- in a child of a pool ----------------------------------------------------------------------------------------------------


_is_worker = False


def is_worker() -> bool:
    """Return whether this process is a child of a pool."""
    return _is_worker


def serve() -> NoReturn:
    """Run a child: read the function and the limits from stdin, then jobs until stdin ends. Results go to stdout."""
    global _is_worker
    _is_worker = True
    end_with_parent()
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)  # stdin and stdout of all other code
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    try:
        function, seconds, memory = pickle.load(requests)
        limit_resources(DATA=memory)
    except Exception as error:
        pickle.dump(f"{type(error).__name__}: {error}", replies)
        replies.flush()
        os._exit(1)
    pickle.dump(None, replies)
    replies.flush()
    inbox: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_receive, args=(requests, inbox), daemon=True).start()
    while True:
        job = inbox.get()
        _limit_time(seconds)
        outcome = _outcome_of(function, job)
        try:
            reply = pickle.dumps(outcome)
        except Exception as error:  # the result is too large, or cannot be pickled
            reply = pickle.dumps(_failure_of(error))
        _limit_time(None)
        replies.write(reply)
        replies.flush()


def _receive(requests: IO[bytes], inbox: SimpleQueue[Any]) -> None:
    """Put jobs into `inbox`; end the process when stdin ends. It runs in a thread, so that it notices the parent's end during a
    job."""
    try:
        while True:
            inbox.put(pickle.load(requests))
    finally:
        os._exit(0)


def _limit_time(seconds: float | None) -> None:
    """Make the system end this process after `seconds` of CPU time, whatever it is doing; None cancels that."""
    if hasattr(signal, "setitimer"):
        for timer, number, factor in ((signal.ITIMER_PROF, signal.SIGPROF, 1), (signal.ITIMER_REAL, signal.SIGALRM, _WAITING)):
            signal.signal(number, signal.SIG_DFL)
            signal.setitimer(timer, factor * (seconds or 0))
        return
    import faulthandler

    if seconds is None:
        faulthandler.cancel_dump_traceback_later()
    else:
        faulthandler.dump_traceback_later(_WAITING * seconds, exit=True, file=1)


def _outcome_of(function: Callable[[Job], Result], job: Job) -> Result | Failure:
    """Return the result of `function(job)`, or a Failure if it raises."""
    try:
        return function(job)
    except (Exception, SystemExit) as error:
        return _failure_of(error)


def _failure_of(error: BaseException) -> Failure:
    if isinstance(error, FbragError):
        return Failure("error", error.message, error)
    if isinstance(error, MemoryError):
        return Failure("error", "it needs too much memory")
    return Failure("error", f"{type(error).__name__}: {' '.join(str(error).split())}"[:200])
