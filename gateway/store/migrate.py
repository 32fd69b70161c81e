"""Brings a database to the newest schema: numbered SQL files, each whole or not at all."""

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
