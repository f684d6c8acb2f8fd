"""`fbrag doctor`: check the installation and print a fix for what does not work."""

from __future__ import annotations

import os
import sys
from typing import Any

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.groups import takes
from fbrag_cli.cli.options import DoctorOptions
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.text.printable import dumps, one_line
from fbrag_cli.text.table import columns_of
from fbrag_cli.text.terminal import BOLD, ERROR, Styled, folded

_STYLES = {"ok": "", "warn": BOLD, "fail": ERROR}
_MARGIN = "      "  # before what goes on below a finding, and its fix


@takes(DoctorOptions)
def doctor(console: Console, options: DoctorOptions) -> int:
    """Check the installation, the GPU and the models. Exit code 1 if a check fails.

    \b
    Examples:
      fbrag doctor
      fbrag doctor --offline
      fbrag doctor --json | jq -r '.checks[] | select(.status != "ok") | .fix'
    """
    from fbrag_cli.doctor import checks

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
    from fbrag_cli.cli.commands import known_variables
    from fbrag_cli.cli.config_keys import known_keys, setting
    from fbrag_cli.doctor.check import Situation
    from fbrag_cli.storage.config_file import Config, load, locate
    from fbrag_cli.storage.places import models_dir

    file, keys = locate(console.config, os.environ), known_keys()
    try:
        config = load(file, keys)
    except FbragError:  # one of the findings
        config = Config({})

    def value(name: str) -> Any:
        try:
            return setting(name, keys, config, os.environ).value
        except FbragError:  # a variable that does not fit: another finding
            return keys[name].default

    return Situation(
        environ=os.environ,
        config_file=file,
        keys=keys,
        variables=known_variables(),
        models_dir=models_dir(),
        large=value("ask.large"),
        small=value("ask.small"),
        cache_limit=int(value("ask.cache_limit") * 1e9),
        gpu=value("ask.gpu"),
        threads=value("ask.threads"),
        key_file=value("ask.key_file"),
        offline=console.offline,
        probe_gpu=not options.no_gpu_probe,
    )


def _print(check: Any, *, colored: bool) -> None:
    columns = columns_of(sys.stdout)
    line = Styled().add(f"{check.status:<4}", _STYLES[check.status]).add(f"  {check.name:<16}  {one_line(check.finding)}")
    print(*line.lines(columns, margin=_MARGIN, colored=colored), sep="\n")
    if check.fix:
        print(folded(f"{_MARGIN}fix: {one_line(check.fix)}", columns, _MARGIN))
    sys.stdout.flush()
