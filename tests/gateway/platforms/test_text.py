"""Lengths, cuts, and Markdown source in pieces that stand alone."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.platforms.inline import read_inline
from gateway.platforms.markdown import Block, Code, Prose, Quote, Rule, Table, read
from gateway.platforms.tables import aligned, display_width
from gateway.platforms.text import Measure, best_cut, split_markdown, tidy, utf16_len, utf16_offsets

SIZE = 200_000
PLAIN = st.text(
    st.sampled_from("ab \n.,é日😀e\u0301\u200d🏽") | st.characters(exclude_characters="`~", exclude_categories=["Cs"]),
    max_size=600,
)
WORDS = st.text("ab c.\n日😀", min_size=1, max_size=120)


@st.composite
def fenced(draw: st.DrawFn) -> str:
    mark = draw(st.sampled_from(["```", "~~~", "````"]))
    body = draw(st.text("xy \n{}日", max_size=200))
    return f"{mark}{draw(st.sampled_from(['', 'python', 'c++ title']))}\n{body}\n{mark}"


DOCUMENT = st.lists(WORDS | fenced(), max_size=8).map("\n\n".join)
MEASURES = st.sampled_from([len, utf16_len])


def squeezed(text: str) -> str:
    return re.sub(r"\s", "", text)


def outside_fence_lines(text: str) -> str:
    return squeezed("\n".join(line for line in text.split("\n") if not line.startswith(("```", "~~~"))))


def open_fence(piece: str) -> str:
    opened = ""
    for line in piece.split("\n"):
        mark = match[0] if (match := re.match(r"`{3,}|~{3,}", line)) else ""
        if not opened:
            opened = mark
        elif mark.startswith(opened) and line.strip() == mark:
            opened = ""
    return opened


# Lengths


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


# Cuts


@pytest.mark.parametrize(
    ("text", "limit", "first"),
    [
        ("aaa bbb.\n\nccc ddd\neee fff", 16, "aaa bbb."),
        ("a\n\nbbb ccc ddd\neee fff", 16, "a\n\nbbb ccc ddd"),
        ("One is done. Two is not yet", 18, "One is done."),
        ("A. then comes a long rest", 20, "A. then comes a long"),
        ("これは文です。次の文はここです", 10, "これは文です。"),
        ("abcdefghij", 4, "abcd"),
        ("abce\u0301fgh", 4, "abc"),
        ("ab👩‍💻cd", 4, "ab"),
        ("a🇩🇪🇫🇷", 4, "a🇩🇪"),
        ("ab👍🏽cd", 3, "ab"),
        ("e" + "\u0301" * 100, 80, "e" + "\u0301" * 79),
    ],
)
def test_the_best_cut_is_the_coarsest_that_leaves_the_piece_half_full(text: str, limit: int, first: str) -> None:
    assert split_markdown(text, limit)[0] == first


def test_what_should_stay_whole_is_cut_only_when_nothing_else_is_left() -> None:
    text = "some words `and code here` end"
    assert text[: best_cut(text, 0, 20, [(11, 26)])] == "some words"
    assert text[: best_cut(text, 0, 22, [(0, 30)])] == "some words `and code"


@pytest.mark.parametrize("mark", ["[the long label](https://example.com)", "**very bold words**", "`a b c d e f g`"])
def test_inline_marks_stay_whole(mark: str) -> None:
    text = f"{'x ' * 20}{mark} and more"
    first, second = split_markdown(text, 45 if len(mark) < 25 else 60)
    assert first == ("x " * 20).strip()
    assert second == f"{mark} and more"


# Markdown source in pieces


def test_a_fence_is_closed_and_opened_again_with_its_info() -> None:
    text = "Look:\n````python title\n" + "\n".join(f"line {n}" for n in range(8)) + "\n````\nDone."
    assert split_markdown(text, 60) == [
        "Look:\n````python title\nline 0\nline 1\nline 2\nline 3\n````",
        "````python title\nline 4\nline 5\nline 6\nline 7\n````\nDone.",
    ]


def test_the_indentation_of_code_survives_a_cut() -> None:
    pieces = split_markdown("```\nif x:\n    one()\n    two()\n    three()\n```", 30)
    assert pieces == ["```\nif x:\n    one()\n```", "```\n    two()\n    three()\n```"]


def test_a_fence_in_a_list_or_a_quote_is_reopened_where_it_stood() -> None:
    quoted = "> ```py\n> " + "a " * 30 + "\n> b\n> ```"
    assert all(piece.startswith("> ```py\n") and piece.endswith("\n> ```") for piece in split_markdown(quoted, 50))
    listed = split_markdown("- ```py\n" + "  a = 1\n" * 10 + "  ```\n- end", 50)
    assert listed[0].startswith("- ```py\n")
    assert listed[1].startswith("  ```py\n  a = 1")


def test_an_open_fence_is_closed_at_the_end() -> None:
    assert split_markdown("a\n```py\nx", 100) == ["a\n```py\nx\n```"]


def test_short_code_goes_to_the_next_piece_whole() -> None:
    text = "word " * 12 + "\n```\na\n\nb\n```"
    assert split_markdown(text, 70) == [("word " * 12).strip(), "```\na\n\nb\n```"]


def test_a_fence_as_long_as_the_limit_is_text() -> None:
    assert all(len(piece) <= 20 for piece in split_markdown("`" * 50 + "\ncode\n" + "`" * 50, 20))


def test_blank_text_has_no_pieces() -> None:
    assert split_markdown(" \n\n ", 10) == []


@given(DOCUMENT | PLAIN, st.integers(40, 120), MEASURES)
def test_pieces_keep_everything_and_fit(text: str, limit: int, measure: Measure) -> None:
    pieces = split_markdown(text, limit, measure)
    assert all(piece.strip() for piece in pieces)
    assert all(measure(piece) <= limit for piece in pieces)
    assert not any(open_fence(piece) for piece in pieces)
    assert outside_fence_lines("\n".join(pieces)) == outside_fence_lines(text)
    assert pieces == split_markdown(text, limit, measure)


@given(WORDS, st.integers(2, 30), MEASURES)
def test_without_fences_nothing_is_added(text: str, limit: int, measure: Measure) -> None:
    pieces = split_markdown(text, limit, measure)
    assert squeezed("".join(pieces)) == squeezed(text)
    assert all(0 < measure(piece) <= limit for piece in pieces)


@given(st.text("ab \n", max_size=300), st.integers(10, 60))
def test_no_piece_but_the_last_is_less_than_half_full(text: str, limit: int) -> None:
    text = re.sub(r"\s+", " ", text)
    assert all(len(piece) >= limit // 2 - 1 for piece in split_markdown(text, limit)[:-1])


@pytest.mark.parametrize("unit", ["```\n", "~~~\n", "> ```\n", "`a", "**a", "[a](", " ", "\u0301", "\u200d", "🇩", ">"])
def test_hostile_source_is_split_in_linear_time(unit: str) -> None:
    assert all(len(piece) <= 2000 for piece in split_markdown(unit * (SIZE // len(unit)), 2000))


# Blocks


@pytest.mark.parametrize(
    ("markdown", "blocks"),
    [
        ("a\nb", [Prose(source="a\nb")]),
        ("a\n\nb", [Prose(source="a"), Prose(source=""), Prose(source="b")]),
        ("## Title ##\ntext", [Prose(source="Title", level=2), Prose(source="text")]),
        ("# C#", [Prose(source="C#", level=1)]),
        ("#hashtag", [Prose(source="#hashtag")]),
        ("- a\n  more\n  * b", [Prose(source="a\n  more", prefix="• "), Prose(source="b", prefix="  • ")]),
        ("1. a\n10) b", [Prose(source="a", prefix="1. "), Prose(source="b", prefix="10) ")]),
        ("---", [Rule()]),
        ("* * *", [Rule()]),
        ("-not a list\n--", [Prose(source="-not a list\n--")]),
        ("```py\nx\n```", [Code(text="x", language="py")]),
        ("~~~\n```\n~~~", [Code(text="```")]),
        ("````md\n```py\n```\n````", [Code(text="```py\n```", language="md")]),
        ("```\nopen\n  end", [Code(text="open\n  end")]),
        ("```inline``` text", [Prose(source="```inline``` text")]),
        ("- a\n  ```sh\n  ls\n    -l\n  ```", [Prose(source="a", prefix="• "), Code(text="ls\n  -l", language="sh")]),
        ("- ```sh\n  ls\n  ```", [Prose(source="", prefix="•"), Code(text="ls", language="sh")]),
        ("> a\n>> b\n\nc", [Quote(blocks=(Prose(source="a\nb"),)), Prose(source=""), Prose(source="c")]),
        ("> - a\n> ```\n> x\n> ```", [Quote(blocks=(Prose(source="a", prefix="• "), Code(text="x")))]),
        ("$$\n- a_1\n+ b_1\n$$", [Prose(source="$$\n- a_1\n+ b_1\n$$", literal=True)]),
        (
            "a | b\n:-:|--:\n`x|y` | \\|\n1",
            [Table(header=("a", "b"), aligns=("center", "right"), rows=(("`x|y`", "|"),)), Prose(source="1")],
        ),
        ("a | b\nno table", [Prose(source="a | b\nno table")]),
    ],
)
def test_blocks(markdown: str, blocks: list[Block]) -> None:
    assert read(markdown) == blocks


# Inside a line


def shown(markdown: str) -> tuple[str, set[tuple[str, str]]]:
    text, spans = read_inline(markdown, lambda url: url.startswith("https:"))
    return text, {(span.kind, text[span.start : span.end]) for span in spans}


@pytest.mark.parametrize(
    ("markdown", "text", "spans"),
    [
        ("**a** *b* __c__ _d_", "a b c d", {("bold", "a"), ("italic", "b"), ("bold", "c"), ("italic", "d")}),
        ("***a***", "a", {("bold", "a"), ("italic", "a")}),
        ("**a *b* c**", "a b c", {("bold", "a b c"), ("italic", "b")}),
        ("*a **b***", "a b", {("italic", "a b"), ("bold", "b")}),
        ("~~a~~ ||b||", "a b", {("strikethrough", "a"), ("spoiler", "b")}),
        ("**API**s", "APIs", {("bold", "API")}),
        ("**Note:**text", "Note:text", {("bold", "Note:")}),
        ("这是**“重点”**的，**注意：**是", "这是“重点”的，注意：是", {("bold", "“重点”"), ("bold", "注意：")}),
        ("_a_. _b_.", "a. b.", {("italic", "a"), ("italic", "b")}),
        ("*two\nlines*", "two\nlines", {("italic", "two\nlines")}),
        ("`a*b*` `` c`d ``", "a*b* c`d", {("code", "a*b*"), ("code", "c`d")}),
        ("**a `b** c`", "**a b** c", {("code", "b** c")}),
        (r"\*a\* \_b\_ \`c\` \# \\", r"*a* _b_ `c` # \ ".strip(), set()),
        ("a\\\nb", "a\nb", set()),
        ("[a *b*](https://x.y)", "a b", {("link", "a b"), ("italic", "b")}),
        ('[a](https://x.y "title")', "a", {("link", "a")}),
        ("[a](<https://x.y/b c>)", "a", {("link", "a")}),
        ("[a](./b.md) [c](#d)", "a (./b.md) c (#d)", set()),
        ("[a [b]](https://x.y)", "a [b]", {("link", "a [b]")}),
        ("[[a](https://x.y)](https://z)", "[a](https://z)", {("link", "a")}),
        ("![alt](https://x.y) ![](https://z)", "alt https://z", {("link", "alt"), ("link", "https://z")}),
        ("[![alt](https://x.y)](https://z)", "alt", {("link", "alt")}),
        ("<https://x.y/_a_> <me@x.org>", "https://x.y/_a_ me@x.org", {("link", "https://x.y/_a_")}),
        ("**https://x.y/a**", "https://x.y/a", {("bold", "https://x.y/a")}),
    ],
)
def test_inline_marks(markdown: str, text: str, spans: set[tuple[str, str]]) -> None:
    assert shown(markdown) == (text, spans)


@pytest.mark.parametrize(
    "text",
    [
        "snake_case_name and __x",
        "__init__.py and __init__()",
        "2*3*4, x**2 + y**2, 5 * 3 * 2",
        "f(*args) and g(*args, **kwargs) and h(_, _)",
        "a || b || c, a||b||c, (a)||(b)||(c)",
        "~5 to ~10",
        "https://x.y/_a_/b_c_d",
        "$a_1 * b_1 * c$ and $$x_i^2 _y_$$ and \\(a_1 _b_\\) and \\[a_1 = _b_\\]",
        "from $5 to $10",
        '<a href="x_y_z*">b</a> <br>',
        "a ``` b",
        "[a] [b]( [c](",
        "C:\\new\\folder",
        "****",
        "a*",
        "wow! note: 10:30 a::b",
    ],
)
def test_what_only_looks_like_markup_is_left_alone(text: str) -> None:
    assert shown(text) == (text, set())


# Tables


def test_columns_are_as_wide_as_people_see_them() -> None:
    assert [display_width(text) for text in ("ab", "日本", "e\u0301", "😀")] == [2, 4, 1, 2]
    rows = [("Name", "Qty"), ("日本", "7"), ("c",)]
    assert aligned(rows, ("left", "right"), 40) == "Name  Qty\n----  ---\n日本    7\nc"
    assert aligned(rows, ("left", "right"), 8) is None
