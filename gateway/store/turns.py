"""Turns: the work between accepted messages and their answer, one at a time in a session."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gateway.clock import new_id, now_ms
from gateway.messages import Address, InboundMessage, Sender, SessionKey
from gateway.policies.resets import NEVER, Resets
from gateway.store import cron, delegations, inbox, sessions, trail
from gateway.store.cron import JobRun
from gateway.store.db.connection import Transaction, build
from gateway.store.inbox import Accepted, speakers
from gateway.store.inbox import Outcome as Outcome
from gateway.store.sessions import SessionSettings
from gateway.store.tables import APPROVAL_WAITING, INBOX_OPEN, INBOX_WAITING, TURN_OPEN
from gateway.store.trail import TrailEvent
from tools.content import Part, load_parts, words_of

if TYPE_CHECKING:  # whoever only asks about turns needs no model
    from gateway.store.compactions import History

# Of a chat, by its key and a sender's id or nothing. The keys begin with that of the chat and ":b".
_IN_BACKGROUND = """session_key > ?1 || ':b' AND session_key < ?1 || ':c' AND kind = 'message'
                    AND ?2 IN ('', sender_id)"""
_STOP, _INTERRUPT = 1, 2  # values of the column `stop_requested`


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    id: str
    session_key: str
    session_id: str
    resumes: int = 0
    messages: tuple[Accepted, ...]
    run: JobRun | None = None  # the run of a scheduled job

    @property
    def asked(self) -> tuple[Accepted, ...]:
        """Return the messages that need an answer, without those that are only noted."""
        return tuple(message for message in self.messages if message.asks)

    @property
    def address(self) -> Address:
        to = self.run.address if self.run is not None else None
        return to or self.asked[-1].address

    @property
    def is_shared(self) -> bool:
        """Return whether others read along."""
        return not self.asked[-1].key.is_private

    @property
    def is_in_background(self) -> bool:
        """Return whether it runs beside the conversation of its chat, which only gets the result."""
        return bool(self.asked[-1].key.task)

    @property
    def holder(self) -> str:
        """Return the person who asks, or a name for the chat when several people ask together."""
        asking = {message.person_id for message in self.asked}
        if len(asking) == 1 and (person := asking.pop()):
            return person
        return f"chat-{hashlib.sha256(str(self.asked[-1].key.of_chat).encode()).hexdigest()[:16]}"

    @property
    def is_with_owner(self) -> bool:
        """Return whether it is alone with an owner, not in a group where others read along."""
        return all(message.role == "owner" and message.key.is_private for message in self.asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTurn:
    """The state that a turn finds when it begins."""

    history: "History"
    started: frozenset[str]
    stop_requested: bool
    prompt: tuple[Part, ...] | None  # None: the session has none yet
    settings: SessionSettings = field(default_factory=SessionSettings)
    call: str = ""  # the tool call to make instead of asking the model: JSON


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
    run = cron.find_run(tx, first.key)
    turn = Turn(id=turn_id, session_key=session.key, session_id=session.id, messages=tuple(claimed), run=run)
    _insert(tx, turn, "running")
    for message in claimed:
        trail.record(tx, TrailEvent.CLAIMED, inbox_id=message.id, turn_id=turn_id)
    return turn


def begin_at_terminal(tx: Transaction, key: SessionKey, session_id: str) -> Turn:
    """Begin the turn of a message that was typed at a terminal; `finish` says how it ended.

    Its rows are done from the start: no gateway may claim the message or resume the turn. They exist for the trail, so
    the text is not in them.
    """
    typed = InboundMessage(key=key, message_id=new_id(), sender=Sender(id=""), parts=(), sent_ms=now_ms())
    inbox_id = inbox.insert(tx, typed, person_id=None, role="owner")
    assert inbox_id is not None
    turn = Turn(id=new_id(), session_key=str(key), session_id=session_id, messages=(inbox.get(tx, inbox_id),))
    _insert(tx, turn, "done")
    tx.execute("UPDATE inbox SET state = 'done', turn_id = ? WHERE id = ?", turn.id, inbox_id)
    trail.record(tx, TrailEvent.CLAIMED, inbox_id=inbox_id, turn_id=turn.id)
    return turn


def _insert(tx: Transaction, turn: Turn, state: str) -> None:
    place = {"session_key": turn.session_key, "session_id": turn.session_id}
    tx.insert("turns", id=turn.id, state=state, started_ms=now_ms(), **place)


def reload(tx: Transaction, turn: Turn) -> Turn:
    """Reload the turn's messages: some may have joined, and a group may have a new id."""
    messages = tuple(inbox.read_turn(tx, turn.id))
    run = cron.find_run(tx, messages[0].key) if messages else turn.run
    return replace(turn, messages=messages, run=run)


