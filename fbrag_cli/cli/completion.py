"""Tab completion: Typer's, with the names of models."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, NoReturn

from typer.completion import get_completion_inspect_parameters, install_callback

from fbrag_cli.errors import ExitCode, FbragError

#: The variable with which a shell's script asks for words. Its value is an instruction such as "complete_bash".
INSTRUCTION = "_FBRAG_COMPLETE"
#: The shells for which Typer has a script.
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")

_SAFE = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)  # zsh evaluates the offered words, bash inserts them unquoted


def complete(command: Any) -> NoReturn:
    """Print the words that may come at the cursor, and exit. After an error nothing is printed: it would end up on the user's
    command line.

    command: the Typer command `fbrag`.
    """
    get_completion_inspect_parameters()  # registers the shells
    sys.modules["rich"] = None  # type: ignore[assignment]  # Typer would load it, at each Tab, to strip markup from the help
    failed: object = True
    try:
        command.main([], "fbrag")
    except SystemExit as end:  # how Typer ends; with 1 if it cannot parse the instruction
        failed = end.code
    except Exception:
        pass
    sys.exit(ExitCode.INTERNAL if failed else ExitCode.DONE)


def install_script(ctx: Any, parameter: Any, shell: str | None) -> None:
    """Install the script where the shell reads it at startup. Raises FbragError `output`."""
    try:
        install_callback(ctx, parameter, shell)
    except BrokenPipeError:  # the reader of stdout has gone
        raise
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home directory
        what = f"could not install tab completion for {shell}: {error}"
        raise FbragError("output", what, f"install it by hand: fbrag --show-completion {shell}") from None


def model_names() -> list[str]:
    """Return the names in the catalog, then the names of other installed models, except those that a shell could run as code."""
    from fbrag_cli.models.catalog import load_catalog
    from fbrag_cli.models.store import installed
    from fbrag_cli.storage.paths import models_dir

    catalog = load_catalog()
    names = (model.name for model in installed(models_dir(), catalog))
    return list(dict.fromkeys([*catalog.models, *filter(_SAFE.fullmatch, names)]))


def folder_names(incomplete: str) -> list[str]:
    """Return the names of folders that may follow "@". Other documents are files, which the shell offers."""
    from fbrag_cli.storage.config_file import load, locate

    names = load(locate(None, os.environ), {}).folders if incomplete.startswith("@") else ()
    return [f"@{each}" for each in names if _SAFE.fullmatch(each) and f"@{each}".startswith(incomplete)]


def usable_models() -> list[str]:
    """Return `model_names`, and the name of the model server on this machine."""
    from fbrag_cli.generation.server.address import LOCAL

    return [*model_names(), LOCAL]
