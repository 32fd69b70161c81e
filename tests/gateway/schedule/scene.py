"""A clock that tests set, jobs as people make them, and a small gateway that runs them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from agent_core.conversation import Message, assistant
from agent_core.events import Emit, Usage
from agent_core.model import ModelError
from gateway import clock
from gateway.clock import ProcessClock
from gateway.messages import Address, SessionKey
from gateway.policies.access import Role
from gateway.schedule.book import Author, JobBook, JobOptions, JobWish
from gateway.schedule.scheduler import Scheduler
from gateway.store import cron
from gateway.store.cron import Job, JobRun
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from tests.gateway.scene import ACCOUNT, Small, make_small
from tools.base import Tool
from tools.content import Text
from tools.provenance import SKILL

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
START = 1_798_761_600_000  # 2027-01-01 00:00 UTC

ADA = Author(
    person_id="ada",
    role="owner",
    source="chat",
    account=ACCOUNT,
    sender_id="42",
    sender_name="Ada",
    origin=Address(account=ACCOUNT, chat="home"),
)
BEN = replace(
    ADA, person_id="ben", role="member", sender_id="7", sender_name="Ben", origin=Address(account=ACCOUNT, chat="bens")
)


SKILLS: dict[str, Text] = {"plants": Text(text="Skill plants: water them.", origin=SKILL)}


class FakeClock:
    """Wall time that only tests move."""

    def __init__(self, at_ms: int = START) -> None:
        self.ms = at_ms

    def install(self, monkeypatch: pytest.MonkeyPatch) -> "FakeClock":
        made = ProcessClock(wall_ns=lambda: self.ms * 1_000_000, monotonic_ns=lambda: self.ms * 1_000_000)
        monkeypatch.setattr(clock, "_process_clock", made)
        return self


def serve(roles: dict[str, Role | None]) -> Any:
    def role_of(tx: Transaction, key: SessionKey, user_id: str) -> Role | None:
        return roles.get(user_id)

    return role_of


def make_book(roles: dict[str, Role | None] | None = None, *, timezone: str = "UTC") -> JobBook:
    options = JobOptions(
        timezone=timezone,
        accounts=lambda: (ACCOUNT, "other"),
        models=lambda: ("demo", "openai/gpt-5"),
        toolsets=lambda: ("core", "clock", "todo"),
        skills=SKILLS.keys,
        load_skill=SKILLS.get,
    )
    return options.open(serve(roles or {"42": "owner", "7": "member", "9": "guest"}))


class MoodyModel:
    """Answers with the prompt, as the test says, or not at all."""

    name = "moody"

    def __init__(self) -> None:
        self.fails = ""
        self.answer = ""
        self.asked: list[str] = []
        self.tools: list[str] = []
        self.prompt = ""
        self.gate: asyncio.Event | None = None
        self.begun = asyncio.Event()

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        self.asked.append(messages[-1].text)
        self.tools = [tool.name for tool in tools]
        self.begun.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.fails:
            raise ModelError(self.fails)
        emit(Usage(input_tokens=10, output_tokens=1))
        return assistant(self.answer or f"done: {messages[-1].text}")


@dataclass(frozen=True, kw_only=True)
class Stage:
    small: Small
    book: JobBook
    scheduler: Scheduler
    model: MoodyModel
    clock: FakeClock

    async def make(self, by: Author = ADA, **wish: str) -> Job:
        wish = {"schedule": "every 1h", "prompt": "check the oven", **wish}

        def unit(tx: Transaction) -> Job:
            tx.insert("people", "(id) DO NOTHING", id=by.person_id, name=by.sender_name, role=by.role, created_ms=0)
            return self.book.create(tx, by, JobWish(**wish))

        return await self.small.db.write(unit)

    async def pass_time(self, ms: int) -> None:
        """Let time pass, and the scheduler look as it would."""
        self.clock.ms += ms
        await self.scheduler.look()

    async def runs(self, job: Job) -> list[JobRun]:
        """Return the runs of a job, oldest first, once none is going on."""
        async with asyncio.timeout(60):
            while await self.small.db.read(lambda tx: cron.has_open_run(tx, job.id)):
                await asyncio.sleep(0.01)
        return (await self.small.db.read(lambda tx: cron.read_history(tx, job.id, limit=500)))[::-1]

    async def delivered(self, job: Job) -> list[JobRun]:
        """Return the runs of a job, oldest first, once nothing of them is on its way."""
        async with asyncio.timeout(60):
            while any(run.delivered == "pending" for run in await self.runs(job)):
                await asyncio.sleep(0.01)
        return await self.runs(job)

    async def job(self, job: Job) -> Job:
        found = await self.small.db.read(lambda tx: cron.get(tx, job.id))
        assert found is not None
        return found


def make_stage(db: Database, monkeypatch: pytest.MonkeyPatch, roles: dict[str, Role | None] | None = None) -> Stage:
    fake = FakeClock().install(monkeypatch)
    model = MoodyModel()
    small = make_small(db, model)
    book = make_book(roles)
    scheduler = Scheduler(db=db, starter=book.starter, changes=small.changes)
    return Stage(small=small, book=book, scheduler=scheduler, model=model, clock=fake)
