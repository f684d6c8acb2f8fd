"""Chooses the number of threads for llama.cpp beside other work on the same cores.

The threads of llama.cpp wait for each other after each operation. When one of them shares its core with another program, all of
them run at its pace, so one thread less is faster. The rule, applied between two batches at most every 0.3 s:

1. Other work, in cores = CPU time that the allowed CPUs have spent since the last look, less that of this process, by the time
   that has passed.
2. Threads = physical cores - other work, between 1 and all that may be used. A fraction of other work counts as a whole core
   above 0.45, because a program that shares its core with one of our threads gets about half of it. A container's limit of CPU
   time lowers what may be used, not the physical cores.

After a pause, the average since the last look is not the load of now: a look of 0.05 s decides.

Samples stay the same: llama.cpp's results do not depend on the number of threads (bit by bit, 1 to 3 threads on x86-64), except
for flash attention with one token, for which `Weights` does not change the number.
"""

from __future__ import annotations

import math
import os
import time

_SECONDS = 0.3  # between two looks: thirty ticks of the kernel's clock
_FIRST_SECONDS = 0.1  # before the first look, during which the model is loaded
_IGNORED = 0.45  # of a core
_PAUSE_SECONDS = 1.0  # since the last batch
_SHORT_SECONDS = 0.05  # the look after a pause


class ThreadCount:
    """Number of threads for the next batch: `maximum` on an idle machine, fewer where other work leaves fewer cores free.

    cores: number of physical cores; `maximum` where it is not given.
    """

    def __init__(self, maximum: int, cores: int | None = None) -> None:
        self._maximum = self._current = maximum
        self._cores = cores or maximum
        self._interval = _FIRST_SECONDS
        self._ended: float | None = None  # when the last batch ended
        self._begin_look()

    def current(self) -> int:
        """Return the number of threads, after a look at the CPUs if the last one is 0.3 s ago."""
        if self._maximum == 1:
            return 1
        if self._ended is not None and time.monotonic() - self._ended > _PAUSE_SECONDS:
            self._begin_look()
            time.sleep(_SHORT_SECONDS)
            self._interval = 0.0
        elapsed = time.monotonic() - self._looked
        if elapsed >= self._interval:
            others = (busy_seconds() - self._busy - (time.process_time() - self._own)) / elapsed
            self._current = min(self._maximum, threads_beside(others, self._cores))
            self._begin_look()
            self._interval = _SECONDS
        return self._current

    def batch_ended(self) -> None:
        """Note the end of a batch."""
        self._ended = time.monotonic()

    def _begin_look(self) -> None:
        self._looked, self._busy, self._own = time.monotonic(), busy_seconds(), time.process_time()


def threads_beside(others: float, cores: int) -> int:
    """Return how many of `cores` are free beside `others` cores of other work, at least 1 (step 2 of the rule)."""
    return max(1, min(cores, math.floor(cores - others + _IGNORED)))


def busy_seconds() -> float:
    """Return the CPU time, in seconds, that all programs have spent on the CPUs that this process may use; 0 where the system
    does not show it."""
    import psutil

    try:
        each = psutil.cpu_times(percpu=True)
    except (OSError, RuntimeError, psutil.Error):
        return 0.0
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(each))
    return sum(_busy(each[cpu]) for cpu in allowed if cpu < len(each))


def _busy(times: object) -> float:
    """Return all CPU time but that of idling; guests are counted in `user` already."""
    return float(sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal")))
