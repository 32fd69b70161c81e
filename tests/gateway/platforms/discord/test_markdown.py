"""The model's Markdown as Discord shows it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.messages import Address, OutboundMessage, Text
from gateway.platforms.discord.formatting import PAGES, build_discord_post, build_nonce
from gateway.platforms.discord.markdown import adapt, render
from gateway.platforms.outgoing import Document, Formatted
from gateway.platforms.text import utf16_len
from tests.gateway.platforms.answers import ANSWERS, Answer


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("plain text", "plain text"),
        ("**bold** *it* `code` ~~no~~ [a](https://a.example)", "**bold** *it* `code` ~~no~~ [a](https://a.example)"),
        ("# One\n## Two\n### Three", "# One\n## Two\n### Three"),
        ("#### Four ####\n##### **Five**", "**Four**\n**Five**"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("![a cat](https://a.example/c.png)", "[a cat](https://a.example/c.png)"),
        ("2*3*4 and x**2", r"2\*3\*4 and x**2"),
        ("`2*3*4` https://a.example/a*b*c", "`2*3*4` https://a.example/a*b*c"),
        ("snake_case_name <@123>", "snake_case_name <@123>"),
        ("a || b || c but ||hidden||", r"a \|\| b \|\| c but ||hidden||"),
        ("- a\n  #### b\n  ---", "- a\n  #### b\n  ---"),
        ("```py\n#### no\n|a|b|\n|-|-|\n2*3*4\n```", "```py\n#### no\n|a|b|\n|-|-|\n2*3*4\n```"),
    ],
)
def test_what_discord_shows_stays_and_the_rest_is_put_another_way(markdown: str, shown: str) -> None:
    assert adapt(markdown) == shown


def test_a_table_is_monospace() -> None:
    table = "Sizes:\n\n| part | **size** |\n|---|--:|\n| bolt | 5 |\n| nut | 12 |\n\nDone."
    assert adapt(table) == "Sizes:\n\n```\npart  size\n----  ----\nbolt     5\nnut     12\n```\n\nDone."


def test_a_table_too_wide_is_written_out() -> None:
    wide = "| part | what it is for |\n|---|---|\n| bolt | " + "holds " * 20 + "|\n| nut | turns |"
    assert adapt(wide).startswith("part: **bolt**\nwhat it is for: holds holds")
    assert adapt(wide).endswith("\n\npart: **nut**\nwhat it is for: turns")


def test_pieces_fit_and_code_is_closed_and_opened_again() -> None:
    text = "Intro.\n\n```py\n" + "\n".join(f"line_{number} = '🎈'" for number in range(400)) + "\n```"
    found = render(text)
    assert len(found) > 1
    assert all(utf16_len(piece.text) <= 2000 and piece.text.count("```") == 2 for piece in found)
    assert render(text) == found


def test_a_very_long_text_is_a_beginning_and_a_file() -> None:
    text = "word " * 5000
    head, file = PAGES.paginate(text)
    assert isinstance(head, Formatted)
    assert head.text.endswith("The whole text is attached as answer.md.")
    assert len(head.text) < 2000
    assert file == Document(text=text)


def test_a_piece_has_a_nonce_of_its_own_within_the_limit() -> None:
    nonces = {build_nonce("0123456789abcdef01234567", piece) for piece in range(12)}
    assert len(nonces) == 12
    assert all(len(nonce) <= 25 for nonce in nonces)
    assert build_nonce("k1", 0) == "k1"
    assert build_nonce("k1", 3) == "k1.3"


def test_a_thread_does_not_quote_the_message_it_began_with() -> None:
    address = Address(account="discord", chat="77", reply_to="77")
    message = OutboundMessage(key="k", address=address, parts=(Text(text="hi"),))
    assert build_discord_post(message, PAGES.paginate("hi"), in_guild=True).quotes == ""


@pytest.mark.parametrize("answer", ANSWERS)
def test_answers_of_models(answer: Answer) -> None:
    assert render(answer.markdown) == [Formatted(text=answer.discord)]


@given(st.text(st.sampled_from("*_|[]()!#>-+<\\ \na1é😀")), st.integers(20, 80))
def test_any_text_keeps_its_letters_in_pieces_that_fit(text: str, limit: int) -> None:
    messages = render(text, limit)
    assert all(0 < utf16_len(message.text) <= limit for message in messages)
    assert re.findall("[a1é😀]", "".join(message.text for message in messages)) == re.findall("[a1é😀]", text)
