"""Read and write files of this machine for a backend, inside its folders only."""

import asyncio
import errno
import os
import posixpath
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar

from tools.backends.base import (
    FileContent,
    FileFacts,
    FileKind,
    FileLine,
    FileRefused,
    FolderEntry,
    Found,
    LinesRead,
    Search,
    WrittenFile,
)
from tools.backends.search import BackendFolder, BadSearch, Searcher
from tools.content import in_bytes
from tools.media import SYSTEM_FOLDERS, shown
from tools.opening import LISTED_FOLDER, REASONS, file_held, folder_held

MAX_LINE_BYTES = 4_000
MAX_LOOKED_AT_BYTES = 256_000_000
_LOOK_BYTES = 8_192
_CHUNK_BYTES = 1 << 20


def read_lines(file: BinaryIO, *, first: int, count: int) -> LinesRead | None:
    """Return lines `first` to `first + count - 1`, counted from 1; None for a binary file."""
    if b"\0" in file.read(_LOOK_BYTES):
        return None
    file.seek(0)
    lines: list[FileLine] = []
    number = 0
    for number, (beginning, length) in enumerate(_split_lines(file), start=1):
        if number >= first:
            lines.append(_line(beginning, length))
        if number >= first + count - 1 or file.tell() > MAX_LOOKED_AT_BYTES:
            break
    more, counted_all = _count_rest(file)
    return LinesRead(lines=tuple(lines), total_lines=number + more, counted_all=counted_all)


