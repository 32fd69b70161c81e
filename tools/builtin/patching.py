"""Replace a piece of a text: an exact match, or one that differs only in indentation and trailing space. Pure.

Line endings, also of the last line, stay as they are in the text.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tools.errors import ToolFailed

MAX_DIFF_LINES = 400
_SHOWN_PLACES = 10
_MAX_TOLERANT_LINES = 200_000


class PatchRefused(ToolFailed):
    """Nothing was changed; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patched:
    text: str
    replacements: int
    tolerant: bool = False  # whether white space was overlooked


def patch(text: str, old: str, new: str, *, replace_all: bool = False) -> Patched:
    """Replace `old` by `new`. Raises PatchRefused."""
    if not old:
        raise PatchRefused("old_string is empty. To write a whole file, use file_write.")
    if old == new:
        raise PatchRefused("old_string and new_string are equal: nothing would change.")
    patched = _replace_exactly(text, old, new, replace_all=replace_all)
    if patched is None and "\r\n" in text:
        patched = _replace_exactly(text, _with_crlf(old), _with_crlf(new), replace_all=replace_all)
    if patched is None:
        patched = _replace_tolerantly(text, old, new, replace_all=replace_all)
    if patched.text == text:
        raise PatchRefused("Nothing would change: apart from white space the file already has this text.")
    return patched


def unified_diff(before: str, after: str, path: str) -> str:
    lines = list(
        difflib.unified_diff(_lines(before), _lines(after), fromfile=f"a/{path}", tofile=f"b/{path}", lineterm="")
    )
    if len(lines) > MAX_DIFF_LINES:
        lines = [*lines[:MAX_DIFF_LINES], f"[… {len(lines) - MAX_DIFF_LINES} more lines of the diff omitted …]"]
    return "\n".join(lines)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]}\n\\ No newline at end of file"]


def _replace_exactly(text: str, old: str, new: str, *, replace_all: bool) -> Patched | None:
    places = list(_occurrences(text, old))
    if not places:
        return None
    if len(places) > 1 and not replace_all:
        raise _ambiguous([text.count("\n", 0, place) + 1 for place in places])
    return Patched(text=text.replace(old, new), replacements=len(places))


def _occurrences(text: str, part: str) -> Iterator[int]:
    place = text.find(part)
    while place >= 0:
        yield place
        place = text.find(part, place + len(part))


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _replace_tolerantly(text: str, old: str, new: str, *, replace_all: bool) -> Patched:
    lines = text.split("\n")
    wanted = _strip_blank_ends(old.replace("\r\n", "\n").split("\n"))
    if not wanted or len(lines) > _MAX_TOLERANT_LINES:
        raise _not_found(text, old)
    places = list(_windows(lines, wanted))
    if not places:
        raise _not_found(text, old)
    if len(places) > 1 and not replace_all:
        raise _ambiguous([place + 1 for place, _ in places])
    replacement = _strip_blank_ends(new.replace("\r\n", "\n").split("\n"))
    for place, indents in reversed(places):
        window = lines[place : place + len(wanted)]
        lines[place : place + len(wanted)] = _fit(replacement, indents, window)
    return Patched(text="\n".join(lines), replacements=len(places), tolerant=True)


def _strip_blank_ends(lines: Sequence[str]) -> list[str]:
    start, end = 0, len(lines)
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return list(lines[start:end])


def _windows(lines: Sequence[str], wanted: Sequence[str]) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Find the lines regardless of white space around them; yield each place and how indentation maps."""
    bare, sought = [line.strip() for line in lines], [line.strip() for line in wanted]
    place = 0
    while place <= len(bare) - len(sought):
        if bare[place] == sought[0] and bare[place : place + len(sought)] == sought:
            indents = _map_indents(wanted, lines[place : place + len(sought)])
            if indents is not None:
                yield place, indents
                place += len(sought) - 1
        place += 1


def _map_indents(wanted: Sequence[str], there: Sequence[str]) -> Mapping[str, str] | None:
    """Map indentations one to one; None when the lines are nested differently."""
    found: dict[str, str] = {}
    for ours, theirs in zip(wanted, there, strict=True):
        if ours.strip() and found.setdefault(_indent(ours), _indent(theirs)) != _indent(theirs):
            return None
    return found if len(set(found.values())) == len(found) else None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _fit(replacement: Sequence[str], indents: Mapping[str, str], window: Sequence[str]) -> list[str]:
    ending = "\r" if window[0].endswith("\r") else ""
    fitted = [_reindent(line, indents) + ending for line in replacement]
    if fitted and ending and not window[-1].endswith("\r"):  # the last line of a file has no ending at all
        fitted[-1] = fitted[-1].removesuffix("\r")
    return fitted


def _reindent(line: str, indents: Mapping[str, str]) -> str:
    own = _indent(line)
    nearest = max((indent for indent in indents if own.startswith(indent)), key=len, default=None)
    if nearest is None or not line.strip():
        return line
    return indents[nearest] + line[len(nearest) :]


def _ambiguous(line_numbers: Sequence[int]) -> PatchRefused:
    shown = ", ".join(map(str, line_numbers[:_SHOWN_PLACES]))
    more = f" and {len(line_numbers) - _SHOWN_PLACES} more" if len(line_numbers) > _SHOWN_PLACES else ""
    return PatchRefused(
        f"old_string occurs {len(line_numbers)} times, at lines {shown}{more}. Add surrounding lines to choose one, "
        "or set replace_all."
    )


def _not_found(text: str, old: str) -> PatchRefused:
    first = next((line.strip() for line in old.splitlines() if line.strip()), "")
    near = [number for number, line in enumerate(text.split("\n"), start=1) if first and first in line]
    hint = f" Its first line is at line {near[0]}, but the following lines differ." if near else ""
    return PatchRefused(f"old_string is not in the file.{hint} Read the file again and copy it exactly.")
