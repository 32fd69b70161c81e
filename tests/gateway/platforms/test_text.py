"""Lengths and cuts of plain text."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.platforms.text import best_cut, tidy, utf16_len, utf16_offsets


@given(st.text(), st.data())
def test_offsets_count_utf16_units(text: str, data: st.DataObject) -> None:
    indexes = data.draw(st.lists(st.integers(0, len(text))))
    expected = [len(text[:index].encode("utf-16-le")) // 2 for index in indexes]
    assert utf16_offsets(text, indexes) == expected
    assert utf16_len(text) == len(text.encode("utf-16-le")) // 2


def test_half_a_surrogate_pair_is_replaced_and_a_whole_one_joined() -> None:
    assert tidy("a\ud83d b\ud83d\ude00") == "a\ufffd b😀"


def test_only_blank_lines_are_taken_from_the_start() -> None:
    assert tidy("\r\n  \n    indented\r\nx \n") == "    indented\nx"
    assert tidy("  a\nb") == "  a\nb"


def test_what_should_stay_whole_is_cut_only_when_nothing_else_is_left() -> None:
    text = "some words `and code here` end"
    assert text[: best_cut(text, 0, 20, [(11, 26)])] == "some words"
    assert text[: best_cut(text, 0, 22, [(0, 30)])] == "some words `and code"
