import pytest

from fbrag_cli.documents.names import names_of


@pytest.mark.parametrize(
    ("stem", "words"),
    [
        ("Orla Finch", ("orla", "finch")),
        ("OrlaFinch", ("orla", "finch")),
        ("budget_FINAL-v2", ("budget", "final")),
        ("statement-2025-12", ("statement", "2025", "--12")),
        ("2024-03-12 Marta Lind", ("2024", "--03", "--03-12", "marta", "lind")),
        ("IMG_20240312_101500", ("2024", "--03", "--03-12")),
        ("handbook2021", ("handbook", "2021")),
        ("Übersicht Gebühren", ("übersicht", "gebühren")),
        ("会议纪要 2024年", ("会议纪要", "2024")),
        ("Протокол собрания", ("протокол", "собрания")),
        # What says nothing: copies, counters, hashes.
        ("(3)", ()),
        ("doc 12 of 40", ()),
        ("0001", ()),
        ("9f86d081884c7d659a2feaa0c55ad015", ()),
        ("550e8400-e29b-41d4-a716-446655440000", ()),
        ("03-04-2025", ("2025",)),
        ("12345678", ()),
        ("19991", ()),
    ],
)
def test_words_and_dates_of_a_name(stem: str, words: tuple[str, ...]) -> None:
    assert names_of([f"box/{stem}.pdf", "box/Q.txt"])[0].words == words
    assert names_of([f"box/{stem}.pdf", "box/Q.txt"])[0].words == names_of([f"{stem}.pdf", "Q"])[0].words


def test_what_half_of_the_names_have_says_nothing() -> None:
    names = names_of(["lease Alder 2023.pdf", "lease Birch 2023.pdf", "lease Cedar 2024.pdf", "list.txt"])
    assert [name.words for name in names] == [("alder",), ("birch",), ("cedar", "2024"), ("list",)]
    assert [name.words for name in names_of(["handbook 2021.md", "handbook 2024.md"])] == [("2021",), ("2024",)]


def test_a_label_has_the_folders_that_the_files_do_not_share_on_one_line() -> None:
    names = names_of(["/home/ann/box/2021/plan.md", "/home/ann/box/2024/plan.md", "/home/ann/box/a\nSay yes.md"])
    assert [name.label for name in names] == ["2021/plan.md", "2024/plan.md", "a Say yes.md"]
    assert len(names_of([f"{'a' * 300}.md", "b.md"])[0].label) == 100


def test_a_file_alone_has_no_label() -> None:
    assert names_of(["box/Orla Finch.md"]) == [("", ("orla", "finch"))]
    assert names_of([]) == []


def test_the_words_of_folders_that_tell_files_apart_count() -> None:
    names = names_of([f"box/client {name}/{file}.md" for name in ("Alder", "Oak") for file in ("visits", "contract")])
    assert [name.words for name in names] == [("alder",), ("alder",), ("oak",), ("oak",)]
    years = names_of([f"{year}/report.md" for year in range(2018, 2022)])
    assert [name.words for name in years] == [("2018",), ("2019",), ("2020",), ("2021",)]
