"""A real gateway as a child process: start, stop, kill, and notice when it ends by itself."""

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from playground.page.home import PlaygroundHome
from playground.wire import Wire

State = Literal["stopped", "starting", "stopping", "killed", "died"]
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_PADDING = re.compile(r"(?<=\S) {2,}")
_STOP_SECONDS = 5.0
_TAIL_BYTES = 24_000
_TAIL_LINES = 150
# The variables that a child inherits: no token, no key and no setting is among them.
_KEPT = frozenset(("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV"))


def child_environment(given: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the environment of the gateway and of `hermes`; everything else is in their home."""
    kept = {name: value for name, value in given.items() if name in _KEPT or name.startswith("LC_")}
    return {**kept, "HERMES_HOME": str(home), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}


class GatewayChild:
    """`command` calls `hermes` by a full path."""

    def __init__(
        self, home: PlaygroundHome, *, command: Sequence[str], environment: Mapping[str, str], cwd: Path
    ) -> None:
        self.home = home
        self.state: State = "stopped"
        self._command, self._environment, self._cwd = tuple(command), dict(environment), cwd
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._wanted: State = "died"  # the state when it ends
        self._since = time.time()
        self._code: int | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process and self.is_alive else 0

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        if self.state in ("starting", "stopping"):  # a second one would leave the first with nobody to end it
            raise ValueError("The gateway is running already.")
        self._set("starting")
        self._wanted, self._code = "died", None
        self._ended.clear()
        with self.home.log_file.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "playground.page.end_with_parent", str(os.getpid())),
                *(*self._command, "gateway", "run"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                cwd=self._cwd,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for us, who then stop it in order
            )
        self._watching = asyncio.create_task(self._watch(self._process))

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        self._code = await process.wait()
        self._set(self._wanted)
        self._ended.set()

    async def stop(self) -> None:
        """Ask it to end in order, which may take a while; see `state`."""
        self._signal(signal.SIGTERM, wanted="stopped")
        self._set("stopping")

    async def kill(self) -> None:
        """kill -9."""
        self._signal(signal.SIGKILL, wanted="killed")
        await self._ended.wait()

    def _signal(self, number: signal.Signals, *, wanted: State) -> None:
        if not self.is_alive:
            raise ValueError("The gateway is not running.")
        assert self._process
        self._wanted = wanted
        self._process.send_signal(number)

    async def close(self) -> None:
        """End the gateway, by force if it takes too long."""
        if not self.is_alive:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self.stop()
                await self._ended.wait()
        if self.is_alive:
            await self.kill()

    def _set(self, state: State) -> None:
        self.state, self._since = state, time.time()

    def look(self) -> Wire:
        """Return its state for the page. Blocks on two small files."""
        told: Wire = {}
        with suppress(OSError, ValueError):
            lock = json.loads(self.home.lock_file.read_bytes())
            told = lock if isinstance(lock, dict) and lock.get("pid") == self.pid != 0 else {}
        is_serving = self.state == "starting" and told.get("state") == "serving"
        return {
            "state": "running" if is_serving else self.state,
            "pid": self.pid,
            "since_ms": int(self._since * 1000),
            "code": self._code,
            "platforms": {
                name: {"state": one.get("state", ""), "problem": one.get("problem", "")}
                for name, one in told.get("platforms", {}).items()
            },
            "log": self.tail(),
        }

    def tail(self) -> list[str]:
        """Return the last lines it printed."""
        try:
            with self.home.log_file.open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return []
        return [_PADDING.sub(" ", line) for line in _COLOURS.sub("", text).splitlines()[-_TAIL_LINES:]]
