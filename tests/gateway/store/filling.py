"""Rows in every table, whatever its columns: for what must hold for schemas that are not written yet."""

import re
import sqlite3
from pathlib import Path

from gateway.store.db.connection import connect
from gateway.store.db.schema import migrate, migrations

ROWS = 3


def make_database(path: Path, schema: int) -> None:
    """As a Hermes that knew no more than this schema would have left it, with some rows in every table."""
    connection = connect(path, busy_timeout_seconds=1)
    migrate(connection, {number: script for number, script in migrations().items() if number <= schema})
    fill(connection)
    connection.close()


def fill(connection: sqlite3.Connection) -> None:
    """Fills every table that is empty."""
    connection.execute("PRAGMA foreign_keys = OFF")
    tables = connection.execute(
        """SELECT name, sql FROM sqlite_master WHERE type = 'table'
              AND name NOT LIKE 'sqlite!_%' ESCAPE '!' AND name NOT LIKE 'messages!_search%' ESCAPE '!'"""
    ).fetchall()
    connection.execute("BEGIN")
    for table, sql in tables:
        if connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] == 0:
            _fill_table(connection, table, sql)
    connection.execute("COMMIT")


def _fill_table(connection: sqlite3.Connection, table: str, sql: str) -> None:
    allowed = dict(re.findall(r"CHECK \((\w+) IN \('(\w+)'", sql))
    columns = [(row[1], row[2]) for row in connection.execute(f"PRAGMA table_info({table})")]
    places = ", ".join("?" for _ in columns)
    for number in range(1, ROWS + 1):
        values = [allowed.get(name) or (f"{name} {number}" if kind == "TEXT" else number) for name, kind in columns]
        connection.execute(f"INSERT INTO {table} VALUES ({places})", values)
