"""What is in a database: counted before and after a change of schema, which must lose nothing unsaid."""

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# A script that means to add or remove rows of a table says so in a line of its own.
_SAID = re.compile(r"^-- Rows change in: (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    rows: dict[str, int]
    strays: Counter[str]  # references that lead nowhere, by their table


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """What an older schema has no place for: rows of a table, or values of a column."""

    table: str
    column: str = ""
    count: int


def take_census(connection: sqlite3.Connection) -> Census:
    rows = {table: _count(connection, table) for table in _tables(connection)}
    strays = Counter(row[0] for row in connection.execute("PRAGMA foreign_key_check"))
    return Census(rows=rows, strays=strays)


def find_difference(before: Census, after: Census, scripts: Iterable[str]) -> str:
    """What a change has done without saying so; empty when nothing. A table that it drops is said by that."""
    said = {name.strip() for script in scripts for names in _SAID.findall(script) for name in names.split(",")}
    for table in sorted((before.rows.keys() & after.rows.keys()) - said):
        if before.rows[table] != after.rows[table]:
            return f"the table {table} had {before.rows[table]} rows and would have {after.rows[table]}"
    if strays := after.strays - before.strays:
        return f"rows of {min(strays)} would refer to rows that are not there"
    return ""


def find_losses(before: sqlite3.Connection, older: sqlite3.Connection) -> Iterator[Lost]:
    """What is in the one and has no place in the schema of the other. Counts nothing that is as it came."""
    known = set(_tables(older))
    for table in _tables(before):
        if table not in known:
            yield Lost(table=table, count=_count(before, table))
            continue
        columns = {row[1] for row in older.execute(f"PRAGMA table_info({table})")}
        for column, default in before.execute(f"SELECT name, dflt_value FROM pragma_table_info('{table}')"):  # noqa: S608
            if column not in columns:
                changed = f"SELECT COUNT(*) FROM {table} WHERE {column} IS NOT {default or 'NULL'}"  # noqa: S608
                yield Lost(table=table, column=column, count=int(before.execute(changed).fetchone()[0]))


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Ours, and of those behind the search index the one with a row for each message."""
    found = connection.execute(
        """SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'
              AND name <> 'messages_search'
              AND (name NOT LIKE 'messages!_search!_%' ESCAPE '!' OR name = 'messages_search_docsize')
            ORDER BY name"""
    )
    return [row[0] for row in found]


def _count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])  # noqa: S608
