"""A whole gateway on a Discord that others have written: simcord's people talk to it, simcord's rules judge it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import discord
import simcord

from playground.model_script import say
from tests.interop.simcord_discord import TOKEN, SimulatedDiscord, simulated_discord
from tests.journeys.stage import Home, RunningGateway, WatchedModel, make_home


@dataclass(kw_only=True)
class Stage:
    simulated: SimulatedDiscord
    model: WatchedModel
    home: Home
    gateway: RunningGateway
    ada: simcord.MemberActor

    @property
    def dm(self) -> simcord.ChannelHandle:
        return self.ada.user.dm_channel

    async def hear(self, channel: simcord.ChannelHandle, words: str) -> discord.Message:
        """What the bot has said, once it has nothing more to say: until then it may be shown a draft."""
        await self.simulated.hear(channel, words)
        await self.home.until_idle()
        return await self.simulated.hear(channel, words)


@asynccontextmanager
async def stage(folder: Path, *, answer: str = "Noted.") -> AsyncIterator[Stage]:
    async with simulated_discord() as simulated, WatchedModel(otherwise=say(answer)) as model:
        ada = simulated.env.create_guild("Engines").add_member(simulated.env.create_user("ada"))
        config = {
            "platforms": {"socket": {"enabled": True}, "web": {"enabled": False}},
            "access": {"owner_users": [f"discord:{ada.id}"]},
            "model": {"name": "playground"},
        }
        variables = {
            "DISCORD_BOT_TOKEN": TOKEN,
            "DISCORD_API_URL": simulated.api_url,
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": model.api_key,
        }
        home = make_home(folder / "home", config, variables)
        async with home.gateway() as gateway:
            await home.until_platform("connected", account="discord")
            await simulated.wait_for(lambda: "help" in ada.user.available_commands())
            yield Stage(simulated=simulated, model=model, home=home, gateway=gateway, ada=ada)


async def test_a_direct_message_is_answered(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.ada.send_dm("how are the engines?")
        await on.hear(on.dm, "Noted.")
        assert "how are the engines?" in on.model.newest_words()
        assert [one.author.id for one in on.dm.history()] == [on.ada.id, on.simulated.bot]


async def test_a_slash_command_is_acknowledged_unseen_and_answered_for_all_to_read(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        engines = on.ada.guild.create_text_channel("engines")
        assert {"help", "new", "resume", "stop"} <= set(on.ada.available_commands(engines))
        taken = await on.ada.slash(engines, "status")
        answer = await on.hear(engines, "Model: playground")
        await on.simulated.wait_for(lambda: taken.acknowledged and taken.response is None)  # taken away again
        assert taken.ephemeral
        assert [one.id for one in engines.history()] == [answer.id]


async def test_a_pressed_button_changes_the_message_that_it_stands_below(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.ada.send_dm("a talk about steam")
        await on.hear(on.dm, "Noted.")
        await on.ada.user.slash("new")
        await on.hear(on.dm, "new conversation")
        await on.ada.user.slash("resume")
        offered = await on.hear(on.dm, "Send /resume")
        pressed = await on.ada.user.click(offered, label="a talk about steam")
        changed = await on.hear(on.dm, "You are back in")
        await on.simulated.wait_for(lambda: pressed.acknowledged)
        assert changed.id == offered.id
        assert changed.edited_at is not None
        assert not changed.components


async def test_in_a_channel_a_mention_is_answered_with_a_reply_that_rings_nobody(tmp_path: Path) -> None:
    async with stage(tmp_path, answer="Ask <@1> or @everyone.") as on:
        engines = on.ada.guild.create_text_channel("engines")
        await on.ada.send(engines, "nothing for you")
        asked = await on.ada.send(engines, f"<@{on.simulated.bot}> who knows?")
        answer = await on.hear(engines, "Ask")
        assert answer.reference is not None
        assert answer.reference.message_id == asked.id
        assert not answer.mention_everyone
        assert answer.mentions == []
        assert len(on.model.requests) == 1


async def test_a_channel_where_the_bot_may_not_speak_holds_up_no_other(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        everyone = on.ada.guild.default_role
        closed = on.ada.guild.create_text_channel(
            "closed",
            overwrites={
                everyone: discord.PermissionOverwrite(send_messages=False),
                on.ada: discord.PermissionOverwrite(send_messages=True),
            },
        )
        await on.ada.send(closed, f"<@{on.simulated.bot}> speak!")
        await on.model.until_asked(1)
        await on.ada.send_dm("how are the engines?")
        await on.hear(on.dm, "Noted.")
        await on.home.until_idle()
        assert len(closed.history()) == 1
        assert set(on.home.rows("SELECT state FROM outbox WHERE chat = ?", str(closed.id))) == {("failed",)}


async def test_what_was_said_while_the_line_was_cut_is_answered(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.ada.send_dm("one")
        await on.hear(on.dm, "Noted.")
        on.simulated.cut()
        await on.ada.send_dm("two")
        await on.model.until_asked(2)
        assert "two" in on.model.newest_words()
        assert on.simulated.sessions == 2
