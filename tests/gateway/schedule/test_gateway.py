"""A whole gateway with the demo model: what somebody says in a chat, what arrives, and what an operator can look up."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.daemon import run_gateway
from gateway.doctor import service
from gateway.store import cron, trace
from gateway.store.db.database import Database
from gateway.store.inspect import read_counts
from gateway.trace import GatewayState, lines
from gateway.wiring.app import Gateway
from hermes_config.places import Home
from hermes_config.platforms import PlatformsSettings
from hermes_config.settings import ModelSettings, Settings
from tests.gateway.doctor.scene import facts_of, run_check, summary_of
from tests.gateway.platforms.client import Client, connect
from tests.gateway.scene import soon

ENTRY = {"name": "Nightly", "schedule": "0 3 * * *", "prompt": "say good night", "deliver": "local"}
SETTINGS = Settings(
    platforms=PlatformsSettings.model_validate({"socket": {"enabled": True}, "web": {"enabled": False}}),
    model=ModelSettings(demo_pace_ms=0),
    cron=(json.dumps(ENTRY),),
)
RECORDING_HOOK = """
import json, pathlib
def handle(event_type, context):
    with (pathlib.Path(__file__).parent / "told").open("a") as file:
        file.write(json.dumps([event_type, context]) + "\\n")
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    place = Home(tmp_path / "home")
    place.prepare()
    hook = place.root / "hooks" / "recorder"
    hook.mkdir(parents=True, mode=0o700)
    (hook / "HOOK.yaml").write_text("events: ['cron:run']\n")
    (hook / "handler.py").write_text(RECORDING_HOOK)
    return place


@pytest.fixture
async def gateway(home: Home) -> AsyncIterator[Gateway]:
    ready: asyncio.Future[Gateway] = asyncio.get_running_loop().create_future()

    async def on_ready(made: Gateway) -> None:
        ready.set_result(made)

    task = asyncio.create_task(run_gateway(SETTINGS, home, on_ready=on_ready))
    yield await soon(ready, seconds=60)
    os.kill(os.getpid(), signal.SIGTERM)
    await soon(task, seconds=60)


async def ask(client: Client, text: str, message_id: str) -> str:
    await client.say(text, message_id=message_id)
    return str((await soon(client.hear(), seconds=60))["text"])


async def until(db: Database, is_so: object) -> None:
    async with asyncio.timeout(60):
        while not await db.read(is_so):  # type: ignore[arg-type]
            await asyncio.sleep(0.02)


async def test_a_reminder_and_all_that_can_be_known_of_it(home: Home, gateway: Gateway) -> None:
    async with connect(home.socket) as client:
        assert "Scheduled: say hi (every 5m). Next: " in await ask(client, "every 5 minutes say hi", "1")
        told = await ask(client, "what is scheduled?", "2")
        assert "- say hi: every 5m" in told
        assert "- Nightly: at 03:00 every day" in told  # this socket is the owner's
        await client.say("remind me in 1 second to breathe", message_id="3")
        heard = [(await soon(client.hear(), seconds=60))["text"] for _ in range(2)]  # in either order
        assert any("Remind me to breathe (once" in text for text in heard)
        assert "Reminder: breathe" in heard
        (run,) = await gateway.db.read(cron.read_history)
        await until(gateway.db, lambda tx: cron.get_run(tx, run.id).delivered == "yes")
        assert "Remind me to breathe, " in await ask(client, "/cron history", "4")
        assert "delivered as" in await ask(client, "/cron history", "5")
    (inbox_id,) = await gateway.db.read(lambda tx: trace.find(tx, f"cron:{run.job_id}:{run.id}"))
    shown = lines(await gateway.db.read(lambda tx: trace.read(tx, inbox_id)), 0, GatewayState())
    assert shown[0].startswith("Answered in ")
    assert "run of the job 'Remind me to breathe'" in shown[2]
    told_file = home.root / "hooks" / "recorder" / "told"
    async with asyncio.timeout(60):
        while not told_file.exists():
            await asyncio.sleep(0.02)
    ((event, context),) = [json.loads(line) for line in told_file.read_text().splitlines()]
    assert event == "cron:run"
    assert (context["job"], context["outcome"], context["platform"]) == ("Remind me to breathe", "answered", "cron")


async def test_a_job_of_the_settings_runs_by_order_and_leaves_a_file(home: Home, gateway: Gateway) -> None:
    async with connect(home.socket) as client:
        assert "config.yaml" in await ask(client, "/cron edit Nightly prompt=x", "1")
        assert "runs now" in await ask(client, "/cron run Nightly", "2")
        await until(gateway.db, lambda tx: cron.read_history(tx)[0].state == "ran")
        assert "delivered as " in await ask(client, "/cron history Nightly", "3")
        assert "is paused" in await ask(client, "/cron pause Nightly", "4")
    (file,) = home.cron.glob("*/*.md")
    assert file.read_text() == "good night"
    counts = await gateway.db.read(read_counts)
    assert (counts["jobs"], counts["failing_jobs"]) == (0, 0)
    await gateway.db.write(lambda tx: tx.execute("UPDATE cron_jobs SET failures = 3"))
    failing = await gateway.db.read(cron.list_in_trouble)
    facts = facts_of(home.root, store=summary_of(failing_jobs=tuple(failing)))
    [(level, text)] = run_check(service.check_jobs, facts)
    assert (level, text) == ("warn", "The job 'Nightly' failed 3 times in a row and is paused")
