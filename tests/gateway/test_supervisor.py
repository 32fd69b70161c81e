"""One platform's outage, wrong key or bug."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from gateway import supervisor
from gateway.errors import PlatformAuthFailed, PlatformUnavailable
from gateway.messages import Cursor, InboundMessage
from gateway.platforms.base import Inlet
from gateway.supervisor import Hearing, keep_connected
from tests.gateway.scene import Pigeon, soon


class Moody(Pigeon):
    """Connects or fails, as the script says; then stays connected."""

    def __init__(self, *script: Exception | str) -> None:
        super().__init__()
        self.script = list(script)
        self.settled = asyncio.Event()
        self.runs = 0

    async def run(self, inlet: Inlet) -> None:
        self.runs += 1
        step = self.script.pop(0) if self.script else "stay"
        if isinstance(step, Exception):
            raise step
        inlet.heard()
        if step == "stay":
            self.settled.set()
            await asyncio.Event().wait()
        if step == "drop":
            raise PlatformUnavailable("connection lost")


@pytest.fixture(autouse=True)
def tries(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    asked: list[int] = []

    def at_once(failures: int) -> float:
        asked.append(failures)
        return 0.0

    monkeypatch.setattr(supervisor, "backoff_seconds", at_once)
    return asked


def new_hearing() -> tuple[Hearing, list[str]]:
    connects: list[str] = []
    return Hearing(account="pigeon", on_connect=lambda: connects.append("connected")), connects


def inlet_for(hearing: Hearing) -> Inlet:
    async def accept(messages: Sequence[InboundMessage], cursor: Cursor | None) -> None:
        raise AssertionError("nothing comes in here")

    async def cursor(channel: str) -> str:
        return ""

    async def reachable(chat: str) -> None:
        return None

    return Inlet(accept=accept, cursor=cursor, heard=hearing.heard, reachable=reachable)


@asynccontextmanager
async def kept(platform: Moody, hearing: Hearing) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(keep_connected(platform, inlet_for(hearing), hearing))
        yield
        task.cancel()


async def test_an_outage_is_tried_again_with_growing_waits(tries: list[int]) -> None:
    hearing, connects = new_hearing()
    platform = Moody(*(PlatformUnavailable("no network") for _ in range(3)))
    async with kept(platform, hearing):
        await soon(platform.settled.wait())
        assert hearing.is_connected
        assert hearing.problem == ""
        assert hearing.last_heard_ms > 0
    assert tries == [1, 2, 3]
    assert connects == ["connected"]


async def test_a_connection_that_held_starts_the_waits_anew(tries: list[int]) -> None:
    hearing, connects = new_hearing()
    platform = Moody(PlatformUnavailable("no network"), "drop", "drop", PlatformUnavailable("no network"))
    async with kept(platform, hearing):
        await soon(platform.settled.wait())
    assert tries == [1, 1, 1, 2]
    assert len(connects) == 3


async def test_the_platforms_own_waiting_time_wins(tries: list[int]) -> None:
    hearing, _ = new_hearing()
    platform = Moody(PlatformUnavailable("slow down", retry_after=0.0))
    async with kept(platform, hearing):
        await soon(platform.settled.wait())
    assert tries == []


async def test_a_platform_that_ends_by_itself_is_connected_again(tries: list[int]) -> None:
    hearing, _ = new_hearing()
    platform = Moody("leave")
    async with kept(platform, hearing):
        await soon(platform.settled.wait())
    assert (platform.runs, tries) == (2, [1])


async def test_while_it_waits_the_operator_can_read_why(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = asyncio.Event()

    def a_long_time(failures: int) -> float:
        waiting.set()
        return 1000.0

    monkeypatch.setattr(supervisor, "backoff_seconds", a_long_time)
    hearing, _ = new_hearing()
    async with kept(Moody(PlatformUnavailable("no network")), hearing):
        await soon(waiting.wait())
        assert (hearing.state, hearing.problem, hearing.is_connected) == ("waiting", "no network", False)


class WrongKey(Moody):
    async def run(self, inlet: Inlet) -> None:
        self.runs += 1
        self.settled.set()
        raise PlatformAuthFailed("the token was refused")


async def test_a_wrong_key_stops_that_platform_alone() -> None:
    refused, works = WrongKey(), Moody()
    first, _ = new_hearing()
    second, _ = new_hearing()
    async with kept(refused, first), kept(works, second):
        await soon(refused.settled.wait())
        await soon(works.settled.wait())
        assert (first.state, first.problem, refused.runs) == ("needs operator", "the token was refused", 1)
        assert second.is_connected


async def test_a_bug_passes() -> None:
    hearing, _ = new_hearing()
    with pytest.raises(ZeroDivisionError):
        await soon(keep_connected(Moody(ZeroDivisionError()), inlet_for(hearing), hearing))
