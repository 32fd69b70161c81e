"""Open files that are to be sent: every tool that sends a file opens it through `open_media`.

The path may come from a manipulated model, and the folders may be changed while we check them. So a path is walked
folder by folder from the root of the file system without following links, and we read the open file that was checked,
never its name a second time.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.base import ToolFailed
from tools.content import in_bytes
from tools.opening import REASONS, file_held

SYSTEM_FOLDERS = tuple(Path(name) for name in ("/proc", "/sys", "/dev"))
"""Folders of files provided by the kernel; some contain our own environment and memory."""

_MAX_PATH_BYTES = 4095
_MAX_NAME_BYTES = 255
_SHOWN_CHARS = 80


class MediaRefused(ToolFailed):
    """A file that is not sent; the text is one sentence for the model and the user."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{shown(path)} was not sent: {reason}.")
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder from which files may be sent, including its subfolders."""

    spelled: Path  # as settings and models write it
    real: Path  # without links; this one is opened


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRoots:
    """The folders from which files may be sent. Relative paths start in the first."""

    folders: tuple[Folder, ...] = ()
    closed: tuple[Path, ...] = ()  # inside these, only folders named in `folders`

    @classmethod
    def of(cls, folders: Sequence[Path], closed: Sequence[Path] = ()) -> "MediaRoots":
        """Resolve links in the paths of the folders, once. Missing folders are left out."""
        return cls(
            folders=tuple(
                Folder(spelled=Path(os.path.abspath(folder)), real=Path(os.path.realpath(folder))) for folder in folders
            ),
            closed=tuple(Path(os.path.realpath(folder)) for folder in closed),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedMedia:
    """A file that may be sent, held open."""

    name: str  # the last part of its path, printable characters only
    size_bytes: int  # when it was opened
    max_bytes: int
    path: str
    descriptor: int

    def read(self) -> bytes:
        """Return the content. Raises MediaRefused if the file has grown too large meanwhile."""
        try:
            with os.fdopen(os.dup(self.descriptor), "rb") as file:
                content = file.read(self.max_bytes + 1)
        except OSError as error:
            raise MediaRefused(self.path, _reason(error)) from error
        _check_size(self.path, len(content), self.max_bytes)
        return content


@contextmanager
def open_media(path: str, roots: MediaRoots, *, max_bytes: int) -> Iterator[OpenedMedia]:
    """Open a regular, visible file below one of the roots without following links. Raises MediaRefused. Blocks."""
    where = _locate(path, roots)
    with ExitStack() as stack:
        try:
            descriptor = stack.enter_context(file_held(where, partial(_check_kind, path)))
        except OSError as error:
            raise MediaRefused(path, _reason(error)) from error
        size = os.fstat(descriptor).st_size
        _check_size(path, size, max_bytes)
        yield OpenedMedia(
            name=_printable(where.name), size_bytes=size, max_bytes=max_bytes, path=path, descriptor=descriptor
        )


def shown(path: str) -> str:
    """Return a path for use in a sentence: short, on one line, without markup."""
    clean = _printable(path).replace("`", "'").strip()
    return f"`{clean if len(clean) <= _SHOWN_CHARS else '…' + clean[-_SHOWN_CHARS:]}`" if clean else "A file"


def _locate(path: str, roots: MediaRoots) -> Path:
    """Return the real path by its spelling alone. For paths outside, not even their existence is revealed."""
    names = _names(path)
    if not roots.folders:
        raise MediaRefused(path, "files are not sent from here")
    is_hidden = False
    for folder, inside in _readings(path, names, roots):
        where = folder.real.joinpath(*inside)
        if _may_leave(where, folder.real, roots):
            # Keys, passwords and tokens are in hidden files and folders; a workspace may be somebody's whole home.
            if not any(name.startswith(".") for name in inside):
                return where
            is_hidden = True  # unless another root is inside it
    if is_hidden:
        raise MediaRefused(path, "files that are hidden or in hidden folders are not sent")
    raise MediaRefused(path, "it is outside the folders from which files may be sent")


def _readings(path: str, names: list[str], roots: MediaRoots) -> Iterator[tuple[Folder, list[str]]]:
    """Yield the folders that a path may be in, each with the rest of the path."""
    if not path.startswith("/"):
        yield roots.folders[0], names
        return
    for folder in roots.folders:
        for start in dict.fromkeys((folder.spelled, folder.real)):
            above = list(start.parts[1:])
            if names[: len(above)] == above and len(names) > len(above):
                yield folder, names[len(above) :]


def _names(path: str) -> list[str]:
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise MediaRefused(path, "its name cannot be a file's") from None
    names = [name for name in path.split("/") if name not in ("", ".")]
    if not names or b"\0" in encoded:
        raise MediaRefused(path, "its name cannot be a file's")
    if len(encoded) > _MAX_PATH_BYTES or any(len(os.fsencode(name)) > _MAX_NAME_BYTES for name in names):
        raise MediaRefused(path, "its name is too long")
    if ".." in names:
        raise MediaRefused(path, "a path with .. in it is not followed")
    return names


def _may_leave(where: Path, root: Path, roots: MediaRoots) -> bool:
    """Return whether the root is nearer to the file than any closed folder."""
    if any(where.is_relative_to(folder) for folder in SYSTEM_FOLDERS):
        return False
    return all(
        root != folder and root.is_relative_to(folder) for folder in roots.closed if where.is_relative_to(folder)
    )


def _check_kind(path: str, found: os.stat_result) -> None:
    """Check that it is a regular file of ours."""
    if stat.S_ISLNK(found.st_mode):
        raise MediaRefused(path, REASONS[errno.ELOOP])
    if stat.S_ISDIR(found.st_mode):
        raise MediaRefused(path, "it is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise MediaRefused(path, "it is not a regular file")
    # A hard link to somebody else's file may have been put here to have us read it, who may read more. Our own files
    # may have several links, made by package managers and version control; an attacker running as us could as well
    # copy them.
    if found.st_nlink > 1 and found.st_uid != os.geteuid():
        raise MediaRefused(path, "it is a hard link to a file of another user")


def _check_size(path: str, size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise MediaRefused(path, f"it is larger than {in_bytes(max_bytes)}, the limit for sending")
    if not size:  # no platform accepts these; files provided by the kernel also report no size
        raise MediaRefused(path, "it is empty")


def _reason(error: OSError) -> str:
    return REASONS.get(error.errno or 0) or f"it could not be read ({(error.strerror or 'no reason given').lower()})"


def _printable(name: str) -> str:
    return "".join(character for character in name if character.isprintable())
