"""`local`: the servers of this machine are found, and the loaded model is taken. Stand-ins answer as Ollama and LM Studio do."""

from __future__ import annotations

import socket
import zlib
from contextlib import ExitStack, closing, suppress
from time import monotonic
from typing import Any

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Sampling, Turn
from fbrag_cli.generation.server.address import Address, check_offline, is_elsewhere, is_server
from fbrag_cli.generation.server.listing import of_lm_studio, of_ollama, of_openai
from fbrag_cli.generation.server.local import PLACES, Chosen, Place, choose, find, places
from fbrag_cli.progress import Event, Listener
from fbrag_cli.session.servers import Servers
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.session.shelf import Lease
from tests.servers import Handler, Loopback, Reply, lm_studio, ollama, status, stream, stuck

HERE = ("127.0.0.1",)
SHORT = [Turn("user", "Where is the key?")]


class Newer(Loopback):
    """A server on the IPv6 address of loopback."""

    address_family = socket.AF_INET6


def at(**servers: Loopback | int) -> list[Place]:
    """Return the places of servers or ports, by the short names of their programs."""
    names = {"ollama": "Ollama", "lm_studio": "LM Studio", "llama": "llama-server"}
    ports = {name: each if isinstance(each, int) else each.port for name, each in servers.items()}
    return [Place(names[name], port, HERE) for name, port in ports.items()]


def chosen(where: list[Place], name: str = "") -> Chosen:
    return choose(find(where), where, name)


def refusal(where: list[Place], name: str = "") -> FbragError:
    with pytest.raises(FbragError) as raised:
        chosen(where, name)
    assert raised.value.code == "model_missing"
    return raised.value


@pytest.fixture
def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


# -- the model that is taken -------------------------------------------------------------------------------------------------


def test_the_loaded_model_of_ollama_is_taken() -> None:
    with ollama("llama3.2:3b", "qwen3.5:4b", "nomic-embed-text:latest", loaded={"qwen3.5:4b": 8192}) as server:
        found = chosen(at(ollama=server))
        assert found.described == f"Ollama at 127.0.0.1:{server.port}, qwen3.5:4b, loaded"
        assert found.address == f"{server.address}#qwen3.5:4b"
        assert found.model.context_tokens == 8192
        assert {each.method for each in server.asked} == {"GET"}


@pytest.mark.parametrize("older", [False, True])
def test_the_loaded_model_of_lm_studio_is_taken(older: bool) -> None:
    names = ("text-embedding-nomic-embed-text-v1.5", "google/gemma-4-e4b", "qwen/qwen3.5-4b")
    with lm_studio(*names, loaded={"qwen/qwen3.5-4b": 16000, names[0]: 2048}, older=older) as server:
        found = chosen(at(lm_studio=server))
        assert found.described == f"LM Studio at 127.0.0.1:{server.port}, qwen/qwen3.5-4b, loaded"
        assert found.model.context_tokens == 16000
        assert Address.parse(found.address) == Address(server.address, "qwen/qwen3.5-4b")


def test_the_model_of_llama_cpps_own_server_is_taken(llama_cpp_server: str) -> None:
    port = int(llama_cpp_server.removesuffix("/v1").rpartition(":")[2])
    found = chosen(at(llama=port))
    assert found.server.program == "llama-server"
    assert (found.model.loaded, found.model.context_tokens) == (True, 2048)
    assert found.model.name.endswith(".gguf")


def test_llama_cpps_own_server_answers_as_local(llama_cpp_server: str) -> None:
    port = int(llama_cpp_server.removesuffix("/v1").rpartition(":")[2])
    with closing(Servers(ModelSettings(), Listener(), at(llama=port))) as servers:
        generator = servers.open("local", Lease(Listener()), answers=True)
        assert generator.info.context_tokens == 2048
        assert generator.continues_turns
        assert generator.generate(SHORT, 1, Sampling(4, temperature=0)).samples[0].text


def test_a_server_on_both_addresses_of_loopback_is_one_and_one_on_the_newer_is_found() -> None:
    try:
        server = Newer(host="::1")
    except OSError:
        pytest.skip("no IPv6 on this machine")
    with server:
        port = int(server.server_address[1])
        (only,) = find([Place("llama-server", port)])
        assert (only.where, only.base) == (f"a server at [::1]:{port}", f"http://[::1]:{port}/v1")
        with Loopback(port=port):
            (both,) = find([Place("llama-server", port)])
            assert both.host == "127.0.0.1"


