"""Words that stand in no row, and what may be said twice."""

from itertools import count

import pytest

from gateway.errors import DeliveryInDoubt, PlatformUnavailable
from gateway.messages import Choice, OutboundMessage, Text
from gateway.outbound.delivery import Compose
from gateway.store import outbox
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.outbox import Outgoing
from tests.gateway.outbound.test_delivery import address, deliver, put
from tests.gateway.scene import Pigeon, rows

TOPIC = "secret"


async def put_secret(db: Database) -> None:
    await db.write(lambda tx: outbox.add(tx, address(), [], kind="notice", topic=TOPIC))


def numbered() -> Compose:
    numbers = count(1)
    return lambda tx, row: f"code {next(numbers)}"


def failing(*errors: Exception) -> Pigeon:
    left = list(errors)

    async def fail(message: OutboundMessage) -> None:
        tried.append(message.text)
        if left:
            raise left.pop(0)

    tried: list[str] = []
    platform = Pigeon(on_send=fail)
    platform.tried = tried  # type: ignore[attr-defined]
    return platform


async def test_the_words_are_made_for_the_send_and_stand_nowhere(db: Database) -> None:
    platform = Pigeon()
    await put_secret(db)
    await deliver(db, platform, compose={TOPIC: numbered()})
    assert platform.texts == ["code 1"]
    for (table,) in await rows(db, "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'"):
        assert "code 1" not in str(await rows(db, f"SELECT * FROM {table}")), table


@pytest.mark.parametrize("error", [DeliveryInDoubt("no answer"), PlatformUnavailable("down")])
async def test_every_try_has_words_of_its_own(db: Database, error: Exception) -> None:
    platform = failing(error)
    await put_secret(db)
    await deliver(db, platform, compose={TOPIC: numbered()})
    assert platform.tried == ["code 1", "code 2"]  # type: ignore[attr-defined]
    assert platform.texts == ["code 2"]


async def test_after_a_crash_it_is_new_words_too(db: Database) -> None:
    await put_secret(db)
    await db.write(lambda tx: outbox.claim(tx, "pigeon", 1))
    await db.write(outbox.after_crash)
    platform = Pigeon()
    await deliver(db, platform, compose={TOPIC: numbered()})
    assert platform.texts == ["code 1"]


@pytest.mark.parametrize("words", [None, ""])
async def test_what_is_no_longer_wanted_is_given_up_without_a_word(db: Database, words: str | None) -> None:
    platform = Pigeon()
    await put_secret(db)
    await put(db, "next")
    await deliver(db, platform, compose={TOPIC: lambda tx, row: words})
    assert platform.texts == ["next"]
    assert await rows(db, "SELECT state, problem FROM outbox ORDER BY id LIMIT 1") == [("failed", "no longer wanted")]


async def test_words_that_cannot_be_made_cost_that_message_alone(db: Database) -> None:
    def broken(tx: Transaction, row: Outgoing) -> str:
        tx.execute("DELETE FROM outbox")
        raise ZeroDivisionError

    platform = Pigeon()
    await put_secret(db)
    await put(db, "next")
    await deliver(db, platform, compose={TOPIC: broken})
    assert platform.texts == ["next"]
    assert await rows(db, "SELECT state FROM outbox ORDER BY id") == [("failed",), ("sent",)]


async def put_notice(db: Database, *, edits: str = "") -> None:
    choices = [Choice(label="Again", action="resend:1")]
    await db.write(
        lambda tx: outbox.add(tx, address(), [Text(text="by the way")], kind="notice", edits=edits, choices=choices)
    )


@pytest.mark.parametrize("edits", ["", "receipt 1"])
async def test_a_notice_and_an_edit_in_doubt_are_repeated(db: Database, edits: str) -> None:
    platform = failing(DeliveryInDoubt("no answer"))
    await put_notice(db, edits=edits)
    await deliver(db, platform)
    [message] = platform.sent
    assert (message.text, message.edits) == ("by the way", edits)
    assert message.choices == (Choice(label="Again", action="resend:1"),)


async def test_a_notice_that_stays_in_doubt_is_not_said_all_day(db: Database) -> None:
    """Each of the tries may have arrived."""
    platform = failing(*(DeliveryInDoubt("no answer") for _ in range(100)))
    await put_notice(db)
    await deliver(db, platform)
    assert len(platform.tried) == 10  # type: ignore[attr-defined]
    assert await rows(db, "SELECT kind, state FROM outbox") == [("notice", "in_doubt")]  # and no notice about a notice


async def test_a_notice_that_certainly_did_not_arrive_is_tried_on(db: Database) -> None:
    platform = failing(*(PlatformUnavailable("down") for _ in range(10)))
    await put_notice(db)
    await deliver(db, platform)
    assert platform.texts == ["by the way"]
