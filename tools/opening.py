"""Open a folder by walking from the root of the file system name by name, without following links.

The folders may be changed while we walk. So nothing is looked up by its whole path: each folder is held open while
the next name is looked up in it, and only open descriptors are used.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)  # only Linux can open a folder that may be entered but not listed
FOLDER = _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LISTED_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a FIFO would block until somebody writes into it.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

# Why a file cannot be opened, as clauses.
REASONS = {
    errno.ENOENT: "there is no such file",
    errno.ENOTDIR: "there is no such file, or its path contains a link",
    errno.ELOOP: "it is a link, and links are not followed",
    errno.EACCES: "the permissions do not allow it",
    errno.EPERM: "the permissions do not allow it",
    errno.EROFS: "that file system is read-only",
    errno.ENAMETOOLONG: "its name is too long",
    errno.ENXIO: "it is not a regular file",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EISDIR: "it is a folder",
}


@contextmanager
def folder_held(where: Path, *, make: bool = False) -> Iterator[int]:
    """Open a folder for `dir_fd`, for the length of the block; `make` creates missing folders. Raises OSError."""
    descriptor = _walk(where, make=make)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def file_held(where: Path, check: Callable[[os.stat_result], object]) -> Iterator[int]:
    """Open a file for reading, for the length of the block. `check` raises for what must not be opened."""
    with folder_held(where.parent) as folder:
        # Check before opening, since opening some devices has effects; the check afterwards is the one that counts.
        check(os.stat(where.name, dir_fd=folder, follow_symlinks=False))
        descriptor = os.open(where.name, FILE, dir_fd=folder)
    try:
        check(os.fstat(descriptor))
        yield descriptor
    finally:
        os.close(descriptor)


def _walk(where: Path, *, make: bool) -> int:
    folder = os.open("/", FOLDER)
    for name in where.parts[1:]:
        try:
            inner = _enter(name, folder, make=make)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _enter(name: str, folder: int, *, make: bool) -> int:
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # created by somebody else meanwhile; checked on opening
        os.mkdir(name, dir_fd=folder)
    return os.open(name, FOLDER, dir_fd=folder)
