"""What the README says of the repository is true of it."""

import subprocess

from tests.conftest import ROOT

README = (ROOT / "README.md").read_text("utf-8")


def test_the_file_tree_names_every_file_of_the_package_and_no_other() -> None:
    tree = README.split("```text\nfbrag_cli/\n")[1].split("\nmodels/ ")[0]
    told = [line.split()[0] for line in tree.splitlines() if line.strip() and not line.split()[0].endswith("/")]
    tracked = subprocess.run(["git", "-C", str(ROOT), "ls-files", "fbrag_cli"], capture_output=True, text=True, check=True)
    assert sorted(told) == sorted(
        name.rsplit("/", 1)[1] for name in tracked.stdout.splitlines() if not name.endswith("/__init__.py")
    )


def test_the_first_command_is_one_line_and_asks_the_repositorys_document() -> None:
    command = README.split("<!-- main command -->\n```sh\n")[1].split("\n```")[0]
    assert "\n" not in command
    assert (ROOT / command.split("ask -y ")[1].split(" ")[0]).is_file()
