"""Questions an hour, one by one and several at once (`fbrag batch --parallel N`).

    python tests/benchmarks/questions_at_once.py [--model qwen2.5-coder-0.5b] [--at-once 1 2 4 8] [--questions 12] [--repeat 3]
        [--document FILE --asked FILE.jsonl] [--recall N] [--select N] [--samples N] [--forward-tokens N] [--threads N]

The numbers take turns. Nothing is taken from a cache, so that every question is read and written anew; models stay loaded. A
round begins with another number each time. A first question is not counted. `--asked` has a JSON object with a "question" on each
line. FB-RAG runs with its settings for this device. Prints, for each number, the questions an hour over all rounds, the ratio to
the first number (the median of the rounds, lowest and highest), and how many answers are the same.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.cached import Reuse
from fbrag_cli.indexing.collect import Collection
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.knobs import settings_of
from fbrag_cli.progress import Listener
from fbrag_cli.session.questions import answer_all
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import DocumentSettings, ModelSettings
from fbrag_cli.storage.cache import Cache
from fbrag_cli.trace import Trace

DOCUMENTS = Path(__file__).resolve().parents[1] / "documents"


def method_for(options: argparse.Namespace, *, on_gpu: bool) -> FBRag:
    """FB-RAG with the settings that are given, else those of the device."""
    values = {}
    for name, setting in settings_of(FBRag).items():
        if (given := getattr(options, name, None)) is not None:
            values[name] = given
        elif on_gpu and setting.knob.on_gpu is not None:
            values[name] = setting.knob.on_gpu
    return FBRag(**values)


def timed(session: Session, questions: Sequence[str], collection: Collection, method: FBRag, n: int) -> tuple[float, list[str]]:
    """Return the seconds that the questions take, `n` at once, and their answers."""
    session.forget()
    started = perf_counter()
    found = list(answer_all(session, ((each, collection) for each in questions), method, listener=Listener(), at_once=n))
    seconds = perf_counter() - started
    for error in found:
        if isinstance(error, FbragError):
            raise error
    return seconds, [each.answer or "" for each in found if isinstance(each, Trace)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--questions", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--document", default=str(DOCUMENTS / "inquiry.txt"))
    parser.add_argument("--asked", default=str(DOCUMENTS / "inquiry.questions.jsonl"))
    for name in ("recall", "select", "samples", "forward-tokens", "threads"):
        parser.add_argument(f"--{name}", type=int)
    options = parser.parse_args()

    lines = Path(options.asked).read_text("utf-8").splitlines()
    questions = list(islice(cycle(json.loads(line)["question"] for line in lines if line), options.questions))
    models = ModelSettings(small=options.model, large=options.model, threads=options.threads)
    again = Reuse(again=True)
    with TemporaryDirectory() as folder, Session.open(models, Cache(Path(folder) / "cache"), reuse=again) as session:
        method = method_for(options, on_gpu=session.on_gpu)
        collection = session.collect([options.document], DocumentSettings())
        session.prepare(method)
        timed(session, questions[:1], collection, method, 1)
        print(f"{options.model}, {session.device}: {len(questions)} questions on {collection.corpus.n_words} words", flush=True)
        print(f"recall {method.recall}, {method.samples} samples of {method.forward_tokens} tokens, select {method.select}")
        rounds: list[dict[int, tuple[float, list[str]]]] = []
        for i in range(options.repeat):
            order = options.at_once[i % len(options.at_once) :] + options.at_once[: i % len(options.at_once)]
            rounds.append({n: timed(session, questions, collection, method, n) for n in order})
    first = options.at_once[0]
    for n in options.at_once:
        hour = 3600 * len(questions) * len(rounds) / sum(each[n][0] for each in rounds)
        ratios = [each[first][0] / each[n][0] for each in rounds]
        same = [a == b for each in rounds for a, b in zip(each[first][1], each[n][1], strict=True)]
        spread = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(
            f"{n} at once: {hour:.0f} questions an hour, {spread} times {first} at once; {sum(same)} of {len(same)} answers equal"
        )


if __name__ == "__main__":
    main()
