"""A gateway process as its operator sees it: start, wait, kill, and what is left of it."""

import asyncio
import os
import secrets
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.warm.process import WarmProcess, start_warm

_ROOT = Path(__file__).parents[2]
_LOOK_AGAIN_SECONDS = 0.01
_READY = b"Ready."
_MARK = "LEDGER_RUN"


class GatewayProcess:
    """One home, one process at a time; what they print is collected in one file."""

    def __init__(
        self, home: Path, *, effects: Path, log: Path, settings: Mapping[str, str], arguments: Sequence[str] = ()
    ) -> None:
        self.log = log
        self._arguments = ("--effects", str(effects), *arguments)
        self._run = secrets.token_hex(8)  # children inherit it, also those that leave our process group
        # Nothing of the developer's own environment: a real token in it would connect a real bot.
        self._environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(_ROOT / "tests" / "guard"),
            **settings,
            "HERMES_HOME": str(home),
            _MARK: self._run,
        }
        self._sessions: set[int] = set()  # each process began one, which its children are born into
        self._process: WarmProcess | None = None
        self._printed_before = 0

    async def start(self, *, kill_at: str = "", occurrence: int = 1) -> None:
        """Returns at once; with `kill_at` the process ends itself there."""
        assert self.has_ended
        arguments = [*self._arguments]
        if kill_at:
            arguments += ["--kill-at", kill_at, "--occurrence", str(occurrence)]
        with self.log.open("ab") as output:
            self._printed_before = output.tell()
            self._process = await start_warm(
                "tests.faults.gateway_under_test",
                *arguments,
                stdout=output,
                environment=self._environment,
                new_session=True,
            )
        self._sessions.add(self._process.pid)

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.returncode is not None

    async def wait_ready(self, *, seconds: float = 30.0) -> bool:
        """False when it ended before it was ready."""
        async with asyncio.timeout(seconds):
            while not self.has_ended:
                if _READY in self.log.read_bytes()[self._printed_before :]:
                    return True
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        return False

    async def wait_end(self, *, seconds: float = 30.0) -> int:
        """The exit code; that of a signal is negative."""
        assert self._process is not None
        async with asyncio.timeout(seconds):
            return await self._process.wait()

    async def kill(self) -> None:
        self._signal(signal.SIGKILL)
        await self.wait_end()

    async def terminate(self) -> int:
        """An orderly stop."""
        self._signal(signal.SIGTERM)
        return await self.wait_end()

    def orphans(self) -> list[str]:
        """Processes that one of ours has left behind, dead ones that nobody has collected aside."""
        assert self.has_ended
        mark = f"{_MARK}={self._run}".encode()
        return [_name(pid) for pid in _pids() if _session(pid) in self._sessions or mark in _environment(pid)]

    def last_lines(self, count: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:]) if self.log.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _session(pid: int) -> int:
    """0 for a process that has ended."""
    state, _, _, session = _read(pid, "stat").rpartition(b") ")[2].split()[:4] or (b"Z", b"", b"", b"")
    return 0 if state == b"Z" else int(session)


def _environment(pid: int) -> list[bytes]:
    return _read(pid, "environ").split(b"\0")


def _name(pid: int) -> str:
    return f"{pid} {_read(pid, 'cmdline').replace(bytes(1), b' ').decode(errors='replace').strip()}"


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:  # gone meanwhile, or another user's
        return b""
