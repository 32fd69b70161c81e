"""Turns: the work between accepted messages and their answer, one at a time in a session."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agent_core.conversation import Message
from gateway.clock import new_id, now_ms
from gateway.messages import Address
from gateway.resets import NEVER, Resets
from gateway.store import inbox, sessions, trail
from gateway.store.connection import Row, Transaction
from gateway.store.inbox import Accepted

Outcome = Literal["answered", "failed", "stopped", "given_up"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    id: str
    session_key: str
    session_id: str
    resumes: int = 0
    messages: tuple[Accepted, ...]

    @property
    def asked(self) -> tuple[Accepted, ...]:
        """What is to be answered: the messages without what is only noted."""
        return tuple(message for message in self.messages if message.kind == "message")

    @property
    def address(self) -> Address:
        return self.asked[-1].address

    @property
    def is_shared(self) -> bool:
        """In a place where others read along."""
        return self.asked[-1].key.kind not in ("dm", "")

    @property
    def is_with_owner(self) -> bool:
        """Alone with an owner, not in a group where others read along."""
        return all(message.role == "owner" and message.key.kind in ("dm", "") for message in self.asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What a turn finds when it begins."""

    history: list[Message]
    started: frozenset[str]
    stop_requested: bool
    prompt: str | None
    verbosity: str = ""  # asked for in this conversation; empty when nobody has said


def begin(tx: Transaction, resets: Resets = NEVER) -> Turn | None:
    """Claims the next messages and begins their turn; None when nothing can be begun."""
    turn_id = new_id()
    claimed = inbox.claim(tx, turn_id)
    if not claimed:
        return None
    first = claimed[0]
    session = sessions.open_current(
        tx,
        first.key,
        display_name=first.sender_name,
        resets=resets,
        # When it came, not now: a message may have waited for a gateway that was down.
        at_ms=tx.count("SELECT MIN(accepted_ms) FROM inbox WHERE turn_id = ?", turn_id),
    )
    tx.execute(
        "INSERT INTO turns (id, session_key, session_id, state, started_ms) VALUES (?, ?, ?, 'running', ?)",
        turn_id,
        session.key,
        session.id,
        now_ms(),
    )
    for message in claimed:
        trail.record(tx, "claimed", inbox_id=message.id, turn_id=turn_id)
    return Turn(id=turn_id, session_key=session.key, session_id=session.id, messages=tuple(claimed))


def resume_all(tx: Transaction) -> list[Turn]:
    """Turns that a dead process left behind, the oldest first. One cut by a crash has used up a try; one
    that was paused by an orderly stop has not."""
    rows = tx.all("SELECT * FROM turns WHERE state <> 'done' ORDER BY started_ms, id")
    tx.execute("UPDATE turns SET resumes = resumes + 1 WHERE state <> 'done' AND state = 'running'")
    tx.execute("UPDATE turns SET state = 'running' WHERE state <> 'done' AND state = 'paused'")
    for row in rows:
        trail.record(tx, "resumed", turn_id=row["id"], after="crash" if row["state"] == "running" else "stop")
    return [_turn(tx, row, resumes=row["resumes"] + (row["state"] == "running")) for row in rows]


def pause(tx: Transaction, turn_id: str) -> bool:
    """For an orderly stop; False when the turn was over already."""
    paused = tx.execute("UPDATE turns SET state = 'paused' WHERE id = ? AND state = 'running'", turn_id) > 0
    if paused:
        trail.record(tx, "paused", turn_id=turn_id)
    return paused


def request_stop(tx: Transaction, session_key: str) -> bool:
    """False when nothing runs. From here on the turn cannot end in an answer."""
    return tx.execute("UPDATE turns SET stop_requested = 1 WHERE session_key = ? AND state <> 'done'", session_key) > 0


def stop_those_for(tx: Transaction, account: str, sender_id: str) -> None:
    """What runs for one person alone ends without an answer."""
    tx.execute(
        """UPDATE turns SET stop_requested = 1 WHERE state <> 'done' AND id IN (
               SELECT turn_id FROM inbox WHERE account = ? AND sender_id = ? AND chat_kind = 'dm'
                  AND state <> 'done' AND state = 'running')""",
        account,
        sender_id,
    )


def to_be_stopped(tx: Transaction) -> list[str]:
    """Turns that are not over though somebody has asked for it, also from another process."""
    return [row["id"] for row in tx.all("SELECT id FROM turns WHERE state <> 'done' AND stop_requested = 1")]


def stop_requested(tx: Transaction, turn_id: str) -> bool:
    return tx.count("SELECT stop_requested FROM turns WHERE id = ?", turn_id) > 0


def finish(tx: Transaction, turn_id: str, messages: Sequence[Accepted], outcome: Outcome) -> None:
    tx.execute("UPDATE turns SET state = 'done', outcome = ?, ended_ms = ? WHERE id = ?", outcome, now_ms(), turn_id)
    tx.execute("DELETE FROM tool_starts WHERE turn_id = ?", turn_id)
    for message in messages:
        inbox.finish(tx, message.id, outcome)
        trail.record(tx, outcome, inbox_id=message.id, turn_id=turn_id)


def is_over(tx: Transaction, turn_id: str) -> bool:
    return tx.one("SELECT 1 FROM turns WHERE id = ? AND state = 'done'", turn_id) is not None


def is_running(tx: Transaction, session_key: str) -> bool:
    return tx.one("SELECT 1 FROM turns WHERE session_key = ? AND state <> 'done'", session_key) is not None


def running(tx: Transaction) -> int:
    return tx.count("SELECT COUNT(*) FROM turns WHERE state <> 'done'")


def _turn(tx: Transaction, row: Row, *, resumes: int) -> Turn:
    return Turn(
        id=row["id"],
        session_key=row["session_key"],
        session_id=row["session_id"],
        resumes=resumes,
        messages=tuple(inbox.of_turn(tx, row["id"])),
    )
