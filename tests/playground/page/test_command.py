"""`hermes playground` as a newcomer starts it: one command, one address, and nothing left behind."""

import asyncio
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.playground.page.scene import until

ROOT = Path(__file__).parents[3]
LINK = re.compile(r"http://127\.0\.0\.1:\d+/\?token=\S+")


@asynccontextmanager
async def hermes(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-m", "hermes_cli", "playground", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=ROOT,
        env=dict(os.environ),
    )
    try:
        async with asyncio.timeout(60):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout
    return (await process.stdout.readline()).decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_it_prints_an_address_and_ends_without_a_trace(number: signal.Signals) -> None:
    async with hermes("--no-open") as process:
        link = LINK.search(await line(process))
        assert link
        home = Path((await line(process)).partition("gateway: ")[2].partition(" (deleted")[0])
        assert (home / "config.yaml").exists()
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session, session.get(link[0]) as answer:
            assert "Hermes playground" in await answer.text()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == 1
        process.send_signal(number)
        assert await process.wait() == 0
        assert not home.parent.exists()
        assert not Path(f"/proc/{children[0]}").exists()


async def test_killed_it_leaves_no_gateway_behind() -> None:
    async with hermes("--no-open") as process:
        assert LINK.search(await line(process))
        home = Path((await line(process)).partition("gateway: ")[2].partition(" (deleted")[0])
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        await until(lambda: "Ready." in (home / "logs" / "gateway.log").read_text(), seconds=40)
        process.kill()
        await process.wait()
        await until(lambda: not _is_alive(child), seconds=40)
    shutil.rmtree(home.parent)


def _is_alive(pid: str) -> bool:
    """One that has ended and was not collected by anybody yet is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_port_in_use_is_one_clear_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        async with hermes("--no-open", "--port", str(taken.getsockname()[1])) as process:
            assert process.stdout
            said = (await process.stdout.read()).decode()
            assert await process.wait() == 1
    assert said.startswith("Error: Port")
    assert "--port" in said
    assert len(said.splitlines()) == 1
