"""The draft that an answer replaces is gone before the answer comes, and a crash in between raises no doubt."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.errors import DeliveryInDoubt, DeliveryRejected, PlatformUnavailable
from gateway.messages import OutboundMessage, Text
from gateway.outbound.delivery import DeliveryLimits
from gateway.platforms.base import Features
from gateway.store import outbox
from gateway.store.db.database import Database
from tests.gateway.easel import Easel
from tests.gateway.outbound.test_delivery import address, deliver
from tests.gateway.outbound.test_delivery_in_doubt import RESTARTED
from tests.gateway.scene import Pigeon, rows


async def put(db: Database, *, replaces: str = "", edits: str = "") -> None:
    parts = [Text(text="the answer")]
    await db.write(lambda tx: outbox.add(tx, address("home"), parts, replaces=replaces, edits=edits))


def at(wanted: str, *errors: Exception) -> Callable[[str], Awaitable[None]]:
    left = list(errors)

    async def fail(what: str) -> None:
        if what == wanted and left:
            raise left.pop(0)

    return fail


async def test_the_draft_goes_before_the_answer_comes(db: Database) -> None:
    easel = Easel(shown={"7": "✍️ Writing…"})
    seen: list[dict[str, str]] = []

    async def look(message: OutboundMessage) -> None:
        seen.append(dict(easel.shown))

    easel.on_send = look
    await put(db, replaces="7")
    await deliver(db, easel)
    assert (seen, easel.texts) == ([{}], ["the answer"])
    assert await rows(db, "SELECT state, replaces FROM outbox") == [("sent", "")]


@pytest.mark.parametrize("error", [PlatformUnavailable("down"), DeliveryInDoubt("cut"), TimeoutError()])
async def test_a_draft_that_cannot_be_taken_away_yet_is_tried_again_and_raises_no_doubt(
    db: Database, error: Exception
) -> None:
    easel = Easel(shown={"7": "…"}, before=at("take away", error))
    await put(db, replaces="7")
    await deliver(db, easel)
    assert (easel.did, easel.texts) == (["take away", "take away"], ["the answer"])


async def test_taking_a_draft_away_does_not_take_for_ever(db: Database) -> None:
    async def hang_once(what: str) -> None:
        if len(easel.did) == 1:
            await asyncio.Event().wait()

    easel = Easel(shown={"7": "…"}, before=hang_once)
    await put(db, replaces="7")
    await deliver(db, easel, limits=DeliveryLimits(send_timeout_seconds=0.02))
    assert easel.texts == ["the answer"]


async def test_a_draft_that_may_not_be_taken_away_does_not_keep_the_answer(db: Database) -> None:
    easel = Easel(shown={"7": "…"}, before=at("take away", DeliveryRejected("no rights")))
    await put(db, replaces="7")
    await deliver(db, easel)
    assert easel.texts == ["the answer"]


async def test_a_platform_without_drafts_is_not_asked(db: Database) -> None:
    pigeon = Pigeon()
    await put(db, replaces="7")
    await deliver(db, pigeon)
    assert pigeon.texts == ["the answer"]


async def test_cut_off_before_the_draft_was_gone_the_answer_was_not_sent(db: Database) -> None:
    easel = Easel(shown={"7": "…"})
    await put(db, replaces="7")
    await db.write(lambda tx: outbox.claim(tx, easel.account, 1))
    await db.write(outbox.after_crash)
    await deliver(db, easel)
    assert (easel.texts, easel.shown) == (["the answer"], {})


async def test_cut_off_after_the_draft_was_gone_the_answer_is_in_doubt(db: Database) -> None:
    easel = Easel()
    await put(db, replaces="7")
    [row] = await db.write(lambda tx: outbox.claim(tx, easel.account, 1))
    await db.write(lambda tx: outbox.mark_draft_deleted(tx, row.id))
    await db.write(outbox.after_crash)
    await deliver(db, easel)
    assert easel.texts == [RESTARTED]


async def test_an_answer_in_place_cut_off_is_simply_made_again(db: Database) -> None:
    easel = Easel(features=Features(resend="never"))
    await put(db, edits="7")
    await db.write(lambda tx: outbox.claim(tx, easel.account, 1))
    await db.write(outbox.after_crash)
    await deliver(db, easel)
    assert [(message.text, message.edits) for message in easel.sent] == [("the answer", "7")]


async def test_a_later_piece_of_an_answer_in_place_is_no_edit_and_is_not_made_again(db: Database) -> None:
    easel = Easel(features=Features(resend="never"))
    await put(db, edits="7")
    await db.write(lambda tx: outbox.claim(tx, easel.account, 1))
    await db.write(lambda tx: tx.execute("UPDATE outbox SET piece = 1"))
    await db.write(outbox.after_crash)
    await deliver(db, easel)
    assert easel.texts == [RESTARTED]
