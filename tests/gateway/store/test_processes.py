"""Rows of background processes: what the tools keep in them, whose they are, and what they hold up."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.messages import Sender, SessionKey, Text
from gateway.policies.resets import Policy, Resets
from gateway.store import inbox, members, processes, sessions, turns
from gateway.store.db.connection import Transaction, connect
from gateway.store.db.database import Database
from gateway.store.db.schema import migrate, undo, undo_scripts
from gateway.store.erase import PersonToErase, erase_person
from gateway.store.inspect import read_counts
from gateway.store.media import MediaFiles
from gateway.store.processes import StoredProcesses, WatchedProcess
from gateway.store.turns import Turn
from tests.gateway.background import in_background, until
from tests.gateway.store import line
from tests.gateway.store.conftest import Clock
from tests.gateway.store.exchange import begin
from tests.gateway.store.filling import make_database
from tests.gateway.store.rows import ANN, KEY, a_process, inbound, take
from tools.backends import background
from tools.backends.base import Command
from tools.backends.local import LocalBackend
from tools.process_book import Process
from tools.workplaces import process_backends

BOB = Sender(id="43", name="Bob")
GROUP = SessionKey(platform="telegram", kind="group", chat="-1")


def process_of(turn: Turn, name: str = "a", **changes: Any) -> Process:
    return replace(a_process(turn.session_id, name), **changes)


def watched(tx: Transaction, process: Process) -> WatchedProcess:
    found = processes.find_open(tx, process.id)
    assert found is not None
    return found


async def test_the_book_gives_back_what_was_written_into_it(db: Database) -> None:
    book = StoredProcesses(db)
    turn = await db.write(begin)
    older, newer = process_of(turn), process_of(turn, "b", started_ms=6, pty=False, interactive=False)
    for process in (older, newer):
        await book.add(process)
    assert await book.read_all(older.holder) == [newer, older]
    assert await book.find(older.holder, older.id) == older
    assert await book.find("somebody else", older.id) is None
    assert await book.read_all("somebody else") == []
    await book.mark_polled(older.id, 7)
    assert await book.mark_ended(older.id, 3)
    found = await book.find(older.holder, older.id)
    assert found is not None
    assert (found.polled, found.exit_code, found.ended_ms is not None) == (7, 3, True)


async def test_one_whose_end_is_not_told_yet_is_not_removed(db: Database) -> None:
    book = StoredProcesses(db)
    turn = await db.write(begin)
    followed, plain = process_of(turn), process_of(turn, "b", check_interval_seconds=0)
    for process in (followed, plain):
        await book.add(process)
        await book.remove(process.id)
        await book.mark_ended(process.id, 0)
        await book.remove(process.id)
    assert [process.id for process in await book.read_all(followed.holder)] == [followed.id]


def test_news_goes_where_the_turn_is_answered(tx: Transaction) -> None:
    turn = begin(tx, key=GROUP)
    process = process_of(turn)
    processes.add(tx, process)
    found = watched(tx, process)
    assert found.address == turn.address
    assert (found.key, found.sender, found.person_id) == (GROUP, ANN, turn.messages[0].person_id)


def test_without_a_turn_it_goes_nowhere(tx: Transaction) -> None:
    turn = begin(tx)
    line.end(tx, turn)
    processes.add(tx, process_of(turn))
    assert watched(tx, process_of(turn)).key is None


def test_of_several_who_asked_the_one_who_may_least_has_started_it(tx: Transaction) -> None:
    for sender, role in ((ANN, "owner"), (BOB, "guest"), (ANN, "owner")):
        taken = take(tx, inbound("run it", key=GROUP, sender=sender))
        tx.execute("UPDATE inbox SET role = ? WHERE id = ?", role, taken)
    turn = line.begin(tx)
    processes.add(tx, process_of(turn))
    assert watched(tx, process_of(turn)).sender == BOB


def test_what_a_woken_turn_starts_is_answered_where_the_first_was(tx: Transaction) -> None:
    first = begin(tx)
    processes.add(tx, process_of(first))
    turns.finish(tx, first.id, first.messages, turns.Outcome.ANSWERED)
    processes.tell_agent(tx, watched(tx, process_of(first)), "wake", (Text(text="ended"),), role="owner")
    woken = line.begin(tx)
    assert woken.is_with_owner
    assert woken.address == first.address
    processes.add(tx, process_of(woken, "b"))
    assert watched(tx, process_of(woken, "b")).address == first.address


def test_what_is_started_while_its_turn_is_stopped_is_ended(tx: Transaction) -> None:
    turn = begin(tx)
    turns.request_stop(tx, turn.session_key)
    processes.add(tx, process_of(turn))
    assert [one.process.id for one in processes.read_to_end(tx)] == [process_of(turn).id]


def test_notes_that_wait_are_one_row_and_bounded(tx: Transaction) -> None:
    turn = begin(tx)
    processes.add(tx, process_of(turn))
    for number in range(30):
        processes.tell_agent(tx, watched(tx, process_of(turn)), "process", (Text(text=f"{number}"),), role="member")
    [row] = tx.all("SELECT id FROM inbox WHERE kind = 'process'")
    told = [part.text for part in inbox.get(tx, row["id"]).parts if isinstance(part, Text)]
    assert told == [str(number) for number in range(10, 30)]
    assert inbox.count_noted(tx, str(KEY)) == 1
    assert read_counts(tx)["waiting"] == 0


def test_of_many_that_end_at_once_the_agent_is_told_of_the_last(tx: Transaction) -> None:
    turn = begin(tx)
    processes.add(tx, process_of(turn))
    ends = tuple(Text(text=f"{number}") for number in range(30))
    processes.tell_agent(tx, watched(tx, process_of(turn)), "wake", ends, role="member")
    [row] = tx.all("SELECT id FROM inbox WHERE kind = 'wake'")
    assert inbox.get(tx, row["id"]).parts == ends[10:]


def test_only_ones_own_are_ended_unless_one_may_end_all(tx: Transaction) -> None:
    for name, sender in (("a", ANN), ("b", BOB)):
        turn = begin(tx, key=GROUP, sender=sender)
        processes.add(tx, process_of(turn, name))
        line.end(tx, turn)
    assert [process.id for process in processes.read_running_in(tx, str(GROUP), by=BOB.id)] == ["proc_b"]
    processes.request_end(tx, str(GROUP), by=BOB.id)
    assert [one.process.id for one in processes.read_to_end(tx)] == ["proc_b"]
    processes.request_end(tx, "telegram:dm:42")
    assert len(processes.read_to_end(tx)) == 1
    processes.request_end(tx, str(GROUP))
    assert len(processes.read_to_end(tx)) == 2


def test_whoever_is_shown_the_door_leaves_nothing_running(tx: Transaction) -> None:
    processes.add(tx, process_of(begin(tx)))
    members.revoke(tx, "telegram", ANN.id, owner_users=(), allowed_users=(), by="cli")
    assert [one.process.id for one in processes.read_to_end(tx)] == ["proc_a"]


RESETS = Resets(usual=Policy(idle_minutes=60))


def test_a_conversation_in_which_one_runs_does_not_end_by_itself(tx: Transaction, clock: Clock) -> None:
    turn = begin(tx)
    processes.add(tx, process_of(turn, check_interval_seconds=0))
    line.end(tx, turn)
    clock.forward(hours=2)
    assert sessions.list_due(tx, RESETS) == []
    assert sessions.end_due(tx, [turn.session_id], RESETS) == 0
    assert sessions.open_current(tx, KEY, resets=RESETS).id == turn.session_id
    clock.forward(hours=2)
    processes.mark_seen(tx, "proc_a", 0)
    assert sessions.list_due(tx, RESETS) == [turn.session_id]
    assert sessions.open_current(tx, KEY, resets=RESETS).id != turn.session_id


def test_a_conversation_that_is_about_to_be_woken_does_not_end_either(tx: Transaction, clock: Clock) -> None:
    turn = begin(tx)
    processes.add(tx, process_of(turn))
    line.end(tx, turn)
    processes.tell_agent(tx, watched(tx, process_of(turn)), "wake", (Text(text="ended"),), role="member")
    processes.end(tx, "proc_a", exit_code=0, ended_ms=1)
    clock.forward(hours=2)
    assert sessions.end_due(tx, [turn.session_id], RESETS) == 0


def test_what_took_long_wakes_the_agent_in_the_conversation_it_belongs_to(tx: Transaction, clock: Clock) -> None:
    turn = begin(tx)
    processes.add(tx, process_of(turn))
    line.end(tx, turn)
    clock.forward(hours=2)
    processes.tell_agent(tx, watched(tx, process_of(turn)), "wake", (Text(text="ended"),), role="member")
    processes.end(tx, "proc_a", exit_code=0, ended_ms=1)
    woken = turns.begin(tx, RESETS)
    assert woken is not None
    assert woken.session_id == turn.session_id


@pytest.mark.parametrize("gateway_runs", [True, False])
async def test_whoever_is_forgotten_leaves_neither_processes_nor_output(
    db: Database, tmp_path: Path, gateway_runs: bool
) -> None:
    async with in_background(db, tmp_path / "work") as stage:
        theirs = [await stage.start(f"echo secret; {until('end')}"), await stage.start("echo secret")]
        stage.key, stage.sender = SessionKey(platform="telegram", kind="dm", chat="43"), BOB
        other = await stage.start(until("end"), holder="bob")
        [person_id] = await db.read(
            lambda tx: [row["id"] for row in tx.all("SELECT id FROM people WHERE name = 'Ann'")]
        )
        ann = PersonToErase(ids=frozenset({person_id}), identities=frozenset({("telegram", "42")}))
        files = MediaFiles({"file": tmp_path / "documents"})
        await erase_person(db, files, ann, backends=process_backends(), gateway_runs=lambda: gateway_runs)
        assert not any(background.is_running(process.handle) for process in theirs)
        assert not any(Path(process.handle.data["folder"]).exists() for process in theirs)
        assert await db.read(lambda tx: [row["id"] for row in tx.all("SELECT id FROM processes")]) == [other.id]
        assert background.is_running(other.handle)


def test_an_older_version_finds_work_that_it_can_end(tx: Transaction) -> None:
    """It knows neither of the two kinds: a turn of the one it could not end, the other would wait for ever."""
    turn = begin(tx)
    processes.add(tx, process_of(turn))
    line.end(tx, turn)
    one = watched(tx, process_of(turn))
    processes.tell_agent(tx, one, "wake", (Text(text="ended"),), role="member")
    woken = line.begin(tx)
    processes.tell_agent(tx, one, "process", (Text(text="ended"),), role="member")
    for statement in filter(str.strip, undo_scripts()[7].split(";\n")):
        tx.execute(statement)
    assert [message.kind for message in inbox.read_turn(tx, woken.id)] == ["message"]
    assert tx.all("SELECT 1 FROM inbox WHERE state <> 'done' AND kind <> 'message'") == []


async def test_a_process_that_an_older_version_started_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make_database(path, 8)
    handle = await LocalBackend(workspace=tmp_path, outputs=tmp_path / "outputs").spawn(Command(text="sleep 1000"))
    data = handle.data
    with closing(connect(path, busy_timeout_seconds=1)) as connection:
        connection.execute("DELETE FROM processes WHERE rowid > 1")
        connection.execute(
            """UPDATE processes SET id = ?, backend = 'local', pid = ?, keeper_pid = ?, keeper_started = ?, folder = ?,
                      state = 'running'""",
            (handle.id, data["pid"], data["supervisor_pid"], data["supervisor_started"], data["folder"]),
        )
        migrate(connection)
        [process] = processes.read_running(Transaction(connection))
        backend = process_backends()["local"]
        assert process.handle == handle
        assert await backend.reattach([process.handle]) == {handle.id}
        await backend.kill(process.handle)
        undo(connection, 8)
        [row] = connection.execute("SELECT id, pid, keeper_pid, keeper_started, folder FROM processes").fetchall()
    assert tuple(row) == (handle.id, data["pid"], data["supervisor_pid"], data["supervisor_started"], data["folder"])
