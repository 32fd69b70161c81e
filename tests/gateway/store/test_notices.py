"""What the operator must be told: the newest first, and not too many."""

from gateway.store import notices
from gateway.store.connection import Transaction
from gateway.store.notices import Notice


def test_the_newest_first(tx: Transaction) -> None:
    assert notices.recent(tx) == []
    for number in range(7):
        tx.execute("INSERT INTO notices (at_ms, text) VALUES (?, ?)", number, f"notice {number}")
    assert [notice.text for notice in notices.recent(tx)] == [f"notice {number}" for number in (6, 5, 4, 3, 2)]
    assert notices.recent(tx, limit=1) == [Notice(id=7, at_ms=6, text="notice 6")]
