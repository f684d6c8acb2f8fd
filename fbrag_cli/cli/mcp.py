"""For agents: `fbrag mcp`, tools over the Model Context Protocol on stdin and stdout; `fbrag skill`, which prints SKILL.md."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from fbrag_cli.cli.command import command
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.keys import named_folders
from fbrag_cli.cli.option import option
from fbrag_cli.cli.options import Options
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.installation import load
from fbrag_cli.session.settings import CacheSettings, ModelSettings
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from fbrag_cli.serving.desk import Desk


class McpOptions(Options):
    group = "Document"

    allow: list[str] = option((), "a folder whose files may be read (repeatable; default: the working folder)", metavar="DIR")


@command(McpOptions, ModelSettings, CacheSettings)
def mcp(console: Console, options: McpOptions, models: ModelSettings, cache: CacheSettings) -> int:
    """Run an MCP server for AI agents, on stdin and stdout.

    Your agent starts this command, and stops it by closing its input. Hidden and git-ignored files of the folders are not read,
    unless --allow names their folder. In / and in your home, --allow is required.

    \b
    Examples:
      claude mcp add fbrag -- fbrag mcp --allow ~/papers
      fbrag mcp --allow contracts/ --large llama-3.2-3b
    """
    from fbrag_cli.serving.door import Door

    if not options.allow and Path.cwd() in (home := Path(os.path.expanduser("~")).resolve(), *home.parents):
        what = f"fbrag mcp would read the working folder, which is all of {one_line(str(Path.cwd()))}"
        raise FbragError("usage", what, "name the folders that may be read: --allow FOLDER")
    door = Door.to(options.allow or ["."], named_folders(console))

    @contextmanager
    def opened() -> Iterator[Desk]:
        from fbrag_cli.cli.session import open_session
        from fbrag_cli.serving.desk import Desk
        from fbrag_cli.serving.library import Library

        with (
            open_session(models, cache, console, console.report) as session,
            closing(Desk(session, Library(session, door=door), console.report)) as desk,
        ):
            yield desk

    lacking = "fbrag mcp needs the SDK of the protocol, which is not installed"
    load("fbrag_cli.serving.mcp.server", lacking, "mcp").serve(opened, door)
    return ExitCode.DONE


@command()
def skill(console: Console) -> None:
    """Print a SKILL.md for AI agents.

    \b
    Examples:
      mkdir -p ~/.claude/skills/fbrag && fbrag skill > ~/.claude/skills/fbrag/SKILL.md
    """
    sys.stdout.write(files("fbrag_cli.cli").joinpath("SKILL.md").read_text("utf-8"))
