"""Turns: begun, stopped, paused, resumed and ended, each with its trail."""

import sqlite3

import pytest

from gateway.store import inbox, sessions, transcripts, turns
from gateway.store.db.connection import Transaction
from gateway.store.inspect import read_counts
from gateway.store.turns import Turn
from tests.gateway.store.line import begin
from tests.gateway.store.rows import KEY, inbound, take


@pytest.fixture
def turn(tx: Transaction) -> Turn:
    take(tx, inbound("hello"))
    return begin(tx)


def events(tx: Transaction, turn_id: str) -> list[str]:
    return [row["event"] for row in tx.all("SELECT event FROM trail WHERE turn_id = ? ORDER BY id", turn_id)]


def test_nothing_waits_nothing_begins(tx: Transaction) -> None:
    assert turns.begin(tx) is None
    assert read_counts(tx)["running"] == 0
    assert tx.count("SELECT COUNT(*) FROM sessions") == 0


def test_a_turn_belongs_to_the_current_session_of_its_key(tx: Transaction, turn: Turn) -> None:
    session = sessions.find_current(tx, str(KEY))
    assert session is not None
    assert (turn.session_id, turn.session_key) == (session.id, session.key)
    assert session.display_name == "Ann"
    assert turns.is_running(tx, str(KEY))
    assert read_counts(tx)["running"] == 1


def test_finishing_ends_the_turn_its_messages_and_its_marks(tx: Transaction, turn: Turn) -> None:
    transcripts.mark_tool_started(tx, turn.id, "call_1")
    turns.finish(tx, turn.id, turn.messages, turns.Outcome.ANSWERED)
    assert turns.is_over(tx, turn.id)
    assert not turns.is_running(tx, str(KEY))
    assert transcripts.started_calls(tx, turn.id) == frozenset()
    [row] = tx.all("SELECT state, outcome FROM inbox WHERE id = ?", turn.messages[0].id)
    assert tuple(row) == ("done", "answered")
    assert turns.resume_all(tx) == []
    assert events(tx, turn.id) == ["claimed", "answered"]


def test_a_turn_cut_by_a_crash_is_resumed_and_has_used_up_a_try(tx: Transaction, turn: Turn) -> None:
    for tries in (1, 2, 3):
        [resumed] = turns.resume_all(tx)
        assert resumed.resumes == tries
        assert (resumed.id, resumed.session_id, resumed.messages) == (turn.id, turn.session_id, turn.messages)
    assert events(tx, turn.id) == ["claimed", "resumed", "resumed", "resumed"]


def test_a_paused_turn_is_resumed_without_using_up_a_try(tx: Transaction, turn: Turn) -> None:
    for _ in range(5):
        assert turns.pause(tx, turn.id)
        assert not turns.pause(tx, turn.id)  # paused already
        [resumed] = turns.resume_all(tx)
        assert resumed.resumes == 0
    [resumed] = turns.resume_all(tx)
    assert resumed.resumes == 1


def test_a_turn_that_is_over_cannot_be_paused(tx: Transaction, turn: Turn) -> None:
    turns.finish(tx, turn.id, turn.messages, turns.Outcome.ANSWERED)
    assert not turns.pause(tx, turn.id)
    assert turns.is_over(tx, turn.id)


def test_a_paused_turn_still_holds_its_session(tx: Transaction, turn: Turn) -> None:
    take(tx, inbound("more"))
    turns.pause(tx, turn.id)
    assert turns.begin(tx) is None
    assert turns.is_running(tx, str(KEY))


def test_a_stop_is_remembered_through_a_restart(tx: Transaction, turn: Turn) -> None:
    assert not turns.stop_requested(tx, turn.id)
    assert turns.request_stop(tx, str(KEY))
    assert turns.stop_requested(tx, turn.id)
    [resumed] = turns.resume_all(tx)
    assert turns.stop_requested(tx, resumed.id)


def test_there_is_nothing_to_stop_when_nothing_runs(tx: Transaction, turn: Turn) -> None:
    assert not turns.request_stop(tx, "telegram:dm:somebody else")
    turns.finish(tx, turn.id, turn.messages, turns.Outcome.ANSWERED)
    assert not turns.request_stop(tx, str(KEY))
    assert not turns.stop_requested(tx, turn.id)


def test_a_stop_is_for_the_running_turn_alone(tx: Transaction, turn: Turn) -> None:
    turns.request_stop(tx, str(KEY))
    turns.finish(tx, turn.id, turn.messages, turns.Outcome.STOPPED)
    take(tx, inbound("next"))
    following = begin(tx)
    assert not turns.stop_requested(tx, following.id)


def test_turns_are_resumed_oldest_first_with_their_messages_in_order(tx: Transaction) -> None:
    keys = [KEY.__class__(platform="telegram", kind="dm", chat=str(chat)) for chat in (3, 1, 2)]
    for key in keys:
        take(tx, inbound("late", key=key, sent_ms=2))
        take(tx, inbound("early", key=key, sent_ms=1))
        assert turns.begin(tx) is not None
    tx.execute("UPDATE turns SET started_ms = CASE session_key WHEN 'telegram:dm:1' THEN 1 ELSE 2 END")
    resumed = turns.resume_all(tx)
    assert resumed[0].session_key == "telegram:dm:1"
    assert [[message.text for message in turn.messages] for turn in resumed] == [["early", "late"]] * 3


def test_two_turns_in_one_session_are_impossible(tx: Transaction, turn: Turn) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        tx.execute(
            "INSERT INTO turns (id, session_key, session_id, state, started_ms) VALUES ('x', ?, ?, 'running', 0)",
            turn.session_key,
            turn.session_id,
        )


def test_a_message_claimed_without_its_turn_cannot_be_committed(tx: Transaction) -> None:
    take(tx, inbound("hello"))
    assert inbox.claim(tx, "no such turn")
    with pytest.raises(sqlite3.IntegrityError):
        tx.execute("COMMIT")
