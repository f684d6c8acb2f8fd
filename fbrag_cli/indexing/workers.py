"""A pool of child processes with limits: a job that hangs, crashes or takes too much memory costs only its own result.

`multiprocessing` and Pebble import from the working folder when they start a child, and their children outlive a parent that is
killed in the middle of a job.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from fbrag_cli.errors import FbragError
from fbrag_cli.indexing.child import Failure, Job, Result, is_worker, outcome_of

if TYPE_CHECKING:
    from subprocess import Popen

# The parent's search path replaces the child's own, so that nothing is imported from the working folder.
_CHILD = "import sys; sys.path[:] = {}; from fbrag_cli.indexing.child import serve; serve()"
# More threads would fight with the other children for the same cores.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

# A child's exit status when its time is over: killed by its own timer, or (Windows) ended by its watchdog.
_LATE = -int(signal.SIGALRM) if hasattr(signal, "SIGALRM") else 1


_Todo = SimpleQueue[tuple[int, Any] | None]  # position and job; None: no more jobs
_Done = SimpleQueue[tuple[int, Any, Exception | None]]  # position and outcome, or an exception that ends the whole run


def run_jobs(
    function: Callable[[Job], Result],
    jobs: Iterable[Job],
    *,
    processes: int | None = None,
    seconds: float | None = None,
    memory: int | None = None,
) -> Iterator[tuple[int, Result | Failure]]:
    """Call `function(job)` in child processes for each of `jobs`. Yields each job's position and result or Failure, as they come.

    function: a function of a module; `functools.partial` of one sends common arguments to each child only once. Jobs and results
    are pickled. Jobs are drawn as children become free, at most two ahead for each child. processes: children; None for as many
    as this process may use cores. seconds: wall time for a job. memory: bytes for a child, without mapped files (on Linux).
    Called in a child, this runs the jobs there, within the child's limits.
    Leaving the iterator ends the children; they end by themselves when the parent is killed. Raises FbragError out_of_memory
    where no process can be started.
    """
    numbered = enumerate(jobs)
    if is_worker():
        yield from ((index, outcome_of(function, job)) for index, job in numbered)
        return
    processes = processes or _allowed_cores()
    todo, done = _Todo(), _Done()
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
            yield _next(done)
    finally:
        _end(workers)


def _allowed_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _next(done: _Done) -> tuple[int, Any]:
    """Return the next position and outcome, or raise the exception that ends the run."""
    while True:
        with suppress(Empty):
            index, outcome, fault = done.get(timeout=0.5)  # Ctrl-C cannot interrupt a wait on Windows
            break
    if fault is not None:
        raise fault
    return index, outcome


def _end(workers: Iterable[_Worker]) -> None:
    started = [worker for worker in workers if worker.ident is not None]
    for worker in started:
        worker.stop()
    for worker in started:
        worker.join()


class _Worker(threading.Thread):
    """A thread that sends jobs to one child, and replaces the child when it has ended."""

    def __init__(self, orders: bytes, seconds: float | None, todo: _Todo, done: _Done) -> None:
        super().__init__(name="fbrag-worker", daemon=True)
        self._orders, self._seconds, self._todo, self._done = orders, seconds, todo, done
        self._lock = threading.Lock()  # stop() comes from another thread
        self._stopped = False
        self._child: Popen[bytes] | None = None

    def run(self) -> None:
        if hasattr(signal, "pthread_sigmask"):  # the children inherit this: only the parent acts on Ctrl-C
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while (numbered := self._todo.get()) is not None and not self._stopped:
            index, job = numbered
            try:
                self._done.put((index, self._do(job), None))
            except Exception as fault:
                self._done.put((index, None, fault))
        self._end_child()

    def stop(self) -> None:
        """Kill the child, even in the middle of a job. The thread ends too."""
        with self._lock:
            self._stopped = True
            if self._child is not None:
                self._child.kill()
        self._todo.put(None)

    def _do(self, job: Any) -> Any:
        request = pickle.dumps(job)
        if self._child is not None and self._child.poll() is not None:  # killed while it had nothing to do
            self._end_child()
        child = self._child or self._start()
        try:
            outcome = _exchange(child, request)
        except _GONE:
            return self._failure(self._end_child())
        if isinstance(outcome, Failure) and outcome.error is None:
            self._end_child()  # an unforeseen exception, as a MemoryError, may have left it unfit for the next job
        return outcome

    def _start(self) -> Popen[bytes]:
        """Start the child and give it its orders: twice, if it is killed meanwhile, as systems do when memory is short."""
        for _ in range(2):
            child = self._open()
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
        raise _no_process(f"it is killed as it starts ({_signal_name(-status)})")

    def _open(self) -> Popen[bytes]:
        import subprocess

        with self._lock:
            if self._stopped:
                raise InterruptedError
            try:
                self._child = subprocess.Popen(
                    [sys.executable, "-c", _CHILD.format(ascii(sys.path))],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, **_ONE_THREAD},
                    creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # Windows: no Ctrl-C for it
                )
            except OSError as error:
                raise _no_process((error.strerror or str(error)).lower()) from None
            return self._child

    def _end_child(self) -> int:
        """Kill the child, if it has not ended. Return its exit status, or the negative number of the signal that killed it."""
        with self._lock:
            child, self._child = self._child, None
        if child is None:
            return 0
        child.kill()
        for stream in (child.stdin, child.stdout):
            with suppress(OSError):  # unsent bytes have no reader any more
                stream.close()  # type: ignore[union-attr]
        return child.wait()

    def _failure(self, status: int) -> Failure:
        if status == _LATE and self._seconds is not None:
            return Failure("timeout", f"it took more than {self._seconds:g} s")
        if status >= 0:
            return Failure("died", f"the process that read it ended (status {status})")
        name = _signal_name(-status)
        why = ", as systems do when memory is short" if name == "SIGKILL" else ""
        why = ", as libraries do when memory is short or a file is damaged" if name == "SIGABRT" else why
        return Failure("died", f"the process that read it was killed ({name}{why})")


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in {*signal.Signals} else f"signal {number}"


def _no_process(why: str) -> FbragError:
    what = f"no process can be started to read documents: {why}"
    return FbragError("out_of_memory", what, "end other programs, or raise the limits (ulimit -a)")


_GONE = (EOFError, OSError, pickle.UnpicklingError)  # the child has ended, perhaps in the middle of its reply


def _exchange(child: Popen[bytes], request: bytes) -> Any:
    assert child.stdin
    assert child.stdout
    child.stdin.write(request)
    child.stdin.flush()
    return pickle.load(child.stdout)
