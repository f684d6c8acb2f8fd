"""A batch on a Ray cluster. Each actor has a session and answers the questions on one document. Ray places the actors, and
restarts them and their work if a process or a node is lost."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from secrets import token_hex
from time import sleep
from typing import TYPE_CHECKING, Any

from fbrag_cli.batch import run
from fbrag_cli.batch.jobs import Job
from fbrag_cli.batch.row import failed
from fbrag_cli.errors import FbragError
from fbrag_cli.installation import extra
from fbrag_cli.progress import Listener
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import CacheSettings, ModelSettings
from fbrag_cli.text.printable import one_line, plural
from fbrag_cli.version import differ, version

if TYPE_CHECKING:
    from fbrag_cli.batch.run import Earlier

#: Maximum number of questions on one document that a worker takes at once. A document with more goes to several workers.
BLOCK = 32
#: Cores that a worker reserves on a CPU if the settings name no threads. More would speed up reading, but hardly writing.
CORES = 4
#: How often to retry the questions of a lost worker. Until a lost node counts as dead, each attempt to reach it counts.
_RETRIES = 20
_OBJECTS = 200_000_000  # bytes that a local cluster reserves for rows in transit
_WAIT = 0.2  # seconds between checks for Ctrl-C
_LONGEST_FOLDER = 18  # characters in the path of a temporary folder: Ray appends 85, and a socket path may have 103
_PATIENCE = 10  # seconds within which a cluster's port must accept a connection
_SAME = "install the same version of fbrag on all nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """The workers of a cluster. n: number of workers that it has room for. cores, gpus: CPU cores and GPUs reserved by each."""

    n: int
    cores: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a worker needs to answer like this process. folder: current folder of this process, where relative paths start."""

    settings: run.BatchSettings
    models: ModelSettings
    cache: CacheSettings
    offline: bool
    folder: str
    version: str = field(default_factory=version)


@contextmanager
def connected(address: str | None, models: ModelSettings) -> Iterator[Workers]:
    """Context manager: connect to the cluster at `address` or RAY_ADDRESS, or else start one on this machine for the block.

    In the block sys.stdout is discarded: open any stream to stdout before.

    Raises FbragError: `usage` if Ray is missing or no node has the cores that `models` needs, `gpu_unavailable`, `cluster_failed`
    if the cluster does not respond.
    """
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    where: dict[str, Any] = {"address": address}
    folder: str | None = None
    if address == "local":
        where = {"address": "local", "object_store_memory": _OBJECTS, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        # Ray reads these on import. It listens on all interfaces, so it must require the token.
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token_hex(32)}
    try:
        import ray
    except ImportError:
        raise FbragError("usage", "--engine ray needs Ray, which is not installed", extra("ray")) from None
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if host and port.isdigit():  # if nothing listens, Ray would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
        if address == "local":
            folder = _private_folder()
            where["_temp_dir"] = os.path.join(folder, "r")  # Ray makes it readable for everybody
        ray.init(**where, log_to_driver=False, logging_level="ERROR")
    except (OSError, OverflowError, RuntimeError, ValueError, ray.exceptions.RayError) as error:  # Overflow: a port over 65535
        place = "on this machine" if address == "local" else f"at {address}"
        message = f"could not connect to a Ray cluster {place}: {one_line(str(error), 200)}"
        _remove(folder)
        raise FbragError("cluster_failed", message, "ray status --address HOST:PORT") from None
    finally:
        for each, handler in handlers.items():  # Ray installs its own
            signal.signal(each, handler)
    try:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):  # Ray prints node events on stdout
            try:
                yield _workers(models)
            finally:
                ray.shutdown()
    finally:
        _remove(folder)


def _private_folder() -> str:
    """Create a private folder for the sockets and logs of a cluster. Its path is short, because socket paths have a limit. Raises
    OSError."""
    parent = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    if len(parent) > _LONGEST_FOLDER and os.access("/tmp", os.W_OK):
        parent = "/tmp"
    return tempfile.mkdtemp(prefix="fbrag-ray-", dir=parent)


def _remove(folder: str | None) -> None:
    """Remove a folder into which ending processes may still write."""
    for _ in range(20):
        if folder is None or not os.path.isdir(folder):
            return
        shutil.rmtree(folder, ignore_errors=True)
        sleep(0.1)


