"""Turns: the work between accepted messages and their answer, one at a time in a session."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agent_core.conversation import Message
from gateway.clock import new_id, now_ms
from gateway.messages import Address, InboundMessage, Sender, SessionKey
from gateway.policies.resets import NEVER, Resets
from gateway.store import inbox, sessions, trail
from gateway.store.db.connection import Row, Transaction
from gateway.store.inbox import Accepted, speakers
from gateway.store.tables import INBOX_WAITING
from gateway.store.trail import TrailEvent
from tools.content import Part

Outcome = Literal["answered", "failed", "stopped", "given_up", "superseded", "restored"]

_STOP, _INTERRUPT = 1, 2  # values of the column `stop_requested`


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    id: str
    session_key: str
    session_id: str
    resumes: int = 0
    messages: tuple[Accepted, ...]

    @property
    def asked(self) -> tuple[Accepted, ...]:
        """Return the messages that need an answer, without those that are only noted."""
        return tuple(message for message in self.messages if message.asks)

    @property
    def address(self) -> Address:
        return self.asked[-1].address

    @property
    def is_shared(self) -> bool:
        """Return whether others read along."""
        return not self.asked[-1].key.is_private

    @property
    def holder(self) -> str:
        """Return the person who asks, or a name for the chat when several people ask together."""
        asking = {message.person_id for message in self.asked}
        if len(asking) == 1 and (person := asking.pop()):
            return person
        return f"chat-{hashlib.sha256(self.session_key.encode()).hexdigest()[:16]}"

    @property
    def is_with_owner(self) -> bool:
        """Return whether it is alone with an owner, not in a group where others read along."""
        return all(message.role == "owner" and message.key.is_private for message in self.asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTurn:
    """The state that a turn finds when it begins."""

    history: list[Message]
    started: frozenset[str]
    stop_requested: bool
    prompt: tuple[Part, ...] | None  # None: the session has none yet
    verbosity: str = ""  # set for this conversation; empty when nobody has set it


def begin(tx: Transaction, resets: Resets = NEVER) -> Turn | None:
    """Claim the next messages and begin their turn; return None when nothing can begin."""
    turn_id = new_id()
    claimed = inbox.claim(tx, turn_id)
    if not claimed:
        return None
    first = claimed[0]
    session = sessions.open_current(
        tx,
        first.key,
        display_name=first.sender_name,
        # A process report belongs to the session that started the process, however long it took.
        resets=resets if any(message.kind == "message" for message in claimed) else NEVER,
        # The time of arrival, not now: the message may have waited for a gateway that was down.
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
        trail.record(tx, TrailEvent.CLAIMED, inbox_id=message.id, turn_id=turn_id)
    return Turn(id=turn_id, session_key=session.key, session_id=session.id, messages=tuple(claimed))


def begin_at_terminal(tx: Transaction, key: SessionKey, session_id: str) -> Turn:
    """Begin the turn of a message that was typed at a terminal; `finish` says how it ended.

    Its rows are done from the start: no gateway may claim the message or resume the turn. They exist for the trail, so
    the text is not in them.
    """
    typed = InboundMessage(key=key, message_id=new_id(), sender=Sender(id=""), parts=(), sent_ms=now_ms())
    inbox_id = inbox.insert(tx, typed, person_id=None, role="owner")
    assert inbox_id is not None
    turn_id = new_id()
    tx.execute(
        "INSERT INTO turns (id, session_key, session_id, state, started_ms) VALUES (?, ?, ?, 'done', ?)",
        turn_id,
        str(key),
        session_id,
        now_ms(),
    )
    tx.execute("UPDATE inbox SET state = 'done', turn_id = ? WHERE id = ?", turn_id, inbox_id)
    trail.record(tx, TrailEvent.CLAIMED, inbox_id=inbox_id, turn_id=turn_id)
    return Turn(id=turn_id, session_key=str(key), session_id=session_id, messages=(inbox.get(tx, inbox_id),))


def reload(tx: Transaction, turn: Turn) -> Turn:
    """Reload the turn's messages: some may have joined, and a group may have a new id."""
    return replace(turn, messages=tuple(inbox.read_turn(tx, turn.id)))


