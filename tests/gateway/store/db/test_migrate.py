"""The schema: each step whole or not at all, also when somebody pulls the plug or starts twice."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.errors import StoreTooNew
from gateway.store.db.connection import connect
from gateway.store.db.prepare import BackupPolicy, prepare
from gateway.store.db.schema import Unsound, find_schema_damage, migrate, migrations, schema_version, undo, undo_scripts
from hermes_config.places import APPLICATION_ID
from tests.gateway.store.filling import fill, make_database
from tests.gateway.store.others import other
from tests.gateway.store.sample import read_all
from tools.content import load_parts, text_of

LAST_WITHOUT_UNDO = 5  # they are from before there was a way back
TWO_STEPS = {
    1: "CREATE TABLE a (x INTEGER);\nINSERT INTO a VALUES (1);",
    2: """
-- Rows change in: a
          CREATE TABLE b (x INTEGER);
          CREATE TRIGGER both AFTER INSERT ON a BEGIN
              INSERT INTO b VALUES (new.x);
              INSERT INTO b VALUES (';');
          END;
          INSERT INTO a VALUES (2);""",
}


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    connection = connect(path, busy_timeout_seconds=1)
    yield connection
    connection.close()


def tables(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def contents(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def test_a_new_file_gets_all_steps_and_our_name(connection: sqlite3.Connection) -> None:
    assert migrate(connection) == sorted(migrations())
    assert schema_version(connection) == max(migrations())
    assert connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
    assert find_schema_damage(connection) == ""


def test_a_second_time_there_is_nothing_to_do(connection: sqlite3.Connection) -> None:
    migrate(connection)
    assert migrate(connection) == []


def test_the_numbers_have_no_gaps() -> None:
    assert sorted(migrations()) == list(range(1, len(migrations()) + 1))


def test_only_what_is_missing_is_applied(connection: sqlite3.Connection) -> None:
    assert migrate(connection, {1: TWO_STEPS[1]}) == [1]
    assert migrate(connection, TWO_STEPS) == [2]
    assert [row[0] for row in connection.execute("SELECT x FROM a")] == [1, 2]
    assert [row[0] for row in connection.execute("SELECT x FROM b")] == [2, ";"]


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        ("CREATE TABLE c (x);\nINSERT INTO nowhere VALUES (1);", sqlite3.OperationalError),
        ("CREATE TABLE c (x);\nCREATE TABEL d (x);", sqlite3.OperationalError),
        ("CREATE TABLE c (x);\nINSERT INTO a (x) VALUES (1)", ValueError),
        ("CREATE TABLE c (x);\nCREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM a;", ValueError),
        ("CREATE TABLE c (x); CREATE TABLE d (x);", sqlite3.Error),  # two in a line
        ("CREATE TABLE c (x NOT NULL);\nINSERT INTO c VALUES (NULL);", sqlite3.IntegrityError),
    ],
)
def test_a_broken_step_leaves_nothing_of_itself(
    connection: sqlite3.Connection, broken: str, error: type[Exception]
) -> None:
    migrate(connection, TWO_STEPS)
    with pytest.raises(error):
        migrate(connection, {**TWO_STEPS, 3: broken})
    assert schema_version(connection) == 2
    assert tables(connection) == {"a", "b"}
    assert not connection.in_transaction
    assert migrate(connection, {**TWO_STEPS, 3: "CREATE TABLE c (x);"}) == [3]


def test_of_several_steps_all_are_made_or_none(connection: sqlite3.Connection) -> None:
    migrate(connection, {1: TWO_STEPS[1]})
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, {**TWO_STEPS, 3: "CREATE TABEL c (x);"})
    assert schema_version(connection) == 1
    assert tables(connection) == {"a"}


FAMILY = {
    1: """CREATE TABLE mothers (id INTEGER PRIMARY KEY);
          CREATE TABLE children (id INTEGER PRIMARY KEY, mother INTEGER REFERENCES mothers (id));
          INSERT INTO mothers VALUES (1);
          INSERT INTO children VALUES (1, 1);
          INSERT INTO children VALUES (2, 7);""",  # the second has been an orphan before
}


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("DELETE FROM children;", "the table children had 2 rows and would have 0"),
        ("INSERT INTO mothers VALUES (2);", "the table mothers had 1 rows and would have 2"),
        ("-- Rows change in: mothers\nDELETE FROM mothers;", "rows of children would refer to rows that are not there"),
    ],
)
def test_a_step_that_does_what_it_does_not_say_is_taken_back(
    connection: sqlite3.Connection, script: str, problem: str
) -> None:
    migrate(connection, FAMILY)
    with pytest.raises(Unsound, match=problem):
        migrate(connection, {**FAMILY, 2: script})
    assert schema_version(connection) == 1
    assert connection.execute("SELECT COUNT(*) FROM children JOIN mothers ON mothers.id = mother").fetchone()[0] == 1
    assert connection.execute("PRAGMA foreign_keys").fetchone()[0] == 1


@pytest.mark.parametrize(
    "script",
    [
        "-- Rows change in: children, mothers\nDELETE FROM children;\nDELETE FROM mothers;",
        "DROP TABLE children;",
        """CREATE TABLE others (id INTEGER PRIMARY KEY, name TEXT);
           INSERT INTO others SELECT id, '' FROM mothers;
           DROP TABLE mothers;
           ALTER TABLE others RENAME TO mothers;""",
    ],
)
def test_a_step_may_do_what_it_says(connection: sqlite3.Connection, script: str) -> None:
    migrate(connection, FAMILY)
    assert migrate(connection, {**FAMILY, 2: script}) == [2]


def test_every_later_migration_has_a_companion_that_takes_it_back() -> None:
    assert set(undo_scripts()) == {number for number in migrations() if number > LAST_WITHOUT_UNDO}


@pytest.mark.parametrize("number", sorted(undo_scripts()))
def test_taken_back_the_schema_and_every_row_are_what_they_were(path: Path, number: int) -> None:
    make_database(path, number - 1)
    before = read_all(path)
    connection = connect(path, busy_timeout_seconds=1)
    assert migrate(connection, {step: script for step, script in migrations().items() if step <= number}) == [number]
    fill(connection)

    assert undo(connection, number - 1) == [number]

    assert schema_version(connection) == number - 1
    assert find_schema_damage(connection) == ""
    connection.close()
    assert read_all(path) == before


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("DROP TABLE b;", "the definition of the trigger both is not that of schema 1"),
        ("DROP TRIGGER both;\nDROP TABLE b;\nDELETE FROM a;", "the table a had 2 rows and would have 0"),
    ],
)
def test_an_undo_that_does_not_lead_back_is_taken_back(
    connection: sqlite3.Connection, script: str, problem: str
) -> None:
    migrate(connection, TWO_STEPS)
    with pytest.raises(Unsound, match=problem):
        undo(connection, 1, TWO_STEPS, {2: script})
    assert schema_version(connection) == 2
    assert tables(connection) == {"a", "b"}


def test_a_newer_schema_is_not_undone_by_us(connection: sqlite3.Connection) -> None:
    migrate(connection, TWO_STEPS)
    with pytest.raises(StoreTooNew):
        undo(connection, 0, {1: TWO_STEPS[1]}, {1: "DROP TABLE a;"})


def test_a_newer_schema_is_refused_and_left_as_it_is(path: Path, care: BackupPolicy) -> None:
    prepare(path, care, repair=True)
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE messages_search")  # whatever a newer Hermes may have done
    connection.execute(f"PRAGMA user_version = {max(migrations()) + 1}")
    connection.close()
    before = contents(path)
    for repair in (True, False):
        with pytest.raises(StoreTooNew, match=r"newer Hermes.*Nothing was changed.*HERMES_HOME"):
            prepare(path, care, repair=repair)
    assert contents(path) == before
    assert not care.backups.exists()


KILLED_MIDWAY = """
import sqlite3, sys
from pathlib import Path
from gateway.store.db.connection import connect
from gateway.store.db.schema import migrate

