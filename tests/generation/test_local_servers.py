"""`local`: the servers of this machine are found, and their model is taken. Stand-ins answer as Ollama and LM Studio do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from time import monotonic
from typing import Any

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Message, Sampling
from fbrag_cli.generation.server import local
from fbrag_cli.generation.server.about import about
from fbrag_cli.generation.server.address import Address, check_offline, is_elsewhere, is_server
from fbrag_cli.generation.server.client import Endpoint
from fbrag_cli.generation.server.local import LocalModel, look, options, ports
from fbrag_cli.progress import Event, Listener
from fbrag_cli.session.models import Models
from fbrag_cli.session.settings import ModelSettings
from tests.servers import Handler, Loopback, Reply, lm_studio, ollama, status, stream, stuck

SHORT = [Message("user", "Where is the key?")]

#: Lets programs listen at the ports of stand-ins, and no other program anywhere.
At = Callable[..., None]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> At:
    names = {"ollama": "Ollama", "lm_studio": "LM Studio", "llama": "llama-server"}

    def place(**servers: Loopback | int) -> None:
        places = {names[name]: each if isinstance(each, int) else each.port for name, each in servers.items()}
        monkeypatch.setattr(local, "ports", lambda environ: places)

    return place


def chosen(name: str = "local") -> LocalModel:
    return look(name, {})


def refusal(name: str = "local") -> FbragError:
    with pytest.raises(FbragError) as raised:
        look(name, {})
    assert raised.value.code == "model_missing"
    return raised.value


# -- the model that is taken -------------------------------------------------------------------------------------------------


def test_the_only_model_of_ollama_that_chats_is_taken(at: At) -> None:
    with ollama("qwen3.5:4b", "nomic-embed-text:latest", "gpt-oss:120b-cloud") as server:
        at(ollama=server)
        found = chosen()
        assert found.described == f"Ollama at 127.0.0.1:{server.port} (qwen3.5:4b)"
        assert found.address == f"{server.address}#qwen3.5:4b"
        assert [(each.method, each.path) for each in server.asked] == [("GET", "/v1/models")]


def test_the_only_model_of_lm_studio_that_chats_is_taken(at: At) -> None:
    with lm_studio("text-embedding-nomic-embed-text-v1.5", "qwen/qwen3.5-4b") as server:
        at(lm_studio=server)
        assert Address.parse(chosen().address) == Address(server.address, "qwen/qwen3.5-4b")


def test_llama_cpps_own_server_answers_as_local(llama_cpp_server: str, at: At) -> None:
    at(llama=int(llama_cpp_server.removesuffix("/v1").rpartition(":")[2]))
    assert chosen().name.endswith(".gguf")
    with closing(Models(ModelSettings(), Listener())) as servers:
        generator = servers.load("local")
        assert generator.info.context_tokens == 2048
        assert generator.generate(SHORT, 1, Sampling(4, temperature=0)).samples[0].text


def test_several_models_are_named_by_their_addresses(at: At) -> None:
    with ollama("llama3.2:3b", "qwen3.5:4b") as first, lm_studio("gemma") as second:
        at(ollama=first, lm_studio=second)
        error = refusal()
        listed = f"Ollama at 127.0.0.1:{first.port} (llama3.2:3b, qwen3.5:4b); LM Studio at 127.0.0.1:{second.port} (gemma)"
        assert error.message == f"local: found 3 models: {listed}"
        addresses = f"{first.address}#llama3.2:3b {first.address}#qwen3.5:4b {second.address}#gemma"
        assert error.hint == f"use one of them: {addresses}"
        assert chosen("local#gemma").program == "LM Studio"
        assert options(local.find({})) == f"--large {first.address}#llama3.2:3b --small {first.address}#llama3.2:3b"


def test_one_name_at_two_servers_is_told_apart_by_its_address(at: At) -> None:
    with ollama("m") as first, lm_studio("m") as second:
        at(ollama=first, lm_studio=second)
        assert refusal("local#m").hint == f"use one of them: {first.address}#m {second.address}#m"


def test_a_name_takes_its_model_and_a_misspelled_one_lists_those_that_are_there(at: At) -> None:
    with ollama("llama3.2:latest", "qwen3.5:4b") as server:
        at(ollama=server)
        assert chosen("local#llama3.2").name == "llama3.2:latest"
        assert "local: unknown model qwen3.5:9b; available: Ollama at" in refusal("local#qwen3.5:9b").message


def test_a_model_in_a_cloud_is_none_of_this_machine(at: At) -> None:
    with ollama("gpt-oss:120b-cloud", "kimi-k3:cloud") as server:
        at(ollama=server)
        assert "no server with a chat model" in refusal().message


def test_a_model_in_ollamas_cloud_is_said_to_leave_this_machine_and_offline_forbids_it() -> None:
    told: list[Event] = []
    listener = Listener(progress=told.append)
    with ollama("gpt-oss:120b-cloud") as server, closing(Models(ModelSettings(), listener)) as servers:
        servers.load(f"{server.address}#gpt-oss:120b-cloud")
        (warning,) = (each.text for each in told if each.kind == "warning")
        assert "which forwards it to https://ollama.com:443" in (warning or "")
        with pytest.raises(FbragError, match="which runs in Ollama's cloud"):
            check_offline([f"{server.address}#gpt-oss:120b-cloud"])
        with pytest.raises(FbragError, match="prevents the use of kimi-k3:cloud, which"):
            check_offline([f"{server.address}#kimi-k3%3Acloud"])
        check_offline(["local", "local#qwen3.5:4b", server.address])


def test_a_copy_of_a_cloud_model_is_said_to_leave_this_machine(at: At) -> None:
    """Its name says nothing."""
    told: list[Event] = []
    listener = Listener(progress=told.append)
    with ollama("mine") as server:
        at(llama=server)
        server.pages["/api/tags"]["models"][0]["remote_host"] = "https://ollama.com:443"
        offline = Models(ModelSettings(), listener, offline=True)
        with closing(offline), pytest.raises(FbragError, match="--offline prevents the use of mine, which"):
            offline.load("local")
        assert {each.method for each in server.asked} == {"GET"}
        with closing(Models(ModelSettings(), listener)) as servers:
            servers.load("local")
    assert "which forwards it to" in "".join(each.text or "" for each in told if each.kind == "warning")


# -- nobody, and what is no server of models ---------------------------------------------------------------------------------


def test_nobody_is_one_line_with_the_ports_and_what_to_do(at: At) -> None:
    with Loopback() as server:
        port = server.port
    at(ollama=port)
    begun = monotonic()
    error = refusal()
    assert monotonic() - begun < 1
    assert error.message == f"local: no server with a chat model found on ports {port} (Ollama)"
    assert "fbrag models pull" in (error.hint or "")


@pytest.mark.parametrize(
    "page", ["<html>hello</html>", "[]", "null", '{"data": 3}', "{" * 100_000, "\x00", '{"data": [{"id": ["a"]}, 7, null]}']
)
def test_something_else_on_a_port_does_no_harm(page: str, at: At) -> None:
    with Loopback() as server, ollama("a") as other:
        server.pages = {"/v1/models": page}
        at(llama=server, ollama=other)
        assert chosen().name == "a"
        at(llama=server)
        refusal()


def test_servers_that_never_answer_are_left_within_a_second_all_at_once(at: At) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(Loopback()) for _ in range(3)]
        for each in silent:
            each.pages, each.missing = {}, stuck()
        at(ollama=silent[0], lm_studio=silent[1], llama=silent[2])
        begun = monotonic()
        refusal()
        assert monotonic() - begun < 2


def endless(handler: Handler, body: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while True:
            handler.wfile.write(b'{"data": [' + b" " * 100_000)


def trickling(handler: Handler, body: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while not handler.server.over.wait(0.05):
            handler.wfile.write(b" ")


@pytest.mark.parametrize("reply", [endless, trickling])
def test_a_server_that_sends_too_much_or_too_slowly_is_left(reply: Reply, at: At) -> None:
    with Loopback() as server, ollama("a") as other:
        server.pages, server.missing = {}, reply
        at(llama=server, ollama=other)
        begun = monotonic()
        assert chosen().name == "a"
        assert monotonic() - begun < 3


def test_a_server_that_demands_a_key_gets_none(monkeypatch: pytest.MonkeyPatch, at: At) -> None:
    monkeypatch.setenv("FBRAG_KEY", "sk-secret")
    with Loopback() as server:
        server.pages, server.missing = {}, status(401, {"error": {"message": "Invalid API Key"}})
        at(llama=server)
        assert "use a server's URL" in (refusal().hint or "")
        assert not any("Authorization" in each.headers for each in server.asked)


def test_names_of_any_shape_and_a_thousand_models_do_no_harm(at: At) -> None:
    odd: list[Any] = ["x\x1b[31m", "", 3, None, "y" * 500, "new\nline", "\u202eevil"]
    with ollama(*(f"model-{n}:1b" for n in range(1000))) as server:
        server.pages["/v1/models"]["data"] += [{"id": name} for name in odd]
        at(ollama=server)
        error = refusal()
    assert "local: found 1000 models" in error.message
    assert len(error.message) < 500
    assert error.message.isprintable()


@pytest.mark.parametrize("value", [None, 0, -1, True, "4096", 4096.0, 2**70])
def test_a_context_that_is_none_is_not_known(value: object) -> None:
    with ollama("a") as server:
        server.pages["/api/ps"] = {"models": [{"model": "a", "context_length": value}]}
        found = about(Endpoint(Address.parse(server.address)))
    assert (found.program, found.context_tokens) == ("Ollama", None)


def test_an_instance_of_lm_studio_has_a_name_of_its_own() -> None:
    instances = [{"id": name, "config": {"context_length": tokens}} for name, tokens in (("k", 8000), ("k:2", 6000))]
    with lm_studio("k", "k:2") as server:
        server.pages["/api/v1/models"] = {"models": [{"key": "k", "type": "llm", "loaded_instances": instances}]}
        for name, tokens in (("k", 8000), ("k:2", 6000)):
            assert about(Endpoint(Address.parse(f"{server.address}#{name}"))).context_tokens == tokens


# -- where they are looked for -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "port"),
    [("", 11434), (":11500", 11500), ("http://localhost:11500/", 11500), ("[::1]:11500", 11500), ("0.0.0.0", 11434)],
)
def test_ollama_host_moves_ollamas_port(text: str, port: int) -> None:
    assert ports({"OLLAMA_HOST": text}) == {"Ollama": port, "LM Studio": 1234, "llama-server": 8080}


@pytest.mark.parametrize("text", ["127.0.0.1:99999", "\x00nonsense:::0"])
def test_a_port_that_is_none_is_nobody(text: str) -> None:
    assert [each for each in local.find({"OLLAMA_HOST": text}) if each.program == "Ollama"] == []


@pytest.mark.parametrize("name", ["local", "local#qwen3.5:4b"])
def test_local_is_a_server_of_this_machine(name: str) -> None:
    assert is_server(name)
    assert not is_elsewhere(name)
    assert not is_server(name.replace("local", "locals"))


# -- as a model --------------------------------------------------------------------------------------------------------------


def test_local_is_looked_for_once_and_said_in_one_line(at: At) -> None:
    told: list[Event] = []
    listener = Listener(progress=told.append)
    with ollama("qwen3.5:4b", loaded={"qwen3.5:4b": 8192}) as server:
        at(ollama=server)
        with closing(Models(ModelSettings(), listener)) as servers:
            identity = servers.identity("local", listener)
            generator = servers.load("local")
            assert servers.device == f"Ollama at 127.0.0.1:{server.port} (qwen3.5:4b)"
            assert generator.info.name == f"{server.address}#qwen3.5:4b"
            assert generator.info.context_tokens == 8192
            assert generator.generate(SHORT, 1, Sampling(8)).samples[0].text == "It is blue."
        assert [each.text for each in told if each.kind == "note"] == [f"local: Ollama at 127.0.0.1:{server.port} (qwen3.5:4b)"]
        with closing(Models(ModelSettings(), listener)) as servers:
            assert servers.identity(f"{server.address}#qwen3.5:4b", listener) == identity
        server.pages["/api/tags"]["models"][0]["digest"] = "another"
        with closing(Models(ModelSettings(), listener)) as servers:
            assert servers.identity("local", listener) != identity


@pytest.mark.parametrize("address", [True, False])
def test_the_context_of_a_model_that_ollama_loads_is_known_when_it_is_loaded(address: bool, at: At) -> None:
    with ollama("qwen3.5:4b", loads=4096) as server, closing(Models(ModelSettings(), Listener())) as servers:
        at(ollama=server)
        name = f"{server.address}#qwen3.5:4b" if address else "local"
        assert servers.load(name).info.context_tokens == 4096


def test_a_prompt_that_cannot_fit_ollamas_context_is_an_error_and_is_not_sent(at: At) -> None:
    with ollama("m", loaded={"m": 4096}) as server, closing(Models(ModelSettings(), Listener())) as servers:
        at(ollama=server)
        generator = servers.load("local")
        with pytest.raises(FbragError, match="its context has 4,096 tokens") as raised:
            generator.generate([Message("user", "The brig sailed at noon. " * 2000)], 1, Sampling(64))
        assert raised.value.code == "prompt_too_long"
        assert (raised.value.hint or "").startswith("start Ollama with OLLAMA_CONTEXT_LENGTH=32768, or lower")
        assert server.chats == []


@pytest.mark.parametrize(
    ("text", "n_read"),
    [("The brig sailed at noon with a torn sail. " * 600, 2050), ("那艘双桅船在中午时分带着一面撕裂的帆启航了。" * 300, 2052)],
)
def test_a_prompt_that_ollama_has_cut_is_an_error_with_the_fix(text: str, n_read: int, at: At) -> None:
    usage = {"prompt_tokens": n_read, "completion_tokens": 1}
    with ollama("m", loaded={"m": 4096}) as server, closing(Models(ModelSettings(), Listener())) as servers:
        at(ollama=server)
        generator = servers.load("local")
        server.default = stream("blue", usage=usage)
        with pytest.raises(FbragError, match=f"context has 4,096 tokens, and it read {n_read:,}") as raised:
            generator.generate([Message("user", text)], 1, Sampling(64))
        assert "OLLAMA_CONTEXT_LENGTH=" in (raised.value.hint or "")


def test_a_prompt_that_was_read_whole_is_none(at: At) -> None:
    with ollama("m", loaded={"m": 4096}) as server, closing(Models(ModelSettings(), Listener())) as servers:
        at(ollama=server)
        generator = servers.load("local")
        for n_sentences, n_read in ((205, 2050), (370, 3700)):
            server.default = stream("blue", usage={"prompt_tokens": n_read, "completion_tokens": 1})
            assert (
                generator.generate(
                    [Message("user", "The brig sailed at noon with a torn sail. " * n_sentences)], 1, Sampling(64)
                ).prompt_tokens
                == n_read
            )


def test_lm_studio_is_asked_for_its_routes_without_waiting(at: At) -> None:
    with lm_studio("m", loaded={"m": 6000}) as server, closing(Models(ModelSettings(), Listener())) as servers:
        at(lm_studio=server)
        begun = monotonic()
        assert servers.load("local").info.context_tokens == 6000
        assert monotonic() - begun < 2
        assert [each.path for each in server.asked].count("/props") == 1
