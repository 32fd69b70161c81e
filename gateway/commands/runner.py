"""Carries out commands from the inbox: effect, answer and end of the row in one transaction."""

from dataclasses import dataclass
from typing import Literal, cast

import structlog

from gateway.commands.buttons import press
from gateway.commands.registry import CommandCall, CommandReply, Commands, find_no_role, parse
from gateway.messages import Text
from gateway.policies.access import Role
from gateway.store import inbox, outbox, trail
from gateway.store.db.connection import Transaction
from gateway.store.inbox import Accepted
from gateway.store.people import RoleOf
from gateway.store.trail import TrailEvent

log = structlog.get_logger()

_BROKEN = "Something went wrong inside Hermes, and nothing was changed. See the gateway's log."


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    session_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRunner:
    commands: Commands
    model_name: str
    role_of: RoleOf = find_no_role

    def handle_next(self, tx: Transaction) -> Handled | None:
        """The oldest waiting command; None when none waits."""
        row = inbox.claim_command(tx)
        if row is None:
            return None
        reply = self._run(tx, row, row.said)
        _finish(tx, row, reply, "answered")
        return Handled(session_key=str(row.key))

    def handle_unkept(self, tx: Transaction, inbox_id: int, said: str) -> None:
        """A command whose words may not be written down, in the transaction that takes it."""
        row = inbox.get(tx, inbox_id)
        reply = tx.attempt(lambda: self._run(tx, row, said))
        if isinstance(reply, Exception):
            log.error("command failed", problem=repr(reply))  # without its words
            _finish(tx, row, CommandReply(text=_BROKEN), "failed")
        else:
            _finish(tx, row, reply, "answered")

    def _run(self, tx: Transaction, row: Accepted, said: str) -> CommandReply:
        is_button = row.kind == "button"
        name, arguments = _read_button(said) if is_button else (parse(said) or ("", ""))
        call = CommandCall(
            key=row.key,
            name=name,
            arguments=arguments,
            role=cast(Role, row.role),
            model=self.model_name,
            sender_id=row.sender_id,
            sender_name=row.sender_name,
            about=row.about,
            role_of=self.role_of,
        )
        log.info("button" if is_button else "command", name=name, session=str(row.key))
        return press(tx, call) if is_button else self.commands.run(tx, call)


def fail_next_command(tx: Transaction) -> None:
    """Ends the oldest waiting command, whose handling broke and was undone, with an apology."""
    row = inbox.claim_command(tx)
    if row is not None:
        _finish(tx, row, CommandReply(text=_BROKEN), "failed")


def _read_button(action: str) -> tuple[str, str]:
    name, _, argument = action.partition(":")
    return name, argument


def _finish(tx: Transaction, row: Accepted, reply: CommandReply, outcome: Literal["answered", "failed"]) -> None:
    said: int | None = None
    parts = [Text(text=reply.text)]
    if reply.text and reply.in_place:
        said = outbox.add(tx, row.address, parts, kind="notice", choices=reply.choices, edits=row.about)
    elif reply.text:
        said = outbox.add(tx, row.address, parts, answers=[row.message_id], choices=reply.choices)
    inbox.finish(tx, row.id, outcome)
    trail.record(tx, TrailEvent(outcome), inbox_id=row.id, outbox_id=said)
