"""Model files that lie. Where size, header and tensors do not agree, llama.cpp never sees them; stdout stays empty."""

from __future__ import annotations

import json
import random
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.llama.gguf_file import Layers, read_layers
from tests.conftest import Run
from tests.generation.tiny_gguf import TOKENS, Tiny

FEW_BYTES = (b"<s>", b"</s>", *(b"t%d" % i for i in range(257)))
NAN, INF = float("nan"), float("inf")

#: Files whose header names more than their table of tensors has.
LIES = {"no blocks": Tiny(blocks=0), "100,000 blocks": Tiny(blocks=100_000), "2^31 blocks": Tiny(blocks=2**31)}
#: Files that load, or that llama.cpp refuses itself.
OTHERS = {
    "tokens not UTF-8": Tiny(tokens=[b"\xff\xfe%d" % i for i in range(259)]),
    "bytes without token": Tiny(tokens=FEW_BYTES, splitting="qwen2"),
    "weights are no numbers": Tiny(weights=NAN),
    "weights are endless": Tiny(weights=INF),
    "no tokenizer": Tiny(tokenizer="none"),
    "no tensors": Tiny(tensors=False),
    "another architecture": Tiny(architecture="mamba"),
    "escapes in the architecture": Tiny(architecture="\x1b[31m"),
    "no merges": Tiny(merges=None),
    "a template that writes without end": Tiny(template="{{ messages[0].content }}{{ 'x' * 100001 }}"),
    "a template that loops without end": Tiny(template="{{ range(99999) | list | length }}" * 99),
}


#: Files that load and answer nonsense.
NONSENSE = {
    "long tokens": Tiny(tokens=[b"a" * (i * 100 + 1) for i in range(259)]),
    "three tokens": Tiny(tokens=[b"a", b"b", b"c"]),
    "an end that is no token": Tiny(end=2**31 - 1),
    "merges of nothing": Tiny(merges=["", "a", " ", "a b c", "\x00"]),
    "a template of one byte": Tiny(template="\x00"),
}


@pytest.fixture
def document(tmp_path: Path) -> Path:
    (tmp_path / "fine.txt").write_text("The brig sailed at noon.")
    return tmp_path / "fine.txt"


def _ask(fbrag: Run, model: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return fbrag("ask", "--no-cache", "fine.txt", "Who?", "--small", model, "--large", model, "--max-tokens", 4, *options)


def _check(done: subprocess.CompletedProcess[str]) -> None:
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 4, done.stderr
    assert len(errors) == 1, done.stderr
    assert not [line for line in done.stderr.splitlines() if not line.startswith(("error: ", "hint: ", "warning: "))]
    assert done.stdout == ""


def test_an_honest_file_answers(fbrag: Run, document: Path) -> None:
    done = _ask(fbrag, Tiny().write(document.with_name("tiny.gguf")), "--allow-unsupported")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("lie", LIES)
def test_a_file_that_contradicts_itself_is_one_error(fbrag: Run, document: Path, lie: str) -> None:
    done = _ask(fbrag, LIES[lie].write(document.with_name("tiny.gguf")))
    _check(done)
    assert "error: tiny.gguf is incomplete: its header declares" in done.stderr


def test_a_file_that_is_cut_is_one_error_wherever_it_is_cut(fbrag: Run, document: Path) -> None:
    model = Tiny().write(document.with_name("tiny.gguf"))
    whole = model.read_bytes()
    for length in [5, 40, 1000, 7000, len(whole) // 2, len(whole) - 1]:
        model.write_bytes(whole[:length])
        with pytest.raises(FbragError, match="tiny") as told:
            read_layers(model)
        assert told.value.code == "model_corrupt"
    _check(_ask(fbrag, model))


def test_no_changed_header_ends_the_process(tmp_path: Path) -> None:
    """Each is read, or refused."""
    model = Tiny().write(tmp_path / "tiny.gguf")
    whole, dice = model.read_bytes(), random.Random(7)
    header = whole.index(b"ffn_up.weight") + 40
    for _ in range(300):
        spoiled = bytearray(whole)
        at = dice.randrange(8, header - 8)
        spoiled[at : at + 8] = dice.choice((dice.randbytes(8), b"\xff" * 8, bytes(8), (2**40).to_bytes(8, "little")))
        model.write_bytes(spoiled)
        with suppress(FbragError):
            read_layers(model)


def test_the_layers_of_an_honest_file(tmp_path: Path) -> None:
    assert read_layers(Tiny(blocks=2).write(tmp_path / "tiny.gguf")) == Layers(n_blocks=2, kv_numbers=2 * 2 * 32, state_numbers=0)


@pytest.mark.parametrize("lie", OTHERS)
def test_a_file_that_cannot_answer_is_one_error(fbrag: Run, document: Path, lie: str) -> None:
    done = _ask(fbrag, OTHERS[lie].write(document.with_name("tiny.gguf")))
    _check(done)


@pytest.mark.parametrize("lie", NONSENSE)
def test_a_file_that_answers_nonsense_answers(fbrag: Run, document: Path, lie: str) -> None:
    done = _ask(fbrag, NONSENSE[lie].write(document.with_name("tiny.gguf")), "--allow-unsupported")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "lie",
    [Tiny(context=0), Tiny(context=2**31), Tiny(weights=NAN), Tiny(tokens=[b"\xff%d" % i for i in range(259)]), Tiny(blocks=0)],
    ids=["no window", "a negative window", "no numbers", "no tokens", "no blocks"],
)
def test_a_file_that_cannot_embed_is_one_error(fbrag: Run, document: Path, lie: Tiny) -> None:
    model = lie.write(document.with_name("tiny.gguf"))
    for form in ("text", "json"):
        done = fbrag("explain", "--method", "vanilla", "--no-cache", "fine.txt", "brig?", "--retriever", model, "--format", form)
        assert done.returncode == 4, done.stderr
        assert done.stderr.count("error: ") == 1


def test_a_script_gets_the_error_as_an_object(fbrag: Run, document: Path) -> None:
    done = _ask(fbrag, LIES["no blocks"].write(document.with_name("tiny.gguf")), "--json")
    assert done.returncode == 4
    record = json.loads(done.stdout)
    assert (record["schema"], record["error"]["code"]) == ("fbrag.error/1", "model_corrupt")


def test_doctor_says_it_too(fbrag: Run, document: Path) -> None:
    model = LIES["no blocks"].write(document.with_name("tiny.gguf"))
    done = fbrag("doctor", "--offline", env={"FBRAG_SMALL": str(model), "FBRAG_LARGE": str(model)})
    assert done.returncode == 1
    assert "is incomplete" in done.stdout


def test_an_honest_vocabulary_is_the_same_in_both_files() -> None:
    assert len(TOKENS) == len(FEW_BYTES) == len(set(TOKENS))
