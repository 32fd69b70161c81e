"""Begin and end the runs of jobs. A run is an inbox row like any other, so turns, crashes and receipts are the same.

The row of the occurrence and the inbox row are one transaction, and so are the end of the turn, the answer in the
outbox and the end of the occurrence.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import cast

import structlog

from gateway.clock import now_ms
from gateway.messages import InboundMessage, Part, Sender, SessionKey, Text
from gateway.policies.access import Role
from gateway.schedule.targets import JobRefused, find_address
from gateway.schedule.times import Schedule, ScheduleKind, format_time
from gateway.store import cron, inbox, outbox, sessions, turns
from gateway.store.cron import Job, JobRun
from gateway.store.db.connection import Transaction
from gateway.store.people import OWNER, RoleOf
from gateway.store.turns import Turn
from hermes_config.edit import replace_file
from hermes_config.places import make_private
from tools.content import text_of
from tools.provenance import HERMES

log = structlog.get_logger()

LATE_MS = 60_000  # a run that begins so much after its time says so
SILENT = "[SILENT]"
HINT = (
    "This is a run of a scheduled job. Nobody reads along and nobody can answer, so do not ask questions: do what the "
    "prompt says and answer with the result. Only your last message is delivered. If there is nothing worth telling, "
    f"answer exactly {SILENT} and nothing is sent. You cannot make or change scheduled jobs here."
)
_MISSED = "missed while Hermes was not running or the machine slept; only the latest one was run"


def schedule_of(job: Job) -> Schedule:
    kind = cast(ScheduleKind, job.kind)
    return Schedule(kind=kind, text=job.schedule, timezone=job.timezone, anchor_ms=job.anchor_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarter:
    """Begins runs with the rights that their owners have now."""

    role_of: RoleOf
    accounts: Collection[str]  # those that are switched on
    load_skill: Callable[[str], Text | None] = lambda name: None  # None when it is not there any more

    def run_due(self, tx: Transaction, limit: int = 50) -> int:
        """Begin the runs that are due; return how many jobs were due. Called again, it begins none twice."""
        jobs = cron.list_due(tx, now_ms(), limit)
        for job in jobs:
            failed = tx.attempt(partial(self._run_one, tx, job))
            if isinstance(failed, Exception):  # contained: one bad row must not hold up the others
                log.error("job not run", job=job.id, exc_info=failed)
                cron.pause(tx, job.id, "an error inside Hermes, see its log")
                outbox.notify_operator(tx, f"The job {job.name!r} is paused: an error inside Hermes, see its log.")
        return len(jobs)

    def _run_one(self, tx: Transaction, job: Job) -> None:
        now = now_ms()
        assert job.next_ms is not None
        schedule = schedule_of(job)
        due_ms, count = schedule.find_missed(job.next_ms, now)
        if count > 1:
            cron.add_run(tx, job, job.next_ms, state="skipped", reason=_MISSED, occurrences=count - 1)
        is_begun = self.begin(tx, job, due_ms) is not None
        is_last = is_begun and cron.count_begun(tx, job.id) >= job.repeats > 0
        cron.set_next(tx, job.id, None if is_last else schedule.next_after(now))

    def begin(self, tx: Transaction, job: Job, due_ms: int) -> JobRun | None:
        """Begin a run, or record why it does not begin; None when it does not."""
        role = self.find_role(tx, job)
        if role not in ("owner", "member"):
            cron.pause(tx, job.id, "its owner has no access any more")
            cron.add_run(tx, job, due_ms, state="skipped", reason="its owner has no access any more")
            return None
        if cron.has_open_run(tx, job.id):
            cron.add_run(tx, job, due_ms, state="skipped", reason="the run before it had not ended")
            return None
        try:
            address = find_address(tx, job, self.accounts)
        except JobRefused as refused:
            if cron.add_run(tx, job, due_ms, state="skipped", reason=str(refused)):
                next_ms = schedule_of(job).next_after(now_ms()) if job.status == "active" else None
                job = replace(job, next_ms=next_ms)
                text = _describe_failure(job, cron.count_failure(tx, job.id), str(refused))
                if text:  # there is no chat to tell
                    outbox.notify_operator(tx, text)
            return None
        is_late = now_ms() - due_ms > LATE_MS
        run = cron.add_run(tx, job, due_ms, state="queued", is_late=is_late, address=address)
        if run is not None:
            _put_into_inbox(tx, job, run, role, self._load_skills(job))
        return run

    def _load_skills(self, job: Job) -> list[Part]:
        names = filter(None, job.skills.split(","))
        gone = "[The skill {} of this job is not there any more. Say so in your answer.]"
        return [self.load_skill(name) or Text(text=gone.format(name), origin=HERMES) for name in names]

    def find_role(self, tx: Transaction, job: Job) -> Role | None:
        """Return the role that the owner of a job has now."""
        if not job.account:
            return "owner"
        platform, _, account = job.account.partition("@")
        key = SessionKey(platform=platform, account=account, kind="dm", chat=job.sender_id)
        return self.role_of(tx, key, job.sender_id)


def _put_into_inbox(tx: Transaction, job: Job, run: JobRun, role: Role, skills: Sequence[Part]) -> None:
    parts = [*skills, Text(text=job.prompt)]
    if run.is_late:
        due = format_time(run.due_ms, job.timezone)
        parts.insert(0, Text(text=f"[This run was due {due} and is late.]", origin=HERMES))
    if job.person_id == OWNER:  # who may never have written in a chat
        tx.insert("people", "(id) DO NOTHING", id=OWNER, name=OWNER, role="owner", created_ms=now_ms())
    session = sessions.open_current(tx, run.key, display_name=job.name)
    sessions.set_title(tx, session.id, job.name)
    chosen = {"model": job.model} if job.model else {}
    sessions.change_settings(tx, session.id, **chosen, toolsets=cron.split_toolsets(job))
    message = InboundMessage(
        key=run.key,
        message_id=f"run-{run.id}",
        sender=Sender(id=job.sender_id or OWNER, name=job.sender_name),
        parts=tuple(parts),
        sent_ms=now_ms(),
    )
    inbox_id = inbox.insert(tx, message, person_id=job.person_id, role=role)
    assert inbox_id is not None
    cron.link_inbox(tx, run, inbox_id)


def conclude(
    tx: Transaction, turn: Turn, run: JobRun, parts: Sequence[Part], *, failed: bool, file: str = "", age_limit_ms: int
) -> None:
    """Deliver the answer of a run, or tell of its failure, in the transaction that ends its turn.

    The first failure in a row is told at once, later ones are counted, and the last one that a job may have pauses it.
    """
    job = cron.get(tx, run.job_id)
    reason = " ".join(text_of(parts).split())[:500] if failed else ""
    said: list[Part] = []
    is_silent = False
    if failed and job is not None:
        text = _describe_failure(job, cron.count_failure(tx, job.id), reason)
        said = [Text(text=text)] if text else []
        if text and run.address is None:
            outbox.notify_operator(tx, text)
    elif not failed:
        is_silent = is_nothing_to_tell(parts)
        said = [] if is_silent else [*_introduce(job, run), *parts]
        if is_silent or run.address is None:
            cron.count_success(tx, run.job_id)  # otherwise when it has arrived
    address, outbox_id = run.address, None
    if said and address is not None:
        outbox_id = outbox.add(tx, address, said, topic=cron.TOPIC, turn_id=turn.id, age_limit_ms=age_limit_ms)
    cron.set_answer(
        tx, run, outbox_id=outbox_id, file="" if failed or is_silent else file, silent=is_silent, reason=reason
    )


def is_nothing_to_tell(parts: Sequence[Part]) -> bool:
    text = text_of(parts).strip()
    return text.startswith(SILENT) or text.endswith(SILENT)


def _introduce(job: Job | None, run: JobRun) -> Iterator[Part]:
    """Yield what the reader of an answer should know first."""
    if run.is_late:
        due = format_time(run.due_ms, job.timezone if job else "UTC")
        yield Text(text=f"_Late: this was due {due}, when Hermes was not running._\n")
    if job is not None and job.failures > 1:
        yield Text(text=f"_It failed {job.failures} times before this._\n")


def _describe_failure(job: Job, failure: cron.Failure, reason: str) -> str:
    if failure.is_paused:
        return (
            f"The job “{job.name}” failed {failure.count} times in a row, so I paused it. The last reason: {reason}\n"
            f'When that is fixed: /cron resume "{job.name}"'
        )
    if failure.count > 1:
        return ""
    is_over = job.next_ms is None
    then = (
        "It will not run again by itself."
        if is_over
        else f"It runs again {format_time(job.next_ms or 0, job.timezone)}."
    )
    return f'The job “{job.name}” failed: {reason}\n{then} To run it now: /cron run "{job.name}"'


def save_locally(folder: Path, run: JobRun, parts: Sequence[Part]) -> str:
    """Write the answer of a run to its file and return the path. Blocks. A second time it is the same file."""
    make_private(folder)
    make_private(folder / run.job_id)
    due = datetime.fromtimestamp(run.due_ms / 1000, UTC)
    file = folder / run.job_id / f"{due:%Y-%m-%d_%H%M}_{run.id}.md"
    replace_file(file, text_of(parts))
    return str(file)


def end_open_runs(tx: Transaction, job: Job, reason: str) -> None:
    """Stop the runs of a job that is removed: nothing of them is delivered any more."""
    for run, inbox_id in cron.list_open_runs(tx, job.id):
        cron.set_answer(tx, run, reason=reason)
        if not turns.request_stop(tx, str(run.key)) and inbox_id is not None:
            inbox.finish(tx, inbox_id, inbox.Outcome.STOPPED)
            cron.end_run(tx, run, inbox.Outcome.STOPPED)


def recover(tx: Transaction) -> None:
    """Correct the schedule after a start: end abandoned runs, and follow a clock that was set back."""
    cron.end_abandoned_runs(tx)
    now = now_ms()
    for job in cron.list_jobs(tx):
        if job.status != "active" or job.kind == "once" or job.next_ms is None:
            continue
        due_ms = tx.attempt(partial(schedule_of(job).next_after, now))  # a bad row is found when it is due
        if isinstance(due_ms, int) and due_ms < job.next_ms:
            cron.set_next(tx, job.id, due_ms)
