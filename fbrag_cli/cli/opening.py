"""What `ask` and `explain` open before they begin: the documents and the question, and the models."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, BinaryIO

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.options import CacheOptions, DocumentOptions, MethodOptions, ModelOptions
from fbrag_cli.cli.progress_line import stage
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Progress
from fbrag_cli.session.placement import placement
from fbrag_cli.trace import MethodSettings

if TYPE_CHECKING:
    from concurrent.futures import Future

    from fbrag_cli.generation.cached import CachedGenerator
    from fbrag_cli.generation.llama.generator import LlamaGenerator
    from fbrag_cli.generation.llama.machine import Placement
    from fbrag_cli.indexing.collect import Collection
    from fbrag_cli.models.store import ModelFile
    from fbrag_cli.storage.cache import Cache

# Chunks that Stage I recalls and Stage II selects: on a CPU reading the prompt is what takes the time.
_RECALL_SELECT = {"cpu": (8, 5), "gpu": (20, 10)}

_MOST_WARNINGS = 20  # about documents, on stderr


def open_collection(
    document: DocumentOptions, chunk_words: int, cache: Cache, console: Console, progress: Progress
) -> tuple[Collection, str]:
    """The corpus of the documents with its index, and the question, which comes last. "-" stands for stdin, once."""
    *paths, question = document.arguments
    is_document = question != "-" and os.path.exists(question)
    if not paths or is_document:
        what = f"{question!r} is a document, not a question" if is_document else "a document and a question are needed"
        raise FbragError("usage", what, 'the question comes last: fbrag ask book.txt "Who …?"')
    if [*document.arguments, document.password_file].count("-") > 1:
        raise FbragError("usage", "'-' stands for stdin, which can be read only once", "name a file in place of one of them")
    if question == "-":
        question = _read_stdin(console).decode("utf-8", "replace")
    if not (question := question.strip()):
        raise FbragError("usage", "the question is empty", 'put it last, in quotes: fbrag ask book.txt "Who …?"')
    return collect_documents(paths, document, chunk_words, cache, console, progress), question


def collect_documents(
    paths: Sequence[str], options: DocumentOptions, chunk_words: int, cache: Cache, console: Console, progress: Progress
) -> Collection:
    """The corpus of the files, folders and stdin that `paths` name, with its index; what is to be warned of is told."""
    password = _password(options.password_file, console)
    stdin = _stdin(console) if "-" in paths else None
    with stage(progress, "read"):
        from fbrag_cli.indexing.collect import collect, collect_one
        from fbrag_cli.indexing.digest import Reading
        from fbrag_cli.indexing.files import find_files
        from fbrag_cli.text.languages import resolve

        language = None if options.lang is None else resolve(options.lang)
        reading = Reading(chunk_words, options.encoding, options.pages, language, password)
        findings = find_files(paths, options.include, options.exclude)
        if len(findings.files) == 1 and not any(map(os.path.isdir, paths)):
            collection = collect_one(findings.files[0].path, reading, cache, stdin, progress)
        else:
            collection = collect(findings.files, reading, cache, strict=options.strict, stdin=stdin, progress=progress)
    collection = replace(collection, warnings=(*findings.warnings, *collection.warnings))
    _warn(collection, console)
    return collection


def _warn(collection: Collection, console: Console) -> None:
    of_documents = (warning for document in collection.corpus.documents for warning in document.warnings)
    warnings = [*collection.warnings, *of_documents]
    for warning in warnings[:_MOST_WARNINGS]:
        console.warn(warning)
    if len(warnings) > _MOST_WARNINGS:
        console.warn(f"and {len(warnings) - _MOST_WARNINGS} more like these (--json lists all)")


@contextmanager
def open_cache(options: CacheOptions, console: Console, *, private: bool) -> Iterator[Cache]:
    """The user's cache; with --no-cache, for private documents, or where it cannot be used, one that goes with the run."""
    from fbrag_cli.storage.cache import Cache, cache_dir

    cache = Cache(cache_dir(os.environ), int(options.cache_limit * 1e9))
    if not options.no_cache and not private:
        if cache.usable:
            try:
                yield cache
            finally:
                cache.trim()
            return
        console.note(f"{cache.root} cannot be used as the cache: what is read is not kept", level=1)
    with tempfile.TemporaryDirectory(prefix="fbrag-") as folder:
        yield Cache(Path(folder) / "cache")


def _password(path: str | None, console: Console) -> str | None:
    if path is None:
        return None
    try:
        raw = _read_stdin(console) if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise FbragError("usage", f"the password file {path} cannot be read: {error.strerror}", "check its path") from None
    return raw.decode("utf-8", "replace").rstrip("\r\n")


