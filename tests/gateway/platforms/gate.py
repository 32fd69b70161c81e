"""A gateway that writes down what a platform hands it, and refuses what it is told to refuse."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.messages import Cursor, InboundMessage
from gateway.platforms.all import find_spec
from gateway.platforms.base import Inlet, MenuCommand
from gateway.platforms.outgoing import Load
from gateway.platforms.spec import AccountSetup
from hermes_config.settings import Settings
from tests.gateway.scene import soon


@dataclass
class Gate:
    taken: list[InboundMessage] = field(default_factory=list)
    pages: list[list[InboundMessage]] = field(default_factory=list)
    cursors: dict[str, str] = field(default_factory=dict)
    moves: list[tuple[str, str]] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)
    strangers: set[str] = field(default_factory=set)
    heard: int = 0
    refuse_with: list[Exception] = field(default_factory=list)
    refused: int = 0
    before_accept: Callable[[], Awaitable[None]] | None = None
    on_reachable: Callable[[str], Awaitable[None]] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def inlet(self) -> Inlet:
        return Inlet(
            accept=self._accept,
            cursor=self._cursor,
            cursors=self._cursors,
            alive=self._heard,
            chat_reachable=self._reachable,
            chat_moved=self._moved,
            serves=self._serves,
        )

    async def until(self, condition: Callable[[], Any]) -> None:
        async def wait() -> None:
            while not condition():
                self.changed.clear()
                await self.changed.wait()

        await soon(wait())

    async def next_texts(self, count: int) -> list[str]:
        await self.until(lambda: len(self.taken) >= count)
        return [message.text for message in self.taken]

    async def _accept(self, messages: Sequence[InboundMessage], cursor: Cursor | None) -> None:
        if self.before_accept is not None:
            await self.before_accept()
        if self.refuse_with and messages:
            self.refused += 1
            self.changed.set()
            raise self.refuse_with.pop(0)
        self.pages.append(list(messages))
        self.taken += messages
        if cursor is not None:
            self.cursors[cursor.channel] = cursor.value
        self.changed.set()

    async def _cursor(self, channel: str) -> str:
        return self.cursors.get(channel, "")

    async def _cursors(self) -> dict[str, str]:
        return dict(self.cursors)

    async def _reachable(self, chat: str) -> None:
        self.reached.append(chat)
        self.changed.set()
        if self.on_reachable is not None:
            await self.on_reachable(chat)

    async def _serves(self, message: InboundMessage) -> bool:
        return message.sender.id not in self.strangers

    async def _moved(self, old: str, new: str) -> None:
        self.moves.append((old, new))
        self.changed.set()

    def _heard(self) -> None:
        self.heard += 1
        self.changed.set()


def setup_of(
    account: str, *tokens: str, commands: Sequence[MenuCommand] = (), load: Load | None = None
) -> AccountSetup:
    return AccountSetup(account=account, socket_path=Path(), tokens=tokens, commands=commands, load=load)


def build(account: str, *tokens: str) -> Any:
    """Build the platform of an account as the settings have it by default."""
    spec = find_spec(account)
    return spec.build(setup_of(account, *tokens), **dict(getattr(Settings().platforms, spec.name)))
