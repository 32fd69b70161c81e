"""`/metrics`: each line is well formed, each step is counted once, and nothing in it comes from people."""

import asyncio
import re

from gateway.store import trail
from gateway.store.db.connection import Transaction
from gateway.store.trail import TrailEvent
from gateway.web.metrics import CONTENT_TYPE
from tests.gateway.web.conftest import Site
from tests.hermes_cli.running import ROOT

LINE = re.compile(r'(hermes_[a-z_]+)(?:\{([a-z]+)="([^"\n]*)"\})? (\d+(?:\.\d+)?)')


async def scrape(site: Site) -> dict[tuple[str, str], float]:
    async with site.client.get(f"{site.url}/metrics") as response:
        assert (response.status, response.headers["Content-Type"]) == (200, CONTENT_TYPE)
        lines = (await response.text()).splitlines()
    found = [LINE.fullmatch(line) for line in lines if not line.startswith("#")]
    assert all(found)
    values = {(match[1], match[3] or ""): float(match[4]) for match in found if match}
    assert len(values) == len(found)
    assert {name for name, _ in values} <= {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    return values


def write_steps(tx: Transaction) -> None:
    trail.record(tx, TrailEvent.ACCEPTED, inbox_id=1, session="a secret name")
    trail.record_refusal(tx, account="telegram", chat="1", sender_id="9", reason="a stranger's words")
    for call, error in (("1", False), ("2", True), ("3", True)):
        trail.record(tx, TrailEvent.TOOL_FINISHED, turn_id="t", tool='a "made-up" tool', call=call, error=error, ms=1)
    trail.record(tx, TrailEvent.MODEL_REPLIED, turn_id="t", ms=5, input_tokens=100, output_tokens=7)
    trail.record(tx, TrailEvent.MODEL_REPLIED, turn_id="t", ms=5)  # of a server that does not count
    for inbox_id in (1, 2):  # one turn answers two messages
        trail.record(tx, TrailEvent.ANSWERED, inbox_id=inbox_id, turn_id="t")
    trail.record(tx, TrailEvent.ANSWERED, inbox_id=3, outbox_id=8)  # a command
    trail.record(tx, TrailEvent.FAILED, inbox_id=4, turn_id="u", problem="ModelError")
    trail.record(tx, TrailEvent.FAILED, outbox_id=5, turn_id="t", problem="blocked")
    trail.record(tx, TrailEvent.SENT, outbox_id=6, turn_id="t", receipt="77")


EXPECTED = {
    ("hermes_messages_total", "accepted"): 1,
    ("hermes_messages_total", "answered"): 3,
    ("hermes_messages_total", "refused"): 1,
    ("hermes_turns_total", "answered"): 1,
    ("hermes_turns_total", "failed"): 1,
    ("hermes_turns_total", "stopped"): 0,
    ("hermes_model_calls_total", ""): 2,
    ("hermes_tokens_total", "input"): 100,
    ("hermes_tokens_total", "output"): 7,
    ("hermes_tool_calls_total", "ok"): 1,
    ("hermes_tool_calls_total", "error"): 2,
    ("hermes_deliveries_total", "sent"): 1,
    ("hermes_deliveries_total", "failed"): 1,
}


async def test_each_step_is_counted_once(site: Site) -> None:
    before = await scrape(site)
    await site.gateway.db.write(write_steps)
    for _ in range(2):
        both = await asyncio.gather(scrape(site), scrape(site))
        for after in both:
            assert {name: after[name] - before[name] for name in EXPECTED} == EXPECTED
    assert after["hermes_store_bytes", ""] > 0
    assert after["hermes_start_time_seconds", ""] == before["hermes_start_time_seconds", ""]
    assert ("hermes_platform_connected", "web") in after


async def test_nothing_that_people_or_models_wrote_is_in_it(site: Site) -> None:
    await site.gateway.db.write(write_steps)
    async with site.client.get(f"{site.url}/metrics") as response:
        text = await response.text()
    for word in ("secret", "stranger", "made-up", "ModelError", "blocked"):
        assert word not in text


async def test_every_name_and_value_is_documented(site: Site) -> None:
    documented = (ROOT / "docs" / "metrics.md").read_text()
    rows = {line.split("`")[1]: line for line in documented.splitlines() if line.startswith("| `hermes_")}
    scraped = await scrape(site)
    assert {name for name, _ in scraped} <= set(rows)
    for name, value in scraped:
        assert "`account`" in rows[name] or value in rows[name]
