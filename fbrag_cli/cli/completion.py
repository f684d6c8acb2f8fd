"""Tab completion: Typer's, with fbrag's words for models and methods."""

from __future__ import annotations

import re
import sys
from typing import Any

from typer.completion import get_completion_inspect_parameters, install_callback

from fbrag_cli.errors import ExitCode, FbragError

#: The variable with which a shell's script asks for words. Its value is an instruction such as "complete_bash".
INSTRUCTION = "_FBRAG_COMPLETE"

_SAFE = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)  # zsh evaluates the offered words, bash inserts them unquoted
#: The shells for which Typer has a script.
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def complete(command: Any) -> int:
    """Print the words that may come at the cursor, and return an exit code. Nothing else is printed, even after an error.

    command: the Typer command `fbrag`.
    """
    try:
        get_completion_inspect_parameters()  # registers the shells
        sys.modules["rich"] = None  # type: ignore[assignment]  # Typer would load it, if installed, to strip markup from the help
        command.main([], "fbrag")
    except SystemExit as stop:  # how Typer ends; with 1 if it cannot parse the instruction or the input
        return ExitCode.INTERNAL if stop.code else ExitCode.DONE
    except Exception:  # an error message among the words would end up on the user's command line
        return ExitCode.INTERNAL
    return ExitCode.DONE


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


def usable_models() -> list[str]:
    """Return `model_names`, and the name of the model server on this machine."""
    from fbrag_cli.generation.server.address import LOCAL

    return [*model_names(), LOCAL]


def method_list(incomplete: str) -> list[str]:
    """Return the completions of a comma-separated list of methods such as "fb-rag,van", each with the names before the last
    comma."""
    from fbrag_cli.methods.registry import names

    before = incomplete.rpartition(",")[0].split(",") if "," in incomplete else []
    return [",".join([*before, name]) for name in names() if name not in before]
