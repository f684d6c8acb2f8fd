from hypothesis import given
from hypothesis import strategies as st

from fbrag_cli.render.as_json import dumps
from fbrag_cli.text.printable import one_line, printable


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
