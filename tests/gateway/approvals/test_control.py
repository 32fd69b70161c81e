"""Deciding for `hermes approvals` through the running gateway."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.approvals import control, decisions
from gateway.approvals.control import ApprovalControl, request_decision
from gateway.changes import Changes
from gateway.store import approvals
from gateway.store.db.database import Database
from tests.gateway.store.rows import ADDRESS, a_question, an_asker
from tools.backends.supervisor_child import connect

RULE = "recursive-delete /home/ann/proj/build"


@asynccontextmanager
async def serving(db: Database, folder: Path) -> AsyncIterator[Path]:
    path = folder / "control.sock"
    task = asyncio.create_task(ApprovalControl(db=db, path=path, changes=Changes()).run())
    try:
        async with asyncio.timeout(20):
            while not path.exists():
                await asyncio.sleep(0)
        yield path
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not path.exists()


async def ask(db: Database) -> str:
    question = a_question("rm -r build", rules=(RULE,))
    unit = lambda tx: decisions.ask(tx, an_asker(), "c", question, ADDRESS, origin=ADDRESS, wait_ms=60_000)  # noqa: E731
    return (await db.write(unit)).id


async def test_it_decides_and_says_what_became_of_it(db: Database, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)  # the kernel takes 107 letters for a socket
    folder.mkdir()
    asked = await ask(db)
    async with serving(db, folder) as path:
        assert path.stat().st_mode & 0o777 == 0o600
        is_decided, text = await asyncio.to_thread(request_decision, path, asked.upper(), "always")
        assert is_decided
        assert text.startswith("✅ Always allowed")
        is_decided, text = await asyncio.to_thread(request_decision, path, "nothere", "once")
        assert (is_decided, "There is no approval request" in text) == (False, True)
    found = await db.read(lambda tx: approvals.get(tx, asked))
    assert found is not None
    assert found.state == "approved"
    assert await db.read(lambda tx: [one.rule for one in approvals.rules(tx)]) == [RULE]


async def test_a_command_of_the_agent_is_refused(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = await ask(db)
    monkeypatch.setattr(control, "is_our_command", lambda pid, gateway_pid: True)
    async with serving(db, tmp_path) as path:
        assert await asyncio.to_thread(request_decision, path, asked, "once") == (False, control.REFUSED)
    found = await db.read(lambda tx: approvals.get(tx, asked))
    assert found is not None
    assert found.is_waiting


@pytest.mark.parametrize("line", [b"\n", b"[]\n", b"{}\n", b'{"id": "x", "verdict": "maybe"}\n', b"no json\n", b""])
async def test_what_makes_no_sense_decides_nothing(db: Database, tmp_path: Path, line: bytes) -> None:
    asked = await ask(db)

    def talk(path: Path) -> bytes:
        with socket.socket(fileno=connect(str(path)).detach()) as connection:
            connection.settimeout(20)
            connection.sendall(line)
            connection.shutdown(socket.SHUT_WR)
            return connection.makefile("rb").read()

    async with serving(db, tmp_path) as path:
        answer = await asyncio.to_thread(talk, path)
        assert not answer or json.loads(answer)["is_decided"] is False
        assert (await asyncio.to_thread(request_decision, path, asked, "deny"))[0]  # it goes on


async def test_without_a_socket_the_gateway_goes_on(db: Database, tmp_path: Path) -> None:
    await ApprovalControl(db=db, path=tmp_path / "gone" / "control.sock", changes=Changes()).run()
