"""Children that go on without us: from when on they do, and what they are sent."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.tools.backends.watching import is_there, nap, until
from tools.backends import background, supervised
from tools.backends.base import BackendFailed, Command, ProcessHandle
from tools.backends.local import LocalBackend


@pytest.fixture
def backend(tmp_path: Path) -> LocalBackend:
    return LocalBackend(workspace=tmp_path, outputs=tmp_path / "outputs")


# Until somebody knows of it, it ends with us.


async def test_what_cannot_be_written_down_is_ended(backend: LocalBackend) -> None:
    left = nap()

    async def fail(handle: ProcessHandle) -> None:
        await until(lambda: is_there(left))
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        await backend.spawn(Command(text=f"(setsid {left} &); {nap()}"), fail)
    assert not is_there(left)
    assert list(backend.outputs.iterdir()) == []


async def test_stopped_while_it_is_written_down_nothing_is_left(backend: LocalBackend) -> None:
    left, writing = nap(), asyncio.Event()

    async def never_done(handle: ProcessHandle) -> None:
        writing.set()
        await asyncio.Event().wait()

    starting = asyncio.create_task(backend.spawn(Command(text=f"(setsid {left} &); {nap()}"), never_done))
    await writing.wait()
    await until(lambda: is_there(left))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not is_there(left)
    assert list(backend.outputs.iterdir()) == []


async def test_stopped_before_it_has_told_that_it_began_nothing_is_left(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, waiting = nap(), asyncio.Event()

    async def deaf(process: asyncio.subprocess.Process) -> dict[str, object]:
        waiting.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(background, "read_start", deaf)
    starting = asyncio.create_task(backend.spawn(Command(text=left)))
    await waiting.wait()
    await until(lambda: is_there(left))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not is_there(left)


async def test_when_we_are_killed_before_it_is_written_down_it_is_ended(tmp_path: Path) -> None:
    left = nap()
    ours = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SPAWNING, str(tmp_path), f"(setsid {left} &); cat"
    )
    await until(lambda: is_there(left))
    ours.kill()
    await ours.wait()
    await until(lambda: not is_there(left))


SPAWNING = """
import asyncio, pathlib, sys
from tools.backends.base import Command
from tools.backends.local import LocalBackend
backend = LocalBackend(workspace=pathlib.Path(sys.argv[1]), outputs=pathlib.Path(sys.argv[1]) / "outputs")
async def record(handle):
    await asyncio.sleep(1000)
asyncio.run(backend.spawn(Command(text=sys.argv[2] + "; sleep 1000", interactive=True), record))
"""


async def test_one_whose_input_cannot_be_made_is_not_started(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, new_folder = nap(), supervised.make_output_folder

    def with_something_in_it(outputs: Path, kind: str) -> Path:
        folder = new_folder(outputs, kind)
        (folder / "input").touch()
        return folder

    monkeypatch.setattr(background, "make_output_folder", with_something_in_it)
    with pytest.raises(BackendFailed, match="could not be started: file exists"):
        await backend.spawn(Command(text=left, interactive=True))
    assert not is_there(left)


# When its keeper is killed, which ends everything with grace otherwise.


async def test_of_one_whose_keeper_was_killed_nothing_lives_on_unknown(backend: LocalBackend) -> None:
    itself, apart = nap(), nap()
    handle = await backend.spawn(Command(text=f"(setsid {apart} &); {itself}"))
    await until(lambda: is_there(itself) and is_there(apart))
    os.kill(handle.data["supervisor_pid"], signal.SIGKILL)
    await until(lambda: not is_there(itself))
    standing = (await backend.statuses([handle]))[handle.id]
    assert (standing.is_running, standing.exit_code) == (False, None)
    assert not is_there(apart)


async def test_killing_one_whose_keeper_was_killed_ends_what_is_left(backend: LocalBackend) -> None:
    apart, others = nap(), nap()
    handle = await backend.spawn(Command(text=f"(setsid {apart} &); {nap()}"))
    other = await backend.spawn(Command(text=f"(setsid {others} &); {nap()}"))
    await until(lambda: is_there(apart) and is_there(others))
    os.kill(handle.data["supervisor_pid"], signal.SIGKILL)
    await backend.kill(handle)
    assert not is_there(apart)
    assert is_there(others)
    await backend.kill(other)


# What it is sent.


async def test_what_is_not_read_does_not_pile_up_and_is_not_lost(backend: LocalBackend, tmp_path: Path) -> None:
    text = "until [ -e go ]; do sleep 0.01; done; sed -n '/end/{=;q}'"
    handle = await backend.spawn(Command(text=text, interactive=True))
    taken = refused = 0
    while refused < 30 and taken < 500:
        try:
            await backend.write(handle, b"x" * 4_095 + b"\n")
            taken, refused = taken + 1, 0
        except BackendFailed:
            refused += 1
            await asyncio.sleep(0.01)  # its keeper may just be about to take what was sent
    assert taken < 100  # what three pipes hold
    (tmp_path / "go").touch()
    await until(lambda: _is_sent(handle, b"end\n"))
    await until(lambda: not background.status(handle).is_running)
    assert (await backend.read(handle)).content.decode().split() == [str(taken + 1)]


def _is_sent(handle: ProcessHandle, data: bytes) -> bool:
    try:
        background.write(handle, data)
    except BackendFailed:
        return False
    return True


@pytest.mark.parametrize("pty", [True, False])
async def test_one_that_has_closed_its_input_is_not_hurt_by_more(
    backend: LocalBackend, tmp_path: Path, pty: bool
) -> None:
    text = "exec < /dev/null > /dev/null 2>&1; touch closed; until [ -e go ]; do sleep 0.01; done; exit 3"
    handle = await backend.spawn(Command(text=text, interactive=True, pty=pty))
    await until(lambda: (tmp_path / "closed").exists())
    await until(lambda: not _is_sent(handle, b"anybody there?\n"))
    with pytest.raises(BackendFailed, match="takes no input"):
        await backend.write(handle, b"hello?\n")
    (tmp_path / "go").touch()
    await until(lambda: not background.status(handle).is_running)
    assert (await backend.statuses([handle]))[handle.id].exit_code == 3