connection = connect(Path(sys.argv[1]), busy_timeout_seconds=1)

def stop_here():
    print("ready", flush=True)
    sys.stdin.readline()

connection.create_function("stop_here", 0, stop_here)
first = ["CREATE TABLE a (x);", "INSERT INTO a VALUES (1);"]
second = ["CREATE TABLE b (x);", *["INSERT INTO b SELECT hex(randomblob(4000)) FROM a;"] * 200]
second += ["SELECT stop_here();", "CREATE TABLE c (x);"]
migrate(connection, {1: chr(10).join(first)})
migrate(connection, {1: chr(10).join(first), 2: chr(10).join(second)})
"""


def test_killed_in_a_migration_the_old_schema_stands_and_the_next_start_finishes(path: Path) -> None:
    with other(KILLED_MIDWAY, str(path)) as process:
        process.wait_for("ready")
        process.kill()
    connection = connect(path, busy_timeout_seconds=1)
    assert schema_version(connection) == 1
    assert tables(connection) == {"a"}
    assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    steps = {1: "CREATE TABLE a (x);", 2: "CREATE TABLE b (x);", 3: "CREATE TABLE c (x);"}
    assert migrate(connection, steps) == [2, 3]
    assert tables(connection) == {"a", "b", "c"}
    connection.close()


TWO_AT_ONCE = """
import sys
from pathlib import Path
from gateway.store.db.prepare import BackupPolicy, prepare