def resume_all(tx: Transaction) -> list[Turn]:
    """Resume the turns that a dead process left behind, oldest first. A crash uses up one of a turn's attempts; an
    orderly stop does not, nor does a crash while it waited for a human."""
    rows = tx.all("SELECT * FROM turns WHERE state <> 'done' ORDER BY started_ms, id")
    asking = {row["turn_id"] for row in tx.all("SELECT turn_id FROM approvals WHERE state = 'waiting'")}
    resumed: list[Turn] = []
    for row in rows:
        cut_at_work = row["state"] == "running" and row["id"] not in asking
        tx.execute(
            "UPDATE turns SET state = 'running', resumes = resumes + ? WHERE id = ?", int(cut_at_work), row["id"]
        )
        trail.record(tx, TrailEvent.RESUMED, turn_id=row["id"], after="crash" if row["state"] == "running" else "stop")
        resumed.append(_turn(tx, row, resumes=row["resumes"] + cut_at_work))
    return resumed


def pause(tx: Transaction, turn_id: str) -> bool:
    """Pause a turn for an orderly stop; return False when it was already over."""
    paused = tx.execute("UPDATE turns SET state = 'paused' WHERE id = ? AND state = 'running'", turn_id) > 0
    if paused:
        trail.record(tx, TrailEvent.PAUSED, turn_id=turn_id)
    return paused


def request_stop(tx: Transaction, session_key: str) -> bool:
    """Request a stop; return False when nothing runs. From here on the turn cannot end in an answer."""
    return (
        tx.execute("UPDATE turns SET stop_requested = ? WHERE session_key = ? AND state <> 'done'", _STOP, session_key)
        > 0
    )


def request_interrupt(tx: Transaction, inbox_id: int) -> None:
    """Interrupt the running turn for a newer message, if everything there comes from the same person."""
    newer = inbox.get(tx, inbox_id)
    session_key = str(newer.key)
    if speakers(tx, session_key) == {newer.speaker}:
        tx.execute(
            "UPDATE turns SET stop_requested = ? WHERE session_key = ? AND state <> 'done' AND stop_requested = 0",
            _INTERRUPT,
            session_key,
        )


def stop_turns_of(tx: Transaction, account: str, sender_id: str) -> None:
    """Stop the turns that run for one person alone, without an answer."""
    for row in tx.all(
        """UPDATE turns SET stop_requested = ? WHERE state <> 'done' AND id IN (
               SELECT turn_id FROM inbox INDEXED BY inbox_open
                WHERE account = ? AND sender_id = ? AND chat_kind = 'dm'
                  AND state <> 'done' AND state = 'running') RETURNING id""",
        _STOP,
        account,
        sender_id,
    ):
        trail.record(tx, TrailEvent.REVOKED, turn_id=row["id"])


def list_stopping(tx: Transaction) -> list[str]:
    """Return the unfinished turns that should stop, also those requested by another process."""
    return [row["id"] for row in tx.all("SELECT id FROM turns WHERE state <> 'done' AND stop_requested <> 0")]


def must_stop(tx: Transaction, turn_id: str) -> bool:
    """Return whether a stop or a newer message forbids starting anything new."""
    return tx.count("SELECT stop_requested FROM turns WHERE id = ?", turn_id) != 0


def stop_requested(tx: Transaction, turn_id: str) -> bool:
    """Return whether somebody was told that the turn stopped: nothing may follow."""
    return tx.count("SELECT stop_requested FROM turns WHERE id = ?", turn_id) == _STOP


def is_interrupted(tx: Transaction, turn_id: str) -> bool:
    """Return whether a newer message interrupts the turn. An answer that is already there is still given."""
    return tx.count("SELECT stop_requested FROM turns WHERE id = ?", turn_id) == _INTERRUPT


