"""Brings a database to the newest schema: numbered SQL files, each whole or not at all."""

import re
import sqlite3
from collections.abc import Iterator
from importlib import resources

from gateway.errors import StoreTooNew
from hermes_config.places import APPLICATION_ID


def migrations() -> dict[int, str]:
    """The SQL of every migration by its number."""
    folder = resources.files("gateway.store") / "migrations"
    return {int(entry.name[:4]): entry.read_text("utf-8") for entry in folder.iterdir() if entry.name.endswith(".sql")}


def schema_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check_not_newer(connection: sqlite3.Connection, newest: int) -> None:
    found = schema_version(connection)
    if found > newest:
        raise StoreTooNew(
            f"state.db was written by a newer Hermes (schema {found}, this one knows {newest}). "
            "Nothing was changed. Update Hermes, or point HERMES_HOME to another folder."
        )


def find_schema_damage(connection: sqlite3.Connection) -> str:
    """How the schema differs from what its migrations make; empty when it does not, or is newer than ours.

    SQLite checks its structures, not the words that define the tables: a damaged CHECK would refuse every row.
    """
    version, steps = schema_version(connection), migrations()
    if version > max(steps):
        return ""
    expected = sqlite3.connect(":memory:", isolation_level=None)
    try:
        for number in range(1, version + 1):
            for statement in _statements(steps.get(number, "")):
                expected.execute(statement)
        wrong = sorted(_definitions(expected) ^ _definitions(connection))
    finally:
        expected.close()
    return f"the definition of the {wrong[0][0]} {wrong[0][1]} is not that of schema {version}" if wrong else ""


def migrate(connection: sqlite3.Connection, steps: dict[int, str] | None = None) -> list[int]:
    """Applies what is missing; gives the numbers applied."""
    steps = migrations() if steps is None else steps
    check_not_newer(connection, max(steps))
    applied = []
    for number in sorted(steps):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if schema_version(connection) < number:  # asked under the lock: another process may have been faster
                for statement in _statements(steps[number]):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {number}")
                applied.append(number)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    return applied


def _definitions(connection: sqlite3.Connection) -> set[tuple[str, str, str, str]]:
    """Type, name, table and SQL of all that we defined; not of what SQLite and FTS5 add in their own words."""
    rows = connection.execute(
        """SELECT type, name, tbl_name, sql FROM sqlite_master
            WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!'
              AND tbl_name NOT LIKE 'messages!_search!_%' ESCAPE '!'"""
    )
    return {(row[0], row[1], row[2], " ".join(re.sub(r"--.*", "", row[3]).split())) for row in rows}


def _statements(script: str) -> Iterator[str]:
    # executescript() commits before it begins, which would make a migration half done.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        raise ValueError(f"migration ends in the middle of a statement: {statement.strip()[:60]}")
