"""The agent's hands on files: read, write, search, patch, wherever the workplace is."""

import posixpath
from typing import Annotated, Any, Literal

from pydantic import Field

from tools.approval.file_access import about_reading, about_searching, about_writing
from tools.backends.base import FileRefused, Found, LinesRead, Search, Workplace
from tools.base import ToolContext, ToolFailed, workplace_of
from tools.builtin.patching import patch, unified_diff
from tools.media import shown
from tools.registry import tool

MAX_SHOWN_CHARS = 80_000
MAX_READ_LINES = 5_000
MAX_PATCHED_BYTES = 10_000_000
MAX_WRITTEN_BYTES = 10_000_000
MAX_MATCHES = 500
_SUGGESTED_ENTRIES = 1_000

PathOf = Annotated[str, Field(description="Absolute, or relative to the current folder; ~ is the home")]


@tool(toolset="file", needs_workplace=True, brings="file", about=about_reading)
async def file_read(
    context: ToolContext,
    path: PathOf,
    offset: Annotated[int, Field(description="The first line to show, counted from 1", ge=1)] = 1,
    limit: Annotated[int, Field(description="How many lines to show at most", ge=1, le=MAX_READ_LINES)] = 500,
) -> dict[str, Any]:
    """Read a text file. Its lines come with their numbers, which are not part of the file."""
    place = workplace_of(context)
    where = place.locate(path)
    try:
        read = await place.backend.files.read_lines(where, first=offset, count=limit)
    except FileRefused as error:
        raise FileRefused(f"{error}{await _nearest(place, where)}", reason=error.reason) from error
    content, shown_lines = _numbered(read, offset)
    result: dict[str, Any] = {
        "content": content,
        "total_lines": read.total_lines,
        "offset": offset,
        "limit": limit,
    }
    if note := _about_reading(read, offset, shown_lines):
        result["note"] = note
    return result


@tool(toolset="file", needs_workplace=True, brings="", about=about_writing)
async def file_write(
    context: ToolContext,
    path: PathOf,
    content: Annotated[str, Field(description="All that the file shall hold")],
) -> dict[str, Any]:
    """Write a whole file, in place of what was there. Missing folders are made."""
    place = workplace_of(context)
    encoded = _encoded(content)
    if len(encoded) > MAX_WRITTEN_BYTES:
        raise ToolFailed(f"A file of {len(encoded):,} bytes is too long to be written at once; make it with a command.")
    written = await place.backend.files.write(place.locate(path), encoded)
    return {"success": True, "path": written.path, "bytes_written": len(encoded), "created": written.created}


@tool(toolset="file", needs_workplace=True, brings="file", about=about_searching)
async def file_search(
    context: ToolContext,
    pattern: Annotated[
        str, Field(description="A regular expression; for files a glob such as *.py, or a part of the name")
    ],
    path: Annotated[str, Field(description="The folder to search, or a single file")] = ".",
    target: Annotated[
        Literal["content", "files"], Field(description="Search in files, or for their names")
    ] = "content",
    limit: Annotated[int, Field(description="How many matches to show at most", ge=1, le=MAX_MATCHES)] = 50,
) -> dict[str, Any]:
    """Search files by content or by name. Hidden files, what ignore files name, /proc, /sys and /dev are left out."""
    place = workplace_of(context)
    if not pattern or "\0" in pattern or "\n" in pattern:
        raise ToolFailed("The pattern must be a single line and not empty.")
    wanted = Search(pattern=pattern, path=place.locate(path), target=target, limit=limit)
    found = await place.backend.files.search(wanted)
    result: dict[str, Any] = {"matches": _listed(found, place, target), "shown": len(found.matches)}
    if found.more or not found.counted_all:
        at_least = "" if found.counted_all else "at least "
        result["note"] = f"There are {at_least}{found.more} more matches; narrow the pattern or the path."
    return result


@tool(toolset="file", needs_workplace=True, brings="file", about=about_writing)
async def file_patch(
    context: ToolContext,
    path: PathOf,
    old_string: Annotated[str, Field(description="The text to be replaced, with enough around it to be unique")],
    new_string: Annotated[str, Field(description="What shall stand there instead")],
    replace_all: Annotated[bool, Field(description="Replace every occurrence")] = False,
) -> dict[str, Any]:
    """Replace a piece of a text file. If it is not found exactly, white space around lines is overlooked."""
    place = workplace_of(context)
    where = place.locate(path)
    read = await place.backend.files.read(where, max_bytes=MAX_PATCHED_BYTES)
    if b"\0" in read.content[:8_192]:
        raise ToolFailed(f"{shown(path)}: it is no text but a binary file, which cannot be patched.")
    # Bytes that are no UTF-8 stay as they are.
    before = read.content.decode("utf-8", "surrogateescape")
    patched = patch(before, old_string, new_string, replace_all=replace_all)
    after = _encoded(patched.text)
    await place.backend.files.write(where, after, expected_version=read.facts.version)
    result: dict[str, Any] = {
        "success": True,
        "replacements": patched.replacements,
        "diff": unified_diff(_readable(before), _readable(patched.text), _told(where, place)),
    }
    if patched.tolerant:
        result["note"] = "It was found with other white space than given; the file's own indentation was kept."
    return result


def _numbered(read: LinesRead, offset: int) -> tuple[str, int]:
    """The lines with their numbers, as many as can be shown, and how many these are."""
    lines: list[str] = []
    chars = 0
    for number, line in enumerate(read.lines, start=offset):
        more = f" [… {line.left_out_bytes:,} more bytes in this line]" if line.left_out_bytes else ""
        text = f"{number:>6}|{line.text.removeprefix(chr(0xFEFF)) if number == 1 else line.text}{more}"
        chars += len(text) + 1
        if chars > MAX_SHOWN_CHARS and lines:
            break
        lines.append(text)
    return "\n".join(lines), len(lines)


def _about_reading(read: LinesRead, offset: int, shown_lines: int) -> str:
    end = offset + shown_lines - 1
    if not read.total_lines:
        return "The file is empty."
    if not shown_lines:
        return f"The file has only {read.total_lines} lines: there is nothing from line {offset} on."
    notes = []
    if end < read.total_lines:
        notes.append(f"The file goes on; read on with offset {end + 1}.")
    if not read.counted_all:
        notes.append("The file is very large: there are more lines than were counted.")
    return " ".join(notes)


async def _nearest(place: Workplace, where: str) -> str:
    """A name that may have been meant, as a sentence."""
    from difflib import get_close_matches

    folder, name = posixpath.split(where)
    try:
        entries = await place.backend.files.list_folder(folder, max_entries=_SUGGESTED_ENTRIES)
    except FileRefused:
        return ""
    names = [entry.name for entry in entries if entry.kind == "file"]
    near = get_close_matches(name, names, n=2) if name not in {entry.name for entry in entries} else []
    return f" Did you mean {' or '.join(shown(one) for one in near)}?" if near else ""


def _listed(found: Found, place: Workplace, target: str) -> list[Any]:
    if target == "files":
        return [_told(match.path, place) for match in found.matches]
    return [
        {"path": _told(match.path, place), "line": match.line_number, "text": match.text} for match in found.matches
    ]


def _told(path: str, place: Workplace) -> str:
    """Relative where it lies below the current folder."""
    return _readable(path.removeprefix(place.current_folder.rstrip("/") + "/"))


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ToolFailed("The content holds half characters (lone surrogates), which no file can hold.") from error


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
