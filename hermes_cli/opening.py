"""Open the home, its settings and its database for a command."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from gateway import logs
from gateway.store.db.commit_counter import check_not_lost
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database, open_database
from gateway.store.db.prepare import prepare
from gateway.wiring.basics import build_backup_policy, secret_values
from hermes_config.load import load
from hermes_config.places import Home
from hermes_config.settings import Settings

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedStore:
    home: Home
    settings: Settings


def open_home(flags: Mapping[str, Any] | None = None, *, make: bool = True) -> OpenedStore:
    """Load the settings; create the home first unless `make` is False. Flags are dotted keys; warnings go to stderr."""
    home = Home.locate()
    if make:
        home.prepare()
    else:
        home.check_ours()
    loaded = load(home, flags)
    for warning in loaded.warnings:
        click.echo(f"Warning: {warning}", err=True)
    settings = loaded.settings
    # Always: structlog's own default shows local variables, and those may hold secrets.
    logs.configure(
        level="warning",
        style=settings.logs.format,
        secrets=secret_values(settings),
        to=logs.LogFile(home.log_file) if home.root.is_dir() else None,
    )
    return OpenedStore(home=home, settings=settings)


@asynccontextmanager
async def open_store(opened: OpenedStore) -> AsyncIterator[Database]:
    policy = build_backup_policy(opened.settings, opened.home.backups)
    await asyncio.to_thread(prepare, opened.home.database, policy, repair=False)
    db = await open_database(opened.home.database, busy_timeout_seconds=policy.busy_timeout_seconds)
    try:
        yield db
    finally:
        await db.close()


def with_store(opened: OpenedStore, work: Callable[[Database], Awaitable[T]]) -> T:
    async def run() -> T:
        async with open_store(opened) as db:
            return await work(db)

    return asyncio.run(run())


def read_store(opened: OpenedStore, query: Callable[[Transaction], T]) -> T | None:
    """Run one query; return None where there is no database yet, and create none."""
    check_not_lost(opened.home.database)
    return with_store(opened, lambda db: db.read(query)) if opened.home.database.exists() else None
