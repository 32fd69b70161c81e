"""The operator's page: its facts, its buttons, and requests that make no sense."""

import asyncio
from typing import Any

import pytest
import structlog

from gateway import logs
from gateway.messages import InboundMessage, Sender, SessionKey, Text
from gateway.policies.pairing import PairingLimits
from gateway.schedule.book import AT_TERMINAL, JobOptions, JobWish
from gateway.store import cron, members, pairing, processes
from gateway.store.db.connection import Transaction
from tests.gateway.web.conftest import Site
from tools.backends.base import ProcessHandle
from tools.process_book import Process


def _ask(tx: Transaction, limits: PairingLimits, user: str) -> bool:
    key = SessionKey(platform="telegram", kind="dm", chat=user, user=user)
    sender = Sender(id=user, name="Ada")
    said = InboundMessage(key=key, message_id="1", kind="message", sender=sender, parts=(Text(text="hi"),), sent_ms=1)
    return pairing.ask(tx, said, limits)


async def _get(site: Site, path: str) -> Any:
    async with site.client.get(f"{site.url}{path}") as response:
        assert response.status == 200, await response.text()
        return await response.json()


@pytest.mark.parametrize(("role", "admitted"), [(None, 0), ("member", 1), ("owner", 1)])
async def test_a_stranger_is_let_in_or_refused(site: Site, role: str | None, admitted: int) -> None:
    await site.log_in()
    db, limits = site.gateway.db, site.server.overview.limits
    await db.write(lambda tx: _ask(tx, limits, "4711"))
    waiting = (await _get(site, "/api/overview"))["pairing"]["pending"]
    assert [(one["account"], one["user_id"], one["name"]) for one in waiting] == [("telegram", "4711", "Ada")]
    for _ in range(2):  # the second time nobody waits any more
        body = {"account": "telegram", "user_id": "4711", "role": role}
        async with site.client.post(f"{site.url}/api/overview/pairing", json=body) as response:
            assert response.status == 200
        assert (await _get(site, "/api/overview"))["pairing"]["pending"] == []
        people, _ = await db.read(members.list_people)
        assert [one.role for one in people] == [role] * admitted
        welcomes = await db.read(lambda tx: tx.count("SELECT COUNT(*) FROM outbox WHERE account = 'telegram'"))
        assert welcomes == 1 + admitted  # the first told the code


@pytest.mark.parametrize("body", [b"", b"[]", b'{"account": "x"}', b'{"account": "x", "user_id": "1", "role": "king"}'])
async def test_a_decision_that_makes_no_sense_is_refused(site: Site, body: bytes) -> None:
    await site.log_in()
    async with site.client.post(f"{site.url}/api/overview/pairing", data=body) as response:
        assert response.status == 400


async def test_messages_usage_and_conversations_are_told(site: Site) -> None:
    await site.log_in()
    async with site.client.ws_connect(f"{site.url}/ws", origin=site.url) as socket:
        await socket.send_json({"type": "send", "chat": "abcdef0123456789", "id": "m1", "text": "what is 6 * 7?"})
        async with asyncio.timeout(60):
            while (
                "Answered" not in str((facts := await _get(site, "/api/overview"))["messages"])
                or not facts["usage"]["model"]
            ):
                await asyncio.sleep(0.05)
    [message] = facts["messages"]
    assert facts["usage"]["model"][0]["name"] == "demo"
    assert facts["gateway"]["platforms"]["web"]["state"] == "connected"
    lines = (await _get(site, f"/api/overview/messages/{message['id']}"))["lines"]
    assert any("model" in line for line in lines)
    [found] = (await _get(site, "/api/overview/sessions"))["sessions"]
    assert found["title"] == "what is 6 * 7?"
    assert (await _get(site, "/api/overview/sessions?query=what"))["sessions"][0]["id"] == found["id"]
    told = await _get(site, f"/api/overview/sessions/{found['id']}")
    assert [entry["role"] for entry in told["entries"]] == ["user", "assistant"]
    for path in ("messages/0", "messages/x", f"messages/{'9' * 30}", "sessions/none", "processes/none"):
        async with site.client.get(f"{site.url}/api/overview/{path}") as response:
            assert response.status == 404


async def test_jobs_are_listed_with_their_next_time_and_last_run(site: Site) -> None:
    def make(tx: Transaction) -> None:
        wish = JobWish(name="Daily", schedule="every day at 09:00", prompt="Summarise the news")
        job = JobOptions().open(lambda *_: "owner").create(tx, AT_TERMINAL, wish)
        cron.add_run(tx, job, 60_000, state="failed", reason="the model is down")

    await site.log_in()
    await site.server.db.write(make)
    [job] = (await _get(site, "/api/overview"))["jobs"]
    assert (job["name"], job["meaning"]) == ("Daily", "at 09:00 every day (UTC)")
    assert "09:00" in job["next"][0]
    assert job["last"] == "failed (the model is down)"


async def test_secrets_are_hidden_and_the_log_and_the_doctor_are_shown(site: Site) -> None:
    await site.log_in()
    site.server.overview.clean = lambda text: text.replace("s3cret", "[hidden]")
    logs.RECENT.append("a line with s3cret")
    assert (await _get(site, "/api/overview/logs"))["lines"][-1] == "a line with [hidden]"

    async def diagnose() -> list[dict[str, str]]:
        return [{"level": "bad", "part": "x", "text": "s3cret", "fix": ""}]

    site.server.overview.diagnose = diagnose
    assert (await _get(site, "/api/overview/doctor"))["findings"][0]["text"] == "[hidden]"


def test_lines_of_the_log_are_kept() -> None:
    logs.configure(level="info", style="json", secrets=["hunter22"])
    structlog.get_logger().warning("odd thing", session="s1", token="hunter22")
    assert "warning: odd thing session=s1" in logs.RECENT[-1]
    assert "hunter22" not in logs.RECENT[-1]


async def test_a_process_can_be_ended(site: Site) -> None:
    await site.log_in()
    handle = ProcessHandle(id="proc_1", backend="local", data={})
    process = Process(handle=handle, holder="x", task_id="t", command="sleep 9", workdir="/", started_ms=1)
    await site.gateway.db.write(lambda tx: processes.add(tx, process))
    [told] = (await _get(site, "/api/overview"))["processes"]
    assert (told["id"], told["command"], told["ended_ms"]) == ("proc_1", "sleep 9", None)
    for status, process_id in ((404, "proc_2"), (200, "proc_1")):
        async with site.client.delete(f"{site.url}/api/overview/processes/{process_id}") as response:
            assert response.status == status
    assert await site.gateway.db.read(lambda tx: tx.count("SELECT end_requested FROM processes")) == 1
