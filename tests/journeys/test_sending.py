"""The agent is asked on one platform to say something on another: after a human's yes it arrives there, once."""

import json
from pathlib import Path

from playground.discord.server import DiscordServer
from playground.model_script import ScriptedCall, ask_for, say
from tests.journeys.stage import until
from tests.journeys.telegram_stage import OWNER, stage

DINNER = "Dinner is ready."


async def test_what_an_owner_has_told_to_another_platform_arrives_there_once_through_kill_nine(tmp_path: Path) -> None:
    async with DiscordServer() as discord:
        olga = discord.people.make_user("olga")["id"]
        guild = discord.people.make_guild("Garden", members=[olga])["id"]
        roses = str(discord.people.make_channel(guild, "roses")["id"])
        config = {
            "agent": {"enabled_toolsets": ["core", "messaging"]},
            "access": {"owner_users": [f"telegram:{OWNER}", f"discord:{olga}"]},
            "platforms": {"discord": {"streaming": False}, "telegram": {"streaming": False}},
        }
        tokens = {"DISCORD_BOT_TOKEN": discord.token, "DISCORD_API_URL": discord.api_url}
        async with stage(tmp_path, config=config, environment=tokens, otherwise=say("It is on its way.")) as on:
            owner = on.person("Olga", id=OWNER)
            call = ScriptedCall(name="send_message", arguments=json.dumps({"text": DINNER, "to": "discord"}))
            async with on.gateway():
                await on.home.until_platform("connected", account="discord")
                discord.people.send_text(roses, olga, f"<@{discord.world.bot.id}> /sethome")
                await discord.wait_for_text(roses, "", seconds=30)
                on.model.script(ask_for(call))
                question = await on.ask(owner, "Tell the Discord channel that dinner is ready.", "May I do this")
                assert f"(discord:{roses}):\n{DINNER}" in question["text"]
                assert "it goes to another chat" in question["text"]
                await until(lambda: on.home.rows("SELECT 1 FROM outbox WHERE topic = 'approval' AND state = 'sent'"))
            # Killed while it waits: the question stands, and nothing was said.
            assert DINNER not in discord.texts(roses)
            on.model.may_answer.clear()
            async with on.gateway():
                await on.home.until_platform("connected", account="discord")
                on.people.press(owner, owner, question["message_id"], text="Once")
                await discord.wait_for_text(roses, DINNER, seconds=30)
                await on.model.until_asked(2)  # it has the result, and is about to answer
            on.model.may_answer.set()
            async with on.gateway():
                await on.hear(owner, "It is on its way.")
                await on.home.until_idle()
            assert discord.texts(roses).count(DINNER) == 1
            assert '"status": "queued"' in on.model.words()
            assert on.home.rows("SELECT state FROM approvals") == [("used",)]
            sent = "SELECT state, notify FROM outbox WHERE account = 'discord' AND topic = 'message'"
            assert on.home.rows(sent) == [("sent", 1)]
            [(row, receipt)] = on.home.rows("SELECT id, receipt FROM outbox WHERE topic = 'message'")
            for name in (f"outbox:{row}", f"discord:{roses}:{receipt}"):
                told = await on.home.hermes("trace", name)
                assert f"the message to discord:{roses} was delivered as message {receipt}" in told
