"""Reads the gateway's database and never writes: the newest rows, their changes, the trails."""

import sqlite3
import threading
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

Cells = dict[str, str]


class Rows:
    """Remembers the rows that one page has seen."""

    def __init__(self, database: Path) -> None:
        self._path = database
        self._db: sqlite3.Connection | None = None
        self._inode = 0
        self._version = -1
        self._seen: dict[str, dict[str, Cells]] = {}
        self._in_use = threading.Lock()
        self._is_over = False

    def look(self) -> Wire | None:
        """Return the rows to show, or None while nothing was written since the last look. Blocks; not for the loop."""
        with self._in_use:
            try:
                return self._look()
            except sqlite3.Error:
                # Being made, being replaced, or busy: the next look sees more.
                self._let_go()
                return None

    def close(self) -> None:
        """Close for good. Blocks while somebody looks: SQLite crashes when it is closed under a reader."""
        with self._in_use:
            self._let_go()
            self._is_over = True

    def _look(self) -> Wire | None:
        if self._is_over or not self._is_open() or not self._is_new():
            return None
        assert self._db
        tables = {name: self._table(name, columns) for name, columns in TABLES.items()}
        return {"tables": tables, "trails": trails.read(self._db)}

    def _let_go(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db, self._version = None, -1

    def _is_open(self) -> bool:
        try:
            inode = self._path.stat().st_ino
        except OSError:
            self._let_go()
            return False
        if self._db is None or inode != self._inode:
            self._let_go()
            self._db = sqlite3.connect(
                f"{self._path.as_uri()}?mode=ro", uri=True, timeout=0.5, check_same_thread=False, isolation_level=None
            )
            self._db.row_factory = sqlite3.Row
            self._inode = inode
        return True

    def _is_new(self) -> bool:
        assert self._db
        version = int(self._db.execute("PRAGMA data_version").fetchone()[0])
        known, self._version = self._version, version
        return version != known

    def _table(self, name: str, columns: tuple[str, ...]) -> Wire:
        assert self._db
        query = f"SELECT * FROM {name} ORDER BY rowid DESC LIMIT {ROWS_SHOWN}"  # noqa: S608 - names of ours
        found = self._db.execute(query).fetchall()
        rows = tuple({column: _cell(row[column]) for column in row.keys()} for row in found)  # noqa: SIM118
        before, first_look = self._seen.get(name, {}), name not in self._seen
        now = {row["id"]: row for row in rows}
        changed = {} if first_look else {key: _differences(before.get(key), row) for key, row in now.items()}
        self._seen[name] = now
        known = set(rows[0]) if rows else set(columns)
        changed = {key: names for key, names in changed.items() if names}  # by row; all columns of a new one
        return {"columns": [column for column in columns if column in known], "rows": rows, "changed": changed}


def _differences(before: Cells | None, now: Cells) -> list[str]:
    return [column for column, value in now.items() if before is None or before.get(column) != value]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    text = str(value)
    return text if len(text) <= _MAX_CELL_CHARS else f"{text[:_MAX_CELL_CHARS]}…"
