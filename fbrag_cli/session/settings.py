"""Settings of a session: which models on which devices, how documents are read, what the cache may hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from fbrag_cli.progress import Event, Progress, silent
from fbrag_cli.settings import knob

if TYPE_CHECKING:
    from fbrag_cli.storage.cache import Cache


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """large, small: names, paths or addresses of servers, None for the default pair. key_file: holds the key of the servers."""

    group: ClassVar[str] = "Models"

    large: str | None = knob(
        None,
        "model that answers: a name of 'fbrag models list', a GGUF file, a server (http://host:port/v1#name), or local, "
        "the server that runs here",
        flags=("-m", "--large"),
        metavar="MODEL",
    )
    small: str | None = knob(None, "model that looks forward, named as for --large", metavar="MODEL")
    key_file: str | None = knob(None, "file with the key of the model servers", varies="else FBRAG_KEY", metavar="FILE")
    gpu: Literal["auto", "off", "require"] = knob(
        "auto", "GPU use: auto, off, or require, which exits 5 unless all layers are on the GPU"
    )
    gpu_layers: str = knob(
        "auto", "layers of the large model on the GPU: auto, all or a number", words=("auto", "all"), expert=True
    )
    device: str | None = knob(
        None, "GPUs for the models, as doctor names them: CUDA0,CUDA1", varies="all", expert=True, metavar="NAMES"
    )
    tensor_split: str | None = knob(
        None, "shares of the GPUs in the large model: 3,1", varies="by their free memory", expert=True, metavar="X,Y,…"
    )
    threads: int | None = knob(
        None, "CPU threads", varies="the physical cores", flags=("-t", "--threads"), minimum=1, maximum=512
    )
    ctx: int | None = knob(None, "tokens of context, at most", varies="the model's own length", minimum=256, expert=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSettings:
    """Which files are read, and how."""

    group: ClassVar[str] = "Document"

    pages: str | None = knob(None, "pages of a PDF, as 3-9,12 or 3-", varies="all", metavar="PAGES", once=True)
    encoding: str | None = knob(None, "encoding of text files", varies="detected", metavar="NAME")
    lang: str | None = knob(None, "language of the documents: de, german", varies="found by their words", metavar="NAME")
    comments: bool = knob(False, "read comments and notes on the text as well")
    include: list[str] = knob((), "files of a folder to read", varies="all known types", metavar="GLOB", once=True)
    exclude: list[str] = knob((), "files and folders of a folder to leave out", metavar="GLOB", once=True)
    strict: bool = knob(False, "end the run at a file that cannot be read")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """What the cache holds, and what is taken from it. cache_limit: GB (10^9 bytes)."""

    group: ClassVar[str] = "Run"

    no_cache: bool = knob(False, "read the documents anew, and cache nothing of them")
    again: bool = knob(False, "ask the models anew, and replace what is cached of their replies", once=True)
    cache_limit: float = knob(
        5.0, "size of the cache in GB, at most", varies="5", minimum=0, maximum=1e9, expert=True, metavar="GB"
    )

    def opened(self, *, private: bool = False, progress: Progress = silent) -> Cache:
        """Return the user's cache. With `no_cache`, for private documents, or where its folder cannot be used, return a cache
        that holds nothing; the last makes a warning.
        """
        from fbrag_cli.storage.cache import NOWHERE, Cache
        from fbrag_cli.storage.paths import cache_dir, is_nowhere

        if self.no_cache or private:
            return NOWHERE
        cache = Cache(cache_dir(), int(self.cache_limit * 1e9))
        if cache.usable:
            return cache
        nowhere = "this user has no home, and so no cache"
        why = nowhere if is_nowhere(cache.root) else f"{cache.root} cannot be used as the cache"
        what = f"{why}: each question reads the documents anew"
        progress(Event("cache", "warning", text=what))
        progress(Event("cache", "hint", text="set FBRAG_CACHE_DIR to a folder that can be written, or use --no-cache"))
        return NOWHERE
