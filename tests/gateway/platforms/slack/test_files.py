"""Files that people send on Slack: fetched with our token from Slack alone, with a cap, or a plain word why not."""

import asyncio

import pytest

from gateway.errors import MediaUnavailable
from gateway.messages import Media
from playground.slack.server import SlackServer
from tests.gateway.platforms.slack.scene import Gate, bot_of, listening
from tests.gateway.scene import soon


async def media_sent(gate: Gate) -> Media:
    await gate.until(lambda: gate.taken)
    media = gate.taken[-1].parts[-1]
    assert isinstance(media, Media)
    return media


@pytest.mark.parametrize("stub", [False, True])
async def test_a_file_is_fetched(server: SlackServer, gate: Gate, ada: str, dm: str, stub: bool) -> None:
    platform = bot_of(server)
    async with listening(platform, gate, server):
        server.people.send_file(dm, ada, b"content", name="a.txt", stub=stub)
        media = await media_sent(gate)
        assert await platform.fetch(media, 100) == b"content"
        with pytest.raises(MediaUnavailable, match="larger than"):
            await platform.fetch(media, 6)


async def test_a_file_that_is_wanted_while_we_connect_is_waited_for(
    server: SlackServer, gate: Gate, ada: str, dm: str
) -> None:
    platform = bot_of(server)
    async with listening(platform, gate, server):
        server.people.send_file(dm, ada, b"content")
        media = await media_sent(gate)
    fetching = asyncio.create_task(platform.fetch(media, 100))
    async with listening(platform, gate, server):
        assert await soon(fetching) == b"content"


async def test_a_page_to_sign_in_is_no_file(server: SlackServer, gate: Gate, ada: str, dm: str) -> None:
    platform = bot_of(server)
    async with listening(platform, gate, server):
        server.people.send_file(dm, ada, b"content")
        media = await media_sent(gate)
        server.faults.add("garbage", "file", status=200)
        server.world.scopes -= {"files:read"}
        with pytest.raises(MediaUnavailable, match="files:read"):
            await platform.fetch(media, 100)
        login = Media(kind="image", mime="image/png", reference=f"{server.url}/")
        with pytest.raises(MediaUnavailable, match="sign-in"):
            await platform.fetch(login, 100_000)


@pytest.mark.parametrize(
    "reference",
    [
        "https://evil.example/files-pri/T-F/x",
        "http://files.slack.com/x",
        "https://slack.com.evil.example/x",
        "nonsense",
    ],
)
async def test_our_token_goes_to_slack_alone(server: SlackServer, gate: Gate, reference: str) -> None:
    platform = bot_of(server)
    async with listening(platform, gate, server):
        with pytest.raises(MediaUnavailable, match="outside of Slack"):
            await platform.fetch(Media(kind="file", reference=reference), 100)


async def test_why_a_file_cannot_be_had(server: SlackServer, gate: Gate, ada: str, dm: str) -> None:
    platform = bot_of(server)
    async with listening(platform, gate, server):
        server.people.send_file(dm, ada, b"x" * 100, size=10)
        media = await media_sent(gate)
        with pytest.raises(MediaUnavailable, match="larger than"):
            await platform.fetch(media, 50)
        gone = Media(kind="file", reference=f"{server.url}/files-pri/T-F9/x")
        with pytest.raises(MediaUnavailable, match="no longer has the file"):
            await platform.fetch(gone, 50)
        with pytest.raises(MediaUnavailable, match="no longer has the file"):
            await platform.fetch(Media(kind="file", reference="id:F9"), 50)
        server.faults.add("cut_after", "file")
        with pytest.raises(MediaUnavailable, match="could not be fetched"):
            await platform.fetch(media, 1000)
        server.faults.add("fail", "file")
        with pytest.raises(MediaUnavailable, match="status 500"):
            await platform.fetch(media, 1000)
