"""What the large model reads, on questions that no other table used: samples drawn anew, answers, and what was in the context.

    python tests/benchmarks/stage_three.py draw SAMPLES.jsonl [--without-evidence]
    python tests/benchmarks/stage_three.py answer ROWS.jsonl --samples SAMPLES.jsonl --ways default "read first, chunks" ...
    python tests/benchmarks/stage_three.py compare ROWS.jsonl.gz ... [--from default]
    python tests/benchmarks/stage_three.py held --samples SAMPLES.jsonl.gz [--kept] --ways default "read first, chunks" ...
    python tests/benchmarks/stage_three.py confidence ROWS.jsonl.gz ... --samples SAMPLES.jsonl.gz [--kept] --ways "as installed"
    python tests/benchmarks/stage_three.py absent [--kept]

The questions are 60 each of MuSiQue, HotpotQA and 2WikiMultihopQA, 30 of FairytaleQA and 20 of QMSum, none of which is in
`recall*.jsonl.gz`; the sets take turns, so that the first n are a fair part of each. --without-evidence: their documents lack the
gold evidence, so no answer is right. `held` runs no model: it says what would be read. --kept: the 270 questions of
looking_forward.py, whose samples are results/looking-forward.jsonl.gz. Rows are written as they come, and a run that is started
again goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from looking_forward import DRAWN, MODEL, ROWS, Key, collected, from_samples, interval, retrieved, samples_of
from looking_forward import questions as kept
from question_recall import BENCH
from sample_languages import by_way, loaded, read

from fbrag_cli.evaluation.datasets import Example, load_examples
from fbrag_cli.evaluation.metrics import answer_in, evidence_recall, main_metric, score
from fbrag_cli.generation.generator import CallOptions, Generator
from fbrag_cli.methods.fb_rag.baselines import OrderPreserving
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.method import Method, judged
from fbrag_cli.methods.ranking import whole_chunks
from fbrag_cli.query import Query
from fbrag_cli.render.answer import answer_of
from fbrag_cli.trace import Selection, Trace, Verdict

FRESH = {"musique": 60, "hotpotqa": 60, "2wikimqa": 60, "fairytaleqa": 30, "qmsum": 20}
_LONG = {"qmsum": 256}  # tokens of an answer; of the others 64


WAYS: dict[str, Method] = {
    "default": replace(DRAWN, order="document"),  # as in the paper; the rows of older tables have this name
    "read first, chunks": DRAWN,
    "read first, windows": replace(DRAWN, granularity="window"),
    "order-preserving, 5": OrderPreserving(select=5),
    "order-preserving, 8": OrderPreserving(select=8),
    "as installed": FBRag(),
    "--fast": FBRag(samples=0),
}


def questions() -> dict[Key, Example]:
    """The first questions of each set that no other table used, in turns."""
    used = {id for _, id in samples_of(ROWS)}
    sets = [
        [each for each in load_examples([BENCH / f"{name}.jsonl.gz"]) if each.id not in used][:n] for name, n in FRESH.items()
    ]
    placed = sorted(((i + 0.5) / len(found), j, each) for j, found in enumerate(sets) for i, each in enumerate(found))
    return {(each.dataset, each.id): each for _, _, each in placed}


def without_evidence(example: Example) -> Example:
    text = example.context()
    for passage in example.evidence:
        text = text.replace(passage.strip(), "")
    return replace(example, context=lambda: text)


def asked(options: argparse.Namespace) -> dict[Key, Example]:
    first, last = map(int, options.questions.split(":"))
    chosen = dict(list((kept() if options.kept else questions()).items())[first:last])
    return {key: without_evidence(each) for key, each in chosen.items()} if options.without_evidence else chosen


def draw(out: Path, options: argparse.Namespace) -> None:
    small = loaded(MODEL, options.threads)
    done = {(row["set"], row["id"]) for row in read(out)} if out.exists() else set()
    with out.open("a", encoding="utf-8") as rows:
        for key, example in asked(options).items():
            if key in done:
                continue
            trace, _ = retrieved(example, DRAWN, small)
            cost = next(stage for stage in trace.stages if stage.name == "forward")
            row = {
                "set": key[0],
                "id": key[1],
                "model": MODEL,
                "settings": DRAWN.described(),
                "samples": [[sample.seed, sample.finish, sample.text] for sample in trace.samples],
                "cost": {name: value for name, value in asdict(cost).items() if name not in ("name", "first_token_seconds")},
            }
            print(json.dumps(row, ensure_ascii=False), file=rows, flush=True)


def answered(example: Example, name: str, texts: Sequence[str], large: Generator) -> dict[str, Any]:
    method = replace(WAYS[name], max_tokens=_LONG.get(example.dataset, 64))
    trace, tools = from_samples(example, texts, method)
    done = method.answer(trace, replace(tools, model=lambda role, adapter=None: large))
    stage = next(each for each in done.stages if each.name == "answer")
    return {
        "set": example.dataset,
        "id": example.id,
        "way": name,
        "read": [[excerpt.position, excerpt.start, excerpt.end] for excerpt in done.context],
        "answer": done.answer,
        "support": done.verdict.support,
        "probability": done.verdict.answer_probability,
        "judged": proposed(method, done, large) if method.needs_small else None,
        "scores": score(example, done.answer or ""),
        "tokens": {"prompt": stage.prompt_tokens, "cached": stage.cached_tokens, "written": stage.generated_tokens},
    }


def proposed(method: Method, trace: Trace, large: Generator) -> dict[str, list[float]]:
    """P(yes) and P(no) of each distinct answer of the samples, by the check."""
    answers = dict.fromkeys(sample.answer for sample in trace.samples if sample.answer)
    assert large.choice_probabilities is not None
    return {
        each: list(large.choice_probabilities(method.support_messages(trace, each), ("yes", "no"), CallOptions()))
        for each in answers
    }


def answer(out: Path, options: argparse.Namespace) -> None:
    large, examples = loaded(MODEL, options.threads), asked(options)
    done = {(row["set"], row["id"], row["way"]) for row in read(out)} if out.exists() else set()
    drawn = drawn_samples(options.samples)
    with out.open("a", encoding="utf-8") as rows:
        for key, example in examples.items():
            for way in options.ways:
                if key in drawn and (*key, way) not in done:
                    row = answered(example, way, drawn[key], large)
                    print(json.dumps(row, ensure_ascii=False), file=rows, flush=True)


def drawn_samples(paths: Sequence[Path]) -> dict[Key, list[str]]:
    return {(row["set"], row["id"]): [text for *_, text in row["samples"]] for path in paths for row in read(path)}


def compare(rows: Sequence[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print for each way the main metric (F1; Rouge-L for QMSum), what its context held, and the difference to --from."""
    examples = asked(options)
    ways = by_way(row for row in rows if (row["set"], row["id"]) in examples)
    base = ways[options.base]
    for way, found in ways.items():
        keys = [key for key in found if key in base]
        mine, other = (np.array([_main(examples[key], each[key]) for key in keys]) for each in (found, base))
        held = [_held(examples[key], found[key]) for key in keys]
        by_set = ", ".join(
            f"{name} {mine[at].mean():.1f} {interval(mine[at] - other[at])}"
            for name in FRESH
            if (at := [i for i, key in enumerate(keys) if key[0] == name])
        )
        tokens = np.mean([found[key]["tokens"]["prompt"] for key in keys])
        told = [np.mean([each[i] for each in held if each[i] is not None]) * 100 for i in (0, 1)]
        print(f"{way:34} n {len(keys):3}  {mine.mean():5.1f}  {interval(mine - other)}  {tokens:.0f} tokens", end="")
        print(f"  answer in context {told[0]:.1f}, evidence {told[1]:.1f} | {by_set}")


