"""One browser and one gateway for all tests here; each test gets a tab with a chat of its own."""

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.web.browser import Browser, Page, open_browser

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"http://127\.0\.0\.1:\d+/\?token=\S+")
_OURS = ("HERMES_", "GATEWAY_", "TELEGRAM_", "DISCORD_", "SLACK_", "OPENAI_", "OPENROUTER_", "NOUS_", "NOTIFY_SOCKET")


class Site:
    """A gateway with the page, on the same port after every restart."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.address = f"http://127.0.0.1:{_free_port()}/"
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[bytes] | None = None

    async def start(self) -> str:
        """Start the gateway and return a link to its page."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-m", "tests.web.echo_hermes", "gateway", "run"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=ROOT,
            env=self._environment(),
        )
        await _find_printed(self._process, re.compile("`hermes web` prints a link"))
        assert self._process.stdout is not None
        self._reading = asyncio.create_task(self._process.stdout.read())  # a full pipe would hold it up
        return await self.new_link()

    async def kill(self) -> None:
        """Kill the gateway without a chance to clean up."""
        assert self._process is not None
        assert self._reading is not None
        self._process.send_signal(signal.SIGKILL)
        await self._reading
        await self._process.wait()

    async def new_link(self) -> str:
        """Return the link that `hermes web` prints."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hermes_cli", "web"),
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env=self._environment(),
        )
        return await _find_printed(process, LINK)

    def go(self, go: bool = True) -> None:
        """Let the model finish held answers, or make it hold the next one."""
        if go:
            (self.home / "go").touch()
        else:
            (self.home / "go").unlink(missing_ok=True)

    def refuse(self, words: str = "") -> None:
        """Defer messages with these words; without words, accept everything again."""
        if words:
            (self.home / "refused").write_text(words)
        else:
            (self.home / "refused").unlink(missing_ok=True)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        port = self.address.rstrip("/").rpartition(":")[2]
        ours = {"HERMES_HOME": str(self.home), "HERMES_PLATFORMS__WEB__PORT": port}
        ours["TERMINAL_ENV"] = "local"  # in a sandbox nothing would ask
        return {**kept, **ours, "PYTHONPATH": str(ROOT / "tests" / "guard")}


async def _find_printed(process: asyncio.subprocess.Process, wanted: re.Pattern[str]) -> str:
    assert process.stdout is not None
    printed = ""
    async with asyncio.timeout(30):
        while line := (await process.stdout.readline()).decode():
            printed += line
            if found := wanted.search(line):
                return found[0]
    raise AssertionError(f"{wanted.pattern} was not printed: {printed}")


def _free_port() -> int:
    """Return a free port. Chosen before the start, so that a restarted gateway has the same."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with open_browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> AsyncIterator[Site]:
    """Run a gateway in which the browser is signed in."""
    running = Site(tmp_path_factory.mktemp("site") / "home")
    link = await running.start()
    try:
        first = await browser.new_page()
        await first.go(link)
        await first.wait_for("document.querySelector('#about').textContent")
        await first.close()
        yield running
    finally:
        await running.kill()


@pytest_asyncio.fixture(loop_scope="session")
async def page(site: Site, browser: Browser) -> AsyncIterator[Page]:
    """Open a new chat in a tab, and fail if it reported an error by the end of the test."""
    site.go()
    site.refuse("")
    opened = await browser.new_page()
    # A tab opens the chat to which nothing was sent yet, with its draft: another test may have left one there.
    await opened.call("Storage.clearDataForOrigin", origin=site.address.rstrip("/"), storageTypes="local_storage")
    await opened.go(site.address)
    await opened.wait_for("document.querySelector('#about').textContent")
    await opened.wait_for("!document.querySelector('#empty').hidden")
    yield opened
    problems, dialogs = opened.problems, opened.dialogs
    await opened.close()
    assert problems == []
    assert dialogs == []
