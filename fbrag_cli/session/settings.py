"""Settings of a session: models and devices, how to read documents, what to cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fbrag_cli.progress import Event, Progress, silent
from fbrag_cli.settings import knob

if TYPE_CHECKING:
    from fbrag_cli.storage.cache import Cache


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """large, small: names, paths or URLs of servers, None for the default pair. key_file: file with the API key of the
    servers."""

    large: str | None = knob(
        None,
        "model for the answer: a name from 'fbrag models list', a GGUF file, a server (http://host:port/v1#model), or "
        "'local', a model server on this machine",
    )
    small: str | None = knob(None, "model for the forward samples (same forms as --large)")
    key_file: str | None = knob(None, "file with the API key for the model server", path="FILE")
    gpu: Literal["auto", "off", "require"] = knob("auto", "use the GPU: auto, off, or require (fail unless all layers fit)")
    gpu_layers: str = knob("auto", "layers of the large model on the GPU: auto, all, or a number", words=("auto", "all"))
    device: str | None = knob(None, "GPUs to use, as named by 'fbrag doctor': CUDA0,CUDA1")
    tensor_split: str | None = knob(None, "how to split the large model across GPUs: 3,1")
    threads: int | None = knob(None, "CPU threads", minimum=1, maximum=512)
    ctx: int | None = knob(None, "limit the context, in tokens", minimum=256)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSettings:
    """Which files to read, and how."""

    pages: str | None = knob(None, "read only these PDF pages, e.g. 3-9,12 or 3-")
    encoding: str | None = knob(None, "encoding of text files")
    lang: str | None = knob(None, "language of the documents: de, german")
    markup: bool = knob(False, "also read comments, tracked deletions, hidden and struck-out text")
    ocr: Literal["auto", "off", "all"] = knob(
        "auto",
        "read scanned pages: auto (if OCR is installed), off, or all (again, and pictures in folders)",
    )
    include: list[str] = knob((), "read only files in folders that match GLOB")
    exclude: list[str] = knob((), "skip files and folders that match GLOB")
    strict: bool = knob(False, "fail if any file cannot be read")

    @property
    def chosen(self) -> tuple[list[str], list[str], bool]:
        """What decides which files of a folder are read: patterns of those that are, and of those that are not; whether pictures
        are."""
        return self.include, self.exclude, self.ocr == "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """What to cache, and what to take from the cache. cache_limit: GB (10^9 bytes)."""

    no_cache: bool = knob(False, "don't read or write the cache")
    refresh: bool = knob(False, "ignore cached texts and answers: read and ask again")
    cache_limit: float = knob(5.0, "limit the size of the cache, in GB", minimum=0, maximum=1e9)

    def opened(self, *, private: bool = False, progress: Progress = silent) -> Cache:
        """Return the user's cache. With `no_cache`, for private documents, or if its folder cannot be used, return a cache that
        holds nothing; the last case also reports a warning.
        """
        from fbrag_cli.storage.cache import NOWHERE, Cache
        from fbrag_cli.storage.paths import cache_dir, is_nowhere

        if self.no_cache or private:
            return NOWHERE
        cache = Cache(cache_dir(), int(self.cache_limit * 1e9))
        if cache.usable:
            return cache
        why = "this user has no home directory" if is_nowhere(cache.root) else f"{cache.root} cannot be used"
        what = f"caching is off: {why}"
        progress(Event("cache", "warning", text=what))
        progress(Event("cache", "hint", text="set FBRAG_CACHE_DIR to a writable folder, or use --no-cache"))
        return NOWHERE
