"""The live page in Chromium against the real server: asking, stopping, going to a place and back, and what may go wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("uvicorn", reason="needs Starlette and uvicorn: pip install -e '.[test]'")

from fbrag_cli.session.settings import ModelSettings
from tests.chromium import PATIENCE, contrast, luminance, measured, reload, requested, until, visit
from tests.documents.test_pdf import pdf
from tests.render.test_html import HOSTILE, HOSTILE_QUESTION, WATCH
from tests.serving.live_browser import (
    QUESTION,
    Served,
    ask,
    click,
    dropped,
    free_port,
    opened,
    press,
    serving,
    text_of,
)
from tests.serving.running import serving as process
from tests.serving.running import user_of
from tests.serving.test_page import parrot

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

SEALED = "The box was sealed by Tobias with lead. "
ARABIC = "كتب رن على الصندوق بالرصاص. "


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> ModelSettings:
    """A pair that says "Tobias", a letter a token. The small model adds what has to stay text."""
    folder = tmp_path_factory.mktemp("models")
    small, large = parrot(folder / "small.gguf", "Tobias <‮&'>"), parrot(folder / "large.gguf", "Tobias")
    return ModelSettings(small=str(small), large=str(large))


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("papers")
    (folder / "log.txt").write_text(WATCH * 700 + SEALED + WATCH * 400 + "Ada Crome took the box ashore in 1871. " + WATCH * 300)
    return folder


@pytest.fixture(scope="module")
def log(models: ModelSettings, papers: Path) -> Iterator[Served]:
    with serving(models, papers / "log.txt") as served:
        yield served


@pytest.fixture(autouse=True)
def open_gate(log: Served) -> Iterator[None]:
    yield
    log.gate.held.clear()


NAME = "document.querySelector('.document h2').textContent"
ASKED = "document.getElementById('asked').textContent"
LAST = "[...document.querySelectorAll('.turn')].at(-1)"
ANSWERED = f"{LAST}.classList.contains('answered')"
IN_VIEW = "(r => r && r.top > 0 && r.bottom < innerHeight)(document.querySelector('#feed mark.best')?.getBoundingClientRect())"


def answered(chromium: Chrome, question: str = QUESTION) -> None:
    ask(chromium, question)
    until(chromium, ANSWERED)


def quiet(chromium: Chrome, served: Served) -> None:
    """Nothing was said in the console, and nobody else was asked."""
    assert [entry["message"] for entry in chromium.get_log("browser")] == []
    assert {url for url in requested(chromium) if not url.startswith((served.address, "data:,"))} == set()


def test_an_answer_comes_about_before_ones_eyes(chromium: Chrome, log: Served) -> None:
    log.gate.held |= {"selected", "token", "done"}
    opened(chromium, log.address)
    assert measured(chromium, "document.activeElement.id") == "question"
    ask(chromium)
    until(chromium, "document.querySelector('#cells .s9')?.checkVisibility()")
    assert text_of(chromium, ".of-sources li").endswith(SEALED.strip())
    assert text_of(chromium, ".of-sources h3").upper() == "BEST KEYWORD MATCHES SO FAR"
    log.gate.held.discard("selected")
    until(chromium, "document.querySelectorAll('#hits a').length")
    assert measured(chromium, f"{LAST}.querySelectorAll('.samples li').length") >= 2
    assert measured(chromium, "[...document.querySelectorAll('#hits a')].every(each => !each.textContent)")
    log.gate.held.discard("token")
    until(chromium, "document.querySelector('.said')?.textContent === 'Tobias'")
    assert text_of(chromium, ".answer .verdict") == "Draft, not yet checked"
    assert measured(chromium, f"{LAST}.getAttribute('aria-busy')") == "true"
    log.gate.held.clear()
    until(chromium, ANSWERED)
    assert "Draft" not in text_of(chromium, ".turn")
    assert measured(chromium, "document.querySelector('.said').textContent").startswith("Tobias[")
    until(chromium, "document.querySelector('#feed mark.best')")
    assert measured(chromium, "document.querySelector('#feed mark.best').textContent") == SEALED.strip()
    until(chromium, IN_VIEW)
    assert "Tobias" in measured(chromium, "document.getElementById('said').textContent")
    quiet(chromium, log)


def test_a_card_leads_to_its_sentence_and_the_back_button_back(chromium: Chrome, log: Served) -> None:
    opened(chromium, log.address)
    answered(chromium)
    until(chromium, IN_VIEW)
    measured(chromium, "document.getElementById('reader').scrollTop = 0")
    until(chromium, f"!({IN_VIEW})")
    click(chromium, ".turn .sources li:first-child")
    until(chromium, f"document.activeElement.matches('.k.on') && {IN_VIEW}")
    chromium.back()
    until(chromium, "document.getElementById('reader').scrollTop < 5")
    chromium.forward()
    until(chromium, IN_VIEW)
    click(chromium, ".k.here .pill")
    until(chromium, "document.querySelector('.turn .sources li.here')")
    assert measured(chromium, "document.activeElement.closest('li')?.matches('.here')")
    click(chromium, ".turn .said a")
    quiet(chromium, log)


def test_each_answer_shows_its_sentence_unless_a_person_reads_elsewhere(chromium: Chrome, log: Served) -> None:
    opened(chromium, log.address)
    for question in (QUESTION, "Who took the box ashore?"):
        answered(chromium, question)
        until(chromium, IN_VIEW)
    log.gate.held.add("token")
    ask(chromium, QUESTION)
    until(chromium, f"{LAST}.querySelector('.doing').textContent.startsWith('Answering')")
    measured(chromium, "reader.dispatchEvent(new WheelEvent('wheel')); reader.scrollTop = 0")
    log.gate.held.clear()
    until(chromium, ANSWERED)
    time.sleep(0.3)
    assert measured(chromium, "reader.scrollTop") < 5


def test_escape_stops_and_the_question_can_be_asked_again(chromium: Chrome, log: Served) -> None:
    from selenium.webdriver import Keys

    log.gate.held.add("token")
    opened(chromium, log.address)
    ask(chromium)
    until(chromium, f"{LAST}.querySelector('.doing').textContent.startsWith('Answering')")
    press(chromium, Keys.ESCAPE)
    until(chromium, f"{LAST}.querySelector('.wrong').textContent === 'Stopped.'")
    assert measured(chromium, "document.getElementById('said').textContent") == "Stopped."
    end = time.monotonic() + PATIENCE
    while log.live.desk.n_running:
        assert time.monotonic() < end, "the server still works"
        time.sleep(0.02)
    log.gate.held.clear()
    click(chromium, ".again")
    until(chromium, ANSWERED)
    quiet(chromium, log)


def test_a_question_waits_for_the_one_before_it_and_earlier_ones_are_folded(chromium: Chrome, log: Served) -> None:
    log.gate.held.add("token")
    opened(chromium, log.address)
    ask(chromium)
    ask(chromium, "What kept on?")
    ask(chromium, "What was never asked?")
    assert "Waiting" in text_of(chromium, ".turn:last-child .doing")
    click(chromium, ".turn:last-child .stop")
    until(chromium, f"{LAST}.querySelector('.wrong').textContent === 'Stopped.'")
    log.gate.held.clear()
    until(chromium, "document.querySelectorAll('.turn')[1].classList.contains('answered')")
    assert measured(chromium, "[...document.querySelectorAll('.turn')].map(turn => turn.classList.contains('folded'))") == [
        True,
        True,
        False,
    ]
    first = ".turn:first-child"
    assert measured(chromium, f"document.querySelector('{first} .said').checkVisibility()")
    assert not measured(chromium, f"document.querySelector('{first} .sources').checkVisibility()")
    click(chromium, f"{first} .fold")
    until(chromium, f"document.querySelector('{first} .sources').checkVisibility()")
    assert measured(chromium, "document.querySelectorAll('.turn:not(.folded)').length") == 1
    until(chromium, "document.querySelectorAll('#hits a').length")


def test_a_reload_brings_the_answers_again(chromium: Chrome, log: Served) -> None:
    opened(chromium, log.address)
    answered(chromium)
    answered(chromium, "Who was the smith?")
    before = measured(chromium, "[...document.querySelectorAll('.turn .said')].map(said => said.textContent)")
    reload(chromium)
    until(chromium, "document.querySelectorAll('.turn .said').length === 2")
    assert measured(chromium, "[...document.querySelectorAll('.turn .said')].map(said => said.textContent)") == before
    until(chromium, "document.querySelectorAll('#hits a').length")
    quiet(chromium, log)


def test_a_reload_in_mid_answer_goes_on_and_no_word_comes_twice(chromium: Chrome, log: Served) -> None:
    log.gate.held.add("done")
    opened(chromium, log.address)
    ask(chromium)
    until(chromium, f"{LAST}.querySelector('.said')?.textContent === 'Tobias'")
    job = measured(chromium, "JSON.parse(sessionStorage.fbrag).kept.at(-1).job")
    reload(chromium)
    until(chromium, f"{LAST}?.querySelector('.said')?.textContent === 'Tobias'")
    assert text_of(chromium, ".answer .verdict") == "Draft, not yet checked"
    assert measured(chromium, f"{LAST}.getAttribute('aria-busy')") == "true"
    log.gate.held.clear()
    until(chromium, ANSWERED)
    assert measured(chromium, "JSON.parse(sessionStorage.fbrag).kept.map(({ job }) => job)") == [job]
    answered(chromium, "And why?")
    assert text_of(chromium, ".turn:last-child .understood bdi").startswith(QUESTION)
    quiet(chromium, log)


def test_a_reload_can_stop_what_runs(chromium: Chrome, log: Served) -> None:
    log.gate.held.add("done")
    opened(chromium, log.address)
    ask(chromium)
    until(chromium, f"{LAST}.querySelector('.said')?.textContent === 'Tobias'")
    reload(chromium)
    until(chromium, f"{LAST}?.querySelector('.said')?.textContent === 'Tobias'")
    click(chromium, ".turn .stop")
    until(chromium, f"{LAST}.querySelector('.wrong').textContent === 'Stopped.'")


def test_a_break_of_the_connection_loses_and_doubles_no_word(chromium: Chrome, log: Served) -> None:
    log.gate.breaks = "token"
    opened(chromium, log.address)
    answered(chromium)
    assert not log.gate.breaks, "it was broken"
    assert measured(chromium, "document.querySelector('.said').textContent").startswith("Tobias[")
    assert measured(chromium, "document.querySelectorAll('.turn').length") == 1
    assert log.live.desk.kept()[-1].question == QUESTION
    until(chromium, "document.getElementById('gone').hidden")


def test_a_follow_up_is_asked_again_as_it_was_understood(chromium: Chrome, log: Served) -> None:
    opened(chromium, log.address)
    answered(chromium)
    answered(chromium, "And why?")
    understood = text_of(chromium, ".turn:last-child .understood bdi")
    assert understood.startswith(QUESTION)
    click(chromium, ".turn:last-child .again")
    until(chromium, f"document.querySelectorAll('.turn').length === 3 && {ANSWERED}")
    assert log.live.desk.kept()[-1].question == understood


def test_an_answer_is_asked_again_of_more_passages_and_thoroughly(
    chromium: Chrome, models: ModelSettings, tmp_path: Path
) -> None:
    lines = (f"Box {n} was sealed by Tobias with {n % 89} seals of lead and {n % 7} of wax, on day {n}.\n" for n in range(4000))
    (tmp_path / "boxes.txt").write_text("".join(lines))
    with serving(models, tmp_path / "boxes.txt") as served:
        opened(chromium, served.address)
        answered(chromium, "Who sealed box 17?")
        first = served.live.desk.kept()[-1].method
        click(chromium, ".turn:last-child .further")
        until(chromium, f"document.querySelectorAll('.turn').length === 2 && {ANSWERED}")
        assert text_of(chromium, ".turn:last-child .how") == "More passages are read"
        more = served.live.desk.kept()[-1].method
        assert more == first.reading_twice()
        reload(chromium)
        until(chromium, f"document.querySelectorAll('.turn').length === 2 && {ANSWERED}")
        click(chromium, ".turn:last-child .thorough")
        until(chromium, f"document.querySelectorAll('.turn').length === 3 && {ANSWERED}")
        assert text_of(chromium, ".turn:last-child .how") == "Thorough"
        assert not measured(chromium, f"{LAST}.querySelector('.thorough').checkVisibility()")
        assert served.live.desk.kept()[-1].method not in (first, more)
        quiet(chromium, served)


def test_an_answer_is_copied_with_its_sources_and_saved_as_a_page(chromium: Chrome, log: Served) -> None:
    opened(chromium, log.address)
    answered(chromium)
    permissions = ["clipboardReadWrite", "clipboardSanitizedWrite"]
    chromium.execute_cdp_cmd("Browser.grantPermissions", {"permissions": permissions, "origin": log.address})
    click(chromium, ".copy")
    until(chromium, "document.querySelector('.copy').textContent === 'Copied'")
    copied = measured(chromium, "navigator.clipboard.readText()", awaited=True)
    assert copied.startswith("Tobias [1]\n")
    assert SEALED.strip() in copied
    assert measured(chromium, "document.getElementById('whole').hidden")
    fetching = "fetch(document.querySelector('.save').href).then(got => got.text())"
    saved = measured(chromium, fetching, awaited=True)
    assert "<title>Who sealed the box of the chronometer? · fbrag</title>" in saved
    assert "<script" not in saved
    answered(chromium, "Who took the box ashore?")
    assert measured(chromium, "document.getElementById('whole').checkVisibility()")
    saved = measured(chromium, fetching.replace(".save", "#whole"), awaited=True)
    assert re.findall("<h1[^>]*>(.*?)</h1>", saved) == [QUESTION, "Who took the box ashore?"]
    assert "<script" not in saved
    assert 'href="#c' not in saved


def test_a_question_that_is_too_long_stays_in_its_box(chromium: Chrome, log: Served) -> None:
    opened(chromium, log.address)
    measured(chromium, "question.value = 'why '.repeat(2501)")
    click(chromium, "#go")
    assert text_of(chromium, "#hello") == "A question has up to 10,000 characters. This one has 10,003."
    assert measured(chromium, "question.value.length === 10004 && !document.querySelector('.turn')")
    measured(chromium, "question.value = 'Who?'")
    click(chromium, "#go")
    until(chromium, ANSWERED)


def test_two_tabs_are_two_conversations(chromium: Chrome, log: Served) -> None:
    log.gate.held.add("token")
    opened(chromium, log.address)
    ask(chromium, "Who sealed the box?")
    one = chromium.current_window_handle
    chromium.switch_to.new_window("tab")
    try:
        opened(chromium, log.address)
        assert measured(chromium, "document.querySelectorAll('.turn').length") == 0
        ask(chromium, "What kept on?")
        log.gate.held.clear()
        until(chromium, ANSWERED)
        assert measured(chromium, "document.querySelectorAll('.turn').length") == 1
        theirs = measured(chromium, "JSON.parse(sessionStorage.fbrag).conversation")
    finally:
        chromium.close()
        chromium.switch_to.window(one)
    until(chromium, ANSWERED)
    assert text_of(chromium, ".asked") == "Who sealed the box?"
    assert measured(chromium, "JSON.parse(sessionStorage.fbrag).conversation") != theirs


def test_the_server_goes_and_comes_back(chromium: Chrome, models: ModelSettings, papers: Path) -> None:
    with serving(models, papers / "log.txt") as served:
        opened(chromium, served.address)
        answered(chromium)
        served.gate.held.add("token")
        ask(chromium, "What kept on?")
        until(chromium, f"{LAST}.querySelector('.doing').textContent.startsWith('Answering')")
        served.gate.held.clear()
        served.gate.held.add("done")
        served.stop()
        until(chromium, "!document.getElementById('gone').hidden")
        until(chromium, f"{LAST}.querySelector('.doing').textContent.includes('Lost the connection')")
        served.gate.held.clear()
        served.start()
        until(chromium, ANSWERED)
        until(chromium, "document.getElementById('gone').hidden")
        assert measured(chromium, "document.querySelectorAll('.turn').length") == 2


def test_the_page_of_fbrag_ui_and_its_process_is_killed(
    chromium: Chrome, models: ModelSettings, papers: Path, clean_environment: dict[str, str], tmp_path: Path
) -> None:
    user, port = user_of(clean_environment, tmp_path), free_port()
    (tmp_path / "token").write_text("open-sesame-open-sesame")
    (tmp_path / "token").chmod(0o600)
    options = ["--port", str(port), "--token-file", str(tmp_path / "token"), "--small", models.small, "--large", models.large]
    words = [str(papers / "log.txt"), *map(str, options)]
    with process(user, *words, command="ui") as served:
        opened(chromium, f"http://127.0.0.1:{port}/?token=open-sesame-open-sesame")
        assert measured(chromium, "location.href") == f"http://127.0.0.1:{port}/"
        answered(chromium)
        assert chromium.get_log("browser") == []
        served.process.kill()
        served.process.wait()
        ask(chromium, "What kept on?")
        until(chromium, "!document.getElementById('gone').hidden")
        assert "Reconnecting" in text_of(chromium, "#gone")
    with process(user, *words, command="ui"):
        until(chromium, "document.getElementById('gone').hidden")
        until(chromium, ANSWERED)


def test_what_fails_is_said_and_the_page_goes_on(chromium: Chrome, models: ModelSettings, papers: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF nothing")
    broken = ModelSettings(small=models.small, large=str(tmp_path / "broken.gguf"))
    with serving(broken, papers / "log.txt") as served:
        opened(chromium, served.address)
        ask(chromium)
        until(chromium, f"{LAST}.querySelector('.wrong').textContent")
        assert "broken.gguf" in text_of(chromium, ".wrong")
        told = text_of(chromium, ".wrong").split("\n\n")
        assert len(told) == 2  # what, and what to do
        assert measured(chromium, "document.getElementById('said').textContent") == " ".join(told)
        assert not measured(chromium, "document.querySelector('.save').checkVisibility()")
        assert measured(chromium, "document.querySelector('.again').checkVisibility()")


def test_a_document_is_dropped_onto_the_page(chromium: Chrome, models: ModelSettings, papers: Path) -> None:
    with serving(models, papers / "log.txt") as served:
        opened(chromium, served.address)
        dropped(chromium, "letter.txt", "Dear sir. The box was sealed by Tobias Wrenn in March. " + WATCH * 60)
        until(chromium, f"{ASKED} === 'Searching 2 documents'")
        dropped(chromium, "note.txt", "The note says that Ada Crome was the smith. " + WATCH * 60)
        until(chromium, f"{ASKED} === 'Searching 3 documents' && document.querySelectorAll('.document').length === 3")
        measured(chromium, "document.getElementById('shelf').open = true")
        click(chromium, "#entries > li:first-child input")
        until(chromium, f"{ASKED} === 'Searching 2 of 3 documents' && {NAME} === 'letter.txt'")
        answered(chromium)
        assert text_of(chromium, ".turn .sources li").startswith("letter.txt:1")
        for kind in ("dragEnter", "dragOver", "drop"):
            about = {"items": [], "files": [str(papers)], "dragOperationsMask": 1}
            chromium.execute_cdp_cmd("Input.dispatchDragEvent", {"type": kind, "x": 300, "y": 300, "data": about})
        until(chromium, "document.getElementById('hello').textContent.startsWith('A folder cannot be dropped')")
        dropped(chromium, "scan.pdf", "%PDF-1.7 and no more")
        until(chromium, "document.getElementById('hello').textContent.startsWith('scan.pdf is')")
        said = text_of(chromium, "#hello")
        assert not re.search("Error|qpdf|--", said), said
        assert text_of(chromium, "#asked") == "Searching 2 of 3 documents"
        click(chromium, "#entries > li:last-child .remove")
        until(chromium, f"{ASKED} === 'Searching 1 of 2 documents' && document.querySelectorAll('.document').length === 1")
        assert [each.name for each in served.live.desk.library.entries()] == ["log.txt", "letter.txt"]
        served.stop()  # and with it what was dropped
        served.start()
        ask(chromium, "What kept on?")
        until(chromium, "document.getElementById('hello').textContent.includes('letter.txt is no longer there')")


def test_files_of_a_folder_are_chosen_one_by_one(chromium: Chrome, models: ModelSettings, tmp_path: Path) -> None:
    (folder := tmp_path / "logs").mkdir()
    for n in range(3):
        (folder / f"day-{n}.txt").write_text(f"On day {n} the box was sealed by Tobias. " + WATCH * 60)
    with serving(models, folder) as served:
        opened(chromium, served.address)
        assert text_of(chromium, "#title") == "Ask these 3 documents"
        measured(chromium, "document.querySelectorAll('.shelf, .shelf details').forEach(each => { each.open = true; })")
        click(chromium, "#entries ul li:nth-child(2) input")
        until(chromium, f"{ASKED} === 'Searching 2 of 3 documents' && document.querySelectorAll('.document').length === 2")
        assert measured(chromium, "document.querySelector('#entries input').indeterminate")
        click(chromium, "#entries ul li:nth-child(1) input")
        until(chromium, f"document.querySelectorAll('.document').length === 1 && {NAME} === 'day-2.txt'")
        assert text_of(chromium, "#title") == "Ask this document"
        answered(chromium)
        assert [each.name for each in served.live.desk.kept()[-1].entries] == ["logs/day-2.txt"]
        reload(chromium)
        until(chromium, f"{ASKED} === 'Searching 1 of 3 documents' && {ANSWERED}")
        measured(chromium, "document.getElementById('shelf').open = true")
        click(chromium, "#entries > li > label input")
        until(chromium, f"{ASKED} === 'Searching 3 documents' && document.querySelectorAll('.document').length === 3")
        quiet(chromium, served)


def test_nothing_that_a_document_says_is_obeyed(chromium: Chrome, models: ModelSettings, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)><script>alert(1)<‮script>.txt".replace("/", "")
    (tmp_path / name).write_bytes(f"{HOSTILE}\n{SEALED}{WATCH * 300}{HOSTILE}".encode("utf-8", "ignore"))
    (tmp_path / "سفر.txt").write_text(ARABIC * 400)
    with serving(models, tmp_path / name, tmp_path / "سفر.txt") as served:
        opened(chromium, served.address)
        answered(chromium)
        answered(chromium, HOSTILE_QUESTION.replace("\n", " ").encode("utf-8", "ignore").decode()[:400])
        measured(chromium, "document.querySelectorAll('details').forEach(each => { each.open = true; })")
        quiet(chromium, served)
        assert measured(chromium, "document.querySelectorAll('img, iframe, object, form form, base, svg script').length") == 0
        assert measured(chromium, "document.querySelectorAll('script').length") == 1
        assert "owned" not in measured(chromium, "document.title")
        assert not set(measured(chromium, "document.body.innerText")) & set(
            "\x1b\x9b\x07\x00\u202e\u202c\u2066\u2069\u200b\ufeff"
        )
        assert "<script>" in text_of(chromium, "#feed")
        assert measured(chromium, "getComputedStyle(document.querySelector('#d2 .t')).direction") == "rtl"
        measured(chromium, "document.getElementById('files').selectedIndex = 2")
        measured(chromium, "document.getElementById('files').dispatchEvent(new Event('change'))")
        until(chromium, "(r => r.top >= 0 && r.top < 200)(document.querySelector('#d2 .k').getBoundingClientRect())")
        quiet(chromium, served)


def test_ten_megabytes_in_one_line_and_in_one_word(chromium: Chrome, models: ModelSettings, tmp_path: Path) -> None:
    (tmp_path / "line.txt").write_text("word and " * 1_150_000)
    (tmp_path / "word.txt").write_text("x" * 10_000_000)
    for name in ("line.txt", "word.txt"):
        with serving(models, tmp_path / name) as served:
            opened(chromium, served.address)
            assert measured(chromium, NAME) == name
            assert measured(chromium, "document.documentElement.scrollWidth <= document.documentElement.clientWidth")
            quiet(chromium, served)


def test_a_document_that_is_too_long_for_a_page_comes_in_parts(chromium: Chrome, models: ModelSettings, tmp_path: Path) -> None:
    (tmp_path / "tall.txt").write_text("a b c d e. " * 604_000 + SEALED)
    with serving(models, tmp_path / "tall.txt") as served:
        opened(chromium, served.address)
        assert text_of(chromium, "#part span") == "Part 1 of 2. Find in the browser covers this part."
        answered(chromium)
        until(chromium, IN_VIEW)
        assert text_of(chromium, "#part span").startswith("Part 2 of 2")
        click(chromium, "#part button")
        until(chromium, "document.querySelector('#part span').textContent.startsWith('Part 1')")
        chromium.back()
        until(chromium, IN_VIEW)
        quiet(chromium, served)


SCROLLED = """(async () => {
    const pane = document.getElementById('reader'), shifts = new Set();
    for (let frame = 0; frame < 150; frame++) {
        const chunk = [...document.querySelectorAll('.k')].find(each => each.getBoundingClientRect().top > 200);
        const before = chunk.getBoundingClientRect().top;
        pane.scrollTop += 60;
        await new Promise(requestAnimationFrame);
        shifts.add(Math.round(before - chunk.getBoundingClientRect().top));
    }
    return [...shifts];
})()"""


#: The chunk that a person reads, at the height at which the page looks for it: another one may end a few pixels above or below.
READ = "document.elementFromPoint(innerWidth - 300, innerHeight / 4).closest('.k')?.id"
#: The chunk that is read, after 30 frames in which nothing moved: chunks take their real heights as they come into view.
SETTLED = f"""
new Promise(done => {{
  const reader = document.getElementById('reader');
  let last = '', same = 0;
  const look = () => {{
    const now = [{READ}, reader.scrollTop, reader.scrollHeight].join();
    same = now === last ? same + 1 : 0;
    last = now;
    same < 30 ? requestAnimationFrame(look) : done({READ});
  }};
  look();
}})
"""


def test_a_book_of_a_million_words_opens_scrolls_without_jumps_and_is_found_in(
    chromium: Chrome, models: ModelSettings, tmp_path: Path
) -> None:
    chapters = [f"\n\nCHAPTER {n}\n\n" + WATCH * (20 + n * 37 % 90) for n in range(2150)]
    (tmp_path / "book.txt").write_text("".join(chapters) + SEALED)
    with serving(models, tmp_path / "book.txt") as served:
        opened(chromium, served.address)  # the server reads it once
        begun = time.monotonic()
        opened(chromium, served.address)
        assert time.monotonic() - begun < 20  # two loads; 2 s on a machine that does nothing else
        assert int(text_of(chromium, ".document .scores").split(" ")[0].replace(",", "")) > 1_200_000
        assert measured(chromium, "document.getElementById('part').hidden")
        assert all(abs(shift - 60) <= 2 for shift in measured(chromium, SCROLLED, awaited=True))
        measured(chromium, "document.getElementById('reader').scrollTop = 1e6")
        until(chromium, READ)
        for _ in range(2):  # the page looks at a scroll, so the second one tells it what the first has settled
            before = measured(chromium, SETTLED, awaited=True)
            measured(chromium, "document.getElementById('reader').scrollTop += 1")
        size = {"width": 1100, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        until(chromium, "innerWidth === 1100")
        until(chromium, f"({READ}) === {before!r}")
        assert measured(chromium, "find('sealed by Tobias with lead')"), "by the browser's own search"
        last = "document.querySelector('#feed .k:last-child')"
        assert measured(chromium, f"{last} !== document.getElementById({before!r})")
        assert measured(chromium, f"{last}.contains(getSelection().anchorNode)")


def test_the_strip_shows_where_the_sources_are_and_leads_there(chromium: Chrome, log: Served) -> None:
    opened(chromium, log.address)
    assert not measured(chromium, "document.getElementById('hits').checkVisibility()")
    answered(chromium)
    until(chromium, IN_VIEW)
    strip, pane = (f"document.getElementById('{name}').getBoundingClientRect()" for name in ("hits", "reader"))
    assert measured(chromium, f"{strip}.left === {pane}.right && {strip}.height === {pane}.height && {strip}.width <= 24")
    cited = "[...document.querySelectorAll('#hits a')].filter(each => each.textContent)"
    assert measured(chromium, f"{cited}.map(each => each.textContent + each.ariaLabel)") == ["1Source 1"]
    share = f"(r => (r.top + r.height / 2) / {strip}.height)({cited}[0].getBoundingClientRect())"
    at = "[...document.querySelectorAll('.k')].findIndex(each => each.querySelector('mark.best'))"
    assert measured(chromium, f"Math.abs({share} - ({at} + .5) / document.querySelectorAll('.k').length) < .02")
    measured(chromium, "document.getElementById('reader').scrollTop = 0")
    until(chromium, f"!({IN_VIEW})")
    measured(chromium, f"{cited}[0].click()")
    until(chromium, IN_VIEW)
    click(chromium, "#cells i:first-child")
    until(chromium, "document.getElementById('reader').scrollTop < 50")


def test_sources_are_numbered_from_one_as_they_are_cited(chromium: Chrome, log: Served) -> None:
    opened(chromium, log.address)
    answered(chromium)
    numbers = "[...document.querySelectorAll('.turn .sources li')].map(each => each.getAttribute('value'))"
    found = measured(chromium, numbers)
    assert found == [str(n + 1) for n in range(len(found))]
    assert len(found) > 1
    assert measured(chromium, "document.querySelector('.said a').textContent") == "[1]"
    assert not measured(chromium, "document.querySelector('.others .sources').checkVisibility()")


def test_without_a_document_it_is_dropped_where_it_will_be(chromium: Chrome, models: ModelSettings) -> None:
    with serving(models) as served:
        opened(chromium, served.address)
        assert "Drop a document here" in text_of(chromium, "#reader")
        assert measured(chromium, "question.disabled")
        dropped(chromium, "letter.txt", SEALED + WATCH * 60)
        until(chromium, f"document.querySelector('.document') && {NAME} === 'letter.txt'")
        assert not measured(chromium, "document.getElementById('nothing').checkVisibility()")
        assert measured(chromium, "document.activeElement.id") == "question"
        answered(chromium)


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (360, "dark"), (640, "light"), (1024, "dark"), (1600, "light")])
def test_the_page_fits_and_is_readable(chromium: Chrome, log: Served, width: int, scheme: str) -> None:
    opened(chromium, log.address, width=width, scheme=scheme)
    answered(chromium)
    answered(chromium, "Who was the smith?")
    click(chromium, ".models summary")
    assert measured(chromium, "document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    wide = "[...document.querySelectorAll('.talk, .hits, .reader')].filter(each => each.scrollWidth > each.clientWidth)"
    assert measured(chromium, f"{wide}.map(each => each.className)") == []
    seen = "h1|.brand|.asked|.folded .asked|.said|.turn h3|.brief|.tools a|.again|#question|.go"
    seen += "|fieldset span|.document h2|.document .scores|.at|.k .t|.hits a"
    for selector in seen.split("|"):
        assert contrast(chromium, selector) >= 4.5, selector
    quiet(chromium, log)


def test_a_phone_goes_from_a_card_down_to_the_sentence_and_back(chromium: Chrome, log: Served) -> None:
    opened(chromium, log.address, width=360, height=400)
    assert measured(chromium, "scrollY") == 0
    opened(chromium, log.address, width=360)
    answered(chromium)
    assert measured(chromium, "scrollY") < 400
    parts = "['talk', 'hits', 'reader'].map(id => document.getElementById(id).getBoundingClientRect())"
    assert measured(chromium, f"(([talk, strip, text]) => talk.bottom < strip.top && strip.bottom < text.top)({parts})")
    click(chromium, ".turn .sources a")
    until(chromium, f"scrollY > 2000 && {IN_VIEW}")
    click(chromium, ".back")
    until(chromium, "scrollY < 400")
    chromium.back()
    until(chromium, "scrollY > 2000")
    chromium.back()
    until(chromium, "scrollY < 400")
    click(chromium, ".turn .sources a")
    until(chromium, f"scrollY > 2000 && {IN_VIEW}")
    click(chromium, ".back")
    until(chromium, "scrollY < 400")
    frames = "requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(() => { window.still = true; })))"
    twice = f"const again = () => {{ history.back(); addEventListener('popstate', () => {frames}, {{once: true}}); }};"
    chromium.execute_script(f"{twice} addEventListener('popstate', again, {{once: true}}); history.back()")
    until(chromium, "window.still")
    assert measured(chromium, "scrollY") < 400, "the first of two steps back ended last"


def test_the_keyboard_alone_is_enough(chromium: Chrome, log: Served) -> None:
    from selenium.webdriver import Keys

    opened(chromium, log.address)
    focused = "document.activeElement"
    press(chromium, QUESTION, Keys.ENTER)
    until(chromium, ANSWERED)
    measured(chromium, f"{focused}.blur()")
    press(chromium, "/")
    assert measured(chromium, f"{focused}.id") == "question"
    names = []
    while not measured(chromium, f"!!{focused}.closest('.turn .sources')"):
        press(chromium, Keys.TAB)
        shown = f"({focused}.matches('.unseen') ? {focused}.nextElementSibling : {focused})"
        if measured(chromium, f"{focused} !== document.body"):
            ring = f"(style => style.outlineStyle + style.boxShadow)(getComputedStyle({shown}))"
            assert re.search("solid|auto|inset", measured(chromium, ring))
        names.append(measured(chromium, f"{focused}.id || {focused}.className || {focused}.textContent"))
        assert len(names) < 60, names
    assert {"skip", "fold", "file"} <= set(names)
    press(chromium, Keys.ENTER)
    until(chromium, f"{focused}.matches('.k.on') && {IN_VIEW}")
    measured(chromium, "document.querySelector('.skip[href=\"#reader\"]').focus()")
    press(chromium, Keys.ENTER)
    until(chromium, f"{focused}.id === 'reader'")
    top = measured(chromium, "reader.scrollTop")
    press(chromium, Keys.PAGE_DOWN)
    until(chromium, f"reader.scrollTop > {top}")
    measured(chromium, "document.querySelector('#hits a:last-child').focus()")
    press(chromium, Keys.ENTER)
    until(chromium, f"{focused}.matches('.k.on')")


def test_the_document_is_one_stop_of_the_tab_key_and_numbers_are_large_enough(chromium: Chrome, log: Served) -> None:
    from selenium.webdriver import Keys

    opened(chromium, log.address)
    answered(chromium)
    until(chromium, IN_VIEW)
    measured(chromium, "document.querySelector('#reader').focus()")
    press(chromium, Keys.TAB)
    assert not measured(chromium, "document.activeElement.closest('#reader')")
    for selector in (".said a", "#hits a:not(:empty)"):
        size = f"(r => Math.min(r.width, r.height))(document.querySelector({selector!r}).getBoundingClientRect())"
        assert measured(chromium, size) >= 24, selector
    assert measured(chromium, "document.querySelector('.said a').ariaLabel") == "Source 1"
    labels = measured(chromium, "[...document.querySelectorAll('#hits a')].map(each => each.ariaLabel)")
    assert len(labels) == len({*labels}) > 1


def test_every_control_has_a_name_and_one_region_speaks(chromium: Chrome, log: Served) -> None:
    opened(chromium, log.address)
    answered(chromium)
    until(chromium, "document.querySelector('#feed mark.best')")
    nodes = chromium.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    controls = "button textbox searchbox link radio checkbox combobox slider progressbar DisclosureTriangle".split()
    unnamed = [
        node for node in nodes if not node["ignored"] and node["role"]["value"] in controls and not node["name"]["value"].strip()
    ]
    assert unnamed == []
    assert measured(chromium, "document.querySelectorAll('[aria-live], [role=status]').length") == 1
    ids = measured(chromium, "[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))


def test_motion_is_reduced_and_paper_has_the_answer_alone(chromium: Chrome, log: Served) -> None:
    opened(chromium, log.address, prefers_reduced_motion="reduce")
    answered(chromium)
    moves = "(style => parseFloat(style.transitionDuration) > 0 || style.animationName !== 'none')(getComputedStyle(each))"
    assert measured(chromium, f"[...document.querySelectorAll('*')].filter(each => {moves}).length") == 0
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    parts = "[...document.querySelectorAll('.asked, .said, .sources, .samples, table, button, textarea, .hits, .reader')]"
    shown = measured(chromium, f"{parts}.filter(each => each.checkVisibility()).map(each => each.className)")
    assert set(shown) == {"asked", "said", "sources", "fold"}


SHEET = "document.querySelector('dialog.sheet')"
BOXED = f"{SHEET}.querySelectorAll('.boxes rect').length"
NOTHING_MORE = "The watch went below and the rain kept on."


@pytest.fixture(scope="module")
def report(models: ModelSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A PDF whose sentence begins on its second page, at the end, and ends on the third one."""
    pages = ["\n".join([NOTHING_MORE] * n) for n in (30, 30, 29)]
    pages[1] += "\nThe box of the chronometer was sealed"
    pages[2] = f"by Tobias with lead, as all hands saw.\n{pages[2]}"
    path = tmp_path_factory.mktemp("reports") / "report.pdf"
    path.write_bytes(pdf(*map(str.encode, pages)))
    with serving(models, path) as served:
        yield served


