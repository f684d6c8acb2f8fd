"""The load test of `fbrag serve`: 50 questions at once, the process after 200 of them, and work whose client has gone.

Each document has its own keeper, so a reply with another one's name, document or question is one that was mixed up.

python -m tests.benchmarks.serving [--model smollm2-135m] [--clients 50] [--warm-up 40] [--questions 200] [--rows rows.jsonl]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

import psutil

from tests.documents.test_pdf import pdf

KEEPERS = (
    "Abel Thorne", "Beatrix Quill", "Cyrus Wend", "Dinah Frost", "Edgar Lumley", "Flora Peake", "Gideon Marsh", "Hester Voss",
    "Ivor Crane", "Judith Sallow",
)  # fmt: skip
PLACES = ("Aldmouth", "Brackness", "Corran", "Dunlathe", "Ebbing", "Farrow", "Garvel", "Holm", "Inver", "Jarl")
PDF = "large.pdf"  # may be named, and is not read before
_FILLER = "The {thing} of {place} was painted in the spring of 18{year}, and the book of the harbour says little more about it. "
_THINGS = ("lamp", "boat", "bell", "stair", "store", "flag", "rail", "tank", "gate", "clock")
_IDLE = 0.05  # of a core: a process that uses less does nothing
_INTO_IT = 1.0  # after which a question is in the middle of a prompt of a real model
_PATIENCE = 900  # seconds of a request
_HURRY = 5.0  # seconds that a client waits before it asks again, at most


@dataclass(frozen=True)
class Reply:
    """What came back for a question. status: 0 where the connection failed."""

    document: int
    question: str
    status: int
    body: Any
    seconds: float
    retry_after: str | None = None

    @property
    def kind(self) -> str:
        if self.status == 429:
            return "429" if (self.retry_after or "").isdigit() else "429 without Retry-After"
        if self.status != 200:
            return "failed"
        names = {source["document"] for source in self.body["sources"]}
        own = [self.body["question"] == self.question, names == {_path(self.document)}]
        others = [each for i, each in enumerate(KEEPERS) if i != self.document and each in json.dumps(self.body)]
        return "answered" if all(own) and not others else "mixed up"


class Over(HTTPConnection):
    """A connection over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_PATIENCE)
        self.sock.connect(self._path)


class Server:
    """A process of `fbrag serve` in a folder of its own."""

    def __init__(self, folder: Path, documents: Sequence[str], models: Sequence[str]) -> None:
        self.folder, self.documents, self.models = folder, documents, models
        self.environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
        for name in ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR"):
            place = folder / name.lower() if name != "TMPDIR" else folder / "tmp"
            place.mkdir(mode=0o700, exist_ok=True)
            self.environment[name] = str(place)
        self.start()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        begun = monotonic()
        self.popen = self.run("serve", "--print-ready", "--allow", ".", *self.models, *self.documents, stdout=subprocess.PIPE)
        assert self.popen.stdout
        self.socket = json.loads(self.popen.stdout.readline())["socket"]
        self.seconds = monotonic() - begun
        self.process = psutil.Process(self.popen.pid)

    def run(self, *words: str, **pipes: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "fbrag_cli", *words]
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, text=True, **{"stderr": subprocess.PIPE, **pipes})

    def ask(self, document: int, question: str, **more: Any) -> Reply:
        """Ask one question of one document, and return what comes back."""
        begun = monotonic()
        try:
            connection = self.sent(question, [_path(document)], **more)
            response = connection.getresponse()
            body = json.loads(response.read())
            connection.close()
        except (OSError, HTTPException, ValueError) as error:
            return Reply(document, question, 0, {"error": repr(error)}, monotonic() - begun)
        return Reply(document, question, response.status, body, monotonic() - begun, response.headers["Retry-After"])

    def sent(self, question: str, documents: Sequence[str], **more: Any) -> Over:
        """Return the connection of a question that runs."""
        connection = Over(self.socket)
        connection.request("POST", "/v1/ask", _body(question, documents, **more), {"Content-Type": "application/json"})
        return connection

    def memory(self) -> float:
        """Resident memory in MB, once it does nothing."""
        self.wait_idle()
        return self.process.memory_info().rss / 1e6

    def traces(self) -> dict[str, int]:
        """The numbers of what may be left over. A process keeps its threads for requests; they are bounded."""
        self.wait_idle()
        files = [each for name in ("xdg_runtime_dir", "tmp") for each in (self.folder / name).rglob("*") if not each.is_dir()]
        return {
            "children": len(self.process.children(recursive=True)),
            "threads": self.process.num_threads(),
            "descriptors": self.process.num_fds(),
            "files": len(files),
        }

    def busy(self, seconds: float = 0.1) -> bool:
        """Whether it, or a child, computes."""
        before, begun = self._used(), monotonic()
        sleep(seconds)
        return (self._used() - before) / (monotonic() - begun) > _IDLE or bool(self.process.children())

    def wait_idle(self) -> float:
        """Wait until it does nothing. Return the seconds."""
        begun = monotonic()
        while self.busy():
            pass
        return monotonic() - begun

    def _used(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)


