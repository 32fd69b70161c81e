"""Received and sent files: stored once by content, in the cache of their kind, named by hash in the rows."""

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.clock import now_ms
from gateway.store.db.backup import sync
from gateway.store.db.connection import Transaction
from tools.content import Media, MediaKind, Part, load_parts

_MESSAGES_SEARCHED = 200
_OURS = re.compile(r"[0-9a-f]{64}|\.partial-.*")


class MediaFiles:
    def __init__(self, folders: Mapping[MediaKind, Path]) -> None:
        self._folders = folders

    def path(self, kind: MediaKind, sha256: str) -> Path:
        return self._folders[kind] / sha256

    def load(self, part: Media) -> bytes | None:
        """Return the bytes of a part, None when they are not here. Blocks: call it in a thread."""
        try:
            return self.path(part.kind, part.sha256).read_bytes() if part.sha256 else None
        except OSError:
            return None

    def save(self, kind: MediaKind, content: bytes) -> str:
        """Write the bytes atomically and return their hash. Blocks: call it in a thread.

        A file that exists already gets a new modification time, since its row is written only after this.
        """
        sha256 = hashlib.sha256(content).hexdigest()
        target = self.path(kind, sha256)
        with contextlib.suppress(FileNotFoundError):
            _touch(target)
            return sha256
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=target.parent, prefix=".partial-")  # 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            _touch(Path(partial))
            os.replace(partial, target)
            sync(target.parent)  # before the row that names it is committed
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise
        return sha256

    def remove(self, sha256: str, *, before_ms: int) -> None:
        """Remove a file from every folder, as the same bytes may be an image and a file; not if it was saved since."""
        for folder in set(self._folders.values()):
            with contextlib.suppress(FileNotFoundError):
                if (folder / sha256).stat().st_mtime * 1000 < before_ms:
                    (folder / sha256).unlink()

    def remove_strays(self, known: Collection[str], *, before_ms: int) -> int:
        """Remove files that a killed process left and no row names. Blocks: call it in a thread."""
        strays = [
            path
            for folder in set(self._folders.values())
            for path in folder.glob("*")
            if _OURS.fullmatch(path.name) and path.name not in known and path.stat().st_mtime * 1000 < before_ms
        ]
        for path in strays:
            path.unlink(missing_ok=True)
        return len(strays)


def _touch(path: Path) -> None:
    seconds = now_ms() / 1000  # the clock by which its age is measured
    os.utime(path, (seconds, seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    kind: MediaKind
    mime: str
    size_bytes: int


def find(tx: Transaction, sha256: str) -> Kept | None:
    return tx.read_one(Kept, "SELECT kind, mime, size_bytes FROM media WHERE sha256 = ?", sha256)


def list_files(tx: Transaction, session_id: str) -> list[Media]:
    """Return the files of a conversation, newest first, from its last messages that have files."""
    query = """SELECT parts FROM messages WHERE session_id = ? AND parts LIKE '%"sha256"%' ORDER BY id DESC LIMIT ?"""
    rows = tx.all(query, session_id, _MESSAGES_SEARCHED)
    return [
        part for row in rows for part in reversed(load_parts(row["parts"])) if isinstance(part, Media) and part.sha256
    ]


def record(tx: Transaction, *, sha256: str, kind: MediaKind, mime: str, size_bytes: int) -> None:
    """Record a file. A known one gets a new time, so that it is not deleted before a row refers to it."""
    update = "(sha256) DO UPDATE SET created_ms = excluded.created_ms"
    tx.insert("media", update, sha256=sha256, kind=kind, mime=mime, size_bytes=size_bytes, created_ms=now_ms())


def record_parts(tx: Transaction, parts: Iterable[Part]) -> None:
    """Record the files among the parts, in the commit whose row names them."""
    for part in parts:
        if isinstance(part, Media) and part.sha256:
            record(tx, sha256=part.sha256, kind=part.kind, mime=part.mime, size_bytes=part.size_bytes)