def _read_stdin(console: Console) -> bytes:
    return _stdin(console).read()


def _stdin(console: Console) -> BinaryIO:
    if sys.stdin.isatty():
        console.hint("reading stdin, end with Ctrl-D")
    return sys.stdin.buffer


# -- models ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelPair:
    """The files of the two models, None for one that is not needed; both may be the same."""

    small: ModelFile | None
    large: ModelFile | None

    @property
    def files(self) -> tuple[ModelFile, ...]:
        """Each once."""
        return tuple(dict.fromkeys(file for file in (self.small, self.large) if file))


def find_models(options: ModelOptions, console: Console, *, need_small: bool = True, need_large: bool) -> ModelPair:
    """The files of the pair that is asked for, else of the default pair. Missing ones are offered for download, once."""
    from fbrag_cli.models.catalogue import load_catalogue

    catalogue = load_catalogue()
    small = (options.small or catalogue.default_small) if need_small else None
    large = (options.large or catalogue.default_large) if need_large else None
    files = model_files([name for name in (small, large) if name], console)
    return ModelPair(files[small] if small else None, files[large] if large else None)


def model_files(names: Sequence[str], console: Console) -> dict[str, ModelFile]:
    """The file of each model, by the name or path that the user gave. Missing ones are offered for download, once."""
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.store import locate, models_dir, resolve

    catalogue, store = load_catalogue(), models_dir(os.environ)
    known = [name for name in dict.fromkeys(names) if catalogue.find(name)]
    if missing := [name for name in known if locate(name, store, catalogue) is None]:
        _fetch(missing, store, console)
    return {name: resolve(name, store) for name in names}


