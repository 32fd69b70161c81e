"""What the operator must be told: the newest first, and not too many."""

from gateway.store import outbox
from gateway.store.db.connection import Transaction
from gateway.store.outbox import Notice


def test_the_newest_first(tx: Transaction) -> None:
    assert outbox.recent(tx) == []
    for number in range(7):
        tx.execute("INSERT INTO notices (at_ms, text) VALUES (?, ?)", number, f"notice {number}")
    assert [notice.text for notice in outbox.recent(tx)] == [f"notice {number}" for number in (6, 5, 4, 3, 2)]
    assert outbox.recent(tx, limit=1) == [Notice(id=7, at_ms=6, text="notice 6")]
