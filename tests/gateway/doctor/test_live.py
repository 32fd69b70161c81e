"""Tokens tried at servers on loopback."""

import asyncio
from pathlib import Path

import pytest

from gateway.doctor import live
from gateway.doctor.facts import Finding
from playground.discord.server import DiscordServer
from playground.model_server import ModelServer
from playground.slack.server import SlackServer
from playground.telegram.server import TelegramServer
from tests.gateway.doctor.scene import facts_of

WRONG = {
    "telegram_bot_token": "42:wrong-token",
    "discord_bot_token": "wrong-token",
    "slack_bot_token": "xoxb-wrong-token",
    "slack_app_token": "xapp-wrong-token",
}


@pytest.mark.parametrize("right", [True, False])
async def test_each_server_is_asked(root: Path, right: bool) -> None:
    async with TelegramServer() as telegram, DiscordServer() as discord, SlackServer() as slack:
        tokens = {
            "telegram_bot_token": telegram.token,
            "discord_bot_token": discord.token,
            "slack_bot_token": slack.bot_token,
            "slack_app_token": slack.app_token,
        }
        servers = {"telegram": telegram.url, "discord": discord.api_url, "slack": slack.api_url}
        found = await ask(root, {name: {"api_url": url} for name, url in servers.items()}, tokens if right else WRONG)
    assert [one.level for one in found] == ["ok" if right else "bad"] * 4
    if right:
        assert "telegram accepts our token; the bot's name is playground_bot" in [one.text for one in found]
    else:
        assert {one.fix for one in found} == {f"hermes config set {name.upper()}" for name in WRONG}
        assert "wrong-token" not in str(found)


async def test_a_server_that_is_not_there_is_no_wrong_token(root: Path) -> None:
    async with TelegramServer() as telegram:
        gone = telegram.url
    [finding] = await ask(root, {"telegram": {"api_url": gone}}, {"telegram_bot_token": "42:some-token"})
    assert (finding.level, "some-token" in str(finding)) == ("warn", False)


async def test_the_models_server_is_asked(root: Path) -> None:
    async with ModelServer() as server:
        model = {"name": "m", "base_url": server.url}
        [answered] = await ask(root, {}, {"openai_api_key": server.api_key}, model)
        [refused] = await ask(root, {}, {"openai_api_key": "sk-wrong"}, model)
    assert (answered.level, answered.text) == ("ok", "The model server of m accepts our token")
    assert (refused.level, refused.fix) == ("bad", "hermes config set OPENAI_API_KEY")


async def ask(
    root: Path,
    platforms: dict[str, dict[str, str]],
    secrets: dict[str, str],
    model: dict[str, str] | None = None,
) -> list[Finding]:
    facts = facts_of(root, {"platforms": platforms, "secrets": secrets, "model": model or {}})
    return await asyncio.to_thread(list, live.check_tokens(facts))
