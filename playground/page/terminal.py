"""The owner's terminal: runs the `hermes` commands of a fixed list, and nothing else."""

import asyncio
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from playground.wire import Wire

_CODE = re.compile(r"[A-HJ-NP-Z2-9]{8}")
_USER = re.compile(r"[0-9]{1,20}|U[A-Z0-9]{1,20}")
_AS_THEY_ARE = (
    *("pairing list", "approvals list", "status", "trace last", "usage", "sessions list"),
    *("doctor", "doctor --security"),
)
_SECONDS = 30.0
_MAX_OUTPUT_CHARS = 20_000


class OwnerTerminal:
    def __init__(
        self, *, command: Sequence[str], environment: Mapping[str, str], cwd: Path, platforms: Sequence[str]
    ) -> None:
        self._command, self._environment, self._cwd = tuple(command), dict(environment), cwd
        self._platforms = frozenset(platforms)
        self._one_at_a_time = asyncio.Lock()

    @property
    def prefix(self) -> str:
        """The variable that makes a command work in another shell."""
        return f"HERMES_HOME={shlex.quote(self._environment['HERMES_HOME'])}"

    def arguments(self, asked: Wire) -> list[str]:
        """Return the words of the command. Raises ValueError for anything that is not on the list."""
        name, platform = asked.get("command"), asked.get("platform")
        match name:
            case str() if name in _AS_THEY_ARE:
                return name.split()
            case "pairing approve" if platform in self._platforms and _fits(_CODE, asked.get("code")):
                return ["pairing", "approve", str(platform), str(asked["code"])]
            case "pairing revoke" if platform in self._platforms and _fits(_USER, asked.get("user")):
                return ["pairing", "revoke", str(platform), str(asked["user"])]
        raise ValueError("The page may not run this command.")

    async def run(self, asked: Wire) -> Wire:
        """Run the command, without a shell, and return its output."""
        arguments = self.arguments(asked)
        began = time.monotonic()
        async with self._one_at_a_time:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd=self._cwd,
                env=self._environment,
            )
            try:
                async with asyncio.timeout(_SECONDS):
                    printed, _ = await process.communicate()
            except TimeoutError:
                printed = f"Timed out after {_SECONDS:.0f} s.".encode()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        shown = {"line": shlex.join(["hermes", *arguments]), "code": process.returncode}
        output = printed.decode(errors="replace")[:_MAX_OUTPUT_CHARS]
        return {**shown, "output": output, "milliseconds": round((time.monotonic() - began) * 1000)}


def _fits(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
