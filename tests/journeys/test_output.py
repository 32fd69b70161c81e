"""A gateway whose standard output and error cannot be written to serves all the same."""

import asyncio
import fcntl
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from tests.gateway.platforms.client import Client, connect
from tests.journeys.gateway_process import ROOT, make_home

_SMALLEST_PIPE_BYTES = 4096


@asynccontextmanager
async def gateway(home: Path, *, stdout: int, stderr: int) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-m", "hermes_cli", "gateway", "run"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        cwd=ROOT,
        env={**os.environ, "HERMES_HOME": str(home)},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def connect_when_ready(home: Path, process: asyncio.subprocess.Process) -> AsyncIterator[Client]:
    async with asyncio.timeout(30):
        while not (home / "hermes.sock").exists():
            assert process.returncode is None, f"ended with {process.returncode}"
            await asyncio.sleep(0.01)  # nothing it prints can be read
    async with connect(home / "hermes.sock") as client:
        yield client


async def ask(client: Client, number: int) -> None:
    """A turn and a command, which is logged."""
    await client.say(f"what is {number} * 2?", message_id=f"turn {number}")
    assert str(number * 2) in (await client.hear())["text"]
    await client.say("/status", message_id=f"command {number}")
    assert "Model:" in (await client.hear())["text"]


async def stop(process: asyncio.subprocess.Process) -> int:
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(30):
        return await process.wait()


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _SMALLEST_PIPE_BYTES)
    try:
        yield reader, writer
    finally:
        for end in (reader, writer):
            with suppress(OSError):
                os.close(end)


async def test_a_reader_that_has_gone_does_not_end_it(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    with pipe() as (reader, writer):
        async with gateway(home, stdout=writer, stderr=writer) as process, connect_when_ready(home, process) as client:
            await ask(client, 21)
            os.close(reader)
            for number in range(30, 33):
                await ask(client, number)
            assert await stop(process) == 0


async def test_nobody_reading_from_the_start_does_not_end_it(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    with pipe() as (reader, writer):
        os.close(reader)
        async with gateway(home, stdout=writer, stderr=writer) as process, connect_when_ready(home, process) as client:
            await ask(client, 21)
            assert await stop(process) == 0


async def test_a_reader_that_sleeps_holds_up_neither_chats_nor_the_end(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    with pipe() as (_, writer):
        os.write(writer, b"x" * _SMALLEST_PIPE_BYTES)
        async with gateway(home, stdout=writer, stderr=writer) as process, connect_when_ready(home, process) as client:
            await ask(client, 21)
            assert await stop(process) == 0


async def test_a_reader_that_wakes_up_gets_what_was_logged_meanwhile(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    with pipe() as (reader, writer), open(os.devnull, "wb") as nowhere:
        os.write(writer, b"x" * (_SMALLEST_PIPE_BYTES - 1) + b"\n")
        async with (
            gateway(home, stdout=nowhere.fileno(), stderr=writer) as process,
            connect_when_ready(home, process) as client,
        ):
            await ask(client, 21)
            reading = asyncio.create_task(asyncio.to_thread(read_all, reader))
            assert await stop(process) == 0
            os.close(writer)
            _, *lines = (await reading).splitlines()
    events = [json.loads(line)["event"] for line in lines]
    assert {"connected", "command", "stopping"} <= set(events)


def read_all(reader: int) -> bytes:
    with open(reader, "rb", closefd=False) as stream:
        return stream.read()


@pytest.mark.parametrize("full", ["stdout", "stderr", "both"])
async def test_a_full_disk_under_its_output_does_not_keep_it_from_serving(tmp_path: Path, full: str) -> None:
    home = make_home(tmp_path / "home")
    with (home / "config.yaml").open("a") as config:
        config.write("unknown_setting: 1\n")  # a warning before anything is configured
    with open("/dev/full", "wb") as disk, open(os.devnull, "wb") as nowhere:
        stdout = nowhere if full == "stderr" else disk
        stderr = nowhere if full == "stdout" else disk
        async with (
            gateway(home, stdout=stdout.fileno(), stderr=stderr.fileno()) as process,
            connect_when_ready(home, process) as client,
        ):
            await ask(client, 21)
            assert await stop(process) == 0
