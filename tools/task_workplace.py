"""A workplace for one task of a batch or one rollout: a folder and a sandbox of its own, of which nothing stays."""

import asyncio
import shutil
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import structlog

from hermes_config.places import Home, make_private
from hermes_config.settings import TerminalSettings
from tools.backends.background import end_leftovers
from tools.backends.base import Workplace
from tools.backends.box import signal_box
from tools.backends.usage import delete_tree
from tools.workplaces import build_workplace, local_workplace, runs_boxed

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_DELETE_ATTEMPTS = 40
_DELETE_PAUSE_SECONDS = 0.05


async def open_task(settings: TerminalSettings, folder: Path, *, home: Home) -> Workplace:
    """Make a workplace in a folder; `end_task` ends it.

    In a sandbox with the limits of people who are no owners, unless the settings say `local`, or no sandbox can be made
    here and they leave the choice. Raises BackendFailed.
    """
    workspace, private = folder / "workspace", folder / "private"
    make_private(workspace)
    make_private(private)
    if await asyncio.to_thread(runs_boxed, settings):
        return build_workplace(
            settings,
            workspace,
            home=home,
            private=private,
            is_owner=False,
            holder=folder.name,
            comes_last=False,  # tasks are what the machine is there for
        )
    place = local_workplace(workspace, home=home, outputs=private / "outputs", settings=settings)
    place.holder = folder.name
    return place


@asynccontextmanager
async def task_workplace(settings: TerminalSettings, folder: Path, *, home: Home) -> AsyncIterator[Workplace]:
    """Yield a workplace in a new folder; at the end all that runs there is killed, and the folder deleted."""
    await asyncio.to_thread(end_task, folder)  # left by a worker that was killed
    place = await open_task(settings, folder, home=home)
    try:
        yield place
    finally:
        await asyncio.shield(asyncio.to_thread(end_task, folder))
        await place.backend.close()


def end_task(folder: Path) -> None:
    """Kill what runs in the folder of a task, also of one whose process was killed, and delete it. Blocks."""
    if not folder.exists():
        return
    for control in folder.glob("private/boxes/*/control-*"):
        signal_box(str(control), signal.SIGKILL)
    with suppress(OSError):
        for process in (folder / "private" / "outputs").iterdir():
            end_leftovers(process.name)
    for _ in range(_DELETE_ATTEMPTS):
        with suppress(OSError):
            delete_tree(folder)
            return
        time.sleep(_DELETE_PAUSE_SECONDS)  # a process that is being killed still writes
    log.warning("folder of a task not deleted", folder=str(folder))


def end_tasks(folder: Path) -> None:
    """Kill and delete what the workers that were killed have left in a folder of tasks, and the folder. Blocks."""
    if folder.is_dir():
        for task in folder.iterdir():
            end_task(task)
        shutil.rmtree(folder, ignore_errors=True)
