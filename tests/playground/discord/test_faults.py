"""Everything that can go wrong on the way goes wrong on demand, as often as asked for, and no more."""

import asyncio
import io

import aiohttp
import discord
import pytest

from playground.discord.server import DiscordFault, DiscordServer
from tests.playground.discord.scene import Scene


async def test_a_call_fails_with_any_code_and_words(scene: Scene) -> None:
    scene.server.faults.add("fail", "createMessage", status=403, description="No", extra={"code": 50013})
    with pytest.raises(discord.Forbidden, match="No") as caught:
        await scene.channel.send("hi")
    assert caught.value.code == 50013
    await scene.channel.send("hi")
    assert [call.status for call in scene.server.called("createMessage")] == [403, 200]


async def test_other_routes_and_channels_are_spared(scene: Scene) -> None:
    scene.server.faults.add("fail", "createMessage", status=503, chat_id=scene.room, count=None)
    await scene.direct.send("hi")
    await scene.channel.typing()
    with pytest.raises(discord.DiscordServerError):
        await scene.channel.send("hi")


async def test_a_server_error_is_tried_again_by_discord_py_and_the_nonce_keeps_it_one(scene: Scene) -> None:
    """One second slow: that is how long discord.py waits before it tries again."""
    scene.server.faults.add("garbage", "createMessage", status=502)
    await scene.channel.send("once")
    assert [call.status for call in scene.server.called("createMessage")] == [502, 200]
    assert scene.server.texts(scene.room) == ["once"]


@pytest.mark.parametrize("everywhere", [True, False])
async def test_a_rate_limit_is_waited_for(scene: Scene, everywhere: bool) -> None:
    scene.server.faults.add("fail", "createMessage", retry_after=0.05, extra={"global": everywhere})
    await scene.channel.send("hi")
    assert [call.status for call in scene.server.called("createMessage")] == [429, 200]


async def test_a_rate_limit_without_discord_behind_it_is_an_error(scene: Scene) -> None:
    scene.server.faults.add("garbage", "createMessage", status=429)
    with pytest.raises(discord.HTTPException) as caught:
        await scene.channel.send("hi")
    assert caught.value.status == 429


@pytest.mark.parametrize(("kind", "done"), [("hang", False), ("hang_after", True), ("cut", False), ("cut_after", True)])
async def test_an_answer_is_lost_before_or_after_the_work(scene: Scene, kind: DiscordFault, done: bool) -> None:
    await scene.channel.send("first")
    scene.server.faults.add(kind, "createMessage")
    error = TimeoutError if kind.startswith("hang") else aiohttp.ClientError
    with pytest.raises(error):
        async with asyncio.timeout(0.1):  # discord.py itself would wait for five minutes
            await scene.channel.send("lost?")
    assert scene.server.texts(scene.room) == ["first", *(["lost?"] if done else [])]
    await scene.channel.send("again")


async def test_slow_is_slow_and_right(scene: Scene) -> None:
    scene.server.faults.add("slow", "createMessage", seconds=0.05)
    assert (await scene.channel.send("hi")).content == "hi"


async def test_a_download_breaks_in_the_middle(scene: Scene) -> None:
    sent = await scene.channel.send(file=discord.File(io.BytesIO(b"0123456789"), "a.txt"))
    scene.server.faults.add("cut_after", "file")
    with pytest.raises(aiohttp.ClientError):
        await sent.attachments[0].read()
    assert await sent.attachments[0].read() == b"0123456789"


async def test_an_event_may_come_twice_or_not_at_all(scene: Scene) -> None:
    scene.server.faults.add("duplicate", "MESSAGE_CREATE")
    scene.server.faults.add("drop", "MESSAGE_CREATE", chat_id=scene.dm)
    scene.say("twice")
    scene.people.send_text(scene.dm, scene.ada, "never")
    scene.say("once")
    await scene.bot.until("message", 3)
    assert scene.bot.texts() == ["twice", "twice", "once"]
    assert len({message.id for message in scene.bot.all("message")}) == 2


async def test_the_server_goes_down_and_comes_back_on_its_port(scene: Scene) -> None:
    url = scene.server.url
    await scene.server.pause()
    scene.say("meanwhile")
    with pytest.raises(aiohttp.ClientError):
        await scene.channel.send("lost")
    await scene.server.resume()
    assert scene.server.url == url
    await scene.bot.until("resumed")
    await scene.bot.until("message")
    assert scene.bot.texts() == ["meanwhile"]


async def test_a_half_open_link_says_nothing_until_it_is_mended(scene: Scene) -> None:
    scene.server.half_open()
    scene.say("unheard")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await scene.channel.send("unread")
    assert scene.bot.texts() == []
    await scene.server.resume()
    scene.server.gateway.cut()  # what the bot's own patience would do after a minute
    await scene.bot.until("resumed")
    await scene.bot.until("message")
    assert scene.server.texts(scene.room) == []


async def test_every_answer_tells_its_limit_and_real_ones_refuse(scene: Scene) -> None:
    scene.server.limits.on = True
    url, headers = (
        f"{scene.server.api_url}/channels/{scene.room}/messages",
        {"Authorization": f"Bot {scene.server.token}"},
    )
    async with aiohttp.ClientSession(headers=headers) as http:
        for left in (4, 3, 2, 1, 0):
            async with http.post(url, json={"content": "hi"}) as answer:
                assert answer.status == 200
                assert answer.headers["X-RateLimit-Remaining"] == str(left)
                assert answer.headers["X-RateLimit-Bucket"]
                assert 0 < float(answer.headers["X-RateLimit-Reset-After"]) <= 5
        async with http.post(url, json={"content": "hi"}) as answer:
            body = await answer.json()
            assert (answer.status, body["global"], answer.headers["X-RateLimit-Scope"]) == (429, False, "user")
            assert 0 < body["retry_after"] <= 5
            assert answer.headers["Via"]


def test_a_fault_that_does_not_exist_is_refused(server: DiscordServer) -> None:
    with pytest.raises(ValueError, match="unknown fault 'earthquake'"):
        server.faults.add("earthquake")  # type: ignore[arg-type]
