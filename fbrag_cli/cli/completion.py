"""Tab completion: Typer's own, and the words that it offers for models and methods."""

from __future__ import annotations

import re
import sys
from typing import Any

from typer.completion import get_completion_inspect_parameters, install_callback

from fbrag_cli.errors import ExitCode, FbragError

#: The variable by which the script of a shell asks for words. Its value is an instruction such as "complete_bash".
INSTRUCTION = "_FBRAG_COMPLETE"

_SAFE = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)  # zsh evaluates what it is offered, bash inserts it without quotes
#: The shells that Typer has a script for.
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def complete(command: Any) -> int:
    """Print the words that may stand at the cursor, and return an exit code. Whatever goes wrong, nothing else is printed.

    command: Typer's, for all of fbrag.
    """
    try:
        get_completion_inspect_parameters()  # registers the shells
        sys.modules["rich"] = None  # type: ignore[assignment]  # Typer loads it, if it is there, to take markup out of the help
        command.main([], "fbrag")
    except SystemExit as stop:  # Typer ends so; with 1 where the instruction or what was typed cannot be read
        return ExitCode.INTERNAL if stop.code else ExitCode.DONE
    except Exception:  # an error message between the words would end up in the user's command line
        return ExitCode.INTERNAL
    return ExitCode.DONE


def install_script(ctx: Any, parameter: Any, shell: str | None) -> None:
    """Put the script where a shell reads it when it starts. Raises FbragError `output`."""
    try:
        install_callback(ctx, parameter, shell)
    except BrokenPipeError:  # nobody reads where it is
        raise
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        what = f"tab completion for {shell} cannot be installed: {error}"
        raise FbragError("output", what, f"put it there yourself: fbrag --show-completion {shell}") from None


def model_names() -> list[str]:
    """Return the names of the catalog, then those of other models in the store that no shell takes for code."""
    from fbrag_cli.models.catalog import load_catalog
    from fbrag_cli.models.store import installed
    from fbrag_cli.storage.paths import models_dir

    catalog = load_catalog()
    names = (model.name for model in installed(models_dir(), catalog))
    return list(dict.fromkeys([*catalog.models, *filter(_SAFE.fullmatch, names)]))


def usable_models() -> list[str]:
    """Return `model_names`, and the name that stands for a server of this machine."""
    from fbrag_cli.generation.server.address import LOCAL

    return [*model_names(), LOCAL]


def method_list(incomplete: str) -> list[str]:
    """Return the methods that a list such as "fb-rag,van" can go on with, each with what stands before it."""
    from fbrag_cli.methods.registry import names

    before = incomplete.rpartition(",")[0].split(",") if "," in incomplete else []
    return [",".join([*before, name]) for name in names() if name not in before]
