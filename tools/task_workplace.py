"""A workplace for one task of a batch or one rollout: a folder, and a sandbox or container, of which nothing stays."""

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
from tools.backends.base import BackendFailed, Workplace
from tools.backends.box import signal_box
from tools.backends.remote.calls import PlaceFailed
from tools.backends.remote.places import REMOTE, build_place
from tools.backends.usage import delete_tree
from tools.workplaces import build_workplace, local_workplace, runs_boxed

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

NOT_APART = "Prompts of a batch work apart from each other, which a machine behind ssh does not offer."
_DELETE_ATTEMPTS = 40
_DELETE_PAUSE_SECONDS = 0.05


async def open_task(settings: TerminalSettings, folder: Path, *, home: Home) -> Workplace:
    """Make a workplace in a folder; `end_task` ends it.

    In a sandbox, container or cloud with what people get who are no owners, unless the settings say `local`, or no
    sandbox can be made here and they leave the choice. Raises BackendFailed.
    """
    if settings.backend == "ssh":
        raise BackendFailed(NOT_APART)
    workspace, private = folder / "workspace", folder / "private"
    make_private(workspace)
    make_private(private)
    if settings.backend in REMOTE or await asyncio.to_thread(runs_boxed, settings):
        kind = settings.backend if settings.backend in REMOTE else "sandbox"
        return build_workplace(
            settings.model_copy(update={"members_backend": kind}),
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
    await end_task(folder, settings, home=home)  # left by a worker that was killed
    place = await open_task(settings, folder, home=home)
    try:
        yield place
    finally:
        await asyncio.shield(end_task(folder, settings, home=home))
        await place.backend.close()


async def end_task(folder: Path, settings: TerminalSettings, *, home: Home) -> None:
    """Kill what runs in the place of a task, also of one whose process was killed, and delete its files."""
    if settings.backend in REMOTE and await asyncio.to_thread(folder.exists):
        place = build_place(settings, settings.backend, home, folder / "private", is_owner=False)
        try:
            await place.remove(with_files=True)
        except PlaceFailed as error:
            log.warning("place of a task not removed", place=place.name, problem=str(error))
    await asyncio.to_thread(end_task_here, folder)


async def end_tasks(folder: Path, settings: TerminalSettings, *, home: Home) -> None:
    """Kill and delete what the workers that were killed have left in a folder of tasks, and the folder."""
    for task in await asyncio.to_thread(lambda: list(folder.glob("*"))):
        await end_task(task, settings, home=home)
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def end_task_here(folder: Path) -> None:
    """Kill what runs on this machine for the task of a folder, and delete that. Blocks."""
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
