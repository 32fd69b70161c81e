"""The trail: what became of each message, without its text, and bounded where strangers write it."""

import json

import pytest

from gateway.store import trail
from gateway.store.db.connection import Transaction
from gateway.store.trail import TrailEvent
from tests.gateway.store.conftest import Clock
from tests.gateway.store.rows import inbound, take


def test_a_row_says_what_happened_when_and_to_whom(tx: Transaction, clock: Clock) -> None:
    trail.record(tx, TrailEvent.SENT, inbox_id=1, turn_id="t", outbox_id=2, receipt="77", attempt=3)
    [row] = tx.all("SELECT * FROM trail")
    assert (row["at_ms"], row["event"], row["inbox_id"], row["turn_id"], row["outbox_id"]) == (
        clock.ms,
        "sent",
        1,
        "t",
        2,
    )
    assert json.loads(row["detail"]) == {"receipt": "77", "attempt": 3}


def test_refusals_are_bounded_and_the_newest_stay(tx: Transaction, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.trail._REFUSALS_KEPT", 10)
    trail.record(tx, TrailEvent.ACCEPTED, inbox_id=1)
    for number in range(500):
        trail.record_refusal(tx, account="telegram", chat="1", sender_id=str(number), reason="not on an allowlist")
    rows = tx.all("SELECT event, detail FROM trail ORDER BY id")
    senders = [json.loads(row["detail"])["sender"] for row in rows if row["event"] == "refused"]
    assert senders == [str(number) for number in range(500 - len(senders), 500)]
    assert 10 <= len(senders) < 10 + 64  # tidied up now and then, not with every row
    assert rows[0]["event"] == "accepted"  # what is not a refusal stays


def test_no_text_is_in_it(tx: Transaction) -> None:
    take(tx, inbound("a secret between us"))
    for row in tx.all("SELECT * FROM trail"):
        assert "secret" not in str(tuple(row))


def test_refusals_between_other_rows_are_bounded_too(tx: Transaction, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.trail._REFUSALS_KEPT", 10)
    for number in range(300):
        trail.record(tx, TrailEvent.ACCEPTED, inbox_id=number)
        trail.record_refusal(tx, account="telegram", chat="1", sender_id=str(number), reason="not on an allowlist")
    assert 10 <= tx.count("SELECT COUNT(*) FROM trail WHERE event = 'refused'") < 10 + 64


def test_strangers_cannot_drive_out_what_became_of_a_message_we_know(
    tx: Transaction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.store.trail._REFUSALS_KEPT", 10)
    trail.record(tx, TrailEvent.REFUSED, inbox_id=1, reason="queue full")
    for number in range(200):
        trail.record_refusal(tx, account="telegram", chat="1", sender_id=str(number), reason="not on an allowlist")
    assert tx.count("SELECT COUNT(*) FROM trail WHERE inbox_id = 1") == 1
