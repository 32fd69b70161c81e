"""Answers over the socket: to the right listener, acked, and offered again when they were not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.errors import DeliveryInDoubt, PlatformUnavailable
from gateway.messages import Address, OutboundMessage, Text
from gateway.outbound.delivery import Delivery, DeliveryLimits
from gateway.platforms import socket as socket_module
from gateway.platforms.socket import SocketPlatform
from gateway.store import outbox
from gateway.store.db.database import Database
from hermes_config.redaction import Redactor
from tests.gateway.platforms.client import Client, connect
from tests.gateway.platforms.gate import Gate
from tests.gateway.platforms.test_socket import serving
from tests.gateway.scene import rows, soon


def answer(text: str = "hi", *, key: str = "k1", chat: str = "main") -> OutboundMessage:
    address = Address(account="socket", chat=chat, reply_to="1")
    return OutboundMessage(key=key, address=address, parts=(Text(text=text),), answers=("1",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hermes.sock"


@asynccontextmanager
async def listener(path: Path) -> AsyncIterator[Client]:
    async with connect(path) as client:
        await client.write(type="listen", chat="main")
        await client.ask(type="?")  # answered only after the line before
        yield client


async def test_an_answer_is_delivered_when_it_is_acked(path: Path) -> None:
    gate, platform = Gate(), SocketPlatform(path)
    async with serving(platform, gate), listener(path) as client:
        sending = asyncio.create_task(platform.send(answer("hi ü")))
        assert await client.read() == {
            "type": "message",
            "key": "k1",
            "chat": "main",
            "text": "hi ü",
            "reply_to": "1",
            "answers": ["1"],
            "notify": True,
        }
        assert not sending.done()
        await client.write(type="ack", key="unknown")
        await client.write(type="ack", key="k1")
        await client.write(type="ack", key="k1")
        assert (await soon(sending)).message_id == "k1"
    assert gate.reached == ["main"]


@pytest.mark.parametrize("chat", [None, "other"])
async def test_nobody_listens(path: Path, chat: str | None) -> None:
    gate, platform = Gate(), SocketPlatform(path)
    async with serving(platform, gate), connect(path) as client:
        if chat:
            await client.write(type="listen", chat=chat)
            await client.ask(type="?")
        with pytest.raises(PlatformUnavailable, match="nobody listens to the chat main"):
            await platform.send(answer())


async def test_the_one_who_spoke_last_gets_the_answer(path: Path) -> None:
    gate, platform = Gate(), SocketPlatform(path)
    async with serving(platform, gate), listener(path) as first, listener(path) as second:
        sending = asyncio.create_task(platform.send(answer("to the second", key="k1")))
        assert (await second.hear())["text"] == "to the second"
        await soon(sending)
        await first.say("now me", message_id="2")
        sending = asyncio.create_task(platform.send(answer("to the first", key="k2")))
        assert (await first.hear())["text"] == "to the first"
        await soon(sending)


async def test_a_listener_that_leaves_in_the_middle_leaves_a_doubt(path: Path) -> None:
    gate, platform = Gate(), SocketPlatform(path)
    async with serving(platform, gate), listener(path) as other:
        async with listener(path) as client:
            sending = asyncio.create_task(platform.send(answer()))
            assert await client.read()
        with pytest.raises(DeliveryInDoubt, match="went away before it acked"):
            await soon(sending)
        again = asyncio.create_task(platform.send(answer()))
        assert (await other.hear())["key"] == "k1"
        await soon(again)


async def test_a_listener_that_never_acks_leaves_a_doubt(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_module, "_ACK_TIMEOUT_SECONDS", 0.02)
    gate, platform = Gate(), SocketPlatform(path)
    async with serving(platform, gate), listener(path) as client:
        with pytest.raises(DeliveryInDoubt, match="did not ack in time"):
            await soon(platform.send(answer()))
        assert await client.read()


async def test_a_listener_that_never_reads_fills_no_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_module, "_ACK_TIMEOUT_SECONDS", 0.01)
    gate, platform = Gate(), SocketPlatform(path)
    async with serving(platform, gate), listener(path):
        for _ in range(3):
            with pytest.raises((DeliveryInDoubt, PlatformUnavailable)) as caught:
                await soon(platform.send(answer("x" * 2_000_000)))
        assert "does not read" in str(caught.value)


async def test_giving_up_a_send_is_no_doubt(path: Path) -> None:
    gate, platform = Gate(), SocketPlatform(path)
    async with serving(platform, gate), listener(path) as client:
        sending = asyncio.create_task(platform.send(answer()))
        assert await client.read()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending


async def test_giving_up_wins_over_a_listener_that_leaves_at_the_same_moment(path: Path) -> None:
    gate, platform = Gate(), SocketPlatform(path)
    async with serving(platform, gate):
        async with listener(path) as client:
            sending = asyncio.create_task(platform.send(answer()))
            assert await client.read()
            sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(sending)


@pytest.mark.parametrize("listening", [False, True])
async def test_an_idle_client_does_not_hold_up_the_end(path: Path, listening: bool) -> None:
    gate, platform = Gate(), SocketPlatform(path)
    async with serving(platform, gate) as task, connect(path) as client:
        if listening:
            await client.write(type="listen", chat="main")
        await client.ask(type="?")
        task.cancel()
        await soon(asyncio.wait([task]))
        assert await client.read() is None


async def test_what_was_not_acked_is_offered_again_to_the_next_listener(path: Path, db: Database) -> None:
    """The whole way: an answer waits in the outbox until somebody takes it, and is taken once."""
    platform = SocketPlatform(path)
    delivery = Delivery(db, platform, lambda: True, DeliveryLimits(), redactor=Redactor())
    gate = Gate(on_reachable=delivery.reachable)
    await db.write(lambda tx: outbox.add(tx, Address(account="socket", chat="main"), [Text(text="done")]))
    async with serving(platform, gate), asyncio.TaskGroup() as group:
        task = group.create_task(delivery.run())
        await soon(delivery.flush())  # nobody listens yet: it waits a second or so
        async with listener(path) as client:
            first = await client.read()
        async with connect(path) as client:
            await client.write(type="listen", chat="main")
            second = await client.hear()
            assert await client.ask(type="?")
            await soon(delivery.flush())
        task.cancel()
    assert first is not None
    assert first["key"] == second["key"]
    assert await rows(db, "SELECT state, attempts FROM outbox") == [("sent", 3)]
