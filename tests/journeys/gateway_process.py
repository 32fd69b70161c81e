"""A real `hermes gateway run`, as its operator starts it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFIG = """\
platforms:
  socket: {{enabled: true}}
  web: {{enabled: false}}
gateway:
  drain_timeout_seconds: {drain_timeout_seconds}
memory: {{nudge_turns: 0}}  # most models here follow a script
"""


class GatewayProcess:
    def __init__(self, process: asyncio.subprocess.Process, home: Path) -> None:
        self._process = process
        self.home = home
        self.printed: list[str] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def socket(self) -> Path:
        return self.home / "hermes.sock"

    async def until(self, text: str, *, seconds: float = 30.0) -> str:
        """Reads what it prints up to the first line that holds the text."""
        assert self._process.stdout is not None
        async with asyncio.timeout(seconds):
            while raw := await self._process.stdout.readline():
                self.printed.append(raw.decode())
                if text in self.printed[-1]:
                    return self.printed[-1]
        raise AssertionError(f"it ended without a line about {text!r}: {''.join(self.printed)}")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def end(self, *, seconds: float = 30.0) -> int:
        """Waits for its end; gives the exit code."""
        assert self._process.stdout is not None
        async with asyncio.timeout(seconds):
            self.printed.append((await self._process.stdout.read()).decode())
            return await self._process.wait()

    async def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return await self.end()


def make_home(home: Path, *, drain_timeout_seconds: float = 60) -> Path:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.yaml").write_text(CONFIG.format(drain_timeout_seconds=drain_timeout_seconds))
    return home


@asynccontextmanager
async def gateway(
    home: Path, *, module: str = "hermes_cli", environment: Mapping[str, str] | None = None, ready: bool = True
) -> AsyncIterator[GatewayProcess]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-W", "error", "-m", module, "gateway", "run"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=ROOT,
        env={**os.environ, "HERMES_HOME": str(home), **(environment or {})},
    )
    running = GatewayProcess(process, home)
    try:
        if ready:
            await running.until("Ready.")
        yield running
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
