"""Handle a store that lost commits (a restored backup, a truncated log): answers may exist that it does not know."""

import sqlite3

from agent_core.conversation import assistant
from gateway.clock import now_ms
from gateway.store import approvals, inbox, outbox, trail, transcripts, turns
from gateway.store.db.connection import Transaction
from gateway.store.tables import INBOX_WAITING, OUTBOX_OPEN, TURN_OPEN
from gateway.store.trail import TrailEvent

# Names in the table `meta`.
_WENT_BACK = "went_back_ms"
_UNCLOSED = "went_back_unclosed"

_NO_ANSWER = "(Closed without an answer: the database was restored from a backup.)"


def record_going_back(connection: sqlite3.Connection) -> None:
    """Record that this database has lost commits just now. Works with every schema."""
    connection.executemany(
        "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        [(_WENT_BACK, now_ms()), (_UNCLOSED, 1)],
    )


def went_back_ms(tx: Transaction) -> int:
    """Return when this database last lost commits; 0 if it never did."""
    return tx.count("SELECT value FROM meta WHERE name = ?", _WENT_BACK)


def close_open_work(tx: Transaction) -> str:
    """Close, once, the open work of a database that lost commits: it was probably answered since.

    Messages end without an answer, and waiting replies become unsure. Return the notice for the owner, which is also
    stored; empty when nothing was open.
    """
    if not tx.execute("DELETE FROM meta WHERE name = ?", _UNCLOSED):
        return ""
    for approval in approvals.waiting(tx):
        approvals.withdraw(tx, approval)
        if approval.outbox_id is not None:
            outbox.cancel(tx, approval.outbox_id)
    messages = 0
    for row in tx.all(f"SELECT id, session_id FROM turns WHERE {TURN_OPEN}"):  # noqa: S608
        claimed = inbox.read_turn(tx, row["id"])
        messages += sum(message.asks for message in claimed)
        if tx.exists("SELECT 1 FROM messages WHERE turn_id = ?", row["id"]):
            # The model would take up an unanswered request again with the next message.
            transcripts.append(tx, row["session_id"], assistant(_NO_ANSWER), turn_id=row["id"])
        turns.finish(tx, row["id"], claimed, inbox.Outcome.RESTORED)
    for row in tx.all(f"SELECT id FROM inbox WHERE {INBOX_WAITING}"):  # noqa: S608
        waiting = inbox.get(tx, row["id"])
        messages += waiting.asks or waiting.kind in ("command", "button")
        inbox.finish(tx, waiting.id, inbox.Outcome.RESTORED)
        trail.record(tx, TrailEvent.RESTORED, inbox_id=waiting.id)
    replies = tx.execute(
        f"""UPDATE outbox SET state = 'unsure', unsure = MAX(unsure, 1), replaces = '', not_before_ms = 0,
                   expires_ms = ? + (expires_ms - created_ms) WHERE {OUTBOX_OPEN}""",  # noqa: S608
        now_ms(),
    )
    said = []
    if messages:
        said.append(
            f"Messages without an answer in the restored state: {messages}. They may have been answered since, so they "
            "were closed; ask again for what you still need."
        )
    if replies:
        said.append(
            f"Replies that were waiting to be sent: {replies}. They may have arrived since. Where the platform can be "
            "asked, each is looked up before it is sent; elsewhere its chat gets a button that sends it again."
        )
    if said:
        tx.insert("notices", at_ms=now_ms(), text=" ".join(said))
    return " ".join(said)
