"""Which files a folder gives: the ones that people mean, each once, in an order that they would choose."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Literal
from unicodedata import normalize

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fbrag_cli.errors import FbragError
from fbrag_cli.indexing.ignore import parse
from fbrag_cli.indexing.walk import find_files

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links, pipes and names that Windows has not")

Tree = Callable[..., None]
Form = Literal["NFC", "NFD"]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """Makes files that hold their own names, below the working folder."""
    monkeypatch.chdir(tmp_path)

    def make(*paths: str, **contents: str) -> None:
        for path in paths:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, "w") as file:
                file.write(path.encode("utf-8", "replace").decode() + "\n")

    return make


@contextmanager
def nobody() -> Iterator[None]:
    """root, too, may read no more than the modes of files allow."""
    user = os.geteuid()
    if user == 0:
        os.chmod(".", 0o755)
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def found(*paths: str, **globs: list[str]) -> list[str]:
    return [file.path for file in find_files(paths, **globs).files]


def refused(*paths: str, **globs: list[str]) -> FbragError:
    with pytest.raises(FbragError) as caught:
        find_files(paths, **globs)
    assert "\n" not in caught.value.message
    return caught.value


def repository(path: str = ".", ignore: str = "") -> None:
    subprocess.run(["git", "init", "-q", path], check=True)
    Path(path, ".gitignore").write_text(ignore)


# -- a folder --------------------------------------------------------------------------------------------------------------


def test_a_folder_gives_its_known_files_at_any_depth_in_natural_order(tree: Tree) -> None:
    tree("docs/ch10.txt", "docs/ch2.md", "docs/a/z.html", "docs/A b/x.PDF", "docs/a.b/y.py", "docs/image.png")
    assert found("docs") == ["docs/a/z.html", "docs/A b/x.PDF", "docs/a.b/y.py", "docs/ch2.md", "docs/ch10.txt"]


@pytest.mark.parametrize(
    ("given", "first"), [(".", "./a.txt"), ("./", "./a.txt"), ("sub/..", "sub/../a.txt"), ("sub", "sub/b.txt")]
)
def test_paths_begin_as_the_folder_was_given(given: str, first: str, tree: Tree) -> None:
    tree("a.txt", "sub/b.txt")
    assert found(given)[0] == first


def test_an_absolute_folder_gives_absolute_paths(tree: Tree, tmp_path: Path) -> None:
    tree("a.txt")
    assert found(str(tmp_path)) == [f"{tmp_path}/a.txt"]


def test_each_file_has_the_signature_that_the_system_gives(tree: Tree) -> None:
    tree("d/a.txt")
    os.symlink("a.txt", "d/b.md")
    os.utime("d/a.txt", ns=(1, 1_234_567_891_234_567_891))
    (file,) = find_files(["d"]).files
    status = os.stat("d/a.txt")
    assert file.signature == (status.st_size, 1_234_567_891_234_567_891, status.st_ctime_ns, status.st_ino)
    assert find_files(["d/b.md"]).files[0].signature == file.signature


def test_hidden_files_and_folders_are_skipped(tree: Tree) -> None:
    tree("d/.a.txt", "d/.h/b.txt", "d/c.txt")
    assert found("d") == ["d/c.txt"]
    assert found("d/.a.txt", "d/.h") == ["d/.a.txt", "d/.h/b.txt"]


def test_empty_files_are_skipped_in_a_folder_only(tree: Tree) -> None:
    tree("d/a.txt")
    Path("d/__init__.py").touch()
    assert found("d") == ["d/a.txt"]
    assert found("d/__init__.py") == ["d/__init__.py"]


def test_what_is_no_file_is_skipped_in_a_folder(tree: Tree) -> None:
    tree("d/a.txt")
    os.mkfifo("d/pipe.txt")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind("d/socket.txt")
        assert found("d") == ["d/a.txt"]


@pytest.mark.parametrize(
    "name", [b"new\nline.txt", b"\x1b[31mred.txt", b"\xff\xfe.txt", b"-rf.txt", b" .txt", "é😀.txt".encode()]
)
def test_names_survive_whatever_bytes_they_have(name: bytes, tree: Tree) -> None:
    os.mkdir("d")
    with open(b"d/" + name, "w") as file:
        file.write("x")
    (path,) = found("d")
    assert os.fsencode(path) == b"d/" + name
    assert Path(path).read_text() == "x"


def test_a_tree_deeper_than_a_path_may_be_is_a_warning(tree: Tree, tmp_path: Path) -> None:
    tree("d/a.txt")
    os.chdir("d")
    for _ in range(25):
        os.mkdir("x" * 200)
        os.chdir("x" * 200)
    Path("deep.txt").write_text("deep")
    os.chdir(tmp_path)
    findings = find_files(["d"])
    assert [file.path for file in findings.files] == ["d/a.txt"]
    assert "file name too long" in findings.warnings[0]


def test_an_unreadable_folder_within_is_a_warning(tree: Tree) -> None:
    tree("d/a.txt", "d/locked/b.txt")
    os.chmod("d/locked", 0)
    with nobody():
        findings = find_files(["d"])
        error = refused("d/locked")
    os.chmod("d/locked", 0o755)
    assert [file.path for file in findings.files] == ["d/a.txt"]
    assert findings.warnings == ("the folder d/locked is left out: permission denied",)
    assert (error.code, error.message) == ("doc_unreadable", "d/locked cannot be read: permission denied")


def test_a_folder_that_may_be_listed_but_not_entered_is_a_warning(tree: Tree) -> None:
    tree("d/a.txt", "d/listed/b.txt", "d/listed/c/d.txt")
    os.chmod("d/listed", 0o744)
    with nobody():
        findings = find_files(["d"])
        error = refused("d/listed")
    os.chmod("d/listed", 0o755)
    assert [file.path for file in findings.files] == ["d/a.txt"]
    assert "the folder d/listed is left out: permission denied" in findings.warnings
    assert (error.code, error.message) == ("doc_unreadable", "d/listed cannot be read: permission denied")


@pytest.mark.skipif(sys.platform == "win32", reason="makes folders beside their path")
def test_the_path_of_a_folder_that_is_too_deep_is_cut_in_its_middle(tmp_path: Path) -> None:
    (tmp_path / "fine.txt").write_text("text")
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(25):  # each too short for a limit, all together beyond that of a path
        os.mkdir("deep" * 50, dir_fd=folder)
        below = os.open("deep" * 50, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    findings = find_files([str(tmp_path)])
    assert [found.path for found in findings.files] == [str(tmp_path / "fine.txt")]
    (warning,) = findings.warnings
    assert warning.startswith(f"the folder {str(tmp_path)[:90]}")
    assert warning.endswith("deepdeep is left out: file name too long")
    assert len(warning) < 250


# -- several paths ---------------------------------------------------------------------------------------------------------


def test_paths_keep_their_order_and_each_file_comes_once(tree: Tree) -> None:
    tree("d/a.txt", "d/b.txt", "c.bin", "c.txt")
    os.symlink("d/a.txt", "link")
    assert found("d/b.txt", "c.bin", "d", "./d/../d", "c.bin", "link") == ["d/b.txt", "c.bin", "d/a.txt"]


def test_stdin_is_among_them_and_never_the_same_as_before(tree: Tree) -> None:
    tree("a.txt")
    first, second = (find_files(["a.txt", "-"]).files for _ in range(2))
    assert [file.path for file in first] == ["a.txt", "-"]
    assert first[0] == second[0]
    assert first[1] != second[1]


def test_a_named_file_is_taken_whatever_it_is_called(tree: Tree) -> None:
    tree("d/x.unknown", "d/ignored.log")
    repository("d", "*.log\n")
    assert found("d/x.unknown", "d/ignored.log", exclude=["*"]) == ["d/x.unknown", "d/ignored.log"]


def test_named_things_that_are_no_files_are_errors(tree: Tree) -> None:
    tree("d/notes.txt")
    os.mkfifo("pipe.txt")
    assert "pipe.txt is a pipe" in refused("d", "pipe.txt").message
    assert "/dev/null is a device" in refused("/dev/null").message
    assert refused("d", "d/nots.txt").hint == "did you mean d/notes.txt?"
    assert refused("nul\0.txt").code == "doc_not_found"


# -- links -----------------------------------------------------------------------------------------------------------------


def test_links_within_the_folder_give_each_file_once(tree: Tree) -> None:
    tree("d/real/a.txt", "d/.releases/2/b.txt", "d/other.dat")
    os.symlink("real/a.txt", "d/0.txt")  # before the file in order, yet the file is the one that counts
    os.symlink(".releases/2", "d/current")
    os.symlink(".releases/2/b.txt", "d/z.txt")
    os.symlink("other.dat", "d/other.txt")
    os.symlink("..", "d/real/up")
    os.symlink(".", "d/real/here")
    os.symlink("round", "d/round")
    os.symlink("nowhere", "d/nowhere.txt")
    assert found("d") == ["d/current/b.txt", "d/other.txt", "d/real/a.txt"]


def test_no_link_is_followed_out_of_the_folder(tree: Tree, tmp_path: Path) -> None:
    tree("d/a.txt", "secret/b.txt", "d2/c.txt")
    os.symlink("../secret", "d/folder")
    os.symlink(tmp_path / "secret/b.txt", "d/file.txt")
    os.symlink("../d2/c.txt", "d/like.txt")
    os.symlink("..", "d/up")
    os.symlink("folder/b.txt", "d/through.txt")
    assert found("d") == ["d/a.txt"]
    assert found("d/file.txt", "d/folder") == ["d/file.txt"]  # named, both are followed: to the same file


def test_the_folder_itself_may_be_a_link(tree: Tree) -> None:
    tree("real/a.txt")
    os.symlink("a.txt", "real/b.txt")
    os.symlink("real", "link")
    assert found("link") == ["link/a.txt"]


# -- what git ignores ------------------------------------------------------------------------------------------------------


def test_what_git_ignores_is_skipped(tree: Tree) -> None:
    tree("d/a.txt", "d/a.log", "d/keep.log", "d/build/b.txt", "d/sub/build/c.txt", "d/sub/only-here.txt", "d/only-here.txt")
    tree("d/local.txt")
    repository("d", "*.log\n!keep.log\n/build/\n\n# sub\n")
    Path("d/sub/.gitignore").write_bytes(b"\xef\xbb\xbfonly-here.txt\r\n!*.log\r\n")
    tree("d/sub/nested.log")
    Path("d/.git/info/exclude").write_text("local.txt\n")
    assert found("d") == ["d/a.txt", "d/keep.log", "d/only-here.txt", "d/sub/build/c.txt", "d/sub/nested.log"]


def test_a_folder_within_a_repository_heeds_what_is_said_above_it(tree: Tree) -> None:
    tree("r/docs/sub/a.txt", "r/docs/sub/b.txt", "r/docs/sub/c.txt", "r/docs/sub/d.txt", "r/docs/sub/e.txt")
    repository("r", "/docs/sub/a.txt\n/b.txt\n")
    Path("r/docs/.gitignore").write_text("sub/c.txt\n")
    Path("r/.git/info/exclude").write_text("docs/*/d.txt\n")
    assert found("r/docs/sub") == ["r/docs/sub/b.txt", "r/docs/sub/e.txt"]
    os.chdir("r/docs/sub")
    assert found(".") == ["./b.txt", "./e.txt"]


def test_outside_of_a_repository_nothing_is_ignored(tree: Tree) -> None:
    tree("d/a.txt")
    Path("d/.gitignore").write_text("*.txt\n")
    assert found("d") == ["d/a.txt"]


def test_a_repository_within_has_its_own_rules_only(tree: Tree) -> None:
    tree("d/x.txt", "d/inner/x.txt", "d/inner/y.txt")
    repository("d", "x.txt\n")
    repository("d/inner", "y.txt\n")
    assert found("d") == ["d/inner/x.txt"]


def test_an_ignored_folder_that_is_named_is_read(tree: Tree) -> None:
    tree("d/build/a.txt")
    repository("d", "build/\n")
    assert found("d/build") == ["d/build/a.txt"]


def test_rules_that_are_no_file_or_too_large_are_not_heeded(tree: Tree) -> None:
    tree("d/a.txt", "d/b/c.txt", "rules")
    repository("d", "#" * 200_000)
    os.mkfifo("d/b/.gitignore")
    findings = find_files(["d"])
    assert [file.path for file in findings.files] == ["d/a.txt", "d/b/c.txt"]
    assert findings.warnings == ("d/.gitignore is not used: it has more than 100 kB",)


_part = st.sampled_from(r"a b ab * ? [ab] [!a] a* *b a*b* ** \a *a*b*a *?b a[!b]a [a-b]? **a *.txt".split())
_pattern = st.builds(
    lambda no, first, parts, last: no + first + "/".join(parts) + last,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(_part, min_size=1, max_size=3),
    st.sampled_from(["", "", "/"]),
)
_name = st.text("ab", min_size=1, max_size=5)


@pytest.fixture(scope="module")
def git_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("git")
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


@settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    patterns=st.lists(_pattern, max_size=5),
    below=st.lists(_pattern, max_size=3),
    paths=st.sets(st.lists(_name, min_size=1, max_size=4).map("/".join), min_size=1, max_size=8),
)
def test_git_agrees(git_folder: Path, patterns: list[str], below: list[str], paths: set[str]) -> None:
    """The same tree, the same rules: git lists the files that we find."""
    for entry in git_folder.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for path in paths:
        file = git_folder / f"{path}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    (git_folder / ".gitignore").write_text("\n".join(patterns))
    inner = git_folder / sorted(paths)[0].split("/")[0]
    if inner.is_dir():
        (inner / ".gitignore").write_text("\n".join(below))
    git = subprocess.run(
        ["git", "ls-files", "-oz", "--exclude-standard"], cwd=git_folder, capture_output=True, text=True, check=True
    )
    expected = {path for path in git.stdout.split("\0") if path.endswith(".txt")}
    try:
        ours = {os.path.relpath(path, git_folder) for path in found(str(git_folder))}
    except FbragError:
        ours = set()
    assert ours == expected


@pytest.mark.parametrize(
    ("pattern", "name", "left_out"),
    [
        ("*a" * 12 + "*b", "a" * 200, []),
        ("*a" * 12 + "*b", "a" * 200 + "b", ["a" * 200 + "b"]),
        ("a/**/" * 12 + "b", "a/" * 100 + "c", []),
        ("**/" + "*a*a*a*/**/" * 4 + "b", "aaaa/" * 100 + "b", ["aaaa/" * 100 + "b"]),
        ("*a*a*a*" + "/*a*a*/**" * 4 + "/?[!b]", "aaaa/" * 100 + "ab", []),
    ],
)
def test_patterns_of_many_wildcards_are_as_fast_as_others(pattern: str, name: str, left_out: list[str], tree: Tree) -> None:
    """Each would take hours by trying all ways in which its wildcards can match."""
    tree(f"d/{name}", "d/z.txt")
    repository("d", pattern)
    kept = {f"d/{name}"} - {f"d/{each}" for each in left_out}
    assert {*found("d", include=["*"], exclude=[".git*"])} == {"d/z.txt", *kept}


# -- --include and --exclude -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        (["*.log"], ["d/a.log", "d/sub/b.log"]),
        (["*.log", "*.txt"], ["d/a.log", "d/sub/a.txt", "d/sub/b.log"]),
        (["/*.log"], ["d/a.log"]),
        (["sub/"], ["d/sub/a.txt", "d/sub/b.log", "d/sub/deep/c"]),
        (["sub", "!*.log"], ["d/sub/a.txt", "d/sub/deep/c"]),
        (["sub/**/c"], ["d/sub/deep/c"]),
        (["[ab].log"], ["d/a.log", "d/sub/b.log"]),
        (["*"], ["d/a.log", "d/sub/a.txt", "d/sub/b.log", "d/sub/deep/c"]),
    ],
)
def test_include_replaces_the_known_types(globs: list[str], expected: list[str], tree: Tree) -> None:
    tree("d/a.log", "d/sub/a.txt", "d/sub/b.log", "d/sub/deep/c", "d/.hidden.log")
    assert found("d", include=globs) == expected


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        (["*.md"], ["d/a.txt", "d/sub/a.txt"]),
        (["sub"], ["d/a.txt", "d/b.md"]),
        (["sub/", "*.txt"], ["d/b.md"]),
        (["*.txt", "!/a.txt"], ["d/a.txt", "d/b.md", "d/sub/c.md"]),
        (["/sub/*.txt"], ["d/a.txt", "d/b.md", "d/sub/c.md"]),
    ],
)
def test_exclude_leaves_out_files_and_folders(globs: list[str], expected: list[str], tree: Tree) -> None:
    tree("d/a.txt", "d/b.md", "d/sub/a.txt", "d/sub/c.md")
    assert found("d", exclude=globs) == expected


@pytest.mark.parametrize(("there", "typed"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_names_and_patterns_match_in_any_normal_form(there: Form, typed: Form, tree: Tree) -> None:
    # names from a Mac are decomposed, keyboards compose; the ohm sign is another sign for omega in either form
    tree(*(normalize(there, name) for name in ("Verträge/Größe.log", "Verträge/b.log", "한글.log", "\u03a9.log")))
    (path,) = found(normalize(typed, "Verträge/Größe.log"))
    assert Path(path).read_text()
    assert len(found(normalize(typed, "./Verträge"))) == 2
    assert len(found(".", include=[normalize(typed, "Gr?ße*")])) == 1
    assert len(found(".", include=[normalize(typed, "/Verträge/")], exclude=[normalize(typed, "Größe.log")])) == 1
    assert found(normalize(typed, "한글.log"))
    assert found("\u2126.log")
    assert refused(normalize(typed, "Verträge/Größe.txt")).code == "doc_not_found"


def test_a_name_that_is_there_as_typed_is_taken_before_one_that_looks_the_same(tree: Tree) -> None:
    names = [normalize("NFC", "é.txt"), normalize("NFD", "é.txt")]
    tree(*names)
    if len(os.listdir(".")) < 2:
        pytest.skip("a file system that knows one form only")
    assert [found(name) for name in names] == [[name] for name in names]


def test_a_name_of_a_million_marks_takes_no_minutes(tree: Tree) -> None:
    tree("e\u0301.txt")
    start = process_time()
    assert refused("e" + "\u0301\u0323" * 500_000).code == "doc_unreadable"
    assert process_time() - start < 5


def test_exclude_is_stronger_than_include(tree: Tree) -> None:
    tree("d/a.log", "d/b.log")
    assert found("d", include=["*.log"], exclude=["b*"]) == ["d/a.log"]


@pytest.mark.parametrize("glob", ["[", "", "  ", "#x", "x\\"])
def test_a_glob_that_is_none_is_wrong_usage(glob: str, tree: Tree) -> None:
    tree("d/a.txt")
    error = refused("d", include=[glob])
    assert error.code == "usage"
    assert error.message.startswith("--include ")
    assert refused("d", exclude=[glob]).message.startswith("--exclude ")


# -- files of other types ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "is_read"),
    [
        ("rules", b"Dogs may be brought after five.", True),
        ("LICENSE", "© Zoë".encode(), True),
        ("long", b"x" * 4095 + "é".encode() * 9, True),  # a character is cut where the head ends
        ("news.log.1", b"a new lock", True),
        ("notes.10.2", b"a new lock", True),
        ("Dr. Fenn on dogs", b"A letter.", True),
        ("tool", b"\x7fELF\0\0", False),
        ("old", b"caf\xe9 au lait", False),
        ("wide", "wide".encode("utf-16"), False),
        ("lib.so.1", b"text", False),
        ("news.log.gz", b"text", False),
        ("rules.doc", b"text", False),
    ],
)
def test_a_file_without_a_suffix_is_read_if_it_is_text(name: str, data: bytes, is_read: bool, tree: Tree) -> None:
    tree("d/a.txt")
    Path("d", name).write_bytes(data)
    assert (f"d/{name}" in found("d")) == is_read
    assert bool(find_files(["d"]).warnings) != is_read


def test_one_line_counts_the_files_of_other_types_in_all_folders(tree: Tree) -> None:
    tree("d/a.txt", "d/b.png", "d/sub/c.PNG", "e/a.txt", "e/d.doc", "e/.hidden.png", "e/x.o", "e/out/y.png")
    Path("e/tool").write_bytes(b"\0")
    Path("e/empty.png").touch()
    repository("e", "*.o\n/out/\n")
    expected = "4 files were not read: 2 .png, 1 .doc, 1 without a suffix (--include '*' reads every type)"
    assert find_files(["d", "e", "d"]).warnings == (expected,)
    assert find_files(["d", "e"], exclude=["*.png", "*.PNG", "*.doc", "tool"]).warnings == ()
    assert find_files(["d", "e"], include=["*.doc"]).warnings == ("d has no file to read: 3 that --include does not name",)


def test_a_file_that_is_named_or_linked_is_not_counted(tree: Tree) -> None:
    tree("d/a.txt", "d/b.doc", "d/c.dat")
    os.symlink("c.dat", "d/c.txt")
    assert find_files(["d", "d/b.doc"]).warnings == find_files(["d/b.doc", "d"]).warnings == ()


def test_the_line_names_five_types(tree: Tree) -> None:
    tree("d/a.txt", *(f"d/{n}.q{n}" for n in range(7)), "d/x.q6")
    (warning,) = find_files(["d"]).warnings
    assert warning.startswith("8 files were not read: 2 .q6, 1 .q0, 1 .q1, 1 .q2, 1 .q3 and 2 others (")


# -- nothing found ---------------------------------------------------------------------------------------------------------


def test_a_folder_without_known_files_says_what_it_holds_and_how_to_have_it(tree: Tree) -> None:
    tree("d/a.log2", "d/b.log2", "d/c.dat", "d/.hidden/x.txt", "d/x.txt")
    repository("d", "x.txt\n")
    error = refused("d")
    assert (error.code, error.document) == ("doc_empty", "d")
    assert error.message == "d has no file to read: 3 hidden, 2 .log2, 1 .dat, 1 git-ignored"
    assert error.hint == "choose by name: --include '*.log2'"


def test_include_that_matches_nothing_says_so(tree: Tree) -> None:
    tree("d/a.txt")
    error = refused("d", include=["d/*.txt"])
    assert error.message == "d has no file to read: 1 that --include does not name"
    assert error.hint == "patterns are relative to the folder, as in its .gitignore: --include '*.txt'"


def test_files_that_are_all_ignored_are_to_be_named(tree: Tree) -> None:
    tree("d/a.log")
    repository("d", "*.log")
    error = refused("d", include=["*.log"])
    assert error.message == "d has no file to read: 2 hidden, 1 git-ignored"
    assert error.hint == "name the files themselves: they are read whatever their type"


def test_an_empty_folder_is_a_warning_where_there_is_something_else(tree: Tree) -> None:
    tree("a.txt")
    os.mkdir("empty")
    assert refused("empty").message == "the folder empty contains no files"
    findings = find_files(["empty", "a.txt"])
    assert [file.path for file in findings.files] == ["a.txt"]
    assert findings.warnings == ("the folder empty contains no files",)


def test_a_folder_whose_files_were_all_named_before_is_no_warning(tree: Tree) -> None:
    tree("d/a.txt")
    assert find_files(["d/a.txt", "d"]).warnings == ()


# -- patterns --------------------------------------------------------------------------------------------------------------


def test_the_last_of_hundreds_of_patterns_that_matches_decides() -> None:
    lines = [f"name{n}" for n in range(300)] + ["!name7", "/deep/*/name8", "!/deep/x/name8"]
    patterns, others = parse(lines)
    assert patterns
    assert others == ()
    assert patterns.match("name299", False) is True
    assert patterns.match("name300", False) is None
    assert patterns.match("sub/name7", False) is False
    assert patterns.match("deep/x/name8", False) is False
    assert patterns.match("deep/y/name8", False) is True
    assert patterns.match("name299/x", False) is None
    assert patterns.match("name299", True) is True
