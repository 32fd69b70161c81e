"""Serves the `cronjob` tool: the turn that runs says who asks, and so whose jobs they are."""

from dataclasses import dataclass, field
from typing import Any, cast

from gateway.changes import Changes
from gateway.messages import Sender
from gateway.policies.access import Role, lesser
from gateway.schedule.book import AT_TERMINAL, Author, JobBook, JobWish
from gateway.schedule.targets import JobRefused
from gateway.schedule.wording import as_data, describe_run
from gateway.store import cron, inbox
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from tools.base import ToolFailed
from tools.builtin.cronjob import CronRequest

_RUNS_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentJobs:
    """Implements `tools.builtin.cronjob.JobStore`."""

    db: Database
    book: JobBook
    changes: Changes = field(default_factory=Changes)

    async def act(self, task_id: str, request: CronRequest) -> dict[str, Any]:
        try:
            if request.action in ("list", "history"):
                return await self.db.read(lambda tx: self._answer(tx, self._find_author(tx, task_id), request))
            done = await self.db.write_when_possible(
                lambda tx: self._answer(tx, self._find_author(tx, task_id), request)
            )
        except JobRefused as refused:
            raise ToolFailed(str(refused)) from refused
        self.changes.notify("schedule", "inbox")
        return done

    def _answer(self, tx: Transaction, by: Author, request: CronRequest) -> dict[str, Any]:
        name = (request.name or "").strip()
        wish = JobWish(
            name=request.name if request.action == "create" and name else None,
            schedule=request.schedule,
            prompt=request.prompt,
            deliver=request.deliver,
            timezone=request.timezone,
            model=request.model,
            skills=request.skills,
            repeat=request.repeat,
        )
        match request.action:
            case "list":
                return {"jobs": [self._describe(tx, job) for job in cron.list_jobs(tx, by.whose, by.place)]}
            case "history":
                runs = self.book.read_history(tx, by, name, limit=_RUNS_SHOWN)
                return {"runs": [f"{run.job_name}: {describe_run(run, zone)}" for run, zone in runs]}
            case "create":
                job = self.book.create(tx, by, wish)
            case "edit":
                job = self.book.edit(tx, by, name, wish)
            case "pause":
                job = self.book.pause(tx, by, name)
            case "resume":
                job = self.book.resume(tx, by, name)
            case "run":
                job = self.book.run(tx, by, name)
            case "remove":
                job = self.book.remove(tx, by, name)
                return {"removed": job.name}
        return {"done": request.action, "job": self._describe(tx, job)}

    def _describe(self, tx: Transaction, job: cron.Job) -> dict[str, Any]:
        return as_data(job, cron.find_last_run(tx, job.id))

    def _find_author(self, tx: Transaction, session_id: str) -> Author:
        _, asked = inbox.read_asking(tx, session_id)
        if not asked:
            raise ToolFailed("Nothing was changed: the turn that asked for it is over.")
        last = asked[-1]
        if last.is_at_terminal:
            return AT_TERMINAL
        if last.key.platform == cron.PLATFORM:
            raise ToolFailed("A scheduled job cannot make or change jobs.")
        if len({message.person_id for message in asked}) > 1 or not last.person_id:
            raise ToolFailed("Several people ask at once, so it is not clear whose job it would be. Ask one of them.")
        now = self.book.starter.role_of(tx, last.key, last.sender_id)
        if now is None:
            raise ToolFailed("Nothing was changed: the person who asked has no access any more.")
        sender = Sender(id=last.sender_id, name=last.sender_name)
        return Author.of(last.key, last.person_id, lesser(now, cast(Role, last.role)), sender)
