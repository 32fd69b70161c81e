"""After a damaged store was replaced by a backup: nothing is answered twice, and the owner hears of it in a chat.

The gateway looks every five seconds whether there is something to tell the owner, so these take as long.
"""

from pathlib import Path

from gateway.store.db.backup import make_backup
from playground.model_script import say
from tests.gateway.store.damage import scribble
from tests.journeys import discord_stage, slack_stage, telegram_stage
from tests.journeys.stage import Home, until

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
            await on.home.until_idle()  # it was seen in a draft, perhaps
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


async def test_a_message_that_was_open_in_the_backup_is_closed_and_not_answered_again(tmp_path: Path) -> None:
    async with telegram_stage.stage(tmp_path, otherwise=say("The answer.")) as on:
        owner = on.person("Olga", id=telegram_stage.OWNER)
        on.model.script(say("Half ", "an answer", stops_before="an answer", ending="hang"))
        async with on.gateway() as gateway:
            on.say(owner, "a question")
            await on.model.until_asked(1)
            await gateway.kill()
        back_up(on.home)
        async with on.gateway() as gateway:
            await on.hear(owner, "The answer.")
            await on.home.until_idle()
            await gateway.stop()
        damage(on.home)
        async with on.gateway():
            await on.hear(owner, "Messages without an answer in the restored state: 1.", seconds=30)
            on.model.script(say("Another answer."))
            await on.ask(owner, "another question", "Another answer.")
        assert on.telegram.texts(owner).count("The answer.") == 1
        assert "restored from a backup" in await on.home.hermes("trace", "inbox:1")


async def test_an_answer_that_was_waiting_in_the_backup_is_left_to_the_chat(tmp_path: Path) -> None:
    async with telegram_stage.stage(tmp_path, otherwise=say("The answer.")) as on:
        owner = on.person("Olga", id=telegram_stage.OWNER)
        on.telegram.faults.add("fail", "sendMessage", retry_after=8)
        async with on.gateway() as gateway:
            on.say(owner, "a question")
            await until(lambda: on.home.rows("SELECT 1 FROM outbox WHERE state = 'ready' AND not_before_ms > 0"))
            back_up(on.home)
            await on.hear(owner, "The answer.")
            await on.home.until_idle()
            await gateway.stop()
        damage(on.home)
        async with on.gateway():
            notice = await on.hear(owner, "I cannot tell whether it arrived")
            assert notice["reply_markup"]["inline_keyboard"][0][0]["text"] == "Send it again"
            await on.hear(owner, "Replies that were waiting to be sent: 1.", seconds=30)
        assert on.telegram.texts(owner).count("The answer.") == 1


async def test_an_answer_that_was_waiting_in_the_backup_is_looked_up_where_that_is_possible(tmp_path: Path) -> None:
    async with discord_stage.stage(tmp_path, demo=True) as on:
        dm = on.dm(on.owner)
        async with on.gateway() as gateway:
            await on.ask(on.owner, "what is 1 + 1?", "2", where=dm)
            on.discord.faults.add("fail", "createMessage", retry_after=8)
            on.say(on.owner, "what is 100 + 1?", where=dm)
            await until(
                lambda: on.home.rows("SELECT 1 FROM outbox WHERE state IN ('ready', 'sending') AND parts LIKE '%101%'")
            )
            back_up(on.home)
            await on.hear(dm, "101")
            await on.home.until_idle()
            await gateway.stop()
        damage(on.home)
        async with on.gateway():
            await on.hear(dm, "Replies that were waiting to be sent: 1.", seconds=30)
            await on.home.until_idle()
        assert sum("101" in text for text in on.discord.texts(dm)) == 1
