"""Speed: what a model that says nothing leads to, and how long prompts of a text without spaces are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fbrag_cli.evaluation.speed import Measures, Workload, measure_model
from fbrag_cli.generation.generator import CallOptions, Generation, Generations, Message, Sampling
from fbrag_cli.progress import silent


class Mute:
    """A model whose first token ends its turn. A token is a character."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __enter__(self) -> Mute:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def count_tokens(self, text: str) -> int:
        return len(text)

    def generate(
        self, messages: Sequence[Message], n: int, sampling: Sampling, options: CallOptions | None = None
    ) -> Generations:
        self.asked.append(messages[0].text)
        return Generations((Generation("", 0, "stop", 0),) * n, len(messages[0].text), 0, 0.1, 0.0)


def measured(text: str) -> tuple[Mute, dict[str, list[float]]]:
    model, measures = Mute(), Measures()
    load: Any = lambda: model  # noqa: E731
    measure_model("mute", load, Workload(text, (100,), samples=1, repeat=1), measures, silent)
    return model, {each.name: each.values for each in measures}


def test_a_model_that_ends_its_turn_at_once_is_measured() -> None:
    _, found = measured("A brig lay in Hull. " * 50)
    assert found["first_token"][0] >= 0
    assert "decode" not in found


def test_a_prompt_of_chinese_is_as_long_as_asked_for() -> None:
    model, _ = measured("\n".join(["船停在港口里面，没有人知道它是从哪里来的。" * 40] * 3))
    assert all(80 <= len(each) <= 130 for each in model.asked)
