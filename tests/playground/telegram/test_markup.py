"""Parse modes and entities: what is right comes out as entities, what is wrong is refused with the server's words."""

from typing import Any

import pytest

from playground.telegram.entities import Formatted, find_entities, finish, read_entities
from playground.telegram.markup import parse_markup
from playground.telegram.rules import Refused, utf16_length


def _spans(formatted: Formatted) -> list[tuple[Any, ...]]:
    return [
        (one["type"], one["offset"], one["length"], *(one[key] for key in sorted(one) if key in _MORE))
        for one in formatted.entities
    ]


_MORE = ("url", "language", "user_id", "custom_emoji_id")


@pytest.mark.parametrize(
    ("text", "plain", "spans"),
    [
        ("*bold* _it_ __under__", "bold it under", [("bold", 0, 4), ("italic", 5, 2), ("underline", 8, 5)]),
        ("~gone~ ||hidden||", "gone hidden", [("strikethrough", 0, 4), ("spoiler", 5, 6)]),
        ("*a _b_*", "a b", [("bold", 0, 3), ("italic", 2, 1)]),
        ("`a.b*c`", "a.b*c", [("code", 0, 5)]),
        ("```\nx = 1\n```", "x = 1\n", [("pre", 0, 6)]),
        ("```python\nx = 1```", "x = 1", [("pre", 0, 5, "python")]),
        ("[words](http://example.org/a\\)b)", "words", [("text_link", 0, 5, "http://example.org/a)b")]),
        ("[me](tg://user?id=7)", "me", [("text_mention", 0, 2, 7)]),
        ("[no link](nowhere)", "no link", []),
        ("![👍](tg://emoji?id=5368)", "👍", [("custom_emoji", 0, 2, "5368")]),
        (">one\n>two\nafter", "one\ntwo\nafter", [("blockquote", 0, 8)]),
        (">one\n>two||", "one\ntwo", [("expandable_blockquote", 0, 7)]),
        ("1\\.5 \\- \\(x\\)", "1.5 - (x)", []),
        ("😀 *b*", "😀 b", [("bold", 3, 1)]),
        ("**", "", []),
    ],
)
def test_markdown_v2_becomes_entities(text: str, plain: str, spans: list[tuple[Any, ...]] | None) -> None:
    formatted = parse_markup(text, "MarkdownV2")
    assert formatted.text == plain
    if spans is not None:
        assert _spans(formatted) == spans


@pytest.mark.parametrize("char", list("_*[~`"))
def test_markdown_v2_refuses_what_is_left_open(char: str) -> None:
    with pytest.raises(Refused, match=r"can't parse entities: Can't find end of \w+ entity at byte offset 3"):
        parse_markup(f"é {char}open", "MarkdownV2")


