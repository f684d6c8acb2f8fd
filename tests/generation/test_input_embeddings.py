"""Input embeddings in a prompt, with the real 135M model: a token's own row is the token, and another row is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.cached import CachedGenerator, Replies
from fbrag_cli.generation.generator import QUIET, Blend, Generations, InputEmbeddings, Message, Sampling
from fbrag_cli.generation.llama import input_embeddings
from fbrag_cli.generation.llama.generator import LlamaGenerator
from fbrag_cli.generation.llama.input_embeddings import _difference
from fbrag_cli.generation.llama.kv_cache import PromptRequest
from fbrag_cli.generation.llama.weights import Loading, TokenTable, Weights
from fbrag_cli.methods.r2ag.method import list_messages, list_support_messages
from fbrag_cli.models.catalog import load_catalog
from fbrag_cli.models.store import locate
from fbrag_cli.storage.cache import Cache
from fbrag_cli.storage.paths import models_dir
from tests.generation.tiny_gguf import Tiny

LOG = "The lighthouse keeper Anna wrote in her log that the brig Meridian had passed at noon with a torn sail. "
TEXTS = [LOG * 2, "The harbour master slept until two. " * 3, "A cutter with red sails was seen at dusk. " * 3]
QUESTION = "Which ship passed the lighthouse, and when?"
GREEDY = Sampling(24, temperature=0)
DRAWN = Sampling(16, seed=3)


@pytest.fixture(params=["smollm2-135m", "qwen2.5-coder-0.5b"], scope="module")
def one(request: pytest.FixtureRequest, smollm2: Path) -> Iterator[LlamaGenerator]:
    """A model with tied weights in 8 bits, and one with a table in 5 bits, if its file is there."""
    path = smollm2 if request.param == "smollm2-135m" else locate(request.param, models_dir(), load_catalog())
    if path is None:
        pytest.skip(f"no file of {request.param}")
    with LlamaGenerator(path) as loaded:
        yield loaded


def own_row(generator: LlamaGenerator, token: int) -> InputEmbeddings:
    return InputEmbeddings.of(generator._weights.token_table.rows([token]))


def foreign(seed: int, width: int = 576, n: int = 1) -> InputEmbeddings:
    return InputEmbeddings.of(np.random.default_rng(seed).normal(0, 0.13, (n, width)).astype(np.float32))


def logits(generator: LlamaGenerator, need: PromptRequest) -> NDArray[np.float32]:
    found = generator._run(need, None, QUIET).logits
    assert found is not None
    return found


def twins(generator: LlamaGenerator, messages: Sequence[Message]) -> tuple[PromptRequest, PromptRequest]:
    """A prompt as tokens, and the same prompt with a token's own row in the place of every 30th."""
    tokens = generator.tokenize(messages)
    rows = {at: own_row(generator, tokens[at]) for at in range(29, len(tokens) - 1, 30)}
    mixed = [rows[at].ids[0] if at in rows else token for at, token in enumerate(tokens)]
    vectors = {row.ids[0]: row.vectors[0] for row in rows.values()}
    return PromptRequest(tokens, 1, 2000), PromptRequest(mixed, 1, 2000, vectors)


def equal_as_rows(generator: LlamaGenerator, messages: Sequence[Message]) -> int:
    """Compare the logits of `twins`, each in an empty context: sums are in the order of the cells. Return the tokens."""
    as_tokens, as_rows = twins(generator, messages)
    found = []
    for need in (as_tokens, as_rows):
        generator._prompts.close()
        found.append(logits(generator, need))
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], np.zeros_like(found[0]))
    return len(as_tokens.tokens)


def test_a_token_s_own_row_in_its_place_gives_equal_logits_to_the_bit(one: LlamaGenerator) -> None:
    equal_as_rows(one, list_messages(TEXTS, QUESTION, None))


def test_a_prompt_of_several_batches_gives_equal_logits_to_the_bit(tmp_path: Path) -> None:
    with LlamaGenerator(Tiny(blocks=2, heads=4, width=64, weights=0.3).write(tmp_path / "tiny.gguf")) as tiny:
        assert equal_as_rows(tiny, list_messages(TEXTS * 2, QUESTION, None)) > 1024


def test_a_token_s_own_row_leaves_the_reply(generator: LlamaGenerator) -> None:
    """Of a token that stands alone between the rows: words are not merged across them."""
    comma = generator._weights.tokens_of(",")
    assert len(comma) == 1
    asked = (Message.of("user", [LOG, own_row(generator, comma[0]), " which ship passed?"]),)
    tokens = [comma[0] if token < 0 else token for token in generator.tokenize(asked)]
    reply = generator.generate(asked, 1, GREEDY)
    assert reply.prompt_tokens == len(tokens)
    from_tokens = generator._run(PromptRequest(tokens, 1, 24), GREEDY, QUIET).samples[0].generation()
    assert reply.samples[0].text == from_tokens.text != ""


