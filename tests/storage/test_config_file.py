"""The configuration file: where it is looked for, what is wrong with it in words, and edits that leave the rest alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from fbrag_cli.cli.keys import find_key, known_keys, variables
from fbrag_cli.cli.main import Commands
from fbrag_cli.cli.option import Option, effective
from fbrag_cli.errors import FbragError
from fbrag_cli.settings import Setting
from fbrag_cli.storage.config_file import Config, ConfigFile, load, locate, set_value, unset_value
from tests.conftest import Run

KEYS = known_keys()
POSIX = pytest.mark.skipif(os.name != "posix", reason="places of POSIX systems")


def written(folder: Path, text: str) -> ConfigFile:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return ConfigFile(path, named=True)


# -- where it is -----------------------------------------------------------------------------------------------------------


def test_a_named_file_goes_first_and_none_means_none() -> None:
    assert locate("a.toml", {"FBRAG_CONFIG": "b.toml"}) == ConfigFile(Path("a.toml"), named=True)
    assert locate(None, {"FBRAG_CONFIG": "b.toml"}) == ConfigFile(Path("b.toml"), named=True)
    assert locate("none", {"FBRAG_CONFIG": "b.toml"}) is None
    assert locate(None, {"FBRAG_CONFIG": "none"}) is None


def test_a_file_has_to_be_there_only_if_it_is_named(tmp_path: Path) -> None:
    assert load(ConfigFile(tmp_path / "no" / "config.toml", named=False), KEYS) == Config({})
    with pytest.raises(FbragError, match="configuration file not found") as caught:
        load(ConfigFile(tmp_path / "config.toml", named=True), KEYS)
    assert caught.value.exit_code == 2


# -- what it says ----------------------------------------------------------------------------------------------------------


def test_values_of_every_kind(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        'gpu = "off"\nmax-error = 3\nrecall = 8\ngpu_layers = 3\ncache_limit = 1\noffline = true\n'
        'large = "m.gguf"\nmax-tokens = 200\n[ask]\nsamples = 3\n',
    )
    config = load(file, KEYS)
    assert config.values == {
        "gpu": "off",
        "recall": 8,
        "gpu_layers": "3",
        "cache_limit": 1.0,
        "offline": True,
        "large": "m.gguf",
        "max_tokens": 200,
    }
    assert config.unknown == ("max-error", "ask")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('samples = "five"', 'samples is "five", expected a whole number from 0 to 64'),
        ("samples = 65", "samples is 65, expected a whole number from 0 to 64"),
        ("samples = 5.0", "samples is 5.0, expected a whole number from 0 to 64"),
        ("samples = true", "samples is true, expected a whole number from 0 to 64"),
        ("gpu = false", "gpu is false, expected one of auto, off, require"),
        ('gpu = "on"', 'gpu is "on", expected one of auto, off, require'),
        ("gpu = {}", "gpu is a table, expected one of auto, off, require"),
        ("offline = 1", "offline is 1, expected true or false"),
        ("temperature = nan", "temperature is NaN, expected a number, at least 0"),
        ("temperature = inf", "temperature is Infinity, expected a number, at least 0"),
        ("recall = [8]", "recall is a list, expected a whole number, at least 1"),
        ('recall = "6k"', 'recall is "6k", expected a whole number, at least 1'),
        ("gpu_layers = -1", "gpu_layers is -1, expected auto, all or a number"),
        ("large = 7", "large is 7, expected text in quotes"),
    ],
)
def test_a_value_that_does_not_fit(tmp_path: Path, line: str, said: str) -> None:
    file = written(tmp_path, line + "\n")
    with pytest.raises(FbragError) as caught:
        load(file, KEYS)
    assert (caught.value.code, caught.value.message) == ("config", f"{file.path}: {said}")


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b'gpu = "off"\nsamples =\n', "line 2"),
        (b'gpu = "off\n', "line 1"),
        (b'gpu = "off"\ngpu = "auto"\n', "line 2"),
        (b'# fine\n\nfont = """', "line 3"),
        (b'# fine\ngpu = "\xff"\n', "line 2: not UTF-8"),
    ],
)
def test_a_file_that_is_not_toml_names_the_line(tmp_path: Path, raw: bytes, place: str) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(raw)
    with pytest.raises(FbragError) as caught:
        load(ConfigFile(path, named=False), KEYS)
    assert caught.value.code == "config"
    assert caught.value.message.startswith(f"{path}, {place}")


def test_what_editors_of_windows_write(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b'\xef\xbb\xbf# mine\r\ngpu = "off"\r\n')
    assert load(ConfigFile(path, named=False), KEYS).values == {"gpu": "off"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gpuu", "gpu"),
        ("sampels", "samples"),
        ("max-error", "max_errors"),
    ],
)
def test_a_key_that_nobody_knows(name: str, meant: str) -> None:
    with pytest.raises(FbragError) as caught:
        find_key(name)
    assert caught.value.hint == f"did you mean {meant}?"


def test_what_one_run_is_to_do_is_no_key() -> None:
    assert not {"json", "output", "pages", "password_file", "config", "yes", "verbose", "arguments", "find"} & set(KEYS)


def test_the_variables_are_those_of_the_options() -> None:
    own = {name for each in Commands().commands.values() for option in settings(each) for name in option.variables}
    others = {"FBRAG_CONFIG", "FBRAG_MODELS_DIR", "FBRAG_CACHE_DIR", "FBRAG_KEY"}
    assert {*variables()} == (own | others) - {"HF_HUB_OFFLINE"}


def settings(command: Any) -> list[Option]:
    below = [each for inner in getattr(command, "commands", {}).values() for each in settings(inner)]
    return [*below, *getattr(command, "settings", {}).values()]


