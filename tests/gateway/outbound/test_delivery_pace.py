"""The way out keeps to the platform's pace, and nobody waits for a chat that must."""

import asyncio

from gateway.messages import OutboundMessage
from gateway.platforms.rate_limit import Rate, RateLimits
from gateway.store.db.database import Database
from tests.gateway.outbound.test_delivery import deliver, delivering, put
from tests.gateway.scene import Pigeon, rows, soon

LONG = 1_000.0


async def test_a_chat_at_its_limit_holds_up_no_other(db: Database) -> None:
    platform = Pigeon(rate_limits=RateLimits(per_chat=Rate(count=2, seconds=LONG)))
    await put(db, *(f"home {n}" for n in range(5)))
    for number in range(5):
        await put(db, "hello", chat=f"chat {number}")
    await deliver(db, platform)
    assert sorted(platform.texts) == ["hello"] * 5 + ["home 0", "home 1"]
    assert await rows(db, "SELECT DISTINCT attempts FROM outbox WHERE state = 'ready'") == [(0,)]  # not even tried


async def test_a_chat_the_platform_wants_left_alone_is_left_alone(db: Database) -> None:
    platform = Pigeon()
    platform.rate_limits.pause("home", LONG)
    await put(db, "hello")
    await put(db, "hello", chat="office")
    await deliver(db, platform)
    assert [message.address.chat for message in platform.sent] == ["office"]


async def test_a_crowd_of_resting_chats_does_not_use_up_the_places(db: Database) -> None:
    platform = Pigeon()
    for number in range(50):
        await put(db, "hello", chat=f"resting {number}")
        platform.rate_limits.pause(f"resting {number}", LONG)
    await put(db, "hello", chat="office")
    await deliver(db, platform)
    assert [message.address.chat for message in platform.sent] == ["office"]


async def test_what_had_to_wait_goes_by_itself_in_order(db: Database) -> None:
    platform = Pigeon(rate_limits=RateLimits(per_chat=Rate(count=1, seconds=0.02)))
    await put(db, "one", "two", "three")
    async with delivering(db, platform):
        assert [(await soon(platform.arrived.get())).text for _ in range(3)] == ["one", "two", "three"]


async def test_no_more_are_taken_at_once_than_the_platform_takes_in_all(db: Database) -> None:
    platform = Pigeon(rate_limits=RateLimits(overall=Rate(count=3, seconds=LONG)))
    for number in range(10):
        await put(db, "hello", chat=f"chat {number}")
    async with delivering(db, platform):
        for _ in range(3):
            await soon(platform.arrived.get())
    assert len(platform.sent) == 3
    assert await rows(db, "SELECT COUNT(*) FROM outbox WHERE state = 'ready' AND attempts = 0") == [(7,)]


async def test_all_of_it_goes_in_time_when_the_platform_takes_few_at_once(db: Database) -> None:
    platform = Pigeon(rate_limits=RateLimits(overall=Rate(count=3, seconds=0.02)))
    for number in range(10):
        await put(db, "hello", chat=f"chat {number}")
    await deliver(db, platform)  # a stop waits for the rest, since it is due
    assert len(platform.sent) == 10


async def test_a_failed_try_counts_as_well(db: Database) -> None:
    tried = asyncio.Event()

    async def choke(message: OutboundMessage) -> None:
        tried.set()
        raise ZeroDivisionError

    platform = Pigeon(rate_limits=RateLimits(per_chat=Rate(count=1, seconds=LONG)), on_send=choke)
    await put(db, "one", "two")
    await deliver(db, platform)
    assert await rows(db, "SELECT attempts FROM outbox WHERE kind = 'answer' ORDER BY id") == [(1,), (0,)]
