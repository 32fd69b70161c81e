"""The one door for files that leave: every tool that names a file to be sent opens it through `open_media`.

Whoever writes the path may be a model that was talked into something, and whoever writes the folders may change them
while we look. So a path is walked folder by folder from the root of the file system, no link is followed on the way,
and what is read is what was checked: the open file, never its name a second time.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tools.base import ToolFailed
from tools.content import in_bytes
from tools.opening import FILE, folder_held

MEDIA_PATH_FORMAT = "media-path"
MediaPath = Annotated[str, Field(json_schema_extra={"format": MEDIA_PATH_FORMAT})]
"""The path of a file to be sent, as a tool's parameter. Tests find such parameters by it."""

SYSTEM_FOLDERS = tuple(Path(name) for name in ("/proc", "/sys", "/dev"))
"""What the kernel makes up in these is nobody's file; some of it is our own environment and memory."""

_MAX_PATH_BYTES = 4095
_MAX_NAME_BYTES = 255
_SHOWN_CHARS = 80
_CHUNK_BYTES = 1 << 20

_REASONS = {
    errno.ENOENT: "there is no such file",
    errno.ENOTDIR: "there is no such file, or the way to it leads over a link",
    errno.ELOOP: "it is a link, and links are not followed",
    errno.EACCES: "it may not be read",
    errno.EPERM: "it may not be read",
    errno.ENAMETOOLONG: "its name is too long",
    errno.ENXIO: "it is no ordinary file",
}


class MediaRefused(ToolFailed):
    """A file that is not sent; the text is one sentence for the model and the user."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{shown(path)} was not sent: {reason}.")
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """One from which files may be sent, with all below it."""

    spelled: Path  # as settings and models write it
    real: Path  # without links: what is opened


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRoots:
    """Where files may come from. Relative paths start in the first folder."""

    folders: tuple[Folder, ...] = ()
    closed: tuple[Path, ...] = ()  # inside of these only what is named in `folders` itself

    @classmethod
    def of(cls, folders: Sequence[Path], closed: Sequence[Path] = ()) -> "MediaRoots":
        """Links in the folders' own paths are followed here, once. Those that are not there lead nowhere."""
        return cls(
            folders=tuple(
                Folder(spelled=Path(os.path.abspath(folder)), real=Path(os.path.realpath(folder))) for folder in folders
            ),
            closed=tuple(Path(os.path.realpath(folder)) for folder in closed),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedMedia:
    """A file that may be sent, held open."""

    name: str  # its last part, without what cannot be shown
    size_bytes: int  # when it was opened
    max_bytes: int
    path: str
    descriptor: int

    def read(self) -> bytes:
        """All of it. Raises MediaRefused for one that has grown too large meanwhile."""
        content = bytearray()
        while len(content) <= self.max_bytes:
            try:
                chunk = os.read(self.descriptor, min(_CHUNK_BYTES, self.max_bytes + 1 - len(content)))
            except OSError as error:
                raise MediaRefused(self.path, _reason(error)) from error
            if not chunk:
                break
            content += chunk
        _check_size(self.path, len(content), self.max_bytes)
        return bytes(content)


@contextmanager
def open_media(path: str, roots: MediaRoots, *, max_bytes: int) -> Iterator[OpenedMedia]:
    """A regular, visible file below one of the roots, reached without a link. Raises MediaRefused. Blocks."""
    where = _locate(path, roots)
    try:
        descriptor = _opened(path, where)
    except OSError as error:
        raise MediaRefused(path, _reason(error)) from error
    try:
        size = _check_kind(path, os.fstat(descriptor))
        _check_size(path, size, max_bytes)
        yield OpenedMedia(
            name=_printable(where.name), size_bytes=size, max_bytes=max_bytes, path=path, descriptor=descriptor
        )
    finally:
        os.close(descriptor)


def shown(path: str) -> str:
    """A path as part of a sentence: one line, no markup of its own, no end without end."""
    clean = _printable(path).replace("`", "'").strip()
    return f"`{clean if len(clean) <= _SHOWN_CHARS else '…' + clean[-_SHOWN_CHARS:]}`" if clean else "A file"


def _locate(path: str, roots: MediaRoots) -> Path:
    """Where it must be, by its spelling alone: of what lies outside not even the existence is told."""
    names = _names(path)
    if not roots.folders:
        raise MediaRefused(path, "files are not sent from here")
    is_hidden = False
    for folder, inside in _readings(path, names, roots):
        where = folder.real.joinpath(*inside)
        if _may_leave(where, folder.real, roots):
            # Keys, passwords and tokens live in hidden files and folders; a workspace may be somebody's whole home.
            if not any(name.startswith(".") for name in inside):
                return where
            is_hidden = True  # unless a further folder lies inside of it
    if is_hidden:
        raise MediaRefused(path, "hidden files and folders are not sent from")
    raise MediaRefused(path, "it lies outside of the folders from which files may be sent")


def _readings(path: str, names: list[str], roots: MediaRoots) -> Iterator[tuple[Folder, list[str]]]:
    """The folders that it may mean, each with the way from there."""
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
    """Whether the root is nearer to the file than anything that is closed."""
    if any(where.is_relative_to(folder) for folder in SYSTEM_FOLDERS):
        return False
    return all(
        root != folder and root.is_relative_to(folder) for folder in roots.closed if where.is_relative_to(folder)
    )


def _opened(path: str, where: Path) -> int:
    with folder_held(where.parent) as folder:
        # Looked at before it is opened, since opening alone makes some devices act; what counts is the look after it.
        _check_kind(path, os.stat(where.name, dir_fd=folder, follow_symlinks=False))
        return os.open(where.name, FILE, dir_fd=folder)


def _check_kind(path: str, found: os.stat_result) -> int:
    """Gives its size."""
    if stat.S_ISLNK(found.st_mode):
        raise MediaRefused(path, _REASONS[errno.ELOOP])
    if stat.S_ISDIR(found.st_mode):
        raise MediaRefused(path, "it is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise MediaRefused(path, "it is no ordinary file")
    # A second name of somebody else's file may have been put here to have it read by us, who may read more than whoever
    # put it. Our own may have several: package managers and version control link them, and whoever could plant one as
    # us could as well copy it.
    if found.st_nlink > 1 and found.st_uid != os.geteuid():
        raise MediaRefused(path, "it has a second name elsewhere and belongs to somebody else")
    return found.st_size


def _check_size(path: str, size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise MediaRefused(path, f"it is larger than {in_bytes(max_bytes)}, the most that is sent")
    if not size:  # no platform takes one; and what the kernel makes up as it is read says that it is empty, too
        raise MediaRefused(path, "it is empty")


def _reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0) or f"it could not be read ({(error.strerror or 'no reason given').lower()})"


def _printable(name: str) -> str:
    return "".join(character for character in name if character.isprintable())