def test_a_foreign_row_changes_the_logits_and_two_of_them_are_told_apart(generator: LlamaGenerator) -> None:
    """Also by the prefix that is cached: the second call must not go on from the first one's row."""
    before, after = [LOG, " similarity:"], [f" {LOG}{QUESTION}"]
    asked = [(Message.of("user", [*before, row, *after]),) for row in (foreign(1), foreign(2), foreign(1))]
    plain = (Message.of("user", [*before, *after]),)
    found = [logits(generator, generator._need(each, 1, 1)) for each in (plain, *asked)]
    assert np.abs(found[0] - found[1]).max() > 0.1
    assert np.abs(found[1] - found[2]).max() > 0.1
    first, second = (generator.generate(each, 1, Sampling(4)) for each in asked[:2])
    row_at = next(i for i, token in enumerate(generator.tokenize(asked[0])) if token < 0)
    assert second.cached_tokens == row_at
    again = generator.generate(asked[0], 1, Sampling(4))
    assert again.samples == first.samples


def test_a_prompt_with_rows_read_after_a_shared_prefix_equals_it_read_whole(generator: LlamaGenerator) -> None:
    """And to the bit the prompt of tokens that is read in the same pieces."""
    rows = [foreign(i) for i in range(3)]
    answer, check = list_messages(TEXTS, QUESTION, rows), list_support_messages(TEXTS, QUESTION, "The Meridian, at noon.", rows)
    generator._prompts.close()
    whole = generator.generate(check, 1, GREEDY)
    generator._prompts.close()
    read = generator.generate(answer, 1, GREEDY)
    after = generator.generate(check, 1, GREEDY)
    assert whole.cached_tokens == 0
    assert after.cached_tokens > read.prompt_tokens - 60 > 60
    assert after.samples == whole.samples

    plain = list_messages(TEXTS, QUESTION, None), list_support_messages(TEXTS, QUESTION, "The Meridian, at noon.", None)
    pieces = []
    for which in (0, 1):
        generator._prompts.close()
        pieces.append([logits(generator, twins(generator, messages)[which]) for messages in plain])
    assert all(np.array_equal(tokens, rows) for tokens, rows in zip(*pieces, strict=True))


def test_several_samples_from_a_prompt_with_rows(generator: LlamaGenerator) -> None:
    asked = list_messages(TEXTS, QUESTION, [foreign(i) for i in range(3)])
    many = generator.generate(asked, 4, DRAWN)
    assert len({sample.text for sample in many.samples}) > 1
    first_tokens = generator.generate(asked, 4, Sampling(1, seed=3)).samples
    alone = [generator.generate(asked, 1, Sampling(1, seed=3 + i)).samples[0] for i in range(4)]
    assert list(first_tokens) == alone


def test_calls_with_and_without_rows_run_in_common_batches(tmp_path: Path) -> None:
    """In full precision each gets what it would get alone, also where its tokens are decoded as embeddings."""
    from concurrent.futures import ThreadPoolExecutor

    path = Tiny(blocks=2, heads=4, width=64, weights=0.3).write(tmp_path / "tiny.gguf")
    asked = [(Message.of("user", [LOG[:40], foreign(i, 64), f" {i} {LOG}"]),) for i in range(4)]
    asked += [(Message("user", f"{i} {LOG}"),) for i in range(4)]
    with LlamaGenerator(path, Loading(threads=1)) as single:
        alone = [single.generate(each, 2, Sampling(12)).samples for each in asked]
    with LlamaGenerator(path, Loading(threads=1)) as shared, ThreadPoolExecutor(8) as pool:
        shared.at_once = 4
        together = list(pool.map(lambda each: shared.generate(each, 2, Sampling(12)).samples, asked))
    assert together == alone
    assert len(set(alone[:4])) == 4


def test_a_prompt_of_rows_is_counted_and_shown(generator: LlamaGenerator) -> None:
    asked = (Message.of("user", ["x", foreign(0, n=3), "y"]),)
    plain = (Message("user", "x"), Message("user", "y"))
    assert len(generator.tokenize(asked)) == len(generator.tokenize((Message("user", "x"),))) + 3 + 1
    assert "x⟨row⟩⟨row⟩⟨row⟩y" in generator.render_prompt(asked)
    assert "⟨row⟩" not in generator.render_prompt(plain)


