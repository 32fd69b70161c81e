"""What is read from Markdown, and its source in pieces that stand alone."""

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.platforms.markdown import align_table, measure_width, read, split_markdown
from gateway.platforms.text import Measure, utf16_len

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


@pytest.mark.parametrize("unit", ["```\n", "> ```\n", "**a", " ", "\u0301", "🇩"])
def test_hostile_source_is_split_in_linear_time(unit: str) -> None:
    assert all(len(piece) <= 2000 for piece in split_markdown(unit * (SIZE // len(unit)), 2000))


# Blocks


def shown(markdown: str) -> tuple[str, set[tuple[str, str]]]:
    text, spans = read(markdown, lambda url: url.startswith("https:"), table_columns=20)
    return text, {(span.kind, text[span.start : span.end]) for span in spans}


@pytest.mark.parametrize(
    ("markdown", "text", "spans"),
    [
        ("a\nb *c*", "a\nb c", {("italic", "c")}),
        ("*a*\n\n\nb", "a\n\n\nb", {("italic", "a")}),
        ("## Title ##\ntext", "Title\ntext", {("bold", "Title")}),
        ("# C#", "C#", {("bold", "C#")}),
        ("#hashtag", "#hashtag", set()),
        ("- a\n  more\n  * b", "• a\n  more\n  • b", set()),
        ("- a\n\n  more\n\n- b", "• a\n\n  more\n\n• b", set()),
        ("1. a\n   - b\n10) c", "1. a\n   • b\n10) c", set()),
        ("3. c\n4. d", "3. c\n4. d", set()),
        ("-\n- a", "•\n• a", set()),
        ("a\n---\nb", "a\n———\nb", set()),
        ("* * *", "———", set()),
        ("-not a list\n--", "-not a list\n--", set()),
        ("    # no title\n      a\n*b*", "    # no title\n      a\nb", {("italic", "b")}),
        ("```py\nx\n```", "x", {("pre", "x")}),
        ("~~~\n```\n~~~", "```", {("pre", "```")}),
        ("````md\n```py\n```\n````", "```py\n```", {("pre", "```py\n```")}),
        ("```\nopen\n  end", "open\n  end", {("pre", "open\n  end")}),
        ("```inline``` text", "inline text", {("code", "inline")}),
        ("- a\n  ```sh\n  ls\n    -l\n  ```", "• a\nls\n  -l", {("pre", "ls\n  -l")}),
        ("- ```sh\n  ls\n  ```", "•\nls", {("pre", "ls")}),
        ("1. a\n   ```\nls\n   ```\n2. b", "1. a\nls\n2. b", {("pre", "ls")}),
        ("> a\n>> b\n\nc", "a\nb\n\nc", {("quote", "a\nb")}),
        ("> - a\n> ```\n> x\n> ```", "• a\nx", {("quote", "• a\nx"), ("pre", "x")}),
        ("- a\n  > b\n\n  c", "• a\nb\n\n  c", {("quote", "b")}),
        ("> asked\nanswered", "asked\nanswered", {("quote", "asked")}),
        ("$$\n- a_1\n+ b_1\n$$ *c*", "$$\n- a_1\n+ b_1\n$$ *c*", set()),
        (
            "a | b\n:-:|--:\n`x|y` | \\|\n1",
            " a   b\n---  -\nx|y  |\n1",
            {("pre", " a   b\n---  -\nx|y  |")},
        ),
        ("a | b\nno table", "a | b\nno table", set()),
        ("> " * 200 + "deep", "> " * 188 + "deep", {("quote", "> " * 188 + "deep")}),
    ],
)
def test_blocks(markdown: str, text: str, spans: set[tuple[str, str]]) -> None:
    assert shown(markdown) == (text, spans)


# Inside a line


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
        "a **** b",
        "a*",
        "wow! note: 10:30 a::b",
    ],
)
def test_what_only_looks_like_markup_is_left_alone(text: str) -> None:
    assert shown(text) == (text, set())


# Tables


def test_columns_are_as_wide_as_people_see_them() -> None:
    assert [measure_width(text) for text in ("ab", "日本", "e\u0301", "😀")] == [2, 4, 1, 2]
    header, rows = ("Name", "Qty"), (("日本", "7"), ("c",))
    assert align_table(header, ("left", "right"), rows, 40) == "Name  Qty\n----  ---\n日本    7\nc"
    assert align_table(header, ("left", "right"), rows, 8) is None


# Cost


def test_the_parser_is_imported_with_the_first_markup_and_not_before() -> None:
    probe = """
import sys
from gateway.media.outgoing import find_named_files
from gateway.platforms.discord.formatting import PAGES as discord
from gateway.platforms.slack.formatting import PAGES as slack
from gateway.platforms.telegram.formatting import PAGES as telegram
for make_pages in (discord.paginate, slack.paginate, telegram.paginate, find_named_files):
    make_pages("plain text, 3 < 4, #5" * 500)
print("markdown_it" in sys.modules)
telegram.paginate("*marked*")
print("markdown_it" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]
