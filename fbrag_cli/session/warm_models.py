"""`WarmModels`: the models that the warm process lends to this session, by the files that it asks for."""

from __future__ import annotations

import threading
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.progress import Event, Stopwatch, stage
from fbrag_cli.session.shelf import Lease

if TYPE_CHECKING:
    from fbrag_cli.generation.warm.generator import WarmGenerator
    from fbrag_cli.generation.warm.process import WarmProcess
    from fbrag_cli.models.store import ModelFile


class WarmModels:
    """Models of a warm process, which may come and go. Several threads may ask for them.

    process: the process. loaded: the models that it has lent, by their files.
    """

    def __init__(self, process: WarmProcess) -> None:
        self.process = process
        self.loaded: dict[Path, WarmGenerator] = {}

    def get(self, file: ModelFile, adapter: Path | None, lease: Lease, *, large: bool, at_once: int) -> WarmGenerator | None:
        """Return the model in a file; None where the process does not lend it, which is said. One with an adapter is not lent.

        large: whether it answers. at_once: number of calls that this session runs at once. Raises what loading it raises, and the
        error of a requested stop.
        """
        listener = lease.listener
        if adapter:
            self.process.tell(f"{file.name} gets an adapter")
        if adapter or not self.process.awaited(listener.cancellation, at_once):
            return None
        is_new, watch = file.path not in self.loaded, Stopwatch()
        with stage("load", listener.progress) if is_new else nullcontext():
            if (model := self._asked(file, listener.cancellation, large=large)) is None:
                self.loaded.pop(file.path, None)
                return None
            for problem in model.problems if is_new else ():
                listener.progress(Event("load", "warning", text=f"{file.name}: {problem}"))
        self.loaded[file.path] = model
        lease.seconds += watch.seconds
        return model

    def begin(self, file: ModelFile, cancellation: Cancellation, *, large: bool) -> None:
        """Let the process load a model beside what comes now. What fails is reported by the call that needs the model."""
        if file.path not in self.loaded:
            threading.Thread(target=self._load, args=(file, cancellation), kwargs={"large": large}, daemon=True).start()

    def _load(self, file: ModelFile, cancellation: Cancellation, *, large: bool) -> None:
        with suppress(BaseException):  # also that of Ctrl-C, which the command itself reports
            if self.process.awaited(cancellation, 1):
                self._asked(file, cancellation, large=large)

    def _asked(self, file: ModelFile, cancellation: Cancellation, *, large: bool) -> WarmGenerator | None:
        from fbrag_cli.generation.warm.wire import Wanted

        path, state, owner = file.path.absolute(), file.state, self.process.owner
        wanted = Wanted(name=file.name, path=path, sha256=file.sha256, state=state, large=large, owner=owner)
        return self.process.model(wanted, cancellation)
