"""What a bot writes, changes, reads and is refused, with the codes and words of the real server."""

import io
from collections.abc import Awaitable
from typing import Any

import aiohttp
import discord
import pytest
from discord import http as discord_http

from tests.playground.discord.scene import Scene


@pytest.mark.parametrize(
    ("send", "code", "words"),
    [
        ({"content": "x" * 2001}, 50035, "In content: Must be 2000 or fewer in length."),
        ({"content": " \n "}, 50006, "Cannot send an empty message"),
        ({"content": "x", "nonce": "n" * 26}, 50035, "Must be 25 or fewer in length."),
    ],
)
async def test_what_is_too_long_or_empty_is_refused(scene: Scene, send: dict[str, Any], code: int, words: str) -> None:
    with pytest.raises(discord.HTTPException, match=words) as caught:
        await scene.channel.send(**send)
    assert (caught.value.status, caught.value.code) == (400, code)
    assert scene.server.texts(scene.room) == []


async def test_an_enforced_nonce_gives_the_earlier_message_for_some_minutes(scene: Scene) -> None:
    first = await scene.channel.send("once", nonce="outbox-7")
    again = await scene.channel.send("once", nonce="outbox-7")
    assert again.id == first.id
    assert (await scene.bot.until("message")).nonce == "outbox-7"
    # Told once, and never again.
    assert [message.nonce async for message in scene.channel.history()] == [None]
    scene.people.age(200)
    assert (await scene.channel.send("once", nonce="outbox-7")).id != first.id
    assert scene.server.texts(scene.room) == ["once", "once"]


async def test_a_reply_names_and_mentions_whom_it_answers(scene: Scene) -> None:
    scene.say("question")
    message = await scene.bot.until("message")
    answer = await message.reply("answer")
    assert answer.reference
    assert answer.reference.message_id == message.id
    assert isinstance(answer.reference.resolved, discord.Message)
    assert [user.id for user in answer.mentions] == [scene.ada]
    assert (await message.reply("quiet", mention_author=False)).mentions == []


async def test_mentions_count_as_far_as_allowed(scene: Scene) -> None:
    words = f"<@{scene.ada}> and <@{scene.bob}> @everyone"
    assert len((await scene.channel.send(words)).mentions) == 2
    quiet = await scene.channel.send(words, allowed_mentions=discord.AllowedMentions.none())
    assert (quiet.mentions, quiet.mention_everyone) == ([], False)
    some = discord.AllowedMentions(users=[discord.Object(scene.bob)], everyone=False)
    assert [user.id for user in (await scene.channel.send(words, allowed_mentions=some)).mentions] == [scene.bob]


async def test_edits_show_and_can_be_repeated(scene: Scene) -> None:
    sent = await scene.channel.send("draft")
    for _ in range(2):
        sent = await sent.edit(content="final")
    assert sent.edited_at
    assert scene.server.show(scene.room)[0]["earlier"] == ["draft"]
    with pytest.raises(discord.HTTPException) as caught:
        await sent.edit(content="")
    assert caught.value.code == 50006


async def test_history_comes_in_the_parts_asked_for(scene: Scene) -> None:
    ids = [scene.say(str(number)) for number in range(7)]
    at = discord.Object(ids[3])

    async def read(**query: Any) -> list[str]:
        return [message.content async for message in scene.channel.history(**query)]

    assert await read(limit=3) == ["6", "5", "4"]
    assert await read(after=at) == ["4", "5", "6"]
    assert await read(after=at, limit=1) == ["4"]
    assert await read(before=at, limit=2) == ["2", "1"]


async def test_the_wire_gives_history_newest_first(scene: Scene) -> None:
    ids = [scene.say(str(number)) for number in range(4)]
    url = f"{scene.server.api_url}/channels/{scene.room}/messages"
    async with aiohttp.ClientSession(headers={"Authorization": f"Bot {scene.server.token}"}) as http:
        async with http.get(url, params={"after": ids[0], "limit": 2}) as answer:
            assert [message["content"] for message in await answer.json()] == ["2", "1"]
        async with http.get(url, params={"limit": 101}) as answer:
            assert (answer.status, (await answer.json())["code"]) == (400, 50035)


async def test_names_of_files_are_kept_in_plain_letters(scene: Scene) -> None:
    for given, kept in (("my plot (2).png", "my_plot_2.png"), ("ünï.txt", "n.txt"), ("???", "unknown")):
        (file,) = (await scene.channel.send(files=[discord.File(io.BytesIO(b"abc"), given)])).attachments
        assert file.filename == kept


async def test_a_file_that_is_too_large(scene: Scene) -> None:
    with pytest.raises(discord.HTTPException) as caught:
        await scene.channel.send(file=discord.File(io.BytesIO(bytes(11 * 1024 * 1024)), "big.bin"))
    assert (caught.value.status, caught.value.code) == (413, 40005)


async def test_what_discord_refuses_has_its_code(scene: Scene) -> None:
    scene.say("theirs")
    theirs = await scene.bot.until("message")
    ours, gone = await scene.channel.send("ours"), await scene.channel.send("gone")
    await gone.delete()
    calls: list[tuple[Awaitable[Any], int]] = [
        (gone.reply("answer"), 50035),
        (gone.edit(content="x"), 10008),
        (gone.delete(), 10008),
        (ours.edit(content=""), 50006),
        (theirs.edit(content="yours"), 50005),
        (theirs.add_reaction("word"), 10014),
        (scene.bot.http.request(discord_http.Route("GET", "/nowhere")), 0),
        (scene.bot.http.bulk_upsert_global_commands(scene.server.world.bot.id, [{"name": "No Good"}]), 50035),
    ]
    scene.people.close_dms(scene.ada)
    calls.append((scene.direct.send("hello?"), 50007))
    for call, code in calls:
        with pytest.raises(discord.HTTPException) as caught:
            await call
        assert caught.value.code == code
    anyway = discord.MessageReference(message_id=gone.id, channel_id=scene.room, fail_if_not_exists=False)
    assert (await scene.channel.send("anyway", reference=anyway)).reference is None


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