def test_cached_replies_are_of_the_same_rows(generator: LlamaGenerator, tmp_path: Path) -> None:
    asked = [list_messages(TEXTS[1:], QUESTION, [foreign(seed), foreign(9)]) for seed in (1, 2)]
    moved = Message("user", asked[0][0].text, tuple((at + 1, rows) for at, rows in asked[0][0].embeddings))
    found: list[list[Generations]] = []
    for _ in range(2):  # the second time from the disk
        cached = CachedGenerator(lambda: generator, Replies(Cache(tmp_path / "cache"), "smollm2"))
        found.append([cached.generate(each, 1, GREEDY) for each in (*asked, (moved,))])
        assert cached.generate(asked[1], 1, GREEDY).cached
    assert [each.cached for each in found[0]] == [False] * 3
    assert [each.cached for each in found[1]] == [True] * 3
    assert [each.samples for each in found[0]] == [each.samples for each in found[1]]


# -- the list ------------------------------------------------------------------------------------------------------------


def test_the_list_without_rows_is_the_same_text_without_what_announces_them() -> None:
    rows = [foreign(i) for i in range(3)]
    texts = ["First.", "Second.", "Third."]
    for build in (list_messages, lambda texts, question, rows: list_support_messages(texts, question, "Noon.", rows)):
        ((with_rows,), (plain,)) = (build(texts, QUESTION, each) for each in (rows, None))
        assert [each for each in with_rows.parts if isinstance(each, InputEmbeddings)] == rows
        announced = "A similarity mark before each result shows how near it is to the question and to the other results.\n"
        assert with_rows.text.replace(announced, "").replace(" similarity:", "") == plain.text
        assert not plain.embeddings
        before, row, after = with_rows.parts[2:5]
        assert (before, row, str(after)[:7]) == (" First.\n\n[2] similarity:", rows[1], " Second"), "each row before its text"


def test_a_list_takes_a_row_for_each_text() -> None:
    with pytest.raises(ValueError, match="shorter"):
        list_messages(["First.", "Second."], QUESTION, [foreign(0)])


# -- refusals --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"1234567", np.array([np.nan, 1], "<f4").tobytes()])
def test_rows_are_whole_and_finite(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"expected rows of|not finite"):
        InputEmbeddings(data, 2)


def test_rows_of_another_width_are_refused(generator: LlamaGenerator) -> None:
    with pytest.raises(FbragError, match="needs input embeddings of 576 numbers, but these have 64") as told:
        generator.generate((Message.of("user", ["x", foreign(0, 64)]),), 1, GREEDY)
    assert told.value.code == "usage"


def marked(mark: Blend | str) -> tuple[Message, ...]:
    return (Message.about(["[1] similarity:", mark, f" {LOG}\n"], QUESTION),)


def blend(p: float) -> Blend:
    return Blend(((" irrelevant", 1 - p), (" relevant", p)))


@pytest.mark.parametrize(("p", "word"), [(0, " irrelevant"), (1, " relevant")])
def test_a_blend_of_one_word_alone_is_read_as_the_word(smollm2: Path, p: float, word: str) -> None:
    with LlamaGenerator(smollm2, Loading(threads=1)) as one:
        assert len(one._weights.tokens_of(word)) == 1
        read, said = (logits(one, one._need(marked(mark), 1, 1)) for mark in (blend(p), word))
        between = logits(one, one._need(marked(blend(0.5)), 1, 1))
        assert "similarity:⟨row⟩ The lighthouse" in one.render_prompt(marked(blend(p)))
    assert np.array_equal(read, said)
    assert not np.array_equal(between, said)


def test_a_model_that_takes_no_rows_reads_the_main_word_of_a_blend(tmp_path: Path) -> None:
    path = Tiny(architecture="gemma", tied=True).write(tmp_path / "tiny.gguf")
    with LlamaGenerator(path, Loading(threads=1)) as tiny:
        for p, word in ((0.2, " irrelevant"), (0.7, " relevant")):
            assert tiny.tokenize(marked(blend(p))) == tiny.tokenize(marked(word))
            assert tiny.render_prompt(marked(blend(p))) == tiny.render_prompt(marked(word))
            assert tiny.generate(marked(blend(p)), 1, Sampling(2)).samples


def test_the_context_of_a_message_ends_where_it_did_when_a_blend_becomes_a_word() -> None:
    (message,), (said,) = marked(blend(0.7)), marked(" relevant")
    found = message.blended(lambda each: each.word)
    assert (found, found.context_end) == (said, said.context_end)


def test_replies_to_other_blends_are_other_entries_of_the_cache() -> None:
    keys = {Replies().key(marked(blend(p)), "x") for p in (0, 0.25, 0.5, 1)}
    assert len(keys) == 4


