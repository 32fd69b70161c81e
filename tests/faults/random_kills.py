"""Random kills under load: many sessions talk while the gateway is killed again and again.

    python -m tests.faults.random_kills --kills 300 --seed 1 --sessions 20

Some kills come at a random moment after the start, some at a random step, some starts are ended in an
orderly way, and now and then a client loses its connection. The seed fixes the choices, not the timing.
"""

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL

from tests.faults.ledger import Verdict
from tests.faults.points import JOINED_POINTS, POINTS
from tests.faults.stage import SocketStage, Stage, on_stage

_CLIENTS = 4
_OUTSTANDING = 4  # what one chat has asked and not yet been told
_PAUSE_SECONDS = 0.05
_PATIENCE_SECONDS = 10.0
LONGEST_LIFE_SECONDS = 0.7
_SETTINGS = {"HERMES_GATEWAY__MAX_TURNS": "8", "HERMES_GATEWAY__DRAIN_TIMEOUT_SECONDS": "0.1"}


@dataclass(slots=True, kw_only=True)
class Run:
    kills: int = 0
    at_points: int = 0
    stops: int = 0
    seconds: float = 0.0
    verdict: Verdict
    extra: dict[str, object] = field(default_factory=dict)  # what else is worth knowing


async def kill_at_random(folder: Path, *, kills: int, seed: int, sessions: int) -> Run:
    chances = random.Random(seed)
    chats = [f"chat{number}" for number in range(sessions)]
    points = (*POINTS, *JOINED_POINTS)
    run = Run(verdict=Verdict())
    began = time.monotonic()
    async with on_stage(folder, *(chats[first::_CLIENTS] for first in range(_CLIENTS)), settings=_SETTINGS) as stage:
        async with asyncio.TaskGroup() as group:
            talkers = [group.create_task(_talk(stage, chat, random.Random(f"{seed} {chat}"))) for chat in chats]
            while run.kills < kills:
                await one_life(stage, chances, run, points, disturb=lambda: chances.choice(stage.clients).drop())
            for talker in talkers:
                talker.cancel()
        await stage.process.start()
        run.verdict = await stage.finish(seconds=120)
    run.seconds = time.monotonic() - began
    return run


async def one_life(
    stage: Stage,
    chances: random.Random,
    run: Run,
    points: Sequence[str],
    *,
    disturb: Callable[[], None],
    disturbed: float = 0.2,
    longest_seconds: float = LONGEST_LIFE_SECONDS,
) -> None:
    """From a start to an end, most often a violent one. `disturbed` is how many of all lives are."""
    at_point = chances.random() < 0.4
    point = chances.choice(points) if at_point else ""
    await stage.process.start(kill_at=point, occurrence=chances.randint(1, 6))
    if chances.random() < 0.8:
        await stage.process.wait_ready()
    if chances.random() < disturbed:
        disturb()
    try:
        code = await stage.process.wait_end(seconds=chances.uniform(0, longest_seconds * (1 + at_point)))
    except TimeoutError:
        if chances.random() < 0.1:
            await stage.process.terminate()
            run.stops += 1
            return
        await stage.process.kill()
    else:
        assert code == -SIGKILL, f"the gateway ended by itself.\n{stage.process.last_lines()}"
        run.at_points += 1
    run.kills += 1


async def _talk(stage: SocketStage, chat: str, chances: random.Random) -> None:
    while True:
        # A stop may have ended all that this chat waits for; then it goes on after a while.
        with contextlib.suppress(TimeoutError):
            await stage.ledger.until(lambda: stage.ledger.waiting(chat) < _OUTSTANDING, seconds=_PATIENCE_SECONDS)
        for _ in range(chances.randint(1, 3)):
            text, expect = _something(chances)
            stage.say(chat, text, expect=expect)
        await asyncio.sleep(chances.expovariate(1 / _PAUSE_SECONDS))  # people think between messages


def _something(chances: random.Random) -> tuple[str, str]:
    left, right = chances.randint(2, 99), chances.randint(2, 99)
    if chances.random() < 0.05:
        return chances.choice((("/stop", ""), ("/new", "A new conversation begins")))
    return chances.choice(
        (
            ("hello $id", "Hello!"),
            (f"what is {left} * {right}?", f"{left} * {right} = {left * right}"),
            ("/status", "Model: demo"),
            ('use side_effect {"id": "$id"}', ""),
            (f'use side_effect {{"id": "$id", "wait_ms": {left}}}', ""),
        )
    )


def _table(run: Run) -> str:
    verdict = run.verdict
    rows = {
        "kills": f"{run.kills} ({run.at_points} at a step), and {run.stops} orderly stops",
        "accepted": verdict.accepted,
        "answered": verdict.answered,
        "explained": verdict.explained,
        "lost": verdict.count("lost"),
        "answered twice": verdict.count("answered twice"),
        "out of order": verdict.count("out of order"),
        "tool ran twice": verdict.count("tool ran twice"),
        "copies": verdict.copies,
        "tool runs": verdict.effects,
        **run.extra,
        "seconds": round(run.seconds),
    }
    return "\n".join(f"{name:<15} {value}" for name, value in rows.items())


def run_from_command_line(kill: Callable[..., Awaitable[Run]], description: str | None) -> None:
    """`kill` is given a folder and, by name, `kills`, `seed` and `sessions`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--keep", type=Path, help="a new folder for home, log and effects, to look at afterwards")
    options = parser.parse_args()
    if options.keep:
        options.keep.mkdir()

    async def go(folder: Path) -> Run:
        return await kill(folder, kills=options.kills, seed=options.seed, sessions=options.sessions)

    with tempfile.TemporaryDirectory() as temporary:
        run = asyncio.run(go(options.keep or Path(temporary)))
    print(_table(run))
    if run.verdict.offences:
        print(run.verdict)
        sys.exit(1)


if __name__ == "__main__":
    run_from_command_line(kill_at_random, __doc__)
