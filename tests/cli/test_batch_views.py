"""`fbrag batch --html`, `--wide`, and what is said on Ctrl-C, as a person with contracts meets them."""

from __future__ import annotations

import csv
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import lxml.html
import pytest

from tests.conftest import Run
from tests.servers import Loopback, stream

CLAUSES = {
    "lease.txt": "The rent is 900 pounds a month. Either party may end this lease with 30 days of notice.",
    "loan.txt": "The sum of the loan is 5,000 pounds. The loan ends with 60 days of notice.",
}
QUESTIONS = ("How many days of notice end it?", "=1+1 <b>What</b> is the rent?")
FAST = ("--method", "vanilla", "--allow-unsupported")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two contracts in contracts/, and two questions in q.txt."""
    (tmp_path / "contracts").mkdir()
    for name, text in CLAUSES.items():
        (tmp_path / "contracts" / name).write_text(text, "utf-8")
    (tmp_path / "q.txt").write_text("\n".join(QUESTIONS), "utf-8")
    return tmp_path


def table(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.reader(file))


def n_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_page_and_a_wide_table_of_all_rows(fbrag: Run, folder: Path) -> None:
    """Beside the documents; again when the run goes on, though they lie among the documents then."""
    files = ("-o", "contracts/answers.csv", "--html", "contracts/answers.html", "--wide", "contracts/wide.csv")
    with Loopback() as server:
        server.default = stream("30 days of notice.")
        arguments = ("batch", "contracts", "-Q", "q.txt", *files, "--large", server.address, *FAST)
        for more in (("--limit", "3"), ()):
            left = [folder / "contracts" / f".answers.{suffix}.0123abcd.part" for suffix in ("csv", "html")]
            for part in left:
                part.touch()  # as if a run had been killed
            done = fbrag(*arguments, *more)
            assert done.returncode == 0, done.stderr
            assert not any(part.exists() for part in left)
    assert "4 rows (3 from an earlier run)" in done.stderr
    documents = [f"contracts/{name}" for name in CLAUSES]
    found = table(folder / "contracts" / "wide.csv")
    assert [line[0] for line in found] == ["document \\ question", *documents]
    assert found[0][1:] == [QUESTIONS[0], f"'{QUESTIONS[1]}"]
    assert found[1][1:] == ["30 days of notice."] * 2
    page = lxml.html.fromstring((folder / "contracts" / "answers.html").read_text("utf-8"))
    assert [each.text_content() for each in page.xpath("//tbody//th")] == documents
    assert len(page.xpath("//tbody//td")) == 4
    for link in page.xpath("//td/a"):
        (target,) = page.xpath(f"//article[@id='{link.get('href').removeprefix('#')}']")
        assert target.xpath(".//h3")
    quote, place = page.xpath("//article[@id='c1-1']/blockquote")[0].text_content(), page.xpath("//article[@id='c1-1']")[0]
    assert quote == "Either party may end this lease with 30 days of notice."
    assert "contracts/lease.txt:1" in place.text_content()
    assert (
        "no sentence that was read holds this" in page.xpath("//td[@id='m2-1']")[0].text_content()
    )  # 30 days, where the loan has 60
    (row, *_) = csv.DictReader((folder / "contracts" / "answers.csv").open(newline="", encoding="utf-8-sig"))
    assert (row["location"], row["quote"]) == ("contracts/lease.txt:1", quote)


def test_what_no_job_asks_is_not_said_to_be_open(fbrag: Run, folder: Path) -> None:
    names = [f"contracts/{name}" for name in CLAUSES]
    (folder / "jobs.csv").write_text(f"document,question\n{names[0]},What is the rent?\n{names[1]},What is the sum?\n", "utf-8")
    with Loopback() as server:
        server.default = stream("900 pounds.")
        done = fbrag("batch", "--pairs", "jobs.csv", "-o", "a.csv", "--html", "a.html", "--large", server.address, *FAST)
    assert done.returncode == 0, done.stderr
    page = lxml.html.fromstring((folder / "a.html").read_text("utf-8"))
    assert [cell.text_content().split()[:1] for cell in page.xpath("//tbody//td")] == [["900"], [], [], ["900"]]
    assert len(page.xpath("//article")) == 2
    assert "not asked yet" not in page.text_content()


def test_a_page_is_closed_to_the_network_and_to_markup(fbrag: Run, folder: Path) -> None:
    with Loopback() as server:
        server.default = stream('<script>alert(1)</script><img src="http://evil.example/x"> 30 days\x1b[2J')
        done = fbrag("batch", "contracts", "-Q", "q.txt", "-o", "a.jsonl", "--html", "a.html", "--large", server.address, *FAST)
    assert done.returncode == 0, done.stderr
    text = (folder / "a.html").read_text("utf-8")
    page = lxml.html.fromstring(text)
    assert not page.xpath("//script | //img | //link | //td//b | //article//b")
    assert all(link.get("href").startswith("#") for link in page.xpath("//a"))
    (policy,) = page.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert re.fullmatch(r"default-src 'none'; style-src 'sha256-[A-Za-z0-9+/=]+'", policy)
    assert "\x1b" not in text


def test_a_contract_is_no_page(fbrag: Run, folder: Path) -> None:
    (folder / "contracts" / "old.html").write_text("<p>The rent is 900 pounds.</p>", "utf-8")
    for option, name in (("--html", "old.html"), ("--wide", "lease.txt")):
        before = (folder / "contracts" / name).read_bytes()
        done = fbrag("batch", "contracts", "-Q", "q.txt", option, f"contracts/{name}", "--offline")
        assert (done.returncode, f"{option} contracts/{name}: it is read" in done.stderr) == (2, True), done.stderr
        assert (folder / "contracts" / name).read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("-o a.csv --wide a.jsonl", "--wide a.jsonl is already used for another output"),
        ("-o a.csv --html ./a.csv", "--html ./a.csv is already used for another output"),
        ("-o a.csv --html b --wide ./b", "--wide ./b is already used for another output"),
        ("-o a.csv --html -", "--html cannot write to stdout, which has the rows"),
        ("-o a.csv --html contracts", "contracts cannot be written: it is a folder"),
    ],
)
def test_views_that_cannot_be_are_refused_before_the_work(fbrag: Run, folder: Path, arguments: str, told: str) -> None:
    with Loopback() as server:
        done = fbrag("batch", "contracts", "-Q", "q.txt", *arguments.split(), "--large", server.address, *FAST)
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_ctrl_c_says_what_is_there_and_how_it_goes_on(folder: Path, clean_environment: dict[str, str], smollm2: Path) -> None:
    (folder / "many.txt").write_text("".join(f"Who was number {i}?\n" for i in range(400)), "utf-8")
    small = ("--small", "smollm2-135m", "--large", "smollm2-135m", "--max-tokens", "8", "--method", "vanilla")
    arguments = ["batch", "contracts/lease.txt", "-Q", "many.txt", "-o", "out.csv", "--html", "out.html", *small]
    command = [sys.executable, "-m", "fbrag_cli", *arguments]
    with subprocess.Popen(command, cwd=folder, env=clean_environment, stderr=subprocess.PIPE, encoding="utf-8") as run:
        end = time.monotonic() + 200
        while time.monotonic() < end and n_lines(folder / "out.jsonl") < 2:
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        _, told = run.communicate(timeout=100)
    assert run.returncode == 130, told
    n_rows = len(table(folder / "out.csv")) - 1
    assert n_lines(folder / "out.jsonl") == n_rows
    assert f"stopped: {n_rows} of 400 rows written to out.csv. Run the same command to resume" in told
    page = lxml.html.fromstring((folder / "out.html").read_text("utf-8"))
    assert len(page.xpath("//article")) == n_rows
    assert f"{400 - n_rows} not asked yet" in page.xpath("//p[@class='counts']")[0].text_content()
