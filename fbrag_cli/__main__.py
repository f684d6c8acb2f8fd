"""The process's entry: `python -m fbrag_cli` and the script `fbrag`. The command line is loaded here, under guard."""

import signal
import sys

from fbrag_cli.errors import ExitCode, incomplete, lacking


def main() -> None:
    """Run the command line. Whatever happens, also while modules load, ends in one line and an exit code, never in 1."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the process silently until its own handlers stand
    try:
        from fbrag_cli.cli.main import main as command_line

        command_line()
    except SystemExit:
        raise
    except BaseException as error:
        sys.exit(_last_resort(error))


def _last_resort(error: BaseException) -> int:
    """Report an error that was raised before or after the command line's own reports."""
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    lack = lacking(error) or incomplete(error)
    if sys.stderr is not None:
        said = lack.message if lack else f"internal error ({type(error).__name__}): {error}"
        print("error:", " ".join(said.split()), file=sys.stderr)
    return lack.exit_code if lack else getattr(error, "exit_code", ExitCode.INTERNAL)


if __name__ == "__main__":
    main()
