"""The generator for a model behind an OpenAI-compatible server: chat completions, streamed.

A server makes its own prompt of the messages, so what this module sends holds no markers of turns (`markers`). K samples are
`n = K` in one request where the server takes that. Else the first sample is asked for alone, and the others when its first token
has come: they then find the prompt in the server's cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from time import perf_counter

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import QUIET, Call, Choose, Generations, ModelInfo, Sampling, Turn
from fbrag_cli.generation.server.about import About, listing
from fbrag_cli.generation.server.drawing import Drawing
from fbrag_cli.generation.server.exchange import ask
from fbrag_cli.generation.server.host import Host
from fbrag_cli.generation.server.markers import defused
from fbrag_cli.generation.server.replies import Json, RefusedError, said
from fbrag_cli.generation.server.sample import StreamedSample
from fbrag_cli.generation.server.window import Window, most_tokens
from fbrag_cli.generation.thought import COMMON, MOST_TOKENS_OF_A_SERVER, Marks, Thoughts, check_answered

# Beside OpenAI's parameters: sample as `LlamaGenerator` does, whatever the server's own settings are, and do not reason first.
# Servers ignore what they do not know; strict ones refuse it.
_EXTRAS: Json = {
    "min_p": 0.0,
    "repeat_penalty": 1.0,
    "samplers": ["top_k", "temperature", "top_p"],
    "chat_template_kwargs": {"enable_thinking": False},  # llama.cpp, vLLM, SGLang
    "thinking_budget_tokens": 0,  # llama.cpp: it ends a thought at once, whatever the template does
}
_EFFORT: Json = {"reasoning_effort": "none"}  # Ollama, LM Studio, OpenRouter, OpenAI; others refuse this value
_LISTED: Json = {"logprobs": True, "top_logprobs": 20}  # the likeliest first tokens; servers list no more
_CHOICE_TOKENS = 8  # of a reply that is one of few words; a thought of nothing may come before
_HELLO_TOKENS = 4  # a thought shows in so many


class ServerGenerator:
    """The `Generator` for a server. Calls may come from several threads; each has connections of its own.

    host, about: the server, and its account of its model. max_context: most tokens of a prompt with its reply, None for as many
    as the server gives. Making a generator asks for some tokens, without text of the user, to see what the server can do. Raises
    as `generate`.

    problems: what the user should know of the server, as sentences.
    """

    def __init__(
        self, host: Host, about: About, *, max_context: int | None = None, cancellation: Cancellation | None = None
    ) -> None:
        self._host, self._about = host, about
        self._url = f"{host.address.base}/chat/completions"
        self._together = True  # whether one request may ask for several samples
        self._at_once = True  # whether several requests may run at the same time
        self._counts = True  # whether the server counts tokens
        self._warned = False
        self._thinks = False  # whether the model thinks all the same
        self._opened: Marks | None = None  # of a thought in which replies begin
        self._extras, self._probabilities = self._abilities(cancellation)
        window = about.context_tokens
        if about.program and not window and (listed := listing(host, about.model, cancellation)[1]):  # loaded by now
            window = listed.context_tokens
        self._window = Window(host, window, about.program)
        windows = [each for each in (window, max_context) if each]
        self.info = ModelInfo(f"{host.address.base}#{about.model}", None, None, min(windows, default=None))
        lacking = f"{host.address.origin} gives no probabilities: the answer is not checked against the chunks"
        self.problems = () if self._probabilities else (lacking,)

    # -- the Generator protocol ------------------------------------------------------------------------------------------

    @property
    def continues_turns(self) -> bool:
        """Whether the server is llama.cpp's. Others are asked, in the user's turn, to begin with the assistant's words."""
        return self._about.is_llama_cpp

    @property
    def choose(self) -> Choose | None:
        return self._choose if self._probabilities else None

    def written(self, turns: Sequence[Turn]) -> str:
        """Return the messages as they are sent. The server makes its prompt of them."""
        return "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in self._messages(turns))

    def generate(self, turns: Sequence[Turn], n: int, sampling: Sampling, call: Call = QUIET) -> Generations:
        """Draw `n` samples of the reply to `turns`. Sample i has the seed `seed` + i, where the server takes seeds.

        Raises FbragError `prompt_too_long`, `server_failed`, `no_answer` where the model only thinks, and the error of a
        requested cancellation.
        """
        self._window.check(self._sent(turns), sampling.max_tokens)
        knew = self._thinks
        drawing, samples = self._drawn(turns, n, sampling, call)
        if not knew and all(sample.n_thoughts and not sample.text.strip() and not sample.cut for sample in samples):
            drawing, samples = self._drawn(turns, n, sampling, call)  # with room for thoughts
        drawn = tuple(sample.generation() for sample in samples)
        check_answered(self.info.name, drawn, sampling.max_tokens + samples[0].thought_tokens)
        n_prompt, first, now = self._n_read(drawing, turns, sampling), drawing.first_text, perf_counter()
        n_cached = min(drawing.cached_tokens or 0, n_prompt)
        first = now if first is None else first
        return Generations(drawn, n_prompt, n_cached, first - drawing.started, now - first)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens where the server counts them (llama.cpp, vLLM), else a guess that is rather too high."""
        if self._counts:
            asked = {"content": text, "add_special": False} if self._about.is_llama_cpp else {"prompt": text}
            try:
                return len(
                    ask(self._host, f"{self._host.address.root}/tokenize", {"model": self._about.model, **asked})["tokens"]
                )
            except (FbragError, KeyError, TypeError):
                self._counts = False
        return most_tokens(text)

    def close(self) -> None:
        """Close the connections. The generator cannot be used afterwards."""
        self._host.close()

    def _drawn(self, turns: Sequence[Turn], n: int, sampling: Sampling, call: Call) -> tuple[Drawing, list[StreamedSample]]:
        """Draw samples, and note whether the model thinks. Thoughts have room where that is known."""
        opening = turns[-1].text if turns[-1].role == "assistant" else ""
        room = MOST_TOKENS_OF_A_SERVER if self._thinks else 0
        if self.info.context_tokens:
            left = self.info.context_tokens - most_tokens(self._sent(turns)) - sampling.max_tokens
            room = max(0, min(room, left))
        samples = [StreamedSample(sampling.seed + i, sampling.max_tokens, opening, room, self._opened) for i in range(n)]
        body = self._body(turns, replace(sampling, max_tokens=sampling.max_tokens + room))
        drawing = Drawing(self._host, self._url, body, samples, call)
        self._host.loop.run(self._draw(drawing, n), call.cancellation, drawing.reports)
        self._thinks = self._thinks or any(sample.n_thoughts for sample in samples)
        self._opened = next((sample.opened for sample in samples if sample.opened), self._opened)
        return drawing, samples

    async def _draw(self, drawing: Drawing, n: int) -> None:
        """Finish the samples, and remember what the server cannot do."""
        if n > 1 and self._together:
            self._together = await drawing.together()
        if self._at_once:
            self._at_once = await drawing.at_once()
        await drawing.one_by_one()

    # -- what is sent ----------------------------------------------------------------------------------------------------

    def _abilities(self, cancellation: Cancellation | None) -> tuple[Json, bool]:
        """Return the parameters beside OpenAI's that the server takes, and whether it gives probabilities.

        Note whether the model thinks, although these parameters say that it shall not.
        """
        tried: tuple[tuple[Json, Json], ...]
        tried = ((_EXTRAS | _EFFORT, _LISTED), (_EXTRAS, _LISTED), (_EXTRAS, {}), (_EFFORT, _LISTED), ({}, _LISTED))
        for extras, listed in tried:
            with suppress(RefusedError):
                return extras, self._hello(extras | listed, cancellation)
        self._hello({}, cancellation)
        return {}, False

    def _hello(self, parameters: Json, cancellation: Cancellation | None) -> bool:
        """Ask for the first tokens of a reply. Return whether the server gives probabilities."""
        reply = self._ask([Turn("user", "Hi")], parameters, cancellation, _HELLO_TOKENS)
        _, self._thinks = _without_thought(reply)
        return bool(_likeliest(reply, lambda tokens: 0))

    def _ask(self, turns: Sequence[Turn], parameters: Json, cancellation: Cancellation | None, n_tokens: int) -> Json:
        """Return a reply of `n_tokens` tokens at most, without streaming."""
        body = {"model": self._about.model, "messages": self._messages(turns), "max_tokens": n_tokens, "temperature": 0}
        return ask(self._host, self._url, body | parameters, cancellation)

    def _messages(self, turns: Sequence[Turn]) -> list[dict[str, str]]:
        """Return the turns as a server takes them. Raises FbragError `usage` for embedding rows."""
        if any(turn.rows for turn in turns):
            what = f"{self.info.name} is a server, which takes no embedding rows in a prompt"
            raise FbragError("usage", what, "use a model of this machine")
        *turns, last = turns
        if last.role == "assistant" and not self.continues_turns:
            asked = turns.pop()
            last = Turn("user", f'{asked.text}\n\nBegin the reply with "{last.text}".')
        return [{"role": turn.role, "content": defused(turn.text)} for turn in (*turns, last)]

    def _body(self, turns: Sequence[Turn], sampling: Sampling) -> Json:
        body: Json = {
            "model": self._about.model,
            "messages": self._messages(turns),
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        body |= self._extras
        if "samplers" in self._extras:
            body |= {"top_k": sampling.top_k, "return_progress": True}
        return body

    # -- what comes back -------------------------------------------------------------------------------------------------

    def _n_read(self, drawing: Drawing, turns: Sequence[Turn], sampling: Sampling) -> int:
        """Return the number of tokens of the prompt. Warn, once, where the server has read less than was sent.

        Raises FbragError `prompt_too_long` where it is known to have cut the prompt.
        """
        text = self._sent(turns)
        if drawing.prompt_tokens is None:
            return most_tokens(text)
        warning = self._window.check_read(text, sampling.max_tokens, drawing.prompt_tokens)
        if warning and not self._warned:
            self._warned = True
            self._host.warn(warning)
        return drawing.prompt_tokens

    def _sent(self, turns: Sequence[Turn]) -> str:
        return " ".join(message["content"] for message in self._messages(turns))

    def _choose(self, turns: Sequence[Turn], choices: Sequence[str], call: Call = QUIET) -> tuple[float, ...]:
        """Return the probability of each of `choices` by the likeliest first tokens; 0 of those that are not among them.

        Those of a model that thinks are the first after its thought, be it an empty one that the server has ended.
        """
        n_tokens = _CHOICE_TOKENS + (MOST_TOKENS_OF_A_SERVER if self._thinks else 0)
        reply = self._ask(turns, self._extras | _LISTED, call.cancellation, n_tokens)
        answer, thinks = _without_thought(reply)
        first = _likeliest(reply, lambda tokens: _place(answer.strip(), tokens, None if thinks else 0))
        return tuple(min(1.0, sum(p for token, p in first if token == choice.casefold())) for choice in choices)


def _without_thought(reply: Json) -> tuple[str, bool]:
    """Return the answer in a whole reply, and whether the model has thought. A reply of another shape has neither."""
    thoughts = Thoughts(COMMON)
    try:
        found = said(reply)[:1]
    except ValueError:
        found = []
    answer = "".join([*(thoughts.add(each.text) for each in found), thoughts.end()])
    return answer, bool(thoughts.n_pieces or any(each.thought for each in found))


def _likeliest(reply: Json, place: Callable[[list[str]], int]) -> list[tuple[str, float]]:
    """Return the likeliest tokens at a place of a reply, in lower case and without a space, and their probabilities.

    place: returns the place among the tokens; LookupError where there is none.
    """
    try:
        tokens = reply["choices"][0]["logprobs"]["content"]
        listed = tokens[place([each.get("token", "") for each in tokens])]["top_logprobs"]
        return [(each["token"].strip(" ▁Ġ\n").casefold(), math.exp(min(0.0, float(each["logprob"])))) for each in listed]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        return []


def _place(answer: str, tokens: Sequence[str], otherwise: int | None) -> int:
    """Return the last place from which on the tokens are the answer. Where there is none, it is `otherwise`, or LookupError."""
    rest = ""
    for place in reversed(range(len(tokens))):
        rest = tokens[place] + rest
        if answer and rest.strip().startswith(answer):
            return place
    if otherwise is None:
        raise LookupError
    return otherwise