def _main(example: Example, row: Mapping[str, Any]) -> float:
    return 100 * row["scores"][main_metric(example)]


def _held(example: Example, row: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Whether a gold answer stands in what was read, and the share of the evidence in it."""
    text, spans = example.context(), [(start, end) for _, start, end in row["read"]]
    holds = None if example.dataset == "qmsum" else answer_in(example, [text[start:end] for start, end in spans])
    return holds, evidence_recall(example.evidence, spans, text)


def held(options: argparse.Namespace) -> None:
    """Print for each way how often a gold answer stands in what is read, the evidence in it, and its words and excerpts."""
    drawn = drawn_samples(options.samples)
    examples = {key: example for key, example in asked(options).items() if key in drawn}
    base: list[float] = []
    for way in options.ways:
        traces = [from_samples(example, drawn[key], WAYS[way])[0] for key, example in examples.items()]
        read_ = [[[each.position, each.start, each.end] for each in trace.context] for trace in traces]
        found = [_held(example, {"read": spans}) for example, spans in zip(examples.values(), read_, strict=True)]
        answers = [100 * holds for holds, _ in found if holds is not None]
        base = base or answers
        evidence = 100 * np.mean([share for _, share in found if share is not None])
        n_words, n = (np.mean([sum(each.n_words for each in trace.context) for trace in traces]), len(answers))
        print(f"{way:34} n {n}  {n_words:5.0f} words in {np.mean(list(map(len, read_))):4.1f} excerpts", end="")
        print(f"  answer {np.mean(answers):.1f} {interval(np.subtract(answers, base))}  evidence {evidence:.1f}", flush=True)


# -- how sure the answers are ------------------------------------------------------------------------------------------------


def confidence(rows: Sequence[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print how well what is known of an answer tells right from wrong, what a line by it would catch, what fbrag withholds and
    what it marks. "before" is the confidence without the answer's own probability."""
    examples, drawn = asked(options), drawn_samples(options.samples)
    found = [
        (row["way"], key, _main(examples[key], row) >= 50, *_verdicts(examples[key], row, drawn[key]))
        for row in rows
        if row["way"] in options.ways and row["answer"] and (key := (row["set"], row["id"])) in examples and key[0] != "qmsum"
    ]
    for way in (*options.ways, "together"):
        some = [each for each in found if way in (each[0], "together")]
        keys, right = [key for _, key, *_ in some], np.array([each[2] for each in some])
        before, after = ([each[at] for each in some] for at in (3, 4))
        print(f"\n{way}: {len(some)} answers to {len(set(keys))} questions, {right.sum()} right")
        measures = {
            "support": [each.verdict.support for each in after],
            "agreement": [each.verdict.agreement for each in after],
            "before": [each.verdict.confidence for each in before],
            "probability": [each.verdict.answer_probability for each in after],
            "confidence": [each.verdict.confidence for each in after],
        }
        for name, known in measures.items():
            print_how_well(name, known, keys, right)
        withheld = np.array([each.status == "not_found" for each in after])
        shown = [answer_of(each) for each in after]
        marked, uncited = (np.array([getattr(each, name) for each in shown]) for name in ("low_confidence", "uncited"))
        for name, chosen in {"withheld": withheld, "withheld or marked": withheld | marked}.items():
            print(f"  {name}: {_share(chosen, ~right)} of wrong, {_share(chosen, right)} of right ones")
        for name, chosen in {"marked": marked, "uncited": uncited, "marked or uncited": marked | uncited}.items():
            answered = ~withheld
            print(f"  of those answered, {name}: {_share(chosen, answered & right)} of right ones", end="")
            print(f"; not {name}: {_share(~chosen, answered & ~right)} of wrong ones")


def print_how_well(name: str, known: Sequence[float | None], keys: Sequence[Key], right: Any) -> None:
    """Print how well a measure tells right answers from wrong ones, and how many wrong ones a line by it would catch."""
    values = np.array([each or 0.0 for each in known])
    low, high = _interval(keys, lambda at: _auc(values[at], right[at]))
    shares = (0.05, 0.1, 0.15, 0.2, 0.3)
    caught = ", ".join(f"{100 * (values[~right] < np.quantile(values[right], share)).mean():.0f}" for share in shares)
    print(f"  {name:11} AUC {_auc(values, right):.3f} ({low:.2f} to {high:.2f}), caught at 5, 10, 15, 20, 30 %: {caught}", end="")
    print(f"; line at 20 % {np.quantile(values[right], 0.2):.3f}")


def _verdicts(example: Example, row: Mapping[str, Any], texts: Sequence[str]) -> tuple[Trace, Trace]:
    """An answer judged without its own probability, and with it."""
    trace, _ = from_samples(example, texts, WAYS[row["way"]])
    after = replace(trace, answer=row["answer"], verdict=Verdict(answer_probability=row.get("probability")))
    return judged(replace(trace, answer=row["answer"]), row["support"]), judged(after, row["support"])


def absent(options: argparse.Namespace) -> None:
    """Print how many questions name what their own document has nowhere, and how many what the next document of their set has
    nowhere: the answer to such a question is marked."""
    for name in ("musique", "hotpotqa", "2wikimqa"):
        of_set = [example for key, example in asked(options).items() if key[0] == name]
        counts = [0, 0]
        for i, example in enumerate(of_set):
            for at, other in enumerate((example, of_set[(i + 1) % len(of_set)])):
                collection = collected(other.context())
                missing = collection.retriever.missing_terms(example.question)
                passages = tuple(whole_chunks(collection.corpus, [0]))
                trace = replace(
                    Trace.start(Query(example.question, collection, FBRag())),
                    selection=Selection(context=passages),
                    status="answered",
                    missing_terms=missing,
                    verdict=Verdict(confidence=1, answer_probability=1),
                )
                counts[at] += answer_of(trace).low_confidence
        print(f"{name}: {len(of_set)} questions; marked for a name: own document {counts[0]}, another {counts[1]}", flush=True)


def _auc(values: Any, right: Any) -> float:
    above = values[right][:, None] - values[~right]
    return float(((above > 0) + 0.5 * (above == 0)).mean()) if above.size else 0.5


def _interval(keys: Sequence[Key], measure: Callable[[Any], float]) -> tuple[float, float]:
    """95 % bootstrap interval; the answers to one question are drawn together."""
    by_key = [[i for i, each in enumerate(keys) if each == key] for key in dict.fromkeys(keys)]
    draws = np.random.default_rng(0).integers(len(by_key), size=(2000, len(by_key)))
    values = [measure(np.array([i for at in draw for i in by_key[at]])) for draw in draws]
    return float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975))


