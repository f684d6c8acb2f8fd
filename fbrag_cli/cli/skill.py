"""`fbrag skill`: prints SKILL.md, which teaches an agent to answer from documents with fbrag's commands."""

from __future__ import annotations

import sys
from importlib.resources import files

from fbrag_cli.cli.command import command
from fbrag_cli.cli.console import Console


@command()
def skill(console: Console) -> None:
    """Print a skill for agents: how to answer from documents with fbrag.

    \b
    Examples:
      mkdir -p ~/.claude/skills/fbrag && fbrag skill > ~/.claude/skills/fbrag/SKILL.md
    """
    sys.stdout.write(files("fbrag_cli.cli").joinpath("SKILL.md").read_text("utf-8"))
