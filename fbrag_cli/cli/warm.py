"""The warm process (`fbrag serve`) of the commands that ask models: finding it, and starting it where the user wants that."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from fbrag_cli.cli.console import Console
from fbrag_cli.session.settings import ModelSettings, WarmSettings
from fbrag_cli.session.warm_models import WarmModels


def warm_models(warm: WarmSettings, models: ModelSettings, console: Console) -> WarmModels | None:
    """Return the models that the warm process may lend; None where all are loaded in this process."""
    say = partial(console.note, level=1)
    if warm.warm == "false":
        return None
    if console.verbosity > 1:
        say("-vv shows llama.cpp's log: the models are loaded in this process")
        return None
    from fbrag_cli.generation.warm.process import WarmProcess
    from fbrag_cli.session.placement import conditions
    from fbrag_cli.storage.places import socket_path

    start = partial(_start, models, console) if warm.warm == "true" else None
    return WarmModels(WarmProcess(socket=socket_path(), conditions=conditions(models, os.environ), say=say, start=start))


def _start(models: ModelSettings, console: Console) -> Callable[[], bool] | None:
    """Start `fbrag serve` for the next commands too, with the same settings. Return what says whether it lives.

    None where it cannot start, which is a warning.
    """
    from importlib.util import find_spec

    if not (find_spec("uvicorn") and find_spec("starlette")):
        from fbrag_cli.installation import extra

        console.warn(f"--warm true needs Starlette and uvicorn, which are not installed: {extra('serve')}")
        return None
    import subprocess

    from fbrag_cli.children import command
    from fbrag_cli.methods.knobs import settings_of
    from fbrag_cli.storage.places import cache_dir, models_dir

    values = {each.variables[0]: getattr(models, name) for name, each in settings_of(ModelSettings).items()}
    environ = {name: str(value) for name, value in values.items() if value is not None}
    environ |= {"FBRAG_CACHE_DIR": str(cache_dir()), "FBRAG_MODELS_DIR": str(models_dir())}
    if console.config:
        environ["FBRAG_CONFIG"] = console.config if console.config == "none" else os.path.abspath(console.config)
    try:
        process = subprocess.Popen(
            [*command("fbrag_cli.cli.main:main"), "serve"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | environ,
            start_new_session=True,  # it outlives this command and its terminal
        )
    except OSError as error:
        console.warn(f"--warm true: fbrag serve cannot start: {error.strerror or error}")
        return None
    return lambda: process.poll() is None
