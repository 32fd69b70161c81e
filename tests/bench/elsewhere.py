"""How much longer a command takes in a container or on another machine by our backend than by the plain program."""

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from hermes_config.places import Home
from tests.bench.rows import Row, Size
from tests.programs import why_not
from tests.tools.backends.remote import sides
from tools.backends.base import Backend, Command
from tools.backends.remote.backend import RemoteBackend
from tools.backends.remote.containers import DockerPlace
from tools.backends.remote.ssh import SshPlace
from tools.workplaces import build_workplace

_COMMANDS: dict[Size, int] = {"full": 40, "quick": 15, "tiny": 2}
_RATIO = 1.3


def measure(size: Size, folder: Path) -> list[Row]:
    rows = []
    with ExitStack() as stack:
        short = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hb-")))  # the path of a socket is short
        if not (why_not("docker.io") or why_not("busybox-static")):
            (short / "d").mkdir()
            stack.enter_context(sides.docker_daemon(short / "d"))
            rows += asyncio.run(_measure("docker", _build("docker", folder, docker=sides.docker_settings()), size))
        if not why_not("openssh-server"):
            (short / "s").mkdir()
            settings = stack.enter_context(sides.ssh_server(short / "s"))
            rows += asyncio.run(_measure("ssh", _build("ssh", folder, ssh=settings), size))
    return rows or [Row(what="neither docker nor sshd can be started here", samples=[1], unit="")]


def _build(kind: str, folder: Path, **settings: object) -> Backend:
    home, chosen = Home(folder / "home"), sides.terminal_settings(kind, **settings)
    return build_workplace(chosen, folder, home=home, private=home.private, is_owner=True).backend


async def _measure(kind: str, backend: Backend, size: Size) -> list[Row]:
    assert isinstance(backend, RemoteBackend)
    plain = _plain(backend)
    await _milliseconds(backend)  # makes the place, or the connection
    ours, theirs = [], []
    for _ in range(_COMMANDS[size]):  # in turn, so that both have the same neighbours
        ours.append(await _milliseconds(backend))
        began = time.perf_counter()
        subprocess.run([*plain, "bash", "-c", "true"], capture_output=True, check=True)  # the shell that we use, too
        theirs.append((time.perf_counter() - began) * 1000)
    await backend.place.remove(with_files=True)
    floor = Row(what=f"floor: a command by {plain[0]} itself", samples=theirs, unit="ms")
    aim = round(_RATIO * floor.value, 1)
    return [floor, Row(what=f"a command in the {kind} backend", samples=ours, unit="ms", aim=aim, floor=floor)]


def _plain(backend: RemoteBackend) -> Sequence[str]:
    """Return the beginning of the command that a person would type."""
    if isinstance(backend.place, DockerPlace):
        return ["docker", "exec", backend.place.name]
    assert isinstance(backend.place, SshPlace)
    options = [one for one in backend.place.options() if not one.startswith("-oControl")]
    return ["ssh", *options, backend.place.settings.host]


async def _milliseconds(backend: Backend) -> float:
    began = time.perf_counter()
    finished = await backend.run(Command(text="true"))
    assert finished.exit_code == 0, finished
    return (time.perf_counter() - began) * 1000
