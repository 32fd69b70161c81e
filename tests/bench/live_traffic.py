"""What a platform is asked for while one long answer grows: calls, rings, and how close they come to its limits.

    python -m tests.bench.live_traffic [--seconds 60]

One turn in each kind of chat, all at once, each with a gateway of its own and a server that enforces its limits.
"""

import argparse
import asyncio
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from playground.model_script import ScriptedCall, ask_for, say
from playground.server import ApiCall
from tests.journeys.live_stage import KINDS, Chat, Kind, chat

# The calls that change what is seen of an answer, with what the platform takes of them: so many in so many seconds.
CHANGES: dict[str, frozenset[str]] = {
    "telegram": frozenset(("sendMessageDraft", "sendMessage", "editMessageText")),
    "discord": frozenset(("createMessage", "editMessage")),
    "slack": frozenset(("chat.postMessage", "chat.update")),
}
LIMITS: dict[Kind, tuple[int, int]] = {
    "telegram dm": (3, 3),
    "telegram group": (20, 60),
    "discord dm": (5, 5),
    "discord channel": (5, 5),
    "slack dm": (50, 60),
    "slack channel": (50, 60),
}
_WORD_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Of one turn."""

    kind: Kind
    calls: Counter[str]
    rings: int
    too_fast: int  # how often the platform said so
    changes: tuple[float, ...]  # when, in seconds
    shown: tuple[str, ...]  # in the end

    @property
    def smallest_interval(self) -> float:
        """Between two changes of the draft; the answer itself comes when it comes."""
        drafted = self.changes[: len(self.changes) - len(self.shown)]
        pauses = [later - earlier for earlier, later in pairwise(drafted)]
        return min(pauses, default=0.0)

    def most_in(self, seconds: float) -> int:
        return max((sum(at <= one < at + seconds for one in self.changes) for at in self.changes), default=0)


async def record(kind: Kind, seconds: float, folder: Path) -> Traffic:
    """An answer that takes so long to be written, behind a tool."""
    config = {"display": {"draft_after_seconds": 2, "watching_seconds": 10 if seconds > 20 else 0}}
    words = [f"w{number} " for number in range(max(int(seconds / _WORD_SECONDS), 1))]
    async with chat(folder, kind, config=config, limits=True) as on, on.gateway():
        on.model.script(ask_for(ScriptedCall(name="clock")), say(*words, "the end.", delay_seconds=_WORD_SECONDS))
        before = len(on.server.calls)
        on.ask()
        await _until_answered(on, 2 * seconds + 60)
        calls = list(on.server.calls)[before:]
        return Traffic(
            kind=kind,
            calls=Counter(call.method for call in calls if call.method not in ("getUpdates", "gateway")),
            rings=on.rings(),
            too_fast=sum(call.status == 429 for call in calls),
            changes=_changes(kind, calls),
            shown=tuple(on.shown),
        )


async def _until_answered(on: Chat, seconds: float) -> None:
    def is_answered() -> bool:
        return any("the end." in text and "Writing" not in text for text in on.shown)

    try:
        await on.server.wait_for(is_answered, seconds=seconds)
    except TimeoutError:
        raise AssertionError(f"{on.kind}: not answered in {seconds:.0f} s, but {on.shown}") from None
    await on.at_rest()


def _changes(kind: Kind, calls: Sequence[ApiCall]) -> tuple[float, ...]:
    counted = CHANGES[kind.partition(" ")[0]]
    return tuple(call.at for call in calls if call.method in counted)


async def record_all(seconds: float, folder: Path) -> list[Traffic]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(record(kind, seconds, folder / kind.replace(" ", "-"))) for kind in KINDS]
    return [task.result() for task in tasks]


def table(recorded: Sequence[Traffic]) -> str:
    lines = []
    for one in recorded:
        most, seconds = LIMITS[one.kind]
        lines += [
            f"{one.kind}: rang {one.rings} times, told to wait {one.too_fast} times",
            f"  changes: {len(one.changes)}, those of the draft {one.smallest_interval:.2f} s apart at least; "
            f"most in 5 s: {one.most_in(5)}, in 60 s: {one.most_in(60)}",
            f"  of the {most} that are taken in {seconds} s, at most {one.most_in(seconds)} were used",
            f"  calls: {', '.join(f'{method} {count}' for method, count in one.calls.most_common())}",
            f"  seen in the end: {len(one.shown)} message(s), {sum(map(len, one.shown))} characters",
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.live_traffic", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(table(asyncio.run(record_all(asked.seconds, Path(folder)))))


if __name__ == "__main__":
    main()
