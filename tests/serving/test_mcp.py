"""`fbrag mcp` as an agent's client meets it: the SDK's own client, over a real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import psutil
import pytest

from tests.conftest import INQUIRY, ROOT
from tests.generation.tiny_gguf import Tiny
from tests.servers import Handler, Loopback, stream, stuck

pytest.importorskip("mcp", reason="needs the SDK of the Model Context Protocol: pip install -e '.[test]'")

QUESTION = "Where was the anchor that lost its fluke forged?"
PLACE = "inquiry.txt"
PATIENCE = 60  # seconds, beyond which something hangs

Client = Any
Test = Callable[[Client], Awaitable[None]]


@pytest.fixture
def tiny(tmp_path: Path) -> list[str]:
    """The options of a pair of random models, which answer nonsense at once."""
    path = Tiny(weights=0.3, context=65_536).write(tmp_path / "tiny.gguf")
    return ["--small", str(path), "--large", str(path)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The working folder of the server."""
    found = tmp_path / "papers"
    found.mkdir()
    (found / PLACE).write_bytes(INQUIRY.read_bytes())
    return found


@asynccontextmanager
async def opened(folder: Path, environment: Mapping[str, str], options: list[str], log: Path) -> AsyncIterator[Client]:
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    command = [sys.executable, "-m", "fbrag_cli", "mcp", *options]
    paths = [environment.get("HOOKS", ""), str(ROOT), *sys.path[1:]]
    environment = {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    server = StdioServerParameters(command=command[0], args=command[1:], env=environment, cwd=folder)
    with log.open("w") as errors:
        async with Client(stdio_client(server, errlog=errors)) as client:
            yield client


@pytest.fixture
def served(folder: Path, clean_environment: dict[str, str], tmp_path: Path) -> Callable[..., None]:
    """Runs a test with a client. The server's log is log.txt beside its folder."""

    def run(test: Test, *options: str) -> None:
        async def main() -> None:
            with anyio.fail_after(120):
                async with opened(folder, clean_environment, [*options], tmp_path / "log.txt") as client:
                    await test(client)

        anyio.run(main)

    return run


def server_of(folder: Path) -> psutil.Process:
    """The server's process, among other children of this one."""
    return next(each for each in psutil.Process().children() if Path(each.cwd()) == folder)


def asked(**more: Any) -> dict[str, Any]:
    return {"paths": [PLACE], "question": QUESTION, **more}


def test_each_tool_says_what_it_takes_and_refuses_what_it_does_not(served: Callable[..., None]) -> None:
    async def test(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        names = ["list_documents", "find_passages", "ask_document", "ask_result", "explain_selection", "read_passage"]
        assert [*tools] == names
        for tool in tools.values():
            assert tool.description
            assert "\n" not in tool.description
            assert tool.annotations.read_only_hint
            assert tool.input_schema["additionalProperties"] is False
            for schema in (tool.input_schema, tool.output_schema):
                assert [name for name, about in fields(schema) if not about.get("description")] == []
        assert tools["find_passages"].input_schema["properties"]["top_k"]["maximum"] == 50
        for wrong in ({"top_k": 0}, {"top_k": "five"}, {"paths": []}, {"paths": "[1]"}, {"question": ""}):
            found = await client.call_tool("find_passages", asked() | wrong)
            assert found.is_error, wrong
            assert next(iter(wrong)) in fault_of(found)
        misspelled = await client.call_tool("find_passages", {"path": PLACE, "question": QUESTION})
        assert fault_of(misspelled) == "path: there is no such key"
        assert misspelled.structured_content["error"]["hint"] == "did you mean paths?"
        for more in ({"preset": "slow"}, {"more": 10}, {"model": "gpt-4"}):
            assert fault_of(await client.call_tool("ask_document", asked(**more))).startswith(next(iter(more)))
        unknown = await client.call_tool("ask", {})
        assert fault_of(unknown) == "there is no tool ask"
        assert unknown.structured_content["error"]["hint"].startswith("did you mean ask_")
        for tool in ("find_passages", "ask_document", "explain_selection"):
            for question, fault in (("x" * 100_000, "more than 10,000 characters"), ("?!", "no letter"), ("Who\0?", "NUL")):
                found = await client.call_tool(tool, asked(question=question))
                assert found.is_error
                assert found.structured_content["error"]["code"] == "usage"
                assert fault in found.structured_content["error"]["message"]
        whole = await client.call_tool("read_passage", {"path": PLACE, "start_line": 1.0, "end_line": 2.0})
        assert not whole.is_error  # JSON has no other whole numbers
        folder = await client.call_tool("read_passage", {"path": ".", "start_line": 1, "end_line": 2})
        assert "is a folder" in folder.content[0].text
        for first, last, fault in ((50, 10, "the last comes before the first"), (5000, 6000, "inquiry.txt has 1079")):
            lines = await client.call_tool("read_passage", {"path": PLACE, "start_line": first, "end_line": last})
            assert fault_of(lines) == f"lines {first} to {last}: {fault}"

    served(test)


def fault_of(result: Any) -> str:
    """What an error of a tool says, which is `fbrag.error/1`."""
    assert result.is_error
    assert json.loads(result.content[0].text) == result.structured_content
    assert result.structured_content["schema"] == "fbrag.error/1"
    return str(result.structured_content["error"]["message"])


def test_the_documents_that_may_be_read_are_listed(served: Callable[..., None], folder: Path, tmp_path: Path) -> None:
    (tmp_path / "more" / "sub").mkdir(parents=True)
    names = [f"sub/{i}.txt" for i in range(40)]
    for name in (*names, ".hidden.txt", "picture.png"):
        (tmp_path / "more" / name).write_text("The lamp was made in Brackness.\n")

    async def test(client: Client) -> None:
        assert str(folder) in client.instructions
        assert str(tmp_path / "more") in client.instructions
        listed: list[str] = []
        offset: int | None = 0
        while offset is not None:
            found = (await client.call_tool("list_documents", {"offset": offset, "max_chars": 2000})).structured_content
            assert (len(json.dumps(found)) <= 2000, found["found"]) == (True, 41)
            listed += [each["document"] for each in found["documents"]]
            offset = found["next_offset"]
        assert listed == [str(folder / PLACE), *(str(tmp_path / "more" / name) for name in names)]
        some = (await client.call_tool("list_documents", {"paths": ["."]})).structured_content
        assert some["documents"] == [{"document": str(folder / PLACE), "bytes": INQUIRY.stat().st_size}]

    served(test, "--allow", str(folder), "--allow", str(tmp_path / "more"))


def test_the_passages_that_did_not_fit_are_found_by_their_offset(served: Callable[..., None]) -> None:
    async def test(client: Client) -> None:
        async def found(**about: Any) -> Any:
            return (await client.call_tool("find_passages", asked(**about))).structured_content

        whole = [each["chunk"] for each in (await found(top_k=9, max_chars=100_000))["passages"]]
        several: list[int] = []
        offset: int | None = 0
        while offset is not None and len(several) < len(whole):
            part = await found(top_k=4, offset=offset, max_chars=2500)
            several += [each["chunk"] for each in part["passages"]]
            offset = part["next_offset"]
        assert several[: len(whole)] == whole
        assert (await found(offset=1000))["passages"] == []

    served(test)


def test_presets_and_more_change_what_is_read(served: Callable[..., None], tiny: list[str]) -> None:
    async def test(client: Client) -> None:
        n_read = {}
        for preset, more in (("fast", 0), ("default", 0), ("default", 1), ("thorough", 0)):
            found = await client.call_tool("ask_document", asked(preset=preset, more=more, wait_s=100, max_chars=100_000))
            n_read[preset, more] = len({each["chunk"] for each in found.structured_content["sources"]})
        assert max(n_read["fast", 0], n_read["default", 0]) < min(n_read["thorough", 0], n_read["default", 1])

    served(test, *tiny)


def test_a_job_that_waits_for_another_says_so(served: Callable[..., None]) -> None:
    begun, free = threading.Event(), threading.Event()

    def waiting(handler: Handler, body: dict[str, Any]) -> None:
        begun.set()
        free.wait(PATIENCE)
        stream("The Ironhythe works.")(handler, body)

    async def test(client: Client) -> None:
        await client.call_tool("ask_document", asked(wait_s=0))
        await anyio.to_thread.run_sync(begun.wait, PATIENCE)  # the second could come first
        stage, second = "", ""
        while stage != "waiting":  # once it has read its documents
            record = (await client.call_tool("ask_document", asked(question="Who made the lamp?", wait_s=0.1))).structured_content
            stage, second = record["stage"], record["job"]
        free.set()
        done = await client.call_tool("ask_result", {"job": second, "wait_s": PATIENCE})
        assert done.structured_content["status"] in ("answered", "not_found")

    with Loopback() as models:
        models.default = waiting
        served(test, "--small", models.address, "--large", models.address)


def test_struck_out_text_is_read_on_demand(served: Callable[..., None], folder: Path) -> None:
    (folder / "fee.html").write_text("<!doctype html><p>The yearly fee is <del>120 euros</del> 150 euros.</p>")
    plain, marked = "The yearly fee is 150 euros.", "The yearly fee is ~~120 euros~~ 150 euros."

    async def test(client: Client) -> None:
        for markup, text in ((False, plain), (True, marked)):
            found = await client.call_tool("find_passages", asked(paths=["fee.html"], question="the fee", markup=markup))
            assert [each["text"] for each in found.structured_content["passages"]] == [text]
            lines = {"path": "fee.html", "start_line": 1, "end_line": 1, "markup": markup}
            assert (await client.call_tool("read_passage", lines)).structured_content["text"] == text

    served(test)


def test_results_are_as_their_schemas_say(served: Callable[..., None], tiny: list[str]) -> None:
    async def test(client: Client) -> None:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        begun = await client.call_tool("ask_document", asked(wait_s=0))
        job = begun.structured_content["job"]
        for name, arguments in (
            ("list_documents", {}),
            ("find_passages", asked()),
            ("ask_result", {"job": job, "wait_s": 100}),
            ("ask_document", asked(wait_s=100)),
            ("explain_selection", asked(find="Lavinia", wait_s=100)),
            ("read_passage", {"path": PLACE, "start_line": 1, "end_line": 3}),
        ):
            record = (await client.call_tool(name, arguments)).structured_content
            for schema in (schemas[name], closed(schemas[name])):
                jsonschema.validate(record, schema)
        jsonschema.validate(begun.structured_content, closed(schemas["ask_document"]))

    served(test, *tiny)


def fields(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The fields of all objects of a schema, with what it says of each."""
    for each in (schema, *schema.get("$defs", {}).values()):
        yield from each.get("properties", {}).items()


def closed(schema: Any) -> Any:
    """A schema of which no record may have other keys."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    more = {"additionalProperties": False} if "properties" in schema else {}
    return {key: closed(value) for key, value in schema.items()} | more


# A folder without end: each folder below it holds one more. Writes a byte for each that is listed.
ENDLESS = """
import contextlib, os, time
listed = os.scandir
class Below:
    name = "below"
    def is_dir(self, **more): return True
def endless(path="."):
    if "endless" not in str(path):
        return listed(path)
    with open(os.environ["MARK"], "a") as mark:
        mark.write(".")
    time.sleep(0.01)
    return contextlib.nullcontext([Below()])
os.scandir = endless
"""


def test_the_walk_of_a_folder_is_reported_and_stops(
    served: Callable[..., None], folder: Path, clean_environment: dict[str, str], tmp_path: Path
) -> None:
    (folder / "endless").mkdir()
    (tmp_path / "sitecustomize.py").write_text(ENDLESS)
    mark = tmp_path / "mark"
    clean_environment |= {"HOOKS": str(tmp_path), "MARK": str(mark)}
    said: list[str] = []

    async def test(client: Client) -> None:
        with anyio.CancelScope() as scope:

            async def heard(progress: float, total: float | None, message: str | None) -> None:
                said.append(message or "")
                scope.cancel()

            await client.call_tool("find_passages", asked(paths=["endless"]), progress_callback=heard)
        assert scope.cancelled_caught
        listed = -1
        while listed < (listed := mark.stat().st_size):  # it goes on
            await anyio.sleep(0.5)

    served(test)
    assert said == ["reading documents"]


def test_passages_are_found_without_a_model(served: Callable[..., None]) -> None:
    async def test(client: Client) -> None:
        found = await client.call_tool("find_passages", asked(top_k=2))
        first, second = found.structured_content["passages"]
        assert first["document"] == PLACE
        assert "forged at the\nIronhythe works" in first["text"]
        assert first["start_line"] <= 390 <= first["end_line"]
        assert first["relative_score"] > second["relative_score"]
        assert json.loads(found.content[0].text) == found.structured_content
        around = await client.call_tool("read_passage", {"path": PLACE, "start_line": 390, "end_line": 391})
        assert "Ironhythe works" in around.structured_content["text"]
        assert around.structured_content["start_line"] == 390

    served(test, "--large", "nowhere.gguf")


def test_a_question_without_a_word_of_the_document_finds_nothing(served: Callable[..., None]) -> None:
    async def test(client: Client) -> None:
        found = await client.call_tool("find_passages", asked(question="zzzq"))
        assert not found.is_error
        assert found.structured_content["passages"] == []

    served(test)


def test_a_word_of_one_of_two_chunks_is_found(served: Callable[..., None], folder: Path) -> None:
    words = " ".join(f"lot {i} was sold" for i in range(60))
    (folder / "two.txt").write_text(f"{words}.\n\nThe Garefowl was built at Harrow. {words}.\n")

    async def test(client: Client) -> None:
        found = await client.call_tool(
            "find_passages", {"paths": [str(folder / "two.txt")], "question": "Who built the Garefowl?"}
        )
        (passage,) = found.structured_content["passages"]
        assert "Garefowl" in passage["text"]
        assert found.structured_content["warnings"] == []

    served(test)


def test_what_comes_back_is_bounded(served: Callable[..., None]) -> None:
    async def test(client: Client) -> None:
        for most in (1000, 2000, 5000):
            found = await client.call_tool("find_passages", asked(top_k=20, max_chars=most))
            passages = found.structured_content["passages"]
            assert 0.5 * most < len(json.dumps(found.structured_content, ensure_ascii=False)) <= most
            assert sum(len(each["text"]) for each in passages) > 0.2 * most
            assert passages[0]["text"]
        lines = await client.call_tool("read_passage", {"path": PLACE, "start_line": 1, "end_line": 400, "max_chars": 1000})
        assert len(json.dumps(lines.structured_content, ensure_ascii=False)) <= 1000
        assert lines.structured_content["truncated"]

    served(test)


def test_a_slow_answer_is_a_job_which_is_asked_for(served: Callable[..., None], tiny: list[str]) -> None:
    async def test(client: Client) -> None:
        begun = await client.call_tool("ask_document", asked(wait_s=0))
        assert begun.structured_content["status"] == "running"
        job = begun.structured_content["job"]
        again = await client.call_tool("ask_document", asked(wait_s=0))
        assert again.structured_content["job"] == job
        done = await client.call_tool("ask_result", {"job": job, "wait_s": 100})
        assert done.structured_content["status"] in ("answered", "not_found")
        assert done.structured_content["sources"][0]["document"] == PLACE
        assert not done.is_error
        unknown = await client.call_tool("ask_result", {"job": "nothing"})
        assert unknown.is_error

    served(test, *tiny)


def test_a_selection_is_explained(served: Callable[..., None], tiny: list[str]) -> None:
    async def test(client: Client) -> None:
        told = await client.call_tool("explain_selection", asked(find="property of Mrs. Lavinia Goss", wait_s=100))
        record = told.structured_content
        assert record["found"] == 1
        (holder,) = [row for row in record["chunks"] if row["contains_text"]]
        assert holder["rank"] >= 1
        assert len(record["samples"]) == 3

    served(test, *tiny)


def test_progress_is_strictly_increasing(served: Callable[..., None]) -> None:
    steps: list[tuple[float, str]] = []
    enough = threading.Event()

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, message or ""))
        if len(steps) == 3:
            enough.set()

    def patient(handler: Handler, body: dict[str, Any]) -> None:
        handler.begin()
        handler.piece("- The")
        enough.wait(PATIENCE)
        handler.piece(" anchor.", finish="stop")
        handler.event("[DONE]")

    async def test(client: Client) -> None:
        await client.call_tool("ask_document", asked(wait_s=PATIENCE), progress_callback=heard)

    with Loopback() as models:
        models.default = patient
        served(test, "--small", models.address, "--large", models.address)
    assert len(steps) >= 3
    assert all(before < after for (before, _), (after, _) in pairwise(steps))
    assert any("written" in message for _, message in steps)


def test_a_cancelled_call_stops_its_model(served: Callable[..., None]) -> None:
    gone = threading.Event()

    def endless(handler: Handler, body: dict[str, Any]) -> None:
        handler.begin()
        with suppress(OSError):
            while not handler.server.over.wait(0.05):
                handler.piece("and ")
            return
        gone.set()

    async def test(client: Client) -> None:
        with anyio.CancelScope() as scope:

            async def heard(progress: float, total: float | None, message: str | None) -> None:
                if "written" in (message or ""):
                    scope.cancel()

            await client.call_tool("ask_document", asked(wait_s=PATIENCE), progress_callback=heard)
        assert scope.cancelled_caught
        assert await anyio.to_thread.run_sync(gone.wait, PATIENCE), "the model still writes"
        found = await client.call_tool("find_passages", asked())
        assert not found.is_error

    with Loopback() as models:
        models.default = endless
        served(test, "--small", models.address, "--large", models.address)


def test_a_job_that_another_call_waits_for_goes_on(served: Callable[..., None]) -> None:
    begun, free = threading.Event(), threading.Event()

    def waiting(handler: Handler, body: dict[str, Any]) -> None:
        begun.set()
        free.wait(PATIENCE)
        stream("The Ironhythe works.")(handler, body)

    async def test(client: Client) -> None:
        impatient, begun = anyio.CancelScope(), anyio.Event()

        async def first_call() -> None:
            async def heard(progress: float, total: float | None, message: str | None) -> None:
                begun.set()

            with impatient:
                await client.call_tool("ask_document", asked(wait_s=PATIENCE), progress_callback=heard)

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            impatient.cancel()  # now both wait
            if impatient.cancelled_caught:
                free.set()

        async with anyio.create_task_group() as group:
            group.start_soon(first_call)
            await begun.wait()
            found = await client.call_tool("ask_document", asked(wait_s=PATIENCE), progress_callback=heard)
        assert not found.is_error
        assert found.structured_content["status"] in ("answered", "not_found")

    with Loopback() as models:
        models.default = waiting
        served(test, "--small", models.address, "--large", models.address)


def test_two_calls_at_once_get_their_own_answers(served: Callable[..., None], tiny: list[str], folder: Path) -> None:
    (folder / "lamp.txt").write_text("The lamp of the Skarn Light was made in Brackness by Ada Quill.\n")

    async def test(client: Client) -> None:
        found: dict[str, Any] = {}

        async def ask(path: str, question: str) -> None:
            arguments = {"paths": [path], "question": question, "wait_s": 100}
            found[path] = (await client.call_tool("ask_document", arguments)).structured_content

        async with anyio.create_task_group() as group:
            group.start_soon(ask, PLACE, QUESTION)
            group.start_soon(ask, "lamp.txt", "Who made the lamp?")
        for path, record in found.items():
            assert record["status"] in ("answered", "not_found")
            assert {source["document"] for source in record["sources"]} == {path}

    served(test, *tiny)


def test_only_files_below_the_allowed_folders_are_read(served: Callable[..., None], folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("The key is under the stone.")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    outside = ("../secret.txt", str(tmp_path / "secret.txt"), "link.txt", "/etc/hostname", "papers/../../secret.txt", "~/x", "..")
    nothing = ("-", "https://example.org/x.txt", "a\0b", "none.txt", "x" * 4000)

    async def test(client: Client) -> None:
        for path in (*outside, *nothing):
            for name, arguments in (
                ("find_passages", {"paths": [PLACE, path], "question": "Where is the key?"}),
                ("read_passage", {"path": path, "start_line": 1, "end_line": 9}),
            ):
                found = await client.call_tool(name, arguments)
                assert found.is_error, path
                assert "stone" not in found.content[0].text

    served(test)


def test_names_that_are_no_utf8_nor_stdin_are_names_of_files(served: Callable[..., None], folder: Path) -> None:
    (folder / "odd").mkdir()
    try:
        (folder / "odd" / os.fsdecode(b"caf\xe9.txt")).write_text("The lamp was made in Brackness.\n")
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    (folder / "-").write_text("The lamp was lost at Stennick.\n")

    async def test(client: Client) -> None:
        for path, word in (("odd", "Brackness"), ("-", "Stennick")):
            found = await client.call_tool("find_passages", {"paths": [path], "question": "What became of the lamp?"})
            assert word in found.content[0].text
        long = await client.call_tool("find_passages", asked(paths=["x" * 4000]))
        assert long.structured_content["error"]["code"] == "doc_not_found"

    served(test)


def test_a_desk_that_does_not_open_says_so_each_time(served: Callable[..., None]) -> None:
    async def test(client: Client) -> None:
        for _ in range(2):
            found = await client.call_tool("find_passages", asked())
            assert "--offline prevents" in found.content[0].text

    served(test, "--offline", "--small", "http://example.org:1")


def test_other_folders_are_allowed_by_name(served: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "lamp.txt").write_text("The lamp of the Skarn Light was made in Brackness.\n")

    async def test(client: Client) -> None:
        found = await client.call_tool(
            "find_passages", {"paths": [str(tmp_path / "more")], "question": "Where was the lamp made?"}
        )
        assert "Brackness" in found.content[0].text
        refused = await client.call_tool("find_passages", asked())
        assert refused.is_error

    served(test, "--allow", str(tmp_path / "more"))


def test_lists_and_numbers_may_come_as_text(served: Callable[..., None], folder: Path) -> None:
    """Some clients send the JSON of a list or of a number as a string, whatever the schema says."""
    for name in ("[a].txt", "2024"):
        (folder / name).write_text("The lamp was made in Brackness.\n")

    async def test(client: Client) -> None:
        both = json.dumps([PLACE, str(folder / "2024")])
        for paths, documents in ((json.dumps([PLACE]), {PLACE}), (PLACE, {PLACE}), ("[a].txt", {"[a].txt"}), ("2024", {"2024"})):
            found = await client.call_tool("find_passages", {"paths": paths, "question": "Where was the lamp made?"})
            assert {each["document"] for each in found.structured_content["passages"]} == documents
        found = await client.call_tool("find_passages", {"paths": both, "question": "lamp", "top_k": "1", "max_chars": "2000"})
        assert len(found.structured_content["passages"]) == 1
        lines = await client.call_tool("read_passage", {"path": PLACE, "start_line": "3", "end_line": "4"})
        assert (lines.structured_content["start_line"], lines.structured_content["end_line"]) == (3, 4)

    served(test)


def test_a_text_that_looks_like_json_is_found_as_it_is(served: Callable[..., None], tiny: list[str], folder: Path) -> None:
    (folder / "code.txt").write_text('The default is null, or ["a"].\n')

    async def test(client: Client) -> None:
        for text, n in (("null", 1), ('["a"]', 1), ("[2]", 0), (None, None)):
            arguments = {"paths": ["code.txt"], "question": "What is the default?", "find": text, "wait_s": 100}
            assert (await client.call_tool("explain_selection", arguments)).structured_content["found"] == n

    served(test, *tiny)


def test_a_relative_path_is_looked_for_in_each_allowed_folder(served: Callable[..., None], folder: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "both.txt").write_text("The lamp was made in Brackness.\n")
    (tmp_path / "two" / "sub" / "lamp.txt").write_text("The lamp was made in Stennick.\n")
    (tmp_path / "two" / unicodedata.normalize("NFD", "Gebühren.txt")).write_text("The lamp cost 8 crowns.\n")

    async def test(client: Client) -> None:
        async def find(path: str) -> Any:
            return (await client.call_tool("find_passages", {"paths": [path], "question": "lamp"})).structured_content

        assert "Stennick" in (await find("sub/lamp.txt"))["passages"][0]["text"]
        assert "Stennick" in (await find("sub/../sub/lamp.txt"))["passages"][0]["text"]
        assert "crowns" in (await find(unicodedata.normalize("NFC", "Gebühren.txt")))["passages"][0]["text"]
        several = (await find("both.txt"))["error"]
        assert several["message"] == "both.txt is in several folders"
        assert several["hint"] == f"name one of {tmp_path / 'one' / 'both.txt'}, {tmp_path / 'two' / 'both.txt'}"
        misspelled = (await find("sub/lmap.txt"))["error"]
        assert (misspelled["code"], misspelled["hint"]) == ("doc_not_found", f"there are {tmp_path / 'two' / 'sub' / 'lamp.txt'}")
        outside = (await find(str(folder / PLACE)))["error"]
        assert str(tmp_path / "one") in outside["message"]
        assert "--allow" in outside["hint"]
        assert "error" in await find("../papers/inquiry.txt")

    served(test, "--allow", str(tmp_path / "one"), "--allow", str(tmp_path / "two"))


def test_the_end_of_input_ends_the_process(served: Callable[..., None], folder: Path) -> None:
    servers: list[psutil.Process] = []

    async def test(client: Client) -> None:
        servers.append(server_of(folder))
        begun = await client.call_tool("ask_document", asked(wait_s=0))
        assert begun.structured_content["status"] == "running"

    with Loopback() as models:
        models.default = stuck("The")
        served(test, "--small", models.address, "--large", models.address)
    assert not servers[0].is_running()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize("number", [2, 15])
def test_a_signal_ends_the_process_while_its_input_is_open(folder: Path, clean_environment: dict[str, str], number: int) -> None:
    command = [sys.executable, "-m", "fbrag_cli", "mcp"]
    environment = {**clean_environment, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, env=environment) as server:
        try:
            assert server.stdin
            assert server.stdout
            server.stdin.write(ping)
            server.stdin.flush()
            assert server.stdout.readline()  # it serves
            server.send_signal(signal.Signals(number))
            assert server.wait(PATIENCE) == 128 + number
        finally:
            server.kill()


def test_stdout_is_the_protocols_alone(served: Callable[..., None], tiny: list[str], tmp_path: Path) -> None:
    """The client reads each line as a message: another one would be an error there."""

    async def test(client: Client) -> None:
        found = await client.call_tool("ask_document", asked(wait_s=100))
        assert not found.is_error

    served(test, "-vv", *tiny)
    assert "llama" in (tmp_path / "log.txt").read_text()


def test_a_missing_model_is_an_error_with_its_command(served: Callable[..., None]) -> None:
    async def test(client: Client) -> None:
        found = await client.call_tool("ask_document", asked(wait_s=60))
        assert found.is_error
        assert found.structured_content["error"]["code"] == "model_missing"

    served(test, "--large", "nowhere.gguf", "--small", "nowhere.gguf")
