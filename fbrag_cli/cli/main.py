"""The command line's entry point: registers the commands, and turns every error and signal into one line and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.completion import show_callback

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.cli.command import Group, all_flags, flags_of, in_json, read
from fbrag_cli.cli.completion import INSTRUCTION, SHELLS, complete, install_script
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.options import CANCELLATION, GlobalOptions, action
from fbrag_cli.cli.signals import Terminated, handle_signals
from fbrag_cli.cli.streams import open_streams, print_after_error
from fbrag_cli.errors import ExitCode, FbragError, incomplete, lacking
from fbrag_cli.generation.process import set_environment
from fbrag_cli.text.printable import byte_size, dumps
from fbrag_cli.version import version

HELP = """Ask questions about long documents, and get answers with sources. Runs on your machine.

\b
Examples:
  fbrag ask book.txt "Who sealed the chronometer box?"
  fbrag explain book.txt "Who sealed the chronometer box?"
  fbrag models pull
"""

#: The commands, in the order of the help, each with the first sentence of its own help.
COMMANDS: Mapping[str, str] = {
    "ask": "Answer a question about one or more documents, with sources.",
    "explain": "Show which chunks were selected for a question, and why.",
    "text": "Print the text of documents, with line and page numbers.",
    "chat": "Ask follow-up questions interactively.",
    "batch": "Answer many questions about many documents.",
    "ui": "Ask questions in your browser, with the document next to them.",
    "serve": "Keep models and documents loaded, and answer over HTTP.",
    "mcp": "Run an MCP server for AI agents, on stdin and stdout.",
    "skill": "Print a SKILL.md for AI agents.",
    "doctor": "Check the installation, the GPU and the models.",
    "eval": "Evaluate methods and settings on questions with known answers.",
    "train": "Train the components that a method needs.",
    "models": "Download, choose, list, verify and delete models.",
    "config": "View and change settings.",
    "cache": "View and clear the cache.",
}


def main() -> None:
    """Run the command line of this process, and exit with its code."""
    gc.set_threshold(20_000)  # objects made at startup live to the end: at the usual 700, collection takes 0.03 of 0.55 s of CPU
    open_streams()
    set_environment()
    if os.environ.get(INSTRUCTION):
        complete(Commands())
    cancellation = Cancellation()
    handle_signals(cancellation)
    code = run(sys.argv[1:], cancellation)
    gc.freeze()  # no collection at exit: saves 0.05 s
    sys.exit(code)


def run(arguments: list[str], cancellation: Cancellation) -> int:
    """Run one command and return its exit code. This is the only place that reports errors."""
    options: GlobalOptions | None = None
    try:
        try:
            with Commands().make_context("fbrag", [*arguments]) as context:
                context.meta[CANCELLATION] = cancellation
                try:
                    code = context.command.invoke(context)
                finally:
                    options = context.obj if isinstance(context.obj, GlobalOptions) else options
        except typer.Exit as stop:
            code = stop.exit_code
        sys.stdout.flush()
        return int(code or 0)
    except typer.TyperException as error:  # Typer's usage errors
        from fbrag_cli.cli.usage import usage_error

        line = read(Commands(), arguments)
        return _failed(usage_error(error, line), options, line)
    except FbragError as error:
        return _failed(error, options, read(Commands(), arguments))
    except BrokenPipeError:  # the reader of stdout has gone
        return ExitCode.DONE
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except Terminated as stop:
        return stop.exit_code
    except SystemExit:
        raise
    except BaseException as error:  # includes panics of Rust libraries
        if isinstance(error.__cause__, (KeyboardInterrupt, Terminated)):  # Python wraps errors raised in __set_name__
            return getattr(error.__cause__, "exit_code", ExitCode.INTERRUPTED)
        if lack := lacking(error) or incomplete(error):
            return _failed(lack, options, read(Commands(), arguments))
        return _internal(error, (options or GlobalOptions()).console())


_MODULES = {"ui": "serve", "skill": "mcp"}  # the modules of commands that have none of their own


class Commands(Group):
    """The command `fbrag`. Its help loads no command, and no command loads another."""

    def __init__(self) -> None:
        settings = {"help_option_names": [], "max_content_width": 100}
        super().__init__("fbrag", HELP, RootOptions, commands=_Loaded(), context_settings=settings)

    def summaries(self) -> Mapping[str, str]:
        return COMMANDS

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS]  # Typer's own would load all of them, even for Tab


class _Loaded(Mapping[str, Any]):
    """The commands by name, each loaded when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        return getattr(import_module(f"fbrag_cli.cli.{_MODULES.get(name, name)}"), name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _print_version(ctx: Any, parameter: Any, asked: bool | None) -> None:
    """Print the version; with -v also llama.cpp's build and devices."""
    if not asked or ctx.resilient_parsing:
        return
    print(f"fbrag {version()}")
    if all_flags(ctx).get("verbose"):
        try:
            from fbrag_cli.generation.llama import machine
        except FbragError as error:
            print(error.message)
            ctx.exit()
        print(f"llama-cpp-python {machine.version()}: {machine.system_info()}")
        for device in machine.devices():
            print(f"device {device.name}: {device.description}, {byte_size(device.free_bytes)} free")
    ctx.exit()


class RootOptions(GlobalOptions):
    """The options that may come before the command."""

    group = "Global"

    version: bool = action(
        "print the version (with -v: llama.cpp's build and devices too)", _print_version, flags=("-V", "--version")
    )
    show_completion: str | None = action(
        "print the tab completion script for a shell", show_callback, default=None, choices=SHELLS, metavar="SHELL"
    )
    install_completion: str | None = action(
        "install tab completion: bash, zsh, fish, powershell or pwsh",
        install_script,
        default=None,
        choices=SHELLS,
        metavar="SHELL",
    )


def _failed(error: FbragError, options: GlobalOptions | None, line: Any) -> int:
    """Report an error, and return its exit code. options: None if the command line could not be parsed. line: the context of the
    command, as far as it could be read."""
    (options or GlobalOptions(flags_of(line))).console().error(error)
    if in_json(line):
        print_after_error(dumps(error.as_json()))
    return error.exit_code


def _internal(error: BaseException, console: Console) -> int:
    """Report an internal error with the path of its log, or its message if no log can be written. -v shows the traceback."""
    import tempfile
    import traceback

    if console.verbosity >= 1:
        traceback.print_exc()
    try:
        with tempfile.NamedTemporaryFile("w", prefix="fbrag-", suffix=".log", delete=False, encoding="utf-8") as log:
            traceback.print_exc(file=log)
    except OSError:
        last = traceback.format_exception_only(error)[-1].strip()
        console.error(FbragError("internal", f"internal error: {last}", "please report this bug (no log could be written)"))
    else:
        what = f"internal error ({type(error).__name__}); the log is {log.name}"
        console.error(FbragError("internal", what, "please report this bug, with the log"))
    return ExitCode.INTERNAL
