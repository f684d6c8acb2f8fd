"""Check of the servers of models that run on this machine: `--large local` takes their models."""

from __future__ import annotations

from fbrag_cli.doctor.check import Check, Situation


def local_servers(situation: Situation) -> Check:
    """Report the servers of models that run on this machine."""
    from fbrag_cli.generation.server.local import find, offer, places

    where = places(situation.environ)
    if not (found := find(where)):
        return Check("model servers", "ok", f"none on this machine (ports {', '.join(str(place.port) for place in where)})")
    options = offer(found)
    return Check("model servers", "ok", "; ".join(each.described for each in found) + (f": {options}" if options else ""))
