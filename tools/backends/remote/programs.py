"""Places that a program of this machine leads to, such as docker or ssh: how it is run, and what its errors mean."""

import asyncio
import contextlib
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hermes_config.settings import DockerSettings, SingularitySettings, SshSettings
from tools.backends.environment import child_environment
from tools.backends.remote.calls import SHORT_CALL_SECONDS, Place, PlaceFailed, PlaceGone, helper_argv

_NEEDED = ("XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "CONTAINER_HOST")
_MAX_ANSWER_BYTES = 300_000_000
_MAX_ERROR_BYTES = 20_000

KnownErrors = Sequence[tuple[str, str, str]]
"""Patterns of what programs say, each with the reason and the next step for people. The first that fits counts."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """How a program of this machine ended."""

    exit_code: int
    output: bytes
    error_text: str


@dataclass(slots=True, kw_only=True)
class ProgramPlace(Place):
    """A place that a program of this machine leads to."""

    settings: DockerSettings | SingularitySettings | SshSettings

    programs: ClassVar[Sequence[str]]  # the first that is installed counts
    package: ClassVar[str]
    error_prefix: ClassVar[str]  # of a sentence about an error
    known_errors: ClassVar[KnownErrors]
    gone_pattern: ClassVar[str]  # a pattern of what is said when the place is not there

    def exec_arguments(self, argv: Sequence[str]) -> Sequence[str]:
        """Return the arguments that run something inside."""
        raise NotImplementedError

    def error_values(self) -> Mapping[str, str]:
        """Return what sentences about errors name."""
        raise NotImplementedError

    async def call(self, call: bytes, seconds: float) -> bytes:
        ran = await self.run(*self.exec_arguments(helper_argv()), stdin=call, seconds=seconds)
        if ran.exit_code and not ran.output:
            raise self.explain(ran)
        return ran.output

    async def run(self, *arguments: str, stdin: bytes = b"", seconds: float = SHORT_CALL_SECONDS) -> ProgramResult:
        program = self.find_program()
        try:
            return await _run([program, *arguments], stdin, seconds)
        except TimeoutError as error:
            text = f"No answer came from {self.title} ({Path(program).name})."
            raise PlaceFailed(text, "check that it runs and can be reached") from error

    def find_program(self) -> str:
        chosen: str = getattr(self.settings, "binary", "")
        names = (chosen,) if chosen else self.programs
        found = next(filter(None, map(shutil.which, names)), None)
        if found is None:
            raise PlaceFailed(f"{' or '.join(names)} is not installed.", f"apt install {self.package}")
        return found

    def explain(self, ran: ProgramResult) -> PlaceFailed:
        """Say what has failed, from what the program has said."""
        if re.search(self.gone_pattern, ran.error_text, re.IGNORECASE):
            return PlaceGone(f"{self.title.capitalize()} has ended.")
        values = {"program": Path(self.find_program()).name, **self.error_values()}
        beginning = self.error_prefix.format_map(values)
        for pattern, reason, step in self.known_errors:
            if re.search(pattern, ran.error_text, re.IGNORECASE):
                return PlaceFailed(f"{beginning}: {reason.format_map(values)}.", step.format_map(values))
        told = [
            line for line in ran.error_text.splitlines() if not line.startswith(("Run '", "See '"))
        ]  # hints of docker
        said = told[-1][:300] if told else f"exit code {ran.exit_code}"
        return PlaceFailed(f"{beginning}: {said.rstrip('.')}.", "hermes doctor --live")


async def _run(argv: Sequence[str], stdin: bytes, seconds: float) -> ProgramResult:
    """Run a program whose input stays open until it ends. It is killed when we are cancelled, or the time is up.

    Raises PlaceFailed when it cannot be started, TimeoutError.
    """
    pipe = asyncio.subprocess.PIPE
    environment = {**child_environment(_NEEDED), "LC_ALL": "C"}
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd="/", start_new_session=True
        )
    except OSError as error:
        raise PlaceFailed(f"{argv[0]} cannot be started ({(error.strerror or '').lower()}).") from error
    try:
        async with asyncio.timeout(seconds):
            output, error_text, _ = await asyncio.gather(
                _read(process.stdout, _MAX_ANSWER_BYTES),
                _read(process.stderr, _MAX_ERROR_BYTES),
                _feed(process, stdin),
            )
            code = await process.wait()
    finally:
        await asyncio.shield(_reap(process))
    return ProgramResult(code, output, error_text.decode("utf-8", "replace").strip())


async def _feed(process: asyncio.subprocess.Process, stdin: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError):  # it has ended; its exit code and stderr tell why
        process.stdin.write(stdin)
        await process.stdin.drain()


async def _read(stream: asyncio.StreamReader | None, most: int) -> bytes:
    assert stream is not None
    content = bytearray()
    while piece := await stream.read(1 << 16):
        content += piece[: max(0, most - len(content))]
    return bytes(content)


async def _reap(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
