import pytest
from hypothesis import given
from hypothesis import strategies as st

from fbrag_cli.text.printable import cut_middle, dumps, in_short, one_line, plural, printable


@given(st.text())
def test_printable_keeps_offsets_and_lets_no_control_through(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert all(character >= " " or character in "\t\n" for character in shown)
    assert not set(shown) & {"\x7f", "\x9b", "\u202e", "\u2066", "\u200b", "\ufeff"}
    assert all(a == b for a, b in zip(text, shown, strict=True) if b.isalnum())


@given(st.text(), st.integers(1, 40))
def test_one_line_is_one_line_of_at_most_the_width(text: str, width: int) -> None:
    assert len(one_line(text, width)) <= width
    assert "\n" not in one_line(text)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_reads_back_as_the_same_text_and_carries_no_control_character(text: str) -> None:
    import json

    told = dumps({"text": text})
    assert json.loads(told) == {"text": text}
    assert all(character >= " " and not "\x7f" <= character <= "\x9f" for character in told)


@pytest.mark.parametrize("hidden", ["\U000e0041", "\U000e007f", "\u3164", "\u115f", "\u1160", "\uffa0", "\U0001d173"])
def test_an_invisible_letter_is_made_visible(hidden: str) -> None:
    assert printable(f"a{hidden}b") == "a\ufffdb"
    assert hidden not in dumps({"text": hidden})


@pytest.mark.parametrize("text", ["❤️ 1️⃣ 👩‍❤️‍👩", "葛\U000e0100飾", "می\u200cخواهم", "क्\u200dष", "co\u00adoperate"])
def test_emoji_and_the_joiners_of_scripts_stay(text: str) -> None:
    assert printable(text) == text
    assert dumps(text) == f'"{text}"'


def test_a_row_of_variation_selectors_hides_nothing() -> None:
    assert printable("😀\ufe0f\U000e0158\U000e0155!") == "😀\ufe0f\ufffd\ufffd!"


def test_a_count_has_the_number_of_its_unit() -> None:
    assert [plural(count, "chunk") for count in (0, 1, 2, 1200)] == ["0 chunks", "1 chunk", "2 chunks", "1,200 chunks"]


@given(st.text(st.characters(exclude_characters="…")), st.integers(3, 40))
def test_a_text_that_is_cut_in_the_middle_keeps_both_ends(text: str, width: int) -> None:
    cut = cut_middle(text, width)
    before, _, after = cut.partition("…")
    assert text == cut if len(text) <= width else len(cut) == width
    assert text.startswith(before)
    assert text.endswith(after)


def test_the_middle_that_is_cut() -> None:
    assert [cut_middle("abcdefghij", width) for width in (10, 9, 8, 3)] == ["abcdefghij", "abcd…ghij", "abcd…hij", "a…j"]


def test_warnings_of_many_files_are_one_line_for_each_kind() -> None:
    named = [(f"{n}.docx", f"{n}.docx: not read: {plural(n, 'comment')} (--markup reads them)") for n in range(1, 201)]
    named.append(("a.pdf", "a.pdf: pages 3-4 could not be read"))
    assert in_short(named) == [
        "1.docx: not read: 1 comment (--markup reads them) (and 199 more files alike)",
        "a.pdf: pages 3-4 could not be read",
    ]


def test_of_too_many_kinds_of_warnings_the_first_are_told_and_the_rest_is_counted() -> None:
    names = [f"{a}{b}" for a in "abcdef" for b in "ghijkl"]
    lines = in_short((name, f"{name}: its {name[::-1]} is odd") for name in names)
    assert len(lines) == 12
    assert lines[0] == "ag: its ga is odd"
    assert lines[-1] == "25 more kinds of warnings (--json lists all)"
    assert len(in_short((name, f"{name}: its {name[::-1]} is odd") for name in names[:12])) == 12
    assert in_short([]) == []
