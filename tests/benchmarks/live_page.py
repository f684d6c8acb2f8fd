"""Seconds of the routes of the live page over HTTP on a large document: a book, ten times over. Medians, after one call each.

    python tests/benchmarks/live_page.py ../shared/books/pride-and-prejudice.txt

"opened anew": outline and first window of a document that another process has read, in a new process. No model is loaded.
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


def main(book: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, cache = Path(folder) / "book.txt", Cache(Path(folder) / "cache")
        path.write_text(Path(book).read_text("utf-8") * _COPIES, "utf-8")
        models: ModelSettings = pair(Tiny().write(Path(folder) / "tiny.gguf"))

        def opened() -> tuple[float, int]:
            with live(models, [str(path)], cache=cache) as server:
                begun = time.perf_counter()
                fetched(server, "/")
                n_bytes = fetched(server, "/page/outline") + fetched(server, "/page/chunks?first=0&end=12")
                return time.perf_counter() - begun, n_bytes

        print(f"read and opened the first time: {opened()[0]:.2f} s")
        seconds, n_bytes = zip(*(opened() for _ in range(5)), strict=True)
        print(f"opened anew: {statistics.median(seconds):.3f} s, {n_bytes[0] / 1000:.0f} kB")
        print("| route | seconds | kB |\n|---|---|---|")
        with live(models, [str(path)], cache=cache) as server:
            n = server.get("/page/outline")[1]["n_chunks"]
            routes = {
                "/page/outline": lambda i: "/page/outline",
                "12 chunks": lambda i: f"/page/chunks?first={(at := n * i // _TIMES)}&end={at + 12}",
                "200 chunks": lambda i: f"/page/chunks?first={(at := (n - 200) * i // _TIMES)}&end={at + 200}",
                "find": lambda i: f"/page/find?text={quote('Lady Catherine')}",
            }
            for name, path_of in routes.items():
                size = fetched(server, path_of(0))
                median = measured(lambda i, path_of=path_of: fetched(server, path_of(i)))  # type: ignore[misc]
                print(f"| {name} | {median:.4f} | {size / 1000:.0f} |")


if __name__ == "__main__":
    main(sys.argv[1])
