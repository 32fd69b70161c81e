"""Slash commands and buttons on Discord: Discord is told in time, and everybody's rules are the same."""

from pathlib import Path

from playground.discord.messages import EPHEMERAL
from playground.model_script import say
from playground.wire import Wire
from tests.journeys.discord_stage import Stage, stage
from tests.journeys.stage import code_in


async def test_slash_commands_obey_whoever_may_speak_there_and_nobody_else(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        member, stranger = on.person("member"), on.person("stranger")
        channel = on.channel(on.owner, member, stranger)
        async with on.gateway() as running:
            taken = await on.command(on.owner, "whoami")
            assert taken["data"]["flags"] & EPHEMERAL  # shown to nobody else
            await on.hear(on.dm(on.owner), f"discord:{on.owner}: owner")
            await on.command(on.owner, "whoami", where=channel)
            await on.hear(channel, f"discord:{on.owner}: owner")

            code = code_in(await on.home.hermes("pairing", "invite", "discord"))
            await on.ask(member, code, "You are in")
            await on.command(member, "whoami")
            await on.hear(on.dm(member), "member (paired)")
            await on.ask(member, "/pairing list", "/pairing is not available to you here")

            await on.command(stranger, "whoami")
            await on.hear(on.dm(stranger), "I do not know you yet")
            for name in ("whoami", "new", "stop"):
                await on.command(stranger, name, where=channel)
            await on.until_taken(channel)
            await on.home.until_idle()
            await running.stop()
        assert len(on.discord.texts(channel)) == 1
        assert len(on.discord.texts(on.dm(stranger))) == 1
        assert on.model.requests == []
        assert _left_over(on, channel) == []


def _left_over(on: Stage, channel: str) -> list[str]:
    """What was only said to tell Discord that a command was taken, and is still shown."""
    return [one["text"] for one in on.discord.show(channel) if one.get("ephemeral")]


async def test_a_slash_command_stops_what_runs_without_waiting_for_it(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        dm = on.dm(on.owner)
        async with on.gateway() as running:
            on.model.may_answer.clear()
            on.say(on.owner, "a hard question")
            await on.model.until_asked(1)
            await on.command(on.owner, "stop")
            await on.hear(dm, "Stopped.")
            on.model.may_answer.set()
            await on.home.until_idle()
            await running.stop()
        assert on.discord.texts(dm) == ["Stopped."]


async def test_a_button_takes_its_presser_back_and_a_strangers_press_does_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        stranger = on.person("stranger")
        channel = on.channel(on.owner, stranger)
        async with on.gateway() as running:
            on.model.script(say("Water them twice."))
            await on.ask(on.owner, f"{on.mention} about roses", "Water them twice.", where=channel)
            await on.command(on.owner, "new", where=channel)
            await on.hear(channel, "A new conversation begins")
            await on.command(on.owner, "resume", where=channel)
            offer = await on.hear(channel, "Conversations to go back to")

            pressed = await on.people.press_and_wait(channel, stranger, offer["id"], label=_label(offer))
            assert pressed == {"type": 6, "data": {}}  # Discord is told, and nothing is said
            await on.until_taken(channel)
            await on.home.until_idle()
            assert on.discord.texts(channel)[-1] == offer["content"]

            await on.people.press_and_wait(channel, on.owner, offer["id"], label=_label(offer))
            back = await on.hear(channel, "You are back in")
            assert (back["id"], back["components"]) == (offer["id"], [])  # in the place of the list
            await running.stop()
        assert on.home.rows("SELECT COUNT(*), ended_ms FROM sessions") == [(1, None)]  # it goes on where it was
        assert len(on.model.requests) == 1


def _label(offer: Wire) -> str:
    label: str = offer["components"][0]["components"][0]["label"]
    return label
