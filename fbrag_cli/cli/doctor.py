"""`fbrag doctor`: check the installation, and print a fix for each problem."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from fbrag_cli.cli.command import command
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.keys import known_keys, unknown_variables, value_of
from fbrag_cli.cli.option import Option, effective, option
from fbrag_cli.cli.options import Options
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.text.printable import dumps, one_line
from fbrag_cli.text.table import columns_of
from fbrag_cli.text.terminal import BOLD, ERROR, Styled

_STYLES = {"ok": "", "warn": BOLD, "fail": ERROR}
_MARGIN = "      "  # before the further lines of a finding, and its fix


class DoctorOptions(Options):
    group = "Output"

    json: bool = option(False, "print JSON", once=True)
    skip_gpu: bool = option(False, "skip the GPU checks", group="Run")


@command(DoctorOptions)
def doctor(console: Console, options: DoctorOptions) -> int:
    """Check the installation, the GPU and the models. Exit code 1 if a check fails.

    \b
    Examples:
      fbrag doctor
      fbrag doctor --offline
      fbrag doctor --json | jq -r '.checks[] | select(.status != "ok") | .fix'
    """
    from fbrag_cli.doctor.checks import checks

    done = []
    for check in checks(_situation(console, options)):
        done.append(check)
        if not options.json:
            _print(check, colored=console.colored(sys.stdout))
    if options.json:
        record = [{"name": each.name, "status": each.status, "finding": each.finding, "fix": each.fix} for each in done]
        print(dumps({"schema": "fbrag.doctor/1", "checks": record}))
    return ExitCode.NEGATIVE if any(check.status == "fail" for check in done) else ExitCode.DONE


def _situation(console: Console, options: DoctorOptions) -> Any:
    from fbrag_cli.doctor.checks import DoctorInput
    from fbrag_cli.storage.config_file import Config, load, locate
    from fbrag_cli.storage.paths import models_dir

    file, keys = locate(console.config, os.environ), known_keys()
    try:
        config = load(file, keys)
    except FbragError:  # a finding of its own
        config = Config({})

    def value(name: str) -> Any:
        try:
            return value_of(keys[name], config, os.environ).value
        except FbragError:  # an invalid variable: another finding
            return keys[name].default

    return DoctorInput(
        environ=os.environ,
        config_file=file,
        keys=keys,
        unread=unknown_variables(os.environ),
        invalid=_invalid_variable(keys.values()),
        models_dir=models_dir(),
        large=value("large"),
        small=value("small"),
        cache_limit=int(value("cache_limit") * 1e9),
        gpu=value("gpu"),
        threads=value("threads"),
        key_file=value("key_file"),
        offline=console.offline,
        probe_gpu=not options.skip_gpu,
    )


def _invalid_variable(keys: Iterable[Option]) -> FbragError | None:
    """Return the error of the first variable with an invalid value."""
    try:
        for key in keys:
            effective(key, {}, os.environ)
    except FbragError as error:
        return error
    return None


def _print(check: Any, *, colored: bool) -> None:
    columns = columns_of(sys.stdout)
    line = Styled().add(f"{check.status:<4}", _STYLES[check.status]).add(f"  {check.name:<16}  {one_line(check.finding)}")
    print(*line.lines(columns, margin=_MARGIN, colored=colored), sep="\n")
    if check.fix:
        print(f"{_MARGIN}fix: {one_line(check.fix)}")  # unwrapped, so that a command in it can be pasted
    sys.stdout.flush()
