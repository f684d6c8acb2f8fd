"""docs/options.md: all options of all commands, as each command's --help-all prints them.

python -m tests.options_page    # writes it anew
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.cli.main import run

PAGE = Path(__file__).parent.parent / "docs" / "options.md"
HEAD = """# All options

What `--help-all` prints, for each command; global options stand under `fbrag` alone. `python -m tests.options_page` writes this
page, and a test compares it with the commands. Most options can also be set in the environment, `--chunk-words` as
`FBRAG_CHUNK_WORDS`, and those that `fbrag config show` lists in the configuration file. So can the settings of `--set`, at the
end: `--set top-k=20` as `FBRAG_TOP_K=20`.
"""

#: The commands whose settings for experts differ, each with what is said of them.
_SETTINGS = {
    "ask": "Of `ask`, `explain`, `chat` and `batch`; the other commands have those of them that are about models and the cache.",
    "eval": "Each takes a list of values, which are compared: `--set samples=3,5`.",
}

_GLOBAL = re.compile(r"\nGeneral options:\n(?:  .*\n)+")
_COMMAND = re.compile(r"^  ([a-z][a-z0-9-]*)  ", re.MULTILINE)


def page() -> str:
    """The whole page. No setting of the user changes it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("FBRAG_", "FORCE_COLOR"))}
    with (
        patch.dict(os.environ, {**clean, "FBRAG_CONFIG": "none", "COLUMNS": "102"}, clear=True),
        patch.object(sys, "argv", ["fbrag"]),
    ):
        return "\n".join([HEAD, *_sections([]), *map(_settings, _SETTINGS)])


def _printed(*arguments: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        assert run([*arguments], Cancellation()) == 0
    return out.getvalue()


def _settings(command: str) -> str:
    return f"## fbrag {command} --set\n\n{_SETTINGS[command]}\n\n```text\n{_printed(command, '--set', 'list').strip()}\n```\n"


def _sections(command: list[str]) -> Iterator[str]:
    text = _printed(*command, "--help-all")
    shown = _GLOBAL.sub("", text) if command else text
    yield f"## {' '.join(['fbrag', *command])}\n\n```text\n{shown.strip()}\n```\n"
    for name in _COMMAND.findall(text.partition("\nCommands:\n")[2]):
        yield from _sections([*command, name])


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
