"""Slash commands and buttons: answered once and in time."""

from collections.abc import AsyncGenerator

import discord
import pytest
from discord import app_commands

from playground.discord.server import DiscordServer
from tests.playground.discord.scene import Bot, Scene


@pytest.fixture
async def scene(server: DiscordServer) -> AsyncGenerator[Scene]:
    """The bot has one command."""
    bot = Bot()
    tree = app_commands.CommandTree(bot)

    @tree.command(name="echo", description="Say it again")
    async def echo(interaction: discord.Interaction, words: str) -> None:
        await interaction.response.send_message(words)

    async with Scene(server, bot) as running:
        await tree.sync()
        yield running


class Buttons(discord.ui.View):
    def __init__(self) -> None:
        super().__init__(timeout=None)
        self.add_item(discord.ui.Button(label="Yes", custom_id="yes"))
        self.add_item(discord.ui.Button(label="No", custom_id="no"))


@pytest.mark.parametrize("where", ["room", "dm"])
async def test_a_slash_command_is_answered(scene: Scene, where: str) -> None:
    place = getattr(scene, where)
    answer = await scene.people.use_command_and_wait(place, scene.ada, "echo", {"words": "hello"})
    assert (answer["type"], answer["data"]["content"]) == (4, "hello")
    assert scene.server.texts(place) == ["hello"]
    with pytest.raises(ValueError, match="no command /fly"):
        scene.people.use_command(place, scene.ada, "fly")


async def test_too_late_an_interaction_is_unknown(scene: Scene) -> None:
    asked = await scene.channel.send("Sure?", view=Buttons())
    scene.people.press(scene.room, scene.ada, asked.id, custom_id="no")
    interaction = await scene.bot.until("interaction")
    scene.people.age(4)
    with pytest.raises(discord.NotFound) as caught:
        await interaction.response.send_message("late")
    assert caught.value.code == 10062


async def test_a_second_answer_is_refused(scene: Scene) -> None:
    asked = await scene.channel.send("Sure?", view=Buttons())
    scene.people.press(scene.room, scene.ada, asked.id, custom_id="no")
    interaction = await scene.bot.until("interaction")
    await interaction.response.defer()
    interaction.response._response_type = None  # what a second process would not know
    with pytest.raises(discord.HTTPException) as caught:
        await interaction.response.send_message("again")
    assert caught.value.code == 40060


async def test_an_ephemeral_answer_is_in_no_history(scene: Scene) -> None:
    asked = await scene.channel.send("Sure?", view=Buttons())
    scene.people.press(scene.room, scene.ada, asked.id, custom_id="yes")
    interaction = await scene.bot.until("interaction")
    await interaction.response.send_message("between us", ephemeral=True)
    assert scene.server.texts(scene.room) == ["Sure?", "between us"]
    assert [message.content async for message in scene.channel.history()] == ["Sure?"]
    assert scene.bot.texts() == ["Sure?"]
