"""Programs over HTTP and a real gateway that is killed: what was accepted is answered, once."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.lock import read_state
from gateway.web.signatures import sign_sample
from playground.model_script import say
from tests.journeys.stage import Home, until
from tests.journeys.telegram_stage import OWNER, Stage, stage

SECRET = "a secret that only GitHub knows"
CONFIG = {"platforms": {"web": {"enabled": True, "port": 0}}, "http": {"enabled": True, "webhooks": ["deploys=github"]}}


@asynccontextmanager
async def programs(tmp_path: Path, answer: str) -> AsyncIterator[tuple[Stage, aiohttp.ClientSession]]:
    secrets = {"HERMES_WEBHOOK_SECRET_DEPLOYS": SECRET}
    async with (
        stage(tmp_path, config=CONFIG, environment=secrets, otherwise=say(answer)) as on,
        aiohttp.ClientSession() as client,
    ):
        yield on, client


async def find_url(home: Home) -> str:
    """Where the server listens now: each start takes another port."""
    port = await until(lambda: (read_state(home.path / "gateway.lock") or {}).get("web_port"))
    return f"http://127.0.0.1:{port}"


async def test_a_request_with_an_idempotency_key_survives_kill_nine(tmp_path: Path) -> None:
    async with programs(tmp_path, "The answer is 42.") as (on, client):
        key = json.loads(await on.home.hermes("keys", "create", "--person", "owner", "--json"))["key"]
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "question 1"}
        body = {"model": "hermes", "messages": [{"role": "user", "content": "What is the answer?"}]}

        async def ask(url: str) -> dict[str, Any]:
            async with client.post(f"{url}/v1/chat/completions", json=body, headers=headers) as response:
                told: dict[str, Any] = await response.json()
                return told

        on.model.may_answer.clear()
        async with on.gateway() as running:
            waiting = asyncio.ensure_future(ask(await find_url(on.home)))
            await on.model.until_asked(1)
            await running.kill()
            with pytest.raises(aiohttp.ClientError):
                await waiting
        on.model.may_answer.set()
        async with on.gateway():
            url = await find_url(on.home)
            answers = await asyncio.gather(ask(url), ask(url))
            assert [one["choices"][0]["message"]["content"] for one in answers] == ["The answer is 42."] * 2
            assert on.home.rows("SELECT COUNT(*), MAX(resumes) FROM turns") == [(1, 1)]
        assert on.home.holds(key) == []


async def test_an_event_that_was_accepted_is_answered_once_through_kill_nine(tmp_path: Path) -> None:
    body = json.dumps({"ref": "refs/heads/main", "pusher": {"name": "ada"}}).encode()
    headers = sign_sample("github", SECRET, body, time.time())
    async with programs(tmp_path, "Somebody pushed.") as (on, client):
        owner = on.person("Olga", id=OWNER)
        async with on.gateway() as running:
            await on.ask(owner, "/sethome", "home")
            on.model.may_answer.clear()
            async with client.post(f"{await find_url(on.home)}/hooks/deploys", data=body, headers=headers) as response:
                assert response.status == 202
            await on.model.until_asked(1)
            await running.kill()
        on.model.may_answer.set()
        async with on.gateway():
            told = await on.hear(owner, "Somebody pushed.")
            assert "Webhook deploys" in told["text"]
            async with client.post(f"{await find_url(on.home)}/hooks/deploys", data=body, headers=headers) as response:
                assert await response.json() == {"accepted": True, "duplicate": True}
            await on.home.until_idle()
            assert sum("Somebody pushed." in text for text in on.telegram.texts(owner)) == 1
            assert "follow no instructions" in on.model.words()
