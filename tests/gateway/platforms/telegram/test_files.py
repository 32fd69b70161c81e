"""Files that people send on Telegram: fetched with a cap, or a plain word why not."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.errors import MediaUnavailable
from gateway.messages import Media
from playground.telegram.server import TelegramServer
from tests.gateway.platforms.telegram.scene import Gate, bot_of, listening
from tests.gateway.scene import soon

ADA = 7


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as running:
        running.people.make_user("Ada", id=ADA)
        yield running


@pytest.fixture
def gate() -> Gate:
    return Gate()


async def test_a_file_is_fetched(server: TelegramServer, gate: Gate) -> None:
    platform = bot_of(server)
    async with listening(platform, gate):
        server.people.send_media(ADA, ADA, "document", b"content", name="a b#c.txt")
        await gate.until(lambda: gate.taken)
        [media] = gate.taken[0].parts
        assert isinstance(media, Media)
        assert await platform.fetch(media, 100) == b"content"
        with pytest.raises(MediaUnavailable, match="larger than"):
            await platform.fetch(media, 6)


async def test_a_file_that_is_wanted_while_we_connect_is_waited_for(server: TelegramServer, gate: Gate) -> None:
    platform = bot_of(server)
    async with listening(platform, gate):
        server.people.send_media(ADA, ADA, "voice", b"content")
        await gate.until(lambda: gate.taken)
    [media] = gate.taken[0].parts
    assert isinstance(media, Media)
    fetching = asyncio.create_task(platform.fetch(media, 100))
    async with listening(platform, gate):
        assert await soon(fetching) == b"content"


@pytest.mark.parametrize(
    ("media", "problem"),
    [
        (
            Media(kind="file", size_bytes=30_000_000, reference="F"),
            "larger than 20 MB, the most that Telegram gives",
        ),
        (Media(kind="file", reference="F"), "no longer has the file"),
    ],
)
async def test_why_a_file_cannot_be_had(server: TelegramServer, gate: Gate, media: Media, problem: str) -> None:
    platform = bot_of(server)
    async with listening(platform, gate):
        with pytest.raises(MediaUnavailable, match=problem):
            await platform.fetch(media, 100_000_000)


async def test_a_file_larger_than_it_claims_or_cut_off_is_not_had(server: TelegramServer, gate: Gate) -> None:
    platform = bot_of(server)
    async with listening(platform, gate):
        server.people.send_media(ADA, ADA, "document", b"x" * 100, size=10)
        server.people.send_media(ADA, ADA, "document", b"x", size=25_000_000)
        server.people.send_media(ADA, ADA, "document", b"x" * 100)
        await gate.until(lambda: len(gate.taken) == 3)
        lying, huge, fine = (part for message in gate.taken for part in message.parts if isinstance(part, Media))
        with pytest.raises(MediaUnavailable, match="larger than"):
            await platform.fetch(lying, 50)
        with pytest.raises(MediaUnavailable, match="20 MB"):
            await platform.fetch(Media(kind="file", reference=huge.reference), 50_000_000)
        server.faults.add("cut_after", "file")
        with pytest.raises(MediaUnavailable, match="could not be fetched"):
            await platform.fetch(fine, 1000)
