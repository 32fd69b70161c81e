"""The only door in: who may speak, seen before, room for it, written down. Then, and only then, taken."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gateway.approvals import decisions
from gateway.changes import Changes
from gateway.clock import now_ms
from gateway.commands.registry import parse
from gateway.errors import GatewayStopping, StoreUnavailable
from gateway.inbound.rate_limit import SenderLimits
from gateway.messages import Cursor, InboundMessage, Quote, Text
from gateway.policies.access import UNKNOWN, Decision, Role, Rules, SenderStatus, decide
from gateway.policies.pairing import holds_code, without_code
from gateway.store import chats, inbox, outbox, pairing, people, trail, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.inbox import BusyMode, is_rest

_NOTED = ("edit", "deletion", "reaction")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakePolicy:
    """How what is let in is taken."""

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
    pairing_limits: pairing.PairingLimits = field(default_factory=pairing.PairingLimits)
    handle_unkept: Callable[[Transaction, int, str], None] = lambda tx, inbox_id, said: None
    closed: bool = False

    async def accept(
        self, messages: Sequence[InboundMessage], cursor: Cursor | None, *, account: str, local: bool
    ) -> None:
        """Returns once everything that is let in is durable, the cursor with it, in one transaction.

        Raises StoreUnavailable or GatewayStopping when nothing was taken: the platform must not be told otherwise.
        """
        if self.closed:
            raise GatewayStopping("Hermes is stopping and takes nothing more; it will be taken after the restart.")
        read = [self._read(message) for message in messages]
        weighed = [(True, "") if local else self._weigh(account, message) for message in read]

        def unit(tx: Transaction) -> bool:
            spoke = [
                self._take(tx, message, local=local, in_time=is_in_time)
                for message, (is_in_time, _) in zip(read, weighed, strict=True)
            ]
            if cursor is not None:
                chats.move_cursor(tx, account, cursor)
            return any(spoke)

        self.changes.notify("inbox")  # at once: the turn is begun in the same commit, right after what it answers
        try:
            spoke = await self.db.write(unit)
        except StoreUnavailable:
            for message, (_, counted_as) in zip(read, weighed, strict=True):
                if counted_as:  # the platform brings them again: that would soon be too many
                    self.limits.give_back(account, counted_as, seconds_ago=_seconds_ago(message))
            raise
        if spoke:
            self.changes.notify("outbox", "decisions", "processes")

    async def serves(self, message: InboundMessage) -> bool:
        """Whether whoever acts here may, as things stand. Takes nothing and leaves nothing."""
        standing = await self.db.read(lambda tx: _standing(tx, message))
        return decide(message, self.rules, standing).role is not None

    def role_of(self, tx: Transaction, message: InboundMessage, *, local: bool) -> Role | None:
        """As what whoever acts here is served, as things stand; None when they are not."""
        standing = UNKNOWN if local else _standing(tx, message)
        return decide(message, self.rules, standing, local=local).role

    def _read(self, message: InboundMessage) -> InboundMessage:
        key = message.key
        if self.policy.group_scope_per_user and key.kind in ("group", "channel") and not key.thread:
            message = replace(message, key=replace(key, user=message.sender.id))
        is_forwarded = any(isinstance(part, Quote) and part.how == "forwarded from" for part in message.parts)
        is_command = message.kind == "message" and message.addressed and not is_forwarded and parse(message.said)
        return replace(message, kind="command") if is_command else message

    def _weigh(self, account: str, message: InboundMessage) -> tuple[bool, str]:
        """Whether it comes in time, and under whose name it was counted, if it was."""
        who = self._counted_as(message)
        if not who or _is_stop(message) or self.limits.is_rest(account, who, more_follows=message.more_follows):
            return True, ""
        if not self.limits.allow(account, who, seconds_ago=_seconds_ago(message)):
            return False, ""
        if message.more_follows and self.limits.per_minute:
            self.limits.expect_rest(account, who)
        return True, who

    def _counted_as(self, message: InboundMessage) -> str:
        """What people say to each other in a group takes nothing from what they may say to us, nor does what they
        change and mark there: most of that is about something we never took."""
        sender_id = message.sender.id
        if message.kind in _NOTED and not message.addressed:
            return f"{sender_id} in passing"
        return sender_id if self._is_for_us(message) else ""

    def _take(self, tx: Transaction, message: InboundMessage, *, local: bool, in_time: bool) -> bool:
        """Whether something is to be said at once."""
        standing = UNKNOWN if local else _standing(tx, message)
        decision = decide(message, self.rules, standing, local=local)
        # Of an album, and of a text that was cut, only the first piece names us.
        if not self._is_for_us(message) and not is_rest(tx, message):
            if decision.role is not None:
                self._overhear(tx, message, standing)
            return False
        if in_time and decision.role in (None, "guest") and self._came_with_invite(tx, message):
            return True
        if decision.role is None:  # what strangers say to each other leaves nothing anywhere
            return in_time and message.addressed and self._turn_away(tx, message, decision)
        return self._let_in(tx, message, decision.role, in_time=in_time)

    def _turn_away(self, tx: Transaction, message: InboundMessage, decision: Decision) -> bool:
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

    def _came_with_invite(self, tx: Transaction, message: InboundMessage) -> bool:
        role = pairing.redeem(tx, message, self.pairing_limits)
        if role is not None:
            # Without its words, which are a secret: a second copy comes from somebody who may speak.
            person_id = people.recognise(tx, message.key.account_name, message.sender, role=role)
            inbox.insert(tx, replace(message, parts=()), person_id=person_id, role=role, refused="an invite")
        return role is not None

    def _hand_back(self, tx: Transaction, message: InboundMessage, person_id: str, role: Role) -> bool:
        taken = inbox.insert(tx, replace(message, parts=()), person_id=person_id, role=role, refused="an invite")
        if taken is not None:
            text = "That is an invite, and you are in already. I have not kept it; it is still good for somebody else."
            outbox.add_notice(tx, message.address, text, topic="invite")
        return taken is not None

    def _is_for_us(self, message: InboundMessage) -> bool:
        if message.kind in _NOTED:
            return True  # counts only when it is about something that was
        return message.addressed or bool(message.key.place_names & self.policy.free_response_chats)

    def _overhear(self, tx: Transaction, message: InboundMessage, standing: SenderStatus) -> None:
        allowed = standing.chat_allowed or message.key.place_names & self.rules.allowed_chats
        if allowed and message.kind == "message" and self.policy.overheard_messages:
            chats.add(tx, message, keep=self.policy.overheard_messages)

    def _let_in(self, tx: Transaction, message: InboundMessage, role: Role, *, in_time: bool) -> bool:
        if message.kind in _NOTED:
            if in_time:
                self._note(tx, message, role)
            return False
        person_id = people.recognise(tx, message.key.account_name, message.sender, role=role)
        # A guest's was looked at before: it would have let them in.
        if in_time and role != "guest" and pairing.is_open_invite(tx, message, self.pairing_limits):
            return self._hand_back(tx, message, person_id, role)
        heard = decisions.hear(tx, message, role) if in_time and message.kind == "message" else ""
        if heard == "answer":
            inbox.insert(tx, message, person_id=person_id, role=role, refused="a decision")
            return True
        refused = self._refusal(tx, message, in_time=in_time)
        wait_ms = self.policy.rest_of_message_ms if message.more_follows else 0
        is_secret = message.kind == "command" and holds_code(message.said)
        kept = replace(message, parts=(Text(text=without_code(message.said)),)) if is_secret else message
        busy = self.policy.busy_mode
        taken = inbox.insert(tx, kept, person_id=person_id, role=role, refused=refused, wait_ms=wait_ms, busy=busy)
        if taken is None:
            return False
        if refused:
            return self._say_refused(tx, message, refused)
        if busy == "interrupt" and message.kind == "message":
            turns.request_interrupt(tx, taken)
        if is_secret:
            self.handle_unkept(tx, taken, message.said)
        return is_secret or bool(heard)

    def _refusal(self, tx: Transaction, message: InboundMessage, *, in_time: bool) -> str:
        """Why a message of somebody who may speak is not taken; empty when it is."""
        key, most = str(message.key), self.policy.max_waiting_per_session
        if not in_time:
            return inbox.TOO_FAST
        if message.kind == "message":
            return inbox.FULL if inbox.waiting(tx, key) >= most else ""
        ready = inbox.waiting_commands(tx, key)
        if _is_stop(message):
            wanted = _stops(message.said)
            return inbox.STOPPING if any(_stops(words) in (wanted, "all") for words in ready) else ""
        return inbox.FULL if len(ready) >= most else ""

    def _note(self, tx: Transaction, message: InboundMessage, role: Role) -> None:
        """Before the turn an edit replaces the words and a deletion takes them back; later both are noted."""
        if inbox.is_old_news(tx, message) or (message.kind == "edit" and parse(message.said)):
            return  # a command was carried out when it came; what it says now may be a secret
        outcome = ""
        if message.kind == "edit" and inbox.rewrite_waiting(tx, message):
            outcome = "replaced the text"
        elif message.kind == "deletion" and inbox.take_back(tx, message):
            outcome = "took it back"
        elif not inbox.knows(tx, message):
            return
        elif inbox.noted(tx, str(message.key)) >= self.policy.max_waiting_per_session:
            outcome = inbox.FULL
        person_id = people.recognise(tx, message.key.account_name, message.sender, role=role)
        inbox.insert(tx, message, person_id=person_id, role=role, refused=outcome)

    def _say_refused(self, tx: Transaction, message: InboundMessage, why: str) -> bool:
        if why == inbox.STOPPING:
            return False  # the first one is answered
        if inbox.was_refused_before(tx, message, why):
            return False
        text = (
            f"{self.policy.max_waiting_per_session} messages are waiting already, so this one and any more until then "
            "are not taken. Please send them again later, or /stop what is running."
            if why == inbox.FULL
            else f"That was more than {self.limits.per_minute} messages in a minute, so this one and any more until "
            "then are not taken. Please wait a little and send them again."
        )
        outbox.add_notice(tx, message.address, text, topic=why)
        return True


def _standing(tx: Transaction, message: InboundMessage) -> SenderStatus:
    key = message.key
    return people.standing(tx, key.account_name, message.sender.id, key.chat, key.within)


def _seconds_ago(message: InboundMessage) -> float:
    return (now_ms() - message.sent_ms) / 1000


def _is_stop(message: InboundMessage) -> bool:
    """Whoever has said too much may still say that."""
    return message.kind == "command" and bool(_stops(message.said))


def _stops(said: str) -> Literal["", "turn", "all"]:
    """What a stop ends; empty when it is none."""
    name, arguments = parse(said) or ("", "")
    if name != "stop":
        return ""
    return "all" if arguments.lower() == "all" else "turn"
