"""After a restore nothing that was open in the backup is answered or sent again as if nothing had happened."""

import sqlite3

import pytest

from gateway.messages import Receipt
from gateway.store import approvals, compactions, inbox, outbox, restored, turns
from gateway.store.db.connection import Transaction
from gateway.store.restored import close_open_work, record_going_back
from tests.gateway.store.conftest import Clock
from tests.gateway.store.exchange import begin, exchange
from tests.gateway.store.rows import ADDRESS, KEY, a_question, an_asker, inbound, notes, take
from tools.content import Text


@pytest.fixture
def lost(tx: Transaction) -> None:
    """A database that has lost commits."""
    record_going_back(tx._connection)


def outcomes(tx: Transaction) -> list[tuple[str, str]]:
    return [(row["state"], row["outcome"]) for row in tx.all("SELECT state, outcome FROM inbox ORDER BY id")]


@pytest.mark.usefixtures("lost")
def test_open_messages_are_closed_and_counted(tx: Transaction) -> None:
    exchange(tx)
    turn = begin(tx, "being answered")
    take(tx, inbound("waiting"))
    take(tx, inbound("/status", kind="command"))
    take(tx, inbound("only noted", kind="reaction"))
    notice = close_open_work(tx)
    assert "Messages without an answer in the restored state: 3." in notice
    assert notes(tx) == [notice]
    assert outcomes(tx) == [("done", "answered"), *[("done", "restored")] * 4]
    assert turns.resume_all(tx) == []
    assert turns.begin(tx) is None
    assert inbox.claim_command(tx) is None
    assert compactions.read_history(tx, turn.session_id, limit=100).messages[-1].role == "assistant"
    assert tx.count("SELECT COUNT(*) FROM trail WHERE event = 'restored'") == 4


@pytest.mark.usefixtures("lost")
def test_open_replies_are_in_doubt_and_young_again(tx: Transaction, clock: Clock) -> None:
    waiting = outbox.add(tx, ADDRESS, [Text(text="perhaps sent since")], replaces="7")
    clock.forward(hours=48)
    assert "Replies that were waiting to be sent: 1." in close_open_work(tx)
    outbox.expire(tx, "telegram")
    [row] = outbox.claim(tx, "telegram", 10)
    assert (row.id, row.unsure, row.message.replaces) == (waiting, True, "")
    outbox.mark_sent(tx, row, Receipt(message_id="1"))


@pytest.mark.usefixtures("lost")
def test_questions_that_waited_are_withdrawn(tx: Transaction) -> None:
    turn = begin(tx)
    asked = approvals.create(tx, an_asker(turn_id=turn.id), "call", a_question(), ADDRESS, expires_ms=2)
    approvals.set_outbox_row(tx, asked.id, outbox.add(tx, ADDRESS, [Text(text="May I?")], kind="notice"))
    close_open_work(tx)
    assert approvals.waiting(tx) == []
    assert outbox.claim(tx, "telegram", 10) == []


@pytest.mark.usefixtures("lost")
def test_it_is_done_once(tx: Transaction) -> None:
    assert close_open_work(tx) == ""
    take(tx, inbound("after the restore"))
    assert close_open_work(tx) == ""
    assert outcomes(tx) == [("ready", "")]
    assert restored.went_back_ms(tx) > 0


def test_a_store_that_lost_nothing_keeps_its_work(tx: Transaction) -> None:
    begin(tx, key=KEY)
    assert close_open_work(tx) == ""
    assert outcomes(tx) == [("running", "")]


def test_going_back_is_recorded_in_the_oldest_schema_too() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)")
    record_going_back(connection)
    record_going_back(connection)
    assert connection.execute("SELECT COUNT(*) FROM meta").fetchone() == (2,)
    connection.close()
