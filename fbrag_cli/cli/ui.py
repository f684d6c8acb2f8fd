"""`fbrag ui`: the live page, in which documents are asked."""

from __future__ import annotations

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.groups import takes
from fbrag_cli.cli.listen import ListenOptions
from fbrag_cli.cli.serve import ServerSettings, run_server


@takes(ListenOptions, ServerSettings)
def ui(console: Console, options: ListenOptions, settings: ServerSettings) -> int:
    """Open a page in the browser that answers questions about documents.

    The page is served on this machine alone, under an address with the user's token, which is printed too. It ends with Ctrl-C.
    It is `fbrag serve --open`.

    \b
    Examples:
      fbrag ui book.txt
      fbrag ui reports/ --large llama-3.2-3b
    """
    return run_server(console, options, settings, page=True)
