"""Measure and delete folders that others have filled.

By descriptor, never by path: a path may be longer than the kernel takes, and folders may be nested without end.
"""

import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MAX_COUNTED_FILES = 300_000
MAX_DEPTH = 200  # each level takes a descriptor
_ENTRY_BYTES = 512  # even an empty file takes space
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _TooMuch(Exception):
    """There are too many entries to count, or too many levels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceUse:
    """The disk space that a workspace uses. There are no quotas for folders, so files are counted."""

    folders: tuple[Path, ...]
    max_bytes: int

    def room_bytes(self) -> int:
        return max(0, self.max_bytes - self.used_bytes())

    def used_bytes(self) -> int:
        """Return the space on disk, following no links. A workspace that cannot be counted to its end is full."""
        count = _Count()
        try:
            for folder in self.folders:
                with suppress(FileNotFoundError):
                    count.add(os.open(folder, _FOLDER))
        except (_TooMuch, OSError):
            return self.max_bytes + 1
        return count.used_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUse:
    """The disk of a workspace that has no limit of its own: some space there stays free."""

    folder: Path
    min_free_bytes: int

    def room_bytes(self) -> int:
        return max(0, shutil.disk_usage(self.folder).free - self.min_free_bytes)


def describe_overuse(max_bytes: int) -> str:
    return (
        f"the workspace is larger than {max_bytes // 1_000_000} MB, or has folders that cannot be counted. Delete "
        "files that are no longer needed."
    )


@dataclass(slots=True)
class _Count:
    used_bytes: int = 0
    entries: int = 0

    def add(self, folder: int, depth: int = 0) -> None:
        """Count a folder, and close its descriptor. Raises _TooMuch, or OSError for what cannot be read."""
        try:
            names = []
            with os.scandir(folder) as entries:
                for entry in entries:
                    self.entries += 1
                    if self.entries > MAX_COUNTED_FILES or depth > MAX_DEPTH:
                        raise _TooMuch
                    with suppress(FileNotFoundError):  # deleted meanwhile
                        self.used_bytes += entry.stat(follow_symlinks=False).st_blocks * 512 + _ENTRY_BYTES
                        if entry.is_dir(follow_symlinks=False):
                            names.append(entry.name)
            for name in names:
                with suppress(FileNotFoundError, NotADirectoryError):
                    self.add(os.open(name, _FOLDER, dir_fd=folder), depth + 1)
        finally:
            os.close(folder)


def delete_tree(folder: Path) -> None:
    """Delete a folder and all that is in it, if it exists. Raises OSError.

    Subfolders are moved to the top first, so that no level needs a descriptor of its own, nor a longer path.
    """
    try:
        root = os.open(folder, _FOLDER)
    except FileNotFoundError:
        return
    try:
        while inner := _delete_files(root):
            for name in inner:
                child = os.open(name, _FOLDER, dir_fd=root)
                try:
                    for moved in _delete_files(child):
                        os.rename(moved, f"{secrets.token_hex(8)}", src_dir_fd=child, dst_dir_fd=root)
                finally:
                    os.close(child)
                os.rmdir(name, dir_fd=root)
    finally:
        os.close(root)
    folder.rmdir()


def _delete_files(folder: int) -> list[str]:
    """Delete everything but folders; return their names, after making them readable and writable for us."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
            continue
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.chmod(f"/proc/self/fd/{descriptor}", 0o700)  # the only way that follows no link
        finally:
            os.close(descriptor)
    return [name for name, is_folder in found if is_folder]
