"""The table of process trees: however a command in the background has spread, nothing of it is left by a kill."""

from pathlib import Path

import pytest

from tests.tools.backends.watching import inherited, is_there, nap, until
from tests.tools.places import KINDS, place_in
from tools.backends.base import Command

SPREAD = {
    "a pipeline": "{nap} | cat | cat",
    "(x &)": "({nap} &)",
    "nohup": "nohup {nap} >/dev/null 2>&1 &",
    "setsid": "setsid {nap} &",
    "forked twice": "(setsid sh -c '({nap} &) ; exit 0' &)",
    "deaf to TERM": "(trap '' TERM; setsid {nap}) &",
    "a program with a terminal": "python3 -ic 'import os; os.system(\"{nap}\")'",
}


@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_is_left_of_one_in_the_background_that_is_killed(tmp_path: Path, kind: str, spread: str) -> None:
    backend, left = place_in(tmp_path, kind).backend, nap()
    text = f"{SPREAD[spread].format(nap=left)}\n{nap()}"
    handle = await backend.spawn(Command(text=text, interactive=True, pty="terminal" in spread))
    await until(lambda: is_there(left))
    assert inherited(handle.id)
    await backend.kill(handle)
    assert inherited(handle.id) == []
    assert not is_there(left)
    assert not (await backend.statuses([handle]))[handle.id].is_running
