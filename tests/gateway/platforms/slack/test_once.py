"""With the real store between: a message is answered once, whatever Slack and the line do twice."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from gateway.outbound import delivery
from gateway.platforms.base import Inlet
from gateway.platforms.slack.platform import SlackPlatform
from gateway.store import chats
from gateway.store.db.database import Database
from playground.slack.server import SlackServer
from tests.gateway.platforms.slack.scene import Gate, bot_of
from tests.gateway.scene import PacedModel, Pigeon, Small, make_small, rows, running, soon


@asynccontextmanager
async def gateway(db: Database, platform: SlackPlatform, server: SlackServer) -> AsyncIterator[Small]:
    model = PacedModel()
    model.let("ada:\nhello", "hello", "and more")
    small = make_small(db, model, platform=cast(Pigeon, platform))
    inlet: Inlet = replace(
        Gate().inlet(),
        accept=partial(small.intake.accept, account=platform.account, local=True),
        cursors=lambda: db.read(lambda tx: chats.read_cursors(tx, platform.account)),
    )
    async with running(small):
        task = asyncio.create_task(platform.run(inlet))
        await server.wait_for_socket(2)
        try:
            yield small
        finally:
            task.cancel()
            await asyncio.wait([task])


async def sent(db: Database, small: Small) -> None:
    while await rows(db, "SELECT state FROM outbox") != [("sent",)]:
        await small.delivery.flush()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "backoff_seconds", lambda failures: 0.01)


@pytest.mark.parametrize("fault", [None, "cut_after", "cut", "fail"])
async def test_an_answer_comes_once(
    db: Database, server: SlackServer, ada: str, general: str, me: str, fault: Any
) -> None:
    if fault:
        server.faults.add(fault, "chat.postMessage")
    async with gateway(db, bot_of(server), server) as small:
        asked = server.people.send_text(general, ada, f"{me} hello")["ts"]
        await soon(sent(db, small))
        await server.wait_for(lambda: server.sockets.unacked == 0)
    assert server.texts(general, thread=asked) == ["re: ada:\nhello"]
    [(receipt, state)] = await rows(db, "SELECT receipt, state FROM outbox")
    assert (receipt, state) == (server.show(general)[-1]["ts"], "sent")


async def test_what_was_said_during_a_restart_is_answered_once(
    db: Database, server: SlackServer, ada: str, dm: str
) -> None:
    async with gateway(db, bot_of(server), server):
        server.people.send_text(dm, ada, "hello")
        await server.wait_for_text(dm, "re: hello")
    server.people.send_text(dm, ada, "and more")
    async with gateway(db, bot_of(server), server) as small:
        await server.wait_for_text(dm, "re: and more")
        await server.wait_for(lambda: server.sockets.unacked == 0)
        await small.delivery.flush()
    assert server.texts(dm) == ["re: hello", "re: and more"]
