"""A real server with the endpoints for programs, and what the tests of both need."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from openai import AsyncOpenAI

from gateway.messages import Text
from gateway.platforms.web import WebPlatform
from gateway.policies.access import Role
from gateway.store import api_keys
from gateway.store.db.connection import Transaction
from gateway.store.db.database import open_database
from gateway.store.db.prepare import BackupPolicy, prepare
from gateway.supervisor import keep_connected
from gateway.wiring.app import Gateway, build_gateway
from hermes_config.load import load
from hermes_config.places import Home

OWNERS_CHAT = "abcdef0123456789"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSite:
    gateway: Gateway
    client: aiohttp.ClientSession
    home: Home

    @property
    def url(self) -> str:
        assert self.gateway.web is not None
        return f"http://127.0.0.1:{self.gateway.web.access.port}"

    async def make_key(self, who: str = "owner", *, role: Role | None = None) -> str:
        """Return a key for the owner, or for a new person of this role."""

        def unit(tx: Transaction) -> str:
            person = api_keys.add_person(tx, who, role) if role else str(api_keys.find_people(tx, who)[0]["id"])
            return api_keys.create(tx, person)[1]

        return await self.gateway.db.write(unit)

    def openai(self, key: str, **options: Any) -> AsyncOpenAI:
        return AsyncOpenAI(base_url=f"{self.url}/v1", api_key=key, **{"max_retries": 0, "timeout": 60, **options})

    async def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.gateway.db.read(lambda tx: tx.all(query, *values))]

    async def write_as_owner(self, text: str = "hello") -> None:
        """Let the owner be known in a chat of the page."""
        platform = next(one.platform for one in self.gateway.connected if one.platform.account == "web")
        assert isinstance(platform, WebPlatform)
        await platform.accept(f"owner-{text}", OWNERS_CHAT, [Text(text=text)])

    async def until(self, query: str, *values: Any, seconds: float = 60) -> list[tuple[Any, ...]]:
        async with asyncio.timeout(seconds):
            while not (found := await self.rows(query, *values)):
                await asyncio.sleep(0.02)
            return found


@asynccontextmanager
async def serve_api(tmp_path: Path, **flags: Any) -> AsyncIterator[ApiSite]:
    """Serve with these settings; `__` stands for a dot in their names."""
    home = Home(tmp_path / "home")
    home.prepare()
    chosen = {"platforms.web.port": 0, "model.demo_pace_ms": 0, "http.enabled": True, "http.requests_per_minute": 0}
    settings = load(home, chosen | {name.replace("__", "."): value for name, value in flags.items()}).settings
    prepare(home.database, BackupPolicy(backups=home.backups), repair=True)
    db = await open_database(home.database)
    gateway = build_gateway(settings, home, db)
    assert gateway.web is not None
    try:
        async with asyncio.TaskGroup() as group, aiohttp.ClientSession() as client:
            tasks = [group.create_task(one) for one in (gateway.lanes.run(), gateway.approvals.run())]
            for one in gateway.connected:
                tasks.append(group.create_task(one.delivery.run()))
                tasks.append(group.create_task(keep_connected(one.platform, one.inlet, one.status)))
            await gateway.web.attempted.wait()
            for one in gateway.connected:
                while not one.status.is_connected:
                    await asyncio.sleep(0.01)
            yield ApiSite(gateway=gateway, client=client, home=home)
            for task in tasks:
                task.cancel()
    finally:
        await gateway.model.aclose()
        await db.close()
