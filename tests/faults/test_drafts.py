"""Kill -9 at every point of a draft's life: after the next start none is left, and the answer stands exactly once.

Slow, because every point costs two starts of a real process and an answer that takes its time.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

import pytest

from playground.model_script import Step, say
from tests.faults.draft_points import (
    ANSWERING,
    BEGUN,
    COMMITTING,
    DELIVERING,
    EDITED,
    LOOKED_FOR,
    REPLACING,
    SENT,
    SHOWING,
    TAKEN_AWAY,
    TAKING,
)
from tests.faults.gateway_process import GatewayProcess
from tests.faults.points import NOT_RECORDED
from tests.journeys.live_stage import Chat, Kind, chat
from tests.thorough import a_few_of

pytestmark = pytest.mark.slow

PIECES = tuple(f"word {number} " for number in range(12))
SLOWLY = say(*PIECES, delay_seconds=0.15)
ENDLESSLY = say(*PIECES, delay_seconds=2.5)  # long enough to be stopped, however busy the machine
ANSWER = "".join(PIECES).strip()
DOUBT = "I was restarted while sending my answer, and I cannot tell whether it arrived."
# On Telegram nobody can know from when it may have been sent until that is written down. Where a draft had to go
# first, that is later: the answer was not sent before.
UNKNOWABLE: dict[Kind, frozenset[str]] = {
    "telegram group": frozenset((ANSWERING, NOT_RECORDED, "before:sent")),
    "telegram dm": frozenset(("after:answered", "after:sending", ANSWERING, NOT_RECORDED, "before:sent")),
}


@dataclass(frozen=True, kw_only=True)
class Killed:
    """A chat, and a gateway that is killed."""

    on: Chat
    process: GatewayProcess

    async def start(self, kill_at: str = "") -> None:
        await self.process.start(kill_at=kill_at)
        account = self.on.kind.partition(" ")[0]
        try:
            await self.on.home.until_platform("connected", account=account)
        except TimeoutError:
            raise AssertionError(self.process.last_lines()) from None

    async def dies(self, point: str) -> None:
        try:
            code = await self.process.wait_end(seconds=30)
        except TimeoutError:
            raise AssertionError(f"{point} was never reached.\n{self.process.last_lines()}") from None
        assert code == -SIGKILL, self.process.last_lines()

    async def recovers(self) -> None:
        """The next one finds all in order, and leaves nothing behind."""
        await self.process.start()
        await self.settles()

    async def settles(self) -> None:
        try:
            await self.on.at_rest()
        except TimeoutError:
            raise AssertionError(self.process.last_lines(40)) from None


@asynccontextmanager
async def killed(folder: Path, kind: Kind, *, in_place: bool = False, answer: Step = SLOWLY) -> AsyncIterator[Killed]:
    config = {
        "display": {"watching_seconds": 600 if in_place else 0, "draft_after_seconds": 0.3},
        "logs": {"level": "debug"},
        "agent": {"enabled_toolsets": ["clock"]},
    }
    async with chat(folder, kind, config=config, otherwise=answer) as on:
        effects, log = folder / "effects", folder / "gateway.log"
        process = GatewayProcess(on.home.path, effects=effects, log=log, settings={}, arguments=("--chat", "draft"))
        try:
            yield Killed(on=on, process=process)
        finally:
            if not process.has_ended:
                await process.kill()


CASES: list[tuple[Kind, bool, str]] = [
    *(("telegram group", False, point) for point in (*SHOWING, *COMMITTING, *REPLACING, *DELIVERING)),
    *(("discord channel", False, point) for point in (*SHOWING, *COMMITTING, *REPLACING, *DELIVERING)),
    *(("slack dm", True, point) for point in (*SHOWING, *COMMITTING, *DELIVERING)),
    *(("slack channel", True, point) for point in (SENT, EDITED, "after:answered", NOT_RECORDED)),
    *(("telegram group", True, point) for point in (EDITED, "after:answered", "after:sending", NOT_RECORDED)),
    *(("discord channel", True, point) for point in (EDITED, "after:answered", "after:sending", NOT_RECORDED)),
    *(("discord dm", True, point) for point in (SENT, NOT_RECORDED)),
    *(("telegram dm", False, point) for point in (BEGUN, SENT, "before:answered", *DELIVERING)),
]
# Where the platform can be asked: it was sent, and nobody has written that down.
ALWAYS: list[tuple[Kind, bool, str]] = [("discord channel", False, NOT_RECORDED), ("slack dm", True, NOT_RECORDED)]


@pytest.mark.parametrize(
    ("kind", "in_place", "point"),
    [*ALWAYS, *a_few_of([case for case in CASES if case not in ALWAYS], 4)],
    ids=lambda one: {True: "in place", False: "replaced"}.get(one, one),
)
async def test_no_draft_is_left_and_the_answer_stands_once(
    kind: Kind, in_place: bool, point: str, tmp_path: Path
) -> None:
    async with killed(tmp_path, kind, in_place=in_place) as play:
        await play.start(point)
        play.on.ask()
        await play.dies(point)
        await play.recovers()
        if not in_place and point in UNKNOWABLE.get(kind, ()):
            assert play.on.shown in ([DOUBT], [ANSWER, DOUBT])
        else:
            assert play.on.shown == [ANSWER]


@pytest.mark.parametrize("kind", a_few_of(["telegram group", "discord channel", "slack channel"], 1))
@pytest.mark.parametrize("point", [TAKING, TAKEN_AWAY])
async def test_a_stopped_turn_leaves_none_either(kind: Kind, point: str, tmp_path: Path) -> None:
    async with killed(tmp_path, kind, answer=ENDLESSLY) as play:
        await play.start(point)
        play.on.ask()
        await play.on.sees("word 1")
        play.on.ask("/stop")
        await play.dies(point)
        await play.recovers()
        # What was said once is not repeated, and Telegram cannot be asked whether it was.
        assert set(play.on.shown) - {DOUBT} == {"Stopped."}
        assert kind.startswith("telegram") or DOUBT not in play.on.shown


@pytest.mark.parametrize("kind", a_few_of(["telegram group", "discord channel", "slack dm"], 1))
async def test_killed_while_it_looks_for_what_was_left_it_looks_again(kind: Kind, tmp_path: Path) -> None:
    async with killed(tmp_path, kind) as play:
        await play.start(SENT)
        play.on.ask()
        await play.dies(SENT)
        await play.process.start(kill_at=LOOKED_FOR)
        await play.dies(LOOKED_FOR)
        await play.recovers()
        assert play.on.shown == [ANSWER]


async def test_an_orderly_stop_keeps_the_draft_and_the_next_start_goes_on_with_it(tmp_path: Path) -> None:
    async with killed(tmp_path, "discord channel", in_place=True) as play:
        await play.start()
        play.on.ask()
        await play.on.sees("word 1")
        [draft] = play.on.server.called("createMessage")
        async with asyncio.timeout(60):
            assert await play.process.terminate() == 0
        await play.recovers()
        assert ANSWER in play.on.shown
        assert not any(text.startswith("✍️") for text in play.on.shown)
        assert draft.status == 200
