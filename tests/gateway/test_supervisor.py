"""One platform's outage, wrong key or bug."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gateway import supervisor
from gateway.changes import Changes
from gateway.errors import PlatformAuthFailed, PlatformUnavailable
from gateway.platforms.base import Features, Inlet
from gateway.supervisor import ConnectionStatus, keep_connected
from tests.gateway.platforms.gate import Gate
from tests.gateway.scene import Pigeon, soon
from tests.gateway.store.conftest import Clock


class Moody(Pigeon):
    """Connects or fails, as the script says; then stays connected."""

    def __init__(self, *script: BaseException | str) -> None:
        super().__init__()
        self.script = list(script)
        self.settled = asyncio.Event()
        self.runs = 0

    async def run(self, inlet: Inlet) -> None:
        self.runs += 1
        step = self.script.pop(0) if self.script else "stay"
        if isinstance(step, BaseException):
            raise step
        inlet.alive()
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


def new_status() -> tuple[ConnectionStatus, list[str]]:
    connects: list[str] = []
    changes = Changes()
    changes.subscribe("platform", lambda: connects.append("connected"))
    return ConnectionStatus(account="pigeon", changes=changes), connects


def inlet_for(status: ConnectionStatus) -> Inlet:
    return replace(Gate().inlet(), alive=status.report_alive)


@asynccontextmanager
async def kept(platform: Moody, status: ConnectionStatus) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(keep_connected(platform, inlet_for(status), status))
        yield
        task.cancel()


async def test_an_outage_is_tried_again_with_growing_waits(tries: list[int]) -> None:
    status, connects = new_status()
    platform = Moody(*(PlatformUnavailable("no network") for _ in range(3)))
    async with kept(platform, status):
        await soon(platform.settled.wait())
        assert status.is_connected
        assert status.problem == ""
        assert status.last_heard_ms > 0
    assert tries == [1, 2, 3]
    assert connects == ["connected"]


async def test_the_platforms_own_waiting_time_wins(tries: list[int]) -> None:
    status, _ = new_status()
    platform = Moody(PlatformUnavailable("slow down", retry_after=0.0))
    async with kept(platform, status):
        await soon(platform.settled.wait())
    assert tries == []


class WrongKey(Moody):
    async def run(self, inlet: Inlet) -> None:
        self.runs += 1
        self.settled.set()
        raise PlatformAuthFailed("the token was refused")


async def test_a_wrong_key_stops_that_platform_alone() -> None:
    refused, works = WrongKey(), Moody()
    first, _ = new_status()
    second, _ = new_status()
    async with kept(refused, first), kept(works, second):
        await soon(refused.settled.wait())
        await soon(works.settled.wait())
        assert (first.state, first.problem, refused.runs) == ("needs operator", "the token was refused", 1)
        assert second.is_connected


async def test_a_wrong_key_is_tried_again_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been mended on the platform's side; an outage meanwhile mends nothing."""
    monkeypatch.setattr(supervisor, "_OPERATOR_SECONDS", 0.0)
    status, connects = new_status()
    states: list[str] = []

    class Mended(Moody):
        async def run(self, inlet: Inlet) -> None:
            states.append(status.state)
            await super().run(inlet)

    refused = PlatformAuthFailed("the token was refused")
    platform = Mended(refused, refused, PlatformUnavailable("no network"))
    async with kept(platform, status):
        await soon(platform.settled.wait())
        assert status.is_connected
    assert states == ["connecting", "needs operator", "needs operator", "needs operator"]
    assert connects == ["connected"]


