"""`fbrag batch --engine ray` on real clusters that the tests start: their raylets are processes of this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fbrag_cli.storage.paths import models_dir
from tests.conftest import INQUIRY, ROOT, Run, needs

ray = needs("ray")

N_DOCUMENTS, N_QUESTIONS = 10, 8
TINY = ("--method", "order-preserving", "--large", "smollm2-135m", "--max-tokens", "4", "--allow-unsupported")
RAY = ("--engine", "ray", "--threads", "1")


@pytest.fixture(autouse=True)
def as_nice_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers of all clusters. By default they have niceness 15, with which a row took 5 to 20 s beside busy processes."""
    monkeypatch.setenv("RAY_worker_niceness", "0")


@pytest.fixture
def folder(tmp_path: Path, smollm2: Path) -> Path:
    """Documents in docs/, and questions in q.txt."""
    text = INQUIRY.read_text("utf-8")
    (tmp_path / "docs").mkdir()
    for i in range(N_DOCUMENTS):
        (tmp_path / "docs" / f"{i:02}.txt").write_text(text[1000 * i : 1000 * i + 400], "utf-8")
    (tmp_path / "q.txt").write_text("".join(f"Who was named in part {i}?\n" for i in range(N_QUESTIONS)), "utf-8")
    return tmp_path


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster of a head that does no work, and of two raylets with a core each."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("FBRAG_MODELS_DIR", str(models_dir()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nodes"))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    small = {"object_store_memory": 100_000_000}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **small})
    try:
        for _ in range(2):
            made.add_node(num_cpus=1, **small)
        yield made
    finally:
        made.shutdown()


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A temporary folder whose path is short, as that of a user: sockets have a limit."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        yield Path(folder)


def rows_of(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows by document and id, without the seconds. None is there twice."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    found = {(row["document"], row["id"]): {**row, "seconds": None} for row in rows}
    assert len(found) == len(rows)
    return found


def n_rows(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_raylet_that_is_killed_costs_no_row(cluster: Any, folder: Path, clean_environment: dict[str, str], fbrag: Run) -> None:
    output = folder / "rows.jsonl"
    asked = ["batch", "docs", "-Q", "q.txt", "--no-cache", *TINY]
    command = [sys.executable, "-m", "fbrag_cli", *asked, *RAY, "--address", cluster.address, "-o", output.name]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=folder, env=clean_environment, encoding="utf-8", **piped) as run:
        while n_rows(output) < 16 and run.poll() is None:
            time.sleep(0.05)
        assert run.poll() is None
        cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
        printed, told = run.communicate(timeout=500)
    assert (run.returncode, printed) == (0, ""), told
    rows = rows_of(output)
    assert len(rows) == (n := N_DOCUMENTS * N_QUESTIONS)
    assert not [row for row in rows.values() if row["status"] == "error"]
    # The progress comes each minute. Ray may add that it lost what the node would have said; only its own log level, which it
    # announces, would silence that.
    passing = re.compile(r"batch: \d+ of \d+ rows|.*Failed to push error to driver")
    lasting = [line for line in told.splitlines() if not passing.match(line)]
    assert lasting == [f"{n} rows: {n} answered, 0 not found, 0 errors → rows.jsonl"]
    assert fbrag(*asked, "--limit", "20", "-o", "here.jsonl").returncode == 0
    here = rows_of(folder / "here.jsonl")
    assert {key: rows[key] for key in here} == here


def test_a_run_that_is_interrupted_goes_on_in_this_process(
    folder: Path, clean_environment: dict[str, str], fbrag: Run, temporary: Path
) -> None:
    """Without an address a cluster is started on this machine, and ends with the run."""
    output = folder / "rows.jsonl"
    asked = ["batch", "docs/00.txt", "docs/01.txt", "-Q", "q.txt", "--no-cache", *TINY, "-o", output.name]
    command = [sys.executable, "-m", "fbrag_cli", *asked, *RAY]
    env = clean_environment | {"TMPDIR": str(temporary)}
    with subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, encoding="utf-8") as run:
        while n_rows(output) < 3 and run.poll() is None:
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        _, told = run.communicate(timeout=60)
    assert run.returncode == 130, told
    assert 3 <= n_rows(output) < 2 * N_QUESTIONS
    assert list(temporary.iterdir()) == []
    assert fbrag(*asked).returncode == 0
    assert len(rows_of(output)) == 2 * N_QUESTIONS


def test_what_the_cluster_lacks_is_one_line(cluster: Any, folder: Path, fbrag: Run) -> None:
    asked = ["batch", "docs", "-Q", "q.txt", *TINY, *RAY, "--address", cluster.address]
    done = fbrag(*asked, "--threads", "64")
    assert (done.returncode, "no node of the Ray cluster has 64 cores" in done.stderr) == (2, True)
    done = fbrag(*asked, "--gpu", "require")
    assert (done.returncode, "the Ray cluster has no GPU" in done.stderr) == (5, True)


