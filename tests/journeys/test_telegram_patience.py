"""Stories that take as long as their limits do."""

import asyncio
from pathlib import Path

import pytest

from tests.journeys.stranger_flood import feel_the_crowd
from tests.journeys.telegram_stage import OWNER, UNHURRIED, stage


@pytest.mark.slow  # after a conflict a gateway leaves the bot to the other one for 30 seconds
@pytest.mark.thorough
async def test_two_gateways_with_one_token_take_turns_and_the_one_that_stays_goes_on(tmp_path: Path) -> None:
    async with stage(tmp_path, name="one", demo=True) as on:
        ada = on.person("Ada", id=OWNER)
        async with on.gateway() as running, stage(tmp_path, name="two", demo=True, telegram=on.telegram) as beside:
            await on.ask(ada, "what is 1 + 1?", "= 2")
            async with beside.home.gateway() as other:
                why = "another program receives this bot's messages"
                await on.home.until_platform("waiting", words=why, seconds=30)
                await on.ask(ada, "what is 2 + 2?", "= 4")
                await beside.home.until_platform("waiting", words=why, seconds=45)
                await on.ask(ada, "what is 3 + 3?", "= 6")
                assert why in await beside.home.hermes("status")
                assert other.is_running
                await running.stop()
                await beside.home.until_platform("connected", seconds=45)
                await on.ask(ada, "what is 4 + 4?", "= 8")
                await other.stop()
        assert [text.rpartition(" ")[2] for text in on.telegram.texts(ada)] == ["2", "4", "6", "8"]


@pytest.mark.slow  # a poll of one second is given up after eleven; with the usual 25 it would be 35
async def test_a_half_open_line_is_noticed_and_rebuilt(tmp_path: Path) -> None:
    config = {"platforms": {"telegram": {"poll_seconds": 1}}}
    async with stage(tmp_path, demo=True, config=config) as on:
        ada = on.person("Ada", id=OWNER)
        async with on.gateway() as running:
            await on.ask(ada, "what is 1 + 1?", "= 2")
            on.telegram.half_open()
            on.say(ada, "what is 2 + 2?")
            await on.home.until_platform("waiting", words="the connection is dead", seconds=20)
            await on.telegram.resume()
            await on.hear(ada, "= 4", seconds=45)
            await running.stop()
        assert len(on.telegram.texts(ada)) == 2


@pytest.mark.thorough
@pytest.mark.slow  # thirty messages to one person take thirty seconds
async def test_thirty_in_a_burst_are_all_answered_while_other_chats_go_on(tmp_path: Path) -> None:
    others = range(3000, 3030)
    listed = {"TELEGRAM_ALLOWED_USERS": ",".join(map(str, others))}
    config = {
        "platforms": {"telegram": UNHURRIED},
        "access": {"messages_per_minute": 30},
        "gateway": {"max_waiting_per_session": 30},
    }
    async with stage(tmp_path, demo=True, limits=True, config=config, environment=listed) as on:
        ada = on.person("Ada", id=OWNER)
        for other in others:
            on.person(f"Other {other}", id=other)
        async with on.gateway() as running:
            for _ in range(30):
                on.say(ada, "/whoami")
            for number, other in enumerate(others):
                on.say(other, f"what is {number} + 1000?")
            await asyncio.gather(
                *(on.hear(other, f"= {number + 1000}", seconds=30) for number, other in enumerate(others))
            )
            assert len(on.telegram.texts(ada)) < 15  # she is still being answered, one a second
            await on.hear_count(ada, 30, seconds=60)
            await running.stop()
        assert len(on.telegram.texts(ada)) == 30
        too_many = len(on.refused_calls(429))
        print(f"{too_many} answers with 429 of {len(on.telegram.called('sendMessage'))}")
        assert too_many <= 3


@pytest.mark.thorough
@pytest.mark.slow  # six thousand messages take their time
async def test_a_crowd_of_strangers_keeps_nobody_from_an_answer_and_fills_no_disk(tmp_path: Path) -> None:
    felt = await feel_the_crowd(tmp_path, spread_seconds=10)
    print(*felt.lines(), sep="\n")
    assert felt.crowded  # each of them answered, or it would not be here
    assert 0 < felt.codes <= 3
    assert felt.refusals <= 1_100  # of nearly six thousand
