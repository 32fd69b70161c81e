"""Whole stories over the local socket."""

import asyncio
import os
import re
import signal
import socket
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gateway.messages import Address, Text
from gateway.store import outbox
from gateway.store.db.database import open_database
from tests.gateway.platforms.client import connect
from tests.hermes_cli.at_a_terminal import AtATerminal
from tests.journeys.gateway_process import ROOT, gateway, make_home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path / "home")


async def hermes(home: Path, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "hermes_cli", *arguments),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "HERMES_HOME": str(home)},
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return printed.decode()


async def test_a_conversation_with_a_tool_a_command_and_a_look_back(home: Path) -> None:
    async with gateway(home) as running:
        async with connect(running.socket) as client:
            await client.say("add milk to my todo list", message_id="1", chat="build")
            answer = await client.hear()
            assert "milk" in answer["text"]
            assert answer["answers"] == ["1"]
            await client.say("what is 17 * 23?", message_id="2", chat="build")
            assert "391" in (await client.hear())["text"]
            await client.say("/new", message_id="3", chat="build")
            assert "new conversation" in (await client.hear())["text"]
            await client.say("what is 17 * 23?", message_id="2", chat="build")  # a second copy: taken, not answered
            await client.say("/status", message_id="4", chat="build")
            assert "No conversation yet" in (await client.hear())["text"]
        assert "socket:build" in await hermes(home, "sessions", "list")
        assert "todo" in await hermes(home, "sessions", "show", "socket:build")
        status = await hermes(home, "status")
        assert f"serving, pid {running.pid}" in status
        assert "socket    connected" in status
        assert await running.stop() == 0
    assert not (home / "hermes.sock").exists()


async def test_what_another_process_writes_is_delivered_at_once(home: Path) -> None:
    async with gateway(home) as running, connect(running.socket) as client:
        await client.write(type="listen", chat="build")
        await client.ask(type="?")  # from here on it is listening
        beside = await open_database(home / "state.db")
        address = Address(account="socket", chat="build")
        await beside.write(lambda tx: outbox.add(tx, address, [Text(text="from beside")]))
        assert (await client.hear())["text"] == "from beside"
        await beside.close()


async def test_kill_nine_and_a_start_lose_nothing(home: Path) -> None:
    async with gateway(home) as running, connect(running.socket) as client:
        await client.say("what is 17 * 23?", message_id="1")
        first = await client.read()
        assert first is not None
        assert first["type"] == "message"  # and it was not acked
        running.signal(signal.SIGKILL)
        assert await running.end() == -signal.SIGKILL
    async with gateway(home) as running, connect(running.socket) as client:
        await client.write(type="listen", chat="main")
        again = await client.hear()
        assert (again["key"], again["text"]) == (first["key"], first["text"])
        await client.say("what is 17 * 23?", message_id="1")
        await client.say("/status", message_id="2")
        assert "Model: demo" in (await client.hear())["text"]
        assert await running.stop() == 0
    with closing(sqlite3.connect(home / "state.db")) as database:
        assert database.execute("SELECT COUNT(*) FROM turns").fetchone() == (1,)
        assert database.execute("SELECT DISTINCT state FROM outbox").fetchall() == [("sent",)]


async def test_a_link_can_be_had_as_soon_as_the_page_is_there_and_no_log_contains_one(home: Path) -> None:
    """The port is told when it is known, not with the next regular report."""
    environment = {"HERMES_PLATFORMS__WEB__ENABLED": "true", "HERMES_PLATFORMS__WEB__PORT": "0"}
    async with gateway(home, environment=environment) as running:
        await running.until("`hermes web` prints a link")
        assert "127.0.0.1:0/" not in (link := await hermes(home, "web"))
        assert re.match(r"http://127\.0\.0\.1:\d+/\?token=\S+", link)
        await running.stop()
        assert "token=" not in "".join(running.printed)


def test_at_a_terminal_the_link_is_printed_on_a_line_of_its_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("HERMES_HOME", str(home)), ("HERMES_PLATFORMS__WEB__ENABLED", "true")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HERMES_PLATFORMS__WEB__PORT", "0")
    with AtATerminal("gateway", "run", cwd=home) as terminal:
        printed = terminal.until("/?token=")
        assert printed.splitlines()[-1].startswith("http://127.0.0.1:")  # nothing to cut away, no wrapping


async def test_a_port_in_use_is_said_with_the_way_out(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        environment = {"HERMES_PLATFORMS__WEB__ENABLED": "true", "HERMES_PLATFORMS__WEB__PORT": str(port)}
        async with gateway(home, environment=environment, ready=False) as running:
            said = await running.until("The chat page could not be opened")
            assert f"port {port} on 127.0.0.1 is in use" in said
            assert "hermes config set platforms.web.port" in said
            assert "Ready." not in "".join(running.printed)
            async with connect(running.socket) as client:  # the rest works
                await client.say("what is 17 * 23?", message_id="1")
                assert "391" in (await client.hear())["text"]
