"""Checks of the servers of models that run on this machine: `--large local` takes their models; and of `fbrag serve`."""

from __future__ import annotations

import os

from fbrag_cli import __version__
from fbrag_cli.doctor.check import Check, Situation


def local_servers(situation: Situation) -> Check:
    """Report the servers of models that run on this machine."""
    from fbrag_cli.generation.server.local import find, offer, places

    where = places(situation.environ)
    if not (found := find(where)):
        return Check("model servers", "ok", f"none on this machine (ports {', '.join(str(place.port) for place in where)})")
    options = offer(found)
    return Check("model servers", "ok", "; ".join(each.described for each in found) + (f": {options}" if options else ""))


def warm_process() -> Check:
    """Report the process of `fbrag serve` whose models the commands use."""
    from fbrag_cli.generation.warm.connection import GoneError, is_trusted, reply
    from fbrag_cli.storage.places import socket_path

    name, path = "fbrag serve", socket_path()
    if not os.path.lexists(path):
        return Check(name, "ok", "none runs")
    if not is_trusted(path):
        return Check(
            name, "warn", f"{path} is not of this user alone, and not used", "rm it, or set FBRAG_SOCKET to another path"
        )
    try:
        said = reply(path, "GET", "/process/status")
        process, version, models = said["pid"], str(said["version"]), [str(each["name"]) for each in said["models"]]
    except GoneError:
        return Check(name, "ok", f"none runs; {path} is left of one that was killed")
    except (KeyError, TypeError):
        process, version, models = "?", "another version", []
    finding = f"process {process}, fbrag {version}, {', '.join(models) or 'no model'} loaded"
    if version != __version__:
        return Check(name, "warn", f"{finding}: this is {__version__}, and does not use it", "fbrag serve stop")
    return Check(name, "ok", finding)
