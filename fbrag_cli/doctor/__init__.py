"""Checks of an installation. Each returns a finding and, unless its status is "ok", a fix."""

from __future__ import annotations

from collections.abc import Iterator

from fbrag_cli.doctor.check import Check, Situation


def checks(situation: Situation) -> Iterator[Check]:
    """Run all checks, and yield each as soon as it is done."""
    from fbrag_cli.doctor import installation, models, surroundings

    yield installation.python()
    build = list(installation.llama(situation))
    yield from build
    yield models.local_servers(situation)
    yield from models.models(situation, run=len(build) > 1)
    yield models.disk(situation)
    yield surroundings.cache(situation)
    yield surroundings.config(situation)
    yield surroundings.environment(situation)
