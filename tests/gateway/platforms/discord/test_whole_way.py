"""Discord with a real store behind it: answered once, whatever is cut."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from gateway.messages import Cursor, InboundMessage
from gateway.platforms.base import Inlet
from gateway.platforms.discord import transport
from gateway.store import chats
from gateway.store.db.database import Database
from gateway.supervisor import ConnectionStatus, keep_connected
from tests.gateway.platforms.discord.scene import Scene, a_scene, bot_of
from tests.gateway.scene import PacedModel, Pigeon, make_small, rows, running


class Echo(PacedModel):
    async def reply(self, messages: Sequence[Any], *args: Any, **options: Any) -> Any:
        self.let(messages[-1].text)
        return await super().reply(messages, *args, **options)


@asynccontextmanager
async def gateway_on(scene: Scene, db: Database) -> AsyncIterator[ConnectionStatus]:
    platform = scene.platform = bot_of(scene.server)
    small = make_small(db, Echo(), platform=cast(Pigeon, platform))

    async def accept(messages: Sequence[InboundMessage], cursor: Cursor | None) -> None:
        await small.intake.accept(messages, cursor, account="discord", local=True)

    async def cursor_of(channel: str) -> str:
        return await db.read(lambda tx: chats.read_cursor(tx, "discord", channel))

    async def all_cursors() -> dict[str, str]:
        return dict(await db.read(lambda tx: chats.read_cursors(tx, "discord")))

    async def moved(old: str, new: str) -> None: ...

    status = ConnectionStatus("discord", small.changes)
    inlet = Inlet(
        accept=accept,
        cursor=cursor_of,
        cursors=all_cursors,
        alive=status.report_alive,
        chat_reachable=small.delivery.reachable,
        chat_moved=moved,
    )
    async with running(small):
        connection = asyncio.create_task(keep_connected(platform, inlet, status))
        try:
            yield status
        finally:
            connection.cancel()
            await asyncio.wait([connection])


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setattr(transport, "_GUILDS_QUIET_SECONDS", 0.05)
    monkeypatch.setattr("gateway.supervisor.backoff_seconds", lambda failures: 0.05)
    monkeypatch.setattr("gateway.outbound.delivery.backoff_seconds", lambda failures: 0.05)
    async with a_scene() as made:
        yield made


async def test_every_message_is_answered_once_across_cuts_and_restarts(scene: Scene, db: Database) -> None:
    texts = []

    async def say(text: str) -> None:
        scene.says(text)
        texts.append(f"re: {text}")
        await scene.server.wait_for_text(scene.dm, texts[-1], seconds=10)

    async with gateway_on(scene, db):
        await scene.server.wait_for(lambda: scene.server.gateway.connected)
        await say("one")
        scene.server.gateway.cut()
        await say("two")
        scene.server.faults.add("cut_after", "createMessage")  # arrives, and we do not know
        await say("three")
        await scene.server.pause()
        await scene.server.resume()
        await say("four")
        scene.server.faults.add("duplicate", "message_create")
        await say("five")
    scene.says("six")  # while nobody listens
    async with gateway_on(scene, db):
        texts.append("re: six")
        await scene.server.wait_for_text(scene.dm, "re: six", seconds=10)
        await say("seven")
    assert scene.server.texts(scene.dm) == texts
    assert await rows(db, "SELECT count(*) FROM inbox WHERE kind = 'message'") == [(7,)]
