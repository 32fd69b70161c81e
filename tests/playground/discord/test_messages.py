"""What a bot writes, changes, reads and is refused, with the codes and words of the real server."""

import io
from typing import Any

import aiohttp
import discord
import pytest
from discord import http as discord_http

from playground.discord.server import DiscordServer
from tests.playground.discord.scene import Scene


async def test_a_message_is_what_was_sent(scene: Scene) -> None:
    sent = await scene.channel.send("  hello  ", silent=True)
    assert (sent.content, sent.flags.suppress_notifications) == ("hello", True)
    assert sent.author.id == scene.server.world.bot.id
    assert scene.server.texts(scene.room) == ["hello"]


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


async def test_two_thousand_characters_fit(scene: Scene) -> None:
    assert len((await scene.channel.send("😀" * 2000)).content) == 2000


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


async def test_a_reply_to_what_is_gone(scene: Scene) -> None:
    scene.say("question")
    message = await scene.bot.until("message")
    scene.people.delete(scene.room, [message.id])
    with pytest.raises(discord.HTTPException, match="Unknown message") as caught:
        await message.reply("answer")
    assert caught.value.code == 50035
    gone = discord.MessageReference(message_id=message.id, channel_id=scene.room, fail_if_not_exists=False)
    assert (await scene.channel.send("anyway", reference=gone)).reference is None


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


async def test_only_its_own_messages_can_be_edited(scene: Scene) -> None:
    scene.say("mine")
    message = await scene.bot.until("message")
    with pytest.raises(discord.Forbidden) as caught:
        await message.edit(content="yours")
    assert caught.value.code == 50005


async def test_a_deleted_message_is_unknown(scene: Scene) -> None:
    sent = await scene.channel.send("oops")
    await sent.delete()
    for call in (sent.delete(), sent.edit(content="x")):
        with pytest.raises(discord.NotFound) as caught:
            await call
        assert caught.value.code == 10008


@pytest.mark.parametrize(("denied", "code"), [("view", 50001), ("send", 50013)])
async def test_a_channel_that_is_closed_to_the_bot(scene: Scene, denied: str, code: int) -> None:
    scene.people.deny(scene.room, [denied])
    with pytest.raises(discord.Forbidden) as caught:
        await scene.channel.send("hello")
    assert caught.value.code == code
    heard = scene.say("can you hear me?")
    scene.people.send_text(scene.dm, scene.ada, "and here?")
    await scene.bot.until("message")
    assert (heard in [message.id for message in scene.bot.all("message")]) == (denied == "send")


async def test_direct_messages_can_be_closed(scene: Scene) -> None:
    await scene.direct.send("hello")
    assert scene.server.texts(scene.dm) == ["hello"]
    scene.people.close_dms(scene.ada)
    with pytest.raises(discord.Forbidden) as caught:
        await scene.direct.send("hello?")
    assert caught.value.code == 50007
    scene.people.open_dms(scene.ada)
    await scene.direct.send("again")


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


async def test_files_travel_both_ways(scene: Scene) -> None:
    sent = await scene.channel.send("see", files=[discord.File(io.BytesIO(b"abc"), "a.txt")])
    (file,) = sent.attachments
    assert (file.filename, file.size) == ("a.txt", 3)
    assert await file.read() == b"abc"
    scene.people.send_text(scene.room, scene.ada, files=[{"name": "b.png", "content": b"png"}])
    (theirs,) = (await scene.bot.until("message", 2)).attachments
    assert (theirs.content_type, await theirs.read()) == ("image/png", b"png")
    scene.people.expire_files()
    with pytest.raises(discord.NotFound):
        await theirs.read()


async def test_a_file_that_is_too_large(scene: Scene) -> None:
    with pytest.raises(discord.HTTPException) as caught:
        await scene.channel.send(file=discord.File(io.BytesIO(bytes(11 * 1024 * 1024)), "big.bin"))
    assert (caught.value.status, caught.value.code) == (413, 40005)


async def test_reactions_and_typing(scene: Scene) -> None:
    scene.say("nice")
    message = await scene.bot.until("message")
    await message.add_reaction("👀")
    await message.add_reaction("👀")
    scene.people.react(scene.room, scene.ada, message.id, "👀")
    [(reaction,)] = [one.reactions async for one in scene.channel.history()]
    assert (reaction.count, reaction.me, reaction.emoji) == (2, True, "👀")
    assert scene.bot.user
    await message.remove_reaction("👀", scene.bot.user)
    with pytest.raises(discord.HTTPException):
        await message.add_reaction("word")
    async with scene.channel.typing():
        assert scene.server.world.channels[scene.room].typing == 1
    assert (await scene.bot.until("raw_reaction_add", 2)).user_id == scene.ada


async def test_without_a_token_nothing_is_told(server: DiscordServer) -> None:
    async with aiohttp.ClientSession() as http, http.get(f"{server.api_url}/users/@me") as answer:
        assert (answer.status, await answer.json()) == (401, {"message": "401: Unauthorized", "code": 0})
        assert answer.headers["Content-Type"] == "application/json"


async def test_an_address_that_does_not_exist(scene: Scene) -> None:
    with pytest.raises(discord.NotFound):
        await scene.bot.http.request(discord_http.Route("GET", "/nowhere"))
