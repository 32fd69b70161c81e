"""Accepts messages: checks access, duplicates and limits, and stores them. Only then is the platform told."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import structlog

from gateway.approvals import decisions
from gateway.changes import Changes
from gateway.clock import now_ms
from gateway.commands.registry import parse
from gateway.errors import GatewayStopping, StoreUnavailable
from gateway.inbound.rate_limit import SenderLimits
from gateway.messages import PROGRAMS, Cursor, InboundMessage, Quote, Text
from gateway.policies.access import UNKNOWN, Decision, Role, Rules, SenderStatus, decide
from gateway.policies.pairing import PairingLimits, holds_code, without_code
from gateway.store import chats, inbox, outbox, pairing, people, trail, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.inbox import BusyMode, is_rest
from tools.content import encodable

log = structlog.get_logger()

_NOTED = ("edit", "deletion", "reaction")
_DAY_MS = 24 * 3_600_000
# A missing or wrong type, an integer beyond 64 bits, half a surrogate pair.
_UNSTORABLE = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.DataError, OverflowError, UnicodeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakePolicy:
    """The settings for queueing and grouping accepted messages."""

    max_waiting_per_session: int = 20
    rest_of_message_ms: int = 800  # how long the other pictures of an album, or the rest of a cut text, may take
    group_scope_per_user: bool = False
    free_response_chats: frozenset[str] = frozenset()
    overheard_messages: int = 20
    busy_mode: BusyMode = "steer"


@dataclass(slots=True, kw_only=True)
class Intake:
    db: Database
    rules: Rules
    changes: Changes = field(default_factory=Changes)
    policy: IntakePolicy = field(default_factory=IntakePolicy)
    limits: SenderLimits = field(default_factory=lambda: SenderLimits(per_minute=0))
    pairing_limits: PairingLimits = field(default_factory=PairingLimits)
    handle_unkept: Callable[[Transaction, int, str], None] = lambda tx, inbox_id, said: None
    closed: bool = False

    async def accept(
        self, messages: Sequence[InboundMessage], cursor: Cursor | None, *, account: str, local: bool
    ) -> None:
        """Store the messages that may come in, and the cursor, in one transaction; return once they are durable.

        Raises StoreUnavailable or GatewayStopping when nothing was stored: the platform must not be told otherwise.
        """
        if self.closed:
            raise GatewayStopping("Hermes is stopping and accepts no messages until it is restarted.")
        read = [self._normalise(message) for message in messages]
        # Requests of programs were counted earlier, before they were read.
        is_counted = not local and account != PROGRAMS
        counted = [self._count(account, message) if is_counted else (True, "") for message in read]

        def unit(tx: Transaction, *, one_by_one: bool = False) -> bool:
            spoke = []
            for message, (within_rate, _) in zip(read, counted, strict=True):
                take = partial(self._take, tx, message, local=local, within_rate=within_rate)
                spoke.append(_take_or_skip(tx, message, take) if one_by_one else take())
            if cursor is not None:
                chats.move_cursor(tx, account, cursor)
            return any(spoke)

        self.changes.notify("inbox")  # before the write: the turn then begins in the same commit
        try:
            try:
                spoke = await self.db.write(unit)
            except _UNSTORABLE:  # one message must not keep out the others, nor be offered again for ever
                self.changes.notify("inbox")
                spoke = await self.db.write(partial(unit, one_by_one=True))
        except StoreUnavailable:
            for message, (_, counted_as) in zip(read, counted, strict=True):
                if counted_as:  # the platform offers them again, and they would count twice
                    self.limits.give_back(account, counted_as, seconds_ago=_seconds_ago(message))
            raise
        if spoke:
            self.changes.notify("outbox", "decisions", "processes")

    async def serves(self, message: InboundMessage) -> bool:
        """Return whether the sender may talk to us now. Stores nothing."""
        standing = await self.db.read(lambda tx: _read_status(tx, message))
        return decide(message, self.rules, standing).role is not None

    def role_of(self, tx: Transaction, message: InboundMessage, *, local: bool) -> Role | None:
        """Return the role that the sender has now; None when they may not talk to us."""
        standing = UNKNOWN if local else _read_status(tx, message)
        return decide(message, self.rules, standing, local=local).role

    def _normalise(self, message: InboundMessage) -> InboundMessage:
        key = message.key
        if self.policy.group_scope_per_user and key.kind in ("group", "channel") and not key.thread:
            message = replace(message, key=replace(key, user=message.sender.id))
        is_forwarded = any(isinstance(part, Quote) and part.how == "forwarded from" for part in message.parts)
        may_be_command = message.kind == "message" and message.addressed and not key.is_of_program
        is_command = may_be_command and not is_forwarded and parse(message.said)
        return replace(message, kind="command") if is_command else message

    def _count(self, account: str, message: InboundMessage) -> tuple[bool, str]:
        """Count a message; return whether it is within the rate limit, and the name under which it counts."""
        who = self._rate_key(message)
        if not who or _is_stop(message) or self.limits.is_rest(account, who, more_follows=message.more_follows):
            return True, ""
        if not self.limits.allow(account, who, seconds_ago=_seconds_ago(message)):
            return False, ""
        if message.more_follows and self.limits.per_minute:
            self.limits.expect_rest(account, who)
        return True, who

    def _rate_key(self, message: InboundMessage) -> str:
        """Return the name under which a message counts; empty when it does not.

        Messages to others in a group do not count, and edits and reactions there count apart: most are about messages
        that we never took.
        """
        sender_id = message.sender.id
        if message.kind in _NOTED and not message.addressed:
            return f"{sender_id} in passing"
        return sender_id if self._is_for_us(message) else ""

    def _take(self, tx: Transaction, message: InboundMessage, *, local: bool, within_rate: bool) -> bool:
        """Store one message, or refuse it; return whether there is something to send at once."""
        standing = UNKNOWN if local else _read_status(tx, message)
        decision = decide(message, self.rules, standing, local=local)
        # Only the first part of an album or of a split text mentions us.
        if not self._is_for_us(message) and not is_rest(tx, message):
            if decision.role is not None:
                self._overhear(tx, message, standing)
            return False
        is_program = message.key.is_of_program
        if within_rate and decision.role in (None, "guest") and not is_program and self._redeem_invite(tx, message):
            return True
        if decision.role is None:  # nothing is stored of what strangers say to each other
            return within_rate and message.addressed and self._refuse_stranger(tx, message, decision)
        return self._admit(tx, message, decision.role, within_rate=within_rate)

    def _refuse_stranger(self, tx: Transaction, message: InboundMessage, decision: Decision) -> bool:
        if decision.verdict == "pair" and pairing.ask(tx, message, self.pairing_limits):
            return True
        trail.record_refusal(
            tx,
            account=message.key.account_name,
            chat=message.key.chat,
            message_id=message.message_id,
            sender_id=message.sender.id,
            reason=decision.reason,
        )
        return False

    def _redeem_invite(self, tx: Transaction, message: InboundMessage) -> bool:
        role = pairing.redeem(tx, message, self.pairing_limits)
        if role is not None:
            # Stored without its text, which is a secret, so that a second copy is recognised.
            person_id = people.recognise(tx, message.key.account_name, message.sender, role=role)
            inbox.insert(tx, replace(message, parts=()), person_id=person_id, role=role, refused=inbox.Outcome.INVITE)
        return role is not None

    def _return_invite(self, tx: Transaction, message: InboundMessage, person_id: str, role: Role) -> bool:
        taken = inbox.insert(
            tx, replace(message, parts=()), person_id=person_id, role=role, refused=inbox.Outcome.INVITE
        )
        if taken is not None:
            text = "That is an invite, but you already have access. I did not store it; somebody else can still use it."
            outbox.add_notice(tx, message.address, text, topic="invite")
        return taken is not None

    def _is_for_us(self, message: InboundMessage) -> bool:
        if message.kind in _NOTED:
            return True  # checked later: it only counts when it is about a message that we took
        return message.addressed or bool(message.key.place_names & self.policy.free_response_chats)

    def _overhear(self, tx: Transaction, message: InboundMessage, standing: SenderStatus) -> None:
        allowed = standing.chat_allowed or message.key.place_names & self.rules.allowed_chats
        if allowed and message.kind == "message" and self.policy.overheard_messages:
            chats.add_overheard(tx, message, keep=self.policy.overheard_messages)

    def _admit(self, tx: Transaction, message: InboundMessage, role: Role, *, within_rate: bool) -> bool:
        if message.kind in _NOTED:
            if within_rate:
                self._note(tx, message, role)
            return False
        person_id = people.recognise(tx, message.key.account_name, message.sender, role=role)
        # A guest's invite was redeemed before.
        is_program = message.key.is_of_program
        is_checked = within_rate and role != "guest" and not is_program
        if is_checked and pairing.is_open_invite(tx, message, self.pairing_limits):
            return self._return_invite(tx, message, person_id, role)
        may_decide = within_rate and message.kind == "message" and not is_program
        heard = decisions.read_answer(tx, message, role) if may_decide else ""
        if heard == "answer":
            inbox.insert(tx, message, person_id=person_id, role=role, refused=inbox.Outcome.DECISION)
            return True
        refused = self._refusal(tx, message, within_rate=within_rate)
        wait_ms = self.policy.rest_of_message_ms if message.more_follows else 0
        is_secret = message.kind == "command" and holds_code(message.said)
        kept = replace(message, parts=(Text(text=without_code(message.said)),)) if is_secret else message
        busy = self.policy.busy_mode
        taken = inbox.insert(tx, kept, person_id=person_id, role=role, refused=refused, wait_ms=wait_ms, busy=busy)
        if taken is None:
            return False
        if refused:
            return self._explain_refusal(tx, message, refused)
        if busy == "interrupt" and message.kind == "message" and not is_program:
            turns.request_interrupt(tx, taken)
        if is_secret:
            self.handle_unkept(tx, taken, message.said)
        return is_secret or bool(heard)

    def _refusal(self, tx: Transaction, message: InboundMessage, *, within_rate: bool) -> inbox.Outcome | None:
        """Return why a message of somebody with access is not taken; None when it is."""
        key, most = str(message.key), self.policy.max_waiting_per_session
        if not within_rate:
            return inbox.Outcome.TOO_FAST
        if message.kind == "message":
            return inbox.Outcome.FULL if inbox.count_waiting(tx, key) >= most else None
        ready = inbox.read_waiting_commands(tx, key)
        if _is_stop(message):
            wanted = _stops(message.said)
            return inbox.Outcome.STOPPING if any(_stops(words) in (wanted, "all") for words in ready) else None
        return inbox.Outcome.FULL if len(ready) >= most else None

    def _note(self, tx: Transaction, message: InboundMessage, role: Role) -> None:
        """Apply an edit or a deletion to a message that still waits; note it for the next turn otherwise."""
        if inbox.is_outdated(tx, message) or (message.kind == "edit" and parse(message.said)):
            return  # a command has already run; its new text may be a secret
        outcome: inbox.Outcome | None = None
        if message.kind == "edit" and inbox.rewrite_waiting(tx, message):
            outcome = inbox.Outcome.REPLACED_TEXT
        elif message.kind == "deletion" and inbox.delete_waiting(tx, message):
            outcome = inbox.Outcome.TOOK_BACK
        elif not inbox.knows_subject(tx, message):
            return
        elif inbox.count_noted(tx, str(message.key)) >= self.policy.max_waiting_per_session:
            outcome = inbox.Outcome.FULL
        person_id = people.recognise(tx, message.key.account_name, message.sender, role=role)
        inbox.insert(tx, message, person_id=person_id, role=role, refused=outcome)

    def _explain_refusal(self, tx: Transaction, message: InboundMessage, why: inbox.Outcome) -> bool:
        if why == inbox.Outcome.STOPPING:
            return False  # the first /stop gets the answer
        if inbox.was_refused_before(tx, message, why):
            return False
        if why == inbox.Outcome.FULL:
            text = (
                f"{self.policy.max_waiting_per_session} messages are already waiting, so I take no more until some are "
                "answered. Send this one again later, or use /stop to end what is running."
            )
        else:
            text = (
                f"That was more than {self.limits.per_minute} messages in a minute, so I did not take this one, nor "
                "any that follow now. Wait a minute and send them again."
            )
        outbox.add_notice(tx, message.address, text, topic=why)
        return True


def _take_or_skip(tx: Transaction, message: InboundMessage, take: Callable[[], bool]) -> bool:
    """Take a message; if it has a value that the store cannot hold, skip it, trail it and tell the operator."""
    outcome = tx.attempt(take)
    if not isinstance(outcome, Exception):
        return outcome
    if not isinstance(outcome, _UNSTORABLE):
        raise outcome
    account, problem = message.key.account_name, type(outcome).__name__
    log.error("message skipped", account=account, problem=problem)
    trail.record_refusal(
        tx,
        account=account,
        chat=encodable(str(message.key.chat)),
        message_id=encodable(str(message.message_id)),
        sender_id=encodable(str(message.sender.id)),
        reason=f"cannot be stored: {problem}",
    )
    outbox.notify_operator(
        tx, f"I skipped a message on {account}, because it cannot be stored. Run `hermes trace refused` to see which."
    )
    return False


def _read_status(tx: Transaction, message: InboundMessage) -> SenderStatus:
    key = message.key
    return people.read_status(tx, key.account_name, message.sender.id, key.chat, key.within)


def _seconds_ago(message: InboundMessage) -> float:
    return max(-_DAY_MS, min(now_ms() - message.sent_ms, _DAY_MS)) / 1000


def _is_stop(message: InboundMessage) -> bool:
    """Return whether a message is /stop, which no rate limit holds back."""
    return message.kind == "command" and bool(_stops(message.said))


def _stops(said: str) -> Literal["", "turn", "all"]:
    """Return what a /stop ends; empty for any other text."""
    name, arguments = parse(said) or ("", "")
    if name != "stop":
        return ""
    return "all" if arguments.lower() == "all" else "turn"
