"""After a damaged store was replaced by a backup: nothing is answered twice, and the owner hears of it in a chat.

The gateway looks every five seconds whether there is something to tell the owner, so these take as long.
"""

from pathlib import Path

from gateway.store.db.backup import make_backup
from tests.gateway.store.damage import scribble
from tests.journeys import discord_stage, slack_stage
from tests.journeys.stage import Home

NOTICE = "The backup of"


def back_up(home: Home) -> None:
    make_backup(home.path / "state.db", home.path / "backups", keep=7)


def damage(home: Home) -> None:
    scribble(home.path / "state.db", 0)


async def test_discord_messages_since_the_backup_are_not_answered_again(tmp_path: Path) -> None:
    async with discord_stage.stage(tmp_path, demo=True) as on:
        dm, channel = on.dm(on.owner), on.channel(on.owner)
        async with on.gateway() as gateway:
            await on.ask(on.owner, "what is 1 + 1?", "2", where=dm)
            await on.ask(on.owner, f"{on.mention} what is 2 + 2?", "4", where=channel)
            await gateway.stop()
        back_up(on.home)
        async with on.gateway() as gateway:
            await on.ask(on.owner, "what is 100 + 1?", "101", where=dm)
            await on.ask(on.owner, "/whoami", "owner", where=dm)
            await on.ask(on.owner, f"{on.mention} what is 100 + 2?", "102", where=channel)
            await on.home.until_idle()
            await gateway.stop()
        said = {where: on.discord.texts(where) for where in (dm, channel)}
        damage(on.home)
        async with on.gateway():
            await on.ask(on.owner, f"{on.mention} what is 300 + 2?", "302", where=channel)
            await on.hear(dm, NOTICE, seconds=30)
            await on.ask(on.owner, "what is 300 + 1?", "301", where=dm)
            assert len(on.discord.texts(channel)) == len(said[channel]) + 1
            new = on.discord.texts(dm)[len(said[dm]) :]
            assert len(new) == 2, new
            assert "not answered again" in new[0]


async def test_slack_messages_since_the_backup_are_not_answered_again(tmp_path: Path) -> None:
    async with slack_stage.stage(tmp_path, demo=True) as on:
        owner, dm = on.person("olga", id=slack_stage.OWNER)
        channel = on.channel("roses", owner)
        async with on.gateway() as gateway:
            await on.ask(dm, owner, "what is 1 + 1?", "2")
            thread = on.say(channel, owner, f"{on.bot} what is 2 + 2?")
            await on.hear(channel, "4")
            await gateway.stop()
        back_up(on.home)
        async with on.gateway() as gateway:
            await on.ask(dm, owner, "what is 100 + 1?", "101")
            await on.ask(dm, owner, "/whoami", "owner")
            await on.ask(channel, owner, f"{on.bot} what is 100 + 2?", "102")
            await on.ask(channel, owner, "what is 100 + 3?", "103", thread=thread)
            await on.home.until_idle()
            await gateway.stop()
        said = {where: on.slack.texts(where) for where in (dm, channel)}
        damage(on.home)
        async with on.gateway():
            await on.ask(channel, owner, "what is 300 + 3?", "303", thread=thread)
            await on.hear(dm, NOTICE, seconds=30)
            await on.ask(dm, owner, "what is 300 + 1?", "301")
            assert len(on.slack.texts(channel)) == len(said[channel]) + 1
            new = on.slack.texts(dm)[len(said[dm]) :]
            assert len(new) == 2, new
            assert "not answered again" in new[0]
