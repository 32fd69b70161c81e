"""The way out: in order within a chat, without one chat holding up another."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import pytest

from gateway import clock
from gateway.clock import ProcessClock, now_ms
from gateway.errors import DeliveryRejected, PlatformUnavailable
from gateway.messages import Address, Media, OutboundMessage, Part, Text
from gateway.outbound.delivery import Compose, Delivery, DeliveryLimits
from gateway.store import outbox
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from hermes_config.redaction import Redactor
from tests.gateway.scene import ACCOUNT, Pigeon, locked, refused_twice, rows, set_clock_back, soon

STATES = "SELECT state FROM outbox ORDER BY id"


def address(chat: str = "home", thread: str = "") -> Address:
    return Address(account=ACCOUNT, chat=chat, thread=thread, reply_to="1")


async def put(db: Database, *texts: str, chat: str = "home", thread: str = "", age_limit_ms: int = 60_000) -> None:
    def unit(tx: Transaction) -> None:
        for text in texts:
            outbox.add(tx, address(chat, thread), [Text(text=text)], age_limit_ms=age_limit_ms)

    await db.write(unit)


@asynccontextmanager
async def delivering(
    db: Database,
    platform: Pigeon,
    *,
    limits: DeliveryLimits | None = None,
    is_connected: Callable[[], bool] = lambda: True,
    compose: Mapping[str, Compose] = MappingProxyType({}),
    redactor: Redactor | None = None,
) -> AsyncIterator[Delivery]:
    delivery = Delivery(
        db, platform, is_connected, limits or DeliveryLimits(), redactor=redactor or Redactor(), compose=compose
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(delivery.run())
        yield delivery
        task.cancel()


async def deliver(db: Database, platform: Pigeon, **options: Any) -> None:
    """Send what is due."""
    async with delivering(db, platform, **options) as delivery:
        await soon(delivery.flush())


def fail_with(*errors: BaseException) -> Callable[[OutboundMessage], Awaitable[None]]:
    """Fail once with each of the errors, then work."""
    left = list(errors)

    async def fail(message: OutboundMessage) -> None:
        if left:
            raise left.pop(0)

    return fail


async def test_a_chat_gets_its_messages_in_order(db: Database) -> None:
    platform = Pigeon()
    await put(db, *(f"text {n}" for n in range(10)))
    await deliver(db, platform)
    assert platform.texts == [f"text {n}" for n in range(10)]
    assert await rows(db, "SELECT DISTINCT state FROM outbox") == [("sent",)]
    assert await rows(db, "SELECT receipt FROM outbox ORDER BY id LIMIT 1") == [("receipt 1",)]


async def test_order_survives_a_retry(db: Database, tries: list[int]) -> None:
    platform = Pigeon(on_send=fail_with(PlatformUnavailable("down"), PlatformUnavailable("down")))
    await put(db, "one", "two")
    await deliver(db, platform)
    assert platform.texts == ["one", "two"]
    assert tries == [1, 2]


async def test_a_slow_chat_holds_up_nobody_else(db: Database) -> None:
    release = asyncio.Event()

    async def slow_at_home(message: OutboundMessage) -> None:
        if message.address.chat == "home" and not message.address.thread:
            await release.wait()

    platform = Pigeon(on_send=slow_at_home)
    await put(db, "one", "two")
    await put(db, "three", chat="office")
    await put(db, "four", thread="77")
    async with delivering(db, platform) as delivery:
        delivery.wake()
        assert {(await soon(platform.arrived.get())).text for _ in range(2)} == {"three", "four"}
        assert await rows(db, "SELECT state FROM outbox WHERE id <= 2 ORDER BY id") == [("sending",), ("ready",)]
        release.set()
        await soon(delivery.flush())
    assert platform.texts[2:] == ["one", "two"]


async def test_no_more_is_sent_at_once_than_allowed(db: Database) -> None:
    at_once, most = 0, 0
    full, release = asyncio.Event(), asyncio.Event()

    async def count(message: OutboundMessage) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        if at_once == 3:
            full.set()
        await release.wait()
        at_once -= 1

    platform = Pigeon(on_send=count)
    for n in range(10):
        await put(db, "hello", chat=f"chat {n}")
    async with delivering(db, platform, limits=DeliveryLimits(sends_at_once=3)) as delivery:
        delivery.wake()
        await soon(full.wait())
        release.set()
        await soon(delivery.flush())
    assert most == 3
    assert len(platform.sent) == 10


async def test_the_platforms_own_waiting_time_wins(db: Database, tries: list[int]) -> None:
    async def busy(message: OutboundMessage) -> None:
        raise PlatformUnavailable("slow down", retry_after=1000.0)

    platform = Pigeon(on_send=busy)
    await put(db, "hello")
    async with delivering(db, platform) as delivery:
        before = now_ms()
        await soon(delivery.flush())
    [(state, not_before_ms, problem)] = await rows(db, "SELECT state, not_before_ms, problem FROM outbox")
    assert (state, problem, tries) == ("ready", "slow down", [])
    assert not_before_ms >= before + 1_000_000


async def test_a_wait_ends_in_time_though_the_clock_is_set_back(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    platform = Pigeon(on_send=fail_with(PlatformUnavailable("slow down", retry_after=0.5)))
    await put(db, "a")
    async with delivering(db, platform) as delivery:
        await soon(delivery.flush())
        set_clock_back(monkeypatch)
        delivery.wake()
        assert (await soon(platform.arrived.get())).text == "a"


async def test_a_wait_is_no_longer_after_a_start_with_the_clock_set_back(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(message: OutboundMessage) -> None:
        raise PlatformUnavailable("slow down", retry_after=100.0)

    await put(db, "a", "b")
    await deliver(db, Pigeon(on_send=refuse))
    set_clock_back(monkeypatch)
    monkeypatch.setattr(clock, "_process_clock", ProcessClock())  # as in a new process
    await db.write(outbox.after_crash)
    [(first,), (second,)] = await rows(db, "SELECT not_before_ms FROM outbox ORDER BY id")
    assert now_ms() + 90_000 < first <= now_ms() + 100_000
    assert second == 0


async def test_no_wait_is_longer_than_any_can_be_after_a_start(db: Database) -> None:
    await put(db, "a")
    await db.write(lambda tx: tx.execute("UPDATE outbox SET not_before_ms = ?", now_ms() + 40 * 86_400_000))
    await db.write(outbox.after_crash)
    [(due_ms,)] = await rows(db, "SELECT not_before_ms FROM outbox")
    assert due_ms <= now_ms() + 3_600_000


@pytest.mark.parametrize("wished", [math.inf, math.nan, -1.0, 1e300])
async def test_an_absurd_wish_to_wait_stops_nothing(db: Database, wished: float) -> None:
    platform = Pigeon(on_send=fail_with(PlatformUnavailable("slow down", retry_after=wished)))
    await put(db, "hello")
    async with delivering(db, platform) as delivery:
        if wished < math.inf and wished > 0:
            await soon(delivery.flush())
            [(not_before_ms,)] = await rows(db, "SELECT not_before_ms FROM outbox")
            assert not_before_ms <= now_ms() + 3_600_000
        else:
            assert (await soon(platform.arrived.get())).text == "hello"


async def test_what_is_due_later_is_sent_then_without_a_wake(db: Database) -> None:
    platform = Pigeon(on_send=fail_with(PlatformUnavailable("slow down", retry_after=0.02)))
    await put(db, "hello")
    async with delivering(db, platform):
        assert (await soon(platform.arrived.get())).text == "hello"


async def test_a_rejected_answer_fails_and_the_chat_is_told(db: Database) -> None:
    async def too_long(message: OutboundMessage) -> None:
        if message.text == "x" * 100:
            raise DeliveryRejected("the message is too long")

    platform = Pigeon(on_send=too_long)
    await put(db, "x" * 100, "next")
    await deliver(db, platform)
    assert platform.texts == ["next", "My answer could not be delivered here: the message is too long."]
    assert platform.sent[1].notify is False
    assert await rows(db, "SELECT state, kind FROM outbox ORDER BY id") == [
        ("failed", "answer"),
        ("sent", "answer"),
        ("sent", "notice"),
    ]


async def test_a_chat_that_rejects_everything_is_told_once(db: Database) -> None:
    async def blocked(message: OutboundMessage) -> None:
        raise DeliveryRejected("the bot was blocked")

    await put(db, "hello")
    await deliver(db, Pigeon(on_send=blocked))
    assert await rows(db, STATES) == [("failed",), ("failed",)]


async def test_a_bug_in_an_adapter_costs_one_message(db: Database) -> None:
    async def choke(message: OutboundMessage) -> None:
        if message.text == "poison":
            raise ZeroDivisionError

    platform = Pigeon(on_send=choke)
    await put(db, "poison", "next")
    await put(db, "other", chat="office")
    await deliver(db, platform)
    assert sorted(platform.texts) == [
        "My answer could not be delivered here: an error inside Hermes, see its log.",
        "next",
        "other",
    ]


async def test_what_is_too_old_is_dropped_and_the_chat_told_once(db: Database) -> None:
    platform = Pigeon()
    await put(db, "stale", "staler", age_limit_ms=-1)
    await put(db, "fresh")
    await deliver(db, platform)
    assert platform.texts == [
        "fresh",
        "An answer could not be delivered for a day and was dropped. Ask again if you still need it.",
    ]
    assert await rows(db, "SELECT COUNT(*) FROM trail WHERE event = 'expired'") == [(2,)]


async def test_nothing_is_tried_while_the_platform_is_away(db: Database) -> None:
    connected = False
    platform = Pigeon()
    await put(db, "hello")
    async with delivering(db, platform, is_connected=lambda: connected) as delivery:
        await soon(delivery.flush())
        assert await rows(db, "SELECT attempts FROM outbox") == [(0,)]
        connected = True
        delivery.wake()
        assert (await soon(platform.arrived.get())).text == "hello"


async def test_another_accounts_messages_are_left_alone(db: Database) -> None:
    elsewhere = Address(account="telegram", chat="home")
    await db.write(lambda tx: outbox.add(tx, elsewhere, [Text(text="not yours")]))
    platform = Pigeon()
    await deliver(db, platform)
    assert platform.sent == []


async def test_a_chat_that_can_be_reached_again_need_not_wait(db: Database) -> None:
    listening = asyncio.Event()

    async def nobody_listens(message: OutboundMessage) -> None:
        if not listening.is_set():
            raise PlatformUnavailable("nobody listens", retry_after=1000.0)

    platform = Pigeon(on_send=nobody_listens)
    await put(db, "hello")
    async with delivering(db, platform) as delivery:
        await soon(delivery.flush())
        listening.set()
        await delivery.reachable("home")
        assert (await soon(platform.arrived.get())).text == "hello"


async def test_a_chat_that_comes_back_while_a_try_is_failing_need_not_wait_either(db: Database) -> None:
    trying, reached = asyncio.Event(), asyncio.Event()

    async def just_missed(message: OutboundMessage) -> None:
        if not reached.is_set():
            trying.set()
            await reached.wait()
            raise PlatformUnavailable("nobody listened when I looked", retry_after=1000.0)

    platform = Pigeon(on_send=just_missed)
    await put(db, "hello")
    async with delivering(db, platform) as delivery:
        delivery.wake()
        await soon(trying.wait())
        await delivery.reachable("home")
        reached.set()
        assert (await soon(platform.arrived.get())).text == "hello"


async def test_a_speaker_is_not_held_up_by_a_store_that_takes_nothing(db: Database) -> None:
    delivery = Delivery(db, Pigeon(), lambda: True, DeliveryLimits(), redactor=Redactor())
    with locked(db.path):
        await soon(delivery.reachable("home"))


async def test_the_outcome_waits_for_a_store_that_takes_nothing(db: Database) -> None:
    """What was sent must not be sent again because it could not be written down at once."""
    platform = Pigeon()
    sent, release = asyncio.Event(), asyncio.Event()

    async def hold(message: OutboundMessage) -> None:
        sent.set()
        await release.wait()

    platform.on_send = hold
    await put(db, "hello")
    async with delivering(db, platform) as delivery:
        delivery.wake()
        await soon(sent.wait())
        with locked(db.path):
            release.set()
            await refused_twice(db)  # the outcome was tried meanwhile
        await soon(delivery.flush())
    assert platform.texts == ["hello"]
    assert await rows(db, STATES) == [("sent",)]


async def test_flush_waits_for_what_is_being_sent(db: Database) -> None:
    release = asyncio.Event()

    async def hold(message: OutboundMessage) -> None:
        await release.wait()

    platform = Pigeon(on_send=hold)
    await put(db, "hello")
    async with delivering(db, platform) as delivery:
        flushing = asyncio.ensure_future(delivery.flush())
        with pytest.raises(TimeoutError):
            await soon(asyncio.shield(flushing), seconds=0.05)
        release.set()
        await soon(flushing)
    assert platform.texts == ["hello"]


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

    await db.write(lambda tx: outbox.add(tx, address(), [part]))
    await deliver(db, Pigeon(on_send=slowly), limits=DeliveryLimits(send_timeout_seconds=0.02))
    assert await rows(db, "SELECT state FROM outbox WHERE kind = 'answer'") == [(state,)]
