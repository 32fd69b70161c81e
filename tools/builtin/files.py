"""The tools `file_read`, `file_write`, `file_search` and `file_patch`."""

import posixpath
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from tools.approval.file_access import about_reading, about_searching, about_writing, find_guarded
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
_MAX_GUARDED_NAMES = 5

PathOf = Annotated[str, Field(description="Absolute, relative to the current folder, or beginning with ~/")]


@tool(toolset="file", needs_workplace=True, brings="file", about=about_reading)
async def file_read(
    context: ToolContext,
    path: PathOf,
    offset: Annotated[int, Field(description="First line to return; lines count from 1", ge=1)] = 1,
    limit: Annotated[int, Field(description="Most lines to return", ge=1, le=MAX_READ_LINES)] = 500,
) -> dict[str, Any]:
    """Read a text file. Each line is prefixed with its number and `|`, which are not part of the file.

    For long files read a part: offset=200, limit=100 returns lines 200 to 299.
    """
    place = workplace_of(context)
    where = place.locate(path)
    try:
        read = await place.backend.files.read_lines(where, first=offset, count=limit)
    except FileRefused as error:
        raise FileRefused(f"{error}{await _suggest_name(place, where)}", reason=error.reason) from error
    content, shown_lines = _number(read, offset)
    result: dict[str, Any] = {
        "content": content,
        "total_lines": read.total_lines,
        "offset": offset,
        "limit": limit,
    }
    if note := _note_on_reading(read, offset, shown_lines):
        result["note"] = note
    return result


@tool(toolset="file", needs_workplace=True, brings="", about=about_writing)
async def file_write(
    context: ToolContext,
    path: PathOf,
    content: Annotated[str, Field(description="The complete new content of the file")],
) -> dict[str, Any]:
    """Create a file, or replace all of its content. Missing folders are created.

    To change a part of an existing file, use file_patch.
    """
    place = workplace_of(context)
    encoded = _encode(content)
    if len(encoded) > MAX_WRITTEN_BYTES:
        raise ToolFailed(f"The content has {len(encoded):,} bytes, too many for one call. Use a command instead.")
    written = await place.backend.files.write(place.locate(path), encoded)
    return {"success": True, "path": written.path, "bytes_written": len(encoded), "created": written.created}


@tool(toolset="file", needs_workplace=True, brings="file", about=about_searching)
async def file_search(
    context: ToolContext,
    pattern: Annotated[
        str,
        Field(
            description="target=content: a regular expression, matched line by line. target=files: a glob such as *.py "
            "or src/**/*.ts, or a part of the name."
        ),
    ],
    path: Annotated[str, Field(description="Folder to search, or a single file")] = ".",
    target: Annotated[
        Literal["content", "files"], Field(description="content: search inside files. files: search for file names.")
    ] = "content",
    limit: Annotated[int, Field(description="Most matches to return", ge=1, le=MAX_MATCHES)] = 50,
) -> dict[str, Any]:
    """Search a folder and everything below it, inside files or for file names.

    Skips hidden files, /proc, /sys and /dev, and where ripgrep is installed also what .gitignore and .ignore name. Use
    this rather than grep or find.
    """
    place = workplace_of(context)
    if not pattern or "\0" in pattern or "\n" in pattern:
        raise ToolFailed("The pattern must be one line and not empty.")
    wanted = Search(pattern=pattern, path=place.locate(path), target=target, limit=limit)
    found = await place.backend.files.search(wanted)
    guarded: set[str] = set()
    if target == "content":
        guarded = await find_guarded((match.path for match in found.matches), wanted.path, context)
        found = replace(found, matches=tuple(match for match in found.matches if match.path not in guarded))
    result: dict[str, Any] = {"matches": _list_matches(found, place, target), "shown": len(found.matches)}
    notes = []
    if found.more or not found.counted_all:
        at_least = "" if found.counted_all else "at least "
        notes.append(f"There are {at_least}{found.more} more matches. Narrow the pattern or the path.")
    if guarded:
        names = ", ".join(shown(_relative(path, place)) for path in sorted(guarded)[:_MAX_GUARDED_NAMES])
        notes.append(f"Matches in {len(guarded)} files that need approval are left out: {names}. Use file_read to ask.")
    if notes:
        result["note"] = " ".join(notes)
    return result


@tool(toolset="file", needs_workplace=True, brings="file", about=about_writing)
async def file_patch(
    context: ToolContext,
    path: PathOf,
    old_string: Annotated[str, Field(description="Exact text to replace, with enough lines around it to be unique")],
    new_string: Annotated[str, Field(description="Text to put in its place")],
    replace_all: Annotated[bool, Field(description="Replace every occurrence instead of exactly one")] = False,
) -> dict[str, Any]:
    """Replace a piece of a text file and return the diff. Read the file first and copy old_string from it.

    If old_string is not found exactly, differences in indentation and trailing spaces are ignored.
    """
    place = workplace_of(context)
    where = place.locate(path)
    read = await place.backend.files.read(where, max_bytes=MAX_PATCHED_BYTES)
    if b"\0" in read.content[:8_192]:
        raise ToolFailed(f"{shown(path)}: this is a binary file, which cannot be patched.")
    # Bytes that are not UTF-8 stay as they are.
    before = read.content.decode("utf-8", "surrogateescape")
    patched = patch(before, old_string, new_string, replace_all=replace_all)
    after = _encode(patched.text)
    await place.backend.files.write(where, after, expected_version=read.facts.version)
    result: dict[str, Any] = {
        "success": True,
        "replacements": patched.replacements,
        "diff": unified_diff(_readable(before), _readable(patched.text), _relative(where, place)),
    }
    if patched.tolerant:
        result["note"] = "old_string was found with different white space. The file's own indentation was kept."
    return result


def _number(read: LinesRead, offset: int) -> tuple[str, int]:
    """Return the lines with their numbers, as many as fit, and how many these are."""
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


def _note_on_reading(read: LinesRead, offset: int, shown_lines: int) -> str:
    end = offset + shown_lines - 1
    if not read.total_lines:
        return "The file is empty."
    if not shown_lines:
        return f"The file has only {read.total_lines} lines; line {offset} is beyond its end."
    notes = []
    if end < read.total_lines:
        notes.append(f"The file goes on. Continue with offset={end + 1}.")
    if not read.counted_all:
        notes.append("The file is very large: it has more lines than total_lines.")
    return " ".join(notes)


async def _suggest_name(place: Workplace, where: str) -> str:
    """Suggest a similar file name, as a sentence; empty when there is none."""
    from difflib import get_close_matches

    folder, name = posixpath.split(where)
    try:
        entries = await place.backend.files.list_folder(folder, max_entries=_SUGGESTED_ENTRIES)
    except FileRefused:
        return ""
    names = [entry.name for entry in entries if entry.kind == "file"]
    near = get_close_matches(name, names, n=2) if name not in {entry.name for entry in entries} else []
    return f" Did you mean {' or '.join(shown(one) for one in near)}?" if near else ""


def _list_matches(found: Found, place: Workplace, target: str) -> list[Any]:
    if target == "files":
        return [_relative(match.path, place) for match in found.matches]
    return [
        {"path": _relative(match.path, place), "line": match.line_number, "text": match.text} for match in found.matches
    ]


def _relative(path: str, place: Workplace) -> str:
    """Return the path relative to the current folder where it lies below it."""
    return _readable(path.removeprefix(place.current_folder.rstrip("/") + "/"))


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ToolFailed("The content contains lone surrogates, which cannot be written to a file.") from error


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