def _share(chosen: Any, of: Any) -> str:
    return f"{100 * chosen[of].mean():3.0f} % ({chosen[of].sum()} of {of.sum()})"


def candidates(rows: Sequence[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print F1 where the check chooses among the answers of Stage III and of the samples, and the difference to Stage III's."""
    examples = asked(options)
    found = [row for row in rows if row["judged"] is not None and (row["set"], row["id"]) in examples and row["set"] != "qmsum"]
    final = np.array([_main(examples[row["set"], row["id"]], row) for row in found])
    for bonus in (0.0, 0.1, 0.2, 0.3, 0.5):
        chosen = np.array([_chosen(examples[row["set"], row["id"]], row, bonus) for row in found])
        print(
            f"{bonus:.1f} for Stage III's: n {len(found)}, {final.mean():.1f} -> {chosen.mean():.1f} {interval(chosen - final)}"
        )


def _chosen(example: Example, row: Mapping[str, Any], bonus: float) -> float:
    given = {text: yes / (yes + no) for text, (yes, no) in row["judged"].items() if yes + no > 0}
    given[row["answer"]] = max((row["support"] or 0.0) + bonus, given.get(row["answer"], 0.0))
    best = max(given, key=lambda text: given[text])
    return 100 * (score(example, best)["f1"] or 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["draw", "answer", "compare", "held", "confidence", "absent", "candidates"])
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--samples", type=Path, nargs="+", default=[])
    parser.add_argument("--without-evidence", action="store_true")
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--questions", default="0:230", metavar="FROM:TO")
    parser.add_argument("--from", dest="base", default="default")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.do in ("draw", "answer"):
        {"draw": draw, "answer": answer}[options.do](options.files[0], options)
    elif options.do in ("held", "absent"):
        {"held": held, "absent": absent}[options.do](options)
    else:
        rows = [row for path in options.files for row in read(path)]
        {"compare": compare, "confidence": confidence, "candidates": candidates}[options.do](rows, options)


if __name__ == "__main__":
    main()
