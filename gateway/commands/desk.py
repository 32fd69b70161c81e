"""Carries out commands from the inbox: effect, answer and end of the row in one transaction."""

from dataclasses import dataclass
from typing import Literal, cast

import structlog

from gateway.access import Role
from gateway.commands.registry import CommandCall, CommandReply, Commands, parse
from gateway.messages import Text
from gateway.store import inbox, outbox, trail
from gateway.store.connection import Transaction
from gateway.store.inbox import Accepted

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    session_key: str
    stops_turn: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDesk:
    commands: Commands
    model_name: str

    def handle_next(self, tx: Transaction) -> Handled | None:
        """The oldest waiting command; None when none waits."""
        row = inbox.claim_command(tx)
        if row is None:
            return None
        reply = self._run(tx, row)
        _finish(tx, row, reply.text, "answered")
        return Handled(session_key=str(row.key), stops_turn=reply.stops_turn)

    def _run(self, tx: Transaction, row: Accepted) -> CommandReply:
        name, arguments = parse(row.text) or ("", "")
        role = cast(Role, row.role)
        call = CommandCall(key=row.key, name=name, arguments=arguments, role=role, model=self.model_name)
        log.info("command", command=name, session=str(row.key))
        return self.commands.run(tx, call)


def fail_next_command(tx: Transaction) -> None:
    """Ends the oldest waiting command, whose handling broke and was undone, with an apology."""
    row = inbox.claim_command(tx)
    if row is not None:
        text = "Something went wrong inside Hermes, and this command did nothing. The gateway's log has the details."
        _finish(tx, row, text, "failed")


def _finish(tx: Transaction, row: Accepted, text: str, outcome: Literal["answered", "failed"]) -> None:
    outbox.add(tx, row.address, [Text(text=text)], answers=[row.message_id])
    inbox.finish(tx, row.id, outcome)
    trail.record(tx, outcome, inbox_id=row.id)
