"""`fbrag skill` prints what an agent can use as it stands."""

from __future__ import annotations

import re

from fbrag_cli.cli.argv import COMMANDS
from tests.conftest import Run


def test_the_skill_is_a_file_with_a_name_and_a_description(fbrag: Run) -> None:
    skill = fbrag("skill").stdout
    head = skill.split("---")[1]
    assert "name: fbrag\n" in head
    assert len(head.split("description: ")[1]) <= 1024
    assert len(skill.splitlines()) < 100


def test_the_commands_and_options_of_the_skill_exist(fbrag: Run) -> None:
    skill = fbrag("skill").stdout
    used = set()
    for line in skill.splitlines():
        for name in re.findall(r"fbrag (\w+)", line)[:1]:
            used |= {(name, option) for option in re.findall(r"(?<= )--?[\w-]+", line)}
    assert {name for name, _ in used} <= {*COMMANDS, "COMMAND"}
    for name in {name for name, _ in used} & {*COMMANDS}:
        described = fbrag(name, "--help-all").stdout
        for option in {option for each, option in used if each == name}:
            assert re.search(rf"(^|[\s,/]){option}\b", described, re.MULTILINE), (name, option)
