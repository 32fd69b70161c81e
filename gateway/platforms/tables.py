"""A Markdown table as aligned monospace lines, as wide on the screen as people see it."""

import unicodedata
from collections.abc import Sequence

from gateway.platforms.markdown import Align

_GAP = "  "


def display_width(text: str) -> int:
    """Columns on a terminal: East Asian wide characters and emoji take two, combining marks none."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def aligned(rows: Sequence[Sequence[str]], aligns: Sequence[Align], max_width: int) -> str | None:
    """The rows (the first is the header) in columns with a line below the header; None if that is too wide."""
    columns = max(map(len, rows))
    if columns * (1 + len(_GAP)) - len(_GAP) > max_width:
        return None  # looked at first: rows that are filled up to an absurd header would cost the product
    table = [[*row, *[""] * (columns - len(row))] for row in rows]
    widths = [max(1, *map(display_width, column)) for column in zip(*table, strict=True)]
    if sum(widths) + len(_GAP) * (columns - 1) > max_width:
        return None
    sides = [*aligns, *["left"] * (columns - len(aligns))]
    lines = [_GAP.join(map(_pad, row, widths, sides)).rstrip() for row in table]
    return "\n".join([lines[0], _GAP.join("-" * width for width in widths), *lines[1:]])


def _pad(cell: str, width: int, align: str) -> str:
    room = width - display_width(cell)
    left = {"left": 0, "center": room // 2, "right": room}[align]
    return " " * left + cell + " " * (room - left)


def _char_width(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
