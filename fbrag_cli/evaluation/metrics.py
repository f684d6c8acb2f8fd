"""Scores an example's answer and its selected chunks with the metrics for its dataset.

An answer is scored against a gold answer by the rules of the benchmarks' own scorers. LongBench: `metrics.py` of THUDM/LongBench.
∞Bench: `src/compute_scores.py` of OpenBMB/InfiniteBench (51d9b37).
"""

from __future__ import annotations

import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation.datasets import Example
from fbrag_cli.installation import extra
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.spans import joined

RIGHT = "right"  # what a reader would call right, of what `fbrag ask` would print
SCORE = "score"  # the main metric of a dataset
#: A metric of rows -> its name in tables and plots.
METRICS = {
    RIGHT: "Right answers",
    SCORE: "Score",
    "f1": "F1",
    "em": "Exact match",
    "contains": "Gold answer in the reply",
    "rouge_l": "Rouge-L F1",
    "accuracy": "Accuracy",
    "evidence_recall": "Evidence recall of the selected chunks",
    "full_evidence": "All evidence among the selected chunks",
    "answer_in_context": "Answer in the text that the large model read",
    "answer_in_samples": "Answer in a forward sample",
    "abstain": "Abstained, and the document has no answer",
    "abstain_wrongly": "Abstained, but the document has the answer",
}
#: The metrics that should be low.
LESS = frozenset({"abstain_wrongly"})
#: The metrics that score an answer.
ANSWER_METRICS = ("f1", "em", "contains", "rouge_l", "accuracy")

# Datasets for which LongBench's `eval.py` computes Rouge-L (`dataset2metric`), and those for which it reads only the first line
_SUMMARIES = frozenset("dureader gov_report multi_news qmsum samsum vcsum".split())
_FIRST_LINE = frozenset("lsht samsum trec triviaqa".split())
# Tasks of LongBench and ∞Bench with metrics that fbrag does not have
_OTHER_TASKS = frozenset(
    """lcc passage_count passage_retrieval_en passage_retrieval_zh repobench-p
    code_debug code_run kv_retrieval longbook_sum_eng longdialogue_qa_eng math_calc math_find number_string passkey""".split()
)
_BY_CHARACTERS = frozenset({"longbook_qa_chn"})  # ∞Bench's rule for Chinese
_UNSPACED = frozenset("ja km lo my th".split())  # languages without a rule in these benchmarks: also by characters


def known_metric(name: str) -> str:
    """Return the name of a metric as in `METRICS`. Raises FbragError (usage) for an unknown one."""
    name = name.strip().lower().replace("-", "_")
    if name not in METRICS:
        raise FbragError("usage", f"unknown metric {one_line(name, 40)!r}", f"use one of {', '.join(METRICS)}")
    return name


def main_metric(example: Example) -> str:
    """Return the metric reported for a dataset: F1; for summaries Rouge-L; for choices and classes accuracy.

    Raises FbragError (usage) for tasks of the benchmarks that need other metrics (code, counting, retrieval).
    """
    if _name(example) in _OTHER_TASKS:
        raise FbragError("usage", f"fbrag has no scorer for {example.dataset}", "drop this dataset: fbrag eval FILE...")
    if example.choices or example.all_classes:
        return "accuracy"
    return "rouge_l" if _name(example) in _SUMMARIES else "f1"


def score(example: Example, answer: str) -> dict[str, float | None]:
    """Return each of `ANSWER_METRICS`, 0 to 1: the best over the gold answers, as in both benchmarks. None: not applicable.

    F1, exact match, "contains" and Rouge-L apply to questions, Rouge-L to summaries, accuracy to choices and classes. Without
    gold answers none applies. "contains" is 1 if the reply contains a gold answer, which many papers call accuracy. Raises
    FbragError (usage) if the package rouge, or jieba for Chinese, is needed and not installed.
    """
    main = main_metric(example)
    if _name(example) in _FIRST_LINE:
        answer = answer.lstrip("\n").split("\n")[0]
    values: dict[str, float | None] = dict.fromkeys(ANSWER_METRICS)
    gold = example.answers
    if not gold:
        return values
    if example.choices:
        values["accuracy"] = choice_accuracy(answer, gold)
    elif example.all_classes:
        values["accuracy"] = max(class_accuracy(answer, each, example.all_classes) for each in gold)
    else:
        spaced = _spaced(answer, example)
        values["rouge_l"] = max(rouge_l(spaced, _spaced(each, example)) for each in gold)
        if main == "f1":
            tokens, plain = _tokens(answer, example), _normalized(answer, example)
            values["f1"] = max(f1(tokens, _tokens(each, example)) for each in gold)
            values["em"] = float(any(plain == _normalized(each, example) for each in gold))
            values["contains"] = answer_in(example, [answer])
    return values


