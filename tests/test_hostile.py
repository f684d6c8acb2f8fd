"""No document, name, value, row or environment ends the command in a traceback, a signal, 70, or by accident in 1.

The corpus is in `hostile.py`; servers, batches and trained folders are in test_hostile_models.py, model files that lie in
generation/test_gguf_file.py, containers in cli/test_containers.py.
"""

from __future__ import annotations

import io
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.cli.explain import explain
from fbrag_cli.cli.keys import known_keys, variables
from fbrag_cli.cli.main import run
from fbrag_cli.doctor import probe
from fbrag_cli.documents.load import load
from fbrag_cli.errors import FbragError
from tests.conftest import Run
from tests.hostile import MADE, NAMES, ROWS, VALUES, mutants, spoiled, written

#: What a terminal would obey.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    def within(self, *codes: int) -> Ended:
        """Check the exit code, for one error line where it is one of a failure, and both streams."""
        assert self.code in codes, self.err[:2000]
        lines = self.err.splitlines()
        assert len([line for line in lines if line.startswith("error: ")]) == (self.code in (2, 3, 4, 5)), self.err[:2000]
        assert "Traceback" not in self.err
        assert "internal error" not in self.err
        assert not _OBEYED.search(self.out), "stdout"
        assert not _OBEYED.search(self.err), "stderr"
        assert all(len(line) < 1100 for line in lines)
        return self


Here = Callable[..., Ended]


@pytest.fixture
def here(tmp_path: Path, clean_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Here:
    """Run a command line in this process: a start would take longer than the rest."""
    for name in os.environ:
        if name not in clean_environment:
            monkeypatch.delenv(name)
    for name, value in clean_environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FBRAG_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "fine.txt").write_text("The brig sailed at noon.")
    monkeypatch.chdir(tmp_path / "work")

    def ended(*arguments: object) -> Ended:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run([str(each) for each in arguments], Cancellation())
        return Ended(int(code), out.getvalue(), err.getvalue())

    return ended


def _some(values: Iterable[str], count: int, salt: str) -> list[str]:
    return random.Random(salt).sample(list(values), count)


# -- documents ---------------------------------------------------------------------------------------------------------------


def test_every_document_is_read_or_refused(tmp_path: Path) -> None:
    """Nothing but FbragError of a document comes out of reading."""
    for name, data in [*MADE.items(), *mutants(12)]:
        path = tmp_path / name
        path.write_bytes(data)
        refusal = None
        try:
            load(str(path))
        except FbragError as error:
            refusal = error
        except BaseException as error:
            raise AssertionError(f"{name}: {error!r}") from error
        assert refusal is None or (refusal.exit_code == 3 and len(refusal.message) < 500 + len(str(path))), (name, refusal)
        path.unlink()


@pytest.mark.parametrize("name", [*MADE])
def test_every_document_is_explained_or_refused(here: Here, name: str) -> None:
    Path(name).write_bytes(MADE[name])
    here("explain", "--method", "vanilla", name, "Who is the keeper?", "--html", "page.html").within(0, 3)
    here("text", name).within(0, 3)


def test_a_folder_of_all_of_them_is_read(here: Here, tmp_path: Path) -> None:
    written(tmp_path / "work" / "all", MADE | dict(mutants(3)))
    command = ("explain", "--method", "vanilla", "all", "Who is the keeper?", "--json")
    done = here(*command).within(0)
    assert not re.search(r"cannot be read: \w+(Error|Exception)\b", done.err), done.err
    assert _without_times(here(*command).within(0).out) == _without_times(done.out)


def test_every_name_is_printed_and_nothing_more(here: Here) -> None:
    for name in NAMES:
        path = os.fsdecode(b"./" + name)
        Path(path).write_text("The brig sailed at noon under Tamsin Vale.")
        for options in (["--json"], ["--chunk", "1"], ["--html", "page.html"]):
            done = here("explain", "--method", "vanilla", path, "brig?", *options).within(0)
            assert not any(line.startswith("[7] fake") for line in done.out.splitlines())
        assert "<script>alert" not in Path("page.html").read_text("utf-8")
        here("ask", "--dry-run", path + "x", "Who?").within(3)
    for options in ([], ["--json"]):
        done = here("explain", "--method", "vanilla", ".", "brig?", "--exclude", "page.html", *options).within(0)
        assert not any(line.startswith("[7] fake") for line in done.out.splitlines())


# -- values ------------------------------------------------------------------------------------------------------------------


