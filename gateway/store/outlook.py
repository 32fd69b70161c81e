"""What a change of schema would do, found out on a copy: the next start's upgrade, or a way back."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.errors import GatewayError
from gateway.store.backup import before_changes, find_damage, find_unfit, schema_of
from gateway.store.care import Care
from gateway.store.census import Lost
from gateway.store.connection import connect, errors_told
from gateway.store.mark import check_not_lost
from gateway.store.migrate import check_not_newer, migrations, schema_version
from gateway.store.upgrade import Room, oldest_reachable, one_at_a_time, rehearse, room


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    schema: int
    newest: int  # that this version knows
    problem: str  # why it could not be used or brought up to date; empty when it can
    room: Room | None  # what bringing it up to date takes; None when there is nothing to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Where a database can go back to."""

    found: int
    oldest: int
    usual: int  # where it was before its last upgrade


def look_ahead(path: Path, care: Care) -> Outlook:
    """What the next start would find and do."""
    newest = max(migrations())
    with errors_told(path):
        damage = find_damage(path, thorough=True)
    if damage:
        problem = f"{path.name} is damaged ({damage}). Start the gateway: it restores the newest sound backup."
        return Outlook(schema=0, newest=newest, problem=problem, room=None)
    with _at_rest(path, care) as connection:
        found = schema_version(connection)
        if found == newest:
            return Outlook(schema=found, newest=newest, problem="", room=None)
        try:
            check_not_newer(connection, newest)
            rehearse(connection, care, newest)
            problem = ""
        except GatewayError as error:
            problem = str(error)
        return Outlook(schema=found, newest=newest, problem=problem, room=room(connection, care.backups))


def find_reach(path: Path, care: Care) -> Reach:
    """Raises StoreTooNew when only a newer version knows the way."""
    with _at_rest(path, care) as connection:
        check_not_newer(connection, max(migrations()))
        found = schema_version(connection)
    oldest = oldest_reachable(found)
    kept = (schema_of(copy) for copy in before_changes(care.backups) if not find_unfit(copy))
    usual = next((schema for schema in kept if oldest <= schema < found), found - 1)
    return Reach(found=found, oldest=oldest, usual=usual)


def foresee_losses(path: Path, care: Care, to: int) -> list[Lost]:
    """What going back would lose. Raises UpgradeFailed when it would not work."""
    with _at_rest(path, care) as connection:
        return rehearse(connection, care, to)


@contextmanager
def _at_rest(path: Path, care: Care) -> Iterator[sqlite3.Connection]:
    """While nobody else changes the schema. Raises StoreCorrupt when the file was emptied."""
    with errors_told(path), one_at_a_time(care.backups):
        check_not_lost(path)
        connection = connect(path, busy_timeout_seconds=care.busy_timeout_seconds)
        try:
            yield connection
        finally:
            connection.close()
