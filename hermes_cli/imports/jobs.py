"""Read the scheduled jobs of peers, and make those that are taken over."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gateway.schedule.book import AT_TERMINAL, JobBook, JobWish, check_prompt
from gateway.schedule.targets import HOME, LOCAL, JobRefused
from gateway.schedule.times import BadSchedule, parse_schedule
from gateway.store.cron import Job
from gateway.store.db.connection import Transaction
from hermes_cli.imports.peer import as_mapping, dig, read_tree
from hermes_config.errors import ConfigError


def read_jobs(file: Path) -> list[tuple[JobWish, bool]]:
    """Return the jobs of a peer as wishes of ours, and whether each is on; raises ConfigError.

    The three peers differ in a few names alone.
    """
    listed = read_tree(file).get("jobs") or []
    if not isinstance(listed, list):
        raise ConfigError(f"{file} is damaged: `jobs` is not a list")
    return [(_read_job(one), one.get("enabled", True) is not False) for one in listed if isinstance(one, dict)]


def _read_job(job: dict[str, Any]) -> JobWish:
    schedule, payload = job.get("schedule"), as_mapping(job.get("payload"))
    prompt = str(job.get("prompt") or payload.get("message") or payload.get("text") or "")
    times, done = dig(job, "repeat", "times"), dig(job, "repeat", "completed")
    left = times - (done if isinstance(done, int) else 0) if isinstance(times, int) else 0
    return JobWish(
        name=" ".join(str(job.get("name") or prompt[:50] or job.get("id") or "job").split())[:60],
        schedule=_read_schedule(schedule),
        prompt=prompt,
        timezone=str(dig(schedule, "tz") or "") or None,
        deliver=_read_destination(job, payload) or HOME,
        skills=",".join(map(str, skills)) if isinstance(skills := job.get("skills"), list) else None,
        repeat=str(left) if left > 0 else None,
    )


def _read_schedule(schedule: object) -> str:
    if isinstance(schedule, str):
        return f"in {schedule}" if re.fullmatch(r"\d+\s*[mhd]", schedule) else schedule
    found = as_mapping(schedule)
    if expression := found.get("expr"):
        return str(expression)
    if isinstance(minutes := found.get("minutes"), int):
        return f"every {minutes}m"
    if isinstance(every_ms := found.get("everyMs"), int | float):
        return f"every {int(every_ms // 1000)}s"
    if isinstance(at_ms := found.get("atMs"), int | float):
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
    return str(found.get("at") or found.get("run_at") or "")


def _read_destination(job: dict[str, Any], payload: dict[str, Any]) -> str:
    deliver = job.get("deliver")
    if isinstance(deliver, str) and deliver not in ("", "origin"):
        return deliver
    origin = as_mapping(job.get("origin"))
    place = as_mapping(job.get("delivery")) or payload
    platform = origin.get("platform") or place.get("channel") or place.get("originChannel")
    chat = origin.get("chat_id") or place.get("to") or place.get("originChatId")
    return f"{platform}:{chat}" if platform and chat else str(platform or "")


def explain_unfit(wish: JobWish, timezone: str, now_ms: int) -> str:
    """Return why a job cannot be taken; empty when it can."""
    try:
        check_prompt(wish.prompt or "")
        parse_schedule(wish.schedule or "", wish.timezone or timezone, now_ms)
    except (BadSchedule, JobRefused) as refused:
        return str(refused)
    return ""


def create_job(tx: Transaction, book: JobBook, wish: JobWish) -> Job:
    """Make the job, with the skills that exist here. A chat that is unknown here becomes the home, or else a file."""
    author = replace(AT_TERMINAL, source="import")
    known = book.options.skills() if wish.skills else ()
    wish = replace(wish, skills=",".join(name for name in (wish.skills or "").split(",") if name in known))
    for deliver in (wish.deliver, HOME):
        try:
            return book.create(tx, author, replace(wish, deliver=deliver))
        except JobRefused:
            continue
    return book.create(tx, author, replace(wish, deliver=LOCAL))
