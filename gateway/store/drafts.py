"""Drafts: messages that show an answer as it grows. Stored before they are sent, so that a crash leaves none behind."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from json import dumps

from gateway.clock import new_id, now_ms
from gateway.messages import Address
from gateway.store import trail
from gateway.store.db.connection import Row, Transaction, build
from gateway.store.tables import TURN_OPEN
from gateway.store.trail import TrailEvent

_OLDEST_TOLD_MS = 20 * 3_600_000  # rows older than this may already be deleted
_CLOCKS_DIFFER_MS = 3_600_000  # largest difference between our clock and the platform's


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    turn_id: str
    key: str  # our own key; finds a draft whose platform id we never learned
    address: Address
    message_id: str = ""  # the platform's; empty when it is unknown whether it was sent
    begun_ms: int = 0
    settled_ms: int = 0  # when the next process started: by then it was sent, or never will be


def new(turn_id: str, address: Address) -> Draft:
    """Make a draft without storing it: most turns end before one is sent."""
    return Draft(turn_id=turn_id, key=new_id(), address=address, begun_ms=now_ms())


def begin(tx: Transaction, draft: Draft) -> None:
    """Store a draft, just before it is sent for the first time."""
    update = "(turn_id) DO UPDATE SET begun_ms = excluded.begun_ms, settled_ms = 0"
    place = asdict(draft.address)
    tx.insert("drafts", update, turn_id=draft.turn_id, key=draft.key, begun_ms=now_ms(), **place)


def find(tx: Transaction, turn_id: str) -> Draft | None:
    """Return the draft begun for a turn, perhaps by an earlier process."""
    row = tx.one("SELECT * FROM drafts WHERE turn_id = ?", turn_id)
    return _draft(row) if row is not None else None


def mark_shown(tx: Transaction, turn_id: str, message_id: str) -> bool:
    """Store the platform's message id; return False when the draft was forgotten, so that nobody will delete it."""
    known = tx.execute("UPDATE drafts SET message_id = ? WHERE turn_id = ?", message_id, turn_id) > 0
    if known:
        trail.record(tx, TrailEvent.DRAFT_SHOWN, turn_id=turn_id, receipt=message_id)
    return known


def take_over(tx: Transaction, turn_id: str) -> str:
    """Hand the draft over to the answer and return its message id; empty when none is known."""
    rows = tx.all("DELETE FROM drafts WHERE turn_id = ? AND message_id <> '' RETURNING message_id", turn_id)
    return str(rows[0]["message_id"]) if rows else ""


def forget(tx: Transaction, turn_id: str) -> None:
    tx.execute("DELETE FROM drafts WHERE turn_id = ?", turn_id)


def read_other_ids(tx: Transaction, draft: Draft) -> set[str]:
    """Return the known message ids of its chat that are not this draft: other drafts, and answers."""
    query = """SELECT message_id AS id FROM drafts
                WHERE account = ?1 AND chat = ?2 AND turn_id <> ?3 AND message_id <> ''
               UNION SELECT edits FROM outbox WHERE account = ?1 AND chat = ?2 AND edits <> ''
               UNION SELECT receipt FROM outbox WHERE account = ?1 AND chat = ?2 AND receipt <> ''"""
    return {str(row["id"]) for row in tx.all(query, draft.address.account, draft.address.chat, draft.turn_id)}


def settle(tx: Transaction, at_ms: int) -> None:
    """Record that a process started at this time: it will not send what an earlier one was about to send."""
    tx.execute("UPDATE drafts SET settled_ms = ? WHERE begun_ms < ? AND settled_ms = 0", at_ms, at_ms)


def read_sent_ids(tx: Transaction, draft: Draft, settled_ms: int) -> set[str] | None:
    """Return the platform's ids of all we said in the draft's chat since the message that it answers.

    None while that is unknown: something is being sent there, or was sent under an unknown id, or nothing was said
    since `settled_ms`, the time by which the draft was sent or never would be.
    """
    query = "SELECT MIN(sent_ms, accepted_ms) AS asked FROM inbox WHERE turn_id = ? ORDER BY 1 LIMIT 1"
    row = tx.one(query, draft.turn_id)
    if row is None or row["asked"] < now_ms() - _OLDEST_TOLD_MS:
        return None
    since_ms = row["asked"] - _CLOCKS_DIFFER_MS
    place = (draft.address.account, draft.address.chat)
    query = """SELECT 1 FROM outbox WHERE account = ? AND chat = ? AND expires_ms > ?
                  AND (state IN ('sending', 'unsure', 'in_doubt') OR unsure > 0) LIMIT 1"""
    is_unsure = tx.exists(query, *place, since_ms)
    # Ids grow with time: reading stops at the first row that is too old.
    query = """SELECT t.event, t.at_ms, json_extract(t.detail, '$.receipt') AS id
                 FROM trail t JOIN outbox o ON o.id = t.outbox_id
                WHERE t.id > COALESCE((SELECT id FROM trail WHERE at_ms < ? ORDER BY id DESC LIMIT 1), 0)
                  AND o.account = ? AND o.chat = ? AND t.event IN ('sent', 'piece_sent', 'in_doubt')"""
    rows = tx.all(query, since_ms, *place)
    is_unsure = is_unsure or any(row["event"] == TrailEvent.IN_DOUBT for row in rows)
    if is_unsure or not any(row["at_ms"] >= settled_ms for row in rows):
        return None
    return {str(row["id"]) for row in rows}


def list_orphans(tx: Transaction, accounts: Collection[str]) -> list[Draft]:
    """Return the drafts whose turn is over."""
    query = f"""SELECT * FROM drafts d WHERE account IN (SELECT value FROM json_each(?))
                   AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.id = d.turn_id AND t.{TURN_OPEN})"""  # noqa: S608
    return [_draft(row) for row in tx.all(query, dumps(list(accounts)))]


def has_others(tx: Transaction, accounts: Collection[str], *, except_for: Collection[str]) -> bool:
    """Return whether there are drafts of turns other than those named."""
    query = """SELECT 1 FROM drafts WHERE account IN (SELECT value FROM json_each(?))
                  AND turn_id NOT IN (SELECT value FROM json_each(?)) LIMIT 1"""
    return tx.exists(query, dumps(list(accounts)), dumps(list(except_for)))


def drop_old(tx: Transaction, before_ms: int) -> int:
    """Delete the rows of drafts so old that the platform no longer lets us delete the message; return how many."""
    return tx.execute("DELETE FROM drafts WHERE begun_ms < ?", before_ms)


def _draft(row: Row) -> Draft:
    return build(Draft, row, address=build(Address, row))
