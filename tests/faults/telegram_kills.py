"""Random kills under load, on Telegram: many chats talk while the gateway is killed again and again.

    python -m tests.faults.telegram_kills --kills 300 --seed 1 --sessions 20

As in `random_kills`, with a group's topic beside the direct chats, edits, and people who have an answer in doubt sent
again. Now and then the network fails as well: a send whose answer is cut off, an update that comes twice, an outage.
"""

import random
from pathlib import Path

from tests.faults import aftermath
from tests.faults.chat_kills import (
    SETTINGS,
    Play,
    Trouble,
    a_command,
    a_sum,
    an_effect,
    kill_while_they_talk,
    outage,
    something,
)
from tests.faults.chat_stage import Place
from tests.faults.points import TELEGRAM_POINTS
from tests.faults.random_kills import Run, run_from_command_line
from tests.faults.telegram_stage import TelegramStage, on_telegram_stage


async def kill_at_random(folder: Path, *, kills: int, seed: int, sessions: int, broken: str = "") -> Run:
    async with on_telegram_stage(folder, users=sessions, settings=SETTINGS, broken=broken) as (stage, places):
        play = Play(
            stage=stage,
            places=places,
            points=TELEGRAM_POINTS,
            say_something=lambda place, chances: _say_something(stage, place, chances),
            disturb=lambda chances: _disturb(stage, chances),
            look_around=lambda place, chances: _press_here_and_there(stage, place, chances),
        )
        run = await kill_while_they_talk(play, kills=kills, seed=seed)
        run.extra = {
            "in doubt": aftermath.doubts(stage.database),
            "pressed": stage.presses,
            "notices twice": sum(count > 1 for count in stage.notices.values()),
        }
    return run


def _disturb(stage: TelegramStage, chances: random.Random) -> Trouble | None:
    match chances.randrange(4):
        case 0:
            stage.server.faults.add("cut_after", "sendMessage")
        case 1:
            stage.server.faults.add("duplicate_new_id", "message")
        case 2:
            stage.server.faults.add("duplicate_later", "message")
        case _:
            return outage(stage, chances.uniform(0.05, 0.3))
    return None


def _say_something(stage: TelegramStage, place: Place, chances: random.Random) -> None:
    by = chances.choice(place.people)
    text, expect = _in_private(chances) if place.is_private else _in_a_group(stage, chances)
    sent = stage.say(place, text, expect=expect, by=by)
    if " = " in expect and chances.random() < 0.2:
        text, expect = a_sum(chances)
        stage.edit(sent, text, expect=expect)


def _press_here_and_there(stage: TelegramStage, place: Place, chances: random.Random) -> None:
    for notice in stage.notices_of_doubt(place):
        if chances.random() < 0.2:
            stage.press(place, notice, by=chances.choice(place.people))


def _in_private(chances: random.Random) -> tuple[str, str]:
    return a_command(chances) if chances.random() < 0.1 else something(chances, words=_words(chances))


def _in_a_group(stage: TelegramStage, chances: random.Random) -> tuple[str, str]:
    """The bot is named there, where the demo model can bear it."""
    if chances.random() < 0.2:
        return a_command(chances)
    text, expect = an_effect(chances, words=_words(chances))
    return text.replace("}", f', "for": "@{stage.server.world.bot.username}"}}'), expect


def _words(chances: random.Random) -> int:
    return chances.randint(900, 2000)  # two or three messages


if __name__ == "__main__":
    run_from_command_line(kill_at_random, __doc__)