def test_the_model_of_another_openai_compatible_server_is_taken() -> None:
    with Loopback() as server:
        assert chosen(at(llama=server)).described == f"a server at 127.0.0.1:{server.port}, tiny, loaded"


def test_of_several_servers_the_one_with_a_loaded_model_is_taken() -> None:
    with ollama("a:1b", "b:1b") as first, lm_studio("c", "d", loaded={"d": 4096}) as second:
        assert chosen(at(ollama=first, lm_studio=second)).model.name == "d"


def test_a_model_that_is_there_alone_is_taken_though_it_is_not_loaded() -> None:
    with ollama("qwen3.5:4b", "nomic-embed-text:latest", "gpt-oss:120b-cloud") as server:
        assert chosen(at(ollama=server)).described.endswith(", qwen3.5:4b, not loaded yet")


def test_several_that_are_not_loaded_are_named() -> None:
    with ollama("llama3.2:3b", "qwen3.5:4b") as server:
        error = refusal(at(ollama=server))
    assert error.message == (
        f"local: 2 models are there, and none is loaded: Ollama at 127.0.0.1:{server.port} (llama3.2:3b, qwen3.5:4b)"
    )
    assert error.hint == "name one of them: 'local#llama3.2:3b', 'local#qwen3.5:4b'"


def test_two_servers_with_loaded_models_are_both_named() -> None:
    with ollama("qwen3.5:4b", loaded={"qwen3.5:4b": 4096}) as first, lm_studio("gemma", loaded={"gemma": 4096}) as second:
        where = at(ollama=first, lm_studio=second)
        error = refusal(where)
        assert "2 models are loaded: Ollama at " in error.message
        assert f"; LM Studio at 127.0.0.1:{second.port} (gemma)" in error.message
        assert error.hint == "name one of them: 'local#qwen3.5:4b', 'local#gemma'"
        assert chosen(where, "gemma").server.program == "LM Studio"


def test_one_name_at_two_servers_is_told_apart_by_its_address() -> None:
    with ollama("m", loaded={"m": 4096}) as first, lm_studio("m", loaded={"m": 4096}) as second:
        error = refusal(at(ollama=first, lm_studio=second), "m")
    assert error.hint == f"name one of them: '{first.address}#m', '{second.address}#m'"


def test_a_name_takes_a_model_that_is_not_loaded_and_a_misspelled_one_names_the_nearest() -> None:
    with ollama("llama3.2:latest", "qwen3.5:4b", loaded={"qwen3.5:4b": 4096}) as server:
        assert chosen(at(ollama=server), "llama3.2").model.name == "llama3.2:latest"
        error = refusal(at(ollama=server), "qwen3.5:9b")
    assert "no server of this machine has a model qwen3.5:9b, but Ollama at" in error.message
    assert error.hint == "name one of them: 'local#qwen3.5:4b'"


def test_a_model_in_a_cloud_is_none_of_this_machine() -> None:
    with ollama("gpt-oss:120b-cloud", "kimi-k3:cloud", loaded={}) as server:
        error = refusal(at(ollama=server))
    assert "has no model that chats on this machine" in error.message
    assert error.hint == "ollama pull NAME, or: fbrag models pull"


def test_a_model_in_ollamas_cloud_is_said_to_leave_this_machine_and_offline_forbids_it() -> None:
    told: list[Event] = []
    listener = Listener(progress=told.append)
    with ollama("gpt-oss:120b-cloud") as server, closing(Servers(ModelSettings(), listener)) as servers:
        servers.open(f"{server.address}#gpt-oss:120b-cloud", Lease(listener), answers=True)
        (warning,) = (each.text for each in told if each.kind == "warning")
        assert "which sends it to https://ollama.com:443: it leaves this machine" in (warning or "")
        with pytest.raises(FbragError, match="for which Ollama sends the text to its cloud"):
            check_offline([f"{server.address}#gpt-oss:120b-cloud"])
        with pytest.raises(FbragError, match="forbids kimi-k3:cloud, for which"):
            check_offline([f"{server.address}#kimi-k3%3Acloud"])
        check_offline(["local", "local#qwen3.5:4b", server.address])


