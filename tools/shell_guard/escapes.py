"""Decode `$'…'` strings."""

import re

_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def ansi_c(text: str) -> str:
    """A zero byte ends it, as in bash; an escape of bash that is none stays as it is."""
    return _ESCAPE.sub(_character, text).partition("\0")[0]


def _character(found: re.Match[str]) -> str:
    x, u, long, octal, control, letter = found.groups()
    if control:
        return chr(ord(control.upper()) & 0x1F)
    if letter:
        return _LETTERS.get(letter, letter if letter in "\\'\"?" else f"\\{letter}")
    number = int(octal, 8) & 0xFF if octal else int(x or u or long, 16)
    return chr(number) if number <= 0x10FFFF and not 0xD800 <= number < 0xE000 else "?"
