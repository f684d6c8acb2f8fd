"""`fbrag ui`: the live page, in which documents are asked."""

from __future__ import annotations

from fbrag_cli.cli.command import command
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.options import ListenOptions
from fbrag_cli.cli.serve import ServerSettings, run_server, socket_path


@command(ListenOptions, ServerSettings)
def ui(console: Console, options: ListenOptions, settings: ServerSettings) -> int:
    """Open a page in the browser that answers questions about documents.

    The page is served on this machine alone, under an address with a token of its own, which is printed too. It ends with Ctrl-C,
    or --idle after the page was closed. It is `fbrag serve --open`.

    \b
    Examples:
      fbrag ui book.txt
      fbrag ui reports/ --large llama-3.2-3b
    """
    return run_server(console, options, settings, socket_path(), page=True)
