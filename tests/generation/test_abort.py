"""Model files that lie. Whatever llama.cpp does with them ends in one error line and its exit code, and stdout stays empty."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.generation.tiny_gguf import TOKENS, Tiny

FEW_BYTES = (b"<s>", b"</s>", *(b"t%d" % i for i in range(257)))
NAN, INF = float("nan"), float("inf")

#: Files on which a check of llama.cpp fails, or an exception of C++ is not caught.
ABORTS = {
    "no blocks": Tiny(blocks=0),
    "100,000 blocks": Tiny(blocks=100_000),
    "2^31 blocks": Tiny(blocks=2**31),
    "negative epsilon": Tiny(epsilon=-1.0),
    "epsilon is no number": Tiny(epsilon=NAN),
    "all tokens alike": Tiny(tokens=[b"a"] * 259),
    "2^31 experts": Tiny(experts=2**31),
    "odd heads": Tiny(width=31, heads=1),
    "heads of one": Tiny(heads=32),
    "another tokenizer": Tiny(tokenizer="llama"),
}
#: Files that load, or that llama.cpp refuses itself.
OTHERS = {
    "tokens not UTF-8": Tiny(tokens=[b"\xff\xfe%d" % i for i in range(259)]),
    "bytes without token": Tiny(tokens=FEW_BYTES, splitting="qwen2"),
    "weights are no numbers": Tiny(weights=NAN),
    "weights are endless": Tiny(weights=INF),
    "no heads": Tiny(heads=0),
    "no tokenizer": Tiny(tokenizer="none"),
    "no tensors": Tiny(tensors=False),
    "another architecture": Tiny(architecture="mamba"),
    "escapes in the architecture": Tiny(architecture="\x1b[31m"),
    "no merges": Tiny(merges=None),
}


#: Files that load and answer nonsense.
NONSENSE = {
    "long tokens": Tiny(tokens=[b"a" * (i * 100 + 1) for i in range(259)]),
    "three tokens": Tiny(tokens=[b"a", b"b", b"c"]),
    "an end that is no token": Tiny(end=2**31 - 1),
    "merges of nothing": Tiny(merges=["", "a", " ", "a b c", "\x00"]),
    "a template without end": Tiny(template="{{ range(99999) | list }}" * 99),
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
    assert "/" not in errors[0].partition("failed")[2], "the folder of llama.cpp's sources"
    assert not [line for line in done.stderr.splitlines() if not line.startswith(("error: ", "hint: ", "warning: "))]
    assert done.stdout == ""


def test_an_honest_file_answers(fbrag: Run, document: Path) -> None:
    done = _ask(fbrag, Tiny().write(document.with_name("tiny.gguf")), "--answer-anyway")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("lie", ABORTS)
def test_a_file_on_which_llama_cpp_gives_up_is_one_error(fbrag: Run, document: Path, lie: str) -> None:
    done = _ask(fbrag, ABORTS[lie].write(document.with_name("tiny.gguf")))
    _check(done)
    assert "llama.cpp failed with tiny.gguf: " in done.stderr


@pytest.mark.parametrize("lie", OTHERS)
def test_a_file_that_cannot_answer_is_one_error(fbrag: Run, document: Path, lie: str) -> None:
    done = _ask(fbrag, OTHERS[lie].write(document.with_name("tiny.gguf")))
    _check(done)


@pytest.mark.parametrize("lie", NONSENSE)
def test_a_file_that_answers_nonsense_answers(fbrag: Run, document: Path, lie: str) -> None:
    done = _ask(fbrag, NONSENSE[lie].write(document.with_name("tiny.gguf")), "--answer-anyway")
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
    done = _ask(fbrag, ABORTS["no blocks"].write(document.with_name("tiny.gguf")), "--json")
    assert done.returncode == 4
    record = json.loads(done.stdout)
    assert (record["schema"], record["error"]["code"]) == ("fbrag.error/1", "model_corrupt")


def test_bench_and_doctor_say_it_too(fbrag: Run, document: Path) -> None:
    model = ABORTS["no blocks"].write(document.with_name("tiny.gguf"))
    _check(fbrag("bench", "--small", model, "--large", model))
    done = fbrag("doctor", "--offline", env={"FBRAG_SMALL": str(model), "FBRAG_LARGE": str(model)})
    assert done.returncode == 1
    assert "GGML_ASSERT" in done.stdout
    assert "SIG" not in done.stdout


def test_two_threads_that_fail_at_once_end_with_one_error(clean_environment: dict[str, str], tmp_path: Path) -> None:
    model = ABORTS["2^31 experts"].write(tmp_path / "tiny.gguf")
    code = (
        "import sys, threading; from pathlib import Path\n"
        "from fbrag_cli.generation.process import set_environment; set_environment()\n"
        "from fbrag_cli.generation.llama.weights import Weights\n"
        "gate = threading.Barrier(8)\n"
        "def load():\n  gate.wait()\n  Weights(Path(sys.argv[1]))\n"
        "threads = [threading.Thread(target=load) for _ in range(8)]\n"
        "[each.start() for each in threads]; [each.join() for each in threads]"
    )
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", code, str(model)],
            capture_output=True,
            text=True,
            env=clean_environment,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (4, ""), done.stderr
        assert done.stderr.count("error: ") == 1


def test_an_honest_vocabulary_is_the_same_in_both_files() -> None:
    assert len(TOKENS) == len(FEW_BYTES) == len(set(TOKENS))