@pytest.mark.parametrize(
    ("options", "exit_code", "told"),
    [
        (("--address", "auto"), 2, "--address only works with --engine ray"),
        (("--engine", "ray", "--address", "127.0.0.1:9"), 5, "could not connect to a Ray cluster at 127.0.0.1:9"),
        (("--engine", "ray", "--address", "127.0.0.1:99999"), 5, "could not connect to a Ray cluster at 127.0.0.1:99999"),
        (("--engine", "ray", "--password-file", "q.txt"), 2, "cannot use stdin or passwords"),
    ],
)
def test_what_cannot_be_is_one_line(folder: Path, fbrag: Run, options: tuple[str, ...], exit_code: int, told: str) -> None:
    done = fbrag("batch", "docs", "-Q", "q.txt", *TINY, *options)
    assert (done.returncode, done.stdout) == (exit_code, "")
    assert told in done.stderr
    assert sum(line.startswith("error:") for line in done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_a_cluster_that_asks_for_a_token_is_one_line(folder: Path, fbrag: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        env = {"RAY_AUTH_MODE": "token", "HOME": str(tmp_path), "RAY_ADDRESS": address}
        done = fbrag("batch", "docs", "-Q", "q.txt", *TINY, "--engine", "ray", env=env)
    assert (done.returncode, f"could not connect to a Ray cluster at {address}: " in done.stderr) == (5, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_cluster_by_the_name_local_lets_nobody_in_without_the_token(
    folder: Path, clean_environment: dict[str, str], temporary: Path
) -> None:
    """Its files lie in a folder that nobody else can read, and that is gone with it."""
    code = (
        "import os, sys\nfrom fbrag_cli.batch.on_ray import connected\nfrom fbrag_cli.session.settings import ModelSettings\n"
        "out = sys.stdout\n"
        "with connected(None, ModelSettings(gpu='off', threads=1)):\n  import ray\n"
        "  print(os.environ['RAY_AUTH_MODE'], ray.cluster_resources()['object_store_memory'], file=out)\n"
        "  print(*(f'{each.name[:10]} {each.stat().st_mode & 0o777:o}' for each in os.scandir(os.environ['TMPDIR'])), file=out)\n"
    )
    env = clean_environment | {"RAY_ADDRESS": "local", "TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120, check=False)
    assert done.stdout == "token 200000000.0\nfbrag-ray- 700\n", done.stderr
    assert list(temporary.iterdir()) == []


def test_without_ray_the_error_names_the_package(folder: Path, fbrag: Run, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "ray.py").write_text("raise ImportError", "utf-8")
    path = {"PYTHONPATH": f"{tmp_path / 'none'}{os.pathsep}{ROOT}"}
    done = fbrag("batch", "docs", "-Q", "q.txt", *TINY, "--engine", "ray", env=path)
    assert done.returncode == 2
    assert re.search(r" -m pip install (-e '/[^']+\[ray\]'|'ray>=[\d.]+')$", done.stderr, re.MULTILINE)


def test_a_document_that_ends_its_worker_has_rows_of_errors(cluster: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fbrag_cli.batch import on_ray
    from fbrag_cli.batch.jobs import Job
    from fbrag_cli.batch.run import BatchSettings
    from fbrag_cli.methods.fb_rag.baselines import OrderPreserving
    from fbrag_cli.progress import Listener
    from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings

    class Worker:
        def __init__(self, setup: on_ray.Setup) -> None:
            self.setup = setup

        def rows(self, jobs: list[Job]) -> Iterator[dict[str, Any]]:
            for job in jobs:
                if job.document == "deadly":
                    os.kill(os.getpid(), signal.SIGKILL)
                yield {"status": "answered", "document": job.document, "id": job.id, "sha256": []}

    monkeypatch.setattr(on_ray, "_Worker", Worker)
    monkeypatch.setattr(on_ray, "_RETRIES", 2)
    settings = BatchSettings(method=OrderPreserving(), retriever="bm25", reading=DocumentSettings(), models={})
    models = ModelSettings(gpu="off", threads=1)
    setup = on_ray.Setup(settings=settings, models=models, cache=CacheSettings(), offline=True, folder=str(folder))
    jobs = [Job((name,), str(i), "Who?") for name in ("a", "deadly", "b", "c") for i in range(3)]
    with on_ray.connected(cluster.address, models) as workers:
        rows = list(on_ray.rows(jobs, workers, setup, Listener()))
    assert sorted((row["document"], row["id"]) for row in rows) == sorted((job.document, job.id) for job in jobs)
    assert {row["document"] for row in rows if row["status"] == "error"} == {"deadly"}
    assert {row["error"]["code"] for row in rows if row["status"] == "error"} == {"cluster_failed"}
