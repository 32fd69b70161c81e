"""Read what is piped into `hermes chat -q`."""

import io
import os
import select
import stat
from typing import TextIO

import click


class NoEnd(click.ClickException):
    """Standard input is open, but nothing was written to it."""


def read_piped(lines: TextIO, *, max_chars: int, hint_seconds: float = 5, wait_seconds: float = 300) -> str:
    """Return the text that a pipe or a file holds; nothing for a terminal, a device such as /dev/null, or no input.

    Raises NoEnd instead of waiting forever: a service may hand down a pipe that nobody writes to or closes. The first
    byte may take minutes, though: `sort` and compilers write late.
    """
    try:
        kind = os.fstat(lines.fileno()).st_mode
    except io.UnsupportedOperation:  # no file is behind it: standard input was closed
        return ""
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
        return ""
    if not _is_readable(lines, hint_seconds):
        click.echo("Waiting for standard input. If there is none, add </dev/null to the command.", err=True)
        if not _is_readable(lines, wait_seconds):
            raise NoEnd("Nothing was written to standard input. If there is none, add </dev/null to the command.")
    content = lines.buffer.read(4 * max_chars + 1)  # a character takes four bytes at most
    try:
        text = "" if len(content) > 4 * max_chars else content.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise click.ClickException(
            "Standard input is not UTF-8 text. Convert it first (iconv), or name the file in the question."
        ) from error
    if len(content) > 4 * max_chars or len(text) > max_chars:
        raise click.ClickException(
            f"Standard input is longer than {max_chars:,} characters. Pipe less of it (head, grep), or raise the "
            "limit: hermes config set media.max_turn_text_chars NUMBER"
        )
    return text


def _is_readable(lines: TextIO, seconds: float) -> bool:
    """Wait for the first byte or the end of input."""
    return bool(select.select([lines], [], [], seconds)[0])
