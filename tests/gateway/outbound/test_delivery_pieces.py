"""A long answer goes in pieces: each once, in order, and after a crash on from where it was."""

import asyncio

from gateway.errors import DeliveryInDoubt, DeliveryRejected, PlatformUnavailable
from gateway.messages import OutboundMessage, Text
from gateway.outbound.delivery import DeliveryLimits
from gateway.platforms.base import Features, Resend
from gateway.store import outbox
from gateway.store.db.database import Database
from tests.gateway.outbound.test_delivery import address, deliver, delivering, put
from tests.gateway.outbound.test_delivery_in_doubt import BROKEN_LINE, RESTARTED
from tests.gateway.scene import ACCOUNT, Pigeon, rows, soon


def said(platform: Pigeon) -> list[tuple[str, int]]:
    return [(message.text, message.piece) for message in platform.sent]


def fails_at(piece: int, *errors: BaseException, resend: Resend = "never", pieces: int = 4) -> Pigeon:
    """Fails once with each of the errors when it comes to that piece of "long"."""
    left = list(errors)

    async def fail(message: OutboundMessage) -> None:
        if left and message.text == "long" and message.piece == piece:
            raise left.pop(0)

    return Pigeon(features=Features(resend=resend), pieces=pieces, on_send=fail)


async def put_one_piece(db: Database, text: str, *, chat: str = "home") -> None:
    await db.write(lambda tx: outbox.add(tx, address(chat), [Text(text=text)], notify=False))


async def test_pieces_come_in_order_and_later_messages_wait_for_the_last(db: Database) -> None:
    platform = Pigeon(pieces=3)
    await put(db, "long")
    await put_one_piece(db, "next")
    await deliver(db, platform)
    assert said(platform) == [("long", 0), ("long", 1), ("long", 2), ("next", 0)]
    assert await rows(db, "SELECT state, receipt FROM outbox ORDER BY id") == [
        ("sent", "receipt 3"),
        ("sent", "receipt 4"),
    ]
    assert await rows(db, "SELECT event FROM trail WHERE outbox_id = 1 AND event LIKE '%sent' ORDER BY id") == [
        ("piece_sent",),
        ("piece_sent",),
        ("sent",),
    ]


async def test_another_chat_does_not_wait_for_somebodys_long_answer(db: Database) -> None:
    release = asyncio.Event()

    async def slow_in_the_middle(message: OutboundMessage) -> None:
        if message.piece == 1:
            await release.wait()

    platform = Pigeon(pieces=3, on_send=slow_in_the_middle)
    await put(db, "long")
    await put_one_piece(db, "elsewhere", chat="office")
    async with delivering(db, platform) as delivery:
        delivery.wake()
        assert {(await soon(platform.arrived.get())).text for _ in range(2)} == {"long", "elsewhere"}
        release.set()
        await soon(delivery.flush())
    assert len(platform.sent) == 4


async def test_a_crash_between_two_pieces_goes_on_with_the_next(db: Database) -> None:
    await put(db, "long")
    hanging = asyncio.Event()

    async def hang(message: OutboundMessage) -> None:
        if message.piece == 2:
            hanging.set()
            await asyncio.Event().wait()

    first = Pigeon(features=Features(resend="safe"), pieces=4, on_send=hang)
    async with delivering(db, first) as delivery:
        delivery.wake()
        await soon(hanging.wait())
    await db.write(outbox.after_crash)
    second = Pigeon(features=Features(resend="safe"), pieces=4)
    await deliver(db, second)
    assert said(first) == [("long", 0), ("long", 1)]
    assert said(second) == [("long", 2), ("long", 3)]


async def test_a_crash_right_after_a_piece_was_written_down_sends_it_no_second_time(db: Database) -> None:
    await put(db, "long")
    [row] = await db.write(lambda tx: outbox.claim(tx, ACCOUNT, 1))
    receipt = await Pigeon(pieces=3).send(row.message)
    await db.write(lambda tx: outbox.mark_piece_sent(tx, row, receipt))
    await db.write(outbox.after_crash)
    platform = Pigeon(pieces=3)  # cannot be asked: nothing is in doubt here
    await deliver(db, platform)
    assert said(platform) == [("long", 1), ("long", 2)]


