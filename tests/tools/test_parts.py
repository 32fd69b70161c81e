"""Parts survive being stored, whatever is in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.parts import Location, Media, Part, Quote, Text, dump_parts, load_parts, text_of, words_of

_WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
_PARTS = st.one_of(
    st.builds(Text, text=_WORDS),
    st.builds(Media, kind=st.sampled_from(["image", "file"]), name=_WORDS, size_bytes=st.integers(0), problem=_WORDS),
    st.builds(Location, latitude=st.floats(-90, 90), longitude=st.floats(-180, 180), name=_WORDS),
    st.builds(Quote, text=_WORDS, author=_WORDS, how=st.sampled_from(["replied to", "forwarded from"])),
)


@given(st.lists(_PARTS, max_size=5).map(tuple))
def test_what_is_stored_comes_back(parts: tuple[Part, ...]) -> None:
    assert load_parts(dump_parts(parts)) == parts


@pytest.mark.parametrize(
    "damaged", ["", "[", "{}", "[1]", '[{"type": "tex"}]', '[{"type": "text", "tex": ""}]', "null"]
)
def test_a_damaged_row_is_read_as_such(damaged: str) -> None:
    if damaged == "{}":
        assert load_parts(damaged) == ()
    else:
        assert "damaged" in text_of(load_parts(damaged))


@pytest.mark.parametrize(
    ("quote", "words"),
    [
        (Quote(text="go on", author="Eve"), "[replied to Eve: go on]"),
        (Quote(text="go on"), "[replied to somebody: go on]"),
        (Quote(how="forwarded from", author="Eve"), "[forwarded from Eve]"),
    ],
)
def test_what_is_quoted_is_told_apart_from_ones_own_words(quote: Quote, words: str) -> None:
    parts = (quote, Text(text="what about this?"))
    assert text_of(parts) == f"{words}\nwhat about this?"
    assert words_of(parts) == "what about this?"
