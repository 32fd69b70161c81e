"""Which files an answer names: lines like `MEDIA:/path` and Markdown images, outside of code. Pure."""

import os.path
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from gateway.platforms.markdown import find_fences

_MARK = "MEDIA:"
_MEDIA_LINE = re.compile(r"[ \t]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)?(?:\*\*)?MEDIA:")
_IMAGE = re.compile(r"(?<!\\)!\[(?P<alt>[^\[\]\n]*+)\]\((?P<target><[^<>\n]*+>|(?:[^()\n]++|\([^()\n]*+\))*+)\)")
_TITLE = re.compile(r"""[ \t]+(?:"[^"]*"|'[^']*')[ \t]*$""")
_TICKS = re.compile(r"`+")
_ELSEWHERE = re.compile(r"(?!file:)[a-z][a-z0-9+.-]+:|//|#|/media/[0-9a-f]{64}\b", re.IGNORECASE)
_QUOTES = {'"': '"', "'": "'", "`": "`", "<": ">"}
_MAX_TITLE_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """Where a file is named in a text, and how."""

    start: int
    end: int
    path: str  # as it is written: what ~ means, only whoever knows the turn can tell
    is_line: bool = False  # nothing else stands on its line
    alt: str = ""  # what stands for it inside of a link


def named_in(text: str) -> list[Naming]:
    """In the order of the text. What is kept elsewhere, such as a picture on the web, is not ours to send."""
    if _MARK not in text and "![" not in text:
        return []
    return [naming for paragraph in _paragraphs(text) for naming in _in_paragraph(text, paragraph)]


def with_words(text: str, replaced: Sequence[tuple[Naming, str]]) -> str:
    """The text with these words where files are named; a line that had nothing else and gets no words is gone."""
    parts: list[str] = []
    at = 0
    for naming, words in replaced:
        if naming.start > at:
            parts.append(text[at : naming.start])
        at = naming.end
        if words or not naming.is_line:
            parts.append(words or naming.alt)
            continue
        at += text.startswith("\n", at)
        if (not parts or parts[-1].endswith("\n\n")) and text.startswith("\n", at):
            at += 1  # of two blank lines around it one is enough
    return "".join((*parts, text[at:])).strip("\n")


def without_paths(text: str) -> str:
    """For an answer that is still growing: the names of its files instead of where they are."""
    return with_words(text, [(naming, f"📎 {os.path.basename(naming.path)}") for naming in named_in(text)])


_Lines = list[tuple[int, str]]


def _paragraphs(text: str) -> Iterator[_Lines]:
    """Yield the lines outside of fenced code with their places, as far as inline code can reach."""
    fenced = [(fence.start, fence.end) for fence in find_fences(text)]
    paragraph: _Lines = []
    at = 0
    for line in text.split("\n"):
        if line.strip() and not _is_in(fenced, at):
            paragraph.append((at, line))
        elif paragraph:
            yield paragraph
            paragraph = []
        at += len(line) + 1
    if paragraph:
        yield paragraph


def _in_paragraph(text: str, lines: _Lines) -> Iterator[Naming]:
    code = _code(text, lines[0][0], lines[-1][0] + len(lines[-1][1]))
    for at, line in lines:
        marked = _MEDIA_LINE.match(line)
        if marked and not _is_in(code, at + marked.end() - 1):
            if path := _plain(line[marked.end() :].strip().removesuffix("**")):
                yield Naming(start=at, end=at + len(line), path=path, is_line=True)
            continue
        for image in _IMAGE.finditer(line):
            path = _plain(_untitled(image["target"]), is_link=True)
            if path and not _is_in(code, at + image.start()):
                yield _image(at, line, image, path)


def _image(at: int, line: str, image: re.Match[str], path: str) -> Naming:
    if line.strip() == image[0]:
        return Naming(start=at, end=at + len(line), path=path, is_line=True)
    in_link = line[: image.start()].endswith("[")
    return Naming(start=at + image.start(), end=at + image.end(), path=path, alt=image["alt"] if in_link else "")


def _plain(path: str, *, is_link: bool = False) -> str:
    """The path alone; empty when it is none of a file here."""
    if len(path) > 1 and path[-1] == _QUOTES.get(path[0]):
        path = path[1:-1].strip()
    if _ELSEWHERE.match(path):
        return ""
    if path[:5].lower() == "file:":
        path, is_link = re.sub(r"^file:(?://(?:localhost)?(?=/))?", "", path, flags=re.IGNORECASE), True
    return unquote(path) if is_link else path


def _untitled(target: str) -> str:
    target = target.strip()
    found = _TITLE.search(target, max(0, len(target) - _MAX_TITLE_CHARS))
    return target[: found.start()] if found else target


def _code(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where inline code stands: between two runs of as many backticks."""
    runs = [match.span() for match in _TICKS.finditer(text, start, end)]
    next_of_length: dict[int, int] = {}
    closers: list[int | None] = [None] * len(runs)
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1] - runs[index][0]
        closers[index] = next_of_length.get(length)
        next_of_length[length] = index
    found: list[tuple[int, int]] = []
    index = 0
    while index < len(runs):
        closer = closers[index]
        if closer is not None:
            found.append((runs[index][0], runs[closer][1]))
            index = closer
        index += 1
    return found


def _is_in(ranges: Sequence[tuple[int, int]], place: int) -> bool:
    index = bisect_right(ranges, place, key=lambda one: one[0]) - 1
    return index >= 0 and place < ranges[index][1]
