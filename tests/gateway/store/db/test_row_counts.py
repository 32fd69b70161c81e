"""What has no place in an older schema is found, by table and by column."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from gateway.store.db.schema import Lost, count_rows, find_losses


@pytest.fixture
def older() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE kept (x, y TEXT)")
        yield connection


@pytest.mark.parametrize(
    ("statements", "lost"),
    [
        ([], []),
        (["INSERT INTO kept VALUES (1, '')"], []),
        (["CREATE TABLE fresh (x)", "INSERT INTO fresh VALUES (1)"], [Lost(table="fresh", count=1)]),
        (
            ["INSERT INTO kept VALUES (1, '')", "ALTER TABLE kept ADD COLUMN z TEXT NOT NULL DEFAULT 'as it came'"],
            [Lost(table="kept", column="z", count=0)],
        ),
        (
            [
                "ALTER TABLE kept ADD COLUMN z INTEGER",
                "INSERT INTO kept VALUES (1, '', NULL)",
                "INSERT INTO kept VALUES (1, '', 0)",
            ],
            [Lost(table="kept", column="z", count=1)],
        ),
    ],
)
def test_what_has_no_place_is_counted(older: sqlite3.Connection, statements: list[str], lost: list[Lost]) -> None:
    with closing(sqlite3.connect(":memory:")) as newer:
        newer.execute("CREATE TABLE kept (x, y TEXT)")
        for statement in statements:
            newer.execute(statement)
        assert list(find_losses(newer, older)) == lost


def test_references_that_lead_nowhere_are_counted_by_their_table(older: sqlite3.Connection) -> None:
    older.execute("CREATE TABLE child (x REFERENCES nobody (id))")
    older.execute("CREATE TABLE nobody (id INTEGER PRIMARY KEY)")
    older.executemany("INSERT INTO child VALUES (?)", [(1,), (2,), (None,)])
    found = count_rows(older)
    assert found.rows == {"child": 3, "kept": 0, "nobody": 0}
    assert found.strays == {"child": 2}