def shown(chromium: Chrome, name: str) -> None:
    until(chromium, f"{SHEET}.querySelector('img')?.alt === {name!r} && {SHEET}.querySelector('img').complete")


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1280, "dark")])
def test_a_page_is_shown_below_its_source_with_the_sentence_boxed(
    chromium: Chrome, report: Served, width: int, scheme: str
) -> None:
    opened(chromium, report.address, width=width, scheme=scheme)
    answered(chromium)
    click(chromium, ".show button")
    shown(chromium, "Page 2 of report.pdf")
    assert measured(chromium, BOXED) == 1
    assert measured(chromium, "document.querySelector('.sources blockquote').checkVisibility()"), "it is next to the text"
    place = "(e => (r => [r.left, r.top, r.right, r.bottom])(e.getBoundingClientRect()))"
    left, top, right, bottom = measured(chromium, f"{place}({SHEET}.querySelector('img'))")
    x, y, to_x, to_y = measured(chromium, f"{place}({SHEET}.querySelector('.boxes rect'))")
    scale = (right - left) / 612
    assert (x - left) / scale == pytest.approx(72, abs=5)
    assert (y - top) / scale == pytest.approx(72 + 30 * 14 - 10, abs=8), "the 31st line, of 14 points"
    assert left < to_x < right
    assert top < to_y < bottom
    assert measured(
        chromium, f"(r => r.top > 0 && r.bottom < innerHeight)({SHEET}.querySelector('rect').getBoundingClientRect())"
    )
    assert measured(chromium, "document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    stroke = luminance(measured(chromium, f"getComputedStyle({SHEET}.querySelector('.boxes rect')).stroke"))
    assert 1.05 / (stroke + 0.05) >= 3, "against white paper"
    assert (stroke + 0.05) / 0.05 >= 3, "against a black slide"
    for selector in (".show button", ".turning p", ".turning .larger"):
        assert contrast(chromium, selector) >= 4.5, selector
    click(chromium, ".turning button[value='3']")
    shown(chromium, "Page 3 of report.pdf")
    assert measured(chromium, BOXED) == 1
    assert measured(chromium, f"{SHEET}.querySelector('.turning button:not(.larger)').textContent") == "Previous page"
    click(chromium, ".show button")
    assert not measured(chromium, f"{SHEET}.open || {SHEET}.childElementCount")
    assert [entry["message"] for entry in chromium.get_log("browser")] == []
    assert {url for url in requested(chromium) if not url.startswith((report.address, "data:"))} == set()


def test_a_page_is_enlarged_and_closed_by_the_keyboard(chromium: Chrome, report: Served) -> None:
    from selenium.webdriver import Keys

    opened(chromium, report.address, width=1280)
    answered(chromium)
    measured(chromium, "document.querySelector('.show button').focus()")
    named = "document.activeElement.ariaLabel ?? document.activeElement.textContent"
    assert measured(chromium, named) == "Show page of source 1"
    press(chromium, Keys.ENTER)
    shown(chromium, "Page 2 of report.pdf")
    assert measured(chromium, named) == "Hide page of source 1"
    assert measured(chromium, "document.activeElement.ariaExpanded") == "true"
    names = []
    while "Larger" not in names:
        press(chromium, Keys.TAB)
        names.append(measured(chromium, named))
        assert len(names) < 4, names
    assert "Next page" in names
    assert measured(chromium, f"{SHEET}.querySelector('.view').tabIndex") == 0, "it is scrolled by the keyboard"
    press(chromium, Keys.ENTER)
    until(chromium, f"{SHEET}.matches(':modal')")
    assert measured(chromium, f"{SHEET}.querySelector('img').clientWidth > 900")
    assert measured(chromium, named) == "Smaller"
    press(chromium, Keys.ESCAPE)
    until(chromium, f"{SHEET}.open && !{SHEET}.matches(':modal')")
    press(chromium, Keys.ESCAPE)
    until(chromium, f"!{SHEET}.open")
    assert measured(chromium, named) == "Show page of source 1"
    assert measured(chromium, ANSWERED), "no question was stopped"


def test_a_page_of_a_file_that_has_changed_is_not_shown(chromium: Chrome, models: ModelSettings, tmp_path: Path) -> None:
    path = tmp_path / "report.pdf"
    path.write_bytes(pdf(f"{SEALED}\n{NOTHING_MORE}".encode()))
    with serving(models, path) as served:
        opened(chromium, served.address)
        answered(chromium)
        path.write_bytes(pdf(NOTHING_MORE.encode()))
        click(chromium, ".show button")
        until(
            chromium,
            f"{SHEET}.textContent.includes('Report.pdf has changed') || {SHEET}.textContent.includes('report.pdf has changed')",
        )
        assert measured(chromium, f"{SHEET}.querySelectorAll('img').length") == 0


def test_a_saved_page_shows_its_pictures_without_a_server(chromium: Chrome, report: Served, tmp_path: Path) -> None:
    opened(chromium, report.address)
    answered(chromium)
    saved = "fetch(document.querySelector('.save').href).then(response => response.text())"
    (tmp_path / "saved.html").write_text(measured(chromium, saved, awaited=True), "utf-8")
    for width in (400, 1280):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        visit(chromium, (tmp_path / "saved.html").as_uri())
        assert measured(chromium, "[...document.querySelectorAll('img')].map(each => each.alt.split(' of ')[0])") == [
            "Page 2",
            "Page 3",
        ]
        click(chromium, "details.sheet summary")
        until(chromium, "document.querySelector('details.sheet img').naturalWidth === 1000")
        assert measured(chromium, "document.querySelector('.boxes rect').getBoundingClientRect().width > 50")
        assert measured(chromium, "document.documentElement.scrollWidth <= document.documentElement.clientWidth")