def test_a_cloud_of_an_ollama_at_another_port_is_left_out_or_said() -> None:
    """Its models are listed there as those of any server are. A copy of one has a name that says nothing."""
    told: list[Event] = []
    listener = Listener(progress=told.append)
    with ollama("qwen3.5:4b", "gpt-oss:120b-cloud") as server:
        assert chosen(at(llama=server)).model.name == "qwen3.5:4b"
    with ollama("mine") as server, closing(Servers(ModelSettings(), listener, at(llama=server))) as servers:
        server.pages["/api/tags"]["models"][0]["remote_host"] = "https://ollama.com:443"
        with pytest.raises(FbragError, match="--offline forbids mine, for which"):
            servers.open("local", Lease(listener), answers=True, offline=True)
        assert {each.method for each in server.asked} == {"GET"}
        servers.open("local", Lease(listener), answers=True)
    assert "it leaves this machine" in "".join(each.text or "" for each in told if each.kind == "warning")


# -- nobody, and what is no server of models ---------------------------------------------------------------------------------


def test_nobody_is_one_line_with_the_ports_and_what_to_do(free_port: int) -> None:
    begun = monotonic()
    error = refusal(at(ollama=free_port))
    assert monotonic() - begun < 1
    assert error.message == f"local: no model server on this machine at the ports {free_port} (Ollama)"
    assert error.hint
    assert "fbrag models pull" in error.hint


@pytest.mark.parametrize(
    "page", ["<html>hello</html>", "[]", "null", '{"data": 3}', "{" * 100_000, "\x00", '{"data": [{"id": ["a"]}, 7, null]}']
)
def test_something_else_on_a_port_is_said_and_does_no_harm(page: str) -> None:
    with Loopback() as server, ollama("a", loaded={"a": 4096}) as other:
        server.pages = dict.fromkeys(("/v1/models", "/api/tags", "/api/ps", "/api/v1/models", "/api/v0/models", "/props"), page)
        for program in ("ollama", "lm_studio", "llama"):
            assert chosen([*at(**{program: server}), *at(ollama=other)]).model.name == "a"
        refusal(at(llama=server))


def test_servers_that_never_answer_are_left_within_a_second_all_at_once(free_port: int) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(Loopback()) for _ in range(3)]
        for each in silent:
            each.pages, each.missing = {}, stuck()
        where = at(ollama=silent[0], lm_studio=silent[1], llama=silent[2])
        begun = monotonic()
        error = refusal(where)
        assert monotonic() - begun < 2
    assert f"Ollama at 127.0.0.1:{silent[0].port}: no reply within 1 s" in error.message


