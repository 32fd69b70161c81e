"""What two allowed users feel of a crowd of strangers: `python -m tests.journeys.stranger_flood`.

2,000 strangers send 3 messages each while the two go on asking sums, each as soon as the last is answered. Spread
over some seconds that shows what the refusals cost; all at once, how long a question waits behind them: Telegram
hands updates out in their order.
"""

import asyncio
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.journeys.telegram_stage import Stage, stage

TALKERS = (3001, 3002)
STRANGERS = range(100_001, 102_001)
MESSAGES_EACH = 3
_AT_ONCE = 20  # messages of strangers between two looks at everything else


@dataclass(frozen=True, slots=True, kw_only=True)
class Felt:
    """Milliseconds from a question to its answer."""

    quiet: list[float]
    crowded: list[float]
    flood_seconds: float  # until the last of the crowd was dealt with
    codes: int
    refusals: int

    def lines(self) -> list[str]:
        rows = [("quiet", self.quiet), ("crowded", self.crowded)]
        lines = [
            f"{name:<8} {len(ms)} questions, p50 {_p(ms, 50):.0f} ms, p95 {_p(ms, 95):.0f} ms" for name, ms in rows
        ]
        count = len(STRANGERS) * MESSAGES_EACH
        return [*lines, f"{count} messages of strangers in {self.flood_seconds:.1f} s, {self.codes} codes sent"]


async def feel_the_crowd(folder: Path, *, spread_seconds: float, questions: int = 20) -> Felt:
    listed = {"TELEGRAM_ALLOWED_USERS": ",".join(map(str, TALKERS))}
    async with stage(folder, demo=True, environment=listed) as on:
        for id_ in (*TALKERS, *STRANGERS):
            on.person(f"Person {id_}", id=id_)
        async with on.gateway() as running:
            await asyncio.gather(*(_ask_on(on, talker, questions=3) for talker in TALKERS))  # to be warm
            quiet = [ms for talker in TALKERS for ms in await _ask_on(on, talker, questions=questions)]
            crowd = asyncio.create_task(_crowd(on, spread_seconds))
            crowded = await asyncio.gather(*(_ask_until(on, talker, crowd) for talker in TALKERS))
            await running.stop()
        return Felt(
            quiet=quiet,
            crowded=[ms for one in crowded for ms in one],
            flood_seconds=crowd.result(),
            codes=sum(len(on.telegram.texts(stranger)) for stranger in STRANGERS),
            refusals=on.home.rows("SELECT COUNT(*) FROM trail WHERE event = 'refused'")[0][0],
        )


async def _crowd(on: Stage, spread_seconds: float) -> float:
    began, count = time.monotonic(), len(STRANGERS) * MESSAGES_EACH
    for number in range(count):
        on.say(STRANGERS[number % len(STRANGERS)], f"let me in, {number}")
        if number % _AT_ONCE == 0:
            await asyncio.sleep(max(0.0, began + spread_seconds * number / count - time.monotonic()))
    await on.telegram.wait_for(lambda: on.telegram.world.updates.count == 0, seconds=110)
    return time.monotonic() - began


async def _ask_on(on: Stage, talker: int, *, questions: int) -> list[float]:
    return [await _ask(on, talker) for _ in range(questions)]


async def _ask_until(on: Stage, talker: int, crowd: "asyncio.Task[float]") -> list[float]:
    """At least one that waits behind the whole crowd."""
    felt = [await _ask(on, talker)]
    while not crowd.done():
        felt.append(await _ask(on, talker))
    return felt


async def _ask(on: Stage, talker: int) -> float:
    """Raises TimeoutError for a question without an answer."""
    number = len(on.telegram.show(talker)) + 1000
    began = time.monotonic()
    on.say(talker, f"what is {number} + {talker}?")
    await on.telegram.wait_for_text(talker, f"= {number + talker}", seconds=60)
    return (time.monotonic() - began) * 1000


def _p(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for spread_seconds in (20, 0):
            felt = asyncio.run(feel_the_crowd(Path(folder) / f"{spread_seconds}", spread_seconds=spread_seconds))
            print(f"Spread over {spread_seconds} s:", *felt.lines(), sep="\n  ")


if __name__ == "__main__":
    main()