def _workers(models: ModelSettings) -> Workers:
    import ray

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if models.gpu != "off" and (gpus := int(sum(node.get("GPU", 0) for node in nodes))):
        return Workers(n=gpus, cores=1, gpus=1)
    if models.gpu == "require":
        raise FbragError("gpu_unavailable", "the Ray cluster has no GPU", "ray status")
    on_each = [int(node.get("CPU", 0)) for node in nodes]
    cores = models.threads or min(CORES, max(on_each, default=1)) or 1
    if (n := sum(each // cores for each in on_each)) == 0:
        raise FbragError(
            "usage", f"no node of the Ray cluster has {plural(cores, 'core')}", f"--threads {max(on_each, default=1)}"
        )
    return Workers(n=n, cores=cores, gpus=0)


def rows(
    jobs: Sequence[Job], workers: Workers, setup: Setup, listener: Listener, *, before: Earlier | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the row of each job when it is done. Rows of one document are in order; documents run in parallel.

    A lost worker is restarted and its jobs are retried; after that they become failed rows. Raises the errors of `run.rows`, and
    FbragError `cluster_failed` if workers cannot start.
    """
    import ray

    if workers.gpus == 0:
        setup = replace(setup, models=replace(setup.models, threads=workers.cores))
    actor = ray.remote(_Worker).options(
        num_cpus=workers.cores,
        num_gpus=workers.gpus,
        max_restarts=-1,
        max_task_retries=_RETRIES,
        scheduling_strategy="SPREAD",
    )
    todo = deque(_blocks(jobs))
    idle = [actor.remote(setup) for _ in range(min(workers.n, len(todo)))]
    running: dict[Any, tuple[Any, deque[Job]]] = {}
    unreadable = set[str]()  # several workers may have met such a document
    while todo or running:
        while todo and idle:
            worker, block = idle.pop(), todo.popleft()
            running[worker.rows.options(num_returns="streaming").remote(list(block))] = worker, block
        while idle and not todo:
            ray.kill(idle.pop())  # makes room for a lost worker
        ready, _ = ray.wait(list(running), timeout=_WAIT)
        if error := listener.cancellation.error:
            raise error
        for stream in ready:
            worker, block = running[stream]
            for row in _next(stream, block, setup, before):
                if row["id"] is not None or row["document"] not in unreadable:
                    yield row
                if row["id"] is None:
                    unreadable.add(row["document"])
            if not block:
                del running[stream]
                idle.append(worker)


def _blocks(jobs: Sequence[Job]) -> Iterator[deque[Job]]:
    for _, group in groupby(jobs, lambda job: job.documents):
        of_document = list(group)
        for first in range(0, len(of_document), BLOCK):
            yield deque(of_document[first : first + BLOCK])


def _next(stream: Any, block: deque[Job], setup: Setup, before: Earlier | None) -> Iterator[dict[str, Any]]:
    """Yield the next row of a block and remove its job. If the worker was lost too often, yield failed rows for all jobs."""
    import ray
    from ray.exceptions import RayActorError, RayError, RayTaskError

    try:
        made: dict[str, Any] = ray.get(next(stream))
    except RayTaskError as error:
        raise error.cause if isinstance(error.cause, FbragError) else error from None
    except RayError as error:
        if isinstance(error, RayActorError) and error.actor_init_failed:
            what = f"could not start a worker on the Ray cluster: {one_line(str(error).splitlines()[-1], 200)}"
            raise FbragError("cluster_failed", what, _SAME) from None
        lost = FbragError(
            "cluster_failed", f"the worker was lost {_RETRIES + 1} times", "add --retry-errors to rerun the failed rows"
        )
        while block:
            yield failed(block.popleft(), lost, setup.settings.described())
        return
    job = block.popleft()
    if made["id"] is None:  # for all questions on the document
        block.clear()
    if before and made["sha256"]:
        before.check_read(job, made["sha256"])
    yield made


class _Worker:
    """An actor whose session stays open between blocks. It reads documents and models from the user's paths."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    def rows(self, jobs: list[Job]) -> Iterator[dict[str, Any]]:
        yield from run.rows(jobs, self._session, self._setup.settings, Listener())

    @cached_property
    def _session(self) -> Session:
        from fbrag_cli.models.pull import pull_all

        setup, settings = self._setup, self._setup.settings
        if differ(setup.version, version()):
            raise FbragError("usage", f"a node of the Ray cluster has fbrag {version()}, not {setup.version}", _SAME)
        try:
            os.chdir(setup.folder)
        except OSError:
            what = f"folder not found on a node of the Ray cluster: {setup.folder}"
            raise FbragError("usage", what, "run fbrag in a folder that all nodes share") from None
        session = Session.open(setup.models, setup.cache, fetch=None if setup.offline else pull_all, offline=setup.offline)
        session.prepare(settings.method, retriever=settings.retriever)
        if session.identities(settings.method) != settings.models:
            raise FbragError("usage", "a node of the Ray cluster has different model files", "fbrag models verify")
        return session
