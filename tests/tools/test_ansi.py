"""What a terminal would show."""

import pytest

from tools.ansi import plain, unfinished

ESC = "\x1b"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        (f"{ESC}[1;31mred{ESC}[0m", "red"),
        (f"{ESC}[2J{ESC}[10;20Hhere{ESC}[?25l", "here"),
        (f"{ESC}]0;a title\x07text", "text"),
        (f"{ESC}]8;;http://x.example{ESC}\\link{ESC}]8;;{ESC}\\", "link"),
        (f"{ESC}]0;a title without an end\nthe next line", "\nthe next line"),
        (f"{ESC}(Btext{ESC}=", "text"),
        ("\x9b31mred", "red"),
        (ESC, ""),
        (" 10%\r 50%\r100%\ndone\n", "100%\ndone\n"),
        ("of a file\r\nfrom elsewhere\r\n", "of a file\r\nfrom elsewhere\r\n"),
        ("bo\bold\n\b", "bold\n"),
        ("b\bbo\bo", "bo"),
        ("bell\x07 nul\x00", "bell nul"),
        ("größer 🙂", "größer 🙂"),
    ],
)
def test_what_is_seen_of_a_text(text: str, seen: str) -> None:
    assert plain(text) == seen


@pytest.mark.parametrize("end", ["\r", ESC, f"{ESC}[", f"{ESC}[?20", f"{ESC}[1;31", f"{ESC}]0;a title"])
def test_an_end_that_waits_for_more_is_known(end: str) -> None:
    assert unfinished(f"{ESC}[1mtext\r\n\ttext{end}") == end


@pytest.mark.parametrize("text", ["", "text", f"{ESC}[1m", "\r\n", f"{ESC}]0;a title\x07"])
def test_what_is_complete_waits_for_nothing(text: str) -> None:
    assert unfinished(text) == ""


def test_lines_of_a_terminal_end_like_all_others() -> None:
    assert plain("one\r\ntwo\r\r\n", from_terminal=True) == "one\ntwo\n"


def test_a_flood_of_carriage_returns_is_read_in_one_go() -> None:
    assert plain("\r" * 1_000_000 + "end\r\r\n", from_terminal=True) == "end\n"
