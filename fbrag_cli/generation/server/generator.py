"""The generator for a model behind an OpenAI-compatible server: chat completions, streamed.

A server formats messages for the model and then parses the result as text with markers. So a document that contains `<|im_end|>`
could end the user's message and begin its own; `escape_special_tokens` prevents that. (Models on this machine are not affected:
`LlamaGenerator` tokenizes the words of a message as words.)

Ollama and others truncate a prompt that is too long, and answer the rest. Therefore the generator checks that a prompt fits the
context, and that the server has read all of it. For that, tokens are not counted but estimated from characters.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from time import perf_counter

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import QUIET, CallOptions, ChoiceProbabilities, Generations, Message, ModelInfo, Sampling
from fbrag_cli.generation.reasoning import COMMON_TAGS, MOST_SERVER_TOKENS, ReasoningParser, ReasoningTags, check_answered
from fbrag_cli.generation.server.about import ServerInfo, with_program
from fbrag_cli.generation.server.client import Endpoint, Json, RefusedError, UnusableError, ask
from fbrag_cli.generation.server.drawing import SampleStream, StreamedSample, said

# In addition to OpenAI's parameters: sample like `LlamaGenerator`, whatever the server's own settings are, and do not reason.
# Servers ignore unknown parameters; strict ones reject them.
_EXTRAS: Json = {
    "min_p": 0.0,
    "repeat_penalty": 1.0,
    "samplers": ["top_k", "temperature", "top_p"],
    "chat_template_kwargs": {"enable_thinking": False},  # llama.cpp, vLLM, SGLang
    "thinking_budget_tokens": 0,  # llama.cpp: ends reasoning at once, whatever the template does
}
_EFFORT: Json = {"reasoning_effort": "none"}  # Ollama, LM Studio, OpenRouter, OpenAI; others reject this value
_LISTED: Json = {"logprobs": True, "top_logprobs": 20}  # the most likely first tokens; servers list no more
_OWN: Json = {"logprobs": True, "top_logprobs": 1}  # for a reply's own tokens; llama.cpp returns none for 0
_CHOICE_TOKENS = 8  # for a reply that is one of a few words; empty reasoning may come first
_HELLO_TOKENS = 4  # enough to see reasoning

_BYTES_OF_A_TOKEN = 3  # minimum in most languages; English has four and a half
_CHARACTERS_OF_A_TOKEN = 6  # maximum, on average over a prompt
_MOST_CHARACTERS_OF_A_TOKEN = 8  # beyond doubt
_NEAR = 16  # tokens: Ollama keeps half of its context, and some tokens of the beginning
_LONGER = {
    "Ollama": "start Ollama with OLLAMA_CONTEXT_LENGTH={tokens}",
    "LM Studio": "load the model with a context of {tokens} tokens",
}

# The markers of current chat formats. Names without an underscore are listed, since <p> and [1] are not markers.
_ANGLED = "s|bos|eos|pad|unk|mask|sep|cls|think|thinking|answer|sop|eop|sot|eot|eod|sys|role|user|assistant|system|human|bot"
_SQUARE = "INST|SYS|IMG|PREFIX|MIDDLE|SUFFIX|ARGS|THINK|AUDIO|REF|[gs]?MASK|CLS|SEP|PAD|UNK|BOS|EOS"
_MARKER = re.compile(
    r"<(?=/?[|｜][^<>\s]{0,80}>)"  # <|im_end|>, <｜User｜>, <|turn>
    r"|<(?=/?[^<>\s]{1,80}[|｜]>)"  # <turn|>
    r"|<(?=/?[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+[^<>\s]{0,40}>)"  # <start_of_turn>, <BOS_TOKEN>, <extra_id_0>
    rf"|<(?=/?(?i:{_ANGLED})>)"  # </s>
    r"|<(?=/?seed:[^<>\s]{1,40}>)"  # <seed:eos>
    r"|<(?=</?SYS>>)"
    rf"|\[(?=/?(?:{_SQUARE}|[A-Z]+(?:_[A-Z\d]+)+)\])"  # [/INST], [TOOL_CALLS], [UNUSED_TOKEN_145]
    r"|\[(?=\|[^\[\]\s]{1,40}\|\])"  # [|endofturn|]
    r"|>(?=>[A-Z]{2,40}<<)"  # >>QUESTION<<
    r"|\](?=~!?b[\[\]])|\[(?=e~\[)"  # ]~b], [e~[
)


class ServerGenerator:
    """The `Generator` for a server. It is thread-safe; each call has its own connections.

    host, about: the server, and its description of the model. max_context: maximum tokens of prompt and reply, None for the
    server's limit. The constructor requests a few tokens, without any of the user's text, to find out what the server supports.
    Raises the same errors as `generate`.

    problems: warnings about the server.
    """

    def __init__(
        self, host: Endpoint, about: ServerInfo, *, max_context: int | None = None, cancellation: Cancellation | None = None
    ) -> None:
        self._host, self._about = host, about
        self._url = f"{host.address.base}/chat/completions"
        self._counts = True  # whether the server counts tokens
        self._warned = False
        self._thinks = False  # whether the model reasons all the same
        self._opened: ReasoningTags | None = None  # tags of the reasoning in which replies begin
        self._extras, self._probabilities = self._abilities(cancellation)
        if about.program and not about.context_tokens:
            self._about = with_program(about, host, cancellation)  # the model is loaded by now
        windows = [each for each in (self._about.context_tokens, max_context) if each]
        self.info = ModelInfo(f"{host.address.base}#{about.model}", None, None, min(windows, default=None))
        lacking = f"{host.address.origin} returns no token probabilities, so answers are not checked"
        self.problems = () if self._probabilities else (lacking,)

    # -- the Generator protocol ------------------------------------------------------------------------------------------

    @property
    def choice_probabilities(self) -> ChoiceProbabilities | None:
        return self._choose if self._probabilities else None

    def render_prompt(self, messages: Sequence[Message]) -> str:
        """Return the messages as they are sent. The server turns them into a prompt."""
        return "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in self._messages(messages))

    def generate(self, messages: Sequence[Message], n: int, sampling: Sampling, options: CallOptions = QUIET) -> Generations:
        """Draw `n` samples of the reply to `messages`. Sample i has the seed `seed` + i, if the server supports seeds.

        Raises FbragError `prompt_too_long`, `server_failed`, `no_answer` if the model only reasons, and the error of a requested
        cancellation.
        """
        keyed, knew = self._messages(messages), self._thinks
        sent = " ".join(message["content"] for message in keyed)
        self._check_fits(sent, sampling.max_tokens)
        opening = messages[-1].text if messages[-1].role == "assistant" else ""
        done = self._drawn(keyed, opening, n, sampling, options)
        if not knew and all(sample.n_reasoning_pieces and not sample.text.strip() and not sample.cut for sample in done.samples):
            done = self._drawn(keyed, opening, n, sampling, options)  # with room for reasoning
        drawn = tuple(sample.generation() for sample in done.samples)
        check_answered(self.info.name, drawn, sampling.max_tokens + done.samples[0].reasoning_tokens)
        if (n_prompt := done.prompt_tokens) is None:
            n_prompt = _most_tokens(sent)
        else:
            self._check_read(sent, sampling.max_tokens, n_prompt)
        now = perf_counter()
        first = now if done.first_text is None else done.first_text
        return Generations(drawn, n_prompt, min(done.cached_tokens or 0, n_prompt), first - done.started, now - first)

    def count_tokens(self, text: str, cancellation: Cancellation | None = None) -> int:
        """Return the number of tokens if the server counts them (llama.cpp, vLLM), else a high estimate.

        A server that replies with something else is not asked again. Raises FbragError if it does not reply.
        """
        if self._counts:
            asked = {"content": text, "add_special": False} if self._about.is_llama_cpp else {"prompt": text}
            try:
                url = f"{self._host.address.root}/tokenize"
                return len(ask(self._host, url, {"model": self._about.model, **asked}, cancellation)["tokens"])
            except (UnusableError, KeyError, TypeError):
                self._counts = False
        return _most_tokens(text)

    def _drawn(self, messages: Sequence[Json], opening: str, n: int, sampling: Sampling, options: CallOptions) -> SampleStream:
        """Draw samples, and remember whether the model reasons. If that is known, there is room for the reasoning."""
        room = MOST_SERVER_TOKENS if self._thinks else 0
        if room and self.info.context_tokens:
            n_prompt = sum(_most_tokens(message["content"]) for message in messages)
            room = max(0, min(room, self.info.context_tokens - n_prompt - sampling.max_tokens))
        samples = [StreamedSample(sampling.seed + i, sampling.max_tokens, opening, room, self._opened) for i in range(n)]
        body: Json = {
            "model": self._about.model,
            "messages": messages,
            "max_tokens": sampling.max_tokens + room,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._extras,
        }
        if self._probabilities and sampling.temperature == 0:
            body |= _OWN
        if "samplers" in self._extras:
            body["top_k"] = sampling.top_k
        drawing = SampleStream(self._host, self._url, body, samples, options)
        drawing.draw()
        self._thinks = self._thinks or any(sample.n_reasoning_pieces for sample in samples)
        self._opened = next((sample.opened for sample in samples if sample.opened), self._opened)
        return drawing

    def _messages(self, messages: Sequence[Message]) -> list[Json]:
        """Return the messages in the server's format. Servers other than llama.cpp's are asked, in the user's message, to begin
        with the assistant's words. A `Blend` becomes its main word. Raises FbragError `usage` for other input embeddings."""
        messages = [message.blended(lambda blend: blend.word) for message in messages]
        if any(message.embeddings for message in messages):
            what = f"{self.info.name} is a server, which does not support input embeddings in a prompt"
            raise FbragError("usage", what, "use a model on this machine")
        *messages, last = messages
        if last.role == "assistant" and not self._about.is_llama_cpp:
            asked = messages.pop()
            last = Message("user", f'{asked.text}\n\nBegin the reply with "{last.text}".')
        return [{"role": message.role, "content": escape_special_tokens(message.text)} for message in (*messages, last)]

    # -- capabilities of the server --------------------------------------------------------------------------------------

    def _abilities(self, cancellation: Cancellation | None) -> tuple[Json, bool]:
        """Return the parameters beyond OpenAI's that the server accepts, and whether it returns probabilities.

        Remember whether the model reasons, although these parameters turn reasoning off.
        """
        tried: tuple[tuple[Json, Json], ...]
        tried = ((_EXTRAS | _EFFORT, _LISTED), (_EXTRAS, _LISTED), (_EXTRAS, {}), (_EFFORT, _LISTED), ({}, _LISTED))
        for extras, listed in tried:
            with suppress(RefusedError):
                return extras, self._hello(extras | listed, cancellation)
        self._hello({}, cancellation)
        return {}, False

    def _hello(self, parameters: Json, cancellation: Cancellation | None) -> bool:
        """Request the first tokens of a reply. Return whether the server returns probabilities."""
        reply = self._ask([Message("user", "Hi")], parameters, cancellation, _HELLO_TOKENS)
        _, self._thinks = _without_thought(reply)
        return bool(_likeliest(reply))

    def _ask(self, messages: Sequence[Message], parameters: Json, cancellation: Cancellation | None, n_tokens: int) -> Json:
        """Return a reply of up to `n_tokens` tokens, without streaming."""
        body = {"model": self._about.model, "messages": self._messages(messages), "max_tokens": n_tokens, "temperature": 0}
        return ask(self._host, self._url, body | parameters, cancellation)

    def _choose(self, messages: Sequence[Message], choices: Sequence[str], options: CallOptions = QUIET) -> tuple[float, ...]:
        """Return the probability of each of `choices` from the most likely first tokens; 0 for those that are not among them.

        For a model that reasons, these are the first tokens after its reasoning, even an empty one that the server has ended.
        """
        n_tokens = _CHOICE_TOKENS + (MOST_SERVER_TOKENS if self._thinks else 0)
        reply = self._ask(messages, self._extras | _LISTED, options.cancellation, n_tokens)
        answer, thinks = _without_thought(reply)
        first = _likeliest(reply, answer.strip(), thinks=thinks)
        return tuple(min(1.0, sum(p for token, p in first if token == choice.casefold())) for choice in choices)

    # -- whether the server reads the whole prompt -----------------------------------------------------------------------

    def _check_fits(self, sent: str, max_tokens: int) -> None:
        """Raise FbragError `prompt_too_long`, before sending, for a prompt that cannot fit. max_tokens: of the reply."""
        window = self._about.context_tokens
        if self._about.program and window and _n_characters(sent) > _MOST_CHARACTERS_OF_A_TOKEN * window:
            raise self._too_long(sent, max_tokens, f"its context has {window:,} tokens")

    def _check_read(self, sent: str, max_tokens: int, n_read: int) -> None:
        """Warn once if the server seems to have read less than was sent. n_read: number of tokens that it reports as read.

        Raises FbragError `prompt_too_long` if the context is known and the prompt was truncated to fit it.
        """
        window, n_characters = self._about.context_tokens, _n_characters(sent)
        seems_cut = n_characters > _CHARACTERS_OF_A_TOKEN * n_read
        if self._about.program and window and _most_tokens(sent) > window:
            halved = abs(n_read - window // 2) <= _NEAR
            if seems_cut or (halved and self._about.program == "Ollama"):
                raise self._too_long(sent, max_tokens, f"its context has {window:,} tokens, and it read {n_read:,}")
        if seems_cut and not self._warned:
            self._warned = True
            read = f"it read {n_read:,} tokens of a prompt of {n_characters:,} characters"
            hint = "give it a longer context (Ollama: OLLAMA_CONTEXT_LENGTH)"
            self._host.warn(f"{self._host.address.origin} probably truncated the prompt: {read}; {hint}")

    def _too_long(self, sent: str, max_tokens: int, why: str) -> FbragError:
        enough = 2 ** math.ceil(math.log2(_most_tokens(sent) + max_tokens))
        hint = f"{_LONGER[self._about.program].format(tokens=enough)}, or lower --select"
        return self._host.error(f"the prompt is too long: {why}", hint, code="prompt_too_long")


def escape_special_tokens(text: str) -> str:
    """Return `text` with a space after the first character of each marker: `< |im_end|>` looks alike, but is not a marker."""
    return _MARKER.sub(lambda found: f"{found.group()} ", text)


def _most_tokens(text: str) -> int:
    """Return a high estimate of the number of tokens in a text."""
    return math.ceil(len(text.encode("utf-8", "replace")) / _BYTES_OF_A_TOKEN)


def _n_characters(text: str) -> int:
    """Return the number of characters in a text, counting a run of white space as one."""
    return len(" ".join(text.split()))


def _without_thought(reply: Json) -> tuple[str, bool]:
    """Return the answer in a complete reply, and whether the model has reasoned. For a reply of another shape, "" and False."""
    thoughts = ReasoningParser(COMMON_TAGS)
    try:
        pieces = said(reply)[:1]
    except ValueError:
        pieces = []
    answer = "".join([*(thoughts.add(each.text) for each in pieces), thoughts.end()])
    return answer, bool(thoughts.n_pieces or any(each.thought for each in pieces))


def _likeliest(reply: Json, answer: str = "", *, thinks: bool = False) -> list[tuple[str, float]]:
    """Return the most likely first tokens of an answer, in lower case and without spaces, with their probabilities.

    They are the first tokens of the reply, or those after its reasoning. thinks: whether the result is empty without reasoning
    before the answer.
    """
    try:
        tokens = reply["choices"][0]["logprobs"]["content"]
        place = _place(answer, [each.get("token", "") for each in tokens])
        listed = tokens[place or 0]["top_logprobs"] if place is not None or not thinks else ()
        return [(each["token"].strip(" ▁Ġ\n").casefold(), math.exp(min(0.0, float(each["logprob"])))) for each in listed]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        return []


def _place(answer: str, tokens: Sequence[str]) -> int | None:
    """Return the last position from which the tokens make up the answer, None if there is none."""
    text, starts = "".join(tokens), list(accumulate(map(len, tokens), initial=0))
    begin = text.rfind(answer)
    place = bisect_right(starts, begin) - 1
    return place if answer and begin >= 0 and not text[starts[place] : begin].strip() else None
