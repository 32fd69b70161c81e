"""Killed in the middle, refused, not running: what the people on Discord see of it."""

from pathlib import Path
from typing import Literal

import pytest

from playground.model_script import say
from tests.gateway.platforms.client import connect
from tests.journeys.discord_stage import stage
from tests.journeys.stage import until

FORGOTTEN_SECONDS = 400.0  # by then Discord knows no nonce any more


async def test_kill_nine_in_the_middle_of_a_turn_is_answered_once_after_the_start(tmp_path: Path) -> None:
    async with stage(tmp_path, otherwise=say("The answer.")) as on:
        dm = on.dm(on.owner)
        async with on.gateway() as running:
            on.model.may_answer.clear()
            on.say(on.owner, "a hard question")
            await on.model.until_asked(1)
            await running.kill()
        on.say(on.owner, "one more, while nobody listened")
        on.model.may_answer.set()
        async with on.gateway() as running:
            await on.hear_count(dm, 2)
            await on.until_taken(dm)
            await on.home.until_idle()
            await running.stop()
        assert on.discord.texts(dm).count("The answer.") == 2
        assert [outcome for (outcome,) in on.home.rows("SELECT outcome FROM turns")] == ["answered", "answered"]
        assert on.model.refusals == []


@pytest.mark.parametrize(
    ("fault", "age_seconds"), [("hang", 0.0), ("hang_after", 0.0), ("hang_after", FORGOTTEN_SECONDS)]
)
async def test_kill_nine_while_discord_had_not_said_whether_it_took_the_answer_sends_it_once(
    tmp_path: Path, fault: Literal["hang", "hang_after"], age_seconds: float
) -> None:
    async with stage(tmp_path, otherwise=say("The answer.")) as on:
        channel = on.channel(on.owner)
        async with on.gateway() as running:
            on.discord.faults.add(fault, "createMessage")
            on.say(on.owner, f"{on.mention} a question", where=channel)
            await on.discord.wait_for(lambda: on.discord.called("createMessage"), seconds=30)
            await running.kill()
        arrived = ["The answer."] if fault == "hang_after" else []
        assert on.discord.texts(channel) == arrived
        on.people.age(age_seconds)
        async with on.gateway() as running:
            await on.hear(channel, "The answer.")
            await on.home.until_idle()
            await running.stop()
        assert on.discord.texts(channel) == ["The answer."]
        assert on.home.rows("SELECT state FROM outbox") == [("sent",)]
        assert len(on.model.requests) == 1


async def test_what_was_said_while_nobody_ran_is_answered_in_order_and_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        guild = on.guild(on.owner)
        dm, channel = on.dm(on.owner), on.channel(guild=guild)
        thread = on.people.make_thread(channel, on.owner, "Herbs")["id"]
        async with on.gateway() as running:
            await on.ask(on.owner, "hello", "Noted.")
            await on.until_taken(channel)
            await running.stop()
        for number in range(3):
            last = on.say(on.owner, f"<dm {number}>")
            on.say(on.owner, f"{on.mention} <channel {number}>", where=channel)
        on.people.edit_text(dm, last, "<dm 2, edited>")
        on.say(on.owner, f"{on.mention} <thread>", where=thread)
        fresh = on.channel(guild=guild)  # made meanwhile
        on.say(on.owner, f"{on.mention} <fresh>", where=fresh)
        on.say(on.owner, f"{on.mention} taken back", where=channel)
        on.people.delete(channel, [on.discord.world.channels[int(channel)].last_message_id])
        async with on.gateway() as running:
            await on.until_seen(dm, last)
            for where in (channel, thread, fresh):
                await on.until_taken(where)
            await on.home.until_idle()
            await running.stop()
        taken = "SELECT json_extract(parts, '$[0].text') FROM inbox WHERE kind = 'message' AND chat = ? ORDER BY id"
        heard = {
            where: [text.removeprefix("@playground ") for (text,) in on.home.rows(taken, where)]
            for where in (dm, channel, thread, fresh)
        }
        assert heard[dm] == ["hello", "<dm 0>", "<dm 1>", "<dm 2, edited>"]
        assert heard[channel] == ["<channel 0>", "<channel 1>", "<channel 2>"]
        assert (heard[thread], heard[fresh]) == (["<thread>"], ["<fresh>"])
        assert on.home.rows("SELECT DISTINCT state FROM inbox") == [("done",)]
        assert on.discord.texts(thread) == on.discord.texts(fresh) == ["Noted."]
        assert on.model.refusals == []


async def test_an_answer_that_discord_asks_us_to_wait_with_comes_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        dm = on.dm(on.owner)
        async with on.gateway() as running:
            on.discord.faults.add("fail", "createMessage", retry_after=0.4, count=2)
            await on.ask(on.owner, "a question", "Noted.")
            await on.home.until_idle()
            await running.stop()
        assert [call.status for call in on.discord.called("createMessage")] == [429, 429, 200]
        assert on.discord.texts(dm) == ["Noted."]


async def test_while_discord_is_down_nothing_is_lost_and_status_says_why_it_is_not_heard(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        dm = on.dm(on.owner)
        async with on.gateway() as running:
            on.model.may_answer.clear()
            on.say(on.owner, "a hard question")
            await on.model.until_asked(1)
            await on.discord.pause()
            await on.home.until_platform("waiting", account="discord")
            on.model.may_answer.set()
            await until(lambda: on.home.rows("SELECT 1 FROM outbox WHERE kind = 'answer'"))
            on.say(on.owner, "are you there?")
            status = await on.home.hermes("status")
            line = next(line for line in status.splitlines() if line.startswith("discord "))
            assert "waiting, last contact" in line
            assert "Discord" in line
            assert "1 undelivered" in status

            await on.discord.resume()
            await on.hear_count(dm, 2)
            assert "discord   connected" in await on.home.hermes("status")
            await running.stop()
        assert on.discord.texts(dm) == ["Noted.", "Noted."]
        assert len(on.model.requests) == 2


async def test_a_wrong_token_stops_discord_alone_and_status_says_what_to_do(tmp_path: Path) -> None:
    token = "MTE.not-this.one"
    async with stage(tmp_path, demo=True, environment={"DISCORD_BOT_TOKEN": token}) as on:
        async with on.home.gateway() as running:
            await on.home.until_platform("needs operator", account="discord")
            async with connect(on.home.path / "hermes.sock") as client:
                await client.say("what is 17 * 23?", message_id="1")
                assert "391" in (await client.hear())["text"]
            status = await on.home.hermes("status")
            line = next(line for line in status.splitlines() if line.startswith("discord "))
            assert "stopped until you fix this" in line
            assert "Correct DISCORD_BOT_TOKEN" in line
            assert "socket    connected" in status
            await running.stop()
        assert token not in running.printed
        assert len(on.discord.calls) == 1  # a wrong token is not tried again


async def test_a_missing_intent_is_told_with_the_switch_to_set(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        on.discord.world.privileged = 0
        async with on.home.gateway() as running:
            await on.home.until_platform("needs operator", account="discord", words="Message Content Intent")
            assert "Message Content Intent" in await on.home.hermes("status")
            await running.stop()
        assert on.discord.gateway.identifies == 1
