"""Brings a database from one schema to another: numbered SQL files, all that are needed or none."""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from gateway.errors import StoreTooNew
from gateway.store.census import find_difference, take_census
from hermes_config.places import APPLICATION_ID

_DOES, _UNDOES = re.compile(r"(\d{4})_\w+\.sql"), re.compile(r"(\d{4})_\w+\.undo\.sql")


def migrations() -> dict[int, str]:
    """The SQL of every migration by its number."""
    return _scripts(_DOES)


def undo_scripts() -> dict[int, str]:
    """What takes a migration back, by its number; the first five have none."""
    return _scripts(_UNDOES)


def schema_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check_not_newer(connection: sqlite3.Connection, newest: int) -> None:
    found = schema_version(connection)
    if found > newest:
        raise StoreTooNew(
            f"state.db was written by a newer Hermes (schema {found}, this one knows {newest}). "
            f"Nothing was changed. Update Hermes; or, with the newer one, `hermes state undo --to {newest}`; "
            "or point HERMES_HOME to another folder."
        )


class Unsound(Exception):
    """A change of schema was taken back; the text says what was wrong with it."""


def migrate(connection: sqlite3.Connection, steps: dict[int, str] | None = None) -> list[int]:
    """Applies what is missing, all of it or nothing; gives the numbers applied."""
    steps = migrations() if steps is None else steps

    def missing(found: int) -> list[_Step]:
        check_not_newer(connection, max(steps))
        return [_Step(number, steps[number], leads_to=number) for number in sorted(steps) if number > found]

    return _change(connection, steps, missing)


def undo(
    connection: sqlite3.Connection, to: int, steps: dict[int, str] | None = None, undoes: dict[int, str] | None = None
) -> list[int]:
    """Takes back what came after a schema, all of it or nothing; gives the numbers taken back."""
    steps = migrations() if steps is None else steps
    scripts = undo_scripts() if undoes is None else undoes

    def later(found: int) -> list[_Step]:
        check_not_newer(connection, max(steps))
        return [_Step(number, scripts[number], leads_to=number - 1) for number in range(found, to, -1)]

    return _change(connection, steps, later)


def find_schema_damage(connection: sqlite3.Connection, steps: dict[int, str] | None = None) -> str:
    """How the schema differs from what its migrations make; empty when it does not, or is newer than ours.

    SQLite checks its structures, not the words that define the tables: a damaged CHECK would refuse every row.
    """
    version = schema_version(connection)
    steps = migrations() if steps is None else steps
    if version > max(steps):
        return ""
    scripts = tuple(steps.get(number, "") for number in range(1, version + 1))
    wrong = sorted(_definitions_of(scripts) ^ _definitions(connection))
    return f"the definition of the {wrong[0][0]} {wrong[0][1]} is not that of schema {version}" if wrong else ""


@contextmanager
def example(scripts: Iterable[str]) -> Iterator[sqlite3.Connection]:
    """What migrations make of an empty database."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        for script in scripts:
            for statement in _statements(script):
                connection.execute(statement)
        yield connection
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class _Step:
    number: int
    script: str
    leads_to: int


def _change(connection: sqlite3.Connection, steps: dict[int, str], choose: Callable[[int], list[_Step]]) -> list[int]:
    with _unchecked_references(connection), _transaction(connection):
        found = schema_version(connection)  # asked under the lock: another process may have been faster
        chosen = choose(found)
        before = take_census(connection) if chosen and found else None  # a new file has nothing to lose
        for step in chosen:
            for statement in _statements(step.script):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {step.leads_to}")
        if before is not None:
            problem = find_difference(before, take_census(connection), [step.script for step in chosen])
            if problem := problem or find_schema_damage(connection, steps):
                raise Unsound(problem)
    return [step.number for step in chosen]


@contextmanager
def _unchecked_references(connection: sqlite3.Connection) -> Iterator[None]:
    """A table that is built anew is dropped in between; that nothing refers to nothing is looked at in the end."""
    checked = connection.execute("PRAGMA foreign_keys").fetchone()[0]
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA foreign_keys = {checked}")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _scripts(named: re.Pattern[str]) -> dict[int, str]:
    folder = resources.files("gateway.store") / "migrations"
    found = [(named.fullmatch(entry.name), entry) for entry in folder.iterdir()]
    return {int(match[1]): entry.read_text("utf-8") for match, entry in found if match}


@lru_cache(maxsize=8)
def _definitions_of(scripts: tuple[str, ...]) -> frozenset[tuple[str, str, str, str]]:
    """Asked for with every check of a file, and slow to find out."""
    with example(scripts) as connection:
        return frozenset(_definitions(connection))


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
