"""Of documents that are not cached, and of those with a password, nothing is left: not in the middle, and not after SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest

from tests.conftest import Run
from tests.documents.making import docx, w_paragraph, x_row, xlsx
from tests.documents.test_pdf import encrypted, pdf

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="audits what is written")

SECRET = "The keeper of the lighthouse is Agnes Moor."

# Notes each file that this process, or a child, opens to write, and each folder that it makes.
AUDIT = """
import os, sys
log = os.open(os.environ["AUDIT_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def note(event, given):
    if event == "open" and isinstance(given[0], (str, bytes)):
        path, mode, flags = given
        if flags & (os.O_WRONLY | os.O_RDWR):
            os.write(log, f"{path!s}\\n".encode())
    elif event in ("os.mkdir", "os.rename"):
        os.write(log, f"{event} {given[0]!s}\\n".encode())
sys.addaudithook(note)
"""
# In the child that reads a Word document: it says so, and never ends.
SLOW = """
import os, sys, time
if "serve()" in " ".join(sys.orig_argv):
    import lxml.etree
    def wait(*given, **named):
        open(os.environ["MARK"], "w").write(str(os.getpid()))
        time.sleep(600)
    lxml.etree.XMLParser = wait
"""


@pytest.fixture
def environment(clean_environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    for name in ("hooks", "tmp", "docs"):
        (tmp_path / name).mkdir()
    paths = os.pathsep.join([str(tmp_path / "hooks"), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"TMPDIR": str(tmp_path / "tmp"), "AUDIT_LOG": str(tmp_path / "audit.log"), "MARK": str(tmp_path / "mark")}
    return clean_environment | own | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}


def _documents(tmp_path: Path) -> dict[str, list[str]]:
    """Arguments of `ask` for private documents of each kind."""
    folder = tmp_path / "docs"
    (folder / "a.docx").write_bytes(docx(w_paragraph(SECRET)))
    (folder / "b.txt").write_text(SECRET)
    (folder / "c.xlsx").write_bytes(xlsx({"Keepers": x_row(SECRET)}))
    (tmp_path / "long.txt").write_text(f"{SECRET}\n" * 60_000)
    return {
        "docx": ["--no-cache", "docs/a.docx"],
        "text": ["--no-cache", "docs/b.txt"],
        "long text": ["--no-cache", "long.txt"],
        "folder": ["--no-cache", "docs"],
        "stdin": ["--no-cache", "docs", "-"],
    }


@pytest.mark.parametrize("kind", ["docx", "text", "long text", "folder", "stdin"])
def test_no_file_is_written(fbrag: Run, environment: dict[str, str], tmp_path: Path, kind: str) -> None:
    (tmp_path / "hooks" / "sitecustomize.py").write_text(AUDIT)
    arguments = _documents(tmp_path)[kind]
    done = fbrag("ask", *arguments, "Who is the keeper?", "--dry-run", stdin=SECRET, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 chunk" in done.stdout or kind != "docx"
    _nothing_was_written(tmp_path)


def test_no_file_is_written_of_a_document_with_a_password(fbrag: Run, environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "hooks" / "sitecustomize.py").write_text(AUDIT)
    _locked_pdf(tmp_path)
    done = fbrag("text", "--password-file", "-", "locked.pdf", stdin="key", env=environment)
    assert done.returncode == 0, done.stderr
    assert SECRET in done.stdout
    _nothing_was_written(tmp_path)
    (tmp_path / "docs" / "locked.pdf").write_bytes((tmp_path / "locked.pdf").read_bytes())
    done = fbrag("ask", "--password-file", "-", "docs", "Who?", "--dry-run", stdin="key", env=environment)
    assert done.returncode == 0, done.stderr
    _nothing_was_written(tmp_path)


def test_no_file_holds_what_models_read_and_wrote(fbrag: Run, environment: dict[str, str], tmp_path: Path, smollm2: Path) -> None:
    (tmp_path / "hooks" / "sitecustomize.py").write_text(AUDIT)
    arguments = _documents(tmp_path)["docx"]
    models = ["--small", smollm2, "--large", smollm2, "--allow-unsupported", "--max-tokens", "4", "--samples", "1"]
    done = fbrag("ask", *arguments, "Who is the keeper?", *models, env=environment)
    assert done.returncode == 0, done.stderr
    written = [path for path in map(Path, (tmp_path / "audit.log").read_text().splitlines()) if path.is_file()]
    assert [path for path in written if any(word in path.read_bytes() for word in (b"Agnes", b"keeper", b"lighthouse"))] == []
    assert list((tmp_path / "tmp").iterdir()) == []


def _locked_pdf(tmp_path: Path) -> None:
    pages = [b"\n".join([SECRET.encode()] * 40)] * 20
    (tmp_path / "locked.pdf").write_bytes(encrypted(pdf(*pages), "key", "owner", "AES-256"))


def _nothing_was_written(tmp_path: Path) -> None:
    written = [Path(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert set(written) - {Path(os.devnull)} == set()
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (tmp_path / "cache").exists()


def test_sigkill_while_a_document_is_read(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "hooks" / "sitecustomize.py").write_text(SLOW)
    arguments = _documents(tmp_path)["folder"]
    command = [sys.executable, "-m", "fbrag_cli", "ask", *arguments, "Who?", "--dry-run"]
    with subprocess.Popen(command, env=environment, cwd=tmp_path) as run:
        child = _child(tmp_path)
        run.send_signal(signal.SIGKILL)
    assert list((tmp_path / "tmp").iterdir()) == []
    _has_ended(child)


@pytest.mark.parametrize("kind", ["docx", "folder"])
def test_sigkill_after_the_documents_were_read(environment: dict[str, str], tmp_path: Path, kind: str) -> None:
    code = (
        "import os, signal\nfrom fbrag_cli.__main__ import main\nfrom fbrag_cli.session.session import Session\n"
        "read = Session.collect\n"
        "def killed(*given, **named):\n"
        "  found = read(*given, **named)\n"
        f"  assert {SECRET!r} in found.corpus.chunks[0].text\n"
        "  os.kill(os.getpid(), signal.SIGKILL)\n"
        "Session.collect = killed\nmain()"
    )
    command = [sys.executable, "-c", code, "ask", *_documents(tmp_path)[kind], "Who?", "--dry-run"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(("stop", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("--timeout", 5)])
def test_what_stops_the_run_ends_the_child_that_reads_its_file(
    environment: dict[str, str], tmp_path: Path, stop: str, code: int
) -> None:
    (tmp_path / "hooks" / "sitecustomize.py").write_text(SLOW)
    limit = ["--timeout", "8"] if stop == "--timeout" else []
    command = [sys.executable, "-m", "fbrag_cli", "ask", *_documents(tmp_path)["docx"], "Who?", "--dry-run", *limit]
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as run:
        child = _child(tmp_path)
        if not limit:
            run.send_signal(signal.Signals[stop])
        _, stderr = run.communicate(timeout=60)
    assert run.returncode in (code, -signal.SIGINT if stop == "SIGINT" else code), stderr
    assert "Traceback" not in stderr
    _has_ended(child)


def _child(tmp_path: Path) -> int:
    """Wait until a child reads the Word document. Returns its process id."""
    mark, started = tmp_path / "mark", monotonic()
    while not (mark.exists() and mark.read_text()):
        assert monotonic() - started < 60
        sleep(0.02)
    return int(mark.read_text())


def _has_ended(child: int) -> None:
    started = monotonic()
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert monotonic() - started < 30
        sleep(0.02)
