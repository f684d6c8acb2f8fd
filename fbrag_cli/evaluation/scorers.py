"""Scores of one answer against one gold answer, by the rules of the benchmarks' own scorers.

LongBench: `metrics.py` of THUDM/LongBench. ∞Bench: `src/compute_scores.py` of OpenBMB/InfiniteBench (51d9b37).
"""

from __future__ import annotations

import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from fbrag_cli.errors import FbragError
from fbrag_cli.installation import extra

# 1. Normalised text

_CHINESE_PUNCTUATION = (  # not complete: "《" and "〈" stay
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


# 2. Tokens


def words(text: str) -> list[str]:
    """Return the words of the normalised text."""
    return _ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def chinese_words(text: str) -> list[str]:
    """Return the words of jieba, each normalised, as in LongBench's `qa_f1_zh_score`."""
    return [word for word in map(normalized_chinese, cut_chinese(text)) if word]


def characters(text: str) -> list[str]:
    """Return the characters of the normalised Chinese text, as in ∞Bench's `qa_f1_score_zh`."""
    return list(normalized_chinese(text))


def cut_chinese(text: str) -> Iterator[str]:
    """Return the words of `jieba.cut(text)`, with white space and punctuation. Raises FbragError (usage) without jieba."""
    return _jieba_cut()(text)


@cache
def _jieba_cut() -> Callable[[str], Iterator[str]]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jieba's source has invalid escapes and imports pkg_resources
        try:
            import jieba
        except ImportError:
            what = "Chinese answers are cut into words by jieba, which is not installed"
            raise FbragError("usage", what, extra("eval")) from None
    # Its own `initialize` would read the dictionary from a file in /tmp, which anyone may have put there.
    tokenizer = jieba.Tokenizer()
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    cut: Callable[[str], Iterator[str]] = tokenizer.cut
    return cut


# 3. Scores, 0 to 1

_LETTER = re.compile(r"\b[A-D]\b")
_SPACES = re.compile(" +")
_SPACED = str.maketrans(dict.fromkeys("\n\"'.,?!{}", " "))


def f1(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """Return the F1 of the common tokens, counted with repetitions: `f1_score` of LongBench and ∞Bench."""
    n_common = sum((Counter(predicted) & Counter(gold)).values())
    if not n_common:
        return 0.0
    precision, recall = n_common / len(predicted), n_common / len(gold)
    return (2 * precision * recall) / (precision + recall)


def rouge_l(prediction: str, gold: str) -> float:
    """Return the summary-level Rouge-L F1 of the package `rouge`: `rouge_score` of LongBench.

    Where the package raises, LongBench counts 0: for a text without a sentence, and for two sentences so long (about 1,000
    words) that its recursion exceeds Python's limit. Raises FbragError (usage) without the package.
    """
    try:
        from rouge import Rouge
    except ImportError:
        raise FbragError("usage", "Rouge-L is computed by rouge, which is not installed", extra("eval")) from None
    if min(map(_longest_sentence, (prediction, gold))) > sys.getrecursionlimit():
        return 0.0  # the package would fill a table of n x m cells first, gigabytes for 5,000 words, and then raise
    try:
        return float(Rouge(metrics=["rouge-l"], stats=["f"]).get_scores(prediction, gold)[0]["rouge-l"]["f"])
    except (ValueError, RecursionError):
        return 0.0


def _longest_sentence(text: str) -> int:
    """Return the number of words in the longest sentence. A sentence ends at "."."""
    return max(len(sentence.split()) for sentence in text.split("."))


def choice_accuracy(prediction: str, label: tuple[str, ...]) -> float:
    """Return 1 if the prediction means the right choice, else 0. label: the choice's text and its letter.

    This is ∞Bench's `get_score_one_longbook_choice_eng`, which tries these signs in turn.
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
    label, because LongBench removes labels from the list that it walks.
    """
    named = [label for label in all_classes if label in prediction]
    i = 0
    while i < len(named):
        if named[i] in gold and named[i] != gold:
            named.remove(named[i])
        i += 1
    return 1 / len(named) if gold in named else 0.0
