"""The owner's terminal: runs the `hermes` commands of a fixed list, and nothing else."""

import asyncio
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from playground.wire import Wire

_ALLOWED = re.compile(
    r"(pairing|approvals|sessions) list|status|trace last|usage|doctor( --security)?"
    r"|pairing approve (telegram|discord|slack) [A-HJ-NP-Z2-9]{8}"
    r"|pairing revoke (telegram|discord|slack) ([0-9]{1,20}|U[A-Z0-9]{1,20})"
)
_SECONDS = 30.0
_MAX_OUTPUT_CHARS = 20_000


class OwnerTerminal:
    def __init__(self, *, command: Sequence[str], environment: Mapping[str, str], cwd: Path) -> None:
        self._command, self._environment, self._cwd = tuple(command), dict(environment), cwd
        self._one_at_a_time = asyncio.Lock()

    @property
    def prefix(self) -> str:
        """The variable that makes a command work in another shell."""
        return f"HERMES_HOME={shlex.quote(self._environment['HERMES_HOME'])}"

    def arguments(self, asked: Wire) -> list[str]:
        """Return the words of the command. Raises ValueError for anything that is not on the list."""
        line = " ".join(str(asked[name]) for name in ("command", "platform", "code", "user") if name in asked)
        if not _ALLOWED.fullmatch(line):
            raise ValueError("The page may not run this command.")
        return line.split()

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
