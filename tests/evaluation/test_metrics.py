"""Scores equal to the benchmarks' own, and evidence recall.

The figures of the tables were computed by the scorers of LongBench (metrics.py, eval.py) and ∞Bench (src/compute_scores.py).
"""

import string
import sys

import jieba
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge import Rouge

from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation import metrics
from fbrag_cli.evaluation.datasets import Example
from fbrag_cli.evaluation.metrics import ANSWER_METRICS, answer_in, evidence_recall, full_evidence, main_metric, rouge_l, score
from fbrag_cli.installation import extra


def example(dataset, *answers, **more):
    return Example("1", dataset, "?", answers, lambda: "", "document", **more)


def chinese(dataset, *answers):
    return example(dataset, *answers, language="zh")


# 1. Worked examples


@pytest.mark.parametrize(
    ("prediction", "gold", "f1"),
    [
        ("The Eiffel Tower, in Paris.", "Eiffel Tower", 0.6666666666666666),
        ("Café au lait", "cafe au lait", 0.6666666666666666),
        ("an apple a day", "apple day apple", 0.8),
        ("", "", 0.0),
        ("the", "a", 0.0),
        ("U.S.A. — 1,000", "usa 1000", 0.8),
        ("rock’n’roll", "rocknroll", 0.0),
        ("İstanbul", "i̇stanbul", 1.0),
        ("Straße", "STRASSE", 0.0),
        ("yes\u00a0sir", "yes sir", 1.0),
        ("theatre the_ the-the", "theatre", 0.6666666666666666),
    ],
)
def test_f1(prediction, gold, f1):
    assert score(example("hotpotqa", gold), prediction)["f1"] == f1


@pytest.mark.parametrize(
    ("prediction", "gold", "by_words", "by_characters", "rouge"),
    [
        ("他交了学费。", "学费", 0.5, 0.5714285714285715, 0.39999999680000003),
        ("《红楼梦》的作者是曹雪芹", "红楼梦", 0.2857142857142857, 0.42857142857142855, 0.24999999781250004),
        ("北京大学，创建于1898年", "北京 大学创建于 1898 年", 0.7272727272727272, 1.0, 0.6666666616666668),
        ("", "", 0.0, 0.0, 0.0),
        ("。！", "学费", 0.0, 0.0, 0.0),
        ("GPU的100%", "gpu", 0.5, 0.6, 0.0),
        ("中华人民共和国", "中华", 0.0, 0.4444444444444445, 0.0),
    ],
)
def test_chinese(prediction, gold, by_words, by_characters, rouge):
    assert score(chinese("multifieldqa_zh", gold), prediction)["f1"] == by_words
    assert score(chinese("longbook_qa_chn", gold), prediction)["f1"] == by_characters
    assert score(chinese("dureader", gold), prediction)["rouge_l"] == rouge


@pytest.mark.parametrize(
    ("prediction", "gold", "f"),
    [
        (
            "The team agreed on a new remote. It will be yellow.",
            "They agreed on the yellow remote. The new remote is cheap.",
            0.5714285664399092,
        ),
        ("a b c", "a b c", 0.999999995),
        ("...", "a", 0.0),
        (" . ", "  .  ", 0.999999995),
        ("a.b.c", "c.b.a", 0.999999995),
        ("x", "", 0.0),
    ],
)
def test_rouge(prediction, gold, f):
    assert score(example("qmsum", gold), prediction)["rouge_l"] == f


@pytest.mark.parametrize(
    ("prediction", "right"),
    [
        ("B", 1),
        ("B. The butler", 1),
        ("The butler", 1),
        ("(B)", 1),
        ("Answer: B", 1),
        ("The answer is: C, no: B", 1),
        ("I think it is B or C", 1),  # the first letter counts when the last is wrong and none is announced
        ("C\nB", 0),
        ("", 0),
        ("  ", 0),
        ("butler", 0),
        ("the answer is The butler!", 1),
        ("answer is", 0),
        ("The option is  B", 1),
        ("Bob did it", 1),
        ("ABCD", 0),
        ("none of those BC B", 1),
        ("A", 0),
        ("é B", 1),
    ],
)
def test_choices(prediction, right):
    options = ("A gardener", "The butler", "C", "D")
    found = score(example("longbook_choice_eng", "The butler", "B", choices=options), prediction)
    assert found == {"f1": None, "em": None, "contains": None, "rouge_l": None, "accuracy": right}


@pytest.mark.parametrize(
    ("prediction", "gold", "accuracy"),
    [
        ("Number of something", "Number of something", 1.0),
        ("Number", "Number", 1.0),
        ("Other number and City", "City", 0.5),
        ("Nothing", "City", 0.0),
        ("\nCity\nNumber", "City", 1.0),
    ],
)
def test_classes(prediction, gold, accuracy):
    classes = ("Number of something", "Number", "Other number", "City")
    assert score(example("trec", gold, all_classes=classes), prediction)["accuracy"] == accuracy


# 2. The benchmarks' libraries

