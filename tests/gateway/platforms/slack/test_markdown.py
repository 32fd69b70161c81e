"""Slack's flavours of text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.platforms.outgoing import Document
from gateway.platforms.slack.formatting import SlackText, paginate
from gateway.platforms.slack.markdown import (
    MAX_MARKDOWN_UNITS,
    MAX_SECTION_CHARS,
    render,
    render_mrkdwn,
    render_notification,
    render_sections,
)
from tests.gateway.platforms.answers import ANSWERS, Answer


@pytest.mark.parametrize(
    ("markdown", "written"),
    [
        ("plain", "plain"),
        ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
        ("**bold** *it* _it_ ~~gone~~ `code`", "*bold* _it_ _it_ ~gone~ `code`"),
        ("**bold *both* bold**", "*bold _both_ bold*"),
        ("***both***", "_*both*_"),
        ("中**文**字", "中\u200b*文*\u200b字"),
        ("[a & b](https://x.example/?a=1&b=2)", "<https://x.example/?a=1&amp;b=2|a &amp; b>"),
        ("[**b**](https://x.example/a|b)", "<https://x.example/a%7Cb|*b*>"),
        ("[odd](ftp://x.example)", "odd (ftp://x.example)"),
        ("<https://x.example>", "<https://x.example|https://x.example>"),
        ("# Title **x** #", "*Title x*"),
        ("- one\n- two\n  1. three", "• one\n• two\n  1. three"),
        ("> quoted **x**\n> more", "> quoted *x*\n> more"),
        ("```python\nif a < b:\n    `x`\n```", "```\nif a &lt; b:\n    `x`\n```"),
        ("````\n```\n````", "```\n``\u200b`\n```"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("| a | b |\n|---|---|\n| 1 | **2** |", "```\na  b\n-  -\n1  2\n```"),
        ("<!channel> hi", "&lt;!channel&gt; hi"),
        ("||hidden||", "hidden"),
    ],
)
def test_markdown_as_mrkdwn(markdown: str, written: str) -> None:
    assert render_mrkdwn(markdown) == written


def test_a_wide_table_becomes_records() -> None:
    wide = "x" * 50
    table = f"| name | what |\n|---|---|\n| {wide} | **{wide}** |"
    assert render_mrkdwn(table) == f"name: *{wide}*\nwhat: *{wide}*"


@pytest.mark.parametrize("text", ["& " * 9_000, "word " * 9_000, "&" * 9_000, "```\n" + "a < b\n" * 3_000 + "```"])
def test_sections_fit(text: str) -> None:
    found = render_sections(text)
    assert all(0 < len(section) <= MAX_SECTION_CHARS for section in found)
    assert sum(section.count("&amp;") + section.count("word") for section in found) == text.count("&") + text.count(
        "word"
    )


def test_pieces_fit_and_ring_for_nobody() -> None:
    found = render("😀 " * 9_000)
    assert all(len(piece.encode("utf-16-le")) // 2 <= MAX_MARKDOWN_UNITS for piece in found)
    assert render("<!channel> <!here> <@U1>") == ["<\u200b!channel> <\u200b!here> <@U1>"]
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
    assert [type(page) for page in paginate(text)] == [SlackText] * 3
    head, file = paginate("It begins.\n\n" + "x" * 100_000)
    assert isinstance(head, SlackText)
    assert head.markdown.startswith("It begins.\n\n")
    assert head.markdown.endswith("\n\nThe whole text is attached as answer.md.")
    assert len(head.markdown) < 2_000
    assert isinstance(file, Document)
    assert paginate("") == ()


@pytest.mark.parametrize("answer", ANSWERS)
def test_answers_of_models(answer: Answer) -> None:
    assert render_mrkdwn(answer.markdown) == answer.mrkdwn


@given(st.text(st.sampled_from("*_|[]!#>-+<&\\ \na1é😀"), max_size=400))
def test_any_text_keeps_its_letters(text: str) -> None:
    letters = re.findall("[1é😀]", text)
    assert re.findall("[1é😀]", render_mrkdwn(text)) == letters
    assert re.findall("[1é😀]", "".join(render(text))) == letters
    assert all(0 < len(section) <= MAX_SECTION_CHARS for section in render_sections(text))
    assert len(render_notification(text)) <= 5 * 700