print("ready", flush=True)
sys.stdin.readline()
path = Path(sys.argv[1])
prepare(path, BackupPolicy(backups=path.parent / "backups", busy_timeout_seconds=10), repair=False)
"""


def test_processes_that_start_together_migrate_once(path: Path) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(other(TWO_AT_ONCE, str(path))) for _ in range(3)]
        for process in processes:
            process.wait_for("ready")
        for process in processes:
            process.tell()
        assert [process.finish() for process in processes] == [0, 0, 0]
    connection = connect(path, busy_timeout_seconds=1)
    assert find_schema_damage(connection) == ""
    assert schema_version(connection) == max(migrations())
    assert connection.execute("SELECT COUNT(*) FROM meta").fetchone()[0] == 1
    connection.close()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("UPDATE sqlite_master SET sql = replace(sql, '''ready''', '''raedy''') WHERE name = 'inbox'", "inbox"),
        (
            "UPDATE sqlite_master SET sql = replace(sql, 'new.id', 'new.ID_') WHERE name = 'messages_search_insert'",
            "messages_search",
        ),
        ("UPDATE sqlite_master SET name = 'peopel', tbl_name = 'peopel' WHERE name = 'people'", "peop"),
        ("DELETE FROM sqlite_master WHERE name = 'outbox_open'", "outbox_open"),
        ("PRAGMA user_version = 0", "schema 0"),
    ],
)
def test_a_damaged_definition_is_found(connection: sqlite3.Connection, change: str, named: str) -> None:
    migrate(connection)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(change)
    assert named in find_schema_damage(connection)


def test_comments_and_spaces_are_no_part_of_a_definition(connection: sqlite3.Connection) -> None:
    migrate(connection)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_master SET sql = replace(sql, '(', ' (  -- of course\n') WHERE name = 'media'")
    assert find_schema_damage(connection) == ""


RELEASED = {
    1: "352d17e3ae3dbf8f",
    2: "bcad1bf2c3e61268",
    3: "733e92fd8e07821b",
    4: "71fa666c6210c9ed",
    5: "511fcb7d30b0a950",
    6: "14b4e774e90c37d8",
    7: "dc587f362c42b9ee",
}


def test_a_migration_that_was_released_is_never_edited() -> None:
    """A database made by the old text would be taken for damaged. Add a new file instead."""
    texts = migrations()
    assert {number: hashlib.sha256(texts[number].encode()).hexdigest()[:16] for number in RELEASED} == RELEASED


def test_origins_that_were_words_or_marks_become_codes_and_go_back(path: Path) -> None:
    said = [
        {"type": "text", "text": "Said to others: 東京", "origin": "what others said in the chat"},
        {"type": "text", "text": "[Said in this chat meanwhile, but not to you. It is …]\n> rm it"},
        {"type": "text", "text": "[Background process proc_1 (x) ended.]\n> rm it"},
        {"type": "text", "text": "[Nobody had decided in time whether you may …]"},
        {"type": "text", "text": "piped", "origin": "standard input"},
        {"type": "quote", "text": "[Background process "},
        {"type": "text", "text": "hello"},
    ]
    prompt = "Be kind.\n\n# Project (AGENTS.md)\nrun make\n"
    make_database(path, 8)
    connection = connect(path, busy_timeout_seconds=1)
    connection.execute("UPDATE sessions SET prompt = ? WHERE rowid = 1", (prompt,))
    connection.execute("UPDATE messages SET role = 'user', parts = ? WHERE id = 1", (json.dumps(said),))
    connection.execute("UPDATE messages SET role = 'user', parts = '[\"[Background process \"]' WHERE id = 2")
    steps = {number: script for number, script in migrations().items() if number <= 9}

    assert migrate(connection, steps) == [9]

    parts = load_parts(connection.execute("SELECT parts FROM messages WHERE id = 1").fetchone()[0])
    assert [part.origin for part in parts] == ["chat", "chat", "event", "event", "stdin", "quote", ""]
    assert [getattr(part, "text", "") for part in parts] == [part["text"] for part in said]
    fixed = load_parts(connection.execute("SELECT prompt FROM sessions WHERE rowid = 1").fetchone()[0])
    assert ([part.origin for part in fixed], text_of(fixed)) == (["", "project"], prompt)
    assert connection.execute("SELECT prompt FROM sessions WHERE rowid = 2").fetchone()[0].startswith('[{"type":"text"')

    ours = json.dumps([{"type": "text", "text": "Ada:", "origin": "hermes"}])
    connection.execute("UPDATE messages SET role = 'user', parts = ? WHERE id = 3", (ours,))
    undo(connection, 8, steps)

    back = json.loads(connection.execute("SELECT parts FROM messages WHERE id = 1").fetchone()[0])
    assert [part.get("origin", "") for part in back] == [
        *["what others said in the chat"] * 2,
        *["what a background process or an earlier request left"] * 2,
        "standard input",
        *[""] * 2,
    ]
    assert connection.execute("SELECT prompt FROM sessions WHERE rowid = 1").fetchone()[0] == prompt
    assert json.loads(connection.execute("SELECT parts FROM messages WHERE id = 3").fetchone()[0]) == [
        {"type": "text", "text": "Ada:"}
    ]
    connection.close()