@pytest.mark.parametrize(("wished", "waited"), [(math.inf, 0.0), (math.nan, 0.0), (-1.0, 0.0), (1e300, 3600.0)])
async def test_an_absurd_wish_to_wait_is_bounded(monkeypatch: pytest.MonkeyPatch, wished: float, waited: float) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def at_once(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr("gateway.supervisor.asyncio.sleep", at_once)
    status, _ = new_status()
    platform = Moody(PlatformUnavailable("slow down", retry_after=wished))
    async with kept(platform, status):
        await soon(platform.settled.wait())
    assert waits == [waited]


class Quiet(Moody):
    """Says nothing once it is connected, until the test wants a sign of life; takes its time to end."""

    def __init__(self, quiet_seconds: float, *, silent_runs: int = 1000) -> None:
        super().__init__()
        self.features = Features(resend="never", quiet_seconds=quiet_seconds)
        self.silent_runs = silent_runs
        self.log: list[str] = []

    async def run(self, inlet: Inlet) -> None:
        self.runs += 1
        self.log.append("begun")
        inlet.alive()
        if self.runs > self.silent_runs:
            self.settled.set()
        try:
            while True:
                await asyncio.sleep(0.01)
                if self.runs > self.silent_runs:
                    inlet.alive()
        finally:
            await asyncio.sleep(0)  # saying goodbye
            self.log.append("ended")


async def test_a_platform_that_has_gone_silent_is_given_up_and_connected_anew(tries: list[int]) -> None:
    status, connects = new_status()
    platform = Quiet(0.05, silent_runs=1)
    async with kept(platform, status):
        await soon(platform.settled.wait())
        assert status.is_connected
    assert platform.log == ["begun", "ended", "begun", "ended"]  # never two at once
    assert (tries, len(connects)) == ([1], 2)


@pytest.mark.parametrize(
    ("platform", "problem"),
    [(Moody(PlatformUnavailable("no network")), "no network"), (Quiet(0.03), "it was silent for")],
    ids=["out of reach", "silent"],
)
async def test_while_it_waits_the_operator_can_read_why(
    monkeypatch: pytest.MonkeyPatch, platform: Moody, problem: str
) -> None:
    waiting = asyncio.Event()

    def a_long_time(failures: int) -> float:
        waiting.set()
        return 1000.0

    monkeypatch.setattr(supervisor, "backoff_seconds", a_long_time)
    status, _ = new_status()
    async with kept(platform, status):
        await soon(waiting.wait())
        assert (status.state, status.is_connected) == ("waiting", False)
        assert status.problem.startswith(problem)


async def test_one_that_is_heard_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock of its own, an hour of heartbeats: each in time."""
    clock = Clock()
    monkeypatch.setattr("gateway.clock._process_clock", clock)
    status, _ = new_status()
    looked: asyncio.Queue[float] = asyncio.Queue()

    async def wait(waited: object, *, timeout: float) -> None:
        looked.put_nowait(timeout)
        clock.forward(seconds=timeout - 1)
        status.report_alive()
        await asyncio.sleep(0)

    monkeypatch.setattr("gateway.supervisor.asyncio.wait", wait)
    platform = Moody()
    platform.features = Features(resend="never", quiet_seconds=90)
    async with kept(platform, status):
        waits = [await soon(looked.get()) for _ in range(40)]
    assert platform.runs == 1
    assert all(timeout == 90 for timeout in waits)


@pytest.mark.parametrize("quiet_seconds", [0.0, 1000.0])
async def test_what_a_watched_platform_raises_is_handled_like_any(quiet_seconds: float, tries: list[int]) -> None:
    status, connects = new_status()
    platform = Moody(PlatformUnavailable("no network"), "drop", "leave", asyncio.CancelledError())
    platform.features = Features(resend="never", quiet_seconds=quiet_seconds)
    async with kept(platform, status):
        await soon(platform.settled.wait())
    assert tries == [1, 1, 1, 2]  # a connection that held starts the waits anew
    assert (platform.runs, len(connects)) == (5, 3)
    broken = Moody(ZeroDivisionError())
    broken.features = platform.features
    with pytest.raises(ZeroDivisionError):
        await soon(keep_connected(broken, inlet_for(status), status))


async def test_a_watched_platform_ends_with_the_gateway() -> None:
    status, _ = new_status()
    platform = Quiet(1000.0, silent_runs=0)
    async with kept(platform, status):
        await soon(platform.settled.wait())
    assert platform.log == ["begun", "ended"]


async def test_a_watched_platform_with_a_wrong_key_stops_alone() -> None:
    status, _ = new_status()
    platform = WrongKey()
    platform.features = Features(resend="never", quiet_seconds=0.01)
    async with kept(platform, status):
        await soon(platform.settled.wait())
        async with asyncio.timeout(10):
            while status.state != "needs operator":
                await asyncio.sleep(0)
    assert platform.runs == 1
