"""`Models`: the models by the names that users type. It finds their files and servers, loads them, and lends them to threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.address import Address, is_local, is_server, sent_on, server_key
from fbrag_cli.models.catalog import load_catalog
from fbrag_cli.models.store import ModelFile, locate, resolve
from fbrag_cli.progress import Event, Listener
from fbrag_cli.query import Role
from fbrag_cli.session.placement import devices_asked, gpus_here, loading, placement
from fbrag_cli.session.pool import Lease, Make, Pool
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.storage.files import sha256_of
from fbrag_cli.storage.paths import models_dir
from fbrag_cli.text.printable import one_line, plural

if TYPE_CHECKING:
    from fbrag_cli.generation.generator import Generator, Scorer
    from fbrag_cli.generation.llama.generator import LlamaGenerator
    from fbrag_cli.generation.placement import Placement
    from fbrag_cli.generation.server.about import ServerInfo
    from fbrag_cli.generation.server.client import Endpoint
    from fbrag_cli.generation.server.generator import ServerGenerator
    from fbrag_cli.generation.server.local import LocalModel

Part = TypeVar("Part")

#: Downloads models of the catalog into a folder. Raises FbragError.
Fetch = Callable[[Sequence[str], Path], None]

#: Offers another pair if models of the default one are missing in a folder. Returns the names of the chosen pair, which is then
#: downloaded, or None for the default pair. Raises FbragError.
Offer = Callable[[Sequence[str], Path], tuple[str, str] | None]


@dataclass(frozen=True, slots=True)
class Server:
    """A model server and its description. local: how it was found, None for a server named by its URL."""

    host: Endpoint
    about: ServerInfo
    local: LocalModel | None

    @property
    def described(self) -> str:
        """The server in messages: "http://host:8080", or "Ollama at 127.0.0.1:11434 (qwen3.5:4b)"."""
        return self.local.described if self.local else self.host.address.origin

    @property
    def where(self) -> Event:
        """The message that tells where document text is sent. It is a warning if the text leaves this machine."""
        address, sent_on = self.host.address, self.about.sent_on
        where = f"sending document text to {address.origin} (model {one_line(self.about.model, 80)})"
        if sent_on:
            return Event("load", "warning", text=f"{where}, which forwards it to {sent_on}")
        if address.is_loopback:
            return Event("load", "note", text=where)
        return Event("load", "warning", text=f"{where}{'' if address.encrypted else ', unencrypted'}")


class _Loaded(NamedTuple):
    """What tells one loaded model from another. placement: None for a server."""

    model: Path | str
    adapter: Path | None = None
    placement: Placement | None = None


class Models:
    """Models and trained components, each found and loaded once, and shared by threads. One file is loaded twice only with an
    adapter, and if the settings place the small and the large model differently. During a download, only threads that need that
    model wait.

    listener: receives the progress of calls without their own listener. fetch: downloads missing models of the catalog; without
    it, a missing one is FbragError model_missing. offer: called once if the settings name no model and one of the default pair is
    missing; None for no offer. offline: whether a server on this machine that forwards the text elsewhere is FbragError offline.
    verbose: whether llama.cpp's log goes to stderr.
    """

    def __init__(
        self,
        settings: ModelSettings,
        listener: Listener | None = None,
        *,
        fetch: Fetch | None = None,
        offer: Offer | None = None,
        offline: bool = False,
        verbose: bool = False,
    ) -> None:
        self.settings, self.listener = settings, listener or Listener()
        self.fetch, self.offer, self._offline, self._verbose = fetch, offer, offline, verbose
        self._files: dict[str, ModelFile] = {}
        self._fetching = threading.Lock()
        self._digests: Pool[Path, str] = Pool()
        self._servers: Pool[str, Server] = Pool()
        self._generators: Pool[_Loaded, Any] = Pool(stage="load")
        self._parts: Pool[tuple[str, object], Any] = Pool()
        self._reported: set[str] = set()  # problems of models
        self._at_once = 1

    # -- found -----------------------------------------------------------------------------------------------------------

    @cached_property
    def default_pair(self) -> tuple[str, str]:
        """Names of the small and the large model, from the settings or else the catalog."""
        catalog = load_catalog()
        return self.settings.small or catalog.default_small, self.settings.large or catalog.default_large

    def check(self, names: Sequence[str]) -> None:
        """Check the names of models, without downloading or loading anything or asking a server.

        Raises FbragError: model_missing for an unknown name, model_corrupt as `resolve` does, `usage` for an invalid URL,
        gpu_unavailable for a server with `--gpu require`.
        """
        for name in names:
            if is_server(name):
                where = name if is_local(name) else Address.parse(name).origin
                if self.settings.gpu == "require":
                    what = f"--gpu require: unknown whether {where} runs on a GPU"
                    raise FbragError("gpu_unavailable", what, "drop --gpu require, or use models on this machine")
            elif name not in self._files and not load_catalog().find(name):
                resolve(name, models_dir(), load_catalog())

    def find(self, names: Sequence[str], listener: Listener | None = None) -> None:
        """Find models. Missing ones are downloaded together; instead of the default pair, the user may be offered another.

        Raises the errors of `check`, `offer`, `fetch` and `local.look`; before any download, llama_unavailable.
        """
        listener, names = listener or self.listener, list(dict.fromkeys(names))  # one model may have both roles
        self.check(names)
        for each in filter(is_local, names):
            self.server(each, listener)
        names = self._offered(names, listener) or names
        self._add([name for name in names if not is_server(name)], listener)

    def file(self, name: str, listener: Listener | None = None) -> ModelFile:
        """Return the file of a model; on the first call, find it, and download it if needed. Raises the same errors as `find`."""
        if name not in self._files:
            self._add([name], listener or self.listener)
        return self._files[name]

    def identity(self, name: str, role: Role = "large", listener: Listener | None = None) -> list[object]:
        """Return what a model's replies depend on besides the prompt, for a cache key: first its name and an identifier of its
        file that is the same on other machines. The model is not loaded; a server is sent no text.

        `--gpu require` and `ctx` are included, because a run that exceeds them fails, and a cached reply must not hide that.
        """
        if is_server(name):
            server = self.server(name, listener)
            return [server.host.address.base, server.about.model, server.about.identity]
        file = self.file(name, listener)
        asked = devices_asked(placement(self.settings, role), gpus_here(True))
        state = None if file.sha256 else file.state
        return [name, file.identity, state, asked, self.settings.gpu == "require", self.settings.ctx]

    def digest(self, name: str, lease: Lease | None = None) -> str | None:
        """Return the SHA-256 (hex) of a model's file, which is read if it is unknown; None for a server."""
        if is_server(name):
            return None
        file = self.file(name)
        return file.sha256 or self._digests.get(file.path, lambda _: sha256_of(file.path), lease or Lease(self.listener))

    def server(self, name: str, listener: Listener | None = None) -> Server:
        """Return the server at a URL, which is asked once about its model; for `local`, the server found on this machine.

        Raises FbragError `usage` for an invalid URL or key, and the errors of `local.look` and `about`.
        """
        listener = listener or self.listener

        def warn(text: str) -> None:
            self.listener.progress(Event("load", "warning", text=text))

        def connect(_: ExitStack) -> Server:
            from fbrag_cli.generation.server.about import about
            from fbrag_cli.generation.server.client import Endpoint
            from fbrag_cli.generation.server.local import look

            local = look(name, os.environ, listener.cancellation) if is_local(name) else None
            if local:
                listener.progress(Event("load", "note", text=f"local: {local.described}"))
            key = None if local else server_key(self.settings.key_file, os.environ)
            host = Endpoint(Address.parse(local.address if local else name), key, warn=warn)
            return Server(host, about(host, listener.cancellation), local)

        with Lease(listener) as lease:
            return self._servers.get(name, connect, lease)

    @property
    def servers(self) -> dict[str, Server]:
        """The servers asked so far, by the names that the user gave."""
        return self._servers.values()

    def _offered(self, names: Sequence[str], listener: Listener) -> tuple[str, str] | None:
        """Offer another pair if a model of the default one is missing. Return the names of the chosen pair, if any."""

        def missing() -> list[str]:
            named = self.offer is None or self.settings.small or self.settings.large or not {*names} <= {*self.default_pair}
            return [] if named else _missing(names)

        if not missing():
            return None
        _check_llama()
        with listener.cancellation.holding(self._fetching):
            if self.offer and (still := missing()) and (pair := self.offer(still, models_dir())):
                self.settings, self.default_pair = replace(self.settings, small=pair[0], large=pair[1]), pair
                return pair
        return None

    def _add(self, names: Sequence[str], listener: Listener) -> None:
        """Find the files of models not found yet. Missing ones are downloaded, by one thread at a time."""
        if not (new := [name for name in dict.fromkeys(names) if name not in self._files]):
            return
        _check_llama()
        if self.fetch and _missing(new):
            with listener.cancellation.holding(self._fetching):
                if still := _missing(new):
                    self.fetch(still, models_dir())
        self._files.update((name, resolve(name, models_dir(), load_catalog())) for name in new)

    # -- lent ------------------------------------------------------------------------------------------------------------

    def run_at_once(self, n: int) -> None:
        """Let each model run the calls of up to `n` threads in shared batches; fewer if memory is short."""
        self._at_once = n
        for _, generator in self._loaded():
            generator.at_once = n

    def load(
        self,
        name: str,
        role: Role = "large",
        adapter: Path | None = None,
        lease: Lease | None = None,
        ahead: str | None = None,
    ) -> Generator:
        """Return a model, which the first call loads. A server is asked for its capabilities, and the user is told where the text
        goes.

        role: by which the settings place a file. adapter: LoRA to add; the model without it is a separate one. lease: holds the
        model, and its listener receives the loading progress; None: held until `close`. ahead: name of the large model to load
        ahead, once this one is loaded. Raises the errors of `find`, `LlamaGenerator` and `ServerGenerator`; FbragError `usage`
        for an adapter with a server; `offline` if no text may leave this machine and a server forwards it.
        """
        lease = lease or Lease(self.listener)
        listener = lease.listener
        make: Make[Any] = partial(self._load, name, role, adapter, listener)
        if is_server(name):
            if adapter:
                raise FbragError("usage", f"{name} is a server, and cannot use an adapter", "use a model file")
            key, make = _Loaded(name), lambda _: self._ask_server(name, listener)
        else:
            key = self._key(name, role, adapter, listener)
        generator: Generator = self._generators.get(key, make, lease)
        if ahead and role == "small":
            self.begin(ahead, "large", listener)
        for problem in _problems(generator, key.placement) if key.placement or role == "large" else ():
            if problem not in self._reported:
                self._reported.add(problem)
                listener.progress(Event("load", "warning", text=problem))
        return generator

    def begin(self, name: str, role: Role, listener: Listener | None = None) -> None:
        """Start to load a model in a thread, unless it is loaded. `close` stops it."""
        if not is_server(name):
            listener = listener or self.listener
            key, stop = self._key(name, role, None, listener), Cancellation(all_of=(listener.cancellation,))
            self._generators.begin(key, partial(self._load, name, role, None, replace(listener, cancellation=stop)), stop)

    def open(self, name: str, role: Role, listener: Listener | None = None) -> LlamaGenerator:
        """Load a model of this machine, even if it is already loaded. The caller closes it. listener: can stop the loading."""
        from fbrag_cli.generation.llama.generator import LlamaGenerator

        file, cancellation = self.file(name, listener), (listener or self.listener).cancellation
        how = loading(self.settings, role, cancellation, verbose=self._verbose)
        return LlamaGenerator(file.path, replace(how, name=file.name, sha256=file.sha256), max_context=self.settings.ctx)

    def part(self, folder: str, load: Callable[[Path, Callable[[Path], Scorer]], Part], lease: Lease | None = None) -> Part:
        """Return the trained component that `load` makes of a folder. Raises the errors of `load`.

        load: called once, with the folder and a function that loads a scorer from a GGUF file. lease: holds the component and its
        scorers; None: held until `close`.
        """

        def make(owned: ExitStack) -> Part:
            from fbrag_cli.generation.llama.encoder import LlamaScorer

            how = loading(self.settings, "small", self.listener.cancellation, verbose=self._verbose)
            return load(Path(folder), lambda path: owned.enter_context(LlamaScorer(path, how)))

        part: Part = self._parts.get((folder, load), make, lease or Lease(self.listener))
        return part

    def sizes(self) -> dict[str, int]:
        """Return the size in bytes of each loaded model's file, by name."""
        return {generator.info.name: generator.path.stat().st_size for _, generator in self._loaded()}

    @property
    def device(self) -> str:
        """The devices of the loaded models, and the servers, in words; "" if there are none."""
        return ", ".join(self._devices())

    @property
    def device_details(self) -> str:
        """`device`, with the number of layers on GPUs, or of CPU threads."""
        if not (loaded := self._loaded()):
            return self.device
        layers = " and ".join(dict.fromkeys(each.info.gpu_layers or "" for _, each in loaded))
        on_gpu = any(self._gpus())
        return f"{self.device}, {f'{layers} layers' if on_gpu else plural(loaded[0][1].threads, 'thread')}"

    def _devices(self) -> list[str]:
        known = self.servers
        servers = dict.fromkeys(known[name].described for name, *_ in self._generators.values() if name in known)
        own = list(self._gpus()) or ["CPU"] if self._loaded() else []
        return [*own, *servers]

    def _gpus(self) -> Iterator[str]:
        """Yield the GPUs that the loaded models may use."""
        placements = [where for where, _ in self._loaded()]
        yield from (gpu.description for gpu in gpus_here(True) if any(each.may_use(gpu) for each in placements))

    def evict_idle(self, seconds: float) -> None:
        """Free the models and components that no lease holds and that have been idle for `seconds`."""
        self._generators.evict_idle(seconds)
        self._parts.evict_idle(seconds)

    def close(self) -> None:
        """Free all models and components."""
        self._generators.close()
        self._parts.close()

    def _key(self, name: str, role: Role, adapter: Path | None, listener: Listener) -> _Loaded:
        return _Loaded(self.file(name, listener).path.resolve(), adapter, placement(self.settings, role))

    def _load(self, name: str, role: Role, adapter: Path | None, listener: Listener, owned: ExitStack) -> LlamaGenerator:
        generator = self.open(name, role, listener)
        owned.callback(generator.close)
        if adapter:
            generator.add_adapter(adapter)
        on_gpu, layers = _layers(generator)
        if self.settings.gpu == "require" and on_gpu != layers:
            what = f"only {on_gpu} of {layers} layers of {generator.info.name} fit on the GPU (--gpu require needs all)"
            raise FbragError("gpu_unavailable", what, "drop --gpu require, or use a smaller model")
        generator.at_once = self._at_once
        return generator

    def _ask_server(self, name: str, listener: Listener) -> ServerGenerator:
        from fbrag_cli.generation.server.generator import ServerGenerator

        server = self.server(name, listener)
        if self._offline and server.about.sent_on:
            raise sent_on(one_line(server.about.model, 80))
        if not server.local or server.about.sent_on:  # for others this was reported when they were found
            listener.progress(server.where)
        settings = self.settings
        return ServerGenerator(server.host, server.about, max_context=settings.ctx, cancellation=listener.cancellation)

    def _loaded(self) -> list[tuple[Placement, LlamaGenerator]]:
        """Return the loaded models of this machine with their placements."""
        return [(key.placement, generator) for key, generator in self._generators.values().items() if key.placement]