def _options() -> list[str]:
    """The long options of `explain` that take a value, but for those that name a time for all of this process."""
    valued = [each for name, each in explain.settings.items() if each.kind is not bool and name != "arguments"]
    return sorted({each.typed for each in valued} - {"--timeout"})


@pytest.mark.parametrize("option", _options())
def test_some_values_of_every_option_are_taken_or_refused(here: Here, option: str) -> None:
    for value in _some(VALUES, 3, option):
        flag, _, name = option.partition(" ")  # of "--set top-k"
        done = here(
            "explain", "--method", "vanilla", "--offline", "fine.txt", "brig?", flag, f"{name}={value}" if name else value
        )
        done.within(*((0, 1) if option == "--find" else (0, 2, 3, 4, 5)))
    assert {*os.listdir("..")} <= {"cache", "run", "work"}


@pytest.mark.parametrize("variable", variables())
def test_some_values_of_every_variable_are_taken_or_refused(here: Here, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    for value in _some(VALUES, 2, variable):
        if "/" not in value or not variable.endswith("_DIR"):
            monkeypatch.setenv(variable, value)
            here("explain", "--method", "vanilla", "--offline", "fine.txt", "brig?").within(0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    "key", sorted({key.rpartition(".")[2]: key for key in sorted(known_keys())}.values())
)  # one of each name
def test_some_values_of_every_key_are_taken_or_refused(here: Here, key: str) -> None:
    for value in _some([value for value in VALUES if value != "-"], 2, key):
        here("config", "set", "--config", "own.toml", "--", key, value).within(0, 2)
        here("config", "get", "--config", "own.toml", key).within(0, 2)
    here("config", "show", "--config", "own.toml").within(0, 2)


def test_a_value_that_is_no_text_is_not_written(here: Here) -> None:
    here("config", "set", "--config", "own.toml", "--", "large", "\udcff").within(2)
    assert not Path("own.toml").exists()


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe",
        b"\x00" * 100,
        b"\xef\xbb\xbfgpu = 'off'",
        b"gpu = 'off'\ngpu = 'off'",
        b"[ask]\n[ask]",
        b"ask = 1",
        b"[[ask]]",
        b"ask.samples.x = 1",
        b'"\\u001b[31m" = 1',
        b"gpu = '\x1b[31m'",
        b'gpu = "\\ud800"',
        b"gpu = 1979-05-27",
        b"samples = 1e999",
        b"x = '" + b"y" * 100_000 + b"'",
        b"x" * 100_000 + b" = 1",
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_every_configuration_file_is_read_or_refused(here: Here, text: bytes) -> None:
    Path("own.toml").write_bytes(text)
    here("explain", "--method", "vanilla", "fine.txt", "brig?", "--config", "own.toml").within(0, 2)
    here("config", "show", "--config", "own.toml").within(0, 2)
    here("config", "set", "gpu", "off", "--config", "own.toml").within(0, 2)


@pytest.mark.parametrize("command", ["path", "rm", "verify", "pull"])
def test_no_name_of_a_model_reaches_out_of_the_store(here: Here, tmp_path: Path, command: str) -> None:
    (tmp_path / "sentinel.gguf").write_bytes(b"GGUF")
    (tmp_path / "models").mkdir()
    names = (
        "../sentinel",
        "../sentinel.gguf",
        "x/../../sentinel",
        *_some([each for each in VALUES if each != "--"], 12, command),
    )
    for name in names:
        here("models", command, "--offline", "-y", "--", name).within(0, 2, 3, 4)
        assert (tmp_path / "sentinel.gguf").exists(), name


def test_every_value_of_the_other_commands_is_taken_or_refused(here: Here) -> None:
    Path("q.txt").write_text("Who?")
    for value in VALUES:
        here("cache", "clear", "-y", "--older-than", value).within(0, 2)
        here("cache", "clear", "-y", "--kind", value).within(0, 2)
        here("config", "get", "--", value).within(2)
        here("models", "list", "--role", value).within(0, 2)
        here("batch", "fine.txt", "-Q", "q.txt", "--jobs", value).within(2)
        here("batch", "--offline", "fine.txt", "-Q", "q.txt", "--shard", value).within(2, 4)


def test_every_value_that_the_doctor_meets_is_a_finding(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "command", lambda *arguments: [sys.executable, "-c", "1"])  # a start would take longer
    for value in VALUES:
        for names in (("FBRAG_LARGE", "FBRAG_SMALL"), ("FBRAG_MODELS_DIR", "HF_ENDPOINT", "HTTPS_PROXY", "PIP_INDEX_URL")):
            with monkeypatch.context() as patch:
                for name in names:
                    patch.setenv(name, value)
                here("doctor", "--offline").within(0, 1)


# -- files that other options name -------------------------------------------------------------------------------------------

_CONTENTS = (
    b"",
    b"\x00\xff" * 99,
    b"{",
    b"[]",
    b"null",
    b'{"a": 1}',
    b'{"a": {"prompt": 7}}',
    b'{"d": {"prompt": "{x} {0} {"}}',
    b'{"d": {"prompt": "{input.__class__}", "max_tokens": -1}}',
    b"9" * 5000,
    b"[" * 20_000,
    b"\xef\xbb\xbf{}",
    b'{"\\ud800": 1}',
)


@pytest.mark.parametrize("content", _CONTENTS, ids=lambda content: ascii(content[:24]))
def test_every_file_of_prompts_or_instructions_is_taken_or_refused(here: Here, content: bytes) -> None:
    Path("given").write_bytes(content)
    Path("rows.jsonl").write_text(ROWS[0] + "\n")
    here("eval", "rows.jsonl", "--retrieval-only", "--method", "vanilla", "--prompts", "given").within(0, 2)
    here("eval", "rows.jsonl", "--retrieval-only", "--method", "vanilla", "--prompts", "given:d").within(0, 2)
    here("ask", "--dry-run", "fine.txt", "Who?", "--instructions", "@given").within(0, 2)
    here("ask", "--dry-run", "fine.txt", "Who?", "--password-file", "given").within(0, 2)


@pytest.mark.parametrize("content", [*_CONTENTS, b'"', b"x" * 140_000, b"question\n" + b"x" * 140_000, b"document,question\n,"])
def test_every_file_of_questions_or_jobs_is_taken_or_refused(here: Here, content: bytes) -> None:
    for name in ("given", "given.csv", "given.jsonl"):
        Path(name).write_bytes(content)
        here("batch", "--offline", "fine.txt", "-Q", name).within(2, 3, 4)
        here("batch", "--offline", "--pairs", name).within(2, 3, 4)


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", "--dry-run", "fine.txt", "Who?", "--password-file", "/dev/zero"),
        ("ask", "--dry-run", "fine.txt", "Who?", "--instructions", "@/dev/zero"),
        ("eval", "rows.jsonl", "--retrieval-only", "--prompts", "/dev/zero"),
        ("eval", "/dev/zero", "--retrieval-only"),
        ("config", "show", "--config", "/dev/zero"),
        ("ask", "--dry-run", "/dev/zero", "Who?"),
    ],
    ids=lambda arguments: arguments[0] + arguments[-2],
)
def test_a_file_without_end_is_refused(here: Here, arguments: tuple[str, ...]) -> None:
    Path("rows.jsonl").write_text(ROWS[0] + "\n")
    here(*arguments).within(2, 3)


