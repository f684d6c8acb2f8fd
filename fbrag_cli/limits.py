"""Limits of a process, of the shell that started it, and of the machine or container that it runs in. Memory in use."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")  # of the container that this process is in (version 2); at the root of a host it has no limits
_PR_SET_PDEATHSIG = 1
_CHILD_MEMORY = 4_000_000_000  # bytes, without mapped files; a child gets at most half of the free memory
_LEAST_MEMORY = 500_000_000
_SPENT = 0.7  # share of a CPU-time limit that counts as used up: a busy kernel charges whole ticks, more than it reports


def limit_resources(**limits: int | None) -> None:
    """Limit this process, and disable core files. limits: named as in `resource`, such as DATA in bytes, CPU in seconds.

    A limit that is None or that the system lacks stays unchanged; on Windows all do.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    for name, limit in {"CORE": 0, **limits}.items():
        if limit is not None:
            kind = getattr(resource, f"RLIMIT_{name}")
            most = resource.getrlimit(kind)[1]
            with suppress(OSError, ValueError):
                resource.setrlimit(kind, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))


def end_with_parent() -> None:
    """Make Linux kill this process when the thread that started it ends, even during a long call of native code."""
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def over_processor_limit(status: int) -> int | None:
    """Return the limit of CPU time (seconds, `ulimit -t`) that ended a child of this process, None if that was not the cause.

    status: the child's exit status; a negative one is the number of a signal.
    """
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit = min((each for each in resource.getrlimit(resource.RLIMIT_CPU) if each != resource.RLIM_INFINITY), default=None)
    if limit is None or status not in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)  # of all ended children: at least that of this one
    return limit if spent.ru_utime + spent.ru_stime > _SPENT * limit else None


def total_memory() -> int:
    """Return the main memory of this machine in bytes; in a container its limit, if it has one."""
    import psutil

    total, limit = int(psutil.virtual_memory().total), of_container("memory.max")
    return min(total, int(limit)) if limit.isdecimal() else total


def free_memory() -> int:
    """Return the main memory available without swapping, in bytes; in a container at most what is left of its limit."""
    import psutil

    free = int(psutil.virtual_memory().available)
    limit, used = of_container("memory.max"), of_container("memory.current")
    if not (limit.isdecimal() and used.isdecimal()):
        return free
    unused = re.search(r"^inactive_file (\d+)$", of_container("memory.stat"), re.MULTILINE)  # file cache, which is freed first
    return max(0, min(free, int(limit) - int(used) + (int(unused[1]) if unused else 0)))


def peak_memory_mb() -> float:
    """Return the peak of main memory so far, in MB (10^6 bytes)."""
    try:
        import resource
    except ImportError:  # Windows
        import psutil

        return float(getattr(psutil.Process().memory_info(), "peak_wset", 0) / 1e6)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def memory_of_a_child() -> int:
    """Return the memory limit in bytes for a child process that reads documents, not counting mapped files."""
    return min(_CHILD_MEMORY, max(free_memory() // 2, _LEAST_MEMORY))


def allowed_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def of_container(name: str) -> str:
    """Return the text of a file with a limit of the container, "" if it does not exist."""
    try:
        return (_CGROUP / name).read_text().strip()
    except OSError:
        return ""
