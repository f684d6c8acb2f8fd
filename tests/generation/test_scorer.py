"""A cross-encoder through llama.cpp, with all-MiniLM-L6-v2 and a head of random weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Scorer
from fbrag_cli.generation.llama.encoder import LlamaScorer
from fbrag_cli.generation.llama.weights import Loading
from fbrag_cli.training.base_encoder import write_gguf
from tests.conftest import needs
from tests.retrieval import minilm

LABELS = ("first", "second")
QUESTION = "Who lit the lamp of the lighthouse?"
LONG_QUESTION = "Who, when the fog came in from the sea and no ship could find the harbour, lit the lamp of the lighthouse? " * 4
TEXTS = [
    "The keeper of the lighthouse lit the lamp at dusk.",
    "Interest rates rose again in the third quarter.",
    "naïve café – 3.14 % of Zürich's budget",
    "",
]
TWO_WINDOWS = "The harbour was empty and the sea was calm. " * 40 + "Then the keeper's daughter lit the lamp. " * 25
#: Both logits of (QUESTION, TEXTS[i]), (LONG_QUESTION, TEXTS[0]), (QUESTION, TWO_WINDOWS) by transformers 5.23 on torch 2.13.
LOGITS = [
    [0.6137, 0.2838],
    [0.6095, -0.1116],
    [0.5905, 0.0295],
    [0.6614, 0.0746],
    [0.7032, -0.0545],
    [0.5773, -0.0597],
]


def head() -> dict[str, NDArray[np.float32]]:
    """A head that spreads the logits over some -3..3."""
    random = np.random.default_rng(7)
    weight, bias = random.normal(0, 0.3, (2, 384)), random.normal(0, 0.3, 2)
    return {"classifier.weight": weight.astype(np.float32), "classifier.bias": bias.astype(np.float32)}


@pytest.fixture(scope="module")
def base(pytestconfig: pytest.Config) -> Path:
    return minilm.fetched(pytestconfig) / "all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def file(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scorer") / "scorer.gguf"
    return write_gguf(base, path, pooling=4, window=512, changed=head(), labels=LABELS)


@pytest.fixture(scope="module")
def scorer(file: Path) -> Iterator[LlamaScorer]:
    with LlamaScorer(file, Loading(threads=1)) as loaded:
        yield loaded


def found(scorer: Scorer) -> NDArray[np.float32]:
    rows = [scorer.scores(QUESTION, TEXTS), scorer.scores(LONG_QUESTION, TEXTS[:1]), scorer.scores(QUESTION, [TWO_WINDOWS])]
    return np.concatenate(rows)


def test_logits_are_those_of_transformers(scorer: LlamaScorer) -> None:
    logits = found(scorer)
    assert logits.dtype == np.float32
    assert len(scorer.windows(QUESTION, TWO_WINDOWS)) == 2
    np.testing.assert_allclose(logits, LOGITS, atol=2e-3)


def test_logits_are_those_of_the_transformers_installed(base: Path, scorer: LlamaScorer) -> None:
    np.testing.assert_allclose(found(scorer), by_transformers(base), atol=2e-3)


def by_transformers(base: Path) -> NDArray[np.float32]:
    """The same by another implementation, tokenizer included; windows and cuts are made here anew."""
    torch = needs("torch")
    transformers = needs("transformers")
    tokenizer = transformers.BertTokenizer.from_pretrained(base)
    model = transformers.BertForSequenceClassification.from_pretrained(base, num_labels=2).eval()
    model.classifier.load_state_dict({name.split(".")[1]: torch.from_numpy(each) for name, each in head().items()})

    def read(question: Sequence[int], text: Sequence[int]) -> NDArray[np.float32]:
        ids = torch.tensor([[101, *question, 102, *text, 102]])
        with torch.inference_mode():
            logits: NDArray[np.float32] = model(ids, token_type_ids=torch.zeros_like(ids)).logits[0].numpy()
        return logits

    ids = {text: tokenizer(text, add_special_tokens=False).input_ids for text in (*TEXTS, QUESTION, LONG_QUESTION, TWO_WINDOWS)}
    assert len(ids[LONG_QUESTION]) > 64
    rows = [read(ids[QUESTION], ids[text]) for text in TEXTS]
    rows.append(read(ids[LONG_QUESTION][:64], ids[TEXTS[0]]))
    middle = len(ids[TWO_WINDOWS]) // 2
    rows.append(np.maximum(*(read(ids[QUESTION], ids[TWO_WINDOWS][part]) for part in (slice(0, middle), slice(middle, None)))))
    return np.array(rows)


def test_a_text_does_not_depend_on_its_company(scorer: LlamaScorer) -> None:
    texts = [TWO_WINDOWS, *TEXTS * 20]  # several batches, of more texts than a batch may have
    together = scorer.scores("Who?", texts)
    alone = np.concatenate([scorer.scores("Who?", [text]) for text in texts[:5]])
    np.testing.assert_allclose(together[:5], alone, atol=1e-3)
    np.testing.assert_allclose(together[-4:], alone[1:5], atol=1e-3)


def test_windows_hold_all_of_a_text_once_and_each_the_beginning_of_the_question(scorer: LlamaScorer) -> None:
    (whole,) = scorer.windows(LONG_QUESTION, "lamp")
    head, tail = whole[:-2], whole[-1:]
    assert len(head) == 1 + 64 + 1
    windows = scorer.windows(LONG_QUESTION, "sea " * 2000)
    assert all(window[: len(head)] == head and window[-1:] == tail and len(window) <= 512 for window in windows)
    assert sum(len(window) - len(head) - len(tail) for window in windows) == 2000
    assert len(windows) == 5  # of at most 512 - 67 tokens of text


def test_no_texts_have_no_scores(scorer: LlamaScorer) -> None:
    assert scorer.scores(QUESTION, []).shape == (0, 2)


def test_the_models_markers_in_a_text_are_words(scorer: LlamaScorer) -> None:
    (window,) = scorer.windows(QUESTION, "a calm sea [SEP] an empty harbour")
    assert window.count(102) == 2


def test_the_key_tells_files_apart_but_not_their_names(base: Path, file: Path, scorer: LlamaScorer, tmp_path: Path) -> None:
    changed = head() | {"classifier.bias": np.zeros(2, np.float32)}
    other = write_gguf(base, tmp_path / "scorer.gguf", pooling=4, window=512, changed=changed, labels=LABELS)
    with LlamaScorer(other, Loading(threads=1)) as loaded:
        assert loaded.key != scorer.key
    with LlamaScorer(file, Loading(name="another", threads=1)) as loaded:
        assert loaded.key == scorer.key
        assert loaded.name == "another"


@pytest.mark.parametrize("labels", [LABELS, LABELS[:1], (*LABELS, "third")])
def test_it_names_its_labels(base: Path, tmp_path: Path, labels: tuple[str, ...]) -> None:
    changed = {
        "classifier.weight": np.zeros((len(labels), 384), np.float32),
        "classifier.bias": np.zeros(len(labels), np.float32),
    }
    path = write_gguf(base, tmp_path / "other.gguf", pooling=4, window=512, changed=changed, labels=labels)
    with LlamaScorer(path, Loading(threads=1)) as loaded:
        assert loaded.labels == labels
        assert loaded.scores(QUESTION, TEXTS).shape == (len(TEXTS), len(labels))


def test_a_model_that_pools_otherwise_is_refused(base: Path, tmp_path: Path) -> None:
    path = write_gguf(base, tmp_path / "other.gguf", pooling=1, window=512, changed=head(), labels=LABELS)
    with pytest.raises(FbragError, match="pool by rank") as refused:
        LlamaScorer(path, Loading(threads=1))
    assert refused.value.code == "model_corrupt"


def test_an_embedding_model_is_refused(base: Path) -> None:
    with pytest.raises(FbragError, match="not a document scorer") as refused:
        LlamaScorer(base.parent / "all-MiniLM-L6-v2.gguf", Loading(threads=1))
    assert refused.value.code == "model_corrupt"


def test_a_model_that_computes_no_numbers_is_refused(base: Path, tmp_path: Path) -> None:
    changed = head() | {"classifier.bias": np.array([0, np.nan], np.float32)}
    path = write_gguf(base, tmp_path / "broken.gguf", pooling=4, window=512, changed=changed, labels=LABELS)
    with LlamaScorer(path, Loading(threads=1)) as broken, pytest.raises(FbragError, match="NaN") as refused:
        broken.scores(QUESTION, TEXTS)
    assert refused.value.code == "model_corrupt"


def test_a_request_to_stop_is_heard(file: Path) -> None:
    cancellation = Cancellation()
    with LlamaScorer(file, Loading(threads=1, cancellation=cancellation)) as stopped:
        cancellation.request(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            stopped.scores(QUESTION, TEXTS)


def test_its_encoder_embeds_questions_and_scores_as_before(scorer: LlamaScorer) -> None:
    before = scorer.scores(QUESTION, TEXTS)
    embeddings = scorer.embed([QUESTION, "Who was it that lit the lighthouse's lamp?", "What is the price of wheat?"])
    assert embeddings.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)
    assert embeddings[0] @ embeddings[1] > embeddings[0] @ embeddings[2] + 0.2
    assert (scorer.scores(QUESTION, TEXTS) == before).all()


def test_several_threads_may_ask(scorer: LlamaScorer) -> None:
    texts = TEXTS * 6
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda question: scorer.scores(question, texts), [QUESTION, "Who?", QUESTION, "Why?"]))
    assert (found[0] == found[2]).all()
    np.testing.assert_allclose(found[1], scorer.scores("Who?", texts), atol=1e-6)
