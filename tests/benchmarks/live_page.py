"""Seconds of the routes of the live page over HTTP, medians: a book ten times over as one document, and a folder of letters.

    python tests/benchmarks/live_page.py ../shared/books/pride-and-prejudice.txt

"read and opened": the page, its outline and the first window of a document that nobody has read before. "opened anew": the same
by a new server, with the document in the cache. No model is loaded.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.storage.cache import Cache
from tests.generation.tiny_gguf import Tiny
from tests.serving.live_server import Live, live, pair

_TIMES = 20
_COPIES = 10
_LETTERS, _LENGTH = 5000, 4000  # files, and characters of each


def measured(call: Callable[[int], object], times: int = _TIMES) -> float:
    found = []
    for i in range(times):
        begun = time.perf_counter()
        call(i)
        found.append(time.perf_counter() - begun)
    return statistics.median(found)


def fetched(server: Live, path: str) -> int:
    """Return the bytes of a response."""
    response = server.send("GET", path)
    assert response.status == 200, response.read()
    return len(response.read())


def table(server: Live, what: str) -> None:
    """Print the seconds of each route."""
    n = server.get("/page/outline")[1]["n_chunks"]
    routes = {
        "outline": lambda i: "/page/outline",
        "12 chunks": lambda i: f"/page/chunks?first={(at := (n - 12) * i // _TIMES)}&end={at + 12}",
        "200 chunks": lambda i: f"/page/chunks?first={(at := (n - 200) * i // _TIMES)}&end={at + 200}",
        "find": lambda i: f"/page/find?text={quote('Lady Catherine')}",
    }
    for name, path_of in routes.items():
        size = fetched(server, path_of(0))
        median = measured(lambda i, path_of=path_of: fetched(server, path_of(i)))  # type: ignore[misc]
        print(f"| {name}, {what} | {median:.4f} | {size / 1000:.0f} |", flush=True)


def main(book: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        text, cache = Path(book).read_text("utf-8"), Cache(Path(folder) / "cache")
        path, letters = Path(folder) / "book.txt", Path(folder) / "letters"
        path.write_text(text * _COPIES, "utf-8")
        letters.mkdir()
        for i in range(_LETTERS):
            at = i * 1400 % (len(text) - _LENGTH)
            (letters / f"{i:05}.txt").write_text(f"Letter {i}. {text[at : at + _LENGTH]}", "utf-8")
        models: ModelSettings = pair(Tiny().write(Path(folder) / "tiny.gguf"))

        def opened(document: Path) -> tuple[float, int]:
            with live(models, [str(document)], cache=cache) as server:
                begun = time.perf_counter()
                fetched(server, "/")
                n_bytes = fetched(server, "/page/outline") + fetched(server, "/page/chunks?first=0&end=12")
                return time.perf_counter() - begun, n_bytes

        found = {path: f"a book of {_COPIES} novels", letters: f"a folder of {_LETTERS} letters"}
        print("| route | seconds | kB |\n|---|---|---|")
        for document, what in found.items():
            print(f"| read and opened, {what} | {opened(document)[0]:.2f} | |", flush=True)
            seconds, n_bytes = zip(*(opened(document) for _ in range(5)), strict=True)
            print(f"| opened anew, {what} | {statistics.median(seconds):.3f} | {n_bytes[0] / 1000:.0f} |")
            with live(models, [str(document)], cache=cache) as server:
                table(server, what)


if __name__ == "__main__":
    main(sys.argv[1])
