"""The whole gateway when its store fails: it says so, takes nothing, and goes on by itself when it can."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any

from tests.gateway.store.others import HOLDS_THE_FILE, other
from tests.gateway.store.small_disk import small_disk
from tests.warm.process import WarmProcess, start_warm

PATIENCE_SECONDS = 60


def make_home(root: Path) -> Path:
    root.mkdir(mode=0o700)
    (root / "config.yaml").write_text(
        "platforms: {socket: {enabled: true}, web: {enabled: false}}\nstore: {busy_timeout_seconds: 0.2}\n"
    )
    return root


async def hermes(home: Path, *arguments: str, stderr: IO[bytes] | None = None) -> WarmProcess:
    environment = {**os.environ, "HERMES_HOME": str(home)}
    return await start_warm("hermes_cli", *arguments, stderr=stderr, environment=environment)


@asynccontextmanager
async def gateway(home: Path, log: Path, *, wait: bool = True) -> AsyncIterator[WarmProcess]:
    """Runs inside; ends in an orderly way, or the test fails."""
    with log.open("wb") as output:
        process = await hermes(home, "gateway", "run", stderr=output)
    try:
        if wait:
            await until_ready(process)
        yield process
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await process.communicate()
        assert process.returncode == 0, log.read_text()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def until_ready(process: WarmProcess) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        while line := await process.stdout.readline():
            if line.startswith(b"Ready"):
                return
    raise AssertionError("it ended before it was ready")


async def status(home: Path) -> dict[str, Any]:
    process = await hermes(home, "status", "--json")
    printed, _ = await process.communicate()
    facts = json.loads(printed)
    assert isinstance(facts, dict)
    return facts


async def until_store(home: Path, problem: str) -> dict[str, Any]:
    """Asks until the gateway tells of this problem; of none, when it is empty."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            facts = await status(home)
            told = (facts["gateway"] or {}).get("store", "nothing yet")
            if problem in told and bool(problem) == bool(told):
                return facts


class Chat:
    """One who talks over the socket, and keeps count."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.answered: list[str] = []

    @classmethod
    @asynccontextmanager
    async def open(cls, home: Path) -> AsyncIterator["Chat"]:
        reader, writer = await asyncio.open_unix_connection(home / "hermes.sock")
        try:
            yield cls(reader, writer)
        finally:
            writer.close()
            await writer.wait_closed()

    async def send(self, name: str) -> dict[str, Any]:
        """What the gateway says to it: ack or retry."""
        self._say(type="message", id=name, chat="main", text=f"hello {name} {'x' * 2000}")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                line = await self._next()
                if line.get("id") == name:
                    return line

    async def until_answered(self, names: set[str]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not names <= set(self.answered):
                await self._next()

    async def _next(self) -> dict[str, Any]:
        line = json.loads(await self._reader.readline())
        if line["type"] == "message":
            self.answered += line["answers"]
            self._say(type="ack", key=line["key"])
        assert isinstance(line, dict)
        return line

    def _say(self, **line: Any) -> None:
        self._writer.write(json.dumps(line).encode() + b"\n")


async def talk_until_refused(chat: Chat) -> tuple[set[str], dict[str, Any]]:
    """What was taken before, and the refusal. Some more may fit: the log has room in places it used before."""
    taken: set[str] = set()
    while (answer := await chat.send(f"during {len(taken)}"))["type"] == "ack":
        taken.add(f"during {len(taken)}")
        assert len(taken) < 2_000
    return taken, answer


async def test_a_full_disk_is_told_refuses_and_heals(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", megabytes=8) as disk:
        home = make_home(disk.root / "home")
        async with gateway(home, tmp_path / "log"), Chat.open(home) as chat:
            assert (await chat.send("before"))["type"] == "ack"
            await chat.until_answered({"before"})

            disk.fill()
            taken, refusal = await talk_until_refused(chat)
            assert refusal["type"] == "retry"
            assert "the disk is full" in refusal["problem"]
            facts = await until_store(home, "the disk is full")
            assert facts["gateway"]["state"] == "serving"
            async with Chat.open(home) as newcomer:
                assert (await newcomer.send("from a newcomer"))["type"] == "retry"

            disk.free()
            await until_store(home, "")
            assert (await chat.send(refusal["id"]))["type"] == "ack"
            everything = {"before", *taken, refusal["id"]}
            await chat.until_answered(everything)
            assert sorted(chat.answered) == sorted(everything)


async def test_a_held_file_is_told_refuses_and_heals(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    async with gateway(home, tmp_path / "log"), Chat.open(home) as chat:
        assert (await chat.send("before"))["type"] == "ack"
        await chat.until_answered({"before"})
        with other(HOLDS_THE_FILE, str(home / "state.db")) as holder:
            await asyncio.to_thread(holder.wait_for, "ready")
            refusal = await chat.send("during")
            assert refusal["type"] == "retry"
            assert "locked by another process" in refusal["problem"]
            await until_store(home, "locked by another process")
            holder.finish()
        await until_store(home, "")
        assert (await chat.send("during"))["type"] == "ack"
        await chat.until_answered({"during"})
        assert sorted(chat.answered) == ["before", "during"]


async def test_a_start_waits_for_a_held_file_and_says_so(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    await status(home)  # makes the database
    with other(HOLDS_THE_FILE, str(home / "state.db")) as holder:
        await asyncio.to_thread(holder.wait_for, "ready")
        async with gateway(home, tmp_path / "log", wait=False) as process:
            facts = await until_store(home, "locked by another process")
            assert facts["gateway"]["state"] == "starting"
            holder.finish()
            await until_ready(process)
            async with Chat.open(home) as chat:
                assert (await chat.send("at last"))["type"] == "ack"
                await chat.until_answered({"at last"})


async def test_asked_to_stop_while_it_waits_for_its_file_it_stops(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    await status(home)
    with other(HOLDS_THE_FILE, str(home / "state.db")) as holder:
        await asyncio.to_thread(holder.wait_for, "ready")
        async with gateway(home, tmp_path / "log", wait=False):
            await until_store(home, "locked by another process")


async def test_a_damaged_file_is_repaired_at_the_start_and_the_operator_told(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    async with gateway(home, tmp_path / "log"), Chat.open(home) as chat:
        await chat.send("before")
        await chat.until_answered({"before"})
    (home / "state.db").write_bytes(b"\xa5" * 100_000)
    async with gateway(home, tmp_path / "log"), Chat.open(home) as chat:
        [notice] = (await status(home))["notices"]
        assert "state.db was damaged" in notice["text"]
        assert len(list((home / "backups").glob("damaged-*"))) == 1
        assert (await chat.send("after"))["type"] == "ack"
        await chat.until_answered({"after"})