def resume_all(tx: Transaction) -> list[Turn]:
    """Resume the turns that a dead process left behind, oldest first. A crash uses up one of a turn's attempts; an
    orderly stop does not, nor does a crash while it waited for a human."""
    query = f"""SELECT * FROM turns WHERE {TURN_OPEN}
                   AND NOT EXISTS (SELECT 1 FROM delegations d WHERE d.turn_id = turns.id)
                 ORDER BY started_ms, id"""  # noqa: S608  # a delegated task is resumed by the call that waits for it
    rows = tx.all(query)
    asking = {row["turn_id"] for row in tx.all(f"SELECT turn_id FROM approvals WHERE {APPROVAL_WAITING}")}  # noqa: S608
    resumed: list[Turn] = []
    for row in rows:
        resumes = row["resumes"] + (row["state"] == "running" and row["id"] not in asking)
        tx.execute("UPDATE turns SET state = 'running', resumes = ? WHERE id = ?", resumes, row["id"])
        trail.record(tx, TrailEvent.RESUMED, turn_id=row["id"], after="crash" if row["state"] == "running" else "stop")
        messages = tuple(inbox.read_turn(tx, row["id"]))
        run = cron.find_run(tx, messages[0].key) if messages else None
        resumed.append(build(Turn, row, resumes=resumes, messages=messages, run=run))
    return resumed


def pause(tx: Transaction, turn_id: str) -> bool:
    """Pause a turn for an orderly stop; return False when it was already over."""
    paused = tx.execute("UPDATE turns SET state = 'paused' WHERE id = ? AND state = 'running'", turn_id) > 0
    if paused:
        trail.record(tx, TrailEvent.PAUSED, turn_id=turn_id)
    return paused


def request_stop(tx: Transaction, session_key: str) -> bool:
    """Request a stop; return False when nothing runs. From here on the turn cannot end in an answer."""
    query = f"UPDATE turns SET stop_requested = ? WHERE session_key = ? AND {TURN_OPEN}"  # noqa: S608
    return tx.execute(query, _STOP, session_key) > 0


def request_stop_of(tx: Transaction, inbox_id: int) -> None:
    """Stop the turn of one message, or keep it from beginning, because whoever asked has gone."""
    waiting = f"UPDATE inbox SET state = 'done', outcome = ? WHERE id = ? AND {INBOX_WAITING}"  # noqa: S608
    if tx.execute(waiting, Outcome.STOPPED, inbox_id):
        trail.record(tx, TrailEvent.STOPPED, inbox_id=inbox_id)
    query = f"""UPDATE turns SET stop_requested = ? WHERE {TURN_OPEN}
                   AND id = (SELECT turn_id FROM inbox WHERE id = ?)"""  # noqa: S608
    tx.execute(query, _STOP, inbox_id)


def request_stop_in_background(tx: Transaction, key: SessionKey, *, by: str = "") -> int:
    """Stop the prompts that run or wait in the background of a chat, all or one person's; return their number."""
    query = f"""UPDATE inbox INDEXED BY inbox_open SET state = 'done', outcome = 'stopped'
                 WHERE {_IN_BACKGROUND} AND {INBOX_WAITING} RETURNING id"""  # noqa: S608
    waiting = tx.all(query, str(key), by)
    for row in waiting:
        trail.record(tx, TrailEvent.STOPPED, inbox_id=row["id"])
    query = f"""UPDATE turns SET stop_requested = ?3 WHERE {TURN_OPEN} AND stop_requested = 0 AND id IN (
                   SELECT turn_id FROM inbox INDEXED BY inbox_open WHERE {_IN_BACKGROUND} AND {INBOX_OPEN})"""  # noqa: S608
    return len(waiting) + tx.execute(query, str(key), by, _STOP)


def list_in_background(tx: Transaction, key: SessionKey, *, by: str = "") -> list[str]:
    """Return the prompts that run or wait in the background of a chat, oldest first."""
    query = f"""SELECT parts FROM inbox INDEXED BY inbox_open WHERE {_IN_BACKGROUND} AND {INBOX_OPEN}
                 ORDER BY id"""  # noqa: S608
    return [words_of(load_parts(row["parts"])) for row in tx.all(query, str(key), by)]


