"""What the operator must be told until they have seen it."""

from dataclasses import dataclass

from gateway.clock import now_ms
from gateway.store.connection import Row, Transaction

_TOLD = "notices_told"  # in the table `meta`: the id of the newest that an owner was told in a chat
_NEWS_MS = 24 * 3_600_000  # an older one was not kept for this, or nobody could be reached for a day


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    id: int
    at_ms: int
    text: str


def recent(tx: Transaction, *, limit: int = 5) -> list[Notice]:
    return [_notice(row) for row in tx.all("SELECT * FROM notices ORDER BY id DESC LIMIT ?", limit)]


def untold(tx: Transaction) -> list[Notice]:
    """Return those of the last day that no owner was told in a chat, the oldest first."""
    rows = tx.all(
        """SELECT * FROM notices WHERE at_ms > ? AND id > COALESCE((SELECT value FROM meta WHERE name = ?), 0)
            ORDER BY id""",
        now_ms() - _NEWS_MS,
        _TOLD,
    )
    return [_notice(row) for row in rows]


def mark_told(tx: Transaction, notice: Notice) -> None:
    tx.execute(
        "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        _TOLD,
        notice.id,
    )


def _notice(row: Row) -> Notice:
    return Notice(id=row["id"], at_ms=row["at_ms"], text=row["text"])