@pytest.mark.parametrize(
    "note", [b"[" * 100_000, b"{}", b"[]", b'{"bytes":4,"mtime_ns":1,"sha256":[],"origin":null}', b"\xff", b"9" * 5000]
)
def test_every_note_of_a_model_is_read_or_left(here: Here, tmp_path: Path, note: bytes) -> None:
    written(tmp_path / "models", {"x.gguf": b"GGUF", "x.gguf.json": note})
    here("models", "list", "--json").within(0)
    here("models", "path", "x").within(0, 4)
    here("models", "verify", "x").within(0, 1, 4)


def test_every_row_of_a_data_set_is_asked_or_refused(here: Here) -> None:
    for number, row in enumerate(ROWS):
        Path("rows.jsonl").write_bytes(row.encode("utf-8", "surrogatepass") + b"\n")
        done = here("eval", "rows.jsonl", "--retrieval-only", "--method", "vanilla", "-o", f"out{number}.jsonl")
        try:
            done.within(0, 2, 3)
        except AssertionError as error:
            raise AssertionError(f"{row[:300]}: {error}") from None


def test_some_files_of_rows_are_continued_or_refused(here: Here) -> None:
    Path("rows.jsonl").write_text(ROWS[0] + "\n")
    command = ("eval", "rows.jsonl", "--retrieval-only", "--method", "vanilla", "-o", "out.jsonl")
    here(*command).within(0)
    honest = Path("out.jsonl").read_bytes()
    for data in (*spoiled(honest), *(row.encode() + b"\n" for row in ROWS[::12])):
        Path("out.jsonl").write_bytes(data)
        here(*command).within(0, 2)
        Path("other.jsonl").write_bytes(data)
        Path("out.jsonl").write_bytes(honest)
        here(*command, "--baseline", "other.jsonl").within(0, 2)


