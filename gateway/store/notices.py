"""What the operator must be told until they have seen it."""

from dataclasses import dataclass

from gateway.store.connection import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    id: int
    at_ms: int
    text: str


def recent(tx: Transaction, *, limit: int = 5) -> list[Notice]:
    return [
        Notice(id=row["id"], at_ms=row["at_ms"], text=row["text"])
        for row in tx.all("SELECT * FROM notices ORDER BY id DESC LIMIT ?", limit)
    ]