def _fetch(names: Sequence[str], store: Path, console: Console) -> None:
    """Ask once, with the size; -y accepts. Off a terminal it is an error that names the command."""
    from fbrag_cli.cli.bars import download_bar
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.pull import pull

    size = sum(load_catalogue().models[name].bytes for name in names)
    what = f"{len(names)} model{'s' if len(names) > 1 else ''}, {size / 1e9:.1f} GB"
    command = f"fbrag models pull {' '.join(names)}"
    if console.offline:
        raise FbragError("offline", f"{', '.join(names)} ({what}) is not here, and --offline forbids the download", command)
    if not console.yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise FbragError("model_missing", f"{', '.join(names)} ({what}) is not here", f"{command}    or add -y")
        print(f"first run: {what}: {', '.join(names)}   Download now? [Y/n] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("", "y", "yes"):
            raise FbragError("model_missing", f"{', '.join(names)} ({what}) is not here", command)
    with download_bar(console) as progress:
        for name in names:
            pull(name, store, progress=progress, offline=False, environ=os.environ)


class Models:
    """The two models, loaded when they are first asked for, and freed on exit. One file is loaded once for both, to where the
    large model goes.

    load_seconds: how long it was waited for.
    """

    def __init__(self, pair: ModelPair, options: ModelOptions, console: Console) -> None:
        self._pair, self._options, self._console = pair, options, console
        self._loaded: dict[Path, LlamaGenerator] = {}
        self._loading: dict[Path, Future[LlamaGenerator]] = {}
        self.load_seconds = 0.0

    @property
    def small(self) -> LlamaGenerator:
        assert self._pair.small
        return self.load(self._pair.small)

    def remembering(self, cache: Cache) -> CachedGenerator:
        """The small model, which does not sample again what `cache` holds."""
        small = self._pair.small
        assert small
        return remembering(self.load(small), small, cache)

    @property
    def large(self) -> LlamaGenerator:
        assert self._pair.large
        return self.load(self._pair.large)

    def begin_large(self) -> None:
        """Load the large model beside what comes now, if it is not loaded. The small one comes first: on a GPU it has to fit."""
        from concurrent.futures import ThreadPoolExecutor

        file = self._pair.large
        assert file
        if file.path not in self._loaded:
            executor = ThreadPoolExecutor(1)
            self._loading[file.path] = executor.submit(self.open, file)
            executor.shutdown(wait=False)

    @property
    def device(self) -> str:
        """Where the models run, for people."""
        from fbrag_cli.generation.llama.machine import gpus

        placements = [self._placement(path) for path in self._loaded]
        found = [gpu.description for gpu in gpus() if any(each.may_use(gpu) for each in placements)]
        layers = " and ".join(dict.fromkeys(generator.info.gpu_layers for generator in self._loaded.values()))
        threads = next(iter(self._loaded.values())).threads
        if found:
            return f"{', '.join(found)}, {layers} layers"
        return f"CPU, {threads} thread{'s' if threads > 1 else ''}"

    def __enter__(self) -> Models:
        return self

    def __exit__(self, *exc: object) -> None:
        for begun in self._loading.values():
            if begun.exception() is None:
                begun.result().close()
        for generator in self._loaded.values():
            generator.close()
        self._loaded.clear()

    def load(self, file: ModelFile) -> LlamaGenerator:
        """At most once."""
        if file.path not in self._loaded:
            started = perf_counter()
            begun = self._loading.pop(file.path, None)
            generator = begun.result() if begun else self.open(file)
            self._loaded[file.path] = generator
            self.load_seconds += perf_counter() - started
            for problem in generator.problems:
                self._console.warn(f"{file.name}: {problem}")
            self._check_gpu(generator)
        return self._loaded[file.path]

    def open(self, file: ModelFile) -> LlamaGenerator:
        """Loads it, whether or not it is loaded already; who asks closes it."""
        from fbrag_cli.generation.llama.generator import LlamaGenerator

        return LlamaGenerator(
            file.path,
            name=file.name,
            sha256=file.sha256,
            placement=self._placement(file.path),
            threads=self._options.threads,
            max_context=self._options.ctx,
            cancellation=self._console.cancellation,
            verbose=self._console.verbosity >= 2,
        )

    def _placement(self, path: Path) -> Placement:
        large = self._pair.large
        return placement(self._options, large=large is not None and path == large.path)

    def _check_gpu(self, generator: LlamaGenerator) -> None:
        on_gpu, layers = generator.info.gpu_layers.split("/")
        if self._options.gpu == "require" and on_gpu != layers:
            raise FbragError(
                "gpu_unavailable",
                f"{generator.info.name} has {generator.info.gpu_layers} layers on the GPU, and --gpu require asks for all",
                "fbrag doctor tells why",
            )
        if self._options.gpu_layers == "auto" and 0 < int(on_gpu) < int(layers):
            self._console.warn(f"{generator.info.name}: {on_gpu} of {layers} layers fit on the GPU; the CPU computes the others")


def remembering(generator: LlamaGenerator, file: ModelFile, cache: Cache, *, first_costs: bool = False) -> CachedGenerator:
    """The generator of `file`, with its samples cached in `cache`."""
    from fbrag_cli.generation.cached import CachedGenerator

    return CachedGenerator(generator, cache, file.identity, first_costs=first_costs)


def method_settings(options: MethodOptions, *, on_gpu: bool) -> MethodSettings:
    """The settings of the method, with the defaults of this machine where the user names none."""
    recall, select = default_sizes(on_gpu=on_gpu)
    settings = MethodSettings(
        name=options.method,
        recall=chunk_count("--recall", options.recall, options.chunk_words) if options.recall else recall,
        select=chunk_count("--select", options.select, options.chunk_words) if options.select else select,
        samples=options.samples,
        eta_forward=options.eta_forward,
        eta_backward=options.eta_backward,
        fusion=options.fusion,
        pooling=options.pooling,
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        seed=options.seed,
    )
    if options.prompts is None:
        return settings
    from fbrag_cli.methods.prompt_file import read_prompt_file

    return read_prompt_file(options.prompts).of().applied(settings)


def default_sizes(*, on_gpu: bool) -> tuple[int, int]:
    """How many chunks are recalled and selected where the user does not say."""
    return _RECALL_SELECT["gpu" if on_gpu else "cpu"]


def chunk_count(name: str, value: str, chunk_words: int) -> int:
    """A number of chunks: "20", or in words "6k" (20 chunks of 300). name: of the option, for the error (`usage`)."""
    number, words = value.strip().lower(), False
    if number.endswith("k"):
        number, words = number[:-1], True
    try:
        chunks = round(float(number) * 1000 / chunk_words) if words else int(number)
    except ValueError:
        raise FbragError("usage", f"{name} {value}: not a number of chunks", "use 8, or words as 6k") from None
    if chunks < 1:
        raise FbragError("usage", f"{name} {value}: at least one chunk is needed", "use 8, or words as 6k")
    return chunks


def peak_memory_mb() -> float:
    """The most main memory that this process has used so far, in MB (10^6 bytes)."""
    try:
        import resource
    except ImportError:  # Windows
        import psutil

        return float(getattr(psutil.Process().memory_info(), "peak_wset", 0) / 1e6)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
