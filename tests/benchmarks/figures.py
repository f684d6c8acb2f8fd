"""Prints every measured figure of README.md and docs/ as it is in its page, from the rows in results/.

    cd tests/benchmarks && PYTHONPATH=../.. python figures.py > figures.txt

A line has a page, words of it, and the rows that they come from, with tabs between. tests/test_figures.py compares the lines with
the pages: to publish a figure, print it here as it is in its page. No model runs. The texts of the questions are in
../shared/bench. It takes three minutes of one core. Differences are paired, with 95% bootstrap intervals.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from answer_in_context import holds
from held_out_answers import mark_of
from looking_forward import BENCH, DRAWN, RESULTS, Key, alone, collected, fb, from_samples, interval, retrieved, samples_by_name
from looking_forward import questions as kept_questions
from reading_order import size_of
from sample_languages import Kept, by_way, read
from stage_three import drawn_samples

from fbrag_cli.evaluation.datasets import Example, load_examples
from fbrag_cli.evaluation.metrics import answer_in, evidence_recall, main_metric
from fbrag_cli.methods.fb_rag.baselines import OrderPreserving
from fbrag_cli.methods.fb_rag.fb_rag import FEW, FBRag
from fbrag_cli.retrieval.ranking import best

NAMES = {
    "musique": "MuSiQue",
    "hotpotqa": "HotpotQA",
    "2wikimqa": "2WikiMultihopQA",
    "qmsum": "QMSum",
    "fairytaleqa": "FairytaleQA, whole books",
    "musique150k": "MuSiQue, 150,000 words",
}
#: The sets of held_out.json with one right answer a question.
SETS = {
    "xquad.en": "one fact (XQuAD)",
    "hotpotqa": "two facts (HotpotQA)",
    "2wikimqa": "two facts, comparisons (2WikiMultihopQA)",
    "musique": "two to four facts (MuSiQue)",
    "fairytaleqa": "books of tales (FairytaleQA)",
}
CHOICES = {
    "default": "the default",
    "fast": "`--fast`",
    "thorough": "`--thorough`",
    "order-preserving": "`--method order-preserving`",
}
Row = dict[str, Any]


def rows(name: str) -> list[Row]:
    return read(RESULTS / f"{name}.jsonl.gz")


def complete(name: str) -> dict[str, dict[Key, Row]]:
    """Return rows by way and question: of the questions that all ways answered."""
    found = by_way(rows(name))
    keys = [key for key in found["default"] if all(key in each for each in found.values())]
    return {way: {key: each[key] for key in keys} for way, each in found.items()}


def say(page: str, words: str, *names: str) -> None:
    print(page, words, ", ".join(names), sep="\t", flush=True)


def less(differences: Iterable[float]) -> str:
    """Return the mean of differences and its interval: "+2.0 (-8.1 to +12.8)"."""
    return (
        " ".join(interval(np.array([*differences], float)).split())
        .replace("( ", "(")
        .replace("+0.0", "0.0")
        .replace("-0.0", "0.0")
    )


def between(differences: Iterable[float]) -> str:
    """Return the same for a sentence: "+2.0, -8.1 to +12.8"."""
    return less(differences).replace(" (", ", ").removesuffix(")")


# -- what is read --------------------------------------------------------------------------------------------------------------


def reading() -> None:
    """What the default reads, and five chunks by the question: whether the answer is in it, the evidence, and words."""
    known = {(e.dataset, e.id): e for name in NAMES for e in load_examples([BENCH / f"{name}.jsonl.gz"])}
    kept, drawn = kept_questions(), samples_by_name(rows("looking-forward"))["2 chunks"]
    samples = {
        "looking-forward": {key: (example, drawn[key][:3]) for key, example in kept.items()},
        "fresh-samples": {key: (known[key], texts) for key, texts in drawn_samples([RESULTS / "fresh-samples.jsonl.gz"]).items()},
        "methods": {
            (row["dataset"], row["id"]): (known[row["dataset"], row["id"]], row["samples"])
            for row in rows("methods")
            if row["configuration"]["method"] == "fb-rag"
        },
    }
    titles = {
        "looking-forward": "they chose the samples, and what is read",
        "fresh-samples": "they chose what is read",
        "methods": "they chose no setting",
    }
    for name, asked in samples.items():
        found = [_read(*each) for each in asked.values()]
        held = [each for each in found if each["known"]]
        fb_rag, plain, words, plain_words = (
            np.mean([each[key] for each in held]) for key in ("fb", "plain", "words", "plain_words")
        )
        gain = less(each["fb"] - each["plain"] for each in held)
        row = f"| {titles[name]} | {len(held)} | {plain:.1f} | {fb_rag:.1f} | {gain} | {plain_words:,.0f} | {words:,.0f} |"
        say("docs/methods.md", row, name)
        if name == "looking-forward":
            what = f"What it reads ({words:,.0f} words on average) holds the answer to {fb_rag:.1f}% of the questions; five "
            what += f"passages by a keyword search ({plain_words:,.0f} words) to {plain:.1f}% (n = {len(held)})"
            say("README.md", what, name)
        evidence = np.mean([[each["fb_evidence"], each["plain_evidence"]] for each in found], axis=0)
        say("docs/methods.md", f"{evidence[0]:.1f}% and {evidence[1]:.1f}% (n = {len(found)})", name)


def _read(example: Example, samples: Sequence[str]) -> dict[str, float]:
    text = collected(example.context()).corpus.documents[0].text
    found: dict[str, float] = {"known": answer_in(example, [text]) or 0}
    for name, trace in (
        ("fb", from_samples(example, samples, FBRag())[0]),
        ("plain", retrieved(example, OrderPreserving(select=5), Kept())[0]),
    ):
        spans = [(each.start, each.end) for each in trace.context]
        parts = [text[start:end] for start, end in spans]
        words = "words" if name == "fb" else "plain_words"
        found |= {name: 100 * (answer_in(example, parts) or 0), words: sum(len(part.split()) for part in parts)}
        found[f"{name}_evidence"] = 100 * (evidence_recall(example.evidence, spans, text) or 0)
    return found


def evidence() -> None:
    """Evidence recall at 5 of the ranking, by set, and what a sample without the answer is worth."""
    asked, drawn = kept_questions(), samples_by_name(rows("looking-forward"))["2 chunks"]
    by_set: dict[str, list[tuple[float, float]]] = {}
    worth = []
    for key, example in asked.items():
        samples = drawn[key][: DRAWN.samples]
        pair = 100 * alone(example)[1], 100 * fb(example, samples, DRAWN)[1]
        for name in (NAMES[key[0]], "all questions"):
            by_set.setdefault(name, []).append(pair)
        answers = {answer.lower() for answer in example.answers}
        if (
            main_metric(example) == "f1"
            and not answers <= {"yes", "no"}
            and answer_in(example, [example.context()])
            and not answer_in(example, samples)
        ):
            scores = from_samples(example, samples, DRAWN)[0].scores
            before, after = (holds(example, best(each, 5)) for each in (scores.backward, scores.combined))
            worth.append(100 * (after - before))
    for name in (*NAMES.values(), "all questions"):
        pairs = np.array(by_set[name])
        means = pairs.mean(axis=0)
        row = f"| {name} | {len(pairs)} | {means[0]:.1f} | {means[1]:.1f} | {less(pairs[:, 1] - pairs[:, 0])} |"
        say("docs/methods.md", row, "looking-forward")
    gain = less(worth).removeprefix("+").replace("+", "").replace(")", f"; n = {len(worth)})")
    say("docs/methods.md", f"for {gain.replace(' (', ' more questions in 100 (')}", "looking-forward")


def retrievers() -> None:
    """Evidence recall at 5 by the question and with the samples: of BM25, and of two models of embeddings."""
    by_model: dict[str, dict[Key, Row]] = {}
    for row in rows("paper-retrievers"):
        by_model.setdefault(row["model"], {})[row["set"], row["id"]] = row["recall"]
    keys = [key for key in by_model["bm25"] if all(key in found for found in by_model.values())]
    titles = {"bm25": "BM25", "all-MiniLM-L6-v2": "all-MiniLM-L6-v2", "all-mpnet-base-v2": "all-mpnet-base-v2, the paper's"}
    base = [by_model["bm25"][key]["both"][1] for key in keys]
    for model, title in titles.items():
        alone_, both = (np.array([100 * by_model[model][key][form][1] for key in keys]) for form in ("question", "both"))
        gain = "" if model == "bm25" else less(both - 100 * np.array(base))
        row = f"| {title} | {len(keys)} | {alone_.mean():.1f} | {both.mean():.1f} | {gain} |".replace("|  |", "| |")
        say("docs/methods.md", row, "paper-retrievers")


# -- answers -------------------------------------------------------------------------------------------------------------------


def marks() -> None:
    """Answers of the default to questions that chose nothing: right or wrong, marked or not, and those that were withheld."""
    counts: dict[str, Counter[tuple[str, bool]]] = {}
    for key, row in complete("evidence")["default"].items():
        for title in (SETS[key[0]], "all"):
            counts.setdefault(title, Counter())[mark_of(row), row["f1"] >= 0.5] += 1
    for title in (*SETS.values(), "all"):
        found = counts[title]
        cells = [found.total(), found["neither", True], found["marked", True], found["neither", False], found["marked", False]]
        withheld = found["withheld", True] + found["withheld", False]
        say("README.md", f"| {title} | {' | '.join(map(str, cells))} | {withheld} |", "evidence")
    right, wrong = found["neither", True], found["neither", False]
    say("README.md", f"Of {right + wrong} answers without a mark {right} are right", "evidence")
    say("docs/README.md", f"of {right + wrong} answers without a mark {wrong} were wrong", "evidence")
    for state in ("marked", "withheld"):
        good, bad = found[state, True], found[state, False]
        say("docs/README.md", f"{good} of {good + bad} answers that were {state}", "evidence")


def elsewhere() -> None:
    """Answers to questions that were put to another document than theirs: withheld, marked, or neither."""
    for way, found in complete("elsewhere").items():
        counts, n = Counter(map(mark_of, found.values())), len(found)
        withheld, marked, neither = (counts[mark] for mark in ("withheld", "marked", "neither"))
        say("docs/methods.md", f"| {CHOICES[way]} | {n} | {withheld} | {marked} | {neither} |", "elsewhere")
        if way == "default":
            words = f"Of {n} answers to questions that were put to another document {withheld} were withheld, {marked} marked"
            say("README.md", f"{words}, and {neither} neither", "elsewhere")


def held_out() -> None:
    """The default, --fast, and plain RAG on questions that chose nothing: scores, and what is read."""
    ways = complete("evidence")
    base = ways["order-preserving"]
    compared = ("default", "fast", "order-preserving")

    def mean(way: str, figure: str) -> float:
        return float(np.mean([row[figure] for row in ways[way].values() if row[figure] is not None]))

    for way in compared:
        found = ways[way]
        gain = "" if found is base else less(100 * (row["f1"] - base[key]["f1"]) for key, row in found.items())
        row = f"| {CHOICES[way]} | {len(found)} | {100 * mean(way, 'f1'):.1f} | {gain} | "
        row += f"{100 * mean(way, 'answer_in_context'):.1f} | {100 * mean(way, 'evidence'):.1f} | {mean(way, 'words'):,.0f} |"
        say("docs/methods.md", row.replace("|  |", "| |"), "evidence")
    held = between(100 * (row["answer_in_context"] - base[key]["answer_in_context"]) for key, row in ways["default"].items())
    say("docs/methods.md", f"more often than `order-preserving` ({held})", "evidence")
    shares = [f"{100 * mean(way, 'answer_in_context'):.1f}%" for way in ("default", "order-preserving")]
    say("README.md", f"{' and '.join(shares)} ({held}, n = {len(base)})", "evidence")
    fast = between(100 * (row["f1"] - ways["default"][key]["f1"]) for key, row in ways["fast"].items())
    say("docs/methods.md", f"no difference to the default was found (F1 {fast})", "evidence")
    say("README.md", f"no difference of its answers was found (F1 {fast}, n = {len(base)})", "evidence")
    few, many = f"up to {FEW} chunks", f"more than {FEW} chunks"
    groups: dict[str, list[Key]] = {group: [] for group in (*SETS.values(), few, many)}
    for key, row in ways["default"].items():
        groups[SETS[key[0]]].append(key)
        groups[few if row["n_chunks"] <= FEW else many].append(key)
    for group, keys in groups.items():
        scores = " | ".join(f"{100 * np.mean([ways[way][key]['f1'] for key in keys]):.1f}" for way in compared)
        gain = less(100 * (ways["default"][key]["f1"] - base[key]["f1"]) for key in keys)
        say("docs/methods.md", f"| {group} | {len(keys)} | {scores} | {gain} |", "evidence")


def novel() -> None:
    """Thirty plain questions on Pride and Prejudice."""
    found = [row for row in rows("long-documents") if row["way"] == "document order" and row["set"] == "pride"]
    right, held, n = sum(row["score"] >= 0.5 for row in found), sum(row["answer_in_context"] for row in found), len(found)
    words = f"{right} of {n} plain questions were answered rightly, and what was read held the answer to {held:.0f}"
    say("README.md", words, "long-documents")


def methods() -> None:
    """The nine methods by one model."""
    by_method: dict[str, dict[Key, Row]] = {}
    for row in rows("methods"):
        by_method.setdefault(row["configuration"]["method"], {})[row["dataset"], row["id"]] = row
    base = by_method["order-preserving"]
    for name, found in by_method.items():
        f1 = {key: 100 * row["metrics"]["f1"] for key, row in found.items()}
        gain = "" if found is base else less(f1[key] - 100 * base[key]["metrics"]["f1"] for key in base)
        row = f"{np.mean([*f1.values()]):.1f} | {gain} | {_percent(found, 'answer_in_context')} | "
        row += f"{_percent(found, 'evidence_recall')} | {np.mean([each['tokens_read'] for each in found.values()]):,.0f} |"
        say("docs/methods.md", f"| `{name}` | {row}", "methods")
    fb_rag = by_method["fb-rag"]
    held = [sum(row["metrics"]["answer_in_context"] for row in each.values()) for each in (fb_rag, base)]
    right = [sum(row["metrics"]["f1"] >= 0.5 for row in each.values()) for each in (fb_rag, base)]
    say(
        "docs/methods.md",
        f"for {held[0]:.0f} of the {len(base)}, and in what `order-preserving` read for {held[1]:.0f}",
        "methods",
    )
    say("docs/methods.md", f"{right[0]} and {right[1]} of the {len(base)} answers are right", "methods")
    wiki = {
        name: np.mean([100 * row["metrics"]["f1"] for key, row in found.items() if key[0] == "2wikimqa"])
        for name, found in by_method.items()
    }
    reading = [value for name, value in wiki.items() if name not in ("closed-book", "genread")]
    n = sum(key[0] == "2wikimqa" for key in base)
    words = f"F1 {wiki['closed-book']:.1f} without the document, and {min(reading):.1f} to {max(reading):.1f} with it (n = {n})"
    say("docs/methods.md", words, "methods")
    ratios = np.array([fb_rag[key]["seconds"]["total"] / base[key]["seconds"]["total"] for key in base])
    say("docs/methods.md", f"{median(ratios):.2f} times {_of_median(ratios)} on {len(ratios)} other questions", "methods")
    small = {(row["dataset"], row["id"]): row for row in rows("small-05b-answers")}
    forward, total = (
        [small[key]["seconds"][part] / fb_rag[key]["seconds"][part] for key in small] for part in ("forward", "total")
    )
    words = f"in {median(forward):.2f} of the time, but then two models read the chunks, and a question takes "
    words += f"{median(total):.2f} times as long (n = {len(small)})"
    say("docs/methods.md", words, "small-05b-answers", "methods")


def _percent(found: Mapping[Key, Row], metric: str) -> str:
    known = [row["metrics"].get(metric) or 0 for row in found.values()]
    return f"{100 * np.mean(known):.1f}" if any(known) else ""


def _of_median(values: Any) -> str:
    drawn = np.random.default_rng(0).choice(values, (10_000, len(values)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return f"({low:.2f} to {high:.2f})"


def long_context() -> None:
    """The whole document, next to five chunks on the same questions."""
    found = {row["id"]: row for row in rows("answers-long-context") if row["configuration"]["method"] == "long-context"}
    base = [row for row in rows("answers") if row["configuration"]["method"] == "order-preserving" and row["id"] in found]
    tokens, seconds = (np.mean([cost(row) for row in found.values()]) for cost in _COSTS)
    f1, plain = (100 * np.mean([row["metrics"]["f1"] for row in each]) for each in (found.values(), base))
    say("docs/methods.md", f"{tokens:,.0f} tokens and {seconds:.0f} s a question, F1 {f1:.1f}", "answers-long-context")
    say("docs/methods.md", f"`order-preserving` has {plain:.1f} (n = {len(base)})", "answers")


_COSTS: tuple[Callable[[Row], float], ...] = (lambda row: row["tokens_read"], lambda row: row["seconds"]["total"])


def order() -> None:
    """F1 of what begins with the retrieved chunks, and of the paper's order, by the length of the document."""
    found: dict[str, dict[tuple[str, ...], Row]] = {}
    for row in rows("reading-order"):
        if row["way"] != "forward":
            begins = "read first, windows" if row["chunks"] <= FEW else "read first, chunks"
            way = "retrieved first" if row["way"] == begins else row["way"]
            found.setdefault(way, {})[row["length"], row["set"], row["id"]] = row
    pairs: dict[str, list[tuple[float, float]]] = {}
    for key, row in found["retrieved first"].items():
        if key in found["default"]:
            pairs.setdefault(size_of(row), []).append((_score(row), _score(found["default"][key])))
    for name, some in pairs.items():
        say("docs/methods.md", _row_of_orders(name, some), "reading-order")
    fresh = _fresh()
    titles = {"pride": "120,000: a novel", "fairytaleqa": "60,000 (other tales)", "musique150k": "150,000 (other questions)"}
    for name, title in titles.items():
        some = [(fresh["default"][key], fresh["document order"][key]) for key in fresh["default"] if key[0] == name]
        say("docs/methods.md", _row_of_orders(title, some), "long-documents")
    every = {key: (fresh["document order"][key], fresh["default"][key]) for key in fresh["default"]}
    say("docs/methods.md", _gain(every.values()), "long-documents")
    both = [(key, row, found["default"].get(key)) for key, row in found["retrieved first"].items() if row["chunks"] > FEW]
    before = [(_score(paper), _score(row)) for _, row, paper in both if paper]
    known = {key[1:] for key, _, paper in both if paper}
    pooled = _gain([*before, *(pair for key, pair in every.items() if key not in known)])
    say("docs/methods.md", pooled, "long-documents", "reading-order")