_text = st.lists(st.one_of(st.sampled_from([*"abcd. \n", "the ", " . ", "北京", "学费", "。", "3.5"]), st.text(max_size=3))).map(
    "".join
)


@settings(max_examples=300)
@given(_text, _text)
def test_rouge_is_what_longbench_calls(prediction, gold):
    try:
        f = Rouge().get_scores([prediction], [gold], avg=True)["rouge-l"]["f"]
    except ValueError:  # no sentence: LongBench counts 0
        f = 0.0
    assert rouge_l(prediction, gold) == f


def test_rouge_of_a_very_long_sentence_is_0_as_in_longbench():
    """The package's recursion ends there, and LongBench's scorer takes any exception for 0."""
    longer, shorter = ("no " * n + "yes" for n in (1100, 800))
    with pytest.raises(RecursionError):
        Rouge().get_scores([longer], ["yes no"])
    assert rouge_l(longer, "yes no") == 0
    assert rouge_l(shorter, "yes no") == Rouge().get_scores([shorter], ["yes no"])[0]["rouge-l"]["f"] > 0


def test_rouge_of_endless_texts_takes_no_table_of_their_size():
    assert rouge_l("x " * 100_000, "x") == 0.999999995
    assert rouge_l("x " * 100_000, "x " * 100_000 + "y") == 0


def test_without_rouge_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge", None)
    with pytest.raises(FbragError, match="rouge") as raised:
        score(example("qmsum", "a"), "a")
    assert extra("eval") in str(raised.value.hint)
    assert score(example("trec", "x", all_classes=("x", "y")), "x")["accuracy"] == 1


def test_chinese_words_are_those_of_jieba(tmp_path, monkeypatch):
    monkeypatch.setattr(jieba.dt, "tmp_dir", str(tmp_path))
    jieba.setLogLevel(60)

    @settings(max_examples=200)
    @given(st.one_of(_text, st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), max_size=20)))
    def check(text):
        assert list(metrics.cut_chinese(text)) == list(jieba.cut(text, cut_all=False))

    check()


def test_jieba_leaves_nothing_in_the_temporary_folder_and_says_nothing(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    metrics._jieba_cut.cache_clear()
    assert list(metrics.cut_chinese("他交了学费")) == ["他交", "了", "学费"]
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr().err == ""


def test_without_jieba_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    metrics._jieba_cut.cache_clear()
    with pytest.raises(FbragError, match="jieba") as raised:
        score(chinese("multifieldqa_zh", "学费"), "学费")
    assert extra("eval") in str(raised.value.hint)
    assert score(chinese("longbook_qa_chn", "学费"), "学费")["em"] == 1


# 3. What holds for every text


@given(_text, _text)
def test_f1_is_symmetric_and_whole_for_the_same_words(one, other):
    forth, back = (score(example("hotpotqa", gold), text)["f1"] for gold, text in ((one, other), (other, one)))
    assert forth == pytest.approx(back)
    assert 0 <= forth <= 1
    assert score(example("hotpotqa", one), one)["f1"] == bool(metrics.words(one))


@given(st.lists(st.text(st.characters(categories=["Lu", "Ll", "Nd"]), min_size=1)), st.data())
def test_punctuation_articles_and_spaces_do_not_count(words, data):
    marks = st.text(st.sampled_from(string.punctuation))
    between = st.sampled_from([" ", "\n\t", " the ", " An ", "\u2003a, "])
    noisy = "".join(f"{data.draw(marks)}{word}{data.draw(marks)}{data.draw(between)}" for word in words)
    plain = " ".join(words)
    found = score(example("hotpotqa", plain), noisy)
    assert found["em"] == 1
    assert found["f1"] == bool(metrics.words(plain))


@given(
    st.sampled_from("hotpotqa qmsum multifieldqa_zh longbook_qa_chn vcsum mine.ja".split()), _text, st.lists(_text, min_size=1)
)
def test_more_gold_answers_never_lower_a_score(dataset, prediction, golds):
    language = "zh" if dataset[-2:] in ("zh", "hn", "um") and dataset != "qmsum" else dataset[-2:]
    best = score(example(dataset, *golds, language=language), prediction)
    each = [score(example(dataset, gold, language=language), prediction) for gold in golds]
    for metric in ANSWER_METRICS:
        values = [found[metric] for found in each]
        assert best[metric] == (None if None in values else max(values))


# 4. Which metrics apply


def test_questions_have_f1_and_exact_match():
    found = score(example("mine", "Paris", "the city of Paris"), "City of Paris!")
    assert (found["f1"], found["em"], found["accuracy"]) == (1, 1, None)
    assert found["rouge_l"] == rouge_l("City of Paris!", "the city of Paris")


def test_a_reply_contains_a_gold_answer_as_whole_words():
    gold = ("Paris", "the City of Light")
    replies = ["It is Paris, in France.", "It is the city of light!", "Parisians", ""]
    assert [score(example("hotpotqa", *gold), reply)["contains"] for reply in replies] == [1, 1, 0, 0]
    assert score(chinese("multifieldqa_zh", "学费"), "他交了“学费”。")["contains"] == 1


def test_summaries_have_rouge_alone():
    found = score(example("qmsum", "a"), "a")
    assert found == {"f1": None, "em": None, "contains": None, "rouge_l": 0.999999995, "accuracy": None}


def test_without_gold_answers_nothing_applies():
    assert set(score(example("mine"), "Paris").values()) == {None}
    assert answer_in(example("mine"), ["Paris"]) is None


@pytest.mark.parametrize("dataset", ["triviaqa", "triviaqa_e"])
def test_only_the_first_line_counts_where_longbench_reads_no_more(dataset):
    assert score(example(dataset, "Paris"), "\n\nParis\nQuestion: next")["em"] == 1
    assert score(example(dataset, "next"), "\n\nParis\nQuestion: next")["f1"] == 0
    assert score(example(dataset, "next"), "\n\nParis\nQuestion: next")["contains"] == 0
    assert score(example("hotpotqa", "Paris"), "Paris\nQuestion: next")["em"] == 0


def test_main_metrics():
    assert main_metric(example("musique150k", "x")) == "f1"
    assert main_metric(example("xquad.zh", "x")) == "f1"
    assert main_metric(example("qmsum", "x")) == "rouge_l"
    assert main_metric(example("gov_report_e", "x")) == "rouge_l"
    assert main_metric(example("longbook_choice_eng", "x", "A", choices=("x", "y"))) == "accuracy"
    assert main_metric(example("trec", "x", all_classes=("x", "y"))) == "accuracy"


@pytest.mark.parametrize("dataset", ["lcc", "repobench-p_e", "passkey", "longbook_sum_eng"])
def test_tasks_with_other_metrics_are_refused(dataset):
    with pytest.raises(FbragError, match=f"no scorer for {dataset}"):
        main_metric(example(dataset, "x"))


# 5. Answers in texts


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("It was in the Paris, of 1900.", 1),
        ("PARIS", 1),
        ("Parisian life", 0),
        ("", 0),
        ("par is", 0),
    ],
)
def test_an_answer_stands_as_whole_words(text, there):
    assert answer_in(example("musique", "London", "Paris"), ["no", text]) == there


