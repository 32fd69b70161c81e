"""Schema versions: apply and undo migrations, and check that a change loses no row it does not declare."""

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gateway.errors import StoreTooNew
from hermes_config.places import APPLICATION_ID

# A script declares in a line of its own that it adds or removes rows of a table, and an undo script that it puts the
# values of a column (table.column) back into older columns.
_ROWS_CHANGE = re.compile(r"^-- Rows change in: (.+)$", re.MULTILINE)
_MOVED_BACK = re.compile(r"^-- Moved back from: (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    rows: dict[str, int]
    strays: Counter[str]  # number of dangling references by table


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Data that an older schema has no place for: rows of a table, or values of a column."""

    table: str
    column: str = ""
    count: int


def count_rows(connection: sqlite3.Connection) -> RowCounts:
    rows = {table: _count(connection, table) for table in _tables(connection)}
    strays = Counter(row[0] for row in connection.execute("PRAGMA foreign_key_check"))
    return RowCounts(rows=rows, strays=strays)


def find_difference(before: RowCounts, after: RowCounts, scripts: Iterable[str]) -> str:
    """Return an undeclared effect of a change; empty when there is none. Dropping a table declares itself."""
    said = _find_declared(_ROWS_CHANGE, scripts)
    for table in sorted((before.rows.keys() & after.rows.keys()) - said):
        if before.rows[table] != after.rows[table]:
            return f"the table {table} had {before.rows[table]} rows and would have {after.rows[table]}"
    if strays := after.strays - before.strays:
        return f"rows of {min(strays)} would refer to rows that are not there"
    return ""


def find_losses(before: sqlite3.Connection, older: sqlite3.Connection, scripts: Iterable[str] = ()) -> Iterator[Lost]:
    """Yield the data that has no place in the older schema, unless the undo scripts put it elsewhere.

    Default values do not count.
    """
    moved = _find_declared(_MOVED_BACK, scripts)
    known = set(_tables(older))
    for table in _tables(before):
        if table not in known:
            yield Lost(table=table, count=_count(before, table))
            continue
        columns = {row[1] for row in older.execute(f"PRAGMA table_info({table})")}
        for column, default in before.execute(f"SELECT name, dflt_value FROM pragma_table_info('{table}')"):  # noqa: S608
            if column not in columns and f"{table}.{column}" not in moved:
                changed = f"{table} WHERE {column} IS NOT {default or 'NULL'}"
                yield Lost(table=table, column=column, count=_count(before, changed))


def _find_declared(line: re.Pattern[str], scripts: Iterable[str]) -> set[str]:
    return {name.strip() for script in scripts for names in line.findall(script) for name in names.split(",")}


def _count(connection: sqlite3.Connection, rows: str) -> int:
    return int(connection.execute(f"SELECT COUNT(*) FROM {rows}").fetchone()[0])  # noqa: S608


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Return our tables and, of those behind the search index, the one with a row for each message."""
    found = connection.execute(
        """SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'
              AND name NOT IN ('messages_search', 'memories_search')
              AND (name NOT LIKE 'me%!_search!_%' ESCAPE '!' OR name LIKE 'me%!_search!_docsize' ESCAPE '!')
            ORDER BY name"""
    )
    return [row[0] for row in found]


_DOES, _UNDOES = re.compile(r"(\d{4})_\w+\.sql"), re.compile(r"(\d{4})_\w+\.undo\.sql")


def migrations() -> dict[int, str]:
    """Return the SQL of every migration by its number."""
    return _scripts(_DOES)


def undo_scripts() -> dict[int, str]:
    """Return the SQL that undoes each migration, by its number; the first five have none."""
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
    """A change of schema was rolled back; the text says what was wrong with it."""


def migrate(connection: sqlite3.Connection, steps: dict[int, str] | None = None) -> list[int]:
    """Apply the missing migrations, all or none; return their numbers."""
    known = migrations() if steps is None else steps
    return _change(
        connection, known, lambda found: [(number, known[number]) for number in sorted(known) if number > found]
    )


def undo(
    connection: sqlite3.Connection, to: int, steps: dict[int, str] | None = None, undoes: dict[int, str] | None = None
) -> list[int]:
    """Undo the migrations after a schema, all or none; return their numbers."""
    scripts = undo_scripts() if undoes is None else undoes
    known = migrations() if steps is None else steps
    return _change(connection, known, lambda found: [(number, scripts[number]) for number in range(found, to, -1)], -1)


def find_schema_damage(connection: sqlite3.Connection, steps: dict[int, str] | None = None) -> str:
    """Return how the schema differs from that of its migrations; empty when it does not, or is newer than ours.

    SQLite checks its structures, not the SQL that defines the tables: a damaged CHECK would refuse every row.
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
    """Build an empty database with these migrations, in memory."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for script in scripts:
            for statement in _statements(script):
                connection.execute(statement)
        yield connection


def _change(
    connection: sqlite3.Connection,
    known: dict[int, str],
    choose: Callable[[int], list[tuple[int, str]]],
    offset: int = 0,
) -> list[int]:
    """Run the chosen scripts in one transaction; each leads to the schema of its number plus the offset."""
    # Without foreign keys, since rebuilding a table drops it; dangling references are counted at the end.
    checked = connection.execute("PRAGMA foreign_keys").fetchone()[0]
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        connection.execute("BEGIN IMMEDIATE")
        found = schema_version(connection)  # read under the lock: another process may have been faster
        check_not_newer(connection, max(known))
        chosen = choose(found)
        before = count_rows(connection) if chosen and found else None  # a new file has nothing to lose
        for number, script in chosen:
            for statement in _statements(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {number + offset}")
        if before is not None:
            problem = find_difference(before, count_rows(connection), [script for _, script in chosen])
            if problem := problem or find_schema_damage(connection, known):
                raise Unsound(problem)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute(f"PRAGMA foreign_keys = {checked}")
    return [number for number, _ in chosen]


def _scripts(named: re.Pattern[str]) -> dict[int, str]:
    found = [(named.fullmatch(entry.name), entry) for entry in (Path(__file__).parent / "migrations").iterdir()]
    return {int(match[1]): entry.read_text("utf-8") for match, entry in found if match}


@lru_cache(maxsize=8)
def _definitions_of(scripts: tuple[str, ...]) -> frozenset[tuple[str, str, str, str]]:
    """Return the definitions that migrations make. Cached: every check of a file needs them, and they are slow."""
    with example(scripts) as connection:
        return frozenset(_definitions(connection))


def _definitions(connection: sqlite3.Connection) -> set[tuple[str, str, str, str]]:
    """Return type, name, table and SQL of everything we defined, without what SQLite and FTS5 add."""
    rows = connection.execute(
        """SELECT type, name, tbl_name, sql FROM sqlite_master
            WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!'
              AND tbl_name NOT LIKE 'me%!_search!_%' ESCAPE '!'"""
    )
    return {(row[0], row[1], row[2], " ".join(re.sub(r"--.*", "", row[3]).split())) for row in rows}


def _statements(script: str) -> Iterator[str]:
    # executescript() commits first, which could leave a migration half done.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        raise ValueError(f"migration ends in the middle of a statement: {statement.strip()[:60]}")
