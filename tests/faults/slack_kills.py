"""Random kills under load, on Slack: many chats talk while the gateway is killed again and again.

    python -m tests.faults.slack_kills --kills 200 --seed 1 --sessions 20

As in `random_kills`, with threads of a channel beside the direct messages, edits and slash commands. The network fails
too: a send whose answer is cut off, envelopes that come twice or not at all, cut and renewed sockets, rate limits,
outages. No answer may come twice, whatever happens.
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
    kill_while_they_talk,
    outage,
    something,
)
from tests.faults.chat_stage import Place
from tests.faults.points import SLACK_POINTS
from tests.faults.random_kills import Run, run_from_command_line
from tests.faults.slack_stage import SlackStage, on_slack_stage

_WORDS = (2_500, 2_500, 5_000, 14_000)  # two pieces, three, or a file


async def kill_at_random(folder: Path, *, kills: int, seed: int, sessions: int, broken: str = "") -> Run:
    async with on_slack_stage(folder, users=sessions, settings=SETTINGS, broken=broken) as (stage, places):
        play = Play(
            stage=stage,
            places=places,
            points=SLACK_POINTS,
            say_something=lambda place, chances: _say_something(stage, place, chances),
            disturb=lambda chances: _disturb(stage, chances),
            disturbed=0.5,
            longest_life_seconds=1.5,  # sockets take their time to open
            between_messages_seconds=0.03,  # two sockets bring them in no order, and nobody types faster
        )
        run = await kill_while_they_talk(play, kills=kills, seed=seed)
        run.extra = {
            "never taken": f"{run.verdict.failed} slash commands, as Slack said",
            "brought late": f"{stage.late} by the network",
            "in doubt": aftermath.unsure_sends(stage.database),
            "notices twice": sum(count > 1 for count in stage.notices.values()),
        }
    return run


def _disturb(stage: SlackStage, chances: random.Random) -> Trouble | None:
    faults = stage.server.faults
    if chances.random() < 0.1:
        stage.break_lines()
        return outage(stage, chances.uniform(0.05, 0.3))
    troubles: Sequence[Callable[[], object]] = (
        lambda: faults.add("cut_after", "chat.postMessage"),
        lambda: faults.add("cut_after", "chat.postMessage"),
        lambda: faults.add("cut_after", "files.completeUploadExternal"),
        lambda: faults.add("cut", "chat.postMessage"),
        lambda: faults.add("fail", "chat.postMessage", description="fatal_error"),
        lambda: faults.add("fail", "chat.postMessage", retry_after=1),
        lambda: faults.add("fail", "conversations.history", retry_after=1),
        lambda: faults.add("duplicate", "message"),
        lambda: faults.add("duplicate_new_id", "message"),
        lambda: faults.add("missed", "message"),
        lambda: faults.add("late", "message"),
        lambda: faults.add("cut_socket", "message"),
        lambda: faults.add("cut_socket_after", "message"),
        stage.cut_sockets,
        stage.server.sockets.disconnect,
    )
    chances.choice(troubles)()
    return None


def _say_something(stage: SlackStage, place: Place, chances: random.Random) -> None:
    by, is_channel = chances.choice(place.people), not place.is_private and not place.thread
    if is_channel and chances.random() < 0.99:
        return  # each of these opens a thread, and only the last twenty are remembered
    if chances.random() < 0.15:
        text, expect = a_command(chances)
        say = stage.say if place.thread else stage.command  # Slack has no slash commands in threads
        say(place, text, expect=expect, by=by)
        return
    text, expect = something(chances, words=chances.choice(_WORDS))
    sent = stage.say(place, text, expect=expect, by=by, mention=is_channel or chances.random() < 0.5)
    if place.is_private and " = " in expect and chances.random() < 0.2:
        text, expect = a_sum(chances)
        stage.edit(sent, text, expect=expect)


if __name__ == "__main__":
    run_from_command_line(kill_at_random, __doc__)
