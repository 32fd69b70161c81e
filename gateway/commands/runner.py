"""Carries out commands from the inbox: effect, answer and end of the row in one transaction."""

from dataclasses import dataclass, replace
from typing import cast

import structlog

from gateway.commands.registry import CommandCall, CommandReply, Commands, TurnStart, find_no_role, parse
from gateway.messages import InboundMessage, Part, Sender, Text
from gateway.policies.access import Role
from gateway.store import inbox, media, outbox, restarts, sessions, trail
from gateway.store.db.connection import Transaction
from gateway.store.inbox import Accepted, Outcome
from gateway.store.people import RoleOf
from gateway.store.trail import TrailEvent

log = structlog.get_logger()

_LOOK_AGAIN_MS = 100  # while something is fetched for a command
_BROKEN = "Something went wrong inside Hermes, and nothing was changed. See the gateway's log."


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRunner:
    commands: Commands
    model_name: str
    owners_model: str = ""  # where it is another one in the owner's own conversations
    role_of: RoleOf = find_no_role

    def handle_next(self, tx: Transaction) -> bool:
        """Carry out the oldest waiting command; return whether one waited."""
        row = inbox.claim_command(tx)
        if row is None:
            return False
        if self._must_wait(row):
            inbox.defer(tx, row.id, _LOOK_AGAIN_MS)
        else:
            _finish(tx, row, self._run(tx, row, row.said), Outcome.ANSWERED)
        return True

    def handle_unkept(self, tx: Transaction, inbox_id: int, said: str) -> None:
        """Carry out a command whose words may not be written down, in the transaction that takes it."""
        row = inbox.get(tx, inbox_id)
        reply = tx.attempt(lambda: self._run(tx, row, said))
        if isinstance(reply, Exception):
            log.error("command failed", problem=repr(reply))  # without its words
            _finish(tx, row, CommandReply(_BROKEN), Outcome.FAILED)
        else:
            _finish(tx, row, reply, Outcome.ANSWERED)

    def _must_wait(self, row: Accepted) -> bool:
        """Return whether something that the command needs is fetched now; every fetch ends, with or without success."""
        name, _ = parse(row.said) or ("", "")
        spec = self.commands.find(name) if row.kind == "command" else None
        if spec is None or spec.needs is None or spec.needs.is_ready():
            return False
        spec.needs.request()
        return True

    def _run(self, tx: Transaction, row: Accepted, said: str) -> CommandReply:
        is_button = row.kind == "button"
        name, _, argument = said.partition(":")
        name, arguments = (name, argument) if is_button else (parse(said) or ("", ""))
        is_owners = row.role == "owner" and row.key.is_private
        call = CommandCall(
            key=row.key,
            name=name,
            arguments=arguments,
            role=cast(Role, row.role),
            model=(is_owners and self.owners_model) or self.model_name,
            sender_id=row.sender_id,
            sender_name=row.sender_name,
            person_id=row.person_id,
            message_id=row.message_id,
            about=row.about,
            role_of=self.role_of,
        )
        log.info("button" if is_button else "command", name=name, session=str(row.key))
        return self.commands.press(tx, call) if is_button else self.commands.run(tx, call)


def fail_next_command(tx: Transaction) -> None:
    """End the oldest waiting command, whose handling broke and was undone, with an apology."""
    row = inbox.claim_command(tx)
    if row is not None:
        _finish(tx, row, CommandReply(_BROKEN), Outcome.FAILED)


def _finish(tx: Transaction, row: Accepted, reply: CommandReply, outcome: Outcome) -> None:
    said: int | None = None
    parts: list[Part] = [Text(text=reply.text), *reply.files]
    media.record_parts(tx, reply.files)
    if reply.text and reply.in_place:
        said = outbox.add(tx, row.address, parts, kind="notice", choices=reply.choices, edits=row.about)
    elif reply.text and reply.starts is not None:  # the answer comes from the turn
        said = outbox.add_notice(tx, row.address, reply.text, topic="started")
    elif reply.text:
        said = outbox.add(tx, row.address, parts, answers=[row.message_id], choices=reply.choices)
    inbox.finish(tx, row.id, outcome)
    trail.record(tx, TrailEvent(outcome), inbox_id=row.id, outbox_id=said)
    if reply.starts is not None:
        _start_turn(tx, row, reply.starts)
    if reply.restarts:
        restarts.request(tx, row.id)


def _start_turn(tx: Transaction, row: Accepted, start: TurnStart) -> None:
    """Put the turn's message into the inbox, in the commit that ends the command: it is answered once, like any other.

    It has the id of the command's message, to which the answer replies.
    """
    key = replace(row.key, task=start.task)
    message = InboundMessage(
        key=key,
        message_id=row.message_id,
        sender=Sender(id=row.sender_id, name=row.sender_name),
        parts=start.parts,
        sent_ms=row.asked_ms,
    )
    if start.task:
        sessions.open_beside(tx, key)
    inbox.insert(tx, message, person_id=row.person_id, role=row.role, call=start.call)
