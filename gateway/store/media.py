"""Files that came in: kept once by content, in the cache of their kind, named by hash in the rows."""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.clock import now_ms
from gateway.store.connection import Transaction
from tools.parts import Media, MediaKind


class MediaFiles:
    def __init__(self, folders: Mapping[MediaKind, Path]) -> None:
        self._folders = folders

    def path(self, kind: MediaKind, sha256: str) -> Path:
        return self._folders[kind] / sha256

    def load(self, part: Media) -> bytes | None:
        """The bytes of a part, None when they are not here. Blocks: call it in a thread."""
        try:
            return self.path(part.kind, part.sha256).read_bytes() if part.sha256 else None
        except OSError:
            return None

    def save(self, kind: MediaKind, content: bytes) -> str:
        """Writes the bytes whole or not at all and gives their hash. Blocks: call it in a thread."""
        sha256 = hashlib.sha256(content).hexdigest()
        target = self.path(kind, sha256)
        if target.exists():
            return sha256
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=target.parent, prefix=".partial-")  # 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise
        return sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    kind: MediaKind
    mime: str
    size_bytes: int


def find(tx: Transaction, sha256: str) -> Kept | None:
    row = tx.one("SELECT kind, mime, size_bytes FROM media WHERE sha256 = ?", sha256)
    return Kept(**dict(row)) if row is not None else None


def record(tx: Transaction, *, sha256: str, kind: MediaKind, mime: str, size_bytes: int) -> None:
    tx.execute(
        """INSERT INTO media (sha256, kind, mime, size_bytes, created_ms) VALUES (?, ?, ?, ?, ?)
           ON CONFLICT (sha256) DO NOTHING""",
        sha256,
        kind,
        mime,
        size_bytes,
        now_ms(),
    )
