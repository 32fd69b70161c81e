"""Processes of ours without the second that each takes to load: forks of one that has loaded everything.

Like `asyncio.create_subprocess_exec(sys.executable, "-m", module, …)`, as far as tests use it. A few tests go on
starting the program as its operator does (`tests/journeys/gateway_process.py`, `tests/hermes_cli/test_main.py`).
"""

import asyncio
import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import IO

_ROOT = Path(__file__).parents[2]
_PATIENCE_SECONDS = 60
_LOOK_SECONDS = 0.2
_ENDED = "the server of warm processes has ended"
_one_at_a_time = Lock()


class WarmProcess:
    def __init__(self, pid: int, report: socket.socket, stdout: asyncio.StreamReader | None) -> None:
        self.pid = pid
        self.stdout = stdout
        self._report = report
        self._told = b""
        self._returncode: int | None = None

    @property
    def returncode(self) -> int | None:
        """That of a signal is negative; None while it runs."""
        while self._returncode is None:
            try:
                self._hear(self._report.recv(100))
            except BlockingIOError:
                break
        return self._returncode

    async def wait(self) -> int:
        while (code := self.returncode) is None:
            await self._told_something()
        return code

    async def communicate(self) -> tuple[bytes, None]:
        printed = await self.stdout.read() if self.stdout is not None else b""
        await self.wait()
        return printed, None

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(9)

    async def _told_something(self) -> None:
        """Reads nothing itself: what is read for somebody who is cancelled in that moment would be lost."""
        loop, stirred, report = asyncio.get_running_loop(), asyncio.Event(), self._report.fileno()
        loop.add_reader(report, stirred.set)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):  # another may wait as well, and take the reader away
                    await stirred.wait()
        finally:
            loop.remove_reader(report)

    def _hear(self, told: bytes) -> None:
        assert told, _ENDED
        self._told += told
        if self._told.endswith(b"\n"):
            self._returncode = int(self._told)
            self._report.close()


async def start_warm(
    module: str,
    *arguments: str,
    environment: Mapping[str, str],
    stdout: IO[bytes] | None = None,
    stderr: IO[bytes] | None = None,
    warnings: str = "",
    new_session: bool = False,
) -> WarmProcess:
    """What it prints goes to `stdout`, or can be read from the process; errors do the same unless told otherwise."""
    reader, output = (None, os.dup(stdout.fileno())) if stdout is not None else await _pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        report = _order(
            (nothing, output, output if stderr is None else stderr.fileno()),
            module=module,
            arguments=arguments,
            environment=dict(environment),
            warnings=warnings,
            new_session=new_session,
        )
    finally:
        os.close(nothing)
        os.close(output)
    report.setblocking(False)
    return WarmProcess(await _pid(report), report, reader)


def run_warm(
    module: str, *arguments: str, environment: Mapping[str, str], typed: str = "", warnings: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Waits for its end, like `subprocess.run`; `typed` is what it reads from a pipe, and short."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        read, write = os.pipe()
        os.write(write, typed.encode())
        os.close(write)
        try:
            report = _order(
                (read, out.fileno(), err.fileno()),
                module=module,
                arguments=arguments,
                environment=dict(environment),
                warnings=warnings,
                new_session=False,
            )
        finally:
            os.close(read)
        with report:
            report.settimeout(_PATIENCE_SECONDS)
            told = b""
            while told.count(b"\n") < 2:  # its pid, and how it ended
                told += (piece := report.recv(100))
                assert piece, _ENDED
        printed = [(file.seek(0), file.read().decode())[1] for file in (out, err)]
    return subprocess.CompletedProcess((module, *arguments), int(told.split()[1]), *printed)


def _order(streams: tuple[int, int, int], **wanted: object) -> socket.socket:
    """Where its pid and then its exit code are told, a line each."""
    ours, theirs = socket.socketpair()
    with theirs, _one_at_a_time:
        order = json.dumps({**wanted, "cwd": str(_ROOT)}).encode()
        socket.send_fds(_server(), [order], [*streams, theirs.fileno()])
    return ours


async def _pipe() -> tuple[asyncio.StreamReader, int]:
    read, write = os.pipe()
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read, "rb", buffering=0))
    return reader, write


async def _pid(report: socket.socket) -> int:
    told = b""
    while not told.endswith(b"\n"):  # byte by byte: the end may be told of at once
        byte = await asyncio.get_running_loop().sock_recv(report, 1)
        assert byte, _ENDED
        told += byte
    return int(told)


@cache
def _server() -> socket.socket:
    """One for each process that runs tests; it ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm.server", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            cwd=_ROOT,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(_ROOT / "tests" / "guard")},
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
