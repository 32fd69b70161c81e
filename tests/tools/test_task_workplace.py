"""Nothing of a task stays: neither processes nor files."""

import asyncio
import os
from pathlib import Path

import pytest

from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tests.programs import needs
from tools.backends.base import Command
from tools.task_workplace import end_task_here, task_workplace


def _is_alive(marker: str) -> bool:
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in process.read_bytes():
                return True
        except OSError:
            continue
    return False


@pytest.mark.parametrize("killed", [False, True], ids=["in order", "by the next process"])
@pytest.mark.parametrize("backend", ["local", pytest.param("sandbox", marks=needs("bubblewrap"))])
async def test_what_a_task_leaves_running_is_killed_and_its_files_are_deleted(
    tmp_path: Path, backend: str, killed: bool
) -> None:
    folder, marker = tmp_path / "task", f"1000.{os.getpid()}{backend == 'local':d}{killed:d}"
    settings = TerminalSettings.model_validate({"backend": backend, "members_backend": "docker"})
    context = task_workplace(settings, folder, home=Home(tmp_path / "home"))
    place = await context.__aenter__()
    await place.backend.spawn(Command(text=f"touch mine; sleep {marker}"))
    async with asyncio.timeout(60):
        while not ((folder / "workspace" / "mine").exists() and _is_alive(marker)):
            await asyncio.sleep(0.01)
    if killed:
        await asyncio.to_thread(end_task_here, folder)
    else:
        await context.__aexit__(None, None, None)
    assert not folder.exists()
    async with asyncio.timeout(60):
        while _is_alive(marker):
            await asyncio.sleep(0.01)
