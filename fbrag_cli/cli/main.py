"""The entry point: registers the commands, and turns every error and signal into one line and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import typer

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.cli.argv import asks_for_help, before_dashes, first_word, in_json, is_quiet, value_of, with_options_for_words
from fbrag_cli.cli.commands import Commands
from fbrag_cli.cli.completion import INSTRUCTION, complete
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.groups import takes
from fbrag_cli.cli.help import print_help
from fbrag_cli.cli.options import CANCELLATION, GlobalOptions, RootOptions
from fbrag_cli.cli.signals import Terminated, handle_signals
from fbrag_cli.cli.streams import open_streams, print_after_error
from fbrag_cli.errors import ExitCode, FbragError, lacking
from fbrag_cli.generation.process import set_environment
from fbrag_cli.text.printable import dumps

HELP = """Answers from a long document, with the chunks that they rest on. On your own machine.

\b
Examples:
  fbrag ask book.txt "Who sealed the chronometer box?"
  fbrag explain book.txt "Who sealed the chronometer box?"
  fbrag models pull
"""


def main() -> None:
    """Run the command line of this process, and exit with its code."""
    gc.disable()  # until a command has its options (`groups.takes`): what a start makes, it needs to the end
    open_streams()
    set_environment()
    if os.environ.get(INSTRUCTION):
        sys.exit(complete(_command()))
    cancellation = Cancellation()
    handle_signals(cancellation)
    code = run(sys.argv[1:], cancellation)
    gc.freeze()  # the end of the process looks for no garbage: 0.03 s
    sys.exit(code)


def run(arguments: list[str], cancellation: Cancellation) -> int:
    """Run one command and return its exit code. This is the only place that reports errors."""
    options, defaults = GlobalOptions(), dict[str, Any]()
    arguments = with_options_for_words(arguments)
    try:
        try:
            command, defaults = _command(), _config_defaults(arguments)
            with command.make_context("fbrag", list(arguments), default_map=defaults) as context:
                context.meta[CANCELLATION] = cancellation
                try:
                    code = context.command.invoke(context)
                finally:
                    options = context.obj if isinstance(context.obj, GlobalOptions) else options
        except typer.Exit as stop:
            code = stop.exit_code
        sys.stdout.flush()
        return int(code or 0)
    except typer.TyperException as error:  # Typer's errors of usage
        if type(error).__name__ == "NoArgsIsHelpError":
            print_help(error.format_message(), sys.stderr)
            return ExitCode.USAGE
        return _failed(_usage_error(error, arguments), options, arguments, defaults)
    except FbragError as error:
        return _failed(error, options, arguments, defaults)
    except BrokenPipeError:  # nobody reads stdout
        return ExitCode.DONE
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except Terminated as stop:
        return stop.exit_code
    except SystemExit:
        raise
    except BaseException as error:  # also a panic of a library in Rust
        if isinstance(error.__cause__, (KeyboardInterrupt, Terminated)):  # Python wraps what is raised in a __set_name__
            return getattr(error.__cause__, "exit_code", ExitCode.INTERRUPTED)
        lack = lacking(error)
        return _failed(lack, options, arguments, defaults) if lack else _internal(error, options.console())


@takes(RootOptions)
def root(console: Console, options: RootOptions) -> None:
    """The options that may stand before the command."""


def _command() -> Any:
    """Return Typer's command for all of fbrag."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
    app.callback(cls=Commands, help=HELP, no_args_is_help=True, context_settings=settings)(root)
    return typer.main.get_command(app)


def _config_defaults(arguments: list[str]) -> dict[str, Any]:
    """Return the defaults of the options, by the configuration file. Warn of what nothing reads in it."""
    flags = before_dashes(arguments)
    if asks_for_help(flags):
        return {}
    from fbrag_cli.cli.config_keys import config_defaults

    color: Any = "never" if value_of("--color", flags) == "never" else "auto"
    console = Console(verbosity=-1 if is_quiet(flags) else 0, color=color, config=value_of("--config", flags))
    return config_defaults(first_word(flags), console, os.environ)


def _usage_error(error: typer.TyperException, arguments: list[str]) -> FbragError:
    from fbrag_cli.cli.usage import usage_error

    return usage_error(error, arguments)


def _failed(error: FbragError, options: GlobalOptions, arguments: list[str], defaults: dict[str, Any]) -> int:
    options.console().error(error)
    if in_json(arguments, defaults):
        print_after_error(dumps(error.as_json()))
    return error.exit_code


def _internal(error: BaseException, console: Console) -> int:
    """Report an internal error with the path of its log, else in its own words. -v shows the traceback."""
    import tempfile
    import traceback

    if console.verbosity >= 1:
        traceback.print_exc()
    try:
        with tempfile.NamedTemporaryFile("w", prefix="fbrag-", suffix=".log", delete=False, encoding="utf-8") as log:
            traceback.print_exc(file=log)
    except OSError:
        last = traceback.format_exception_only(error)[-1].strip()
        console.error(FbragError("internal", f"internal error: {last}", "please report it; no log of it can be written"))
    else:
        what = f"internal error ({type(error).__name__}); the log is {log.name}"
        console.error(FbragError("internal", what, "please report it, with the log"))
    return ExitCode.INTERNAL
