"""Loaded models by name: each is found, fetched if need be, loaded once and freed at the end. A server is asked instead."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.address import is_server
from fbrag_cli.progress import Event, Listener, stage
from fbrag_cli.session.placement import devices_asked, gpus_here, loading, placement
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.session.shelf import Lease, Shelf
from fbrag_cli.storage.cache import NOWHERE, Cache
from fbrag_cli.storage.files import sha256_of
from fbrag_cli.text.printable import counted

if TYPE_CHECKING:
    from concurrent.futures import Future

    from fbrag_cli.generation.generator import Generator
    from fbrag_cli.generation.llama.generator import LlamaGenerator
    from fbrag_cli.generation.llama.weights import Loading
    from fbrag_cli.generation.placement import Placement
    from fbrag_cli.generation.scorer import Scorer
    from fbrag_cli.models.store import ModelFile

Part = TypeVar("Part")

#: Downloads models of the catalogue into a folder, or raises FbragError.
Fetch = Callable[[Sequence[str], Path], None]

#: Offers another pair where models of the default one are not in a folder. Returns the names of the pair that was taken and
#: downloaded, None for the default pair; or raises FbragError.
Offer = Callable[[Sequence[str], Path], tuple[str, str] | None]


class Models:
    """Models by the names, paths or addresses of servers that users give. Several threads may ask for them.

    While a model is loaded or downloaded, only callers that need it wait. listener: receives the progress of calls without a
    listener of their own, and can stop them and the scorers. fetch: downloads missing models of the catalogue; without it a
    missing one is FbragError model_missing. cache: holds the outcomes of checks.

    offer: called by `settle`; None: nothing is offered. offline: whether a server of this machine that sends the text on is
    FbragError offline.
    """

    offer: Offer | None = None
    offline: bool = False

    def __init__(
        self,
        settings: ModelSettings,
        listener: Listener | None = None,
        *,
        fetch: Fetch | None = None,
        cache: Cache = NOWHERE,
        verbose: bool = False,
    ) -> None:
        from fbrag_cli.session.servers import Servers

        self.settings, self._listener, self.fetch = settings, listener or Listener(), fetch
        self._cache, self._verbose = cache, verbose
        self._files: dict[str, ModelFile] = {}
        self._fetching, self._beginning = threading.Lock(), threading.Lock()
        self._loaded: Shelf[tuple[Path, Path | None], LlamaGenerator] = Shelf(lambda generator: generator.close())
        self._begun: dict[Path, tuple[Future[LlamaGenerator], float]] = {}  # loaded before they are asked for, and since when
        self._at_once = 1
        self._large: set[Path] = set()  # files that answer: they go where the settings place the large model
        self._answering: set[str] = set()  # servers that answer
        self._parts: Shelf[tuple[str, object], tuple[Any, ExitStack]] = Shelf(lambda made: made[1].close())
        self._digests: Shelf[Path, str] = Shelf()
        self._servers = Servers(settings, self._listener)

    @property
    def at_once(self) -> int:
        """How many calls each model may run at once."""
        return self._at_once

    @at_once.setter
    def at_once(self, n: int) -> None:
        self._at_once = n
        for generator in self._loaded.now().values():
            generator.at_once = n

    @property
    def default_pair(self) -> tuple[str, str]:
        """Names of the small and the large model: those of the settings, else of the catalogue."""
        from fbrag_cli.models.catalogue import load_catalogue

        catalogue = load_catalogue()
        return self.settings.small or catalogue.default_small, self.settings.large or catalogue.default_large

    def find(self, names: Sequence[str], *, large: Sequence[str] = (), listener: Listener | None = None) -> list[ModelFile]:
        """Return the file of each model but servers. Missing ones are fetched, all at once. large: those that will answer.

        Raises FbragError model_missing, model_corrupt, what `fetch` raises, what `Servers.find` raises, and before anything is
        fetched llama_unavailable.
        """
        for server in filter(is_server, names):
            self._servers.find(server, listener or self._listener)
        self._answering.update(filter(is_server, large))
        names, large = [[each for each in some if not is_server(each)] for some in (names, large)]
        if names:
            _check_llama()
        if new := [name for name in dict.fromkeys(names) if name not in self._files]:
            self._find_new(new, listener or self._listener)
        self._large.update(self._files[name].path for name in large)
        return [self._files[name] for name in names]

    def check(self, names: Sequence[str]) -> None:
        """Check the names of models. Nothing is fetched, loaded or asked.

        Raises FbragError model_missing for a name that no model has, model_corrupt as `resolve`, and what `Servers.check` raises.
        """
        from fbrag_cli.models.catalogue import load_catalogue
        from fbrag_cli.models.store import resolve
        from fbrag_cli.storage.places import models_dir

        for name in names:
            if is_server(name):
                self._servers.check(name)
            elif name not in self._files and not (catalogue := load_catalogue()).find(name):
                resolve(name, models_dir(), catalogue)

    def settle(self, names: Sequence[str], listener: Listener | None = None) -> None:
        """Let the user choose another default pair, where the settings name no model and one of `names` is missing.

        Raises what `offer` raises, and before it is called llama_unavailable.
        """
        from fbrag_cli.storage.places import models_dir

        def missing() -> list[str]:
            return [] if self.offer is None or self.settings.small or self.settings.large else _missing(names)

        if not missing():
            return
        with (listener or self._listener).cancellation.holding(self._fetching):
            if self.offer is None or not (still := missing()):
                return
            _check_llama()
            if pair := self.offer(still, models_dir()):
                self.settings = replace(self.settings, small=pair[0], large=pair[1])

    def _find_new(self, names: Sequence[str], listener: Listener) -> None:
        from fbrag_cli.models.catalogue import load_catalogue
        from fbrag_cli.models.store import resolve
        from fbrag_cli.storage.places import models_dir

        catalogue, store = load_catalogue(), models_dir()
        if self.fetch and _missing(names):
            with listener.cancellation.holding(self._fetching):  # one download at a time
                if still := _missing(names):
                    self.fetch(still, store)
        self._files.update((name, resolve(name, store, catalogue)) for name in names)

    def identity(self, name: str, listener: Listener | None = None) -> list[object]:
        """Return what a model's replies depend on beside the prompt, for a key of the cache: first its name and what identifies
        its file, on other machines too. The model is not loaded.

        `--gpu require` and `ctx` are in it, as they end a run that exceeds them: a cached reply shall not hide that.
        """
        if is_server(name):
            return self._servers.identity(name, listener or self._listener)
        (file,) = self.find([name], listener=listener)
        asked = devices_asked(self._placement(file.path), gpus_here(True).found)
        state = None if file.sha256 else file.state
        return [name, file.identity, state, asked, self.settings.gpu == "require", self.settings.ctx]

    def digest(self, name: str, lease: Lease | None = None) -> str | None:
        """Return the SHA-256 (hex) of a model's file, which is read where it is not known; None for a server."""
        if is_server(name):
            return None
        (file,) = self.find([name])
        return file.sha256 or self._digests.get(file.path, lambda: sha256_of(file.path), lease or Lease(self._listener))

    def loaders(self) -> dict[str, Callable[[], LlamaGenerator]]:
        """Return, for each of the default pair by name, a function that loads it anew. Raises FbragError `usage` for a server."""
        pair = self.default_pair
        if servers := list(filter(is_server, pair)):
            what = f"{servers[0]} is a server, and this measures models of this machine"
            raise FbragError("usage", what, "name a model's file")
        return {file.name: partial(self.open, file) for file in self.find(pair, large=pair[1:])}

    def has(self, name: str, adapter: Path | None = None) -> bool:
        """Return whether a model is loaded, or a server was asked what it can do."""
        if is_server(name):
            return self._servers.has(name)
        if name not in self._files:
            return False
        return (self._files[name].path, adapter) in self._loaded

    def load(self, name: str, adapter: Path | None = None, lease: Lease | None = None) -> Generator:
        """Return the model, which is loaded by the first call. A server is asked what it can do.

        adapter: LoRA that is added to it; the model without it is another. lease: holds the model, and its listener receives the
        progress of the loading; None: it is held until `close`. Raises FbragError `usage` for an adapter with a server.
        """
        lease = lease or Lease(self._listener)
        if is_server(name):
            if adapter:
                raise FbragError("usage", f"{name} is a server, and takes no adapter", "name a model's file")
            return self._servers.open(name, lease, answers=name in self._answering, offline=self.offline)
        (file,) = self.find([name], listener=lease.listener)
        return self._loaded.get((file.path, adapter), lambda: self._make(file, adapter, lease.listener), lease)

    def _make(self, file: ModelFile, adapter: Path | None, listener: Listener) -> LlamaGenerator:
        """Load a model, or take the one that `begin` has loaded, and check it."""
        with stage("load", listener.progress):
            generator = (None if adapter else self._taken(file.path, listener)) or self.open(file, listener)
            try:
                if adapter:
                    generator.add_adapter(adapter)
                problems = self._checked(generator)
            except BaseException:
                generator.close()
                raise
            generator.at_once = self._at_once
            generator.cache = self._cache
            for problem in problems:
                listener.progress(Event("load", "warning", text=f"{file.name}: {problem}"))
        return generator

    def _checked(self, generator: LlamaGenerator) -> tuple[str, ...]:
        """Return what the user should know of a model that was loaded, as sentences. Raises FbragError gpu_unavailable."""
        from fbrag_cli.generation.llama.machine import gpus

        asked, (on_gpu, layers) = self._placement(generator.path), (generator.info.gpu_layers or "0/0").split("/")
        if self.settings.gpu == "require" and on_gpu != layers:
            what = f"{generator.info.name} has {on_gpu}/{layers} layers on the GPU, and --gpu require asks for all"
            raise FbragError("gpu_unavailable", what, "fbrag doctor")
        if asked.gpu_layers is None and int(on_gpu) < int(layers) and any(map(asked.may_use, gpus())):
            return f"{on_gpu} of {layers} layers fit on the GPU; the CPU computes the others", *generator.problems
        return generator.problems

    def begin(self, name: str, listener: Listener | None = None) -> None:
        """Load a model beside what comes now, unless it is loaded. On a GPU those that have to fit first are loaded before."""
        if is_server(name):
            return
        (file,) = self.find([name], listener=listener)
        from concurrent.futures import ThreadPoolExecutor

        with self._beginning:
            if (file.path, None) not in self._loaded and file.path not in self._begun:
                executor = ThreadPoolExecutor(1)
                self._begun[file.path] = executor.submit(self.open, file, listener or self._listener), monotonic()
                executor.shutdown(wait=False)

    def _taken(self, path: Path, listener: Listener) -> LlamaGenerator | None:
        """Wait for what `begin` loads, and return it; None where it began nothing, or failed."""
        from concurrent.futures import wait

        while (begun := self._begun.get(path)) and not begun[0].done():
            listener.cancellation.raise_if_requested()
            wait([begun[0]], timeout=0.1)
        return self._popped(path)

    def _popped(self, path: Path) -> LlamaGenerator | None:
        begun, _ = self._begun.pop(path, (None, 0.0))
        return None if begun is None or begun.exception() else begun.result()

    def open(self, file: ModelFile, listener: Listener | None = None) -> LlamaGenerator:
        """Load a file, whether or not it is loaded already. The caller closes it. listener: can stop the loading."""
        from fbrag_cli.generation.llama.generator import LlamaGenerator

        return LlamaGenerator(
            file.path,
            replace(self._how(listener or self._listener, large=file.path in self._large), name=file.name, sha256=file.sha256),
            max_context=self.settings.ctx,
        )

    def part(self, folder: str, load: Callable[[Path, Callable[[Path], Scorer]], Part], lease: Lease | None = None) -> Part:
        """Return what `load` makes of a folder of trained parts. Raises what `load` raises.

        load: called once, with the folder and a function that loads a scorer, a GGUF file. lease: holds the part and its scorers;
        None: they are held until `close`.
        """

        def make() -> tuple[Part, ExitStack]:
            from fbrag_cli.generation.llama.scorer import LlamaScorer

            how = self._how(self._listener, large=False)
            with ExitStack() as scorers:
                part = load(Path(folder), lambda path: scorers.enter_context(LlamaScorer(path, how)))
                return part, scorers.pop_all()
            raise AssertionError

        part: Part = self._parts.get((folder, load), make, lease or Lease(self._listener))[0]
        return part

    def _how(self, listener: Listener, *, large: bool) -> Loading:
        return loading(self.settings, listener.cancellation, large=large, verbose=self._verbose)

    def sizes(self) -> dict[str, int]:
        """Return the models that are loaded now, by name, with the bytes of their files."""
        return {generator.info.name: path.stat().st_size for (path, _), generator in self._loaded.now().items()}

    @property
    def device(self) -> str:
        """The devices of the loaded models and the servers, in words; "" where there are none."""
        generators = list(self._loaded.now().values())
        if not generators:
            return ", ".join(self._servers.origins)
        placements = [self._placement(each.path) for each in generators]
        found = [gpu.description for gpu in gpus_here(True).found if any(each.may_use(gpu) for each in placements)]
        layers = " and ".join(dict.fromkeys(each.info.gpu_layers or "" for each in generators))
        own = [*found, f"{layers} layers"] if found else ["CPU", counted(generators[0].threads, "thread")]
        return ", ".join([*own, *self._servers.origins])

    def unload(self, idle: float) -> None:
        """Free the models and parts that no lease holds, and that nobody has used for `idle` seconds. Servers are not freed."""
        for path, (begun, since) in list(self._begun.items()):
            if begun.done() and monotonic() - since >= idle and (generator := self._popped(path)):
                generator.close()
        self._loaded.unload(idle)
        self._parts.unload(idle)

    def close(self) -> None:
        """Free all models."""
        self._servers.close()
        for path in list(self._begun):
            if generator := self._popped(path):
                generator.close()
        self._loaded.close()
        self._parts.close()

    def _placement(self, path: Path) -> Placement:
        return placement(self.settings, large=path in self._large)


def _check_llama() -> None:
    """Raise FbragError llama_unavailable where no model can be loaded."""
    import fbrag_cli.generation.llama.library  # noqa: F401


def _missing(names: Sequence[str]) -> list[str]:
    """Return the models of the catalogue among `names`, each once, that are not in the store."""
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.store import locate
    from fbrag_cli.storage.places import models_dir

    catalogue, store = load_catalogue(), models_dir()
    return [name for name in dict.fromkeys(names) if catalogue.find(name) and locate(name, store, catalogue) is None]
