"""Each task of a batch works in a place of its own, of which nothing stays."""

from pathlib import Path

import pytest

from tests.tools.backends.remote.conftest import Places
from tests.tools.backends.remote.test_conformance import kinds
from tools.backends.base import BackendFailed, Command
from tools.backends.remote.places import remove_places
from tools.task_workplace import end_tasks, task_workplace

apart = kinds("local", "sandbox", "ssh", "podman", usually=("docker",))


@apart
async def test_tasks_are_apart_and_nothing_of_them_stays(places: Places, tmp_path: Path) -> None:
    for task in ("one", "two"):
        async with task_workplace(places.settings, tmp_path / "work" / task, home=places.home) as place:
            assert place.backend.name == places.kind
            assert (await place.backend.run(Command(text="ls mine 2>/dev/null; touch mine"))).output == ""
    assert await remove_places(places.settings, places.home, with_files=True) == 0


@apart
async def test_the_place_of_a_task_that_was_killed_is_not_used_again(places: Places, tmp_path: Path) -> None:
    work, settings, home = tmp_path / "work", places.settings, places.home
    killed = [task_workplace(settings, work / task, home=home) for task in ("again", "given up")]
    for context in killed:
        await (await context.__aenter__()).backend.run(Command(text="touch mine"))
    async with task_workplace(settings, work / "again", home=home) as place:
        assert (await place.backend.run(Command(text="ls mine 2>/dev/null"))).output == ""
    await end_tasks(work, settings, home=home)
    assert not work.exists()
    assert await remove_places(settings, home, with_files=True) == 0


@kinds("local", "sandbox", "docker", "podman", "singularity", "modal", "daytona", usually=("ssh",))
async def test_a_machine_that_all_tasks_would_share_is_refused(places: Places, tmp_path: Path) -> None:
    with pytest.raises(BackendFailed, match="apart"):
        await task_workplace(places.settings, tmp_path / "task", home=places.home).__aenter__()
