"""`fbrag doctor`: check the installation, and print a fix for each problem."""

from __future__ import annotations

import os
import sys
from typing import Any

from fbrag_cli.cli.command import command
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.keys import known_keys, value_of
from fbrag_cli.cli.option import option
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

    file, keys, config = locate(console.config, os.environ), known_keys(), Config({})
    invalid: FbragError | None = None
    try:
        config = load(file, keys)
    except FbragError as error:
        invalid = error
    values: dict[str, Any] = {}
    for name, key in keys.items():
        try:
            values[name] = value_of(key, config, os.environ).value
        except FbragError as error:  # an invalid variable
            invalid, values[name] = invalid or error, key.default
    return DoctorInput(
        environ=os.environ,
        config=str(file.path) if file and os.path.exists(file.path) else "no configuration file",
        invalid=invalid,
        models_dir=models_dir(),
        offline=console.offline,
        probe_gpu=not options.skip_gpu,
        **{name: values[name] for name in ("large", "small", "gpu", "threads", "key_file")},
    )


def _print(check: Any, *, colored: bool) -> None:
    columns = columns_of(sys.stdout)
    line = Styled().add(f"{check.status:<4}", _STYLES[check.status]).add(f"  {check.name:<16}  {one_line(check.finding)}")
    print(*line.lines(columns, margin=_MARGIN, colored=colored), sep="\n")
    if check.fix:
        print(f"{_MARGIN}fix: {one_line(check.fix)}")  # unwrapped, so that a command in it can be pasted
    sys.stdout.flush()