def request_interrupt(tx: Transaction, inbox_id: int) -> None:
    """Interrupt the running turn for a newer message, if everything there comes from the same person."""
    newer = inbox.get(tx, inbox_id)
    session_key = str(newer.key)
    if speakers(tx, session_key) == {newer.speaker}:
        query = f"UPDATE turns SET stop_requested = ? WHERE session_key = ? AND {TURN_OPEN} AND stop_requested = 0"  # noqa: S608
        tx.execute(query, _INTERRUPT, session_key)


def stop_turns_of(tx: Transaction, account: str, sender_id: str) -> None:
    """Stop the turns that run for one person alone, without an answer."""
    query = f"""UPDATE turns SET stop_requested = ? WHERE {TURN_OPEN} AND id IN (
                    SELECT turn_id FROM inbox INDEXED BY inbox_open
                     WHERE account = ? AND sender_id = ? AND chat_kind = 'dm'
                       AND {INBOX_OPEN} AND state = 'running') RETURNING id"""  # noqa: S608
    for row in tx.all(query, _STOP, account, sender_id):
        trail.record(tx, TrailEvent.REVOKED, turn_id=row["id"])


def list_stopping(tx: Transaction) -> list[str]:
    """Return the unfinished turns that should stop, also those requested by another process."""
    query = f"SELECT id FROM turns WHERE {TURN_OPEN} AND stop_requested <> 0"  # noqa: S608
    return [row["id"] for row in tx.all(query)]


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
    query = f"""SELECT id FROM turns t WHERE {TURN_OPEN} AND EXISTS (
                   SELECT 1 FROM inbox AS i INDEXED BY inbox_open WHERE i.session_key = t.session_key
                      AND {INBOX_WAITING} AND i.kind = 'message')"""  # noqa: S608
    return [row["id"] for row in tx.all(query)]


def is_superseded(tx: Transaction, session_id: str) -> bool:
    """Return whether the last turn of a conversation was interrupted for a message whose turn has not begun yet."""
    return _last_outcome(tx, session_id) == Outcome.SUPERSEDED


def is_answered(tx: Transaction, session_id: str) -> bool:
    """Return whether the last turn of a conversation ended with an answer."""
    return _last_outcome(tx, session_id) == Outcome.ANSWERED


def _last_outcome(tx: Transaction, session_id: str) -> str | None:
    query = """SELECT t.outcome FROM messages m JOIN turns t ON t.id = m.turn_id
                WHERE m.session_id = ? ORDER BY m.id DESC LIMIT 1"""
    return tx.value(query, session_id)


def read_superseded(tx: Transaction, turn: Turn) -> list[Accepted]:
    """Return the messages left by the turns right before this one, each interrupted by the next."""
    # The turn that wrote to the transcript just before: clock times are not reliable for this.
    query = """SELECT t.id, t.outcome FROM messages m JOIN turns t ON t.id = m.turn_id
                WHERE m.session_id = ? AND m.id < (SELECT MIN(id) FROM messages WHERE turn_id = ?)
                ORDER BY m.id DESC LIMIT 1"""
    left: list[Accepted] = []
    before = tx.one(query, turn.session_id, turn.id)
    while before is not None and before["outcome"] == Outcome.SUPERSEDED:
        left = [*inbox.read_turn(tx, before["id"]), *left]
        before = tx.one(query, turn.session_id, before["id"])
    return left


def finish(
    tx: Transaction, turn_id: str, messages: Sequence[Accepted], outcome: Outcome, *, problem: str | None = None
) -> None:
    """End a turn and its messages. `problem`: the kind of error when a model could not answer."""
    tx.execute("UPDATE turns SET state = 'done', outcome = ?, ended_ms = ? WHERE id = ?", outcome, now_ms(), turn_id)
    tx.execute("DELETE FROM tool_starts WHERE turn_id = ?", turn_id)
    delegations.end_all(tx, turn_id, outcome)
    for message in messages:
        inbox.finish(tx, message.id, outcome)
        trail.record(tx, TrailEvent(outcome), inbox_id=message.id, turn_id=turn_id, problem=problem)
    if messages and (run := cron.find_run(tx, messages[0].key)) is not None:
        cron.end_run(tx, run, outcome)
        sessions.end_current(tx, str(run.key), reason="job ended")


def is_over(tx: Transaction, turn_id: str) -> bool:
    return tx.exists("SELECT 1 FROM turns WHERE id = ? AND state = 'done'", turn_id)


def count_running(tx: Transaction) -> int:
    return tx.count(f"SELECT COUNT(*) FROM turns WHERE {TURN_OPEN}")  # noqa: S608


def is_running(tx: Transaction, session_key: str) -> bool:
    return tx.exists(f"SELECT 1 FROM turns WHERE session_key = ? AND {TURN_OPEN}", session_key)  # noqa: S608


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
