"""`fbrag config`, and what the file does to the commands that it configures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Run


@pytest.fixture
def config(clean_environment: dict[str, str]) -> Path:
    """The user's own file, not there yet."""
    return Path(clean_environment["XDG_CONFIG_HOME"]) / "fbrag" / "config.toml"


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text("The brig sailed at noon.")
    return path


def test_a_key_is_set_shown_and_taken_out(fbrag: Run, config: Path) -> None:
    assert fbrag("config", "path").stdout == f"{config}\n"
    assert fbrag("config", "get", "gpu").stdout == "auto\n"
    done = fbrag("config", "set", "gpu", "off")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert config.read_text() == 'gpu = "off"\n'
    assert fbrag("config", "get", "gpu").stdout == "off\n"
    shown = {line.partition(" = ")[0]: line for line in fbrag("config", "show", "--origin").stdout.splitlines()}
    assert shown["gpu"].startswith('gpu = "off" ')
    assert shown["gpu"].endswith(f"  # {config}")
    assert shown["recall"].endswith("  # default")
    assert fbrag("config", "unset", "gpu").returncode == 0
    assert fbrag("config", "get", "gpu").stdout == "auto\n"
    again = fbrag("config", "unset", "gpu")
    assert (again.returncode, again.stderr) == (0, f"gpu is not in {config}\n")


def test_show_as_json(fbrag: Run, config: Path) -> None:
    fbrag("config", "set", "recall", "3")
    told = json.loads(fbrag("config", "show", "--json", env={"FBRAG_GPU": "off", "FBRAG_THREADS": ""}).stdout)
    assert (told["schema"], told["path"], told["unknown"]) == ("fbrag.config/1", str(config), [])
    assert told["values"]["gpu"] == {"value": "off", "origin": "FBRAG_GPU"}
    assert told["values"]["recall"] == {"value": 3, "origin": str(config)}
    assert told["values"]["temperature"]["origin"] == "default"
    assert told["values"]["threads"] == {"value": None, "origin": "default"}
    assert told["values"]["large"]["value"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["set", "gpuu", "off"], "did you mean gpu?"),
        (["unset", "sampels"], "did you mean samples?"),
        (["set", "gpu", "of"], "one of auto, off, require"),
        (["set", "samples", "many"], "a whole number from 0 to 64"),
        (["set", "samples", "65"], "a whole number from 0 to 64"),
        (["set", "recall", "0"], "a whole number, at least 1"),
        (["set", "gpu_layers", "some"], "auto, all or a number"),
        (["set", "jobs", "65"], "auto or a number from 1 to 64"),
        (["set", "offline", "perhaps"], "true or false"),
        (["set", "gpu"], "VALUE"),
        (["get"], "KEY"),
        (["get", "gpu", "threads"], "threads"),
        (["set", "gpu", "off", "--config", "none"], "no file to write"),
        (["shwo"], "show"),
    ],
)
def test_wrong_use(fbrag: Run, config: Path, arguments: list[str], said: str) -> None:
    done = fbrag("config", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert not config.exists()


def test_a_key_without_a_value_is_a_negative_result(fbrag: Run) -> None:
    done = fbrag("config", "get", "threads")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_another_file(fbrag: Run, config: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    assert fbrag("config", "set", "gpu", "off", "--config", other).returncode == 0
    assert fbrag("--config", other, "config", "get", "gpu").stdout == "off\n"
    assert fbrag("config", "get", "gpu", env={"FBRAG_CONFIG": str(other)}).stdout == "off\n"
    assert fbrag("config", "get", "gpu", "--config=none", env={"FBRAG_CONFIG": str(other)}).stdout == "auto\n"
    assert not config.exists()


def test_flags_go_before_variables_before_the_file_before_defaults(fbrag: Run, book: Path) -> None:
    def gpu(*flags: str, **env: str) -> str:
        done = fbrag("ask", book, "Who?", "--dry-run", *flags, env=env)
        return done.stderr.splitlines()[0].partition(", expected")[0].rpartition(" is ")[2]

    fbrag("config", "set", "gpu", "off")
    assert fbrag("config", "get", "gpu").stdout == "off\n"
    assert fbrag("config", "get", "gpu", env={"FBRAG_GPU": "require"}).stdout == "require\n"
    assert gpu(FBRAG_GPU="nine") == '"nine"'
    assert gpu("--gpu", "ten", FBRAG_GPU="nine") == '"ten"'
    assert fbrag("config", "get", "gpu", "--config", "none").stdout == "auto\n"


def test_global_options_of_the_file_yield_to_flags(fbrag: Run) -> None:
    fbrag("config", "set", "color", "always")
    assert "\x1b[" in fbrag("ask", "missing.txt", "Who?").stderr
    assert "\x1b[" not in fbrag("--color", "never", "ask", "missing.txt", "Who?").stderr
    assert "\x1b[" not in fbrag("ask", "missing.txt", "Who?", "--color", "never").stderr


def test_unknown_keys_are_one_warning_each(fbrag: Run, config: Path, book: Path) -> None:
    config.parent.mkdir(parents=True)
    config.write_text("sampels = 3\n[zoology]\nidle = 1\n")
    done = fbrag("ask", book, "Who?", "--dry-run")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        f"warning: {config}: unknown setting sampels; did you mean samples?",
        f"warning: {config}: unknown setting zoology; fbrag config show lists them",
    ]
    assert fbrag("ask", "-q", book, "Who?", "--dry-run").stderr == ""


def test_a_value_that_does_not_fit_is_told_with_its_place_and_can_be_mended(fbrag: Run, config: Path, book: Path) -> None:
    config.parent.mkdir(parents=True)
    config.write_text("# mine\nsamples = 'many'\n")
    done = fbrag("ask", book, "Who?", "--dry-run", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "config"
    assert done.stderr.splitlines()[0] == f'error: {config}: samples is "many", expected a whole number from 0 to 64'
    assert fbrag("ask", "--help").returncode == 0
    assert fbrag("config", "set", "samples", "3").returncode == 0
    assert config.read_text() == "# mine\nsamples = 3\n"
    assert fbrag("ask", book, "Who?", "--dry-run").returncode == 0


def test_a_folder_of_the_file_that_cannot_be_looked_into_has_none(fbrag: Run, book: Path) -> None:
    """As a home that this user may not search: the superuser, too, meets a name that is too long."""
    done = fbrag("ask", book, "Who?", "--dry-run", env={"XDG_CONFIG_HOME": f"/{'x' * 300}"})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_broken_file_is_told_with_its_line(fbrag: Run, config: Path, book: Path) -> None:
    config.parent.mkdir(parents=True)
    config.write_text("samples = 3\ngpu = \n")
    for arguments in (["ask", book, "Who?", "--dry-run"], ["config", "show"], ["config", "set", "gpu", "off"]):
        done = fbrag(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: {config}, line 2: ")
    assert fbrag("config", "path").stdout == f"{config}\n"
    assert config.read_text() == "samples = 3\ngpu = \n"
