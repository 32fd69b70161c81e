"""Carries out commands from the inbox: effect, answer and end of the row in one transaction."""

from dataclasses import dataclass
from typing import cast

import structlog

from gateway.access import Role
from gateway.commands.registry import CommandCall, CommandReply, Commands, parse
from gateway.messages import Text
from gateway.store import inbox, outbox, people, trail
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
        outbox.add(tx, row.address, [Text(text=reply.text)], answers=[row.message_id])
        inbox.finish(tx, row.id, "answered")
        trail.record(tx, "answered", inbox_id=row.id)
        return Handled(session_key=str(row.key), stops_turn=reply.stops_turn)

    def _run(self, tx: Transaction, row: Accepted) -> CommandReply:
        name, arguments = parse(row.text) or ("", "")
        role = cast(Role, people.role(tx, row.person_id))
        call = CommandCall(key=row.key, name=name, arguments=arguments, role=role, model=self.model_name)
        log.info("command", command=name, session=str(row.key))
        return self.commands.run(tx, call)
