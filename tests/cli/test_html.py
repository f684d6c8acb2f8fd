"""`--html FILE` as a user gives it; what the page looks like is tested in tests/render/test_html.py."""

from __future__ import annotations

import json
import os
import re
import time
from html import unescape
from pathlib import Path

import pytest

from tests.conftest import INQUIRY, Run
from tests.servers import Loopback

QUESTION = "Who was the master of the ship?"
SHORT = ("--chunk-words", "60", "--set", "forward-tokens=24")
FAST = ("--set", "recall=2", "--samples", "2", *SHORT, "--small", "smollm2-135m")


@pytest.fixture(scope="module", autouse=True)
def _model(smollm2: Path) -> None:
    """Every test here needs it in the store."""


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("read", [("--select", "2"), ("--set", "recall=1", "--select", "2")])
def test_ask_writes_the_page_beside_the_answer(fbrag: Run, tmp_path: Path, read: tuple[str, str]) -> None:
    page = tmp_path / "page.html"
    options = ("-m", "smollm2-135m", "--max-tokens", "16", "--allow-unsupported", "--json", *FAST, *read)
    done = fbrag("ask", INQUIRY, QUESTION, "--html", page, *options)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    shown = words(unescape(re.sub(r"<[^>]*>", "", page.read_text("utf-8"))))
    assert words(QUESTION) in shown
    assert all(words(source["text"]) in shown for source in told["sources"])
    assert ("the rest of their text is pale" in shown) == ("--max-words" in read)
    assert all(words(sample["rationale"]) in shown for sample in told["samples"])


def test_explain_writes_the_page_without_an_answer(fbrag: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = fbrag("explain", INQUIRY, QUESTION, "--html", page, *FAST)
    assert done.returncode == 0, done.stderr
    assert "178 chunks" in page.read_text("utf-8")


def test_a_page_that_cannot_be_written_is_told_before_the_work(fbrag: Run, tmp_path: Path) -> None:
    done = fbrag("ask", INQUIRY, QUESTION, "--html", tmp_path / "none" / "page.html", *FAST)
    assert done.returncode == 2
    assert "page.html cannot be written" in done.stderr
    to_stdout = fbrag("ask", INQUIRY, QUESTION, "--html", "-", *FAST)
    assert to_stdout.returncode == 2
    assert to_stdout.stdout == ""
    assert "--html" in to_stdout.stderr


def test_a_plan_makes_no_page(fbrag: Run, tmp_path: Path) -> None:
    done = fbrag("ask", INQUIRY, QUESTION, "--dry-run", "--html", tmp_path / "page.html")
    assert done.returncode == 0
    assert not (tmp_path / "page.html").exists()


def test_a_server_that_says_nothing_of_its_window_has_a_page(fbrag: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with Loopback() as server:
        models = ("--small", server.address, "-m", server.address)
        done = fbrag("ask", INQUIRY, QUESTION, "--html", page, "--allow-unsupported", "--max-tokens", "8", *FAST[:-2], *models)
    assert done.returncode == 0, done.stderr
    told = words(re.sub(r"<[^>]*>", " ", page.read_text("utf-8")))
    assert f"large model {server.address}#tiny " in told
    assert "None" not in told


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_page_that_fails_costs_no_answer(fbrag: Run, tmp_path: Path) -> None:
    answer, command = (
        tmp_path / "answer.txt",
        ("ask", INQUIRY, QUESTION, "-m", "smollm2-135m", "--allow-unsupported", "--max-tokens", "8"),
    )
    done = fbrag(*command, *FAST, "-o", answer, "--html", "/dev/full")
    assert (done.returncode, answer.is_file()) == (5, True)
    assert f"{INQUIRY}:" in answer.read_text("utf-8")
    assert [line for line in done.stderr.splitlines() if line.startswith("error")] == [
        "error: /dev/full cannot be written: No space left on device"
    ]


@pytest.fixture
def browser(tmp_path: Path) -> Path:
    """A browser that notes what it opens, as BROWSER names it."""
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho noise\necho "$1" > {tmp_path}/seen\n', "utf-8")
    script.chmod(0o700)
    return script


@pytest.mark.skipif(os.name == "nt", reason="the browser is a shell script")
@pytest.mark.parametrize("named", [True, False])
def test_open_shows_the_page_in_the_browser(fbrag: Run, tmp_path: Path, browser: Path, named: bool) -> None:
    (tmp_path / "tmp").mkdir()
    env = {"BROWSER": f"{browser} %s", "TMPDIR": str(tmp_path / "tmp")}
    page = tmp_path / "page.html"
    done = fbrag("explain", INQUIRY, QUESTION, "--method", "vanilla", "--open", *(("--html", page) if named else ()), env=env)
    assert done.returncode == 0, done.stderr
    assert "noise" not in done.stdout + done.stderr
    if not named:
        (page,) = (tmp_path / "tmp").glob("fbrag-*.html")
        assert f"the page is {page}" in done.stderr
        assert page.stat().st_mode & 0o077 == 0
    until = time.monotonic() + 20
    while not (tmp_path / "seen").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert (tmp_path / "seen").read_text("utf-8").strip() == page.as_uri()
    assert "178 chunks" in page.read_text("utf-8") or "36 chunks" in page.read_text("utf-8")


def test_open_without_a_screen_says_where_the_page_is(fbrag: Run, tmp_path: Path) -> None:
    page, env = tmp_path / "page.html", {"BROWSER": "", "DISPLAY": "", "WAYLAND_DISPLAY": "", "SSH_CONNECTION": "a 1 b 2"}
    done = fbrag("explain", INQUIRY, QUESTION, "--method", "vanilla", "--open", "--html", page, env=env)
    assert done.returncode == 0, done.stderr
    assert f"no browser found; the page is {page}" in " ".join(done.stderr.split("\n"))
    assert page.is_file()
