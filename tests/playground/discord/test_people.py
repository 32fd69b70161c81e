"""What people do is heard by the bot as from the real server."""

import discord
import pytest

from playground.discord.server import DiscordServer
from tests.playground.discord.scene import Bot, Scene


async def test_edits_and_deletions_are_heard(scene: Scene) -> None:
    one, two = scene.say("one"), scene.say("two")
    await scene.bot.until("message", 2)
    scene.people.edit_text(scene.room, one, "changed")
    assert (await scene.bot.until("raw_message_edit")).message.content == "changed"
    scene.people.delete(scene.room, [one])
    assert (await scene.bot.until("raw_message_delete")).message_id == one
    scene.people.delete(scene.room, [two, scene.say("three")])
    assert two in (await scene.bot.until("raw_bulk_message_delete")).message_ids


async def test_a_reply_carries_what_it_answers_and_mentions_the_bot_if_it_pings(scene: Scene) -> None:
    mine = await scene.channel.send("mine")
    scene.say("loud", reply_to=mine.id)
    scene.say("quiet", reply_to=mine.id, ping=False)
    await scene.bot.until("message", 3)
    _, loud, quiet = scene.bot.all("message")
    assert loud.reference.resolved.content == "mine"
    assert scene.bot.user in loud.mentions
    assert quiet.mentions == []


async def test_bots_and_system_messages_are_marked(scene: Scene) -> None:
    robot = int(scene.people.make_user("robot", bot=True)["id"])
    scene.people.join(scene.guild, robot)
    scene.people.send_text(scene.room, robot, "beep")
    scene.people.send_system(scene.room, scene.bob, 7)
    await scene.bot.until("message", 2)
    beep, joined = scene.bot.all("message")
    assert beep.author.bot
    assert joined.is_system()


async def test_channels_come_and_go(scene: Scene) -> None:
    made = int(scene.people.make_channel(scene.guild, "new")["id"])
    assert (await scene.bot.until("guild_channel_create")).id == made
    scene.people.delete_channel(made)
    await scene.bot.until("guild_channel_delete")
    with pytest.raises(discord.NotFound):
        await scene.bot.fetch_channel(made)


async def test_what_is_said_while_the_bot_is_away_stays_in_history(server: DiscordServer) -> None:
    scene = Scene(server)
    earlier = scene.say("before you came")
    direct = server.people.send_text(scene.dm, scene.ada, "in private")
    async with scene:
        assert scene.bot.texts() == []
        assert [message.content async for message in scene.channel.history()] == ["before you came"]
        assert [message.content async for message in scene.direct.history()] == ["in private"]
        channel = await scene.bot.fetch_channel(scene.dm)
        assert isinstance(channel, discord.DMChannel)
        assert channel.recipient
        assert channel.recipient.id == scene.ada
        assert int(direct["id"]) > earlier


async def test_a_hundred_channels_are_known_at_once(server: DiscordServer) -> None:
    scene = Scene(server, Bot())
    rooms = [int(server.people.make_channel(scene.guild, f"room-{number}")["id"]) for number in range(100)]
    async with scene:
        for room in rooms:
            server.people.send_text(room, scene.ada, "hello")
        await scene.bot.until("message", 100)
        assert {message.channel.id for message in scene.bot.all("message")} == {*rooms}
