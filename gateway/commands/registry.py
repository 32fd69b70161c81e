"""The table of slash commands: what there is, who may use it where, and how a text is read as one.

A command is a plain function over the open transaction: what it changes, its answer and the end of its
inbox row are one commit, so a crash never leaves a command half done or done twice.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from gateway.messages import Choice, SessionKey
from gateway.policies.access import Role
from gateway.store.db.connection import Transaction
from gateway.store.people import RoleOf

Place = Literal["chat", "cli"]

_COMMAND = re.compile(r"/([a-z][a-z0-9_-]*)(?:@\w+)?(?:\s+(.*))?", re.IGNORECASE | re.DOTALL)
_STOP_WORDS = {"stop", "cancel"}


def find_no_role(tx: Transaction, key: SessionKey, user_id: str) -> None:
    """Where nobody knows who is served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCall:
    key: SessionKey
    name: str
    arguments: str = ""
    role: Role = "owner"
    place: Place = "chat"
    model: str = ""
    sender_id: str = ""
    sender_name: str = ""
    about: str = ""  # the message it replies to, or whose button was pressed
    role_of: RoleOf = find_no_role  # of whoever else it is about
    processes_of: str = ""  # the session whose background processes are meant, when it is not its own


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReply:
    text: str  # empty: nothing is said
    choices: tuple[Choice, ...] = ()
    refused: bool = False  # the command was not run
    in_place: bool = False  # takes the place of the message whose button was pressed


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    name: str
    description: str
    category: Literal["Session", "Agent", "Access", "Help"]
    run: Callable[[Transaction, CommandCall], CommandReply]
    aliases: tuple[str, ...] = ()
    argument_hint: str = ""
    places: frozenset[Place] = frozenset({"chat", "cli"})
    owners_only: bool = False
    listed: bool = True  # in help and menus

    def may_be_used(self, role: Role, place: Place) -> bool:
        return place in self.places and (role == "owner" or not self.owners_only)


def parse(text: str) -> tuple[str, str] | None:
    """Name and arguments if the text is a command; a text that is just "stop" or "cancel" is one."""
    text = text.strip()
    if text.lower() in _STOP_WORDS:
        return "stop", ""
    found = _COMMAND.fullmatch(text)
    return (found[1].lower(), (found[2] or "").strip()) if found else None


class Commands:
    def __init__(self, specs: Iterable[CommandSpec]) -> None:
        self.specs: Sequence[CommandSpec] = tuple(specs)
        self._by_name = {name: spec for spec in self.specs for name in (spec.name, *spec.aliases)}

    def run(self, tx: Transaction, call: CommandCall) -> CommandReply:
        spec = self._by_name.get(call.name)
        if spec is None:
            return CommandReply(text=self._unknown(call), refused=True)
        if spec.owners_only and call.role != "owner":
            return CommandReply(text=f"/{spec.name} is not available to you here. /help lists what is.", refused=True)
        if call.place not in spec.places:
            where = "in the terminal, not in chats" if call.place == "chat" else "in chats, not in the terminal"
            return CommandReply(text=f"/{spec.name} works {where}. /help lists what works here.", refused=True)
        return spec.run(tx, call)

    def available(self, role: Role, place: Place) -> list[CommandSpec]:
        return [spec for spec in self.specs if spec.listed and spec.may_be_used(role, place)]

    def _unknown(self, call: CommandCall) -> str:
        names = [spec.name for spec in self.available(call.role, call.place)]
        near = get_close_matches(call.name, names, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(f'/{name}' for name in near)}?" if near else "/help lists all commands."
        return f"There is no command /{call.name}. {hint}"
