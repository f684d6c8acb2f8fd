"""The pages of sources as pictures: over HTTP, in saved pages, and as boxes in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("uvicorn", reason="needs Starlette and uvicorn: pip install -e '.[test]'")

from fbrag_cli.serving import library
from fbrag_cli.storage.cache import Cache
from tests.conftest import needs
from tests.documents.test_pdf import encrypted, pdf
from tests.render.test_html import WATCH, _Page
from tests.serving.live_server import Live, live, pair
from tests.serving.test_page import SEALED, ask, asked, events, events_of, html_of, parrot

if TYPE_CHECKING:
    from tests.conftest import Run

MANY = "\n".join([WATCH.strip()] * 30)
FIRST, SECOND = "The box of the chronometer was sealed", "by Tobias with lead, as Ann Lee saw."
PAGES = [each.encode() for each in (MANY, f"{MANY}\n{FIRST}", f"{SECOND}\n{MANY}")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parrot(tmp_path_factory.mktemp("models") / "model.gguf", "Tobias")


@pytest.fixture
def report(tmp_path: Path) -> Path:
    (tmp_path / "report.pdf").write_bytes(pdf(*PAGES))
    return tmp_path / "report.pdf"


@pytest.fixture
def served(model: Path, report: Path) -> Iterator[Live]:
    (report.parent / "log.txt").write_text(WATCH * 40 + SEALED)
    with live(pair(model), [str(report), str(report.parent / "log.txt")]) as server:
        yield server


def answered(server: Live, *documents: str) -> str:
    """The job of a question that has its answer."""
    job = asked(server, *documents, preset="fast", settings={})
    (done,) = (record for name, record in events_of(events(server, job)) if name == "done")
    assert done["status"] == "answered"
    return job


def picture(server: Live, job: str, query: str = "", source: str = "1") -> tuple[int, Any]:
    return server.get(f"/page/picture/{job}/{source}{query}")


def test_a_source_is_shown_as_its_page_with_its_sentence_boxed(served: Live) -> None:
    job = answered(served, "report.pdf")
    status, shown = picture(served, job, "?width=900")
    assert (status, shown["name"]) == (200, "Page 2 of report.pdf")
    assert re.search(r'<img src="data:image/png;base64,[\w+/=]{9999,}" alt="Page 2 of report.pdf" ', shown["html"])
    boxes = shown["html"].partition('<g class="boxes">')[2]
    assert boxes.count("<rect ") == 1
    assert not {"script", "style"} & _Page(shown["html"]).tags
    assert "style" not in _Page(shown["html"]).attributes
    assert '<button type="button" value="3">Next page</button>' in shown["html"]
    _, following = picture(served, job, "?page=3")
    assert following["name"] == "Page 3 of report.pdf"
    assert following["html"].partition('<g class="boxes">')[2].count("<rect ") == 1
    assert len(picture(served, job, "?width=100")[1]["html"]) < len(shown["html"])


def test_what_has_no_page_is_said_in_a_line(served: Live) -> None:
    job, of_text = answered(served, "report.pdf"), answered(served, "log.txt")
    for found, status in (
        (picture(served, job, "?page=7"), 400),
        (picture(served, job, "?page=-1"), 400),
        (picture(served, job, "?width=wide"), 400),
        (picture(served, job, source="99"), 404),
        (picture(served, job, source="%3Cb%3E"), 404),
        (picture(served, "nobody"), 404),
        (picture(served, of_text), 400),
    ):
        assert (found[0], found[1]["schema"]) == (status, "fbrag.error/1")
        assert "\n" not in found[1]["error"]["message"]
        assert found[1]["error"]["hint"]
    assert '<dialog class="sheet">' in dict(ask(served, "report.pdf", preset="fast", settings={}))["done"]["sources_html"]
    assert "<dialog" not in dict(ask(served, "log.txt", preset="fast", settings={}))["done"]["sources_html"]


def test_a_file_that_has_changed_has_no_pictures(served: Live, report: Path) -> None:
    job = answered(served, "report.pdf")
    report.write_bytes(pdf(*PAGES, b"Another page."))
    status, record = picture(served, job)
    assert (status, record["error"]["code"]) == (404, "doc_not_found")
    assert "has changed since it was read" in record["error"]["message"]
    assert "<img" not in html_of(served, f"/page/save/{job}")
    report.unlink()
    assert picture(served, job)[0] == 404


def test_an_upload_has_pictures_until_it_is_removed(served: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pdf(*PAGES, b"It was uploaded.")
    assert served.send("POST", "/v1/documents?name=sent.pdf", data).status == 201
    job = answered(served, "sent.pdf")
    assert picture(served, job)[1]["name"] == "Page 2 of sent.pdf"
    assert served.send("DELETE", "/v1/documents/sent.pdf").status == 204
    status, record = picture(served, job)
    assert (status, record["error"]["message"]) == (404, "sent.pdf is no longer in memory")
    monkeypatch.setattr(library, "MOST_BYTES_KEPT", len(data))
    for name in ("first.pdf", "second.pdf"):
        assert served.send("POST", f"/v1/documents?name={name}", data).status == 201
    first, second = answered(served, "first.pdf"), answered(served, "second.pdf")
    assert [picture(served, each)[0] for each in (first, second)] == [404, 200]


def test_a_saved_page_has_the_cited_pages_and_says_their_size(served: Live) -> None:
    job, of_text = answered(served, "report.pdf"), answered(served, "log.txt")
    saved = html_of(served, f"/page/save/{job}")
    shown = re.findall(r"<summary>(Page \d of [^<]*report.pdf) as a picture \((\d+ kB)\)</summary>", saved)
    assert [name.split(" of ")[0] for name, _ in shown] == ["Page 2", "Page 3"]
    assert saved.count('src="data:image/png;base64,') == 2
    assert "img-src data:" in saved
    assert {"script", "iframe", "link"}.isdisjoint(_Page(saved).tags)
    whole = html_of(served, f"/page/conversation?job={job}&job={of_text}")
    assert whole.count('src="data:image/png;base64,') == 2
    assert "<img" not in html_of(served, f"/page/save/{of_text}")


def test_json_has_the_boxes_of_what_is_cited(served: Live) -> None:
    fast = {"preset": "fast"}
    cited, *others = served.ask("Who sealed the box of the chronometer?", documents=["report.pdf"], **fast)["sources"]
    assert [box["page"] for box in cited["sentence"]["boxes"]] == [2, 3]
    first, second = cited["sentence"]["boxes"]
    assert 70 < first["left"] < first["right"] < 612
    assert second["top"] < 90 < first["top"] < first["bottom"] < 792
    assert all(each["sentence"] is None or each["sentence"]["boxes"] is None for each in others)
    (of_text, *_) = served.ask("Who sealed the box?", documents=["log.txt"], **fast)["sources"]
    assert of_text["sentence"]["boxes"] is None
    body = {"question": "Who sealed the box of the chronometer?", "documents": ["report.pdf"], **fast}
    chunks = served.post("/v1/explain", body)[1]["chunks"]
    assert any(each["selected"] and each["sentence"] and each["sentence"]["boxes"] for each in chunks)
    assert all(each["sentence"] is None for each in chunks if not each["selected"])


@pytest.mark.parametrize("name", ["scan.pdf", "scan.png"])
def test_a_scan_is_boxed_by_what_ocr_has_read(model: Path, tmp_path: Path, name: str) -> None:
    """The boxes are where the letters were before the page became pixels."""
    needs("rapidocr")
    from pypdfium2 import PdfDocument

    page = f"{FIRST}\n{SECOND}\n{MANY}".encode()
    PdfDocument(pdf(page))[0].render(scale=2).to_pil().save(tmp_path / name, resolution=144)
    with live(pair(model), [str(tmp_path / name)], cache=Cache(tmp_path / "cache")) as server:
        job = answered(server)
        shown = picture(server, job)[1]
        assert shown["name"] == f"Page 1 of {name}"
        assert shown["html"].partition('<g class="boxes">')[2].count("<rect ") == 2
        (cited, *_) = server.ask("Who sealed the box of the chronometer?", preset="fast")["sources"]
        data = (tmp_path / name).read_bytes()
        assert server.send("POST", f"/v1/documents?name=sent-{name}", data).status == 201  # an upload is in no cache
        sent = picture(server, answered(server, f"sent-{name}"))[1]
        assert sent["html"].partition('<g class="boxes">')[2].count("<rect ") == 2
    scale = (792 if name.endswith("pdf") else 842) / 792
    tops, bottoms = zip(*((box["top"] / scale, box["bottom"] / scale) for box in cited["sentence"]["boxes"]), strict=True)
    assert tops == pytest.approx([72 - 9, 72 + 14 - 9], abs=5)
    assert bottoms == pytest.approx([72 + 3, 72 + 14 + 3], abs=5)


def test_a_protected_pdf_has_pictures_by_its_password(fbrag: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.pdf").write_bytes(encrypted(pdf(*PAGES), "geheim", "owner", "AES-256"))
    (tmp_path / "pw.txt").write_text("geheim\n")
    options = ("--password-file", tmp_path / "pw.txt", "--html", tmp_path / "page.html", "--json", "-k", "0")
    done = fbrag("ask", tmp_path / "secret.pdf", "Who sealed the box of the chronometer?", "-m", model, *options)
    assert done.returncode == 0, done.stderr
    assert [box["page"] for box in json.loads(done.stdout)["sources"][0]["sentence"]["boxes"]] == [2, 3]
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count('src="data:image/png;base64,') == 2
    assert "geheim" not in page + done.stdout
