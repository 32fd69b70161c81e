"""A message that may or may not have arrived: what each kind of platform allows."""

import asyncio

import pytest

from gateway.errors import DeliveryInDoubt, PlatformUnavailable
from gateway.messages import OutboundMessage, Receipt
from gateway.outbound.delivery import DeliveryLimits
from gateway.platforms.base import Features, Resend
from gateway.store import outbox
from gateway.store.db.database import Database
from tests.gateway.outbound.test_delivery import deliver, delivering, fail_with, put
from tests.gateway.scene import Pigeon, rows, soon

BROKEN_LINE = "The connection broke while sending my answer, and I cannot tell whether it arrived."
RESTARTED = "I was restarted while sending my answer, and I cannot tell whether it arrived."
DOUBTS: list[BaseException] = [DeliveryInDoubt("no answer"), TimeoutError(), asyncio.CancelledError()]


def platform_in_doubt(resend: Resend, *errors: BaseException) -> Pigeon:
    return Pigeon(features=Features(resend=resend), on_send=fail_with(*errors))


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: type(doubt).__name__)
async def test_safe_is_sent_again_under_the_same_key(db: Database, doubt: BaseException) -> None:
    platform = platform_in_doubt("safe", doubt)
    await put(db, "hello")
    await deliver(db, platform)
    [(key, state, attempts)] = await rows(db, "SELECT key, state, attempts FROM outbox")
    assert (state, attempts) == ("sent", 2)
    assert [message.key for message in platform.sent] == [key]


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: type(doubt).__name__)
async def test_never_is_left_and_the_chat_told(db: Database, doubt: BaseException) -> None:
    platform = platform_in_doubt("never", doubt)
    await put(db, "hello")
    await deliver(db, platform)
    assert platform.texts == [BROKEN_LINE]
    assert await rows(db, "SELECT state FROM outbox ORDER BY id") == [("in_doubt",), ("sent",)]


async def test_lookup_that_finds_it_sends_nothing(db: Database) -> None:
    platform = platform_in_doubt("lookup", DeliveryInDoubt("no answer"))
    platform.on_find = lambda message: Receipt(message_id="there all along")
    await put(db, "hello")
    await deliver(db, platform)
    assert platform.sent == []
    assert await rows(db, "SELECT state, receipt FROM outbox") == [("sent", "there all along")]


async def test_lookup_that_finds_nothing_sends(db: Database) -> None:
    platform = platform_in_doubt("lookup", DeliveryInDoubt("no answer"))
    await put(db, "hello")
    await deliver(db, platform)
    assert platform.texts == ["hello"]


async def test_a_lookup_that_fails_leaves_the_doubt(db: Database) -> None:
    """After it a plain send would be a blind resend."""
    platform = platform_in_doubt("lookup", DeliveryInDoubt("no answer"))
    lookups = 0

    def find(message: OutboundMessage) -> Receipt | None:
        nonlocal lookups
        lookups += 1
        if lookups == 1:
            raise PlatformUnavailable("down")
        return Receipt(message_id="there")

    platform.on_find = find
    await put(db, "hello")
    await deliver(db, platform)
    assert platform.sent == []
    assert lookups == 2


async def test_nothing_is_looked_up_that_was_never_tried(db: Database) -> None:
    def find(message: OutboundMessage) -> Receipt | None:
        raise AssertionError("asked without need")

    platform = Pigeon(features=Features(resend="lookup"), on_find=find)
    await put(db, "hello")
    await deliver(db, platform)
    assert platform.texts == ["hello"]


@pytest.mark.parametrize(("resend", "arrives"), [("safe", ["hello"]), ("lookup", ["hello"]), ("never", [RESTARTED])])
async def test_what_a_crash_cut_off_is_in_doubt(db: Database, resend: Resend, arrives: list[str]) -> None:
    await put(db, "hello")
    await db.write(lambda tx: outbox.claim(tx, "pigeon", 10))  # and that process died
    await db.write(outbox.after_crash)
    platform = Pigeon(features=Features(resend=resend))
    await deliver(db, platform)
    assert platform.texts == arrives


async def test_a_send_without_an_end_is_in_doubt_after_its_time(db: Database) -> None:
    async def hang(message: OutboundMessage) -> None:
        if message.text == "hello":
            await asyncio.Event().wait()

    platform = Pigeon(on_send=hang)
    await put(db, "hello")
    await deliver(db, platform, limits=DeliveryLimits(send_timeout_seconds=0.02))
    assert platform.texts == [BROKEN_LINE]


async def test_the_end_of_the_gateway_leaves_what_is_being_sent_to_the_next(db: Database) -> None:
    sending = asyncio.Event()

    async def hang(message: OutboundMessage) -> None:
        sending.set()
        await asyncio.Event().wait()

    await put(db, "hello")
    async with delivering(db, Pigeon(features=Features(resend="safe"), on_send=hang)) as delivery:
        delivery.wake()
        await soon(sending.wait())
    assert await rows(db, "SELECT state FROM outbox") == [("sending",)]
    await db.write(outbox.after_crash)
    platform = Pigeon(features=Features(resend="safe"))
    await deliver(db, platform)
    assert platform.texts == ["hello"]