def _split_lines(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Yield the beginning of each line, and its length."""
    while piece := file.readline(MAX_LINE_BYTES):
        beginning, length = piece, len(piece)
        while not piece.endswith(b"\n") and (piece := file.readline(_CHUNK_BYTES)):
            length += len(piece)
        yield beginning, length


def _line(beginning: bytes, length: int) -> FileLine:
    text = beginning.decode("utf-8", "replace").rstrip("\r\n")
    return FileLine(text=text, left_out_bytes=length - len(beginning))


def _count_rest(file: BinaryIO) -> tuple[int, bool]:
    count, last = 0, b"\n"
    while chunk := file.read(_CHUNK_BYTES):
        count += chunk.count(b"\n")
        last = chunk[-1:]
        if file.tell() > MAX_LOOKED_AT_BYTES:
            return count, False
    return count + (last != b"\n"), True


T = TypeVar("T")

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_NAME_BYTES = 255
_NO_FILE = "it is not a regular file but a device, socket or pipe"


class HostFiles:
    """The files in a backend's folders, of which the most specific counts: a workspace may be inside another folder.

    `room_bytes` returns how much may still be written; None for no limit. `prepare` makes the folders
    when they are first needed.
    """

    def __init__(
        self,
        *,
        places: Callable[[], Sequence[BackendFolder]],
        searcher: Searcher,
        closed: Sequence[Path] = (),
        hidden: Callable[[], Sequence[Path]] = lambda: (),
        follows_links: bool = False,
        room_bytes: Callable[[], int] | None = None,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        self._places = places
        self._closed = tuple(Path(os.path.realpath(path)) for path in closed)
        self._hidden = hidden
        self._follows_links = follows_links
        self._searcher = searcher
        self._room_bytes = room_bytes
        self._prepare = prepare

    async def look(self, path: str) -> FileFacts | None:
        return await self._in_thread(self._look, path)

    async def read(self, path: str, *, max_bytes: int) -> FileContent:
        return await self._in_thread(self._read, path, max_bytes)

    async def read_lines(self, path: str, *, first: int, count: int) -> LinesRead:
        return await self._in_thread(self._read_lines, path, first, count)

    async def write(self, path: str, content: bytes, *, expected_version: str = "") -> WrittenFile:
        return await self._in_thread(self._write, path, content, expected_version)

    async def list_folder(self, path: str, *, max_entries: int) -> Sequence[FolderEntry]:
        return await self._in_thread(self._list, path, max_entries)

    async def search(self, wanted: Search) -> Found:
        place, where = await asyncio.to_thread(self._locate, wanted.path)
        facts = await self._in_thread(self._look, wanted.path)
        if facts is None:
            raise refused(wanted.path, REASONS[errno.ENOENT])
        if facts.kind not in ("file", "folder"):  # opening a pipe would block for ever
            raise refused(wanted.path, REASONS[errno.ELOOP] if facts.kind == "link" else _NO_FILE)
        spelled = place.spelled / where.relative_to(place.real)
        hidden = [path for path in self._hidden() if path.is_relative_to(place.real)]
        closed = (*self._closed, *hidden, *SYSTEM_FOLDERS)
        try:
            return await self._searcher.search(wanted, spelled, closed)
        except BadSearch as error:
            raise FileRefused(str(error)) from error

    async def _in_thread(self, function: Callable[..., T], path: str, *more: object) -> T:
        def told() -> T:
            try:
                self._prepare()
                return function(path, *more)
            except OSError as error:
                raise refused(path, _reason(error)) from error

        return await asyncio.to_thread(told)

    def _look(self, path: str) -> FileFacts | None:
        _, where = self._locate(path)
        if where == Path("/"):
            return FileFacts(kind="folder", size_bytes=0)
        try:
            with folder_held(where.parent) as folder:
                return _facts(os.stat(where.name, dir_fd=folder, follow_symlinks=False))
        except FileNotFoundError:
            return None

    def _read(self, path: str, max_bytes: int) -> FileContent:
        with self._open(path) as descriptor:
            facts = _facts(os.fstat(descriptor))
            with os.fdopen(os.dup(descriptor), "rb") as file:
                content = file.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise refused(path, f"it is larger than {in_bytes(max_bytes)}")
        return FileContent(content=content, facts=facts)

    def _read_lines(self, path: str, first: int, count: int) -> LinesRead:
        with self._open(path) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
            size = os.fstat(descriptor).st_size
            read = read_lines(file, first=first, count=count)
            if read is None:
                raise refused(path, f"it is a binary file of {in_bytes(size)}; inspect it with a command")
            return read

    def _write(self, path: str, content: bytes, expected_version: str) -> WrittenFile:
        place, where = self._locate(path)
        if not place.writable:
            raise refused(path, "that folder is read-only")
        if self._room_bytes is not None and len(content) > self._room_bytes():
            raise refused(path, "the workspace is full; delete files that are no longer needed")
        if where == Path("/") or where == place.real:
            raise refused(path, "it is a folder")
        with folder_held(where.parent, make=True) as folder:
            before = _stat(where.name, folder)
            if before is not None:
                self._check_replaceable(path, before)
            _replace(path, where.name, folder, content, before, expected_version)
        return WrittenFile(path=str(path), created=before is None)

    def _list(self, path: str, max_entries: int) -> list[FolderEntry]:
        _, where = self._locate(path)
        descriptor = _open_listed(where)
        try:
            with os.scandir(descriptor) as found:
                entries = [
                    FolderEntry(name=entry.name, kind=_kind(entry.stat(follow_symlinks=False).st_mode))
                    for entry in islice(found, max_entries)
                ]
        finally:
            os.close(descriptor)
        return sorted(entries, key=lambda entry: entry.name)

    @contextmanager
    def _open(self, path: str) -> Iterator[int]:
        """Open a regular file for the length of the block."""
        _, where = self._locate(path)
        if where == Path("/"):
            raise refused(path, REASONS[errno.EISDIR])
        with file_held(where, partial(self._check_readable, path)) as descriptor:
            yield descriptor

    def _check_readable(self, path: str, found: os.stat_result) -> None:
        match _kind(found.st_mode):
            case "folder":
                raise refused(path, "it is a folder; search it for files, or list it with a command")
            case "link":
                raise refused(path, REASONS[errno.ELOOP])
            case "other":
                raise refused(path, _NO_FILE)
        # A hard link to somebody else's file may have been put there to have us read it, who may read more.
        if found.st_nlink > 1 and found.st_uid != os.geteuid() and not self._follows_links:
            raise refused(path, "it is a hard link to a file of another user")

    def _check_replaceable(self, path: str, found: os.stat_result) -> None:
        self._check_readable(path, found)
        if not found.st_mode & 0o222:
            raise refused(path, "it is write-protected; change its permissions with a command first")

    def _locate(self, path: str) -> tuple[BackendFolder, Path]:
        """Return the path on this machine. For paths outside, not even their existence is revealed."""
        spelled = _normalize(path)
        places = sorted(self._places(), key=lambda place: len(place.spelled.parts), reverse=True)
        place = _find_place(spelled, places)
        if self._follows_links and (place is None or place.spelled == place.real):
            spelled = Path(os.path.realpath(spelled))
            place = _find_place(spelled, places)
        if place is None:
            folders = " and ".join(str(place.spelled) for place in reversed(places) if place.writable)
            raise refused(path, f"it is outside the folders that can be reached from here: {folders}")
        where = place.real / spelled.relative_to(place.spelled)
        if any(where.is_relative_to(folder) for folder in SYSTEM_FOLDERS):
            raise refused(path, "it is not a regular file but provided by the kernel; inspect it with a command")
        if any(where.is_relative_to(closed) for closed in self._closed):
            raise refused(path, "it contains secrets or state of Hermes itself, which are not accessible")
        if any(where.is_relative_to(hidden) and hidden.is_relative_to(place.real) for hidden in self._hidden()):
            raise refused(path, "it is hidden in the sandbox")
        return place, where


def _find_place(spelled: Path, places: Sequence[BackendFolder]) -> BackendFolder | None:
    return next((place for place in places if spelled.is_relative_to(place.spelled)), None)


def _normalize(path: str) -> Path:
    """Resolve `..` in the text of a path, which is safe because no link is followed on the way."""
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded or not path.startswith("/"):
        raise refused(path, "that is not a valid path of a file")
    if any(len(os.fsencode(name)) > _MAX_NAME_BYTES for name in path.split("/")):
        raise refused(path, REASONS[errno.ENAMETOOLONG])
    return Path("/" + posixpath.normpath(path).lstrip("/"))


def _stat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _replace(
    path: str, name: str, folder: int, content: bytes, before: os.stat_result | None, expected_version: str
) -> None:
    """Write a new file beside the old one, then rename it, so that readers see one of the two as a whole."""
    temporary = f".hermes-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(temporary, _NEW_FILE, 0o666, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if before is not None:
                _copy_permissions(file.fileno(), before)
            file.flush()
            os.fsync(file.fileno())
        now = _stat(name, folder)
        if expected_version and (now is None or _version(now) != expected_version):
            raise refused(path, "it has changed since it was read; read it again")
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _copy_permissions(descriptor: int, before: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with suppress(PermissionError):  # then it belongs to us, as with any editor
            os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _open_listed(where: Path) -> int:
    if where == Path("/"):
        return os.open("/", LISTED_FOLDER)
    with folder_held(where.parent) as folder:
        return os.open(where.name, LISTED_FOLDER, dir_fd=folder)


def _facts(found: os.stat_result) -> FileFacts:
    return FileFacts(kind=_kind(found.st_mode), size_bytes=found.st_size, version=_version(found))


def _version(found: os.stat_result) -> str:
    return f"{found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"


def _kind(mode: int) -> FileKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def _reason(error: OSError) -> str:
    return REASONS.get(error.errno or 0) or (error.strerror or "no reason given").lower()


def refused(path: str, reason: str) -> FileRefused:
    return FileRefused(f"{shown(path)}: {reason}.", reason=reason)
