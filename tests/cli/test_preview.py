"""What a terminal shows before the output: the nearest chunks, the line with the seconds that are left, the unchecked answer."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import TextIO

import pytest

from fbrag_cli.cli.live import Preview, Region
from fbrag_cli.errors import FbragError
from fbrag_cli.indexing.collect import collect_text
from fbrag_cli.methods import registry
from fbrag_cli.methods.fb_rag.baselines import Vanilla
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.method import Method
from fbrag_cli.progress import Event
from fbrag_cli.query import Query
from fbrag_cli.session import forecast
from fbrag_cli.session.forecast import KIND, Forecast
from fbrag_cli.storage.cache import Cache
from fbrag_cli.text.table import width_of
from tests.cli.screen import Screen, on_screen, open_terminal, resize
from tests.cli.test_ask_mechanics import FAST, MODELS, QUESTION
from tests.conftest import INQUIRY, Run
from tests.test_corpus import document

FEW = ("--select", "2", "--chunk-words", "60", "--max-tokens", "24", *MODELS)
ONE = (*FEW[:-4], *MODELS[2:])  # no small model
ENGLISH = "The barque sailed at dawn. Captain Vance was her master.\n" * 40 + "The cook was ill, and nobody ate."
CHINESE = "这艘船在黎明时分起航，前往北方的海湾，途中遇到了大雾。\n" * 40 + "船长是张伟。"


_MARK = "\x1b[m"  # changes nothing, and says that all before it was read


# -- the region ------------------------------------------------------------------------------------------------------------


class Terminal:
    """A pseudo-terminal with a stream to write to, and the screen that shows what was written."""

    def __init__(self, columns: int, rows: int) -> None:
        self._master, self._slave = open_terminal(columns, rows)
        self.stream: TextIO = os.fdopen(self._slave, "w", encoding="utf-8")
        self.screen = Screen(columns, rows)

    def resize(self, columns: int, rows: int) -> None:
        resize(self._slave, columns, rows)

    def lines(self) -> list[str]:
        self.stream.write(_MARK)
        self.stream.flush()
        written = b""
        while not written.endswith(_MARK.encode()):
            written += os.read(self._master, 65536)
        self.screen.feed(written.decode())
        return self.screen.lines()

    def close(self) -> None:
        self.stream.close()
        os.close(self._master)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal(60, 10)
    yield made
    made.close()


def test_a_region_is_drawn_over_and_leaves_no_trace(terminal: Terminal) -> None:
    terminal.stream.write("$ fbrag ask\n")
    region = Region(terminal.stream)
    region.draw([], "reading documents")
    assert terminal.lines() == ["$ fbrag ask", "reading documents"]
    region.draw(["one", "two", "three"], "loading")
    assert terminal.lines() == ["$ fbrag ask", "one", "two", "three", "loading"]
    region.draw(["one", "2"], "go")
    assert terminal.lines() == ["$ fbrag ask", "one", "2", "go"]
    region.erase()
    region.erase()
    assert terminal.lines() == ["$ fbrag ask"]


def test_a_region_at_the_bottom_of_the_terminal_erases_nothing_else(terminal: Terminal) -> None:
    before = [f"line {i}" for i in range(30)]
    terminal.stream.write("\n".join(before) + "\n")
    region = Region(terminal.stream)
    for n in (1, 40, 3, 12):  # more lines than the terminal has rows are cut
        region.draw([f"{n} {i}" for i in range(n)], "status")
        assert terminal.lines()[30:] == [*(f"{n} {i}" for i in range(min(n, 8))), "status"]
    region.erase()
    assert terminal.lines() == before


def test_no_line_of_a_region_is_wider_than_the_terminal(terminal: Terminal) -> None:
    region = Region(terminal.stream)
    region.draw(["漢" * 100, "x" * 100], "字" * 100)
    shown = terminal.lines()
    assert len(shown) == 3
    assert all(width_of(line) < 60 for line in shown)
    region.erase()
    assert terminal.lines() == []


def test_a_region_follows_a_change_of_size(terminal: Terminal) -> None:
    terminal.stream.write("$ fbrag ask\n")
    region = Region(terminal.stream)
    region.draw(["x" * 100] * 5, "status")
    terminal.resize(30, 4)
    region.draw(["y" * 100] * 5, "status")
    assert terminal.lines()[1:] == ["y" * 28 + "…"] * 2 + ["status"]
    region.erase()
    assert terminal.lines() == ["$ fbrag ask"]


# -- the lines -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "question"), [(ENGLISH, "Who was ill?"), (CHINESE, "船长是谁？")])
@pytest.mark.parametrize("columns", [8, 30, 60, 100])
@pytest.mark.parametrize("rows", [0, 1, 2, 5, 30])
def test_a_preview_fits_the_terminal(text: str, question: str, columns: int, rows: int) -> None:
    preview = Preview(Query(question, collect_text(document(text, "a long name of a document 文件.txt"), 60), Vanilla()))
    preview.update(Event("recall", "ranked", positions=(0, 1)))
    preview.update(Event("answer", "text", text="It was the cook, who 生病了 and could not work. " * 9))
    lines = preview.lines(columns, rows)
    assert len(lines) <= rows
    assert all(width_of(line) <= columns or columns < 30 for line in lines)  # the region cuts a single word


def test_a_preview_has_the_place_and_the_best_line_of_each_chunk() -> None:
    preview = Preview(Query("Who was ill?", collect_text(document(ENGLISH, "ship.txt"), 60), Vanilla()))
    assert preview.lines(60, 20) == []
    preview.update(Event("recall", "ranked", positions=(6,)))
    heading, place, line = preview.lines(60, 20)
    assert heading.startswith("Best keyword")
    assert place == "ship.txt:41"
    assert line == "    The cook was ill, and nobody ate."


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_what_is_nearest_is_a_whole_sentence(columns: int) -> None:
    sentence = "Her ballast was pig iron, with shingle on top of it to fill the ends, and nobody had looked at it for nine years."
    text = "\n".join(wrap(f"She was built at Dunlathe. {sentence} She drew thirteen feet. {'The cook slept well. ' * 60}", 44))
    preview = Preview(Query("What was the ballast made of?", collect_text(document(text, "ship.txt"), 60), Vanilla()))
    preview.update(Event("recall", "ranked", positions=(0,)))
    heading, place, *lines = preview.lines(columns, 20)
    assert (heading, place) == ("Best keyword matches so far:", "ship.txt:1-4")
    assert " ".join(line[4:] for line in lines) == sentence
    assert all(width_of(line) <= columns for line in lines)


def test_of_a_text_without_sentences_the_nearest_line_is_shown() -> None:
    rows = (
        "\n".join(f"lamp {n}, copper, Dunlathe" for n in range(30))
        + "\nballast, pig iron, Ironhythe\n\n"
        + "The cook slept. " * 90
    )
    preview = Preview(Query("What was the ballast made of?", collect_text(document(rows, "ship.csv"), 130), Vanilla()))
    preview.update(Event("recall", "ranked", positions=(0,)))
    assert preview.lines(60, 20)[2:] == ["    ballast, pig iron, Ironhythe"]


def test_the_nearest_line_ends_with_its_sentence() -> None:
    rows = "\n".join(f"lamp {n}, copper, Dunlathe" for n in range(30)) + "\nballast, pig iron。" + "The cook slept。" * 90
    preview = Preview(Query("What was the ballast made of?", collect_text(document(rows, "ship.txt"), 130), Vanilla()))
    preview.update(Event("recall", "ranked", positions=(0,)))
    assert preview.lines(60, 20)[2:] == ["    ballast, pig iron。"]


def test_the_end_of_the_answer_comes_before_the_nearest_chunks() -> None:
    preview = Preview(Query("Who was ill?", collect_text(document(ENGLISH, "ship.txt"), 60), Vanilla()))
    preview.update(Event("recall", "ranked", positions=(1,)))
    preview.update(Event("answer", "text", text="\n" + "word " * 60 + "end"))
    assert preview.lines(60, 20)[:1] == ["Best keyword matches so far:"]
    assert preview.lines(60, 20)[3].startswith("draft (not yet checked): word")
    assert [line.split()[-1] for line in preview.lines(60, 3)] == ["word", "word", "end"]
    preview.update(Event("answer", "start"))  # Self-Route asks twice
    assert len(preview.lines(60, 20)) == 3


def test_hostile_text_is_shown_in_a_preview_and_not_obeyed() -> None:
    preview = Preview(
        Query(
            "Who was ill?", collect_text(document("The cook\x1b[2J was ill\u202e today. " * 20, "a\x1b[31mb.txt"), 60), Vanilla()
        )
    )
    preview.update(Event("recall", "ranked", positions=(0,)))
    preview.update(Event("answer", "text", text="\x1b]0;title\x07 cook\r\tx"))
    shown = preview.lines(60, 20)
    assert len(shown) == 4
    assert all(line.isprintable() for line in shown)


# -- the seconds that are left -----------------------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(forecast, "perf_counter", made)
    return made


WORDS = {"forward": 1000.0, "answer": 500.0}


def question(told: Forecast, clock: Clock, seconds: float = 1.0) -> Iterator[float | None]:
    """Run a question of 67 times `seconds`, and yield what is forecast after each event."""

    def after(passed: float, *about: object) -> float | None:
        clock.now += passed * seconds
        told.update(Event(*about))  # type: ignore[arg-type]
        return told.left()

    yield after(0, "load", "start")
    yield after(2, "load", "done")
    yield after(0, "forward", "start")
    yield from (after(10 if done else 0, "forward", "progress", done, 1500) for done in (0, 500, 1000, 1500))
    yield from (after(2 if done > 1 else 0, "forward", "written", done, 128) for done in range(1, 8))
    yield after(0, "forward", "done")
    yield after(0, "load", "start")
    yield after(0, "load", "done")
    yield after(0, "answer", "start")
    yield from (after(10 if done else 0, "answer", "progress", done, 750) for done in (250, 500, 750))
    yield after(0, "answer", "written", 1, 512)
    yield after(2, "answer", "written", 2, 512)
    yield after(0, "answer", "done")
    yield after(0, "verify", "start")
    yield after(1, "verify", "done")


def test_the_first_run_has_no_forecast_and_the_second_one_that_of_the_first(clock: Clock) -> None:
    first = Forecast({}, WORDS, checked=True)
    assert set(question(first, clock)) == {None}
    second = Forecast(first.pace, WORDS, checked=True)
    began = clock.now
    ends = [None if left is None else clock.now + left for left in question(second, clock)]
    total = clock.now - began
    assert ends[-1] is None
    assert all(end is not None and abs(end - began - total) < 0.1 * total for end in ends[:-1])


def test_a_run_that_is_slower_than_the_last_one_is_noticed(clock: Clock) -> None:
    first = Forecast({}, WORDS, checked=True)
    list(question(first, clock))
    second = Forecast(first.pace, WORDS, checked=True)
    began = clock.now
    found = [(clock.now - began, left) for left in question(second, clock, seconds=3)]
    total = clock.now - began
    passed, left = found[0]
    assert left is not None
    assert abs(passed + left - total / 3) < 0.1 * total
    passed, left = found[5]  # two thirds of the first prompt are read
    assert left is not None
    assert abs(passed + left - total) < 0.1 * total


def test_seconds_count_down_between_two_events_and_end_at_zero(clock: Clock) -> None:
    first = Forecast({}, WORDS, checked=True)
    list(question(first, clock))
    second = Forecast(first.pace, WORDS, checked=True)
    second.update(Event("load", "start"))
    left = second.left()
    clock.now += 5
    assert left is not None
    assert second.left() == pytest.approx(left - 5)
    clock.now += 500
    assert second.left() == 0


def test_a_longer_text_takes_longer_and_a_question_without_a_check_less(clock: Clock) -> None:
    first = Forecast({}, WORDS, checked=True)
    list(question(first, clock))

    def expected(words: dict[str, float], *, checked: bool = True) -> float:
        told = Forecast(first.pace, words, checked=checked)
        told.update(Event("load", "start"))
        return told.left() or 0

    usual = expected(WORDS)
    assert expected({"forward": 2000, "answer": 500}) == pytest.approx(usual + 30)
    assert expected(WORDS, checked=False) == pytest.approx(usual - 1)
    assert expected({"answer": 500}) < usual - 30


def test_a_pace_that_is_damaged_in_the_cache_is_dropped(tmp_path: Path) -> None:
    cache, key = Cache(tmp_path / "cache"), "0" * 64
    for seconds in (0.5, 0.25):
        cache.write_json(KIND, key, {"load": (seconds, 1.0)})
    assert cache.read_json(KIND, key, forecast._read) == {"load": (0.25, 1.0)}
    for damaged in (-1.0, 0.0, float("1e999")):
        cache.write_json(KIND, key, {"load": (damaged, 1.0)})
        assert cache.read_json(KIND, key, forecast._read) is None
        assert cache.path(KIND, key) is None


# -- names for settings ------------------------------------------------------------------------------------------------------

FILE, VARIABLE, FLAG = range(3)


def made(*, on_gpu: bool = False, **given: tuple[object, int]) -> Method:
    """The method of options of which `given` are set, each with its origin."""
    layers = [{name: value for name, (value, origin) in given.items() if origin == each} for each in (FILE, VARIABLE, FLAG)]
    return registry.choose_method(*layers, on_gpu=on_gpu)


def test_fast_draws_no_samples_and_thorough_reads_more() -> None:
    assert made(fast=(True, FLAG)) == FBRag(samples=0)
    assert made(thorough=(True, FLAG)) == FBRag(samples=5, select=8)
    assert made(thorough=(True, FLAG), on_gpu=True) == FBRag(samples=5, select=20, recall=20, forward_tokens=128)
    assert made(thorough=(True, FLAG), method=("vanilla", FLAG)) == Vanilla(select=8)


def test_an_option_beside_a_preset_counts_unless_it_comes_from_further_away() -> None:
    assert made(thorough=(True, FLAG), select=(3, FLAG)) == FBRag(samples=5, select=3)
    assert made(thorough=(True, FLAG), select=(3, FILE)) == FBRag(samples=5, select=8)
    assert made(thorough=(True, FILE), select=(3, FLAG)) == FBRag(samples=5, select=3)
    assert made(thorough=(True, FILE), select=(None, FLAG)) == FBRag(samples=5, select=8)
    assert made(fast=(True, FILE), method=("vanilla", FLAG)) == Vanilla()
    assert made(fast=(True, FILE), samples=(2, FLAG)) == FBRag(samples=2)
    assert made(fast=(True, FILE), thorough=(True, FLAG)) == FBRag(samples=5, select=8)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"fast": True, "thorough": True}, "use either fast or thorough"),
        ({"fast": True, "method": "vanilla"}, "fast has no effect with the method vanilla"),
        ({"fast": True, "samples": 3}, "fast has no effect next to samples"),
        ({"thorough": True, "method": "closed-book"}, "thorough has no effect with the method closed-book"),
        ({"thorough": True, "method": "fit-rag"}, "thorough changes nothing with the method fit-rag"),
        ({"samples": 0, "small": "m.gguf"}, "small has no effect with samples 0"),
        ({"fast": True, "temperature": 5}, "temperature has no effect with fast"),
        ({"samples": 0, "weights": "0:1"}, "weights has no effect with samples 0"),
        ({"method": "vanilla", "samples": 3}, "samples has no effect with the method vanilla"),
    ],
)
def test_what_would_have_no_effect_is_refused(given: dict[str, object], what: str) -> None:
    with pytest.raises(FbragError, match=what) as told:
        made(**{name: (value, FLAG) for name, value in given.items()})
    assert told.value.code == "usage"
    assert told.value.hint


def test_presets_are_options_of_ask_and_explain_and_of_their_file(fbrag: Run, tmp_path: Path) -> None:
    assert fbrag("ask", INQUIRY, QUESTION, "--dry-run", "--fast").stdout.endswith(
        ": 2 to retrieve, 400 words of windows to read\n"
    )
    assert fbrag("ask", INQUIRY, QUESTION, "--dry-run", "--thorough").stdout.endswith(", 1,800 words of windows to read\n")
    (tmp_path / "fast.toml").write_text("fast = true\n")
    configured = ("--config", tmp_path / "fast.toml", "--dry-run")
    assert fbrag("ask", INQUIRY, QUESTION, *configured).stdout.endswith(": 2 to retrieve, 400 words of windows to read\n")
    assert fbrag("ask", INQUIRY, QUESTION, *configured, "--method", "vanilla").stdout.endswith(" chunks: 5 to select\n")
    assert "2 forward samples" in fbrag("ask", INQUIRY, QUESTION, *configured, "-k", "2").stdout
    both = fbrag("explain", INQUIRY, QUESTION, "--fast", "--thorough")
    assert both.returncode == 2
    assert both.stderr.splitlines()[1] == "hint: leave one of them out"


# -- the command, with the 135M model ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def _model(smollm2: Path) -> None:
    """Every test here may need it in the store."""


def test_a_terminal_shows_what_is_known_and_then_what_a_pipe_gets(
    module_environment: dict[str, str], fbrag_cached: Run, tmp_path: Path
) -> None:
    seen: list[list[str]] = []
    command = ["ask", str(INQUIRY), QUESTION, *FAST]
    screen, code = on_screen(160, 40, command, module_environment, tmp_path, lambda screen, *_: seen.append(screen.lines()))
    piped = fbrag_cached(*command)
    assert code == piped.returncode
    answered = piped.stdout.replace("\n  > ", "\n    ").splitlines()
    assert screen.lines()[: len(answered) + 2] == ["", *answered, ""]
    assert " s on CPU · " in screen.lines()[len(answered) + 2]
    # The nearest chunks come before any model is loaded, dimmed; the answer before its check.
    nearest = [lines for lines in seen if any(line.startswith("Best keyword") for line in lines)]
    assert re.match(rf"{re.escape(str(INQUIRY))}:\d+(-\d+)?$", nearest[0][1])
    assert nearest[0][2].startswith("    ")
    assert screen.raw.index("Best keyword") < screen.raw.index("loading models") < screen.raw.index("% read")
    assert "\x1b[2mBest keyword" in screen.raw
    assert "\x1b[2mdraft (not yet checked): " in screen.raw
    assert screen.raw.index("draft (not yet checked): ") < screen.raw.index("checking the answer")
    assert re.search(r"writing 2 samples \(\d+ of 24 tokens\)", screen.raw)
    assert not any("Best keyword" in line or "not yet checked" in line for line in screen.lines())
    # The pace of this run serves the next one.
    assert " s left" not in screen.raw
    again, _ = on_screen(160, 40, [*command, "--seed", "7"], module_environment, tmp_path)
    assert re.search(r"forward lookup(: \d+% read)? · about \d+ s left", again.raw)


def test_a_narrow_and_low_terminal_and_wide_characters(clean_environment: dict[str, str], fbrag: Run, tmp_path: Path) -> None:
    (tmp_path / "船.txt").write_text(CHINESE, "utf-8")
    seen: list[list[str]] = []
    command = ["ask", "船.txt", "船长是谁？", "--allow-unsupported", "--sources", "none", *FAST]
    screen, code = on_screen(60, 6, command, clean_environment, tmp_path, lambda screen, *_: seen.append(screen.lines()))
    assert code == 0
    assert any(line.startswith("Best keyword") for lines in seen for line in lines)
    assert "draft (not yet checked): " in screen.raw  # also where no check follows
    piped = fbrag(*command)
    assert "".join("".join(screen.lines()).split()).startswith("".join(piped.stdout.split()))


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ([], {"NO_COLOR": "1"}),
        ([], {"TERM": "dumb"}),
        (["-q"], {}),
        (["-a"], {}),
        (["--no-progress"], {}),
        (["--json"], {}),
        (["-o", "answer.txt"], {}),
    ],
    ids=str,
)
def test_where_there_is_no_preview(
    module_environment: dict[str, str], tmp_path: Path, options: list[str], environment: dict[str, str]
) -> None:
    command = ["ask", str(INQUIRY), QUESTION, "--fast", *ONE, "--allow-unsupported", *options]
    screen, code = on_screen(100, 30, command, module_environment | environment, tmp_path)
    assert code == 0
    assert "Best keyword" not in screen.raw
    assert "not yet checked" not in screen.raw


def test_an_interrupt_and_an_error_leave_nothing_of_the_preview(clean_environment: dict[str, str], tmp_path: Path) -> None:
    def interrupt(screen: Screen, process: subprocess.Popen[bytes], terminal: int) -> None:
        if "forward lookup" in screen.raw and process.poll() is None and "sent" not in seen:
            seen.append("sent")
            process.send_signal(signal.SIGINT)

    seen: list[str] = []
    screen, code = on_screen(100, 30, ["ask", str(INQUIRY), QUESTION, *FAST], clean_environment, tmp_path, interrupt)
    assert "Best keyword" in screen.raw
    assert code == 130
    assert screen.lines() == []
    screen, code = on_screen(100, 30, ["ask", str(INQUIRY), QUESTION, *FAST, "--set", "ctx=256"], clean_environment, tmp_path)
    assert "Best keyword" in screen.raw
    assert code != 0
    assert [line.partition(":")[0] for line in screen.lines() if ": " in line][:2] == ["error", "hint"]


def test_without_progress_a_plain_line_says_each_stage(clean_environment: dict[str, str], tmp_path: Path) -> None:
    command = ["ask", str(INQUIRY), QUESTION, *FAST, "--no-progress", "--no-cache", "--color", "never"]
    screen, _ = on_screen(100, 30, command, clean_environment, tmp_path)
    assert "\x1b" not in screen.raw
    assert "\r" not in screen.raw.replace("\r\n", "")
    stages = ["reading documents", "forward lookup", "loading models", "answering", "checking the answer"]
    assert screen.lines()[: len(stages)] == stages
    assert not list(tmp_path.rglob(KIND))  # --no-cache keeps no pace


def test_without_progress_the_plain_lines_say_how_long_it_takes_where_that_is_known(
    clean_environment: dict[str, str], tmp_path: Path
) -> None:
    command = ["ask", str(INQUIRY), QUESTION, *FAST, "--no-progress"]
    environment = clean_environment | {"FBRAG_CACHE_DIR": str(tmp_path / "cache")}
    on_screen(60, 30, command, environment, tmp_path)
    screen, _ = on_screen(60, 30, [*command, "--seed", "7"], environment, tmp_path)
    assert any(re.fullmatch(r"forward lookup, about \d+ s left", line) for line in screen.lines())


def test_fast_is_one_call_of_one_model(fbrag_cached: Run) -> None:
    told = json.loads(fbrag_cached("ask", INQUIRY, QUESTION, "--fast", "--json", *ONE).stdout)
    assert (told["method"]["name"], told["method"]["samples"], told["samples"]) == ("fb-rag", 0, [])
    assert [*told["models"]] == ["large"]
    assert [stage["name"] for stage in told["stages"] if stage.get("prompt_tokens")] == ["answer"]
    assert {source["forward_score"] for source in told["sources"]} == {None}
