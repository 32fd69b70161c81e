"""A file may take longer than a text before its delivery is in doubt."""

import asyncio

import pytest

from gateway.messages import Address, Media, OutboundMessage, Part, Text
from gateway.outbound.delivery import Delivery, DeliveryLimits
from gateway.store import outbox
from gateway.store.db.database import Database
from hermes_config.redaction import Redactor
from tests.gateway.scene import ACCOUNT, Pigeon, rows, soon


@pytest.mark.parametrize(
    ("part", "state"),
    [
        (Media(kind="file", name="film.mp4", sha256="0" * 64, size_bytes=20_000_000), "sent"),
        (Text(text="words"), "in_doubt"),
    ],
    ids=["file", "words"],
)
async def test_a_large_file_is_waited_for_longer(db: Database, part: Part, state: str) -> None:
    async def slowly(message: OutboundMessage) -> None:
        done = asyncio.Event()
        asyncio.get_running_loop().call_later(0.3, done.set)
        await done.wait()

    platform = Pigeon(on_send=slowly)
    delivery = Delivery(db, platform, lambda: True, DeliveryLimits(send_timeout_seconds=0.02), redactor=Redactor())
    await db.write(lambda tx: outbox.add(tx, Address(account=ACCOUNT, chat="home"), [part]))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(delivery.run())
        await soon(delivery.flush())
        task.cancel()
    assert await rows(db, "SELECT state FROM outbox WHERE kind = 'answer'") == [(state,)]