def test_other_architectures_are_refused(tmp_path: Path) -> None:
    path = Tiny(architecture="gemma", tied=True).write(tmp_path / "tiny.gguf")
    with LlamaGenerator(path, Loading(threads=1)) as tiny:
        assert not tiny.takes_input_embeddings
        with pytest.raises(FbragError, match="architecture 'gemma', which does not support input embeddings"):
            tiny.generate((Message.of("user", ["x", foreign(0, 32)]),), 1, GREEDY)
        assert tiny.generate((Message("user", "x"),), 1, Sampling(2)).samples  # and nothing else


def test_a_model_that_reads_rows_otherwise_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Gemma 3 does, which scales the rows of tokens."""
    path = Tiny(weights=0.3).write(tmp_path / "tiny.gguf")
    rows = TokenTable.rows
    monkeypatch.setattr(TokenTable, "rows", lambda table, ids: rows(table, ids) * np.float32(1.001))
    with LlamaGenerator(path, Loading(threads=1)) as tiny:
        for _ in range(2):
            with pytest.raises(FbragError, match="does not read the embedding of a token like the token") as told:
                tiny.generate((Message.of("user", ["x", foreign(0, 32)]),), 1, GREEDY)
            assert told.value.code == "model_corrupt"
        assert tiny.generate((Message("user", "x"),), 1, Sampling(2)).samples


def test_the_check_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Weights] = []

    def noted(weights: Weights) -> float:
        made.append(weights)
        return _difference(weights)

    monkeypatch.setattr(input_embeddings, "_difference", noted)
    with LlamaGenerator(Tiny(weights=0.3).write(tmp_path / "tiny.gguf"), Loading(threads=1)) as tiny:
        for _ in range(2):
            tiny.generate((Message.of("user", ["x", foreign(0, 32)]),), 1, Sampling(1))
    assert len(made) == 1


# -- the table of the model ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q4_0", "Q5_0", "Q8_0"])
def test_rows_of_the_table_are_those_of_the_gguf_package(tmp_path: Path, kind: str) -> None:
    quantization = gguf.GGMLQuantizationType[kind]
    values = np.random.default_rng(0).normal(0, 0.2, (300, 64)).astype(np.float32)
    raw = values if kind == "F32" else gguf.quants.quantize(values, quantization)
    table = TokenTable(table_file(tmp_path / "table.gguf", raw, quantization))
    assert (table.n_tokens, table.width) == (300, 64)
    ids = [299, 0, 17, 17]
    expected = gguf.quants.dequantize(raw, quantization)
    assert np.array_equal(table.rows(ids), expected[ids])
    assert table.deviation() == pytest.approx(float(expected.std()), rel=1e-6)
    assert table.rows([]).shape == (0, 64)
    for outside in ([300], [-1]):
        with pytest.raises(IndexError):
            table.rows(outside)


def test_rows_of_a_real_table_are_those_of_the_gguf_package(one: LlamaGenerator) -> None:
    table = one._weights.token_table
    ids = np.arange(0, table.n_tokens, 97)
    kind = next(each for each in gguf.GGMLQuantizationType if each.name.lower() == table.kind.lower())
    assert np.array_equal(one._weights.token_table.rows(ids), gguf.quants.dequantize(np.asarray(table._data[ids]), kind))
    deviation = {"q8_0": 0.135, "q5_0": 0.0173}[table.kind]
    assert table.deviation() == pytest.approx(deviation, rel=0.02)


def test_a_table_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    values = np.zeros((10, 64), np.int8)
    cases = {
        "not a GGUF file": tmp_path / "text.gguf",
        "unsupported type i8": table_file(tmp_path / "i8.gguf", values, None),
        "missing": table_file(tmp_path / "none.gguf", values, None, name="output.weight"),
        "invalid row length 0": table_file(tmp_path / "odd.gguf", values.astype(np.float32), None, width=None),
        "truncated": table_file(tmp_path / "cut.gguf", np.zeros((10, 64), np.float32), None),
    }
    cases["not a GGUF file"].write_text("Not a model.")
    cut = cases["truncated"]
    cut.write_bytes(cut.read_bytes()[:-300])
    for reason, path in cases.items():
        with pytest.raises(FbragError, match=reason) as told:
            TokenTable(path)
        assert told.value.code == "model_corrupt"


def table_file(
    path: Path,
    values: NDArray[np.generic],
    kind: gguf.GGMLQuantizationType | None,
    *,
    name: str = "token_embd.weight",
    width: int | None = 64,
) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    if width:
        writer.add_embedding_length(width)
    writer.add_tensor("before.weight", np.ones(7, np.float32))
    writer.add_tensor(name, values, raw_dtype=None if kind is None or kind.name == "F32" else kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
