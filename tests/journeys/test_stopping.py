"""How a gateway ends: in order, in a hurry, and under systemd."""

import asyncio
import json
import signal
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.gateway.platforms.client import Client, connect
from tests.journeys.gateway_process import GatewayProcess, gateway, make_home

PATIENT = "tests.journeys.patient_hermes"


async def ask(running: GatewayProcess, client: Client) -> None:
    """A turn is running when this returns."""
    await client.say("a hard question", message_id="1")
    async with asyncio.timeout(30):
        while not (running.home / "logs" / "thinking").exists():
            await asyncio.sleep(0.01)  # the other process says so by a file


def let_answer(home: Path) -> None:
    (home / "logs" / "go").touch()


def turns(home: Path) -> list[tuple[str, int, str]]:
    with closing(sqlite3.connect(home / "state.db")) as database:
        return database.execute("SELECT state, resumes, outcome FROM turns").fetchall()


async def test_sigterm_in_the_middle_pauses_and_the_next_start_goes_on(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", drain_timeout_seconds=0)
    async with gateway(home, module=PATIENT) as running, connect(running.socket) as client:
        await ask(running, client)
        running.signal(signal.SIGTERM)
        assert (await client.hear())["text"] == "I am restarting and will continue with this when I am back."
        assert await running.end() == 0
    assert turns(home) == [("paused", 0, "")]
    let_answer(home)
    async with gateway(home, module=PATIENT) as running, connect(running.socket) as client:
        await client.write(type="listen", chat="main")
        assert (await client.hear())["text"] == "thought about: a hard question"
        assert await running.stop() == 0
    assert turns(home) == [("done", 0, "answered")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_a_running_turn_finish_and_its_answer_go_out(
    tmp_path: Path, number: signal.Signals
) -> None:
    home = make_home(tmp_path / "home")
    async with gateway(home, module=PATIENT) as running, connect(running.socket) as client:
        await ask(running, client)
        running.signal(number)
        await running.until("stopping")
        running.signal(signal.SIGHUP)  # a second one hurries nothing
        refused = await client.ask(type="message", id="2", text="one more")
        assert refused is not None
        assert refused["type"] == "retry"
        let_answer(home)
        assert (await client.hear())["text"] == "thought about: a hard question"
        assert await running.end() == 0
    assert turns(home) == [("done", 0, "answered")]


async def test_ctrl_c_twice_does_not_wait_for_running_turns(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    async with gateway(home, module=PATIENT) as running, connect(running.socket) as client:
        await ask(running, client)
        running.signal(signal.SIGINT)
        await running.until("stopping")
        running.signal(signal.SIGINT)
        assert "I am restarting" in (await client.hear())["text"]
        assert await running.end() == 0
    assert turns(home) == [("paused", 0, "")]


async def test_an_idle_client_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    async with gateway(make_home(tmp_path / "home")) as running, connect(running.socket) as client:
        await client.write(type="listen", chat="main")
        await client.ask(type="?")
        assert await running.stop() == 0
        assert await client.read() is None


async def test_systemd_hears_ready_alive_and_stopping(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(30)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}

        async def until(line: bytes) -> None:
            while line not in (await asyncio.to_thread(heard.recv, 4096)).splitlines():
                continue

        async with gateway(make_home(tmp_path / "home"), environment=environment) as running:
            await until(b"READY=1")
            await until(b"WATCHDOG=1")
            await until(b"WATCHDOG=1")
            running.signal(signal.SIGTERM)
            await until(b"STOPPING=1")
            assert await running.end() == 0


async def test_what_it_logs_without_a_terminal_is_json_and_holds_no_message(tmp_path: Path) -> None:
    async with gateway(make_home(tmp_path / "home")) as running, connect(running.socket) as client:
        await client.say("my secret wish, what is 17 * 23?", message_id="1")
        await client.hear()
        assert await running.stop() == 0
    logged = [line for line in "".join(running.printed).splitlines() if line.startswith("{")]
    events = {json.loads(line)["event"] for line in logged}
    assert {"connected", "stopping"} <= events
    assert "secret wish" not in "".join(running.printed)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_with_nothing_to_do_it_ends_at_once(tmp_path: Path, number: signal.Signals) -> None:
    async with gateway(make_home(tmp_path / "home")) as running:
        running.signal(number)
        assert await running.end() == 0
