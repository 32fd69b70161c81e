"""Synchronise stored jobs with those of the settings, by name. The file wins over what was changed elsewhere."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import structlog

from gateway.changes import Changes
from gateway.schedule.book import REMOVED, Author, JobBook, JobWish
from gateway.schedule.targets import HOME, JobRefused
from gateway.store import cron, outbox
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database

log = structlog.get_logger()

_FROM_SETTINGS = Author(source="config")


async def sync_jobs(db: Database, book: JobBook, entries: Sequence[str], changes: Changes) -> list[str]:
    """Store the jobs of the settings; return which were refused and which are gone, as the operator is told."""
    if not entries and not await db.read(cron.list_from_settings):
        return []
    problems = await db.write_when_possible(lambda tx: _sync(tx, book, entries))
    for problem in problems:
        log.warning("job of the settings", problem=problem)
    changes.notify("schedule")
    return problems


def _sync(tx: Transaction, book: JobBook, entries: Sequence[str]) -> list[str]:
    problems: list[str] = []
    named = {str(json.loads(entry)["name"]).strip().lower(): entry for entry in entries}
    for job in cron.list_from_settings(tx):
        if job.name.lower() not in named and job.status_reason != REMOVED:
            cron.pause(tx, job.id, REMOVED)
            problems.append(f"The job {job.name!r} is paused: {REMOVED}. To delete it: hermes cron remove {job.id}")
    for entry in named.values():
        try:
            _store(tx, book, entry)
        except JobRefused as refused:
            name = json.loads(entry)["name"]
            problems.append(f"The job {name!r} in config.yaml was not accepted: {refused}")
    for problem in problems:
        outbox.notify_operator(tx, problem)
    return problems


def _store(tx: Transaction, book: JobBook, entry: str) -> None:
    """Make or change the job of an entry, unless it is as in the file already. Raises JobRefused."""
    wish = _read_wish(json.loads(entry), book.options.timezone)
    name = " ".join(str(wish.name).split()).lower()
    known = next((job for job in cron.list_jobs(tx, _FROM_SETTINGS.person_id) if job.name.lower() == name), None)
    if known is not None and known.source == "config" and known.definition == entry and known.status_reason != REMOVED:
        return
    job = book.edit(tx, _FROM_SETTINGS, known.id, wish) if known else book.create(tx, _FROM_SETTINGS, wish)
    if job.status_reason == REMOVED:
        job = replace(job, status="active", status_reason="")
    cron.update(tx, replace(job, source="config", definition=entry))
    log.info("job of the settings", name=job.name, new=known is None)


def _read_wish(data: dict[str, Any], timezone: str) -> JobWish:
    return JobWish(
        name=data["name"],
        schedule=data["schedule"],
        prompt=data["prompt"],
        deliver=_join(data.get("deliver") or HOME),  # never to files by itself: nobody is there to be told
        timezone=_join(data.get("timezone") or timezone),
        model=_join(data.get("model") or ""),
        toolsets=_join(data.get("toolsets") or ""),
        skills=_join(data.get("skills") or ""),
        repeat=_join(data.get("repeat") or ""),
        budget=_join(data.get("budget") or ""),
    )


def _join(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