@pytest.mark.parametrize("char", list("]()>#+-=|{}.!"))
def test_markdown_v2_refuses_reserved_characters(char: str) -> None:
    words = f"Bad Request: can't parse entities: Character '{char}' is reserved and must be escaped with the preceding"
    with pytest.raises(Refused) as caught:
        parse_markup(f"a{char}b", "MarkdownV2")
    assert caught.value.description == words + " '\\'"
    assert parse_markup(f"a\\{char}b", "MarkdownV2").text == f"a{char}b"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("*a _b* c_", "Can't find end of Italic entity at byte offset 8"),
        ("___both___", "Can't find end of Italic entity at byte offset 9"),
        ("[a](http://x.org", "Can't find end of a URL at byte offset 4"),
        ("![a]", "must contain a tg://emoji URL"),
        ("```py\nx", "Can't find end of PreCode entity at byte offset 0"),
        (">*a\nb*", "Can't find end of Bold entity at byte offset 1"),
    ],
)
def test_markdown_v2_names_the_broken_entity(text: str, words: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_markup(text, "markdownv2")
    assert words in caught.value.description


@pytest.mark.parametrize(
    ("text", "plain", "spans"),
    [
        ("*b* _i_ `c`", "b i c", [("bold", 0, 1), ("italic", 2, 1), ("code", 4, 1)]),
        ("[x](http://a.org)", "x", [("text_link", 0, 1, "http://a.org/")]),
        ("```py\ncode```", "code", [("pre", 0, 4, "py")]),
        ("2\\*3 1.5 (fine) -", "2*3 1.5 (fine) -", []),
    ],
)
def test_old_markdown_becomes_entities(text: str, plain: str, spans: list[tuple[Any, ...]]) -> None:
    formatted = parse_markup(text, "Markdown")
    assert (formatted.text, _spans(formatted)) == (plain, spans)


def test_old_markdown_refuses_an_entity_without_end() -> None:
    with pytest.raises(Refused, match="Can't find end of the entity starting at byte offset 5"):
        parse_markup("snake_case", "Markdown")


@pytest.mark.parametrize(
    ("text", "plain", "spans"),
    [
        ("<b>a<i>b</i></b>", "ab", [("bold", 0, 2), ("italic", 1, 1)]),
        ("<strong>a</strong> <em>b</em> <ins>c</ins> <del>d</del>", "a b c d", None),
        ('<a href="http://x.org/?a=1&amp;b=2">x</a>', "x", [("text_link", 0, 1, "http://x.org/?a=1&b=2")]),
        ("<a href='tg://user?id=5'>x</a>", "x", [("text_mention", 0, 1, 5)]),
        ('<pre><code class="language-py">x</code></pre>', "x", [("pre", 0, 1, "py")]),
        ("<pre>x</pre> <code>y</code>", "x y", [("pre", 0, 1), ("code", 2, 1)]),
        ("<blockquote expandable>q</blockquote>", "q", [("expandable_blockquote", 0, 1)]),
        ('<span class="tg-spoiler">s</span><tg-spoiler>t</tg-spoiler>', "st", [("spoiler", 0, 1), ("spoiler", 1, 1)]),
        ('<tg-emoji emoji-id="5">👍</tg-emoji>', "👍", [("custom_emoji", 0, 2, "5")]),
        ("1 &lt; 2 &amp;&#33; &nbsp; &", "1 < 2 &! &nbsp; &", []),
        ("a > b", "a > b", []),
        ("<B>x</>", "x", [("bold", 0, 1)]),
    ],
)
def test_html_becomes_entities(text: str, plain: str, spans: list[tuple[Any, ...]] | None) -> None:
    formatted = parse_markup(text, "HTML")
    assert formatted.text == plain
    if spans is not None:
        assert _spans(formatted) == spans


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("é<b>x", 'Can\'t find end tag corresponding to start tag "b"'),
        ("é<div>x</div>", 'Unsupported start tag "div" at byte offset 2'),
        ("x</b>", "Unexpected end tag at byte offset 1"),
        ("<b>x</i>", 'Unmatched end tag at byte offset 4, expected "</b>", found "</i>"'),
        ("1 < 2", 'Unsupported start tag "" at byte offset 2'),
        ("a <", "Unclosed start tag at byte offset 2"),
        ("<b>x</b", "Unclosed end tag at byte offset 4"),
        ("<span>x</span>", 'Tag "span" must have class "tg-spoiler" at byte offset 0'),
        ('<a href="x', 'Unclosed start tag "a" at byte offset 0'),
        ("<a =>x</a>", 'Empty attribute name in the tag "a" at byte offset 0'),
        ("<a href=x_y>x</a>", "Unexpected end of name token at byte offset 8"),
        ("<tg-emoji>x</tg-emoji>", "Invalid custom emoji identifier specified"),
    ],
)
def test_html_refuses_what_is_no_html_of_telegrams(text: str, words: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_markup(text, "html")
    assert caught.value.description == f"Bad Request: can't parse entities: {words}"


def test_other_parse_modes_do_not_exist() -> None:
    with pytest.raises(Refused, match="unsupported parse_mode"):
        parse_markup("x", "reST")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/start now", [("bot_command", 0, 6)]),
        ("😀 /go@some_bot x", [("bot_command", 3, 12)]),
        ("a/b and/or http://x.org/usr/bin", [("url", 11, 20)]),
        ("hi @ada_l, see https://x.org/a?b=1.", [("mention", 3, 6), ("url", 15, 19)]),
        ("mail me@x.org or #topic", [("email", 5, 8), ("hashtag", 17, 6)]),
        ("example.com is bare", [("url", 0, 11)]),
        ("plain", []),
    ],
)
def test_commands_mentions_and_links_are_found(text: str, found: list[tuple[str, int, int]]) -> None:
    assert [(one["type"], one["offset"], one["length"]) for one in find_entities(text)] == found


@pytest.mark.parametrize(
    ("entities", "words"),
    [
        ([1], "Can't parse MessageEntity: expected an Object"),
        ([{"offset": 0, "length": 1}], 'Can\'t find field "type"'),
        ([{"type": "bold", "offset": "x", "length": 1}], 'Field "offset" must be a Number'),
        ([{"type": "sparkle", "offset": 0, "length": 1}], "Unsupported type specified"),
        ([{"type": "text_link", "offset": 0, "length": 1}], 'Can\'t find field "url"'),
    ],
)
def test_malformed_entities_are_refused(entities: list[Any], words: str) -> None:
    with pytest.raises(Refused) as caught:
        read_entities(entities)
    assert words.lower() in caught.value.description.lower()


@pytest.mark.parametrize(
    ("offset", "length", "words"),
    [
        (-1, 1, "incorrect offset -1"),
        (0, -1, "incorrect length -1"),
        (4, 1, "begins after the end of the text at UTF-16 offset 4"),
        (1, 3, "ends after the end of the text at UTF-16 offset 4"),
        (2, 1, "begins in a middle of a UTF-16 symbol at byte offset 5"),
        (0, 2, "ends in a middle of a UTF-16 symbol at byte offset 5"),
    ],
)
def test_entities_outside_of_the_text_are_refused(offset: int, length: int, words: str) -> None:
    with pytest.raises(Refused) as caught:
        finish(Formatted("a😀", [{"type": "bold", "offset": offset, "length": length}]))
    assert words in caught.value.description


def test_text_is_trimmed_and_its_entities_move_along() -> None:
    bold = {"type": "bold", "offset": 3, "length": 4}
    assert finish(Formatted("  \nbold \n", [bold])) == Formatted("bold", [bold | {"offset": 0}])
    assert finish(Formatted(" \n ")) == Formatted("", [])


def test_nothing_is_found_inside_code() -> None:
    code = {"type": "code", "offset": 0, "length": 6}
    assert finish(Formatted("/start /stop", [code])).entities == [
        code,
        {"type": "bot_command", "offset": 7, "length": 5},
    ]


def test_length_is_counted_in_utf16_units() -> None:
    assert (utf16_length("abc"), utf16_length("é"), utf16_length("😀"), utf16_length("👨‍💻")) == (3, 1, 2, 5)
