"""Discord's gateway ends, hangs and forgets in its many ways, and no message is lost or answered twice."""

from collections.abc import Callable
from pathlib import Path

import pytest

from playground.discord.gateway import DiscordGateway
from playground.discord.server import DiscordServer
from tests.journeys.discord_stage import Stage, stage

HASTY = "tests.journeys.hasty_hermes"


def _answers(on: Stage) -> list[str]:
    return [text.rpartition(" ")[2] for text in on.discord.texts(on.dm(on.owner))]


async def test_a_line_that_ends_is_resumed_and_what_was_missed_is_heard(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        line = on.discord.gateway
        async with on.gateway() as running:
            await on.ask(on.owner, "what is 1 + 1?", "= 2")
            line.cut()
            await on.ask(on.owner, "what is 2 + 2?", "= 4")
            line.close(4000)
            await on.ask(on.owner, "what is 3 + 3?", "= 6")
            line.ask_reconnect()
            await on.ask(on.owner, "what is 4 + 4?", "= 8")
            await on.discord.wait_for(lambda: line.resumes == 3, seconds=30)
            await running.stop()
        assert _answers(on) == ["2", "4", "6", "8"]
        assert line.identifies == 1


def _invalidate(gateway: DiscordGateway) -> None:
    gateway.invalidate()


def _forget(gateway: DiscordGateway) -> None:
    gateway.sessions.clear()
    gateway.cut()


@pytest.mark.parametrize("disturb", [_invalidate, _forget], ids=["told so", "found out"])
async def test_a_session_that_is_no_more_is_begun_anew_and_what_was_missed_is_read(
    tmp_path: Path, disturb: Callable[[DiscordGateway], None]
) -> None:
    async with stage(tmp_path, demo=True) as on:
        async with on.gateway() as running:
            await on.ask(on.owner, "what is 1 + 1?", "= 2")
            disturb(on.discord.gateway)
            await on.ask(on.owner, "what is 2 + 2?", "= 4")
            await on.ask(on.owner, "what is 3 + 3?", "= 6")
            await running.stop()
        assert _answers(on) == ["2", "4", "6"]
        assert on.discord.gateway.identifies == 2


async def test_a_line_that_is_open_and_dead_is_left_and_resumed(tmp_path: Path) -> None:
    async with DiscordServer(heartbeat_seconds=0.5) as discord, stage(tmp_path, demo=True, discord=discord) as on:
        async with on.gateway(module=HASTY) as running:
            await on.ask(on.owner, "what is 1 + 1?", "= 2")
            before = discord.gateway.resumes
            discord.gateway.freeze()  # nothing is read and no heartbeat answered; new connections are served
            await on.ask(on.owner, "what is 2 + 2?", "= 4")
            await on.ask(on.owner, "what is 3 + 3?", "= 6")
            await running.stop()
        assert _answers(on) == ["2", "4", "6"]
        assert discord.gateway.identifies == 1
        assert discord.gateway.resumes > before


async def test_a_token_that_is_reset_meanwhile_is_told_to_the_operator(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on, on.gateway() as running:
        await on.home.until_platform("connected", account="discord")
        on.discord.gateway.token_reset = True
        on.discord.gateway.close(4004)
        await on.home.until_platform("needs operator", account="discord", words="DISCORD_BOT_TOKEN")
        await running.stop()