def answer_in(example: Example, texts: Iterable[str]) -> float | None:
    """Return 1 if any of the texts contains a gold answer, else 0; None without gold answers.

    Both are normalized as for exact match, and compared by whole words (Chinese: characters). For a choice, its text counts.
    """
    gold = example.answers[:1] if example.choices else example.answers
    if not gold:
        return None
    edge = "" if _unspaced(example) else " "
    sought = [f"{edge}{plain}{edge}" for each in gold if (plain := _normalized(each, example))]
    return float(any(each in f"{edge}{_normalized(text, example)}{edge}" for text in texts for each in sought))


def evidence_recall(evidence: Sequence[str], selected: Iterable[tuple[int, int]], text: str) -> float | None:
    """Return the share of the evidence that is entirely inside the selected chunks, 0 to 1; None without evidence.

    selected: (start, end) of the chunks, in characters of `text`. Chunks separated only by white space are merged. Evidence that
    occurs several times counts if any occurrence is covered. Surrounding white space is ignored.
    """
    if not evidence:
        return None
    stretches = joined(selected, lambda end, start: not text[end:start].strip())
    covered = (any(text.find(each.strip(), *stretch) >= 0 for stretch in stretches) for each in evidence)
    return sum(covered) / len(evidence)


def full_evidence(recall: float | None) -> float | None:
    """Return 1 if the evidence recall is 1, else 0; None without evidence. The mean is the full-evidence rate."""
    return None if recall is None else float(recall == 1)


def _name(example: Example) -> str:
    return example.dataset.removesuffix("_e")  # LongBench-E's files


def _chinese(example: Example) -> bool:
    return example.language.lower().startswith("zh")


def _unspaced(example: Example) -> bool:
    return _chinese(example) or example.language.lower().partition("-")[0] in _UNSPACED


def _by_words(example: Example) -> bool:
    return _chinese(example) and _name(example) not in _BY_CHARACTERS


def _normalized(text: str, example: Example) -> str:
    return normalized_chinese(text) if _unspaced(example) else normalized(text)


def _tokens(text: str, example: Example) -> list[str]:
    """Return the words of a text; in Chinese, jieba's words (LongBench's `qa_f1_zh_score`) or characters (`qa_f1_score_zh`)."""
    if _by_words(example):
        return [word for word in map(normalized_chinese, cut_chinese(text)) if word]
    return list(normalized_chinese(text)) if _unspaced(example) else words(text)


def _spaced(text: str, example: Example) -> str:
    """Return `text` with spaces between words, which LongBench's `rouge_zh_score` inserts into Chinese."""
    if _by_words(example):
        return " ".join(cut_chinese(text))
    return " ".join(text) if _unspaced(example) else text


# -- normalized text, words ----------------------------------------------------------------------------------------------------

_CHINESE_PUNCTUATION = (  # incomplete: "《" and "〈" are kept
    "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､"
    "、〃》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏."
)
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_CHINESE_PUNCTUATION = str.maketrans("", "", string.punctuation + _CHINESE_PUNCTUATION)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def normalized(text: str) -> str:
    """Return `text` in lower case, without ASCII punctuation and English articles, with one space between words.

    This is `normalize_answer` of SQuAD, HotpotQA, LongBench and ∞Bench.
    """
    return " ".join(words(text))


