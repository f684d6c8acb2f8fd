"""Models that think although they are told not to: their thoughts are no answers.

The models are files that say what they are told (`Parrot`), so that the whole way is tested: template, llama.cpp, sample, answer.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import CallOptions, Generation, Message, Sampling
from fbrag_cli.generation.llama.chat_template import ChatTemplate
from fbrag_cli.generation.llama.generator import LlamaGenerator
from fbrag_cli.generation.llama.weights import Loading
from fbrag_cli.generation.reasoning import COMMON_TAGS, MOST_TOKENS, ReasoningParser, ReasoningTags, reasoning_tags_of, tags_named
from tests.generation.parrot_gguf import END, Parrot, saying
from tests.generation.tiny_gguf import letters

THINK = ("<think>", "</think>", "<|user|>", "<|assistant|>")
#: A template that takes thoughts out of earlier answers, as of a model that thinks, or of its sibling that does not.
REMOVES = (
    "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}{% else %}<|assistant|>"
    "{{ m.content.split('</think>')[-1] }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ASKED = (Message("user", "Did the keeper see it?"),)


def parrot(folder: Path, script: dict[str, str], template: str = REMOVES, **about: Any) -> LlamaGenerator:
    path = Parrot(script=script, template=template, **{"marks": THINK, **about}).write(folder / "parrot.gguf")
    return LlamaGenerator(path, Loading(threads=1))


def as_tokens(text: str) -> list[str]:
    """Return the tokens of single bytes that a text consists of. Letters of the vocabulary stand for themselves first."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    order = [*plain, *(byte for byte in range(256) if byte not in plain)]
    return [letters()[order.index(byte)].decode() for byte in text.encode()]


def drawn(generator: LlamaGenerator, max_tokens: int = 16) -> tuple[Generation, str]:
    """Return the first of two samples, which are equal, and what was shown of it meanwhile."""
    shown: list[str] = []
    found = generator.generate(ASKED, 2, Sampling(max_tokens), CallOptions(on_text=shown.append))
    first, second = found.samples
    assert (first.text, first.reasoning_tokens) == (second.text, second.reasoning_tokens)
    assert found.reasoning_tokens == 2 * first.reasoning_tokens
    return first, "".join(shown)


# -- what is part of a thought -----------------------------------------------------------------------------------------------

HARMONY = reasoning_tags_of("<|start|>assistant<|channel|>final<|message|>")
GRANITE = reasoning_tags_of("<think></think><response></response>")
HUNYUAN = reasoning_tags_of("<think></think><answer></answer>")
assert HARMONY
assert GRANITE
assert HUNYUAN


@pytest.mark.parametrize(
    ("marks", "pieces", "said", "n_thought"),
    [
        (tags_named("think"), ["<think>", "hm", "</think>", "\n\n", "yes", " no"], ["yes", " no"], 3),
        (tags_named("think"), ["<", "think", ">h", "m</th", "ink>yes"], ["yes"], 5),
        (tags_named("think"), ["\n<think>", "</think>", "<think>", "hm", "</think>", " yes"], ["yes"], 3),
        (tags_named("think"), ["</think>", "\n", "yes"], ["yes"], 0),  # the prompt has opened it
        (tags_named("think"), ["<think>", "\n\n", "</think>", "\n", "yes"], ["yes"], 0),
        (tags_named("think"), [" yes", "<think>", "no", "</think>"], [" yes", "<think>", "no", "</think>"], 0),
        (tags_named("think"), ["<", "b", ">"], ["<b", ">"], 0),
        (tags_named("think"), ["<think>", "hm"], [], 2),
        (tags_named("think"), ["<thin"], ["<thin"], 0),
        (HARMONY, ["<|channel|>", "analysis", "<|message|>", "hm", "<|end|>", "<|start|>", "assistant", "<|channel|>",
                   "final", "<|message|>", "yes"], ["yes"], 10),
        (HARMONY, ["<|channel|>", "final", "<|message|>", "yes"], ["yes"], 0),
        (GRANITE, ["<think>", "</think>", "<response>", "yes", "</resp", "onse>"], ["yes"], 0),
        (HUNYUAN, ["<answer>", "\nyes", "\n", "</answer>"], ["yes", "\n"], 0),
        (GRANITE, ["<response>", "yes", "</respite>"], ["yes", "</respite>"], 0),
    ],
)  # fmt: skip
def test_a_thought_begins_before_the_answer_by_its_mark(
    marks: ReasoningTags, pieces: list[str], said: list[str], n_thought: int
) -> None:
    """And what is certain to be said is said at once."""
    thoughts = ReasoningParser((marks,))
    found = [*map(thoughts.add, pieces), thoughts.end()]
    assert list(filter(None, found)) == said
    assert thoughts.n_pieces == n_thought


