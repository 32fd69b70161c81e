"""A real server on a loopback port, over a real store, with a scripted model behind it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from gateway.store.db.database import open_database
from gateway.store.db.prepare import BackupPolicy, prepare
from gateway.supervisor import keep_connected
from gateway.web.server import WebServer
from gateway.wiring.app import Gateway, build_gateway
from hermes_config.load import load
from hermes_config.places import Home

CHAT = "abcdef0123456789"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    gateway: Gateway
    server: WebServer
    client: aiohttp.ClientSession  # keeps cookies

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.access.port}"

    async def log_in(self) -> None:
        async with self.client.get(await self.server.link(), allow_redirects=False) as response:
            assert response.status == 303


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    home = Home(tmp_path / "home")
    home.prepare()
    flags = {"platforms.web.port": 0, "model.demo_pace_ms": 0, "platforms.web.max_file_bytes": 100_000}
    settings = load(home, flags).settings
    prepare(home.database, BackupPolicy(backups=home.backups), repair=True)
    db = await open_database(home.database)
    gateway = build_gateway(settings, home, db)
    assert gateway.web is not None
    try:
        async with asyncio.TaskGroup() as group, aiohttp.ClientSession(cookie_jar=_jar()) as client:
            tasks = [group.create_task(gateway.lanes.run())]
            for one in gateway.connected:
                tasks.append(group.create_task(one.delivery.run()))
                tasks.append(group.create_task(keep_connected(one.platform, one.inlet, one.status)))
            await gateway.web.attempted.wait()
            yield Site(gateway=gateway, server=gateway.web, client=client)
            for task in tasks:
                task.cancel()
    finally:
        await db.close()


def _jar() -> aiohttp.CookieJar:
    return aiohttp.CookieJar(unsafe=True)  # cookies for a bare address too, as browsers do
