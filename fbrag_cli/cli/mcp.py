"""For agents: `fbrag mcp`, tools over the Model Context Protocol on stdin and stdout; `fbrag skill`, which prints SKILL.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING

from fbrag_cli.cli.command import command
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.option import option
from fbrag_cli.cli.options import Options
from fbrag_cli.errors import ExitCode
from fbrag_cli.installation import load
from fbrag_cli.session.settings import CacheSettings, ModelSettings

if TYPE_CHECKING:
    from fbrag_cli.serving.desk import Desk


class McpOptions(Options):
    group = "Document"

    allow: list[str] = option(
        (), "a folder whose files may be read; may be given several times (the working folder)", metavar="DIR"
    )


@command(McpOptions, ModelSettings, CacheSettings)
def mcp(console: Console, options: McpOptions, models: ModelSettings, cache: CacheSettings) -> int:
    """Run an MCP server for AI agents, on stdin and stdout.

    Your agent starts this command, and stops it by closing its input.

    \b
    Examples:
      claude mcp add fbrag -- fbrag mcp --allow ~/papers
      fbrag mcp --allow contracts/ --large llama-3.2-3b
    """
    from fbrag_cli.serving.door import Door

    door = Door.to(options.allow or ["."])

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
