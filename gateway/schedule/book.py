"""Make, change, pause, run and remove jobs. The tool, /cron, `hermes cron`, the settings and imports all use this, so
that the same things are refused with the same reasons.
"""

import re
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from gateway.clock import now_ms
from gateway.messages import Address, Sender, SessionKey
from gateway.policies.access import Role
from gateway.schedule.runs import RunStarter, end_open_runs, schedule_of
from gateway.schedule.targets import JobRefused, choose_target
from gateway.schedule.times import BadSchedule, Schedule, format_time, parse_schedule
from gateway.store import chats, cron
from gateway.store.chats import ChatPlace
from gateway.store.cron import Job, JobRun
from gateway.store.db.connection import Transaction
from gateway.store.people import OWNER, RoleOf
from tools.content import Text
from tools.scanner import scan

MAX_PROMPT_CHARS = 8_000
MAX_NAME_CHARS = 60
MAX_JOBS = 200  # of one person
SHOWN_TIMES = 3
REMOVED = "it was removed from config.yaml"
_FOREVER = ("", "forever", "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Whoever makes or changes a job."""

    person_id: str = OWNER
    role: Role = "owner"
    source: str = "cli"
    account: str = ""
    sender_id: str = ""
    sender_name: str = ""
    origin: Address | None = None
    sees_all: bool = False  # at the terminal: the jobs of everybody
    place: str | None = None  # the group that reads along: only jobs that report to it are shown

    @classmethod
    def of(cls, key: SessionKey, person_id: str, role: Role, sender: Sender) -> "Author":
        """Return the author of what is asked for in a chat."""
        return cls(
            person_id=person_id,
            role=role,
            source="chat",
            account=key.account_name,
            sender_id=sender.id,
            sender_name=sender.name,
            origin=Address(account=key.account_name, chat=key.chat, thread=key.thread),
            place=None if key.is_private else f"{key.account_name}:{key.chat}",
        )

    @property
    def whose(self) -> str | None:
        return None if self.sees_all else self.person_id


AT_TERMINAL = Author(sees_all=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWish:
    """The fields of a job as somebody asks for them; None where they said nothing."""

    name: str | None = None
    schedule: str | None = None
    prompt: str | None = None
    deliver: str | None = None
    timezone: str | None = None
    model: str | None = None
    toolsets: str | None = None
    skills: str | None = None
    repeat: str | None = None
    budget: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The time zone and the names that jobs may use here; `open` adds who has access."""

    timezone: str = "UTC"  # where the owner lives
    accounts: Callable[[], Collection[str]] = tuple
    models: Callable[[], Collection[str]] = tuple
    toolsets: Callable[[], Collection[str]] = tuple
    skills: Callable[[], Collection[str]] = tuple
    load_skill: Callable[[str], Text | None] = lambda name: None

    def open(self, role_of: RoleOf) -> "JobBook":
        starter = RunStarter(role_of=role_of, accounts=self.accounts(), load_skill=self.load_skill)
        return JobBook(options=self, starter=starter)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBook:
    options: JobOptions
    starter: RunStarter

    def create(self, tx: Transaction, by: Author, wish: JobWish) -> Job:
        """Make a job; raises JobRefused."""
        if by.role not in ("owner", "member"):
            raise JobRefused("Only owners and members can schedule jobs.")
        if len(cron.list_jobs(tx, by.person_id)) >= MAX_JOBS:
            raise JobRefused(f"There are {MAX_JOBS} jobs already. Remove one first.")
        if not (wish.schedule or "").strip():
            raise JobRefused("Say when: a schedule is required, such as `every day at 09:00`.")
        prompt = (wish.prompt or "").strip()
        blank = Job(
            id=secrets.token_hex(4),
            name=_find_free_name(tx, by, prompt),
            person_id=by.person_id,
            account=by.account,
            sender_id=by.sender_id,
            sender_name=by.sender_name,
            source=by.source,
            timezone=self.options.timezone,
            created_ms=now_ms(),
        )
        job = self._apply(tx, by, blank, replace(wish, prompt=prompt, deliver=wish.deliver or ""))
        cron.insert(tx, job)
        return job

    def edit(self, tx: Transaction, by: Author, name: str, wish: JobWish) -> Job:
        """Change a job; a run that is going on is not affected. Raises JobRefused."""
        job = self.find(tx, by, name)
        if job.source == "config" and by.source != "config":
            raise JobRefused(f"“{job.name}” is in config.yaml under `cron:`. Change it there, then reload the gateway.")
        changed = self._apply(tx, by, job, wish)
        cron.update(tx, changed)
        return changed

    def _apply(self, tx: Transaction, by: Author, job: Job, wish: JobWish) -> Job:
        changes: tuple[tuple[str, str | None, Callable[[str], str | int]], ...] = (
            ("name", wish.name, lambda text: _check_name(tx, job, text)),
            ("prompt", wish.prompt, check_prompt),
            ("model", wish.model, self._check_model),
            ("toolsets", wish.toolsets, lambda text: _check_names(text, "toolset", self.options.toolsets)),
            ("skills", wish.skills, lambda text: _check_names(text, "skill", self.options.skills)),
            ("repeats", wish.repeat, lambda text: _check_number(text, "repeat", "times")),
            ("budget_tokens", wish.budget, lambda text: _check_number(text, "budget", "tokens a day")),
        )
        checked: dict[str, Any] = {name: check(text) for name, text, check in changes if text is not None}
        job = replace(job, **checked)
        if wish.schedule is not None or (wish.timezone is not None and job.kind != "once"):
            job = _with_schedule(job, wish.schedule or job.schedule, wish.timezone or job.timezone)
        if wish.deliver is not None:
            target = choose_target(
                tx,
                wish.deliver,
                origin=by.origin,
                accounts=self.starter.accounts,
                is_owner=by.role == "owner",
                may_reach=lambda place: self._may_reach(tx, by, place),
            )
            job = replace(job, deliver=target.deliver, place=target.place, thread=target.thread)
        return job

    def _may_reach(self, tx: Transaction, by: Author, place: ChatPlace) -> bool:
        """Return whether somebody may send there: owners anywhere, members where they have written themselves."""
        if by.role == "owner":
            return True
        return any(
            (one.key.account_name, one.key.chat) == (place.account, place.chat)
            and self.starter.role_of(tx, one.key, one.sender_id) is not None
            for one in chats.list_spoken(tx, by.person_id)
        )

    def _check_model(self, name: str) -> str:
        known = list(self.options.models())
        if name and name not in known:
            near = get_close_matches(name, known, n=2) or known[:3]
            raise JobRefused(f"There is no model {name[:80]!r} here. Use {' or '.join(near) or 'the default'}.")
        return name

    def find(self, tx: Transaction, by: Author, name: str) -> Job:
        """Find a job by name or id; raises JobRefused with the nearest."""
        job = cron.find(tx, name.strip(), by.whose, by.place)
        if job is not None:
            return job
        known = [one.name for one in cron.list_jobs(tx, by.whose, by.place)]
        near = get_close_matches(name, known, n=2, cutoff=0.5) or known[:5]
        there = f"There are: {', '.join(near)}." if near else "There are no jobs yet."
        raise JobRefused(f"There is no job {name.strip()[:60]!r}. {there}")

    def read_history(self, tx: Transaction, by: Author, name: str, *, limit: int) -> list[tuple[JobRun, str]]:
        """Return the last runs of a job, or of all that may be shown, newest first, each with its time zone."""
        job_id = self.find(tx, by, name).id if name else ""
        zones = {job.id: job.timezone for job in cron.list_jobs(tx)}
        runs = cron.read_history(tx, job_id, person_id=by.whose, place=by.place, limit=limit)
        return [(run, zones.get(run.job_id, self.options.timezone)) for run in runs]

    def pause(self, tx: Transaction, by: Author, name: str) -> Job:
        job = self.find(tx, by, name)
        if job.status != "active":
            raise JobRefused(f"“{job.name}” is {job.status} already.")
        cron.pause(tx, job.id, "")
        return cron.get(tx, job.id) or job

    def resume(self, tx: Transaction, by: Author, name: str) -> Job:
        """Let a job run again from now on. What it missed meanwhile is not made up for."""
        job = self.find(tx, by, name)
        if job.status == "active":
            raise JobRefused(f"“{job.name}” is active already.")
        due_ms = schedule_of(job).next_after(now_ms())
        if due_ms is None or job.status == "completed":
            raise JobRefused(f"“{job.name}” has no times left. Give it a new schedule: /cron edit.")
        cron.update(tx, replace(job, status="active", status_reason="", next_ms=due_ms))
        cron.count_success(tx, job.id)
        return cron.get(tx, job.id) or job

    def remove(self, tx: Transaction, by: Author, name: str) -> Job:
        job = self.find(tx, by, name)
        if job.source == "config" and job.status_reason != REMOVED:
            raise JobRefused(f"“{job.name}” is in config.yaml under `cron:`. Take it out there, or pause it.")
        end_open_runs(tx, job, "the job was removed meanwhile")
        cron.delete(tx, job.id)
        return job

    def run(self, tx: Transaction, by: Author, name: str) -> Job:
        """Run a job now, whatever its schedule says."""
        job = self.find(tx, by, name)
        if cron.has_open_run(tx, job.id):
            raise JobRefused(f"“{job.name}” is running right now.")
        if self.starter.begin(tx, job, now_ms()) is None:
            last = cron.find_last_run(tx, job.id)
            raise JobRefused(f"“{job.name}” could not run: {last.reason if last else 'try again'}.")
        return job


def _with_schedule(job: Job, text: str, timezone: str) -> Job:
    now = now_ms()
    try:
        schedule = parse_schedule(text, timezone, now)
    except BadSchedule as bad:
        raise JobRefused(str(bad)) from bad
    return replace(
        job,
        kind=schedule.kind,
        schedule=schedule.text,
        timezone=timezone,
        anchor_ms=schedule.anchor_ms,
        status="active" if job.status == "completed" else job.status,
        next_ms=schedule.next_after(now) if job.status != "paused" or job.status_reason == REMOVED else None,
    )


def _check_name(tx: Transaction, job: Job, name: str) -> str:
    name = " ".join(name.split())
    if not name or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise JobRefused(f"A name has 1 to {MAX_NAME_CHARS} characters.")
    other = cron.find(tx, name, job.person_id)
    if other is not None and other.id != job.id:
        raise JobRefused(
            f"There is a job named “{other.name}” already ({schedule_of(other).describe()}). Choose another name, or "
            f"change that one with edit."
        )
    return name


def _find_free_name(tx: Transaction, by: Author, prompt: str) -> str:
    words = " ".join(prompt.split())[: MAX_NAME_CHARS - 4].strip() or "Job"
    taken = {one.name.lower() for one in cron.list_jobs(tx, by.person_id)}
    names = (words, *(f"{words} {number}" for number in range(2, MAX_JOBS + 3)))
    return next(name for name in names if name.lower() not in taken)


def _check_names(names: str, what: str, list_known: Callable[[], Collection[str]]) -> str:
    wanted = [name for name in re.split(r"[,+\s]+", names) if name]
    known = sorted(list_known()) if wanted else []
    for name in wanted:
        if name not in known:
            near = ", ".join(get_close_matches(name, known, n=2) or known[:8])
            raise JobRefused(f"There is no {what} {name[:80]!r}. {f'Use {near}.' if near else 'There is none.'}")
    return ",".join(wanted)


def check_prompt(prompt: str) -> str:
    """Return the prompt of a job; raises JobRefused when it is empty, too long or harmful."""
    words = prompt.strip()
    if not words:
        raise JobRefused("Say what to do: the prompt is empty.")
    if len(words) > MAX_PROMPT_CHARS:
        raise JobRefused(f"The prompt has {len(words):,} characters; the limit is {MAX_PROMPT_CHARS:,}.")
    for finding in scan(words):
        raise JobRefused(
            f"The prompt was refused because {finding.reason}: “{finding.excerpt}”. A job runs when nobody watches, so "
            "say it without that, or do it yourself in a conversation."
        )
    return words


def _check_number(text: str, what: str, unit: str) -> int:
    text = str(text).strip().lower()
    if text in _FOREVER:
        return 0
    if not text.isdecimal() or not 0 < int(text) <= 10**12:
        raise JobRefused(f"{what} is {text[:40]!r}; write a number of {unit}, or forever.")
    return int(text)


def list_next_times(job: Job, count: int = SHOWN_TIMES) -> list[str]:
    """Return the next times in words; fewer when it runs less often."""
    if job.next_ms is None:
        return []
    times: list[str] = []
    at_ms: int | None = job.next_ms
    left = min(count, job.repeats - job.runs) if job.repeats else count
    schedule: Schedule = schedule_of(job)
    while at_ms is not None and len(times) < left:
        times.append(format_time(at_ms, job.timezone))
        at_ms = schedule.next_after(at_ms)
    return times
