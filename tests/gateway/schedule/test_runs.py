"""Jobs from their schedule to the receipt: what the owner reads when all goes well, and when it does not."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.errors import DeliveryRejected
from gateway.messages import InboundMessage, OutboundMessage, Sender, SessionKey, Text
from gateway.policies.budgets import Amount, Budgets
from gateway.schedule.book import AT_TERMINAL, JobWish
from gateway.schedule.runs import recover
from gateway.schedule.targets import JobRefused
from gateway.schedule.times import format_time
from gateway.store import chats, cron, inbox, memories, outbox, sessions, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.turns.metering import Meter
from gateway.turns.recall import find_reader
from tests.gateway.scene import ACCOUNT, make_responder, make_small, rows, running, soon
from tests.gateway.schedule.scene import ADA, BEN, DAY, HOUR, MINUTE, SKILLS, START, MoodyModel, Stage, make_stage
from tools.builtin.cronjob import NO_JOBS, cronjob_tool


@pytest.fixture
async def stage(db: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    made = make_stage(db, monkeypatch)
    async with running(made.small):
        yield made


async def test_an_answer_arrives_once_with_the_platforms_id(stage: Stage) -> None:
    job = await stage.make(name="Oven")
    await stage.pass_time(HOUR - 1)
    assert await stage.runs(job) == []
    await stage.pass_time(1)
    assert await stage.small.answer() == "done: check the oven"
    (run,) = await stage.delivered(job)
    assert (run.state, run.delivered, run.receipt, run.due_ms) == ("ran", "yes", "receipt 1", START + HOUR)
    await stage.pass_time(0)
    await stage.pass_time(HOUR)
    assert [run.due_ms for run in await stage.delivered(job)] == [START + HOUR, START + 2 * HOUR]
    assert stage.small.platform.texts == ["done: check the oven"] * 2
    sent = stage.small.platform.sent[0]
    assert (sent.address.chat, sent.answers, sent.notify) == ("home", (), True)


async def test_each_run_is_a_fresh_session_of_its_owner_that_ends_with_it(stage: Stage) -> None:
    job = await stage.make(BEN, name="Oven", model="openai/gpt-5", toolsets="clock,todo")
    for _ in range(2):
        await stage.pass_time(HOUR)
        await stage.delivered(job)
    found = await rows(stage.small.db, "SELECT key, title, ended_ms IS NOT NULL, settings FROM sessions ORDER BY key")
    assert [row[0] for row in found] == [f"cron:{job.id}:1", f"cron:{job.id}:2"]
    assert {row[1:3] for row in found} == {("Oven", 1)}
    assert '"openai/gpt-5"' in found[0][3]
    assert '["clock","todo"]' in found[0][3]
    assert await rows(stage.small.db, "SELECT DISTINCT person_id, role, account FROM inbox") == [
        ("ben", "member", "cron")
    ]
    assert {message.address.chat for message in stage.small.platform.sent} == {"bens"}


async def test_nothing_to_tell_is_not_sent(stage: Stage) -> None:
    job = await stage.make()
    stage.model.answer = "[SILENT]"
    await stage.pass_time(HOUR)
    (run,) = await stage.runs(job)
    assert (run.state, run.delivered) == ("ran", "silent")
    assert stage.small.platform.sent == []


async def test_missed_runs_come_once_and_say_that_they_are_late(stage: Stage) -> None:
    job = await stage.make()
    reminder = await stage.make(schedule="in 2h", prompt="Remind me to call Ada")
    await stage.pass_time(5 * HOUR + 3 * MINUTE)
    skipped, late = await stage.delivered(job)
    assert (skipped.state, skipped.occurrences, skipped.due_ms) == ("skipped", 4, START + HOUR)
    assert "not running" in skipped.reason
    assert (late.state, late.delivered, late.due_ms) == ("late", "yes", START + 5 * HOUR)
    (once,) = await stage.delivered(reminder)
    assert once.state == "late"
    told = "\n".join(stage.small.platform.texts)
    assert "Late: this was due Fri 01 Jan 2027, 02:00 (UTC)" in told
    assert "done: [This run was due Fri 01 Jan 2027, 05:00 (UTC) and is late.]\ncheck the oven" in told
    assert (await stage.job(reminder)).status == "completed"
    assert (await stage.job(job)).next_ms == START + 6 * HOUR


async def test_a_job_ends_after_its_last_repetition(stage: Stage) -> None:
    job = await stage.make(repeat="2")
    for _ in range(4):
        await stage.pass_time(HOUR)
        await stage.delivered(job)
    assert len(await stage.runs(job)) == 2
    assert (await stage.job(job)).status == "completed"
    with pytest.raises(JobRefused, match="no times left"):
        await stage.small.db.write(lambda tx: stage.book.resume(tx, ADA, job.id))


async def test_the_first_failure_is_told_later_ones_are_counted_and_the_fifth_pauses(stage: Stage) -> None:
    job = await stage.make(name="Oven")
    stage.model.fails = "The model does not answer."
    for _ in range(7):
        await stage.pass_time(HOUR)
        await stage.delivered(job)
    runs = await stage.delivered(job)
    assert [run.state for run in runs] == ["failed"] * 5
    assert {run.reason for run in runs} == {"The model does not answer."}
    first, last = stage.small.platform.texts
    assert first.startswith("The job “Oven” failed: The model does not answer.")
    assert "It runs again Fri 01 Jan 2027, 02:00 (UTC)." in first
    assert "failed 5 times in a row, so I paused it" in last
    paused = await stage.job(job)
    assert (paused.status, paused.status_reason) == ("paused", "it failed 5 times in a row")
    stage.model.fails = ""
    await stage.small.db.write(lambda tx: stage.book.resume(tx, ADA, "oven"))
    await stage.pass_time(HOUR)
    assert (await stage.delivered(job))[-1].state == "ran"
    assert (await stage.job(job)).failures == 0


async def test_after_some_failures_the_next_answer_says_so(stage: Stage) -> None:
    job = await stage.make()
    stage.model.fails = "no"
    for _ in range(3):
        await stage.pass_time(HOUR)
        await stage.delivered(job)
    stage.model.fails = ""
    await stage.pass_time(HOUR)
    await stage.delivered(job)
    assert "It failed 3 times before this." in stage.small.platform.texts[-1]


async def test_a_chat_that_is_gone_counts_as_failure_and_the_operator_is_told(stage: Stage) -> None:
    async def refuse(message: OutboundMessage) -> None:
        raise DeliveryRejected("the chat was deleted")

    job = await stage.make(name="Oven")
    stage.small.platform.on_send = refuse
    for _ in range(6):
        await stage.pass_time(HOUR)
        await stage.delivered(job)
    runs = await stage.delivered(job)
    assert [(run.state, run.delivered, run.receipt) for run in runs] == [("ran", "no", "")] * 5
    assert runs[0].problem == "the chat was deleted"
    assert (await stage.job(job)).status == "paused"
    notices = [notice.text for notice in await stage.small.db.read(outbox.recent)]
    assert any("'Oven' did not reach pigeon:home: the chat was deleted" in text for text in notices)
    assert any("'Oven' is paused: 5 failures in a row" in text for text in notices)


async def test_a_used_up_budget_fails_the_run_with_that_reason(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_stage(db, monkeypatch)
    model = MoodyModel()
    responder = make_responder(db, model, meter=Meter(budgets=Budgets(limits={"job": Amount(tokens=5)})))
    made.small.lanes._worker = responder
    async with running(made.small):
        job = await made.make()
        own = await made.make(name="rich", budget="1000000")
        await made.pass_time(HOUR)
        (run,) = await made.delivered(job)
        assert run.state == "failed"
        assert "budget of this job" in run.reason
        assert [one.state for one in await made.delivered(own)] == ["ran"]


async def test_nowhere_to_deliver_is_told_to_the_operator(stage: Stage) -> None:
    await stage.small.db.write(lambda tx: chats.set_home(tx, ACCOUNT, "hall"))
    job = await stage.small.db.write(
        lambda tx: stage.book.create(
            tx, AT_TERMINAL, JobWish(name="N", schedule="every 1h", prompt="x", deliver=ACCOUNT)
        )
    )
    await stage.pass_time(HOUR)
    assert (await stage.delivered(job))[-1].chat == "hall"
    await stage.small.db.write(lambda tx: tx.execute("UPDATE chats SET home_ms = NULL"))
    await stage.pass_time(HOUR)
    run = (await stage.runs(job))[-1]
    assert (run.state, run.reason) == ("skipped", "there is no home channel on Pigeon; /sethome in a chat sets it")
    (notice,) = await stage.small.db.read(outbox.recent)
    assert "“N” failed: there is no home channel" in notice.text
    assert f"It runs again {format_time(stage.clock.ms + HOUR, 'UTC')}" in notice.text


async def test_of_a_paused_job_nobody_is_told_when_it_runs_again(stage: Stage) -> None:
    def run_paused(tx: Transaction) -> None:
        chats.set_home(tx, ACCOUNT, "hall")
        wish = JobWish(name="N", schedule="every 1h", prompt="x", deliver=ACCOUNT)
        stage.book.create(tx, AT_TERMINAL, wish)
        stage.book.pause(tx, AT_TERMINAL, "N")
        tx.execute("UPDATE chats SET home_ms = NULL")
        with pytest.raises(JobRefused, match="no home channel"):
            stage.book.run(tx, AT_TERMINAL, "N")

    await stage.small.db.write(run_paused)
    (notice,) = await stage.small.db.read(outbox.recent)
    assert "It will not run again by itself." in notice.text


async def test_a_job_whose_owner_lost_access_is_paused(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    roles: dict[str, object] = {"42": "owner", "7": "member"}
    made = make_stage(db, monkeypatch, roles)  # type: ignore[arg-type]
    async with running(made.small):
        job = await made.make(BEN)
        roles["7"] = None
        await made.pass_time(HOUR)
        (run,) = await made.runs(job)
        assert (run.state, run.reason) == ("skipped", "its owner has no access any more")
        assert (await made.job(job)).status == "paused"
        assert made.small.platform.sent == []


async def test_a_run_that_takes_longer_than_the_interval_is_not_doubled(stage: Stage) -> None:
    job = await stage.make()
    stage.model.gate = asyncio.Event()
    await stage.pass_time(HOUR)
    await soon(stage.model.begun.wait())
    await stage.pass_time(HOUR)
    with pytest.raises(JobRefused, match="running right now"):
        await stage.small.db.write(lambda tx: stage.book.run(tx, ADA, job.id))
    stage.model.gate.set()
    first, second = await stage.delivered(job)
    assert (first.state, second.state, second.reason) == ("ran", "skipped", "the run before it had not ended")


async def test_a_job_that_is_changed_during_its_run_ends_as_it_began(stage: Stage) -> None:
    job = await stage.make(prompt="old words")
    stage.model.gate = asyncio.Event()
    await stage.pass_time(HOUR)
    await soon(stage.model.begun.wait())
    await stage.small.db.write(lambda tx: stage.book.edit(tx, ADA, job.id, JobWish(prompt="new words", name="New")))
    stage.model.gate.set()
    (run,) = await stage.delivered(job)
    assert (run.state, run.delivered) == ("ran", "yes")
    await stage.pass_time(HOUR)
    await stage.delivered(job)
    assert stage.small.platform.texts == ["done: old words", "done: new words"]


async def test_a_job_that_is_removed_during_its_run_says_nothing_more(stage: Stage) -> None:
    job = await stage.make()
    stage.model.gate = asyncio.Event()
    await stage.pass_time(HOUR)
    await soon(stage.model.begun.wait())
    await stage.small.db.write(lambda tx: stage.book.remove(tx, ADA, job.id))
    stage.small.lanes.wake()
    (run,) = await stage.runs(job)
    assert (run.state, run.reason) == ("skipped", "the job was removed meanwhile")
    assert await stage.small.db.read(turns.count_running) == 0
    assert stage.small.platform.sent == []


async def test_a_run_by_hand_does_not_move_the_schedule(stage: Stage) -> None:
    job = await stage.make(repeat="1")
    await stage.small.db.write(lambda tx: stage.book.run(tx, ADA, job.id))
    stage.small.lanes.wake()
    assert len(await stage.delivered(job)) == 1
    await stage.pass_time(HOUR)
    assert [run.state for run in await stage.delivered(job)] == ["ran", "ran"]


async def test_an_answer_that_goes_to_no_chat_is_a_file(
    db: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = make_stage(db, monkeypatch)
    made.small.lanes._worker = replace(make_responder(db, made.model), job_files=tmp_path / "cron")
    async with running(made.small):
        job = await made.make(deliver="local")
        await made.pass_time(HOUR)
        (run,) = await made.delivered(job)
        assert (run.state, run.delivered) == ("ran", "yes")
        assert Path(run.receipt).read_text() == "done: check the oven"
        assert Path(run.receipt).parent == tmp_path / "cron" / job.id
        made.model.fails = "no model"
        await made.pass_time(HOUR)
        assert (await made.runs(job))[-1].state == "failed"
        (notice,) = await db.read(outbox.recent)
        assert "failed: no model" in notice.text
        assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(0,)]


async def test_a_job_is_not_offered_the_tool_that_makes_jobs(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_stage(db, monkeypatch)
    small = make_small(db, made.model, tools=(cronjob_tool(NO_JOBS),))
    async with running(small):
        await made.make()
        made.clock.ms += HOUR
        await made.scheduler.look()
        small.lanes.wake()
        await soon(small.platform.arrived.get())
        assert made.model.tools == []


async def test_a_group_that_moves_takes_its_jobs_along(stage: Stage) -> None:
    job = await stage.make()
    await stage.small.db.write(lambda tx: chats.move(tx, ACCOUNT, "home", "new home"))
    await stage.pass_time(HOUR)
    assert (await stage.delivered(job))[-1].chat == "new home"


async def test_a_clock_that_was_set_back_neither_stops_a_job_nor_repeats_a_run(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await stage.make(schedule="0 * * * *")
    await stage.pass_time(HOUR)
    await stage.delivered(job)
    stage.clock.ms += 400 * DAY  # somebody's mistake
    await stage.scheduler.look()
    await stage.delivered(job)
    type(stage.clock)(START + 90 * MINUTE).install(monkeypatch)  # the next process, after it was mended
    assert (await stage.job(job)).next_ms == START + 400 * DAY + 2 * HOUR
    await stage.small.db.write(recover)
    assert (await stage.job(job)).next_ms == START + 2 * HOUR
    type(stage.clock)(START + 30 * MINUTE).install(monkeypatch)
    await stage.small.db.write(recover)
    before = len(await stage.runs(job))
    type(stage.clock)(START + HOUR).install(monkeypatch)
    await stage.scheduler.look()  # this one has run
    assert len(await stage.runs(job)) == before
    assert (await stage.job(job)).next_ms == START + 2 * HOUR


async def test_runs_whose_message_is_gone_are_ended_at_the_next_start(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_stage(db, monkeypatch)
    job = await made.make()
    await made.pass_time(HOUR)
    await db.write(lambda tx: tx.execute("UPDATE inbox SET state = 'done', outcome = 'restored'"))
    await db.write(recover)
    (run,) = await made.runs(job)
    assert (run.state, run.reason) == ("skipped", "restored")
    assert not await db.read(lambda tx: cron.has_open_run(tx, job.id))
    assert await db.read(lambda tx: sessions.find_current(tx, f"cron:{job.id}:1")) is not None


@pytest.mark.parametrize(
    ("chat_kind", "person", "is_own"), [("dm", "ada", True), ("dm", "ben", False), ("group", "ada", False)]
)
async def test_a_run_uses_what_its_person_told_in_private_only_where_they_read_alone(
    stage: Stage, chat_kind: str, person: str, is_own: bool
) -> None:
    """A job that reports to a group, or to somebody else, must not tell there what was said in private."""
    job = await stage.make()
    key = SessionKey(platform=ACCOUNT, kind=chat_kind, chat="home")
    said = InboundMessage(key=key, message_id="1", sender=Sender(id="42", name="x"), parts=(Text(text="x"),), sent_ms=1)

    def unit(tx: Transaction) -> None:
        tx.insert("people", "(id) DO NOTHING", id=person, name=person, role="member", created_ms=0)
        number = inbox.insert(tx, said, person_id=person, role="member")
        assert number is not None
        inbox.finish(tx, number, inbox.Outcome.ANSWERED)

    await stage.small.db.write(unit)
    stage.model.gate = asyncio.Event()
    await stage.pass_time(HOUR)
    await soon(stage.model.begun.wait())
    [(session,)] = await rows(stage.small.db, "SELECT id FROM sessions WHERE platform = 'cron'")
    access, _ = await stage.small.db.read(lambda tx: memories.access_of_session(tx, session))
    assert access is not None
    assert access.scope == ("person" if is_own else "chat")
    assert access.place == ("" if is_own else f"{ACCOUNT}:home")
    _, reader = await stage.small.db.read(lambda tx: find_reader(tx, session))
    assert (reader.person_id, reader.chat) == (("ada", None) if is_own else ("", (ACCOUNT, "", "home")))
    stage.model.gate.set()
    await stage.runs(job)


async def test_each_run_is_given_the_skills_of_its_job(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await stage.make(skills="plants")
    await stage.pass_time(HOUR)
    await stage.delivered(job)
    assert stage.model.asked == ["Skill plants: water them.\ncheck the oven"]
    monkeypatch.delitem(SKILLS, "plants")
    await stage.pass_time(HOUR)
    await stage.runs(job)
    assert "The skill plants of this job is not there any more" in stage.model.asked[-1]