def normalized_chinese(text: str) -> str:
    """Return `text` in lower case, without punctuation and white space: `normalize_zh_answer` of LongBench and ∞Bench."""
    return "".join(text.lower().translate(_NO_CHINESE_PUNCTUATION).split())


def words(text: str) -> list[str]:
    """Return the words of the normalized text."""
    return _ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def cut_chinese(text: str) -> Iterator[str]:
    """Return the words of `jieba.cut(text)`, including white space and punctuation. Raises FbragError (usage) without jieba."""
    return _jieba_cut()(text)


@cache
def _jieba_cut() -> Callable[[str], Iterator[str]]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jieba's source has invalid escapes and imports pkg_resources
        try:
            import jieba
        except ImportError:
            what = "Chinese answers need jieba, which is not installed"
            raise FbragError("usage", what, extra("eval")) from None
    # jieba's `initialize` would read the dictionary from a file in /tmp, which anyone may have written.
    tokenizer = jieba.Tokenizer()
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    cut: Callable[[str], Iterator[str]] = tokenizer.cut
    return cut


# -- scores, 0 to 1 ----------------------------------------------------------------------------------------------------------

_LETTER = re.compile(r"\b[A-D]\b")
_SPACES = re.compile(" +")
_SPACED = str.maketrans(dict.fromkeys("\n\"'.,?!{}", " "))


def f1(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """Return the F1 of the common tokens, including repetitions: `f1_score` of LongBench and ∞Bench."""
    n_common = sum((Counter(predicted) & Counter(gold)).values())
    if not n_common:
        return 0.0
    precision, recall = n_common / len(predicted), n_common / len(gold)
    return (2 * precision * recall) / (precision + recall)


def rouge_l(prediction: str, gold: str) -> float:
    """Return the summary-level Rouge-L F1 of the package `rouge`: `rouge_score` of LongBench.

    If the package raises, LongBench counts 0: for a text without a sentence, and for two sentences of about 1,000 words, whose
    recursion exceeds Python's limit. Raises FbragError (usage) without the package.
    """
    try:
        from rouge import Rouge
    except ImportError:
        raise FbragError("usage", "Rouge-L needs the package rouge, which is not installed", extra("eval")) from None
    longest = (max(len(sentence.split()) for sentence in text.split(".")) for text in (prediction, gold))
    if min(longest) > sys.getrecursionlimit():
        return 0.0  # the package would first fill n x m cells, gigabytes for 5,000 words, and then raise
    try:
        return float(Rouge(metrics=["rouge-l"], stats=["f"]).get_scores(prediction, gold)[0]["rouge-l"]["f"])
    except (ValueError, RecursionError):
        return 0.0


def choice_accuracy(prediction: str, label: tuple[str, ...]) -> float:
    """Return 1 if the prediction is the right choice, else 0. label: the choice's text and its letter.

    This is ∞Bench's `get_score_one_longbook_choice_eng`, which tries these markers in turn.
    """
    prediction = prediction.strip()
    letters = next(filter(None, map(_LETTER.findall, prediction.split("\n"))), [])
    if letters and letters[-1] in label:
        return 1.0
    if prediction[:1] in tuple("ABCD"):
        return float(prediction[0] in label)
    if not prediction or prediction in label:
        return float(bool(prediction))
    plain = _SPACES.sub(" ", prediction.translate(_SPACED))
    for announced in ("answer is:", "answer:", "answer is", "option is"):
        _, found, rest = plain.partition(announced)
        if found:
            return float(rest != "" and rest[1:].startswith(label))
    word = next((word for word in plain.split() if word in "ABCD"), None)
    return float(word in label)


def class_accuracy(prediction: str, gold: str, all_classes: Sequence[str]) -> float:
    """Return 1 over the number of labels that the prediction names if the right one is among them, else 0.

    This is LongBench's `classification_score`. A label that is part of the right one does not count, unless it follows such a
    label, because LongBench removes labels from the list while it iterates over it.
    """
    named = [label for label in all_classes if label in prediction]
    i = 0
    while i < len(named):
        if named[i] in gold and named[i] != gold:
            named.remove(named[i])
        i += 1
    return 1 / len(named) if gold in named else 0.0
