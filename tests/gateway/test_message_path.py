"""The path of a message in docs/architecture.md, held against what a real gateway calls."""

import asyncio
import dis
import re
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType

from gateway.outbound.delivery import Delivery
from gateway.store.db.backup import BackupPolicy
from gateway.store.db.database import open_database
from gateway.store.db.prepare import prepare
from gateway.supervisor import keep_connected
from gateway.wiring.app import build_gateway
from hermes_config.load import load
from hermes_config.places import Home
from tests.gateway.platforms.client import connect
from tests.gateway.scene import soon

ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
_RESUME = dis.opmap["RESUME"]
_STEP = re.compile(r"^\| \d+ \| `([\w.]+)` \|", re.MULTILINE)


def read_steps() -> list[str]:
    section = ARCHITECTURE.read_text(encoding="utf-8").split("## The path of a message", 1)[1].split("\n## ", 1)[0]
    return _STEP.findall(section)


class Calls:
    """Calls of our functions in the order in which they began, in whichever thread."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith(("gateway.", "agent_core.")) and _begins(frame):
            self.names.append(f"{module}.{frame.f_code.co_qualname}")


def _begins(frame: FrameType) -> bool:
    """Tell the beginning of a function from a coroutine that goes on: both are calls to a profiler.

    Frames are not kept to compare them: whatever their functions held would stay open.
    """
    code = frame.f_code.co_code
    return not (code[frame.f_lasti] == _RESUME and code[frame.f_lasti + 1] & 3)


@contextmanager
def tracing(calls: Calls) -> Iterator[None]:
    """Trace this thread, and those that are started meanwhile."""
    before, before_in_threads = sys.getprofile(), threading.getprofile()
    threading.setprofile(calls)
    sys.setprofile(calls)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(before_in_threads)


@asynccontextmanager
async def serving(home: Home) -> AsyncIterator[Delivery]:
    home.prepare()
    settings = load(home, {"platforms.web.enabled": False, "platforms.socket.enabled": True}).settings
    prepare(home.database, BackupPolicy(backups=home.backups), repair=True)
    db = await open_database(home.database)
    try:
        gateway = build_gateway(settings, home, db)
        [socket] = gateway.connected
        connected = asyncio.Event()
        gateway.changes.subscribe("platform", connected.set)
        async with asyncio.TaskGroup() as group:
            running = [gateway.lanes.run(), gateway.live.run(), socket.delivery.run()]
            running.append(keep_connected(socket.platform, socket.inlet, socket.status))
            tasks = [group.create_task(one) for one in running]
            await soon(connected.wait())
            yield socket.delivery
            for task in tasks:
                task.cancel()
    finally:
        await db.close()


async def test_the_documented_functions_are_called_in_the_documented_order(tmp_path: Path) -> None:
    home, calls = Home(tmp_path / "home"), Calls()
    with tracing(calls):
        async with serving(home) as delivery, connect(home.socket) as client:
            await client.say('use todo {"action": "list"}', message_id="1")
            await client.hear()
            await soon(delivery.flush())
    steps = read_steps()
    assert 8 <= len(steps) <= 12
    log = iter(calls.names)
    missing = next((step for step in steps if step not in log), None)  # `in` reads on to the first such call
    assert missing is None, f"{missing} is not called after the steps before it"
