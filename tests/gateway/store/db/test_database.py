"""Units of work: each whole or not at all, many in one commit, none touched by its neighbour."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from gateway.errors import StoreCorrupt, StoreUnavailable
from gateway.store.db.commit_counter import CommitCounter
from gateway.store.db.connection import Transaction, connect
from gateway.store.db.database import Database, open_database
from tests.gateway.store.damage import PAGE_BYTES, scribble
from tests.gateway.store.rows import notes, notes_in, put_note


class Mishap(Exception):
    pass


def commits(tx: Transaction) -> int:
    return tx.count("SELECT value FROM meta WHERE name = 'commits'")


async def test_what_is_written_is_there_for_another_process(db: Database) -> None:
    assert await db.write(lambda tx: tx.execute("INSERT INTO notices (at_ms, text) VALUES (0, 'a')")) == 1
    assert notes_in(db.path) == ["a"]


async def test_a_failing_unit_undoes_only_itself(db: Database) -> None:
    def half(tx: Transaction) -> None:
        put_note(tx, "half")
        raise Mishap

    def wrong(tx: Transaction) -> None:
        put_note(tx, "wrong")
        tx.execute("INSERT INTO nowhere VALUES (1)")

    before = await db.read(commits)
    outcomes = await asyncio.gather(
        db.write(lambda tx: put_note(tx, "first")),
        db.write(half),
        db.write(lambda tx: put_note(tx, "second")),
        db.write(wrong),
        db.write(lambda tx: put_note(tx, "third")),
        return_exceptions=True,
    )
    none = type(None)
    assert [type(outcome) for outcome in outcomes] == [none, Mishap, none, sqlite3.OperationalError, none]
    assert await db.read(notes) == ["first", "second", "third"]
    assert await db.read(commits) == before + 1  # they shared one commit
    assert db.problem == ""


async def test_a_broken_constraint_belongs_to_the_unit_that_broke_it(db: Database) -> None:
    def orphan(tx: Transaction) -> None:
        put_note(tx, "orphan")
        tx.execute("INSERT INTO identities (account, user_id, person_id, name) VALUES ('a', '1', 'nobody', 'n')")

    outcomes = await asyncio.gather(db.write(orphan), db.write(lambda tx: put_note(tx, "fine")), return_exceptions=True)
    assert isinstance(outcomes[0], sqlite3.IntegrityError)
    assert await db.read(notes) == ["fine"]


async def test_a_thousand_writers_at_once(db: Database) -> None:
    before = await db.read(commits)
    await asyncio.gather(*(db.write(lambda tx, n=n: put_note(tx, str(n))) for n in range(2_500)))  # type: ignore[misc]
    assert await db.read(notes) == [str(n) for n in range(2_500)]  # in the order in which they came
    assert await db.read(commits) - before <= 4


async def test_writers_see_what_was_written_before_them_in_the_same_commit(db: Database) -> None:
    def next_number(tx: Transaction) -> int:
        number = tx.count("SELECT COUNT(*) FROM notices")
        put_note(tx, str(number))
        return number

    assert await asyncio.gather(*(db.write(next_number) for _ in range(50))) == list(range(50))


async def test_a_read_cannot_write(db: Database) -> None:
    with pytest.raises((sqlite3.OperationalError, StoreUnavailable), match="readonly"):
        await db.read(lambda tx: put_note(tx, "sneaked in"))
    assert await db.read(notes) == []


async def test_a_read_sees_one_moment(db: Database) -> None:
    looked, written = threading.Event(), threading.Event()

    def look_twice(tx: Transaction) -> tuple[list[str], list[str]]:
        before = notes(tx)
        looked.set()
        assert written.wait(10)
        return before, notes(tx)

    reading = asyncio.create_task(db.read(look_twice))
    await asyncio.to_thread(looked.wait, 10)
    await db.write(lambda tx: put_note(tx, "meanwhile"))
    written.set()
    assert await reading == ([], [])
    assert await db.read(notes) == ["meanwhile"]


async def test_a_failing_query_leaves_the_reader_usable(db: Database) -> None:
    for _ in range(5):
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            await db.read(lambda tx: tx.all("SELECT * FROM nowhere"))
    assert await db.read(notes) == []


async def test_a_query_that_sqlite_rolled_back_itself_keeps_its_own_error(db: Database) -> None:
    def roll_back(tx: Transaction) -> None:
        tx.execute("ROLLBACK")  # as SQLite does when reading the file fails
        raise Mishap

    with pytest.raises(Mishap):
        await db.read(roll_back)
    assert await db.read(notes) == []


async def test_a_caller_who_gives_up_before_the_commit_takes_the_unit_along(db: Database) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        begun.set()
        assert go_on.wait(10)
        put_note(tx, "held")

    holding = asyncio.create_task(db.write(hold))
    await asyncio.to_thread(begun.wait, 10)
    waiting = asyncio.create_task(db.write(lambda tx: put_note(tx, "cancelled")))
    other = asyncio.create_task(db.write(lambda tx: put_note(tx, "other")))
    await asyncio.sleep(0)  # lets both get in line
    waiting.cancel()
    go_on.set()
    await asyncio.gather(holding, other)
    assert await db.read(notes) == ["held", "other"]


async def test_a_caller_who_gives_up_during_the_commit_is_written_all_the_same(db: Database) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        begun.set()
        assert go_on.wait(10)
        put_note(tx, "held")

    holding = asyncio.create_task(db.write(hold))
    await asyncio.to_thread(begun.wait, 10)
    holding.cancel()
    go_on.set()
    await db.write(lambda tx: put_note(tx, "next"))
    assert holding.cancelled()
    assert await db.read(notes) == ["held", "next"]


async def test_closing_writes_what_waits(path: Path, made: None) -> None:
    db = await open_database(path)
    writing = [asyncio.create_task(db.write(lambda tx: put_note(tx, "late"))) for _ in range(20)]
    await asyncio.sleep(0)  # lets them get in line
    await db.close()
    await asyncio.gather(*writing)
    assert len(notes_in(path)) == 20


async def test_writing_after_closing_is_refused(path: Path, made: None) -> None:
    db = await open_database(path)
    await db.close()
    for attempt in (db.write, db.write_when_possible):
        with pytest.raises(StoreUnavailable, match="closed"):
            await attempt(lambda tx: put_note(tx, "too late"))
    assert notes_in(path) == []


async def test_a_problem_shows_and_goes_by_itself(db: Database) -> None:
    other = connect(db.path, busy_timeout_seconds=0)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked by another process"):
        await db.write(lambda tx: put_note(tx, "refused"))
    assert "locked by another process" in db.problem
    assert await db.read(notes) == []  # reading goes on
    other.execute("COMMIT")
    other.close()
    await db.write(lambda tx: put_note(tx, "taken"))
    assert db.problem == ""
    assert await db.read(notes) == ["taken"]


async def test_what_is_accepted_already_waits_for_the_store(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.db.database._RETRY_SECONDS", 0.01)
    other = connect(db.path, busy_timeout_seconds=0)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(db.write_when_possible(lambda tx: put_note(tx, "patient")))
    with pytest.raises(StoreUnavailable):
        await db.write(lambda tx: put_note(tx, "impatient"))
    assert not writing.done()
    other.execute("COMMIT")
    other.close()
    async with asyncio.timeout(10):
        await writing
    assert await db.read(notes) == ["patient"]


async def test_a_commit_whose_mark_fails_is_a_commit(path: Path, made: None) -> None:
    """Reported as failed, it would be done again: a second answer to the same message."""
    path.with_suffix(".mark").unlink()
    path.with_suffix(".mark").mkdir()
    db = await open_database(path)
    await db.write(lambda tx: put_note(tx, "once"))
    await db.close()
    assert notes_in(path) == ["once"]


async def test_every_commit_is_marked(db: Database) -> None:
    for _ in range(3):
        await db.write(lambda tx: put_note(tx, "a"))
        assert CommitCounter(db.path).read() == await db.read(commits)


async def test_an_error_nobody_foresaw_does_not_end_the_writer(db: Database) -> None:
    other = connect(db.path, busy_timeout_seconds=1)
    other.execute("DELETE FROM meta")
    async with asyncio.timeout(10):
        for _ in range(2):
            with pytest.raises(IndexError):
                await db.write(lambda tx: put_note(tx, "not counted"))
        other.execute("INSERT INTO meta (name, value) VALUES ('commits', 7)")
        await db.write(lambda tx: put_note(tx, "counted"))
    other.close()
    assert await db.read(notes) == ["counted"]


async def test_the_version_changes_when_another_process_writes_and_only_then(db: Database) -> None:
    seen = await db.version()
    await db.write(lambda tx: put_note(tx, "ours"))
    assert await db.version() == seen
    other = connect(db.path, busy_timeout_seconds=1)
    other.execute("INSERT INTO notices (at_ms, text) VALUES (0, 'theirs')")
    assert await db.version() != seen
    other.close()


async def test_the_version_tells_of_a_write_that_fell_into_a_reopening(db: Database) -> None:
    other = connect(db.path, busy_timeout_seconds=1)
    other.execute("INSERT INTO notices (at_ms, text) VALUES (0, 'theirs')")
    seen = {await db.version()}
    for _ in range(3):
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO notices (at_ms, text) VALUES (0, 'theirs')")
        with pytest.raises(StoreUnavailable):
            await db.write(lambda tx: None)  # reopens its connection
        other.execute("COMMIT")
        version = await db.version()
        assert version not in seen
        seen.add(version)
    other.close()


@pytest.mark.parametrize("verb", ["read", "write"])
async def test_damage_that_is_met_is_remembered(path: Path, made: None, verb: str) -> None:
    """Also where whoever asked goes on without the answer: such a file must be checked by the next start."""
    with closing(sqlite3.connect(path)) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'notices'").fetchone()[0]
    scribble(path, (root - 1) * PAGE_BYTES)
    db = await open_database(path)
    try:
        assert not db.is_damaged
        with pytest.raises(StoreCorrupt):
            await (db.read(notes) if verb == "read" else db.write(notes))
        assert db.is_damaged
    finally:
        await db.close()


async def test_opening_what_cannot_be_opened_is_explained(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await open_database(tmp_path / "nowhere" / "state.db")


async def test_no_thread_stays_behind(path: Path, made: None) -> None:
    before = set(threading.enumerate())
    db = await open_database(path)
    await db.write(lambda tx: put_note(tx, "a"))
    await db.close()
    with pytest.raises(StoreUnavailable):
        await open_database(path / "nowhere")
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()
