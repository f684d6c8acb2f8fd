"""OpenAI's interface as its clients meet it: plain HTTP, and OpenAI's own client, over a real process.

The models are a server that answers as it is told, so that each reply is known to the word.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from tests.conftest import needs
from tests.servers import Handler, Loopback, declining_reply, status, stream
from tests.serving.running import PATIENCE, Served, serving, until, user_of

pytest.importorskip("uvicorn")

LOG = "harbour.txt"
TEXT = "The keeper lit the lamp at nine. The barque Petrel lay in the roads. She was built by Josiah Goss at Leith."
QUESTION = "Who built the barque Petrel?"
FOOTNOTE = f"[^1]: {LOG}:1 — “She was built by Josiah Goss at Leith.”"
ANSWER = f"Josiah Goss built her at Leith.[^1]\n\n{FOOTNOTE}"


def answers(handler: Handler, body: dict[str, Any]) -> None:
    """Guess, answer, check, or make a question whole, as the prompt asks."""
    prompt = str(body["messages"])
    if "Reply with yes or no" in prompt:
        listed = [{"token": "Yes", "logprob": -0.1}, {"token": "No", "logprob": -3.0}]
        handler.send({"choices": [{"message": {"content": "Yes"}, "logprobs": {"content": [{"top_logprobs": listed}]}}]})
    elif "Follow-up question" in prompt:
        stream("Where did Josiah Goss build the barque Petrel?")(handler, body)
    elif "Rationale" in prompt:
        stream("Goss of Leith built her: ![x](http://evil.test/a.png)\nAnswer: ", "Josiah Goss", several=True)(handler, body)
    else:
        stream("Josiah", " Goss", " built her", " at Leith.", usage={"prompt_tokens": 70, "completion_tokens": 9})(handler, body)


class Place:
    """A served process. models: the server that its models are on."""

    def __init__(self, served: Served, folder: Path, models: Loopback) -> None:
        self.served, self.folder, self.models = served, folder, models

    def sent(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status and the JSON of a response."""
        data = body if isinstance(body, str | bytes | None) else json.dumps(body)
        response, told = self.served.sent(method, path, body=data, headers={"Content-Type": "application/json"})
        return response.status, json.loads(told)

    def asked(self, *said: str, **more: Any) -> tuple[int, Any]:
        return self.sent("POST", "/v1/chat/completions", chat(*said, **more))

    def lines(self, *said: str, **more: Any) -> Iterator[str]:
        """Yield the lines of a stream as they come. The connection ends with it."""
        connection = self.served.connection()
        body = json.dumps(chat(*said, stream=True, **more))
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"} | self.served.bearer)
        response = connection.getresponse()
        assert (response.status, response.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
        try:
            while line := response.readline():
                yield line.decode()
        finally:
            response.close()
            connection.close()


def chat(*said: str, **more: Any) -> dict[str, Any]:
    """Return a request of messages by turns of the user and the assistant."""
    roles = ("user", "assistant")
    return {"model": LOG, "messages": [{"role": roles[i % 2], "content": each} for i, each in enumerate(said)], **more}


def events(lines: Iterator[str]) -> list[dict[str, Any]]:
    """Return the JSON of a whole stream, whose last event is the sign of its end."""
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert data.pop() == "[DONE]\n"
    return [json.loads(each) for each in data]


def deltas(pieces: Sequence[dict[str, Any]], name: str) -> str:
    return "".join(choice["delta"].get(name) or "" for each in pieces for choice in each["choices"])


@pytest.fixture(scope="module")
def place(module_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A process that serves a file, a folder, and two files of one name. Nothing is cached."""
    folder = tmp_path_factory.mktemp("served")
    for name in (LOG, "notes/a.txt", "2023/report.txt", "2024/report.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(TEXT)
    documents = [str(folder / name) for name in (LOG, "notes", "2023/report.txt", "2024/report.txt")]
    with Loopback() as models:
        models.default = answers
        options = ["--small", models.address, "--large", models.address, "--no-cache", "--port", "0"]
        with serving(user_of(module_environment, folder), *options, *documents) as served:
            yield Place(served, folder, models)


@pytest.fixture(autouse=True)
def as_told(place: Place) -> Iterator[None]:
    place.models.replies.clear()
    place.models.asked.clear()
    yield
    place.models.default = answers


def test_each_served_document_or_folder_is_a_model(place: Place) -> None:
    code, listed = place.sent("GET", "/v1/models")
    names = [each["id"] for each in listed["data"]]
    assert (code, listed["object"], names[:2]) == (200, "list", [LOG, "notes"])
    assert names[2:] == ["2023/report.txt", "2024/report.txt"]
    assert {(each["object"], each["owned_by"], type(each["created"])) for each in listed["data"]} == {("model", "fbrag", int)}
    for name in names:
        assert place.sent("GET", f"/v1/models/{name}")[1]["id"] == name
        code, told = place.asked(QUESTION, model=name)
        assert (code, told["model"]) == (200, name)
    code, told = place.asked(QUESTION, model="notes/a.txt")
    assert (code, told["choices"][0]["message"]["content"][:12]) == (200, ANSWER[:12])
    code, told = place.asked(QUESTION, model=str(place.folder / "notes" / "a.txt"))
    assert (code, told["choices"][0]["message"]["content"][:12]) == (200, ANSWER[:12])
    code, told = place.sent("GET", "/v1/models/..%2f..%2fetc%2fpasswd")
    assert (code, told["error"]["code"]) == (404, "model_not_found")
    code, told = place.asked(QUESTION, model="/etc/passwd")
    assert (code, told["error"]["code"], told["error"]["type"]) == (404, "model_not_found", "invalid_request_error")


def test_an_answer_has_its_sources_as_footnotes(place: Place) -> None:
    code, told = place.asked(
        QUESTION, temperature=0.3, top_p=1, user="ann", seed=5, tools=[{}], stop=["x"], n=2, logprobs=True, anything={"a": "b"}
    )
    (choice,) = told["choices"]
    assert (code, told["object"], told["model"]) == (200, "chat.completion", LOG)
    assert choice["message"]["content"] == ANSWER
    assert (choice["message"]["role"], choice["finish_reason"]) == ("assistant", "stop")
    assert str(place.folder) not in json.dumps(told)
    usage = told["usage"]
    assert usage["prompt_tokens"] >= 70
    assert usage["completion_tokens"] >= 9
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_a_folder_names_its_file(place: Place) -> None:
    content = place.asked(QUESTION, model="notes")[1]["choices"][0]["message"]["content"]
    assert "[^1]: notes/a.txt:1 — “" in content


def test_a_stream_brings_the_same_answer(place: Place) -> None:
    pieces = events(place.lines(QUESTION, stream_options={"include_usage": True}))
    assert pieces[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert {each["object"] for each in pieces} == {"chat.completion.chunk"}
    assert len({each["id"] for each in pieces}) == 1
    assert deltas(pieces, "content") == ANSWER
    assert [each["choices"][0]["finish_reason"] for each in pieces if each["choices"]][-2:] == [None, "stop"]
    assert pieces[-1]["choices"] == []
    assert pieces[-1]["usage"]["total_tokens"] > 0
    assert all(each["usage"] is None for each in pieces[:-1])
    assert all("usage" not in each for each in events(place.lines(QUESTION)))


def test_nothing_of_an_answer_is_sent_before_it_was_checked(place: Place) -> None:
    place.models.default = lambda handler, body: (declining_reply if "Rationale" not in str(body) else answers)(handler, body)
    pieces = events(place.lines(QUESTION))
    content = deltas(pieces, "content")
    assert content.startswith("No answer found in the document.\n\n*Unsupported answer: Captain Vance.*")
    assert pieces[-1]["choices"][0]["finish_reason"] == "stop"
    assert place.asked(QUESTION)[1]["choices"][0]["message"]["content"] == content


def test_the_connection_stays_awake_while_a_model_is_silent(place: Place) -> None:
    awake, lines = threading.Event(), list[str]()

    def silent(handler: Handler, body: dict[str, Any]) -> None:
        awake.wait(PATIENCE)
        answers(handler, body)

    place.models.replies.append(silent)
    for line in place.lines(QUESTION):
        lines.append(line)
        if lines.count(":\n") == 2:
            awake.set()
    first = lines.index(next(line for line in lines if "Josiah" in line))
    assert lines[:first].count(":\n") >= 2
    assert deltas(events(iter(lines)), "content") == ANSWER


def test_a_follow_up_is_made_whole_by_the_messages_before_it(place: Place) -> None:
    place.asked(QUESTION, ANSWER, "And where did he build it?")
    (prompt,) = [str(each.body["messages"]) for each in place.models.chats if "Follow-up question: And where" in str(each.body)]
    assert "Question before: Who built the barque Petrel?\\nAnswer: Josiah Goss built her at Leith.\\nFollow" in prompt
    asked = [
        str(each.body["messages"]) for each in place.models.chats if "Question: Where did Josiah Goss build" in str(each.body)
    ]
    assert asked, "the whole question is asked"
    place.models.asked.clear()
    place.asked(
        QUESTION, "No answer found in the document.\n\n*Closest passage:*[^1]\n\n[^1]: x — “y”", "And where did he build it?"
    )
    (prompt,) = [str(each.body["messages"]) for each in place.models.chats if "Follow-up question: And where" in str(each.body)]
    assert "Question before: Who built the barque Petrel?\\nAnswer: none\\nFollow" in prompt


def test_a_system_message_is_the_form_of_the_answer_and_names_no_file(place: Place) -> None:
    (place.folder / "secret.txt").write_text("the secret")
    body = chat(QUESTION)
    for form in ("In French.", f"@{place.folder / 'secret.txt'}"):
        place.models.asked.clear()
        body["messages"] = [{"role": "system", "content": form}, body["messages"][-1]]
        assert place.sent("POST", "/v1/chat/completions", body)[0] == 200
        prompts = [str(each.body["messages"]) for each in place.models.chats]
        assert any(f"Give it in this form: {form}" in each for each in prompts)
        assert not any("the secret" in each for each in prompts)


def test_a_limit_of_tokens_only_shortens(place: Place) -> None:
    place.asked(QUESTION, max_tokens=100_000)
    whole = place.models.chats[-2].body["max_tokens"]
    assert whole <= 512 + 256  # and room for a thought
    place.models.asked.clear()
    place.models.default = stream("Josiah Goss built", finish="length")
    told = place.asked(QUESTION, max_completion_tokens=3)[1]
    assert told["choices"][0]["finish_reason"] == "length"
    assert min(each.body["max_tokens"] for each in place.models.chats) < whole


PART = {"type": "text", "text": QUESTION}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def test_content_may_come_in_parts(place: Place) -> None:
    body = chat(QUESTION) | {"messages": [{"role": "user", "content": [PART]}]}
    assert place.sent("POST", "/v1/chat/completions", body)[1]["choices"][0]["message"]["content"] == ANSWER


@pytest.mark.parametrize(
    ("more", "param", "words"),
    [
        ({"response_format": {"type": "json_schema"}}, "response_format", "/v1/ask returns JSON"),
        ({"stream": "nope"}, "stream", "true or false"),
        ({"stream_options": 1}, "stream_options", "object"),
        ({"max_tokens": 0}, "max_tokens", "at least 1"),
        ({"max_tokens": "many"}, "max_tokens", "whole number"),
        ({"model": None}, "model", "GET /v1/models"),
        ({"messages": []}, "messages", "question"),
        ({"messages": [{"role": "assistant", "content": "Hello"}]}, "messages", "question of the user"),
        ({"messages": [{"role": "user", "content": " "}]}, None, "the question is empty"),
        ({"messages": [{"role": "user", "content": "?"}]}, None, "no letter and no digit"),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "messages", "of the user"),
        ({"messages": [{"role": "user", "content": [PART, PICTURE]}]}, "messages.0.content", "'image_url' cannot be read"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content", "a text is needed"),
        ({"messages": ["hello"]}, "messages.0", "object"),
        ({"messages": [{"role": "user", "content": "x" * 10_001}]}, None, "10,000 characters"),
        ({"messages": [{"role": "system", "content": "x" * 2_001}, {"role": "user", "content": "x"}]}, "messages", "2,000"),
    ],
)
def test_what_has_no_meaning_is_refused_in_one_line(place: Place, more: dict[str, Any], param: str | None, words: str) -> None:
    code, told = place.asked(QUESTION, **more)
    assert (code, told["error"]["type"], told["error"]["param"]) == (400, "invalid_request_error", param)
    assert words in told["error"]["message"]
    assert "\n" not in told["error"]["message"]
    assert not place.models.chats, "no model was asked"


@pytest.mark.parametrize("body", ["", "{", "[1]", "null", '"x"', "[" * 100_000, '{"model": 1e999}', b"\xff\xfe", "9" * 5000])
def test_what_is_no_request_is_refused(place: Place, body: str | bytes) -> None:
    code, told = place.sent("POST", "/v1/chat/completions", body)
    assert (code, told["error"]["type"]) == (400, "invalid_request_error")


def test_half_a_character_is_no_failure(place: Place) -> None:
    code, _ = place.sent("POST", "/v1/chat/completions", json.dumps(chat(QUESTION + " \ud800", model=LOG)))
    assert code == 200


def test_an_error_of_the_models_has_its_status(place: Place) -> None:
    place.models.default = status(401, {"error": {"message": "out of order"}})
    code, told = place.asked(QUESTION)
    assert (code, told["error"]["type"], told["error"]["code"]) == (503, "server_error", "server_failed")
    assert "out of order" in told["error"]["message"]


def test_where_all_places_are_taken_a_client_is_told_when_to_come_again(place: Place) -> None:
    free = threading.Event()

    def waiting(handler: Handler, body: dict[str, Any]) -> None:
        free.wait(PATIENCE)
        answers(handler, body)

    place.models.default = waiting
    with ThreadPoolExecutor(8) as pool:
        first = [pool.submit(place.asked, f"{QUESTION} {i}") for i in range(8)]
        until(lambda: place.served.get("/process/status")[1]["questions"] == {"running": 1, "waiting": 7})
        response, told = place.served.sent(
            "POST", "/v1/chat/completions", body=json.dumps(chat(QUESTION)), headers={"Content-Type": "application/json"}
        )
        free.set()
        assert [each.result()[0] for each in first] == [200] * 8
    error = json.loads(told)["error"]
    assert (response.status, error["type"], error["code"]) == (429, "rate_limit_error", "busy")
    assert int(response.headers["Retry-After"]) > 0


# -- clients -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def client(place: Place) -> Any:
    openai = needs("openai")
    return openai.OpenAI(base_url=f"http://127.0.0.1:{place.served.port}/v1", api_key=place.served.token, max_retries=0)


def test_openais_client_lists_asks_and_streams(place: Place, client: Any) -> None:
    import openai

    assert [each.id for each in client.models.list()][:2] == [LOG, "notes"]
    assert client.models.retrieve(LOG).owned_by == "fbrag"
    said = [{"role": "user", "content": QUESTION}]
    told = client.chat.completions.create(model=LOG, messages=said)
    assert told.choices[0].message.content == ANSWER
    assert told.usage.total_tokens > 0

    def slow(handler: Handler, body: dict[str, Any]) -> None:
        sleep(2.5)  # comments come meanwhile
        answers(handler, body)

    place.models.replies.append(slow)
    with client.chat.completions.create(model=LOG, messages=said, stream=True, stream_options={"include_usage": True}) as stream:
        pieces = [*stream]
    assert "".join(each.choices[0].delta.content or "" for each in pieces if each.choices) == ANSWER
    assert pieces[-1].usage.total_tokens > 0
    with pytest.raises(openai.NotFoundError, match="there is no model"):
        client.chat.completions.create(model="nothing.txt", messages=said)
    with pytest.raises(openai.BadRequestError, match="the answer is text"):
        client.chat.completions.create(model=LOG, messages=said, response_format={"type": "json_object"})


def test_openais_client_raises_an_error_in_mid_stream(place: Place, client: Any) -> None:
    import openai

    begun = threading.Event()

    def late(handler: Handler, body: dict[str, Any]) -> None:
        begun.wait(PATIENCE)
        status(500, {"error": {"message": "out of order"}})(handler, body)

    place.models.default = late
    stream = client.chat.completions.create(model=LOG, messages=[{"role": "user", "content": QUESTION}], stream=True)
    begun.set()
    with pytest.raises(openai.APIError, match="out of order"):
        list(stream)