def test_which_value_counts() -> None:
    def found(name: str, **environ: str) -> object:
        return effective(KEYS[name], {"samples": 4, "threads": 4}, environ).value

    assert (found("samples"), found("seed")) == (4, 0)
    assert found("threads", FBRAG_THREADS="7") == 7
    assert found("threads", FBRAG_THREADS="") == 4
    assert found("samples", FBRAG_SAMPLES="7") == 4
    assert found("offline", HF_HUB_OFFLINE="1") is True
    with pytest.raises(FbragError, match='FBRAG_THREADS is "many"'):
        found("threads", FBRAG_THREADS="many")


def test_help_and_repairs_work_with_a_broken_file(fbrag: Run, tmp_path: Path) -> None:
    broken = {"FBRAG_CONFIG": str(written(tmp_path, "gpu = ").path)}
    for arguments in (["ask", "--help"], ["--version"], ["config", "path"], ["--color", "never", "doctor", "--help"]):
        assert fbrag(*arguments, env=broken).returncode == 0
    for arguments in (["ask", "a.txt", "config"], ["--color", "always", "explain", "a.txt", "b"], ["models", "path"]):
        done = fbrag(*arguments, env=broken)
        assert (done.returncode, "line 1" in done.stderr) == (2, True)


def test_a_key_of_another_command_is_none_that_nobody_knows(fbrag: Run, tmp_path: Path) -> None:
    file = written(tmp_path, 'idle = "2h"\nmax_errors = 3\nsampels = 9\nlarge = "nosuch"\n')
    done = fbrag("ask", "missing.txt", "Who?", "--dry-run", "--config", file.path)
    assert done.stderr.splitlines()[0] == f"warning: {file.path}: unknown setting sampels; did you mean samples?"
    assert "unknown model nosuch" in done.stderr
    assert "sampels" not in fbrag("models", "path", "--config", file.path).stderr


# -- edits -----------------------------------------------------------------------------------------------------------------

HAND_WRITTEN = """\
# My settings.
gpu = "off"   # the card is for games
# good at minutes of meetings
large = "qwen2.5-coder-1.5b"
max-tokens = 200

[unheard_of]
samples = [1, 2]
"""


def test_an_edit_leaves_the_rest_alone(tmp_path: Path) -> None:
    file = written(tmp_path, HAND_WRITTEN)
    set_value(file, "gpu", "auto")
    set_value(file, "max_tokens", 100)
    assert file.path.read_text() == HAND_WRITTEN.replace('"off"', '"auto"').replace("200", "100")
    set_value(file, "threads", 2)
    assert load(file, KEYS) == Config(
        {"gpu": "auto", "threads": 2, "large": "qwen2.5-coder-1.5b", "max_tokens": 100}, ("unheard_of",)
    )
    assert all(comment in file.path.read_text() for comment in ("# My settings.", "# the card is for games", "# good at minutes"))
    for name in ("threads", "large"):
        assert unset_value(file, name)
        assert not unset_value(file, name)
    assert load(file, KEYS).values == {"gpu": "auto", "max_tokens": 100}
    assert "# good at minutes of meetings" in file.path.read_text()


@POSIX
def test_a_link_stays_a_link_and_permissions_stay(tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.toml"
    target.write_text("")
    target.chmod(0o600)
    link = tmp_path / "fbrag" / "config.toml"
    link.parent.mkdir()
    link.symlink_to(target)
    set_value(ConfigFile(link, named=False), "gpu", "off")
    assert link.is_symlink()
    assert target.read_text() == 'gpu = "off"\n'
    assert target.stat().st_mode & 0o777 == 0o600
    assert os.listdir(link.parent) == ["config.toml"]


def test_line_ends_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b'# mine\r\ngpu = "off"\r\nseed = 1\r\n')
    set_value(ConfigFile(path, named=False), "gpu", "auto")
    assert path.read_bytes() == b'# mine\r\ngpu = "auto"\r\nseed = 1\r\n'


def test_a_broken_file_is_not_overwritten(tmp_path: Path) -> None:
    file = written(tmp_path, "gpu = \n")
    for edit in (lambda: set_value(file, "gpu", "off"), lambda: unset_value(file, "gpu")):
        with pytest.raises(FbragError, match="line 1"):
            edit()
    assert file.path.read_text() == "gpu = \n"


def _values(key: Setting) -> st.SearchStrategy[object]:
    if key.choices or key.form:
        return st.sampled_from(key.choices or [key.default or "15m"])
    if key.separator:
        return st.lists(st.text(st.characters(categories=("L", "N")), min_size=1), max_size=3)
    if key.words and key.kind is str:
        return st.integers(1, 64).map(str) | st.sampled_from(key.words)
    if key.kind is bool:
        return st.booleans()
    if key.kind is int:
        return st.integers(int(key.minimum or 0), int(key.maximum or 10**6))
    if key.kind is float:
        return st.floats(key.minimum or 0.0, key.maximum or 1e6)
    return st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@hypothesis_settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_is_set_is_what_is_read(tmp_path: Path, data: st.DataObject) -> None:
    file = written(tmp_path, data.draw(st.sampled_from(["", HAND_WRITTEN, "small = 'a'\nask = {context = 2}\n", "[ask]\n"])))
    expected = dict(load(file, KEYS).values)
    for name in data.draw(st.lists(st.sampled_from(sorted(KEYS)), max_size=5)):
        if data.draw(st.booleans()):
            value = data.draw(_values(KEYS[name]))
            set_value(file, name, value)  # type: ignore[arg-type]
            expected[name] = value  # type: ignore[assignment]
        else:
            assert unset_value(file, name) == (expected.pop(name, None) is not None)
        assert load(file, KEYS).values == expected