def _gain(pairs: Iterable[tuple[float, float]]) -> str:
    values = np.array([*pairs])
    return f"{between(values[:, 0] - values[:, 1])}, n = {len(values)}"


def _row_of_orders(name: str, pairs: Sequence[tuple[float, float]]) -> str:
    values = np.array(pairs)
    means, gain = values.mean(axis=0), less(values[:, 1] - values[:, 0])
    return f"| {name} | {len(values)} | {means[0]:.1f} | {means[1]:.1f} | {gain} |"


def _fresh() -> dict[str, dict[Key, float]]:
    """Return the scores of the questions of long documents that chose no order before, in percent, by way."""
    ways = by_way(rows("long-documents"))
    return {way: {key: 100 * row["score"] for key, row in found.items()} for way, found in ways.items()}


def _score(row: Row) -> float:
    return 100 * float(row["scores"]["rouge_l" if row["set"] == "qmsum" else "f1"])


# -- FIT-RAG and R2AG ----------------------------------------------------------------------------------------------------------


def papers() -> None:
    systems: dict[str, dict[str, Row]] = {}
    for row in rows("fit-rag-15b"):
        systems.setdefault(row["system"], {})[row["id"]] = row
    enough, every = systems["BM25, enough by relevance"], systems["BM25, a window of each"]
    right, all_right = (np.array([100 * each[id]["right"] for id in every], float) for each in (enough, every))
    tokens, all_tokens = (np.mean([row["tokens"] for row in each.values()]) for each in (enough, every))
    windows = np.mean([row["read"] for row in enough.values()])
    words = f"{windows:.1f} windows ({tokens:.0f} tokens), and {right.mean():.1f}% of the answers are right; all ten windows"
    words += f" ({all_tokens:.0f} tokens) give {all_right.mean():.1f}% ({between(right - all_right)}, n = {len(every)})"
    say("docs/methods.md", words, "fit-rag-15b")
    held = [[window["holds"] for window in row["windows"]] for row in rows("fit-rag-prefer")]
    ranked = [_by_sum(row["windows"]) for row in rows("fit-rag-prefer")]
    every, first, summed = (100 * np.array([any(each) for each in some], float) for some in (held, _five(held), _five(ranked)))
    words = f"({summed.mean():.1f}% and {every.mean():.1f}%; by BM25 five hold it for {first.mean():.1f}%: "
    say("docs/methods.md", f"{words}{between(summed - first)}, n = {len(held)})", "fit-rag-prefer")
    titles = {
        "plain": "the list without marks",
        "once": "rows by relevance",
        "once permuted": "the same rows, attached to the wrong chunks",
        "once words": "words instead of rows",
    }
    by_system: dict[str, dict[str, float]] = {}
    for row in rows("r2ag-once"):
        by_system.setdefault(row["system"], {})[row["id"]] = 100 * row["f1"]
    base = by_system["plain"]
    for name, title in titles.items():
        gain = "" if name == "plain" else less(by_system[name][id] - base[id] for id in base)
        row = f"| {title} | {len(base)} | {np.mean([*by_system[name].values()]):.1f} | {gain} |".replace("|  |", "| |")
        say("docs/methods.md", row, "r2ag-once")