def test_an_answer_of_articles_stands_nowhere():
    assert answer_in(example("musique", "The", "..."), ["the a an ..."]) == 0


def test_a_chinese_answer_stands_by_its_characters():
    assert answer_in(chinese("xquad.zh", "学 费"), ["他交了“学费”。"]) == 1
    assert answer_in(chinese("xquad.zh", "学校"), ["学了，校对"]) == 0


def test_of_a_choice_its_text_is_looked_for():
    choice = example("longbook_choice_eng", "The butler", "B", choices=("The cook", "The butler"))
    assert answer_in(choice, ["Plan B failed."]) == 0
    assert answer_in(choice, ["A butler did it."]) == 1


# 6. Evidence

TEXT = "Ann was born in Rome. Bob was born in Oslo.\n\nAnn met Bob in Paris. Ann was born in Rome."


def spans(*passages):
    return [(TEXT.index(each), TEXT.index(each) + len(each)) for each in passages]


def test_evidence_inside_one_chunk():
    assert evidence_recall(["Ann was born in Rome.", "Ann met Bob"], spans("Ann was born in Rome. Bob"), TEXT) == 0.5


def test_adjacent_chunks_are_one_stretch_in_any_order():
    halves = spans("Oslo.\n\nAnn met", "Bob in Paris.")
    assert evidence_recall(["Ann met Bob in Paris."], halves, TEXT) == 1
    assert evidence_recall(["Ann met Bob in Paris."], halves[::-1], TEXT) == 1
    assert evidence_recall(["Ann met Bob in Paris."], halves[:1], TEXT) == 0


def test_chunks_with_a_word_between_them_are_apart():
    assert evidence_recall(["Ann met Bob in Paris."], spans("Ann met", "in Paris."), TEXT) == 0


def test_a_passage_counts_wherever_it_is_covered():
    last = (len(TEXT) - 21, len(TEXT))
    assert evidence_recall(["Ann was born in Rome."], [last], TEXT) == 1


def test_white_space_around_a_passage_lies_in_no_chunk():
    assert evidence_recall(["\n\nAnn met Bob in Paris. "], spans("Ann met Bob in Paris."), TEXT) == 1


def test_a_chunk_inside_another_changes_nothing():
    assert evidence_recall(["Bob was born in Oslo."], spans("Ann was born in Rome. Bob was born in Oslo.", "Rome."), TEXT) == 1


def test_no_chunks_and_no_evidence():
    assert evidence_recall(["Ann"], [], TEXT) == 0
    assert evidence_recall([], spans("Ann"), TEXT) is None


def test_full_evidence():
    assert [full_evidence(recall) for recall in (1.0, 0.5, 0.0, None)] == [1, 0, 0, None]
