"""Tab completion: the words that may stand at the cursor, and the script by which a shell asks for them."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import typer

from fbrag_cli.errors import ExitCode, FbragError

#: The variable by which the script of a shell asks for words. Its value is an instruction such as "complete_bash".
INSTRUCTION = "_FBRAG_COMPLETE"

_SAFE = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)  # zsh evaluates what it is offered, bash inserts it without quotes
_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def complete(command: Any) -> int:
    """Print the words that may stand at the cursor, and return an exit code. Whatever goes wrong, nothing else is printed.

    command: Typer's, for all of fbrag.
    """
    try:
        from typer.completion import get_completion_inspect_parameters

        get_completion_inspect_parameters()  # registers the shells
        _join_values()
        sys.modules["rich"] = None  # type: ignore[assignment]  # Typer loads it, if it is there, to take markup out of the help
        command.main([], "fbrag")
    except SystemExit as stop:  # Typer ends so; with 1 where the instruction or what was typed cannot be read
        return ExitCode.INTERNAL if stop.code else ExitCode.DONE
    except Exception:  # an error message between the words would end up in the user's command line
        return ExitCode.INTERNAL
    return ExitCode.DONE


def _join_values() -> None:
    """Take the "=" out of bash's words: bash splits `--large=q` into three words, and Typer reads two."""
    if (words := os.environ.get("COMP_WORDS")) is None:
        return
    each, current = words.split("\n"), int(os.environ["COMP_CWORD"])
    signs = [place for place in range(1, current) if each[place] == "=" and each[place - 1].startswith("--")]
    os.environ["COMP_WORDS"] = "\n".join(word for place, word in enumerate(each) if place not in signs)
    os.environ["COMP_CWORD"] = str(current - len(signs))


# -- the script ------------------------------------------------------------------------------------------------------------


def show_script(context: typer.Context, parameter: typer.CallbackParam, asked: bool) -> None:
    """Print the script for the shell that --show-completion names, else for the shell that runs this process."""
    if asked and not context.resilient_parsing:
        from typer.completion import show_callback

        show_callback(context, parameter, _shell("--show-completion"))


def install_script(context: typer.Context, parameter: typer.CallbackParam, asked: bool) -> None:
    """Put the script where the shell reads it when it starts. Raises FbragError `output`."""
    if asked and not context.resilient_parsing:
        from typer.completion import install_callback

        shell = _shell("--install-completion")
        try:
            install_callback(context, parameter, shell)
        except BrokenPipeError:  # nobody reads where it is
            raise
        except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
            what = f"tab completion for {shell} cannot be installed: {error}"
            raise FbragError("output", what, f"put it there yourself: fbrag --show-completion {shell}") from None


def _shell(option: str) -> str:
    """Return the shell that follows `option`, else the one that runs this process. Raises FbragError `usage`."""
    import shellingham

    if named := sys.argv[sys.argv.index(option) + 1 :][:1]:
        shell = named[0]
    else:
        try:
            shell = shellingham.detect_shell()[0]
        except shellingham.ShellDetectionFailure:
            raise FbragError("usage", f"{option}: the shell cannot be found out", f"fbrag {option} bash") from None
    if shell not in _SHELLS:
        raise FbragError("usage", f"{option} {shell}: expected one of {', '.join(_SHELLS)}", f"fbrag {option} bash")
    return shell


# -- words -----------------------------------------------------------------------------------------------------------------


def model_names() -> list[str]:
    """Return the names of the catalogue, then those of other models in the store that no shell takes for code."""
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.store import installed
    from fbrag_cli.storage.places import models_dir

    catalogue = load_catalogue()
    names = (model.name for model in installed(models_dir(), catalogue))
    return list(dict.fromkeys([*catalogue.models, *filter(_SAFE.fullmatch, names)]))


def usable_models() -> list[str]:
    """Return `model_names`, and the name that stands for a server of this machine."""
    from fbrag_cli.generation.server.address import LOCAL

    return [*model_names(), LOCAL]


def method_list(incomplete: str) -> list[str]:
    """Return the methods that a list such as "fb-rag,van" can go on with, each with what stands before it."""
    from fbrag_cli.methods.registry import names

    before = incomplete.rpartition(",")[0].split(",") if "," in incomplete else []
    return [",".join([*before, name]) for name in names() if name not in before]
