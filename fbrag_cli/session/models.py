"""Loaded models by name: each is found, fetched if need be, loaded once and freed at the end. A server is asked instead."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.address import is_server
from fbrag_cli.progress import Event, Progress, Stopwatch, silent
from fbrag_cli.session.placement import devices_asked, loading, placement
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.storage.cache import NOWHERE, Cache
from fbrag_cli.storage.files import sha256_of
from fbrag_cli.text.printable import counted

if TYPE_CHECKING:
    from concurrent.futures import Future

    from fbrag_cli.generation.generator import Generator
    from fbrag_cli.generation.llama.generator import LlamaGenerator
    from fbrag_cli.generation.llama.machine import Placement
    from fbrag_cli.generation.llama.weights import Loading
    from fbrag_cli.generation.scorer import Scorer
    from fbrag_cli.models.store import ModelFile

Part = TypeVar("Part")
Key = TypeVar("Key")

#: Downloads models of the catalogue into a folder, or raises FbragError.
Fetch = Callable[[Sequence[str], Path], None]


class Models:
    """Models by the names, paths or addresses of servers that users give. Several threads may ask for them.

    fetch: downloads missing models of the catalogue; None: a missing one is FbragError model_missing. cache: of the
    outcomes of checks. load_seconds: wall time for which callers waited for models.
    """

    def __init__(
        self,
        settings: ModelSettings,
        *,
        progress: Progress = silent,
        cancellation: Cancellation | None = None,
        fetch: Fetch | None = None,
        cache: Cache = NOWHERE,
        verbose: bool = False,
    ) -> None:
        from fbrag_cli.session.servers import Servers

        self.settings, self._progress, self._fetch, self._verbose = settings, progress, fetch, verbose
        self._cancellation, self._cache = cancellation or Cancellation(), cache
        self._files: dict[str, ModelFile] = {}
        self._loaded: dict[tuple[Path, Path | None], LlamaGenerator] = {}  # by file and adapter
        self._loading: dict[Path, Future[LlamaGenerator]] = {}
        self._lock = threading.RLock()  # threads that need a model wait for one of them to load it
        self._at_once = 1
        self._large: set[Path] = set()  # files that answer: they go where the settings place the large model
        self._answering: set[str] = set()  # servers that answer
        self._parts: dict[tuple[str, object], Any] = {}  # by folder and the function that loads it
        self._digests: dict[Path, str] = {}
        self._scorers = ExitStack()
        self._servers = Servers(settings, progress, self._cancellation)
        self.load_seconds = 0.0

    @property
    def at_once(self) -> int:
        """How many calls each model may run at once."""
        return self._at_once

    @at_once.setter
    def at_once(self, n: int) -> None:
        with self._lock:
            self._at_once = n
            for generator in self._loaded.values():
                generator.at_once = n

    @property
    def default_pair(self) -> tuple[str, str]:
        """Names of the small and the large model: those of the settings, else of the catalogue."""
        from fbrag_cli.models.catalogue import load_catalogue

        catalogue = load_catalogue()
        return self.settings.small or catalogue.default_small, self.settings.large or catalogue.default_large

    def find(self, names: Sequence[str], *, large: Sequence[str] = ()) -> list[ModelFile]:
        """Return the file of each model but servers. Missing ones are fetched, all at once. large: those that will answer.

        Raises FbragError model_missing, model_corrupt, what `fetch` raises, and what `Servers.check` raises.
        """
        for server in filter(is_server, names):
            self._servers.check(server)
        self._answering |= set(filter(is_server, large))
        names, large = [[each for each in some if not is_server(each)] for some in (names, large)]
        from fbrag_cli.models.catalogue import load_catalogue
        from fbrag_cli.models.store import locate, resolve
        from fbrag_cli.storage.places import models_dir

        catalogue, store = load_catalogue(), models_dir()
        with self._lock:
            new = [name for name in dict.fromkeys(names) if name not in self._files]
            missing = [name for name in new if catalogue.find(name) and locate(name, store, catalogue) is None]
            if missing and self._fetch:
                self._fetch(missing, store)
            self._files |= {name: resolve(name, store, catalogue) for name in new}
            self._large |= {self._files[name].path for name in large}
            return [self._files[name] for name in names]

    def identity(self, name: str) -> list[object]:
        """Return what a model's replies depend on beside the prompt, for a key of the cache. The model is not loaded.

        `--gpu require` and `--ctx` are in it, as they end a run that exceeds them: a cached reply shall not hide that.
        """
        if is_server(name):
            return self._servers.identity(name)
        (file,) = self.find([name])
        asked = devices_asked(self._placement(file.path))
        return [name, file.identity, asked, self.settings.gpu == "require", self.settings.ctx]

    def digest(self, name: str) -> str | None:
        """Return the SHA-256 (hex) of a model's file, which is read where it is not known; None for a server."""
        if is_server(name):
            return None
        (file,) = self.find([name])
        return file.sha256 or self._once(self._digests, file.path, lambda: sha256_of(file.path))

    def loaders(self) -> dict[str, Callable[[], LlamaGenerator]]:
        """Return, for each of the default pair by name, a function that loads it anew. Raises FbragError `usage` for a server."""
        pair = self.default_pair
        if servers := list(filter(is_server, pair)):
            what = f"{servers[0]} is a server, and this measures models of this machine"
            raise FbragError("usage", what, "name a model's file")
        return {file.name: partial(self.open, file) for file in self.find(pair, large=pair[1:])}

    def load(self, name: str, adapter: Path | None = None) -> Generator:
        """Return the model, which is loaded by the first call. A server is asked what it can do.

        adapter: LoRA that is added to it; the model without it is another. Raises FbragError `usage` for one with a server.
        """
        if is_server(name):
            if adapter:
                raise FbragError("usage", f"{name} is a server, and takes no adapter", "name a model's file")
            with self._lock:
                watch = Stopwatch()
                server = self._servers.open(name, answers=name in self._answering)
                self.load_seconds += watch.seconds
                return server
        (file,) = self.find([name])
        with self._lock:
            if (file.path, adapter) not in self._loaded:
                watch = Stopwatch()
                begun = None if adapter else self._loading.pop(file.path, None)
                generator = begun.result() if begun else self.open(file)
                try:
                    if adapter:
                        generator.add_adapter(adapter)
                    self._check_layers(generator, self._placement(file.path))
                except BaseException:
                    generator.close()
                    raise
                self._loaded[file.path, adapter] = generator
                generator.at_once = self._at_once
                generator.cache = self._cache
                self.load_seconds += watch.seconds
                for problem in generator.problems:
                    self._warn(f"{file.name}: {problem}")
            return self._loaded[file.path, adapter]

    def begin(self, name: str) -> None:
        """Load a model beside what comes now. On a GPU those that have to fit first are loaded before."""
        from concurrent.futures import ThreadPoolExecutor

        if is_server(name):
            return
        (file,) = self.find([name])
        with self._lock:
            if (file.path, None) not in self._loaded and file.path not in self._loading:
                executor = ThreadPoolExecutor(1)
                self._loading[file.path] = executor.submit(self.open, file)
                executor.shutdown(wait=False)

    def open(self, file: ModelFile) -> LlamaGenerator:
        """Load a file, whether or not it is loaded already. The caller closes it."""
        from fbrag_cli.generation.llama.generator import LlamaGenerator

        return LlamaGenerator(
            file.path,
            replace(self._how(large=file.path in self._large), name=file.name, sha256=file.sha256),
            max_context=self.settings.ctx,
        )

    def part(self, folder: str, load: Callable[[Path, Callable[[Path], Scorer]], Part]) -> Part:
        """Return what `load` makes of a folder of trained parts. Raises what `load` raises.

        load: called once, with the folder and a function that loads a scorer, a GGUF file. `close` frees the scorer.
        """
        part: Part = self._once(self._parts, (folder, load), lambda: load(Path(folder), self._open_scorer))
        return part

    def _once(self, loaded: dict[Key, Part], key: Key, load: Callable[[], Part]) -> Part:
        with self._lock:
            if key not in loaded:
                watch = Stopwatch()
                loaded[key] = load()
                self.load_seconds += watch.seconds
            return loaded[key]

    def _open_scorer(self, path: Path) -> Scorer:
        from fbrag_cli.generation.llama.scorer import LlamaScorer

        return self._scorers.enter_context(LlamaScorer(path, self._how(large=False)))

    def _how(self, *, large: bool) -> Loading:
        return loading(self.settings, self._cancellation, large=large, verbose=self._verbose)

    @property
    def device(self) -> str:
        """The devices of the loaded models and the servers, in words; "" where there are none."""
        return ", ".join(filter(None, [self._own_device, *self._servers.origins]))

    @property
    def _own_device(self) -> str:
        from fbrag_cli.generation.llama.machine import gpus

        if not self._loaded:
            return ""
        placements = [self._placement(path) for path, _ in self._loaded]
        found = [gpu.description for gpu in gpus() if any(each.may_use(gpu) for each in placements)]
        layers = " and ".join(dict.fromkeys(generator.info.gpu_layers or "" for generator in self._loaded.values()))
        threads = next(iter(self._loaded.values())).threads
        if found:
            return f"{', '.join(found)}, {layers} layers"
        return f"CPU, {counted(threads, 'thread')}"

    def close(self) -> None:
        """Free all models."""
        self._servers.close()
        for begun in self._loading.values():
            if begun.exception() is None:
                begun.result().close()
        for generator in self._loaded.values():
            generator.close()
        self._scorers.close()
        self._loading.clear()
        self._loaded.clear()
        self._parts.clear()

    def _placement(self, path: Path) -> Placement:
        return placement(self.settings, large=path in self._large)

    def _check_layers(self, generator: LlamaGenerator, asked: Placement) -> None:
        from fbrag_cli.generation.llama.machine import gpus

        on_gpu, layers = (generator.info.gpu_layers or "0/0").split("/")
        if self.settings.gpu == "require" and on_gpu != layers:
            raise FbragError(
                "gpu_unavailable",
                f"{generator.info.name} has {generator.info.gpu_layers} layers on the GPU, and --gpu require asks for all",
                "fbrag doctor",
            )
        if asked.gpu_layers is None and int(on_gpu) < int(layers) and any(map(asked.may_use, gpus())):
            self._warn(f"{generator.info.name}: {on_gpu} of {layers} layers fit on the GPU; the CPU computes the others")

    def _warn(self, text: str) -> None:
        self._progress(Event("load", "warning", text=text))