@pytest.mark.parametrize(
    "reply",
    [
        "<think>hm</think>yes",
        "[THINK]hm[/THINK]yes",
        "<seed:think>hm</seed:think>yes",
        "<|channel>thought\nhm<channel|>yes",
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes",
        "<|START_THINKING|>hm<|END_THINKING|>yes",
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_server_s_reply_is_read_by_the_marks_of_any_family(reply: str, size: int) -> None:
    thoughts = ReasoningParser(COMMON_TAGS)
    said = [thoughts.add(reply[at : at + size]) for at in range(0, len(reply), size)]
    assert "".join([*said, thoughts.end()]) == "yes"


# -- prompts -----------------------------------------------------------------------------------------------------------------

_TURNS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>"


@pytest.mark.parametrize(
    ("template", "end"),
    [
        # Qwen3, Gemma 4: enable_thinking.
        (_TURNS + "{% if not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}", "<think>\n\n</think>\n\n"),
        (_TURNS + "{% if not enable_thinking %}<|channel>thought\n<channel|>{% endif %}{% endif %}", "thought\n<channel|>"),
        # Seed: a budget. Command: a switch of another name.
        (_TURNS + "{% if thinking_budget == 0 %}<seed:think></seed:think>{% endif %}{% endif %}", "<seed:think></seed:think>"),
        (
            "{% if reasoning is undefined %}{% set reasoning = reasoning_effort != 'none' %}{% endif %}"
            + _TURNS
            + "<|START_THINKING|>{% if not reasoning %}<|END_THINKING|>{% endif %}{% endif %}",
            "<|START_THINKING|><|END_THINKING|>",
        ),
        # DeepSeek R1: the prompt opens a thought, whatever is set.
        (_TURNS + "<think>\n{% endif %}{# </think> #}", "<|assistant|><think>\n\n</think>\n\n"),
        (_TURNS + "<thought>\n{% endif %}{# </thought> #}", "<|assistant|><thought>\n\n</thought>\n\n"),  # EXAONE Deep
        # Ministral: the template asks for thoughts.
        ("Think first: [THINK]…[/THINK]." + _TURNS + "{% endif %}", "<|assistant|>[THINK][/THINK]"),
        # Kimi K2: earlier answers have an empty thought. gpt-oss: they are in a channel.
        (
            "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}<think></think>{% endif %}{{ m.content }}"
            "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
            "<|assistant|><think></think>",
        ),
        (
            "Reasoning: {{ reasoning_effort | default('medium') }}{% for m in messages %}<|start|>{{ m.role }}"
            "{% if m.role == 'assistant' %}<|channel|>final{% endif %}<|message|>{{ m.content }}<|end|>{% endfor %}"
            "{% if add_generation_prompt %}<|start|>assistant{% endif %}{# <|channel|>final<|message|> #}",
            "<|end|><|start|>assistant<|channel|>final<|message|>",
        ),
        # LFM2.5: the template writes thoughts, and has no setting against them.
        (
            "{% for m in messages %}<|{{ m.role }}|>{% if m.thinking %}<think>{{ m.thinking }}</think>{% endif %}"
            "{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}",
            "<|assistant|><think>\n\n</think>\n\n",
        ),
        # Granite: it thinks only when it is told to, and nothing is added. Of the last nothing is known.
        ("{% if thinking %}Write your thoughts between <think></think>.{% endif %}" + _TURNS + "{% endif %}", "<|assistant|>"),
        (REMOVES, "<|assistant|>"),
        (_TURNS + "{% endif %}", "<|assistant|>"),
    ],
)  # fmt: skip
def test_the_prompt_ends_behind_a_thought_of_nothing(template: str, end: str) -> None:
    """In each family's own way, for a question and in a conversation."""
    chat = ChatTemplate(template)
    assert not chat.problem
    assert chat.may_reason == (template == REMOVES)
    conversation = (Message("user", "Who?"), Message("assistant", "Vale."), Message("user", "When?"))
    for messages in (ASKED, conversation, (*conversation, Message("assistant", "In"))):
        last = [segment.text for segment in chat.segments(messages) if getattr(segment, "text", "") != "In"][-1]
        assert last.endswith(end)
        assert last.count("</think>") == end.count("</think>")


def test_a_template_is_told_to_think_little_by_the_word_that_it_knows() -> None:
    asks = "{% if reasoning_effort not in ['none', 'high'] %}{{ raise_exception('no') }}{% endif %}{{ reasoning_effort }}"
    for template, word in ((asks, "none"), ("Effort: {{ reasoning_effort }}", "low")):
        chat = ChatTemplate(f"{template}{_TURNS}{{% endif %}}{{# </think> #}}")
        assert word in getattr(chat.segments(ASKED)[0], "text", "")


# -- a model of this machine -------------------------------------------------------------------------------------------------


def test_a_thought_is_neither_in_the_sample_nor_shown(tmp_path: Path) -> None:
    with parrot(tmp_path, saying("<|assistant|>", "<think>", "h", "m", "</think>", "y", "e", "s", END)) as model:
        sample, shown = drawn(model)
    assert (sample.text, shown) == ("yes", "yes")
    assert (sample.n_tokens, sample.reasoning_tokens, sample.finish) == (7, 4, "stop")


@pytest.mark.parametrize(("written", "text"), [(True, "<think>y</think>"), (False, "y")])
def test_a_mark_within_an_answer_is_what_it_was(tmp_path: Path, written: bool, text: str) -> None:
    with parrot(tmp_path, saying("<|assistant|>", "a", "<think>", "y", "</think>", END), written=written) as model:
        sample, shown = drawn(model)
    assert (sample.text, shown, sample.reasoning_tokens) == (f"a{text}", f"a{text}", 0)


@pytest.mark.parametrize("written", [True, False])
def test_several_samples_and_calls_at_once_think_and_answer_as_one_alone(tmp_path: Path, written: bool) -> None:
    thinks = {**saying("<|assistant|>", "<think>", "h", "m", "h"), **saying("</think>", "Ċ", "y", "e", "s", END)}
    with parrot(tmp_path, thinks, written=written) as model:
        model.at_once = 3
        with ThreadPoolExecutor(4) as pool:
            questions = [(Message("user", f"Was it {number}?"),) for number in range(6)]
            found = list(pool.map(lambda messages: model.generate(messages, 3, Sampling(9)).samples, questions))
    assert {(each.text, each.reasoning_tokens) for samples in found for each in samples} == {("yes", 254)}


def test_a_model_with_channels_answers_in_the_channel_of_answers(tmp_path: Path) -> None:
    """Also where its template takes one question alone, so that nothing shows what comes before an earlier answer."""
    channels = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>")
    alone = (
        "{% if messages | length > 1 %}{{ raise_exception('one question') }}{% endif %}<|start|>user<|message|>"
        "{{ messages[0].content }}<|end|><|start|>assistant{# <|channel|>final<|message|> #}"
    )
    thinks = {"t": "<|channel|>", **saying("<|channel|>", "a", "h", "m", "h"), **saying("<|message|>", "y", "e", "s", END)}
    with parrot(tmp_path, thinks, alone, marks=channels) as model:
        assert model.render_prompt(ASKED).endswith("<|start|>assistant<|channel|>final<|message|>")
        sample, _ = drawn(model)
        assert model.choice_probabilities(ASKED, ("yes", "no"))[0] > 0.99
    assert (sample.text, sample.reasoning_tokens) == ("yes", 0)


def test_a_thought_without_end_is_ended_and_the_model_answers(tmp_path: Path) -> None:
    thinks = {**saying("<|assistant|>", "<think>", "h", "m", "h"), **saying("</think>", "Ċ", "y", "e", "s", END)}
    with parrot(tmp_path, thinks) as model:
        sample, shown = drawn(model)
        assert model.choice_probabilities(ASKED, ("yes", "no"))[0] > 0.99
    assert (sample.text, shown, sample.finish) == ("yes", "yes", "stop")
    assert MOST_TOKENS - 8 <= sample.reasoning_tokens <= MOST_TOKENS


def test_a_model_that_ends_in_its_thought_is_made_to_answer(tmp_path: Path) -> None:
    thinks = {**saying("<|assistant|>", "<think>", "h", "m", END), **saying("</think>", "Ċ", "y", "e", "s", END)}
    with parrot(tmp_path, thinks) as model:
        assert drawn(model)[0].text == "yes"


def test_a_model_that_only_thinks_has_no_answer(tmp_path: Path) -> None:
    thinks = {**saying("<|assistant|>", "<think>", "h", "m", "h"), "</think>": "<think>", "Ċ": "<think>"}
    shown: list[str] = []
    with parrot(tmp_path, thinks) as model, pytest.raises(FbragError, match=r"only thinks: .* no answer within 272") as told:
        model.generate(ASKED, 2, Sampling(16), CallOptions(on_text=shown.append))
    assert (told.value.code, shown) == ("no_answer", [])


def test_a_prompt_that_opens_a_thought_is_answered_at_once(tmp_path: Path) -> None:
    opens = "{{ messages[0].content }}<|assistant|><think>\n{# </think> #}"
    with parrot(tmp_path, {**saying("</think>", "Ċ", "y", "e", "s", END), "<think>": "h"}, opens) as model:
        sample, _ = drawn(model)
        assert model.choice_probabilities(ASKED, ("yes", "no"))[0] > 0.99
        assert model._prompts.opened.n_cells == 512  # no cells for thoughts
    assert (sample.text, sample.reasoning_tokens) == ("yes", 0)


def test_a_model_that_thinks_behind_an_empty_thought_pays_with_its_own_tokens(tmp_path: Path) -> None:
    again = "{{ messages[0].content }}<|assistant|><think></think>{# </think> #}"
    thinks = {**saying("</think>", "<think>", "h", "m", "h"), **saying("Ċ", "y", "e", "s", END)}
    with parrot(tmp_path, thinks, again) as model:
        sample, shown = drawn(model)
    assert (sample.text, shown, sample.n_tokens) == ("yes", "yes", 11)


def test_letters_that_look_like_a_mark_are_text_where_the_mark_is_a_token(tmp_path: Path) -> None:
    with parrot(tmp_path, saying("<|assistant|>", "<", "t", "h", "i", "n", "k", ">", END)) as model:
        sample, shown = drawn(model)
    assert (sample.text, shown, sample.reasoning_tokens) == ("<think>", "<think>", 0)


def test_no_character_of_an_answer_is_a_mark(tmp_path: Path) -> None:
    """Not even one for private use, such as a document may hold."""
    with parrot(tmp_path, saying("<|assistant|>", *as_tokens("\U0010ff00"), "y", END)) as model:
        sample, shown = drawn(model)
    assert (sample.text, shown, sample.reasoning_tokens) == ("\U0010ff00y", "\U0010ff00y", 0)


@pytest.mark.parametrize("written", [True, False])
def test_a_mark_in_a_document_is_words(tmp_path: Path, written: bool) -> None:
    """llama.cpp reads a mark that is written, as Qwen's, in any text."""
    with parrot(tmp_path, saying("<|assistant|>", "y", END), written=written) as model:
        marks = {model._weights.tokens_of(each, special=True)[0] for each in THINK[:2]}
        words = "Say <think>, </think> or </<think>think>!"
        read = model.tokenize((Message("user", words),))
    assert not marks & {*read}
    assert len(read) == len(words) + 2  # and the marks of the turns


def test_a_character_that_a_thought_leaves_unfinished_is_no_part_of_the_answer(tmp_path: Path) -> None:
    with parrot(tmp_path, saying("<|assistant|>", "<think>", "Ã", "</think>", "y", "e", "s", END)) as model:
        sample, shown = drawn(model)
    assert (sample.text, shown, sample.reasoning_tokens) == ("yes", "yes", 3)


def test_marks_that_are_no_tokens_are_read_as_text(tmp_path: Path) -> None:
    script = {**saying("<|assistant|>", "[", "T", "H", "I", "N", "K", "]", "/"), "/": "a", "a": END}
    spelled = "{{ messages[0].content }}<|assistant|>{# [/THINK] #}"
    with parrot(tmp_path, script, spelled, marks=("<|assistant|>",)) as model:
        sample, shown = drawn(model, 40)
    assert sample.reasoning_tokens >= 9
    assert "THINK" not in sample.text + shown


def test_a_model_whose_template_knows_no_thoughts_is_read_by_its_vocabulary(tmp_path: Path) -> None:
    plain = "{{ messages[0].content }}<|assistant|>"
    with parrot(tmp_path, saying("<|assistant|>", "<think>", "h", "</think>", "y", "e", "s", END), plain) as model:
        assert drawn(model)[0].text == "yes"
        assert model._prompts.opened.n_cells == 512


def test_a_thought_takes_no_more_than_what_the_context_has_left(tmp_path: Path) -> None:
    thinks = {**saying("<|assistant|>", "<think>", "h", "m", "h"), **saying("</think>", "Ċ", "y", "e", "s", END)}
    path = Parrot(script=thinks, template=REMOVES, marks=THINK).write(tmp_path / "parrot.gguf")
    with LlamaGenerator(path, Loading(threads=1), max_context=120) as model:
        sample, _ = drawn(model, 20)
    assert sample.text == "yes"
    assert 20 < sample.reasoning_tokens < 30
