"""The options of the commands that listen, `fbrag serve` and `fbrag ui`, and what they mean."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fbrag_cli.cli.options import ParallelOptions, arguments, option
from fbrag_cli.errors import FbragError

PORT = 8377

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SITE = re.compile(r"(https?://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]+)?)|([a-z-]+-extension://[\w-]+)")


@dataclass(frozen=True, slots=True)
class ListenOptions(ParallelOptions):
    documents: list[str] = arguments("documents and folders to serve", "DOC...")
    host: str | None = option(
        None, "--host", help="address to listen on (127.0.0.1)", group="Listen", metavar="ADDRESS", envvar=None
    )
    port: int | None = option(
        None,
        "--port",
        help=f"port to listen on; 0 for any that is free ({PORT}, else any)",
        group="Listen",
        metavar="N",
        min=0,
        max=65535,
        envvar=None,
    )
    token_file: str | None = option(
        None,
        "--token-file",
        help="file with the token that clients send (one of the user, made once)",
        group="Listen",
        metavar="FILE",
    )
    origin: list[str] = option(
        (),
        "--origin",
        help="a site whose pages may ask, such as https://chat.example; may be given several times (none)",
        group="Listen",
        metavar="URL",
    )
    allow: list[str] = option(
        (),
        "--allow",
        help="a folder whose files clients may name; may be given several times (what is served)",
        group="Document",
        metavar="DIR",
    )
    timeout: float | None = option(
        None,
        "--timeout",
        help="end a question that takes more than so many seconds, its waiting included (no limit)",
        group="Run",
        metavar="SECONDS",
        min=0.001,
        max=1e8,
    )
    idle: str = option(
        "15m",
        "--idle",
        help="free models that nobody has used for so long: 90s, 15m, 1h, or never (15m)",
        group="Run",
        metavar="TIME",
    )
    parallel: str = option(
        "auto",
        "--parallel",
        help="questions answered at once, auto or a number; above 1, answers may differ by rounding (auto: 1)",
        group="Run",
        metavar="N",
        words=("auto",),
        min=1,
        max=64,
    )
    print_ready: bool = option(
        False, "--print-ready", help="print a line of JSON on stdout once it listens", group="Output", envvar=None
    )

    @property
    def idle_seconds(self) -> float | None:
        """Seconds of --idle; None for never. Raises FbragError `usage`."""
        if self.idle == "never":
            return None
        if (found := re.fullmatch(r"([0-9]{1,6})([smhd])", self.idle)) and (seconds := int(found[1]) * _UNIT_SECONDS[found[2]]):
            return float(seconds)
        raise FbragError("usage", f"--idle {self.idle} is no time", "a number and s, m, h or d, as 15m, or never")

    @property
    def origins(self) -> frozenset[str]:
        """The sites of --origin, as browsers name them. Raises FbragError `usage`."""
        for each in self.origin:
            if not _SITE.fullmatch(each.lower()):
                raise FbragError("usage", f"--origin {each} is no site", "name it without a path, as https://chat.example")
        return frozenset(each.lower() for each in self.origin)
