"""Synchronise stored jobs with those of the settings, by name. The file wins over what was changed elsewhere."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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


@dataclass(slots=True)
class SyncReport:
    changed: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


async def sync_jobs(db: Database, book: JobBook, entries: Sequence[str], changes: Changes) -> SyncReport:
    """Store the jobs of the settings, and tell the operator which were refused and which are gone from the file."""

    def unit(tx: Transaction) -> SyncReport:
        report = sync(tx, book, entries)
        for problem in report.problems:
            outbox.notify_operator(tx, problem)
        return report

    if not entries and not await db.read(cron.list_from_settings):
        return SyncReport()
    report = await db.write_when_possible(unit)
    for line in report.changed:
        log.info("job of the settings", change=line)
    for line in report.problems:
        log.warning("job of the settings", problem=line)
    changes.notify("schedule")
    return report


def sync(tx: Transaction, book: JobBook, entries: Sequence[str]) -> SyncReport:
    report = SyncReport()
    named = {str(json.loads(entry)["name"]).strip().lower(): entry for entry in entries}
    for job in cron.list_from_settings(tx):
        if job.name.lower() not in named and job.status_reason != REMOVED:
            cron.pause(tx, job.id, REMOVED)
            report.problems.append(
                f"The job {job.name!r} is paused: {REMOVED}. To delete it: hermes cron remove {job.id}"
            )
    for entry in named.values():
        _take(tx, book, entry, report)
    return report


def _take(tx: Transaction, book: JobBook, entry: str, report: SyncReport) -> None:
    data = json.loads(entry)
    name = " ".join(data["name"].split())
    known = next(
        (job for job in cron.list_jobs(tx, _FROM_SETTINGS.person_id) if job.name.lower() == name.lower()), None
    )
    if known is not None and known.source == "config" and known.definition == entry and known.status_reason != REMOVED:
        return
    try:
        wish = _read_wish(data, book.options.timezone)
        if known is None:
            job = book.create(tx, _FROM_SETTINGS, wish)
            report.changed.append(f"{name} is new")
        else:
            job = book.edit(tx, _FROM_SETTINGS, known.id, wish)
            report.changed.append(f"{name} is as in the file")
    except JobRefused as refused:
        report.problems.append(f"The job {name!r} in config.yaml was not accepted: {refused}")
        return
    if job.status_reason == REMOVED:
        job = replace(job, status="active", status_reason="")
    cron.update(tx, replace(job, source="config", definition=entry))


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