def join(tx: Transaction, turn_id: str, may_join: Callable[[Accepted], bool]) -> list[Accepted]:
    """Add waiting messages to the turn that runs in their session; return them in order.

    Only messages of the turn's own person: it acts with that person's rights. None overtakes one that must wait.
    """
    waiting = inbox.read_waiting_behind(tx, turn_id)
    if not waiting:
        return []
    own = {message.speaker for message in inbox.read_turn(tx, turn_id) if message.asks}
    joining = _select_joining(waiting, lambda message: own == {message.speaker} and may_join(message))
    for message in joining:
        tx.execute("UPDATE inbox SET state = 'running', turn_id = ? WHERE id = ?", turn_id, message.id)
        trail.record(tx, TrailEvent.JOINED, inbox_id=message.id, turn_id=turn_id)
    return joining


def list_blocking(tx: Transaction) -> list[str]:
    """Return the turns behind which messages of their sessions wait."""
    rows = tx.all(
        f"""SELECT id FROM turns t WHERE state <> 'done' AND EXISTS (
               SELECT 1 FROM inbox AS i INDEXED BY inbox_open WHERE i.session_key = t.session_key
                  AND {INBOX_WAITING} AND i.kind = 'message')"""  # noqa: S608
    )
    return [row["id"] for row in rows]


def is_superseded(tx: Transaction, session_id: str) -> bool:
    """Return whether the last turn of a conversation was interrupted for a message whose turn has not begun yet."""
    row = tx.one(
        """SELECT t.outcome FROM messages m JOIN turns t ON t.id = m.turn_id
            WHERE m.session_id = ? ORDER BY m.id DESC LIMIT 1""",
        session_id,
    )
    return row is not None and row["outcome"] == "superseded"


def read_superseded(tx: Transaction, turn: Turn) -> list[Accepted]:
    """Return the messages left by the turns right before this one, each interrupted by the next."""
    left: list[Accepted] = []
    before = _before(tx, turn.session_id, turn.id)
    while before is not None and before["outcome"] == "superseded":
        left = [*inbox.read_turn(tx, before["id"]), *left]
        before = _before(tx, turn.session_id, before["id"])
    return left


def finish(
    tx: Transaction, turn_id: str, messages: Sequence[Accepted], outcome: Outcome, *, problem: str | None = None
) -> None:
    """End a turn and its messages. `problem`: the kind of error when a model could not answer."""
    tx.execute("UPDATE turns SET state = 'done', outcome = ?, ended_ms = ? WHERE id = ?", outcome, now_ms(), turn_id)
    tx.execute("DELETE FROM tool_starts WHERE turn_id = ?", turn_id)
    for message in messages:
        inbox.finish(tx, message.id, outcome)
        trail.record(tx, TrailEvent(outcome), inbox_id=message.id, turn_id=turn_id, problem=problem)


def is_over(tx: Transaction, turn_id: str) -> bool:
    return tx.one("SELECT 1 FROM turns WHERE id = ? AND state = 'done'", turn_id) is not None


def is_running(tx: Transaction, session_key: str) -> bool:
    return tx.one("SELECT 1 FROM turns WHERE session_key = ? AND state <> 'done'", session_key) is not None


def count_running(tx: Transaction) -> int:
    return tx.count("SELECT COUNT(*) FROM turns WHERE state <> 'done'")


def _select_joining(waiting: Sequence[Accepted], may_join: Callable[[Accepted], bool]) -> list[Accepted]:
    joining: list[Accepted] = []
    for message in waiting:
        if may_join(message):
            joining.append(message)
        elif message.asks:  # a noted message does not block others
            joining = [one for one in joining if one.own_turn != message.own_turn]
            break
    while joining and not joining[-1].asks:  # goes along with the message after it
        joining.pop()
    return joining


def _before(tx: Transaction, session_id: str, turn_id: str) -> Row | None:
    """Return the turn that wrote to the transcript just before this one. Clock times are not reliable for this."""
    return tx.one(
        """SELECT t.id, t.outcome FROM messages m JOIN turns t ON t.id = m.turn_id
            WHERE m.session_id = ? AND m.id < (SELECT MIN(id) FROM messages WHERE turn_id = ?)
            ORDER BY m.id DESC LIMIT 1""",
        session_id,
        turn_id,
    )


def _turn(tx: Transaction, row: Row, *, resumes: int) -> Turn:
    return Turn(
        id=row["id"],
        session_key=row["session_key"],
        session_id=row["session_id"],
        resumes=resumes,
        messages=tuple(inbox.read_turn(tx, row["id"])),
    )
