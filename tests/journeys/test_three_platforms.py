"""One gateway with Telegram, Discord and Slack: each is paired and talked to, and none depends on another."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from playground.discord.server import DiscordServer
from playground.slack.server import SlackServer
from tests.journeys.stage import code_in
from tests.journeys.telegram_stage import Stage, stage

SECONDS = 30.0


@dataclass(kw_only=True)
class Three:
    first: Stage
    discord: DiscordServer
    slack: SlackServer

    async def with_people(self) -> tuple[int, tuple[str, str], tuple[str, str]]:
        """Somebody on each, once all are connected: Ada, and Bea and Cleo with their direct chats."""
        for account in ("telegram", "discord", "slack"):
            await self.first.home.until_platform("connected", account=account, seconds=SECONDS)
        bea = self.discord.people.make_user("bea")["id"]
        cleo = self.slack.people.make_user("cleo")["id"]
        return (
            self.first.person("Ada"),
            (bea, self.discord.people.open_dm(bea)["id"]),
            (cleo, self.slack.people.make_dm(cleo)["id"]),
        )


@asynccontextmanager
async def three(tmp_path: Path, **variables: str) -> AsyncIterator[Three]:
    async with DiscordServer() as discord, SlackServer() as slack:
        environment = {
            "DISCORD_BOT_TOKEN": discord.token,
            "DISCORD_API_URL": discord.api_url,
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_APP_TOKEN": slack.app_token,
            "SLACK_API_URL": slack.api_url,
            **variables,
        }
        async with stage(tmp_path, demo=True, environment=environment) as first:
            yield Three(first=first, discord=discord, slack=slack)


async def test_a_stranger_is_paired_and_answered_on_each(tmp_path: Path) -> None:
    async with three(tmp_path) as all_three, all_three.first.home.gateway(warm=False):
        home, telegram, discord, slack = all_three.first.home, all_three.first, all_three.discord, all_three.slack
        ada, (bea, bea_dm), (cleo, cleo_dm) = await all_three.with_people()

        telegram.say(ada, "hello")
        code = code_in((await telegram.hear(ada, "code"))["text"])
        assert "Ada" in await home.hermes("pairing", "approve", "telegram", code)
        await telegram.ask(ada, "what is 6 * 7?", "6 * 7 = 42")

        discord.people.send_text(bea_dm, bea, "hello")
        code = code_in((await discord.wait_for_text(bea_dm, "code", seconds=SECONDS))["content"])
        assert "bea" in await home.hermes("pairing", "approve", "discord", code)
        discord.people.send_text(bea_dm, bea, "what is 6 * 8?")
        await discord.wait_for_text(bea_dm, "6 * 8 = 48", seconds=SECONDS)

        slack.people.send_text(cleo_dm, cleo, "hello")
        code = code_in(str(await slack.wait_for_text(cleo_dm, "code", seconds=SECONDS)))
        assert "cleo" in await home.hermes("pairing", "approve", "slack", code)
        slack.people.send_text(cleo_dm, cleo, "what is 6 * 9?")
        await slack.wait_for_text(cleo_dm, "6 * 9 = 54", seconds=SECONDS)


async def test_wrong_tokens_of_two_leave_the_third_alone_and_the_owner_is_told_there(tmp_path: Path) -> None:
    """Slow by the few seconds after which it is looked who can be heard."""
    wrong = {"DISCORD_BOT_TOKEN": "wrong.token.here", "SLACK_BOT_TOKEN": "xoxb-wrong"}
    async with (
        three(tmp_path, HERMES_ACCESS__OWNER_USERS="telegram:100", **wrong) as all_three,
        all_three.first.home.gateway(),
    ):
        home = all_three.first.home
        await home.until_platform("needs operator", account="discord", words="DISCORD_BOT_TOKEN", seconds=SECONDS)
        await home.until_platform("needs operator", account="slack", words="SLACK_BOT_TOKEN", seconds=SECONDS)
        await home.until_platform("connected", account="telegram", seconds=SECONDS)
        owner = all_three.first.person("Olga", id=100)
        await all_three.first.ask(owner, "what is 6 * 7?", "6 * 7 = 42")
        await all_three.first.hear(owner, "I cannot reach discord")
        told = (await all_three.first.hear(owner, "I cannot reach slack"))["text"]
        assert "SLACK_BOT_TOKEN" in told
        assert "hermes status" in told


async def test_why_as_a_reply_tells_the_trail_on_each(tmp_path: Path) -> None:
    async with three(tmp_path, GATEWAY_ALLOW_ALL_USERS="true") as all_three, all_three.first.home.gateway():
        home, telegram, discord, slack = all_three.first.home, all_three.first, all_three.discord, all_three.slack
        ada, (bea, bea_dm), (cleo, cleo_dm) = await all_three.with_people()

        # Of two questions each, the first is asked about: the answer on one, the question itself on the others.
        telegram.say(ada, "what is 6 * 7?")
        discord_asked = discord.people.send_text(bea_dm, bea, "what is 6 * 8?")["id"]
        slack_asked = slack.people.send_text(cleo_dm, cleo, "what is 6 * 9?")["ts"]
        telegram_answer = (await telegram.hear(ada, "6 * 7 = 42"))["message_id"]
        discord_answer = (await discord.wait_for_text(bea_dm, "6 * 8 = 48", seconds=SECONDS))["id"]
        slack_answer = (await slack.wait_for_text(cleo_dm, "6 * 9 = 54", seconds=SECONDS))["ts"]
        await telegram.ask(ada, "what is 1 + 1?", "= 2")
        discord.people.send_text(bea_dm, bea, "what is 1 + 1?")
        await discord.wait_for_text(bea_dm, "= 2", seconds=SECONDS)
        slack.people.send_text(cleo_dm, cleo, "what is 1 + 1?")
        await slack.wait_for_text(cleo_dm, "= 2", seconds=SECONDS)
        await home.until_idle()  # the receipts are kept by now

        await telegram.ask(ada, "/why", f"delivered as Telegram message {telegram_answer}.", reply_to=telegram_answer)
        discord.people.send_text(bea_dm, bea, "/why", reply_to=discord_asked)
        await discord.wait_for_text(bea_dm, f"delivered as Discord message {discord_answer}.", seconds=SECONDS)
        slack.people.send_text(cleo_dm, cleo, f"<@{slack.world.bot.id}> /why", thread=slack_asked)
        await slack.wait_for_text(cleo_dm, f"delivered as Slack message {slack_answer}.", seconds=SECONDS)
