"""The only door in: who may speak, seen before, room for it, written down. Then, and only then, taken."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from gateway.access import Rules, decide
from gateway.commands.registry import parse
from gateway.errors import GatewayStopping
from gateway.messages import Cursor, InboundMessage
from gateway.store import inbox, outbox, people, trail
from gateway.store.connection import Transaction
from gateway.store.database import Database

log = structlog.get_logger()

_FULL = "queue full"


@dataclass(slots=True)
class Intake:
    db: Database
    rules: Rules
    max_waiting_per_session: int
    wake: Callable[[], None]
    closed: bool = False

    async def accept(
        self, messages: Sequence[InboundMessage], cursor: Cursor | None, *, account: str, local: bool
    ) -> None:
        """Returns once everything that is let in is durable, the cursor with it, in one transaction.

        Raises StoreUnavailable or GatewayStopping when nothing was taken: the platform must not be told otherwise.
        """
        if self.closed:
            raise GatewayStopping("Hermes is stopping and takes nothing more; it will be taken after the restart.")
        read = [_as_command(message) for message in messages]

        def unit(tx: Transaction) -> None:
            for message in read:
                self._take(tx, message, local)
            if cursor is not None:
                inbox.set_cursor(tx, account, cursor)

        await self.db.write(unit)
        self.wake()

    def _take(self, tx: Transaction, message: InboundMessage, local: bool) -> None:
        decision = decide(message, self.rules, local=local)
        account, chat = message.key.account_name, message.key.chat
        if decision.role is None:
            trail.record_refusal(tx, account=account, chat=chat, sender_id=message.sender.id, reason=decision.reason)
            return
        person_id = people.recognise(tx, account, message.sender, role=decision.role)
        full = message.kind == "message" and inbox.waiting(tx, str(message.key)) >= self.max_waiting_per_session
        taken = inbox.insert(tx, message, person_id=person_id, role=decision.role, refused=_FULL if full else "")
        if taken is not None and full:
            self._say_full(tx, message)

    def _say_full(self, tx: Transaction, message: InboundMessage) -> None:
        if not inbox.said_full_already(tx, str(message.key), _FULL):
            text = (
                f"{self.max_waiting_per_session} messages are waiting already, so this one and any more until then "
                "are not taken. Please send them again later, or /stop what is running."
            )
            outbox.add_notice(tx, message.address, text, topic=_FULL)


def _as_command(message: InboundMessage) -> InboundMessage:
    return replace(message, kind="command") if parse(message.text) else message
