"""Turn a page's accessibility tree, as Playwright writes it, into a short text with references to
the elements that can be used."""

import re
from collections import Counter
from collections.abc import Sequence

from tools.shell_guard.programs import names

MAX_BYTES = 10_000  # under 4,000 tokens: names and references are short words
REFERENCE = re.compile(r"(?:f\d+)*e\d+")
_LINE = re.compile(r"( *)- (.*)")
_REF = re.compile(r" ?\[ref=((?:f\d+)*e\d+)\]")
_NOISE = re.compile(r" \[(?:cursor=pointer|active|level=\d+)\]")
_MAX_LINE_CHARS = 300
_USED = names(  # roles that are clicked or typed into
    "button checkbox combobox iframe link menuitem menuitemcheckbox menuitemradio option radio searchbox slider "
    "spinbutton switch tab textbox treeitem"
)
_BARE = names(  # roles that say nothing without a name
    "generic group list listitem paragraph rowgroup cell gridcell text strong emphasis article section main none "
    "presentation"
)


def outline(tree: str, *, with_addresses: bool = False) -> list[str]:
    """Return a line for each element with content, indented by the elements around it."""
    lines: list[str] = []
    around: list[tuple[int, int]] = []  # how deep each element is in the tree, and how deep its children are shown
    for found in filter(None, map(_LINE.fullmatch, tree.splitlines())):
        deep, item = len(found[1]), _unquote(found[2])
        while around and around[-1][0] >= deep:
            around.pop()
        shown = around[-1][1] if around else 0
        if item.startswith("/"):  # a property of the element above
            if with_addresses and item.startswith("/url: ") and lines:
                lines[-1] += f" -> {_unquote(item[6:])[:_MAX_LINE_CHARS]}"
        elif text := _describe(item):
            lines.append(" " * shown + text[:_MAX_LINE_CHARS])
            around.append((deep, shown + 1))
        else:
            around.append((deep, shown))
    return lines


def cut(lines: Sequence[str], start: int = 1) -> tuple[str, int]:
    """Return as many lines as fit from a line on, counted from 1, and the number of the last one."""
    size, last = 0, start - 1
    for line in lines[start - 1 :]:
        size += len(line.encode()) + 1
        if size > MAX_BYTES:
            break
        last += 1
    return "\n".join(lines[start - 1 : last]), last


def find_new(lines: Sequence[str], before: Sequence[str]) -> list[str]:
    """Return the lines that were not there before."""
    known = Counter(line.strip() for line in before)
    new: list[str] = []
    for line in lines:
        known[line.strip()] -= 1
        if known[line.strip()] < 0:
            new.append(line)
    return new


def _describe(item: str) -> str:
    """Return an element in words, empty for one that only holds others."""
    can_click = "[cursor=pointer]" in item
    item = _NOISE.sub("", item)
    role = re.split(r"[ :]", item, maxsplit=1)[0]
    if can_click or role in _USED:
        return _REF.sub(r" [\1]", item).removesuffix(":")
    item = _REF.sub("", item)
    if role in _BARE and '"' not in item.partition(":")[0]:
        return _unquote(item.partition(": ")[2])
    return item.removesuffix(":")


def _unquote(text: str) -> str:
    """Return what YAML has put into quotes."""
    if text.startswith("'"):
        return text[1:].replace("''", "'").removesuffix("':").removesuffix("'") + (":" if text.endswith("':") else "")
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return text
