"""Random kills under load, on Telegram: many chats talk while the gateway is killed again and again.

    python -m tests.faults.telegram_kills --kills 300 --seed 1 --sessions 20

As in `random_kills`, with a group's topic beside the direct chats, edits, and people who have an answer in doubt sent
again. Now and then the network fails as well: a send whose answer is cut off, an update that comes twice, an outage.
"""

import asyncio
import contextlib
import random
import time
from pathlib import Path

from tests.faults import aftermath
from tests.faults.ledger import Verdict
from tests.faults.points import TELEGRAM_POINTS
from tests.faults.random_kills import Run, one_life, run_from_command_line
from tests.faults.telegram_stage import Place, TelegramStage, on_telegram_stage

_OUTSTANDING = 4  # what one chat has asked and not yet been told
_MOST_OUTSTANDING = 12  # beyond that most would find the queue full
_PAUSE_SECONDS = 0.1
_PATIENCE_SECONDS = 4.0
_SETTINGS = {"HERMES_GATEWAY__MAX_TURNS": "8", "HERMES_GATEWAY__DRAIN_TIMEOUT_SECONDS": "0.1"}


async def kill_at_random(folder: Path, *, kills: int, seed: int, sessions: int, broken: str = "") -> Run:
    chances = random.Random(seed)
    run = Run(verdict=Verdict())
    began = time.monotonic()
    async with on_telegram_stage(folder, users=sessions, settings=_SETTINGS, broken=broken) as (stage, places):
        async with asyncio.TaskGroup() as group:
            talkers = [
                group.create_task(_talk(stage, place, random.Random(f"{seed} {place.name}"))) for place in places
            ]
            outages: set[asyncio.Task[None]] = set()

            def disturb() -> None:
                if (task := _disturb(stage, chances, group)) is not None:
                    outages.add(task)

            while run.kills < kills:
                await one_life(stage, chances, run, TELEGRAM_POINTS, disturb=disturb)
            for talker in talkers:
                talker.cancel()
            if outages:
                await asyncio.wait(outages)
        stage.server.faults.clear()
        await stage.process.start()
        run.verdict = await stage.finish(seconds=120)
        run.extra = {
            "in doubt": aftermath.doubts(stage.database),
            "pressed": stage.presses,
            "notices twice": sum(count > 1 for count in stage.notices.values()),
        }
    run.seconds = time.monotonic() - began
    return run


def _disturb(stage: TelegramStage, chances: random.Random, group: asyncio.TaskGroup) -> asyncio.Task[None] | None:
    match chances.randrange(4):
        case 0:
            stage.server.faults.add("cut_after", "sendMessage")
        case 1:
            stage.server.faults.add("duplicate_new_id", "message")
        case 2:
            stage.server.faults.add("duplicate_later", "message")
        case _:
            return group.create_task(_outage(stage, chances.uniform(0.05, 0.3)))
    return None


async def _outage(stage: TelegramStage, seconds: float) -> None:
    await stage.server.pause()
    await asyncio.sleep(seconds)
    await stage.server.resume()


async def _talk(stage: TelegramStage, place: Place, chances: random.Random) -> None:
    while True:
        # What is in doubt may never come, and a stop may have ended the rest; then the chat goes on after a while.
        with contextlib.suppress(TimeoutError):
            await stage.ledger.until(lambda: stage.ledger.waiting(place.name) < _OUTSTANDING, seconds=_PATIENCE_SECONDS)
        if stage.ledger.waiting(place.name) < _MOST_OUTSTANDING or chances.random() < 0.2:
            for _ in range(chances.randint(1, 3)):
                _say_something(stage, place, chances)
        for notice in stage.notices_of_doubt(place):
            if chances.random() < 0.2:
                stage.press(place, notice, by=chances.choice(place.people))
        await asyncio.sleep(chances.expovariate(1 / _PAUSE_SECONDS))  # people think between messages


def _say_something(stage: TelegramStage, place: Place, chances: random.Random) -> None:
    by = chances.choice(place.people)
    text, expect = _in_a_group(stage, chances) if place.thread else _in_private(chances)
    sent = stage.say(place, text, expect=expect, by=by)
    if " = " in expect and chances.random() < 0.2:
        text, expect = _sum(chances)
        stage.edit(sent, text, expect=expect)


def _in_private(chances: random.Random) -> tuple[str, str]:
    if chances.random() < 0.1:
        return _command(chances)
    return chances.choice((("hello $id", "Hello!"), _sum(chances), _effect(chances), _effect(chances)))


def _in_a_group(stage: TelegramStage, chances: random.Random) -> tuple[str, str]:
    """The bot is named there, where the demo model can bear it."""
    if chances.random() < 0.2:
        return _command(chances)
    text, expect = _effect(chances)
    return text.replace("}", f', "for": "@{stage.server.world.bot.username}"}}'), expect


def _command(chances: random.Random) -> tuple[str, str]:
    stops = (("/stop", ""), ("/new", "A new conversation begins"))
    return chances.choice(stops) if chances.random() < 0.4 else ("/status", "Model: demo")


def _sum(chances: random.Random) -> tuple[str, str]:
    left, right = chances.randint(2, 99), chances.randint(2, 99)
    return f"what is {left} * {right}?", f"{left} * {right} = {left * right}"


def _effect(chances: random.Random) -> tuple[str, str]:
    match chances.randrange(5):
        case 0:
            words = chances.randint(900, 2000)  # two or three messages on Telegram
            return f'use side_effect {{"id": "$id", "words": {words}}}', "end of $id."
        case 1 | 2:
            return f'use side_effect {{"id": "$id", "wait_ms": {chances.randint(2, 99)}}}', ""
        case _:
            return 'use side_effect {"id": "$id"}', ""


if __name__ == "__main__":
    run_from_command_line(kill_at_random, __doc__)
