"""Reads the gateway's database and never writes: the newest rows, their changes, the trails."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from playground.page import trails
from playground.wire import Wire

# The columns shown in the table; a row that is opened shows all.
TABLES = {
    "inbox": ("id", "account", "sender_name", "kind", "parts", "state", "outcome"),
    "turns": ("id", "session_key", "state", "outcome", "resumes"),
    "outbox": ("id", "account", "kind", "parts", "state", "attempts", "receipt"),
    "sessions": ("id", "key", "title", "total_tokens", "ended_ms"),
    "processes": ("id", "command", "backend", "state", "exit_code"),
    "pairing_requests": ("id", "account", "user_name", "state", "hash"),
}
ROWS_SHOWN = 12
_MAX_CELL_CHARS = 2_000
_CLOCK_TICK_NS = 50_000_000  # two writes within a tick may have the same time

Cells = dict[str, str]


class Rows:
    """Remembers the rows that one page has seen."""

    def __init__(self, database: Path) -> None:
        self._path = database
        self._stamp: list[tuple[int, int, int]] | None = None  # of the files when they were last read
        self._seen: dict[str, dict[str, Cells]] = {}

    def look(self) -> Wire | None:
        """Return the rows to show, or None while nothing was written since the last look. Blocks; not for the loop."""
        written = [file.stat() for file in (self._path, Path(f"{self._path}-wal")) if file.exists()]
        stamp = [(one.st_ino, one.st_mtime_ns, one.st_size) for one in written]
        if not self._path.exists() or stamp == self._stamp:
            return None
        try:
            with closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True, timeout=0.5)) as db:
                db.row_factory = sqlite3.Row
                tables = {name: self._table(db, name, columns) for name, columns in TABLES.items()}
                shown = {"tables": tables, "trails": trails.read(db)}
        except sqlite3.Error:
            return None  # being made, being replaced, or busy: the next look sees more
        is_settled = time.time_ns() - max(one.st_mtime_ns for one in written) > _CLOCK_TICK_NS
        self._stamp = stamp if is_settled else None
        return shown

    def _table(self, db: sqlite3.Connection, name: str, columns: tuple[str, ...]) -> Wire:
        query = f"SELECT * FROM {name} ORDER BY rowid DESC LIMIT {ROWS_SHOWN}"  # noqa: S608 - names of ours
        found = db.execute(query).fetchall()
        rows = tuple({column: _cell(row[column]) for column in row.keys()} for row in found)  # noqa: SIM118
        before, first_look = self._seen.get(name, {}), name not in self._seen
        now = {row["id"]: row for row in rows}
        changed = {
            key: [column for column, value in row.items() if before.get(key, {}).get(column) != value]
            for key, row in ({} if first_look else now).items()
        }
        self._seen[name] = now
        known = set(rows[0]) if rows else set(columns)
        changed = {key: names for key, names in changed.items() if names}  # by row; all columns of a new one
        return {"columns": [column for column in columns if column in known], "rows": rows, "changed": changed}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    text = str(value)
    return text if len(text) <= _MAX_CELL_CHARS else f"{text[:_MAX_CELL_CHARS]}…"