def _problems(generator: Any, asked: Placement | None) -> Sequence[str]:
    """Return warnings about a loaded model. asked: its placement, None for a server."""
    if asked is None:
        problems: tuple[str, ...] = generator.problems
        return problems
    from fbrag_cli.generation.llama.machine import gpus

    notes, (on_gpu, layers) = list(generator.problems), _layers(generator)
    if asked.gpu_layers is None and on_gpu < layers and any(map(asked.may_use, gpus())):
        notes.insert(0, f"{on_gpu} of {layers} layers fit on the GPU; the rest run on the CPU")
    return [f"{generator.info.name}: {problem}" for problem in notes]


def _layers(generator: LlamaGenerator) -> tuple[int, int]:
    """Return the number of a model's layers on the GPU, and of all its layers."""
    on_gpu, _, layers = (generator.info.gpu_layers or "0/0").partition("/")
    return int(on_gpu), int(layers)


def is_one_model(name: str, other: str) -> bool:
    """Return whether two names are of one model: of one file, or the same name."""
    if name == other or is_server(name) or is_server(other):
        return name == other
    paths = [path for each in (name, other) if (path := locate(each, models_dir(), load_catalog()))]
    return len(paths) == 2 and os.path.samefile(*paths)


def _check_llama() -> None:
    """Raise FbragError llama_unavailable if no model can be loaded."""
    import fbrag_cli.generation.llama.machine  # noqa: F401


def _missing(names: Sequence[str]) -> list[str]:
    """Return the catalog's models among `names` that are not installed."""
    catalog = load_catalog()
    return [name for name in names if catalog.find(name) and locate(name, models_dir(), catalog) is None]