def endless(handler: Handler, body: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while True:
            handler.wfile.write(b'{"data": [' + b" " * 100_000)


def compressed(handler: Handler, body: dict[str, Any]) -> None:
    data = zlib.compress(b" " * 10_000_000)
    handler.send_response(200)
    handler.send_header("Content-Encoding", "deflate")
    handler.end_headers()
    handler.wfile.write(data)


def trickling(handler: Handler, body: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while not handler.server.over.wait(0.05):
            handler.wfile.write(b" ")


@pytest.mark.parametrize("reply", [endless, compressed, trickling])
def test_a_server_that_sends_too_much_or_too_slowly_is_left(reply: Reply) -> None:
    with Loopback() as server, ollama("a", loaded={"a": 4096}) as other:
        server.pages, server.missing = {}, reply
        begun = monotonic()
        assert chosen([*at(llama=server), *at(ollama=other)]).model.name == "a"
        assert monotonic() - begun < 3


def test_a_server_that_demands_a_key_is_said_and_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FBRAG_KEY", "sk-secret")
    with Loopback() as server:
        server.pages, server.missing = {}, status(401, {"error": {"message": "Invalid API Key"}})
        error = refusal(at(llama=server))
        assert f"llama-server at 127.0.0.1:{server.port} demands a key" in error.message
        assert error.hint == f"name it, with --key-file FILE: {server.address}"
        assert not any("Authorization" in each.headers for each in server.asked)


def test_a_redirect_is_not_followed() -> None:
    with ollama("a") as elsewhere, Loopback() as server:
        server.pages, server.missing = {}, status(307, Location=f"http://127.0.0.1:{elsewhere.port}/api/tags")
        refusal(at(ollama=server))
        assert elsewhere.asked == []


def test_names_of_any_shape_and_a_thousand_models_do_no_harm() -> None:
    odd: list[Any] = ["x\x1b[31m", "", 3, None, "y" * 500, "new\nline", "\u202eevil"]
    with ollama(*(f"model-{n}:1b" for n in range(1000))) as server:
        server.pages["/api/tags"]["models"] += [{"model": name} for name in odd]
        begun = monotonic()
        error = refusal(at(ollama=server))
        assert monotonic() - begun < 3
    assert "local: 1,000 models are there" in error.message
    assert len(error.message) < 500
    assert error.message.isprintable()


@pytest.mark.parametrize("value", [None, 0, -1, True, "4096", 4096.0, 2**70])
def test_a_context_that_is_none_is_not_known(value: object) -> None:
    ps = {"models": [{"model": "a", "context_length": value}]}
    (found,) = of_ollama({"models": [{"model": "a"}]}, ps) or []
    assert (found.loaded, found.context_tokens) == (True, None)


def test_models_of_a_router_are_loaded_by_their_state() -> None:
    states = {"a": "loaded", "b": "unloaded", "c": "sleeping", "bge-m3": "loaded"}
    found = of_openai(
        {"data": [{"id": name, "status": {"value": state}, "meta": {"n_ctx": 8192}} for name, state in states.items()]}
    )
    assert [(each.name, each.loaded) for each in found or ()] == [("a", True), ("b", False), ("c", True)]


def test_an_instance_of_lm_studio_has_a_name_of_its_own() -> None:
    instances = [{"id": name, "config": {"context_length": 8000}} for name in ("k", "k:2")]
    found = of_lm_studio({"models": [{"key": "k", "type": "llm", "loaded_instances": instances}]})
    assert [each.name for each in found or ()] == ["k", "k:2"]


# -- where they are looked for -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "hosts", "port"),
    [
        ("", ("127.0.0.1", "::1"), 11434),
        (":11500", ("127.0.0.1", "::1"), 11500),
        ("127.0.0.2:11500", ("127.0.0.2",), 11500),
        ("http://localhost:11500/", ("127.0.0.1", "::1"), 11500),
        ("0.0.0.0", ("127.0.0.1", "::1"), 11434),
        ("[::1]:11500", ("::1",), 11500),
        ("192.168.1.7:11500", ("127.0.0.1", "::1"), 11434),
        ("https://example.org", ("127.0.0.1", "::1"), 11434),
        ("127.0.0.1:99999", ("127.0.0.1",), 11434),
        ("\x00nonsense:::", ("127.0.0.1", "::1"), 11434),
    ],
)
def test_ollama_host_moves_ollamas_place_on_loopback_alone(text: str, hosts: tuple[str, ...], port: int) -> None:
    first, *others = places({"OLLAMA_HOST": text})
    assert (first.hosts, first.port) == (hosts, port)
    assert tuple(others) == PLACES[1:]


def test_the_places_are_the_ports_that_the_programs_have_by_default() -> None:
    assert [(each.program, each.port) for each in places({})] == [("Ollama", 11434), ("LM Studio", 1234), ("llama-server", 8080)]
    try:
        server = ollama("qwen3.5:4b", loaded={"qwen3.5:4b": 4096}, port=11434)
    except OSError:
        pytest.skip("port 11434 is in use")
    with server:
        assert "Ollama at 127.0.0.1:11434" in [each.where for each in find(places({}))]


@pytest.mark.parametrize("name", ["local", "local#qwen3.5:4b"])
def test_local_is_a_server_of_this_machine(name: str) -> None:
    assert is_server(name)
    assert not is_elsewhere(name)
    assert not is_server(name.replace("local", "locals"))


# -- as a model --------------------------------------------------------------------------------------------------------------


def test_local_is_looked_for_once_and_said_in_one_line() -> None:
    told: list[Event] = []
    listener = Listener(progress=told.append)
    with ollama("qwen3.5:4b", loaded={"qwen3.5:4b": 8192}) as server:
        with closing(Servers(ModelSettings(), listener, at(ollama=server))) as servers:
            identity = servers.identity("local", listener)
            generator = servers.open("local", Lease(listener), answers=True)
            assert servers.origins == [f"Ollama at 127.0.0.1:{server.port} (qwen3.5:4b)"]
            assert generator.info.name == f"{server.address}#qwen3.5:4b"
            assert generator.info.context_tokens == 8192
            assert generator.generate(SHORT, 1, Sampling(8)).samples[0].text == "It is blue."
        assert [each.text for each in told if each.kind == "note"] == [
            f"local: Ollama at 127.0.0.1:{server.port}, qwen3.5:4b, loaded"
        ]
        with closing(Servers(ModelSettings(), listener)) as servers:
            assert servers.identity(f"{server.address}#qwen3.5:4b", listener) == identity
        server.pages["/api/tags"]["models"][0]["digest"] = "another"
        with closing(Servers(ModelSettings(), listener, at(ollama=server))) as servers:
            assert servers.identity("local", listener) != identity


def test_another_loaded_model_is_another_key_of_the_cache() -> None:
    keys = []
    for name in ("a", "b"):
        with (
            ollama("a", "b", loaded={name: 4096}) as server,
            closing(Servers(ModelSettings(), Listener(), at(ollama=server))) as it,
        ):
            keys.append(it.identity("local", Listener())[1:])
    assert keys[0] != keys[1]


@pytest.mark.parametrize("address", [True, False])
def test_the_context_of_a_model_that_ollama_loads_is_known_when_it_is_loaded(address: bool) -> None:
    with ollama("qwen3.5:4b", loads=4096) as server, closing(Servers(ModelSettings(), Listener(), at(ollama=server))) as servers:
        name = f"{server.address}#qwen3.5:4b" if address else "local"
        assert servers.open(name, Lease(Listener()), answers=True).info.context_tokens == 4096


def test_a_prompt_that_cannot_fit_ollamas_context_is_an_error_and_is_not_sent() -> None:
    with ollama("m", loaded={"m": 4096}) as server, closing(Servers(ModelSettings(), Listener(), at(ollama=server))) as servers:
        generator = servers.open("local", Lease(Listener()), answers=True)
        with pytest.raises(FbragError, match="its context has 4,096 tokens") as raised:
            generator.generate([Turn("user", "The brig sailed at noon. " * 2000)], 1, Sampling(64))
        assert raised.value.code == "prompt_too_long"
        assert (raised.value.hint or "").startswith("set OLLAMA_CONTEXT_LENGTH=32768 where Ollama starts, or read less")
        assert server.chats == []


@pytest.mark.parametrize(
    ("text", "n_read"),
    [("The brig sailed at noon with a torn sail. " * 600, 2050), ("那艘双桅船在中午时分带着一面撕裂的帆启航了。" * 300, 2052)],
)
def test_a_prompt_that_ollama_has_cut_is_an_error_with_the_fix(text: str, n_read: int) -> None:
    usage = {"prompt_tokens": n_read, "completion_tokens": 1}
    with ollama("m", loaded={"m": 4096}) as server, closing(Servers(ModelSettings(), Listener(), at(ollama=server))) as servers:
        generator = servers.open("local", Lease(Listener()), answers=True)
        server.default = stream("blue", usage=usage)
        with pytest.raises(FbragError, match=f"context has 4,096 tokens, and it read {n_read:,}") as raised:
            generator.generate([Turn("user", text)], 1, Sampling(64))
        assert "OLLAMA_CONTEXT_LENGTH=" in (raised.value.hint or "")


def test_a_prompt_that_was_read_whole_is_none() -> None:
    with ollama("m", loaded={"m": 4096}) as server, closing(Servers(ModelSettings(), Listener(), at(ollama=server))) as servers:
        generator = servers.open("local", Lease(Listener()), answers=True)
        for n_sentences, n_read in ((205, 2050), (370, 3700)):
            server.default = stream("blue", usage={"prompt_tokens": n_read, "completion_tokens": 1})
            assert (
                generator.generate(
                    [Turn("user", "The brig sailed at noon with a torn sail. " * n_sentences)], 1, Sampling(64)
                ).prompt_tokens
                == n_read
            )


def test_lm_studio_is_asked_for_its_routes_without_waiting() -> None:
    with (
        lm_studio("m", loaded={"m": 6000}) as server,
        closing(Servers(ModelSettings(), Listener(), at(lm_studio=server))) as servers,
    ):
        begun = monotonic()
        assert servers.open("local", Lease(Listener()), answers=True).info.context_tokens == 6000
        assert monotonic() - begun < 2
        assert [each.path for each in server.asked].count("/props") == 1
