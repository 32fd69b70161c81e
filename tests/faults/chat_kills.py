"""Many chats of one platform talk while the gateway is killed again and again, and the network fails too."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from tests.faults.chat_stage import ChatStage, Place
from tests.faults.ledger import Verdict
from tests.faults.random_kills import LONGEST_LIFE_SECONDS, Run, one_life

SETTINGS = {"HERMES_GATEWAY__MAX_TURNS": "8", "HERMES_GATEWAY__DRAIN_TIMEOUT_SECONDS": "0.1"}
_OUTSTANDING = 4  # what one chat has asked and not yet been told
_MOST_OUTSTANDING = 12  # beyond that most would find the queue full
_PAUSE_SECONDS = 0.1
_PATIENCE_SECONDS = 4.0

Trouble = Coroutine[Any, Any, None]


def _nothing(place: Place, chances: random.Random) -> None:
    return None


@dataclass(kw_only=True)
class Play:
    """What a platform adds to the story that all have in common."""

    stage: ChatStage
    places: Sequence[Place]
    points: Sequence[str]
    say_something: Callable[[Place, random.Random], None]
    disturb: Callable[[random.Random], Trouble | None]
    look_around: Callable[[Place, random.Random], None] = _nothing
    disturbed: float = 0.2  # of all lives
    longest_life_seconds: float = LONGEST_LIFE_SECONDS
    between_messages_seconds: float = 0.0


async def kill_while_they_talk(play: Play, *, kills: int, seed: int) -> Run:
    chances = random.Random(seed)
    run, began = Run(verdict=Verdict()), time.monotonic()
    async with asyncio.TaskGroup() as group:
        talkers = [
            group.create_task(_talk(play, place, random.Random(f"{seed} {place.name}"))) for place in play.places
        ]
        troubles: set[asyncio.Task[None]] = set()

        def disturb() -> None:
            if (trouble := play.disturb(chances)) is not None:
                troubles.add(group.create_task(trouble))

        while run.kills < kills:
            await one_life(
                play.stage,
                chances,
                run,
                play.points,
                disturb=disturb,
                disturbed=play.disturbed,
                longest_seconds=play.longest_life_seconds,
            )
        for talker in talkers:
            talker.cancel()
        if troubles:
            await asyncio.wait(troubles)
    play.stage.server.faults.clear()
    await play.stage.process.start()
    run.verdict = await play.stage.finish(seconds=240)
    run.seconds = time.monotonic() - began
    return run


async def _talk(play: Play, place: Place, chances: random.Random) -> None:
    ledger = play.stage.ledger
    while True:
        # What is in doubt may never come, and a stop may have ended the rest; then the chat goes on after a while.
        with contextlib.suppress(TimeoutError):
            await ledger.until(lambda: ledger.waiting(place.name) < _OUTSTANDING, seconds=_PATIENCE_SECONDS)
        if ledger.waiting(place.name) < _MOST_OUTSTANDING or chances.random() < 0.2:
            for _ in range(chances.randint(1, 3)):
                play.say_something(place, chances)
                await asyncio.sleep(play.between_messages_seconds)
        play.look_around(place, chances)
        await asyncio.sleep(chances.expovariate(1 / _PAUSE_SECONDS))  # people think between messages


async def outage(stage: ChatStage, seconds: float) -> None:
    await stage.server.pause()
    await asyncio.sleep(seconds)
    await stage.server.resume()


# What people say, and what stands in the answer.


def a_command(chances: random.Random) -> tuple[str, str]:
    stops = (("/stop", ""), ("/new", "A new conversation begins"))
    return chances.choice(stops) if chances.random() < 0.4 else ("/status", "Model: demo")


def a_sum(chances: random.Random) -> tuple[str, str]:
    left, right = chances.randint(2, 99), chances.randint(2, 99)
    return f"what is {left} * {right}?", f"{left} * {right} = {left * right}"


def a_greeting() -> tuple[str, str]:
    return "hello $id", "Hello!"


def an_effect(chances: random.Random, *, words: int) -> tuple[str, str]:
    """Now and then one of which so many words are said."""
    match chances.randrange(5):
        case 0:
            return f'use side_effect {{"id": "$id", "words": {words}}}', "end of $id."
        case 1 | 2:
            return f'use side_effect {{"id": "$id", "wait_ms": {chances.randint(2, 99)}}}', ""
        case _:
            return 'use side_effect {"id": "$id"}', ""


def something(chances: random.Random, *, words: int) -> tuple[str, str]:
    effects = an_effect(chances, words=words), an_effect(chances, words=words)
    return chances.choice((a_greeting(), a_sum(chances), *effects))
