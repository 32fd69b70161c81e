"""Slack's flavours of text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.platforms.outgoing import Document, Formatted
from gateway.platforms.slack.formatting import PAGES
from gateway.platforms.slack.markdown import MAX_MARKDOWN_UNITS, render, render_notification, render_plain


def test_pieces_fit_and_ring_for_nobody() -> None:
    found = render("😀 " * 9_000)
    assert all(len(piece.text.encode("utf-16-le")) // 2 <= MAX_MARKDOWN_UNITS for piece in found)
    assert render("<!channel> <!here> <@U1>") == [Formatted(text="<\u200b!channel> <\u200b!here> <@U1>")]
    assert render("  \n ") == []


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("# A\n\n**b** `c` & [d](https://x.example)", "A\n\nb c &amp; d (https://x.example)"),
        ("> quoted\n\n- item", "quoted\n\n• item"),
        ("```py\ncode\n```", "code"),
        ("x" * 2_000, "x" * 699 + "…"),
    ],
)
def test_a_notification_is_plain_and_short(markdown: str, shown: str) -> None:
    assert render_notification(markdown) == shown


def test_a_long_text_is_pages_and_a_very_long_one_a_file() -> None:
    text = "\n\n".join(f"{number} " + "x" * 10_000 for number in range(3))
    assert [type(page) for page in PAGES.paginate(text)] == [Formatted] * 3
    head, file = PAGES.paginate("It begins.\n\n" + "x" * 100_000)
    assert isinstance(head, Formatted)
    assert head.text.startswith("It begins.\n\n")
    assert head.text.endswith("\n\nThe whole text is attached as answer.md.")
    assert len(head.text) < 2_000
    assert isinstance(file, Document)
    assert PAGES.paginate("") == ()


@given(st.text(st.sampled_from("*_|[]!#>-+<&\\ \na1é😀"), max_size=400))
def test_any_text_keeps_its_letters(text: str) -> None:
    letters = re.findall("[1é😀]", text)
    assert re.findall("[1é😀]", render_plain(text)) == letters
    assert re.findall("[1é😀]", "".join(piece.text for piece in render(text))) == letters
    assert len(render_notification(text)) <= 5 * 700
