"""Which files an answer names, and what is left of its text."""

import pytest

from gateway.media.outgoing import find_named_files, hide_paths, replace_names


def left(text: str) -> str:
    """The text when every file that it names is sent."""
    return replace_names(text, [(naming, "") for naming in find_named_files(text)])


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("MEDIA:/srv/plot.png", "/srv/plot.png"),
        ("MEDIA: /srv/plot.png", "/srv/plot.png"),
        ("  MEDIA:plot.png  ", "plot.png"),
        ("MEDIA:my plot (1).png", "my plot (1).png"),
        ('MEDIA:"my plot.png"', "my plot.png"),
        ("MEDIA: `plot.png`", "plot.png"),
        ("MEDIA:</srv/plot.png>", "/srv/plot.png"),
        ("- MEDIA:plot.png", "plot.png"),
        ("1. MEDIA:plot.png", "plot.png"),
        ("**MEDIA:plot.png**", "plot.png"),
        ("MEDIA:file:///srv/my%20plot.png", "/srv/my plot.png"),
        ("MEDIA:100%25.png", "100%25.png"),
        ("MEDIA:~/plot.png", "~/plot.png"),
        ("![](plot.png)", "plot.png"),
        ("![a plot](/srv/plot.png)", "/srv/plot.png"),
        ("![a plot](my plot.png)", "my plot.png"),
        ("![a plot](my%20plot.png)", "my plot.png"),
        ("![a plot](<my plot.png>)", "my plot.png"),
        ('![a plot](plot.png "A title")', "plot.png"),
        ("![a plot](plot (1).png)", "plot (1).png"),
        ("![a plot](file://localhost/srv/plot.png)", "/srv/plot.png"),
    ],
)
def test_a_file_that_is_named_is_taken_out_of_the_text(text: str, path: str) -> None:
    assert [naming.path for naming in find_named_files(text)] == [path]
    assert left(text) == ""
    assert left(f"before\n\n{text}\n\nafter") == "before\n\nafter"


@pytest.mark.parametrize(
    "text",
    [
        "MEDIA:",
        "media:plot.png",
        "Write MEDIA:plot.png to send it",
        "`Write` MEDIA:plot.png",
        "> MEDIA:plot.png",
        "`MEDIA:plot.png`",
        "``MEDIA:plot.png``",
        "see `![a](plot.png)`",
        "`two\n![a](plot.png)\nlines`",
        "```\nMEDIA:plot.png\n![a](plot.png)\n```",
        "~~~md\nMEDIA:plot.png",
        "- ```\n  MEDIA:plot.png\n  ```",
        "MEDIA:https://example.org/plot.png",
        "![a](https://example.org/plot.png)",
        "![a](HTTP://example.org/plot.png)",
        "![a](//example.org/plot.png)",
        "![a](data:image/png;base64,AAAA)",
        "![a](sandbox:/mnt/plot.png)",
        f"![a](/media/{'0' * 64})",
        "![a](#top)",
        "![a]()",
        "\\![a](plot.png)",
        "[a](plot.png)",
        "no files here",
    ],
)
def test_code_quotes_links_and_pictures_on_the_web_stay_text(text: str) -> None:
    assert find_named_files(text) == []
    assert replace_names(text, []) == text


def test_while_an_answer_grows_its_files_are_named_without_their_paths() -> None:
    text = "Here it is:\nMEDIA:/srv/reports/plot.png\nand ![the other](out/b.png) too; `MEDIA:/x/y` is code"
    assert hide_paths(text) == "Here it is:\n📎 plot.png\nand 📎 b.png too; `MEDIA:/x/y` is code"


def test_code_ends_where_it_ends() -> None:
    text = "`a` ![b](c.png) `d`\n```\nMEDIA:x\n```\nMEDIA:y.png\n`open\n\n![e](f.png)"
    assert [naming.path for naming in find_named_files(text)] == ["c.png", "y.png", "f.png"]


@pytest.mark.timeout(60)
def test_many_backticks_take_no_time() -> None:
    """With a search for the end of each run of them, this would take minutes."""
    ticks = " ".join("`" * length for length in range(1, 3_000))
    assert [naming.path for naming in find_named_files(f"MEDIA:y.png\n{ticks}")] == ["y.png"]


def test_several_lines_leave_no_hole() -> None:
    assert left("Here they are:\nMEDIA:a.png\nMEDIA:b.png\n\nEnjoy.") == "Here they are:\n\nEnjoy."
    assert left("MEDIA:a.png\n\nEnjoy.") == "Enjoy."
    assert left("Enjoy.\n\nMEDIA:a.png\nMEDIA:b.png\n") == "Enjoy."


def test_a_picture_within_words_leaves_the_words() -> None:
    assert left("See ![a](b.png) here.") == "See  here."
    assert left("[![a plot](b.png)](https://example.org)") == "[a plot](https://example.org)"


def test_words_take_the_place_of_what_is_not_sent() -> None:
    [naming] = find_named_files("a\nMEDIA:b.png\nc")
    assert replace_names("a\nMEDIA:b.png\nc", [(naming, "It is gone.")]) == "a\nIt is gone.\nc"


@pytest.mark.parametrize(
    "text",
    [
        "![](" * 30_000,
        "`a ``b " * 20_000 + "![x](y)",
        "MEDIA:x" + " " * 100_000 + "y",
        "![x](a" + " " * 100_000 + "'a)",
        "![a](b" + "(" * 50_000,
        "\n".join(["MEDIA:a"] * 20_000),
    ],
)
def test_a_text_made_to_be_slow_is_read_all_the_same(text: str) -> None:
    """A pattern that looks back and forth would take minutes over one of these; the test's time limit would end it."""
    assert len(left(text)) <= len(text)
