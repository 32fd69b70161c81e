"""Markdown as Telegram shows it: text, entities, pieces, and what is left when entities are refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.platforms.outgoing import Entity, Formatted
from gateway.platforms.telegram.markdown import linkable, render, write_out
from gateway.platforms.text import utf16_len
from tests.gateway.platforms.answers import ANSWERS, COMPARISON, FIX, Answer
from tests.thorough import a_few_of

SIZE = 25_000  # as long as a text may be to be parsed
SNIPPETS = st.sampled_from(
    [
        "**", "*", "_", "__", "`", "``", "~~", "||", "[", "](https://x.y)", "](rel)", "![", "<https://a.b>", "\\", "$",
        "\n", "\n\n", "> ", "- ", "  1. ", "# ", "```\n", "```py\n", "~~~\n", "\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        "|", "---\n", " ", "word", "日本", "😀", "e\u0301", ".",
    ]
)  # fmt: skip
MARKDOWN = st.lists(SNIPPETS | st.text(max_size=8), max_size=30).map("".join)
AROUND_WORDS = st.sampled_from(
    [
        "**", "*", "_", "`x` ", "~~ ", "||", "[", "](https://x.y) ", "![", "\\", "> ", "\n- ", "\n  1. ", "\n# ",
        "\n\n```\n", "\n", " ",
    ]
)  # fmt: skip
UNMARKED = st.text(st.characters(exclude_characters="*_`~[<>\\#|-+\r", exclude_categories=["Cs"]), max_size=300)


def formatted(markdown: str) -> Formatted:
    """All of it in one message, however long."""
    messages = render(markdown, 10**6)
    return messages[0] if messages else Formatted(text="")


def covered(message: Formatted, entity: Entity) -> str:
    units = message.text.encode("utf-16-le")
    return units[entity.offset * 2 : (entity.offset + entity.length) * 2].decode("utf-16-le")


def shown(message: Formatted) -> list[tuple[str, str]]:
    return [(entity.kind, covered(message, entity)) for entity in message.entities]


def squeezed(text: str) -> str:
    return re.sub(r"\s", "", text)


def check(message: Formatted) -> None:
    """What the server asks of entities."""
    assert message.text == message.text.rstrip() != ""
    assert len(message.entities) <= 100
    enclosing: list[Entity] = []
    for entity in message.entities:
        assert entity.length > 0
        assert entity.offset + entity.length <= utf16_len(message.text)
        assert covered(message, entity).strip()  # decoding fails inside a surrogate pair
        while enclosing and enclosing[-1].offset + enclosing[-1].length <= entity.offset:
            enclosing.pop()
        if enclosing:
            outer = enclosing[-1]
            assert entity.offset + entity.length <= outer.offset + outer.length
            kinds = {each.kind for each in enclosing}
            assert not kinds & {"code", "pre", entity.kind}
            if entity.kind in {"code", "pre"}:
                assert kinds == {"blockquote"}
        enclosing.append(entity)


@pytest.mark.parametrize(
    ("markdown", "text", "entities"),
    [
        ("# A **b** c", "A b c", [("bold", "A b c")]),
        ("**a** and *b*", "a and b", [("bold", "a"), ("italic", "b")]),
        ("***a***", "a", [("bold", "a"), ("italic", "a")]),
        ("****a****", "a", [("bold", "a")]),
        ("~~a~~ ||b||", "a b", [("strikethrough", "a"), ("spoiler", "b")]),
        ("**a `b` c**", "a b c", [("bold", "a "), ("code", "b"), ("bold", " c")]),
        ("# `x`", "x", [("code", "x")]),
        ("[`x`](https://x.y)", "x", [("text_link", "x")]),
        ("**[x](https://x.y)**", "x", [("bold", "x"), ("text_link", "x")]),
        ("[x](y.md)", "x (y.md)", []),
        ("[us](mailto:a@b.org)", "us (a@b.org)", []),
        ("[here](http://localhost:80)", "here (http://localhost:80)", []),
        ("<https://a.b>", "https://a.b", [("text_link", "https://a.b")]),
        ("- a\n  - b\n1. c", "• a\n  • b\n1. c", []),
        ("> a\n>> *b* `c`", "a\nb c", [("blockquote", "a\nb c"), ("italic", "b"), ("code", "c")]),
        ("> ```\n> x\n> ```\n> y", "x\ny", [("blockquote", "x\ny"), ("pre", "x")]),
        ("> ```\n> x\n> ```", "x", [("blockquote", "x"), ("pre", "x")]),
        ("a\n\n---\n\nb", "a\n\n———\n\nb", []),
        ("😀 **b** 😀*c*", "😀 b 😀*c*".replace("*", ""), [("bold", "b"), ("italic", "c")]),
        ("** **a", "** **a", []),
        ("`` ` ``", "`", [("code", "`")]),
        ("** a **", "** a **", []),
        ("x **a\n\nb** y", "x **a\n\nb** y", []),
        ("```\n```", "```\n```", []),
        (">", ">", []),
    ],
)
def test_formatting(markdown: str, text: str, entities: list[tuple[str, str]]) -> None:
    message = formatted(markdown)
    assert message.text == text
    assert sorted(shown(message)) == sorted(entities)
    check(message)


@pytest.mark.parametrize("answer", ANSWERS)
def test_answers_of_models(answer: Answer) -> None:
    [message] = render(answer.markdown)
    assert message.text == answer.telegram
    check(message)


def test_the_entities_of_an_answer() -> None:
    assert shown(render(FIX.markdown)[0]) == [
        ("bold", "Fix"),
        ("code", "load_config()"),
        ("code", "path"),
        ("bold", " is None"),
        ("bold", "Check the path."),
        ("pre", "ls -la ~/.hermes"),
        ("code", "config.yaml"),
        ("code", "HERMES_HOME=/srv/hermes"),
        ("blockquote", "Note: the second wins."),
        ("italic", "second"),
        ("text_link", "the docs"),
    ]
    assert [kind for kind, _ in shown(render(COMPARISON.markdown)[0])] == ["pre", "bold", "code"]


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_growing_answer_is_valid_at_every_length(answer: Answer) -> None:
    for length in range(1, len(answer.markdown), 3):
        for message in render(answer.markdown[:length]):
            check(message)


def test_code_that_is_still_growing_is_code() -> None:
    assert shown(formatted("Look:\n```py\nx = 1")) == [("pre", "x = 1")]
    assert formatted("Look:\n```py\nx = 1\n``").text == "Look:\nx = 1\n``"


def test_code_keeps_its_language_and_links_their_address() -> None:
    message = formatted("```c++ x\na\n```\n[b](https://x.y/_z_)")
    assert message.entities == (
        Entity(kind="pre", offset=0, length=1, language="c++"),
        Entity(kind="text_link", offset=2, length=1, url="https://x.y/_z_"),
    )


def test_a_small_table_is_aligned() -> None:
    message = formatted("| **Fruit** | Qty |\n|---|--:|\n| 林檎 | 3 |\n| `fig` | 12 |")
    assert shown(message) == [("pre", "Fruit  Qty\n-----  ---\n林檎     3\nfig     12")]


def test_a_wide_table_becomes_a_block_for_each_row() -> None:
    message = formatted(
        "| Name | What it does | Where |\n|---|---|---|\n"
        "| `ls` | lists the files of a directory | [docs](https://x.y) |\n| cat | | everywhere, on any system | extra |"
    )
    assert message.text == (
        "Name: ls\nWhat it does: lists the files of a directory\nWhere: docs\n\n"
        "Name: cat\nWhere: everywhere, on any system\nextra"
    )
    assert shown(message) == [("code", "ls"), ("text_link", "docs"), ("bold", "cat")]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com", True),
        ("HTTP://example.com:80/a?b#c", True),
        ("http://127.0.0.1:8080/", True),
        ("http://[::1]/", True),
        ("tg://user?id=1", True),
        ("http://localhost:80", False),
        ("mailto:a@b.org", False),
        ("javascript:alert(1)", False),
        ("/etc/passwd", False),
        ("https://", False),
        ("https://a b.c", False),
    ],
)
def test_only_addresses_that_the_server_keeps_become_links(url: str, expected: bool) -> None:
    assert linkable(url) is expected


# Pieces


def test_code_that_is_cut_is_code_in_both_pieces() -> None:
    first, second = render("Look:\n```py\n" + "\n".join(f"    line {n}" for n in range(8)) + "\n```\nend", 70)
    assert shown(first) == [("pre", "\n".join(f"    line {n}" for n in range(5)))]
    assert shown(second) == [("pre", "\n".join(f"    line {n}" for n in range(5, 8)))]
    assert {entity.language for message in (first, second) for entity in message.entities} == {"py"}
    assert second.text.startswith("    line 5")


def test_a_message_holds_4096_utf16_units() -> None:
    assert [len(message.text) for message in render("😀" * 3000)] == [2048, 952]
    assert [len(message.text) for message in render("x" * 4096)] == [4096]


def test_a_quote_goes_on_in_the_next_piece() -> None:
    assert [[kind for kind, _ in shown(message)] for message in render("> " + "word " * 30, 100)] == [
        ["blockquote"]
    ] * 2


def test_more_links_than_a_message_may_have_go_to_the_next() -> None:
    messages = render(" ".join(f"[a{n}](https://x.y/{n})" for n in range(250)))
    urls = [entity.url for message in messages for entity in message.entities]
    assert urls == [f"https://x.y/{n}" for n in range(250)]
    assert len(messages) == 3


def test_when_there_are_too_many_entities_styles_go_first() -> None:
    [message] = render(" ".join(f"*a{n}* `c{n}`" for n in range(80)))
    kinds = [entity.kind for entity in message.entities]
    assert (kinds.count("code"), kinds.count("italic")) == (80, 20)
    check(message)


def test_blank_text_has_no_pieces() -> None:
    assert render(" \n ") == []


@given(MARKDOWN, st.integers(20, 80))
def test_pieces_keep_everything_fit_and_are_valid(markdown: str, limit: int) -> None:
    messages = render(markdown, limit)
    for message in messages:
        check(message)
        assert utf16_len(message.text) <= limit
        assert write_out(message).text.strip()
    assert squeezed("".join(message.text for message in messages)) == squeezed(formatted(markdown).text)
    assert messages == render(markdown, limit)


@given(st.lists(AROUND_WORDS, max_size=30), st.integers(20, 80))
def test_every_word_is_kept_in_its_order(marks: list[str], limit: int) -> None:
    words = [f"w{number}." for number in range(len(marks))]
    markdown = "".join(mark + word for mark, word in zip(marks, words, strict=True))
    assert re.findall(r"w\d+\.", "".join(message.text for message in render(markdown, limit))) == words


@given(UNMARKED)
def test_text_without_markup_comes_through_unchanged(text: str) -> None:
    assert "".join(message.text for message in render(text)) == re.sub(r"\A(?:\s*\n)?", "", text).rstrip()


@given(st.lists(st.sampled_from(["word", "snake_case", "2*3", "a > b", "x < y", "(see)", "#5", "日本", "😀", "\n"])))
def test_ordinary_prose_comes_through_unchanged(words: list[str]) -> None:
    text = re.sub(r" *\n *", "\n", " ".join(["so", *words])).strip()
    assert formatted(text) == Formatted(text=text)


@given(st.text(), st.integers(2, 50))
def test_nothing_raises_and_nothing_is_too_long(text: str, limit: int) -> None:
    assert all(0 < utf16_len(message.text) <= limit for message in render(text, limit))


# Plain


def test_plain_is_readable_without_entities() -> None:
    markdown = "# Hi 😀\n**b** [c](https://x.y) <https://z.z>\n```py\nx = 1\n```"
    expected = "Hi 😀\nb c (https://x.y) https://z.z\nx = 1"
    assert write_out(formatted(markdown)).text == expected


def test_plain_still_fits_a_message() -> None:
    [message] = render("x" * 4070 + " [a](https://x.y) [b](https://x.y/long)")
    assert write_out(message).text == "x" * 4070 + " a (https://x.y) b"


@pytest.mark.parametrize(
    "unit",
    a_few_of([
        "*", "[", "`", ">", "_", "~", "|", "![", "[a](", "](", "\\[", "\\(", "$", "$a_", "<a", "https://", "a*", "*a ",
        "**a_ ", "*a* ", "[a](b)", "[![a](u)", "`a", "``a`", "> ", "> - ", "\n", "```\n", "|a", "|a|\n|-|\n", "$$\n",
        "\\[\n", "#", '[a](b "', "||a||", "\u0301", "😀", "**a`b`", "*a _b ~~c ||d ", "d|| c~~ b_ a* ", "\\",
    ], 14),
)  # fmt: skip
def test_hostile_text_is_read_in_linear_time(unit: str) -> None:
    assert all(utf16_len(message.text) <= 4096 for message in render(unit * (SIZE // len(unit))))


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("![", "](u)"), ("[", "](u)"), ("*a ", " b*")])
def test_hostile_nesting_is_read_in_linear_time(opening: str, closing: str) -> None:
    assert render(opening * (SIZE // 4) + closing * (SIZE // 4))


def test_a_text_too_long_to_parse_is_shown_as_it_is() -> None:
    text = "**a** " * 5_000
    assert "".join(message.text + " " for message in render(text)) == text


def test_a_table_with_an_absurd_header_costs_no_more_than_its_text() -> None:
    assert render("|" + "a|" * 50_000 + "\n|" + "-|" * 50_000 + "\n" + "|x\n" * 30_000)
