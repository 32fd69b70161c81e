"""Random kills under load, on Discord: many chats talk while the gateway is killed again and again.

    python -m tests.faults.discord_kills --kills 200 --seed 1 --sessions 20

As in `random_kills`, with a channel and a thread beside the direct messages, edits and slash commands. The network
fails too: a send whose answer is cut off, events that come twice, cut and invalid sessions, rate limits, outages, and
nonces that Discord has forgotten. No answer may come twice, whatever happens.
"""

import random
from collections.abc import Callable, Sequence
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
from tests.faults.discord_stage import DiscordStage, on_discord_stage
from tests.faults.points import DISCORD_POINTS
from tests.faults.random_kills import Run, run_from_command_line

_NONCES_FORGOTTEN_AFTER_SECONDS = 200


async def kill_at_random(folder: Path, *, kills: int, seed: int, sessions: int, broken: str = "") -> Run:
    async with on_discord_stage(folder, users=sessions, settings=SETTINGS, broken=broken) as (stage, places):
        play = Play(
            stage=stage,
            places=places,
            points=DISCORD_POINTS,
            say_something=lambda place, chances: _say_something(stage, place, chances),
            disturb=lambda chances: _disturb(stage, chances),
            disturbed=0.5,
            longest_life_seconds=1.5,  # a session takes its time to begin
        )
        run = await kill_while_they_talk(play, kills=kills, seed=seed)
        run.extra = {
            "never taken": f"{run.verdict.failed} slash commands, as Discord said",
            "in doubt": aftermath.unsure_sends(stage.database),
            "copies dropped": f"{stage.dropped} by Discord",
            "notices twice": sum(count > 1 for count in stage.notices.values()),
        }
    return run


def _disturb(stage: DiscordStage, chances: random.Random) -> Trouble | None:
    faults, gateway = stage.server.faults, stage.server.gateway
    if chances.random() < 0.1:
        return outage(stage, chances.uniform(0.05, 0.3))
    troubles: Sequence[Callable[[], object]] = (
        lambda: faults.add("cut_after", "createMessage"),
        lambda: faults.add("cut_after", "createMessage"),
        lambda: faults.add("cut", "createMessage"),
        lambda: faults.add("fail", "createMessage", retry_after=0.2),
        lambda: faults.add("fail", "getMessages", status=503),
        lambda: faults.add("duplicate", "message_create"),
        lambda: faults.add("cut_gateway", "message_create"),
        lambda: stage.server.people.age(_NONCES_FORGOTTEN_AFTER_SECONDS),
        lambda: gateway.invalidate(resumable=True),
        gateway.invalidate,
        gateway.ask_reconnect,
        stage.refuse_resumes,
    )
    chances.choice(troubles)()
    return None


def _say_something(stage: DiscordStage, place: Place, chances: random.Random) -> None:
    by, words = chances.choice(place.people), chances.randint(300, 3000)  # one to six pieces, or a file
    if chances.random() < 0.15:
        text, expect = a_command(chances)
        if not place.is_private or chances.random() < 0.3:
            stage.command(place, text, expect=expect, by=by)
        else:
            stage.say(place, text, expect=expect, by=by)
        return
    if not place.is_private:
        text, expect = an_effect(chances, words=words)
        stage.say(place, text.replace("}", f', "for": "{stage.mention}"}}'), expect=expect, by=by)
        return
    text, expect = something(chances, words=words)
    sent = stage.say(place, text, expect=expect)
    if " = " in expect and chances.random() < 0.2:
        text, expect = a_sum(chances)
        stage.edit(sent, text, expect=expect)


if __name__ == "__main__":
    run_from_command_line(kill_at_random, __doc__)
