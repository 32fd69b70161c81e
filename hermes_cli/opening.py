"""Open the home, its settings and its database for a command."""

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from gateway.lock import read_state
from gateway.store import approvals
from gateway.store.db.connection import Transaction
from gateway.store.inspect import has_older_schema, peek
from gateway.wiring.basics import build_backup_policy, build_redactor, secret_values
from hermes_config.load import load
from hermes_config.places import Home
from hermes_config.redaction import Redactor
from hermes_config.settings import Settings
from tools.ansi import plain

if TYPE_CHECKING:  # imported where it is used: a command that only reads needs none of it
    from gateway.store.db.database import Database

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedStore:
    home: Home
    settings: Settings

    @property
    def redactor(self) -> Redactor:
        """Return a redactor for what is printed: it may be kept or passed on."""
        return build_redactor(self.settings)

    def configure_logs(self, secrets: Sequence[str] = ()) -> None:
        """Make log lines safe: structlog's own default shows local variables, and those may hold secrets."""
        from gateway import logs

        logs.configure(
            level="warning",
            style=self.settings.logs.format,
            secrets=[*secret_values(self.settings), *secrets],
            to=logs.LogFile(self.home.log_file) if self.home.root.is_dir() else None,
        )

    def print_text(self, text: str) -> None:
        """Print text that may come from outside: without secrets, and without what a terminal would obey."""
        click.echo(self.redactor.clean(plain(text)))

    def print_json(self, facts: object) -> None:
        click.echo(json.dumps(self.redactor.clean_all(facts), ensure_ascii=False, indent=2))

    def print_list(
        self,
        found: Sequence[T],
        *,
        as_json: bool,
        data: Callable[[T], object],
        line: Callable[[T], str],
        nothing: str,
    ) -> None:
        """Print JSON for scripts, or some text for each row; `nothing` when there is none."""
        if as_json:
            self.print_json([data(one) for one in found])
            return
        redactor = self.redactor
        for one in found:
            click.echo(redactor.clean(plain(line(one))))
        if not found:
            click.echo(nothing)


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
    opened = OpenedStore(home=home, settings=loaded.settings)
    if "structlog" in sys.modules:  # a command that only reads need not load it
        opened.configure_logs()
    return opened


@asynccontextmanager
async def open_store(opened: OpenedStore) -> "AsyncIterator[Database]":
    import asyncio

    from gateway.store.db.database import open_database

    opened.configure_logs()
    await asyncio.to_thread(_prepare, opened)
    busy_timeout_seconds = opened.settings.store.busy_timeout_seconds
    db = await open_database(opened.home.database, busy_timeout_seconds=busy_timeout_seconds)
    try:
        await db.write(approvals.sign_old_rows)
        yield db
    finally:
        await db.close()


def with_store(opened: OpenedStore, work: "Callable[[Database], Awaitable[T]]") -> T:
    import asyncio

    async def run() -> T:
        async with open_store(opened) as db:
            return await work(db)

    return asyncio.run(run())


def write_store(opened: OpenedStore, unit: Callable[[Transaction], T]) -> T:
    return with_store(opened, lambda db: db.write(unit))


def read_store(opened: OpenedStore, query: Callable[[Transaction], T]) -> T | None:
    """Run one query; return None where there is no database yet, and create none."""
    if has_older_schema(opened.home.database):
        _prepare(opened)
    return peek(opened.home.database, query, None)


def _prepare(opened: OpenedStore) -> None:
    from gateway.store.db.prepare import prepare

    prepare(opened.home.database, build_backup_policy(opened.settings, opened.home.backups), repair=False)


def refuse_agent(instead: str) -> None:
    """Refuse a change that a command of the agent asks for: its tools ask a human first, a command would not.

    Where there is no /proc, nobody can tell, and the owner's own commands must work.
    """
    from tools.backends.ancestry import is_our_command

    state = read_state(Home.locate().lock_file) or {}
    if Path("/proc/self").exists() and is_our_command(os.getpid(), gateway_pid=state.get("pid", 0)):
        raise click.ClickException(f"The agent cannot change this by a command. Nothing was changed; {instead}.")


def confirm(question: str, *, yes: bool, command: str) -> None:
    """Ask at the terminal before something is changed; without one, name the command that does not ask."""
    if not yes and not is_terminal():
        raise click.UsageError(f"Nothing was changed: there is no terminal to ask you at. If you mean it: {command}")
    if not yes:
        click.confirm(question, abort=True)


def create_file(path: Path) -> BinaryIO:
    """Create a file that only its owner can read. Raises ClickException when it exists or cannot be made."""
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except FileExistsError:
        raise click.ClickException(f"{path} exists already. Name another file.") from None
    except OSError as error:
        raise click.ClickException(f"{path} could not be written: {error.strerror}.") from error


def is_terminal() -> bool:
    return sys.stdin.isatty()