async def press_resend(db: Database, platform: Pigeon) -> None:
    [choice] = platform.sent[-1].choices
    name, _, key = choice.action.partition(":")
    assert name == "resend"
    assert await db.write(lambda tx: outbox.send_again(tx, key, account=ACCOUNT, chat="home"))


async def test_a_piece_in_doubt_is_told_once_and_the_button_goes_on_with_it(db: Database) -> None:
    platform = fails_at(2, DeliveryInDoubt("no answer"))
    await put(db, "long")
    await put_one_piece(db, "next")
    async with delivering(db, platform) as delivery:
        await soon(delivery.flush())
        assert said(platform) == [("long", 0), ("long", 1), ("next", 0), (BROKEN_LINE, 0)]
        await press_resend(db, platform)
        await soon(delivery.flush())
    assert said(platform)[4:] == [("long", 2), ("long", 3)]


async def test_a_piece_that_a_crash_cut_off_is_told_once_and_the_button_goes_on_with_it(db: Database) -> None:
    await put(db, "long")
    await db.write(lambda tx: tx.execute("UPDATE outbox SET piece = 2, state = 'sending'"))
    await db.write(outbox.after_crash)
    platform = Pigeon(pieces=4)
    async with delivering(db, platform) as delivery:
        await soon(delivery.flush())
        assert said(platform) == [(RESTARTED, 0)]
        await press_resend(db, platform)
        await soon(delivery.flush())
    assert said(platform)[1:] == [("long", 2), ("long", 3)]


async def test_a_limit_in_the_middle_holds_up_the_rest_and_what_comes_after(db: Database) -> None:
    platform = fails_at(2, PlatformUnavailable("slow down", retry_after=0.02), PlatformUnavailable("down"))
    await put(db, "long")
    await put_one_piece(db, "next")
    async with delivering(db, platform):
        arrived = [await soon(platform.arrived.get()) for _ in range(5)]
    assert [(message.text, message.piece) for message in arrived] == [*(("long", n) for n in range(4)), ("next", 0)]


async def test_an_outage_later_does_not_count_the_tries_of_earlier_pieces(db: Database) -> None:
    platform = fails_at(2, PlatformUnavailable("slow down", retry_after=1000.0))
    await put(db, "long")
    await deliver(db, platform)
    assert await rows(db, "SELECT state, piece, attempts FROM outbox") == [("ready", 2, 1)]


async def test_a_piece_that_is_rejected_ends_it_and_the_chat_is_told(db: Database) -> None:
    platform = fails_at(1, DeliveryRejected("the chat is gone"))
    await put(db, "long")
    await deliver(db, platform)
    assert said(platform) == [("long", 0), ("My answer could not be delivered here: the chat is gone.", 0)]
    assert await rows(db, "SELECT state FROM outbox ORDER BY id") == [("failed",), ("sent",)]


async def test_safe_and_lookup_repeat_the_piece_in_doubt_and_no_other(db: Database) -> None:
    for resend in ("safe", "lookup"):
        platform = fails_at(1, DeliveryInDoubt("no answer"), resend=resend, pieces=3)
        await put(db, "long")
        await deliver(db, platform)
        assert said(platform) == [("long", 0), ("long", 1), ("long", 2)]


async def test_between_two_pieces_there_is_a_pause_and_nothing_comes_into_it(db: Database) -> None:
    platform = Pigeon(pieces=2)
    await put(db, "long")
    await put_one_piece(db, "next")
    await put_one_piece(db, "elsewhere", chat="away")
    async with delivering(db, platform, limits=DeliveryLimits(pause_ms=(60_000, 60_000))) as delivery:
        await soon(delivery.flush())
        assert sorted(said(platform)) == [("elsewhere", 0), ("long", 0)]
        await db.write(lambda tx: tx.execute("UPDATE outbox SET not_before_ms = 1 WHERE not_before_ms > 1"))
        await soon(delivery.flush())
        assert said(platform)[-2] == ("long", 1)
        assert said(platform)[-1] == ("next", 0)
