"""The table of slash commands: what there is, who may use it where, and how a text is read as one.

A command is a plain function over the open transaction: what it changes, its answer and the end of its
inbox row are one commit, so a crash never leaves a command half done or done twice.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from difflib import get_close_matches
from typing import Literal, Protocol

from gateway.messages import Choice, Media, Part, SessionKey
from gateway.policies.access import Role
from gateway.store.db.connection import Transaction
from gateway.store.people import RoleOf

Place = Literal["chat", "cli"]
CHAT_ONLY: frozenset[Place] = frozenset({"chat"})
CLI_ONLY: frozenset[Place] = frozenset({"cli"})

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
    person_id: str | None = None
    message_id: str = ""
    about: str = ""  # the message it replies to, or whose button was pressed
    role_of: RoleOf = find_no_role  # of whoever else it is about
    processes_of: str = ""  # the session whose background processes are meant, when it is not its own

    @property
    def is_owners_own(self) -> bool:
        """Return whether an owner is alone here, so that nobody else reads along or shares what is chosen."""
        return self.role == "owner" and self.key.is_private

    @property
    def is_guest_in_group(self) -> bool:
        return self.role == "guest" and not self.key.is_private


class Preparation(Protocol):
    """Something that a command reads and that must be fetched first, since a transaction cannot wait for a network."""

    def is_ready(self) -> bool: ...

    def request(self) -> None:
        """Ask for it, from any thread, without waiting."""

    async def refresh(self) -> None:
        """Fetch it now, and return when it is there or failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStart:
    """A turn that a command begins in the name of its sender."""

    parts: tuple[Part, ...]
    call: str = ""  # the tool call that it makes instead of asking the model: JSON
    task: str = ""  # set when it runs in the background, beside the conversation


@dataclass(frozen=True, slots=True)
class CommandReply:
    text: str  # empty: nothing is said
    _: KW_ONLY
    choices: tuple[Choice, ...] = ()
    refused: bool = False  # the command was not run
    in_place: bool = False  # takes the place of the message whose button was pressed
    compress_to: int = 0  # at the terminal: tokens to which the conversation must now be shortened
    files: tuple[Media, ...] = ()  # sent after the text
    starts: TurnStart | None = None
    restarts: bool = False  # the gateway restarts once this is committed


Answer = CommandReply | str  # a text alone is most of them
Run = Callable[[Transaction, CommandCall], Answer]
"""Carries out a command or what a button says."""


@dataclass(frozen=True, slots=True)
class CommandSpec:
    name: str
    category: Literal["Session", "Agent", "Access", "Help"]
    description: str
    run: Run
    argument_hint: str = ""
    _: KW_ONLY
    aliases: tuple[str, ...] = ()
    places: frozenset[Place] = CHAT_ONLY | CLI_ONLY
    owners_only: bool = False
    for_guests: bool = True
    listed: bool = True  # in help and menus
    needs: Preparation | None = None  # fetched before it runs

    def may_be_used(self, role: Role, place: Place) -> bool:
        return place in self.places and (
            role == "owner" or (not self.owners_only and (role != "guest" or self.for_guests))
        )


def as_reply(said: Answer) -> CommandReply:
    return CommandReply(said) if isinstance(said, str) else said


def parse(text: str) -> tuple[str, str] | None:
    """Name and arguments if the text is a command; a text that is just "stop" or "cancel" is one."""
    text = text.strip()
    if text.lower() in _STOP_WORDS:
        return "stop", ""
    found = _COMMAND.fullmatch(text)
    return (found[1].lower(), (found[2] or "").strip()) if found else None


class Commands:
    """The commands by name. `find_more` finds those that come and go while the gateway runs, such as skills."""

    def __init__(
        self,
        specs: Iterable[CommandSpec],
        find_more: Callable[[str], CommandSpec | None] = lambda name: None,
        buttons: Mapping[str, Run] | None = None,
    ) -> None:
        """`buttons` are what a press does, by the name that the button carries before its argument."""
        self._buttons = buttons or {}
        self.specs: Sequence[CommandSpec] = tuple(specs)
        self._find_more = find_more
        self._by_name = {name: spec for spec in self.specs for name in (spec.name, *spec.aliases)}

    def run(self, tx: Transaction, call: CommandCall) -> CommandReply:
        spec = self.find(call.name)
        if spec is None or (call.role == "guest" and not spec.for_guests):
            return CommandReply(self.describe_unknown(call), refused=True)
        if spec.owners_only and call.role != "owner":
            return CommandReply(f"/{spec.name} is not available to you here. /help lists what is.", refused=True)
        if call.place not in spec.places:
            where = "in the terminal, not in chats" if call.place == "chat" else "in chats, not in the terminal"
            return CommandReply(f"/{spec.name} works {where}. /help lists what works here.", refused=True)
        return as_reply(spec.run(tx, call))

    def press(self, tx: Transaction, call: CommandCall) -> CommandReply:
        """Do what a button says. Whoever presses it has passed the same gate as a message."""
        if call.name not in self._buttons:  # not in place: nobody can say whose message it stands below
            return CommandReply("This button is from an older version and no longer works.")
        return as_reply(self._buttons[call.name](tx, call))

    def find(self, name: str) -> CommandSpec | None:
        return self._by_name.get(name) or self._find_more(name)

    def available(self, role: Role, place: Place) -> list[CommandSpec]:
        return [spec for spec in self.specs if spec.listed and spec.may_be_used(role, place)]

    def describe_unknown(self, call: CommandCall) -> str:
        names = [spec.name for spec in self.available(call.role, call.place)]
        begun = [name for name in names if name.startswith(call.name)]
        near = begun[:3] or get_close_matches(call.name, names, n=3)
        hint = f"Did you mean {' or '.join(f'/{name}' for name in near)}?" if near else "/help lists all commands."
        return f"There is no command /{call.name}. {hint}"
