"""The gateway's life, as far as a whole process is not needed to see it."""

import asyncio
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway import daemon
from gateway.daemon import run_gateway
from gateway.errors import StoreUnavailable
from gateway.lock import read_state
from gateway.store.db.commit_counter import is_sealed
from gateway.wiring.app import Gateway
from hermes_config.places import Home
from hermes_config.platforms import PlatformsSettings
from hermes_config.settings import Settings, StoreSettings
from tests.gateway.platforms.client import connect
from tests.gateway.scene import locked, soon

SETTINGS = Settings(
    platforms=PlatformsSettings.model_validate({"socket": {"enabled": True}, "web": {"enabled": False}}),
    store=StoreSettings(busy_timeout_seconds=0.05),
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    place = Home(tmp_path / "home")
    place.prepare()
    return place


@pytest.fixture(autouse=True)
def _no_thread_stays_behind() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")} <= before


class Life:
    """A gateway in this process, stopped as a process is: by a signal."""

    def __init__(
        self, home: Home, *, trouble: Exception | None = None, read_again: Callable[[], Settings] | None = None
    ) -> None:
        self.ready = asyncio.Event()
        self._trouble = trouble
        self.task = asyncio.create_task(run_gateway(SETTINGS, home, on_ready=self._on_ready, read_again=read_again))

    async def _on_ready(self, gateway: Gateway) -> None:
        self.ready.set()
        if self._trouble:
            raise self._trouble

    async def stop(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await soon(self.task)


def tell_when_waiting(monkeypatch: pytest.MonkeyPatch, *, seconds: float) -> asyncio.Event:
    waiting = asyncio.Event()

    def backoff_seconds(failures: int) -> float:
        waiting.set()
        return seconds

    monkeypatch.setattr(daemon, "backoff_seconds", backoff_seconds)
    return waiting


async def check_that_it_answers(home: Home) -> None:
    async with connect(home.socket) as client:
        await client.say("what is 17 * 23?", message_id="1")
        assert "391" in (await client.hear())["text"]


async def live_once(home: Home) -> None:
    """Start, so that there is a store, and stop."""
    life = Life(home)
    await soon(life.ready.wait())
    await life.stop()


async def test_it_serves_until_it_is_told_to_stop(home: Home) -> None:
    life = Life(home)
    await soon(life.ready.wait())
    state = read_state(home.lock_file)
    assert state is not None
    assert (state["pid"], state["state"]) == (os.getpid(), "serving")
    await check_that_it_answers(home)
    await life.stop()
    assert read_state(home.lock_file) is None


async def test_a_closed_terminal_ends_one_that_runs_there(home: Home) -> None:
    life = Life(home)
    await soon(life.ready.wait())
    assert "reloaded" not in (read_state(home.lock_file) or {})  # so `hermes gateway reload` sends it no signal
    os.kill(os.getpid(), signal.SIGHUP)
    await soon(life.task)


@pytest.fixture
def nohup() -> Iterator[None]:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("nohup")
async def test_a_closed_terminal_does_not_end_one_that_was_started_to_outlive_it(home: Home) -> None:
    life = Life(home)
    await soon(life.ready.wait())
    os.kill(os.getpid(), signal.SIGHUP)
    await check_that_it_answers(home)
    await life.stop()


@pytest.mark.usefixtures("nohup")
async def test_one_that_was_started_by_nohup_reloads_its_settings(home: Home) -> None:
    read = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read_again() -> Settings:
        loop.call_soon_threadsafe(read.set)
        return SETTINGS

    life = Life(home, read_again=read_again)
    await soon(life.ready.wait())
    os.kill(os.getpid(), signal.SIGHUP)
    await soon(read.wait())
    await life.stop()


async def test_it_waits_for_a_store_that_cannot_be_used_and_then_serves(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = tell_when_waiting(monkeypatch, seconds=0.01)
    await live_once(home)
    with locked(home.database):
        life = Life(home)
        await soon(waiting.wait())
        state = read_state(home.lock_file)
        assert state is not None
        assert state["state"] == "starting"
        assert "locked by another process" in state["store"]
    await soon(life.ready.wait())
    await life.stop()


async def test_it_can_be_stopped_while_it_waits_for_the_store(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = tell_when_waiting(monkeypatch, seconds=1000.0)
    await live_once(home)
    with locked(home.database):
        life = Life(home)
        await soon(waiting.wait())
        await life.stop()
    assert not life.ready.is_set()


async def test_a_store_that_is_lost_and_found_is_noticed(home: Home) -> None:
    life = Life(home)
    await soon(life.ready.wait())
    async with connect(home.socket) as client:
        await client.write(type="listen", chat="main")
        with locked(home.database):
            answer = await client.ask(type="message", id="1", text="hello")
            assert answer is not None
            assert answer["type"] == "retry"
        await client.say("what is 17 * 23?", message_id="1")
        assert "391" in (await client.hear())["text"]
    await life.stop()
    with closing(sqlite3.connect(home.database)) as database:
        assert database.execute("SELECT outcome FROM inbox").fetchall() == [("answered",)]


@pytest.mark.parametrize("trouble", [StoreUnavailable("the disk is full"), BrokenPipeError()])
async def test_nobody_to_tell_that_it_is_ready_is_no_reason_to_end(home: Home, trouble: Exception) -> None:
    life = Life(home, trouble=trouble)
    await soon(life.ready.wait())
    await check_that_it_answers(home)
    await life.stop()


async def test_a_store_is_sealed_by_an_orderly_end_and_by_no_other(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(home)
    await soon(life.ready.wait())
    assert not is_sealed(home.database)
    await life.stop()
    assert is_sealed(home.database)
    life = Life(home)
    await soon(life.ready.wait())
    async with connect(home.socket) as client:
        await client.say("hello", message_id="1")
        await client.hear()
    life.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(life.task)
    assert not is_sealed(home.database)
