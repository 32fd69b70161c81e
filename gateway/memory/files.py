"""The readable copy of memories: a small JSON file per key, and what people changed in these files by hand.

Rows come first and files follow: `in_file` tells a file that lags behind a crash from one that somebody edited. A file
that cannot be used stays as it is. When its key gets another value, it is kept beside the new file as KEY.json.edited.
"""

import hashlib
import json
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import structlog

from gateway.memory.checks import explain_refusal
from gateway.store import memories
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.memories import Memory, MemoryAccess, Source
from hermes_config.places import make_private
from hermes_config.redaction import Redactor

log = structlog.get_logger()

_MAX_FILE_BYTES = 64_000
_BY_HAND = Source(writer="file")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFiles:
    root: Path
    redactor: Redactor
    _reported: dict[Path, str] = field(default_factory=dict)  # the last problem of each file: it is logged once

    def folder(self, access: MemoryAccess) -> Path:
        match access.scope:
            case "person":
                return self.root / access.person_id
            case "chat":
                return self.root / f"chat-{hashlib.sha256(access.place.encode()).hexdigest()[:16]}"
            case "shared":
                return self.root / "shared"

    async def write_pending(self, db: Database) -> None:
        """Bring the files up to date with the rows; one that cannot be written is tried again with the next change."""
        if await db.read(memories.list_unwritten):
            await db.write_when_possible(self._write)

    def _write(self, tx: Transaction) -> None:
        # Inside the transaction: two writers must not leave the older value in the file.
        for access in {memories.access_to(one) for one in memories.list_unwritten(tx)}:
            if not self.folder(access).is_dir():
                _expect_no_files(tx, access)
        for access, key in {(memories.access_to(one), one.key): None for one in memories.list_unwritten(tx)}:
            rows = memories.list_of_key(tx, access, key)
            live = next((row for row in rows if not row.ended), None)
            file = self.folder(access) / f"{key}.json"
            try:
                _keep_edit(file, rows)
                if live is None:
                    file.unlink(missing_ok=True)
                else:
                    _write_file(file, live)
            except OSError as error:
                self._report(file, "memory file not written", str(error))
            else:
                memories.set_in_file(tx, access, key, live.id if live else None)

    def delete_of(self, tx: Transaction, person_ids: Iterable[str]) -> None:
        """Delete the files of what these people said in groups. Their own folders go with their workspaces."""
        for one in memories.list_in_chats(tx, person_ids):
            file = self.folder(memories.access_to(one)) / f"{one.key}.json"
            file.unlink(missing_ok=True)
            _name_kept(file).unlink(missing_ok=True)

    async def import_edits(self, db: Database, access: MemoryAccess) -> None:
        """Import what was changed by hand since the last import. Invalid files stay as they are."""
        folder = self.folder(access)
        if folder.is_dir():
            await db.write_when_possible(lambda tx: self._import(tx, access, folder))
        else:  # lost as a whole, after a restore for instance: no reason to forget anything
            await db.write_when_possible(lambda tx: _expect_no_files(tx, access))
        await self.write_pending(db)

    def _import(self, tx: Transaction, access: MemoryAccess, folder: Path) -> None:
        present = set()
        for file in sorted(folder.glob("*.json")):
            present.add(file.stem)
            try:
                value = self._read(file)
            except ValueError as error:
                self._report(file, "memory file not imported", str(error))
                continue
            rows = memories.list_of_key(tx, access, file.stem)
            if any(row.value == value and (not row.ended or row.in_file) for row in rows):
                continue  # as stored, or a file that lags behind
            memories.put(tx, access, file.stem, value, _BY_HAND)
        for row in memories.find_live(tx, access):
            if row.in_file and row.key not in present:
                memories.delete(tx, access, row.key, _BY_HAND)

    def find_unusable(self, access: MemoryAccess) -> Iterator[tuple[Path, str]]:
        """Return the files that are not imported, each with the reason."""
        for file in sorted(self.folder(access).glob("*.json")):
            try:
                self._read(file)
            except ValueError as error:
                yield file, str(error)

    def _read(self, file: Path) -> str:
        """Return the value in a file; raise ValueError with the reason when it cannot be used."""
        key, value = _load(file)
        if memories.normalise_key(key) != file.stem:
            raise ValueError(f"its `key` must be the name of the file, {file.stem!r}, in small letters")
        if refusal := explain_refusal(key, value, self.redactor):
            raise ValueError(refusal)
        return value.strip()

    def _report(self, file: Path, event: str, problem: str) -> None:
        if self._reported.get(file) != problem:
            self._reported[file] = problem
            log.warning(event, file=str(file), problem=problem[:300])


def _load(file: Path) -> tuple[str, str]:
    """Return the key and the value in a file; raise ValueError when it has none."""
    try:
        found = file.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_FILE_BYTES:
            raise ValueError(f"it is not a plain file of at most {_MAX_FILE_BYTES // 1000} KB")
        stored = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"it cannot be read as JSON ({error})") from error
    key, value = (stored.get("key"), stored.get("value")) if isinstance(stored, dict) else (None, None)
    if not isinstance(key, str) or not isinstance(value, str):
        raise ValueError("it needs a `key` and a `value` that are text")
    return key, value


def _keep_edit(file: Path, rows: Iterable[Memory]) -> None:
    """Set a file aside if its value was never stored: it was edited by hand and not imported yet."""
    try:
        is_ours = _load(file)[1].strip() in {row.value for row in rows}
    except ValueError:
        is_ours = not file.exists() and not file.is_symlink()
    if not is_ours:
        file.replace(_name_kept(file))
        log.warning("memory file kept, since it was edited and not imported", file=str(_name_kept(file)))


def _name_kept(file: Path) -> Path:
    return file.with_name(f"{file.name}.edited")


def _write_file(file: Path, memory: Memory) -> None:
    make_private(file.parent)
    updated = datetime.fromtimestamp(memory.created_ms / 1000, UTC).isoformat(timespec="seconds")
    stored = {"key": memory.key, "value": memory.value, "updated_at": updated}
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_text(json.dumps(stored, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    fresh.chmod(0o600)
    fresh.replace(file)


def _expect_no_files(tx: Transaction, access: MemoryAccess) -> None:
    """Note that the folder is gone, so that missing files are written anew and not taken for deleted ones."""
    for row in memories.find_live(tx, access):
        memories.set_in_file(tx, access, row.key, None)