# -- the cache ---------------------------------------------------------------------------------------------------------------


def test_a_cache_that_was_tampered_with_changes_no_answer(here: Here, tmp_path: Path) -> None:
    written(tmp_path / "work" / "notes", {"a.txt": b"The brig sailed at noon.", "b.txt": b"Tamsin Vale kept the lamp."})
    commands = [("explain", "--method", "vanilla", what, "Who kept the lamp?", "--json") for what in ("notes", "fine.txt")]
    honest = [_without_times(here(*command).within(0).out) for command in commands]
    cache = tmp_path / "cache" / "fbrag"
    assert [path for path in cache.rglob("*") if path.is_file()]
    for number in range(0, 6, 2):
        for path in [path for path in cache.rglob("*") if path.is_file() and path.name != "CACHEDIR.TAG"]:
            path.write_bytes([*spoiled(path.read_bytes() or b"x" * 300)][number])
        assert [_without_times(here(*command).within(0).out) for command in commands] == honest


def _without_times(record: str) -> str:
    return re.sub(
        r'"(seconds|ram_peak_mb|cached|read|load)":[^,}]*', "", re.sub(r'"(timings|stages|cached)":[\[{][^\]}]*[\]}]', "", record)
    )


# -- the environment, in processes of their own ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "environment",
    [
        {"HOME": "", "TMPDIR": "/there/is/none", "LANG": "xx_YY.nothing", "LC_ALL": "tlh"},
        {"COLUMNS": "-5", "LINES": "x", "TERM": "\x1b[31m", "FORCE_COLOR": "1"},
        {"COLUMNS": "99999999999999999999", "PATH": "", "SHELL": "", "USER": ""},
        {"COLUMNS": "1", "NO_COLOR": "", "TZ": "../../etc/passwd", "PYTHONIOENCODING": "ascii"},
        {"OMP_NUM_THREADS": "-1", "GOMP_SPINCOUNT": "x", "OPENBLAS_NUM_THREADS": "x", "HF_ENDPOINT": "file:///etc"},
        {"FBRAG_NO_SUCH_NAME\x1b[31m": "1", "FBRAG_": "1", "FBRAG_CONFIG": "/dev/null", "XDG_CACHE_HOME": "relative"},
        {"XDG_CACHE_HOME": "/dev/null", "XDG_CONFIG_HOME": "/dev/null", "FBRAG_CACHE_DIR": "/proc/self"},
    ],
    ids=lambda environment: " ".join(environment)[:40].replace("\x1b", ""),
)
def test_no_environment_breaks_it(fbrag: Run, tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "fine.txt").write_text("The brig sailed at noon.")
    done = fbrag("explain", "--method", "vanilla", "fine.txt", "brig?", env=environment)
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 2, 5), done.stderr
    assert "\x1b[31m" not in done.stderr.replace("\x1b[1;31m", "")


@pytest.mark.parametrize("words", ["fbrag \x1b[31m '", "fbrag\nask\n--", "", "fbrag " + "x" * 100_000, "\udcff"])
@pytest.mark.parametrize("instruction", ["complete_bash", "complete_zsh", "\x1b[31m"])
def test_no_completion_prints_a_word_that_is_none(fbrag: Run, words: str, instruction: str) -> None:
    environment = {"_FBRAG_COMPLETE": instruction, "COMP_WORDS": words, "COMP_CWORD": "9", "_TYPER_COMPLETE_ARGS": words}
    done = fbrag(env=environment)
    assert done.returncode in (0, 70)
    assert "Traceback" not in done.stderr
    assert not _OBEYED.search(done.stdout)


@pytest.mark.parametrize("limit", ["-v 400000", "-n 24", "-f 0", "-s 256", "-t 1"])
@pytest.mark.parametrize("what", ["fine.txt", "notes"])
def test_no_limit_breaks_it(clean_environment: dict[str, str], tmp_path: Path, limit: str, what: str) -> None:
    written(tmp_path / "notes", {"a.txt": b"The brig sailed at noon.", "b.txt": b"Tamsin Vale kept the lamp."})
    (tmp_path / "fine.txt").write_text("The brig sailed at noon.")
    line = f"ulimit {limit}; exec {sys.executable} -m fbrag_cli explain --method vanilla {what} brig?"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env=clean_environment, cwd=tmp_path, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in ((0, 5, -24, -9, 137, 152) if limit == "-t 1" else (0, 5)), done.stderr
