"""`fbrag skill` prints what an agent can use as it stands."""

from __future__ import annotations

from tests.conftest import Run


def test_the_skill_is_a_file_with_a_name_and_a_description(fbrag: Run) -> None:
    skill = fbrag("skill").stdout
    head = skill.split("---")[1]
    assert "name: fbrag\n" in head
    assert len(head.split("description: ")[1]) <= 1024
    assert len(skill.splitlines()) < 100