def _path(document: int) -> str:
    return f"harbour-{document}.txt"


def _body(question: str, documents: Sequence[str], **more: Any) -> str:
    return json.dumps({"question": question, "documents": [*documents], **more})


def documents(folder: Path, n_words: int) -> list[str]:
    """Write a document for each keeper. Return their paths."""
    for i, (keeper, place) in enumerate(zip(KEEPERS, PLACES, strict=True)):
        text = f"The keeper of the lighthouse of {place} is {keeper}. "
        for j in range(n_words // 20):
            text += _FILLER.format(thing=_THINGS[j % 10], place=place, year=10 + j % 80)
        (folder / _path(i)).write_text(text + "\n")
    return [_path(i) for i in range(len(KEEPERS))]


def write_pdf(path: Path, n_pages: int) -> None:
    """Write a PDF of pages of 40 lines."""
    lines = b"\n".join([b"The lamp of the lighthouse was painted in the spring." for _ in range(40)])
    path.write_bytes(pdf(*[lines] * n_pages))


def parrot(folder: Path) -> str:
    """Write a model that says yes to everything at once. Return its path."""
    from tests.generation.parrot_gguf import END, Parrot, saying
    from tests.generation.test_thought import REMOVES

    script = {**saying("<|assistant|>", "y", "e", "s", END), ":": "y"}
    model = Parrot(script=script, template=REMOVES, marks=("<|user|>", "<|assistant|>"), context=65_536)
    return str(model.write(folder / "parrot.gguf"))


def questions(n: int, first: int = 0) -> list[tuple[int, str]]:
    """Return documents with questions, all of them different."""
    asked = range(first, first + n)
    return [(i % 10, f"Who is the keeper of the lighthouse of {PLACES[i % 10]} in year {i}?") for i in asked]


def at_once(server: Server, asked: Sequence[tuple[int, str]], n: int, *, patient: bool) -> tuple[list[Reply], int]:
    """Ask from `n` clients at once. Return the last reply to each question, and how often a client was sent away.

    patient: whether a client that is sent away comes again.
    """
    todo, replies, sent_away, lock = [*asked], list[Reply](), [0], threading.Lock()

    def client() -> None:
        while True:
            with lock:
                if not todo:
                    return
                document, question = todo.pop(0)
            while (reply := server.ask(document, question)).kind == "429" and patient:
                with lock:
                    sent_away[0] += 1
                sleep(min(_HURRY, float(reply.retry_after or 1)))
            with lock:
                replies.append(reply)

    threads = [threading.Thread(target=client) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replies, sent_away[0]


def counts(replies: Sequence[Reply]) -> str:
    found = Counter(reply.kind for reply in replies)
    kinds = ["answered", "429", *(sorted(found.keys() - {"answered", "429"}) or ["failed", "mixed up"])]
    return ", ".join(f"{found[kind]} {kind}" for kind in kinds)


def stopped(server: Server, question: str, documents: Sequence[str], **more: Any) -> str:
    """Ask, go away while it works, and return the seconds until it does nothing."""
    server.wait_idle()
    connection = server.sent(question, documents, **more)
    begun = monotonic()
    while not server.busy() and monotonic() - begun < 5:
        pass
    sleep(0.7)
    assert server.busy(), "it was done before its client went"
    connection.sock.close()
    return f"{server.wait_idle():.1f} s"


def ended(command: subprocess.Popen[str], errors: str) -> str:
    return f"exit {command.returncode}: {errors.strip().splitlines()[0] if errors.strip() else 'nothing said'}"


def killed(server: Server) -> Iterator[tuple[str, str]]:
    """Kill the server while it answers a command. Yield what the command says, and what the next server does."""
    server.wait_idle()
    question = "Who painted the bell of Aldmouth, and in which spring?"
    command = server.run("ask", _path(0), question, *server.models, stdout=subprocess.PIPE)
    while not server.busy():
        pass
    sleep(_INTO_IT)
    server.popen.kill()
    server.popen.wait()
    _, errors = command.communicate(timeout=_PATIENCE)
    yield "`fbrag ask` whose server was killed", ended(command, errors)
    left = Path(server.socket).exists()
    server.start()
    reply = server.ask(*questions(1, 5000)[0])
    yield "next start", f"{server.seconds:.1f} s, {'beside a stale socket, ' if left else ''}{reply.kind}"


def measured(server: Server, n_clients: int, n_warm_up: int, n_questions: int) -> Iterator[tuple[str, str, str]]:
    """Yield what was measured, its figure, and its bar."""
    yield "start", f"{server.seconds:.1f} s", ""
    at_once(server, questions(n_warm_up), n_clients, patient=True)  # its threads and their memory are there from now on
    memory, traces = server.memory(), server.traces()
    replies, _ = at_once(server, questions(n_clients, 1000), n_clients, patient=False)
    slowest = max((reply.seconds for reply in replies if reply.status == 429), default=0)
    yield f"{n_clients} questions at once", counts(replies), "answered or 429, none mixed up"
    yield "slowest 429", f"{slowest:.2f} s", ""
    replies, away = at_once(server, questions(n_clients, 2000), n_clients, patient=True)
    yield f"the same, who is sent away comes again ({away} times)", counts(replies), "all answered"
    begun = monotonic()
    replies, _ = at_once(server, questions(n_questions, 3000), 4, patient=True)
    pace = n_questions / (monotonic() - begun)
    yield f"{n_questions} more, 4 at once, {pace:.1f} a second", counts(replies), "all answered"
    yield "growth of memory", f"{server.memory() - memory:.1f} MB (from {memory:.0f})", "10 MB"
    after = server.traces()
    yield "left over", ", ".join(f"{after[name] - n:+d} {name}" for name, n in traces.items()), "0 children, files"
    lamp = "Which lamp was painted first?"
    yield "client goes while a prompt is read", stopped(server, lamp, server.documents, settings={"recall": "12"}), "1 s"
    yield "client goes while a PDF is read", stopped(server, lamp, [PDF]), "1 s"
    second = server.run("serve", *server.models)
    _, errors = second.communicate(timeout=_PATIENCE)
    yield "second server of the same user", ended(second, errors), "finds the first"
    for what, figure in killed(server):
        yield what, figure, ""
    server.popen.send_signal(signal.SIGTERM)
    server.popen.wait(_PATIENCE)
    files = [each for each in (server.folder / "xdg_runtime_dir").rglob("*") if not each.is_dir()]
    yield "end by SIGTERM", f"exit {server.popen.returncode}, {len(files)} files left", "0 files"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m", help="small and large model; parrot: one that takes no time")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--warm-up", type=int, default=40, help="questions before the memory is measured")
    parser.add_argument("--questions", type=int, default=200, help="questions after which it is measured again")
    parser.add_argument("--words", type=int, default=300, help="of each document")
    parser.add_argument("--pages", type=int, default=1000, help="of the PDF")
    parser.add_argument("--rows", type=Path, help="file for the figures, as JSON lines")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        model = parrot(Path(folder)) if options.model == "parrot" else options.model
        write_pdf(Path(folder) / PDF, options.pages)
        server = Server(Path(folder), documents(Path(folder), options.words), ["--small", model, "--large", model])
        rows = []
        print("| what | figure | bar |\n|---|---|---|", flush=True)
        try:
            for what, figure, bar in measured(server, options.clients, options.warm_up, options.questions):
                print(f"| {what} | {figure} | {bar} |", flush=True)
                rows.append({"what": what, "figure": figure, "bar": bar, "model": options.model})
        finally:
            server.popen.kill()
    if options.rows:
        options.rows.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
