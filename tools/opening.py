"""Walks to a folder from the root of the file system, one name after the other, and follows no link on the way.

Whoever may change the folders can do so while we walk. So nothing is looked up by its whole path: each folder is held
open while the next name is looked up in it, and what is used is what is held.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)  # only Linux can hold a folder that may be entered but not listed
FOLDER = _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LISTED_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a FIFO would hold us until somebody writes into it.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@contextmanager
def folder_held(where: Path, *, make: bool = False) -> Iterator[int]:
    """A descriptor of the folder, for `dir_fd`. Raises OSError. `make` creates what is missing of it."""
    descriptor = _walk(where, make=make)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _walk(where: Path, *, make: bool) -> int:
    folder = os.open("/", FOLDER)
    for name in where.parts[1:]:
        try:
            inner = _entered(name, folder, make=make)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _entered(name: str, folder: int, *, make: bool) -> int:
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # somebody was faster; whether it is a folder is seen now
        os.mkdir(name, dir_fd=folder)
    return os.open(name, FOLDER, dir_fd=folder)