def _by_sum(windows: Sequence[Row]) -> list[float]:
    """Return whether each window holds the answer, by the sum of LLM_Prefer and relevance, highest first."""
    ordered = sorted(windows, key=lambda window: -(window["yes"] / (window["yes"] + window["no"]) + window["p"]))
    return [window["holds"] for window in ordered]


def _five(lists: Iterable[list[float]]) -> list[list[float]]:
    return [each[:5] for each in lists]


# -- seconds and memory --------------------------------------------------------------------------------------------------------


def seconds() -> None:
    taken: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows("whole-reading-order"):
        taken.setdefault((row["document"], row["way"]), {})[row["question"]] = row["seconds"]
    found = []
    for document, words, way in (("musique", "10,000", "default"), ("musique150k", "150,000", "document order")):
        own, plain = taken[document, way], taken[document, "order-preserving, 5"]
        ratio = median(own[key] / plain[key] for key in own if key in plain)
        found.append((words, own, ratio))
    told = " and ".join(f"{np.mean([*own.values()]):.0f} s on {words} words (n = {len(own)})" for words, own, _ in found)
    say("README.md", told, "whole-reading-order")
    for words, own, ratio in found:
        say("docs/methods.md", f"| {words} | {len(own)} | {np.mean([*own.values()]):.1f} | {ratio:.2f} |", "whole-reading-order")
    hour = 3600 / np.mean([value for _, own, _ in found for value in own.values()])
    say("docs/methods.md", f"{hour:.0f} questions per hour", "whole-reading-order")


def memory() -> None:
    (row,) = rows("memory")
    say("README.md", f"{row['ram_peak_mb'] / 1000:.1f} GB of memory", "memory")


def dial() -> None:
    """What other choices cost: the median ratio of their CPU time to the default's."""
    for name, ways in {"evidence": ("fast", "order-preserving"), "dial": ("thorough",)}.items():
        found = complete(name)
        for way in ways:
            ratios = np.array([row["seconds"] / found["default"][key]["seconds"] for key, row in found[way].items()])
            if way == "fast":
                say("README.md", f"takes {median(ratios):.2f} of the CPU time", name)
            say("docs/methods.md", f"| {CHOICES[way]} | {len(ratios)} | {median(ratios):.2f} {_of_median(ratios)} |", name)


#: What README.md and docs/ have.
PUBLISHED = (
    reading,
    evidence,
    retrievers,
    marks,
    elsewhere,
    held_out,
    novel,
    methods,
    long_context,
    order,
    papers,
    seconds,
    dial,
    memory,
)

if __name__ == "__main__":
    chosen = [globals()[name] for name in sys.argv[1:]]
    for print_figures in chosen or PUBLISHED:
        print_figures()
