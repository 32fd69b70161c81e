"""Scheduled jobs and their runs: a row for each occurrence, unique by job and due time, so that none runs twice."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gateway.clock import now_ms
from gateway.messages import Address, SessionKey
from gateway.store.db.connection import Row, Transaction, build
from gateway.store.inbox import Outcome

PLATFORM = "cron"  # of the session keys of runs
TOPIC = "cron"  # of the answers of runs in the outbox
MAX_FAILURES = 5  # in a row; then a job is paused

JobStatus = Literal["active", "paused", "completed"]
RunState = Literal["queued", "ran", "late", "skipped", "failed"]
Delivered = Literal["yes", "no", "silent", "pending", ""]

_OPEN = "state = 'queued'"  # `cron_runs_open`


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    id: str
    name: str
    person_id: str
    account: str = ""
    sender_id: str = ""
    sender_name: str = ""
    source: str = "chat"
    kind: str = ""
    schedule: str = ""
    timezone: str
    anchor_ms: int = 0
    prompt: str = ""
    deliver: str = ""
    place: str = ""
    thread: str = ""
    model: str = ""
    toolsets: str = ""
    skills: str = ""
    repeats: int = 0
    runs: int = 0
    budget_tokens: int = 0
    definition: str = ""
    status: JobStatus = "active"
    status_reason: str = ""
    failures: int = 0
    next_ms: int | None = None
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    id: int
    job_id: str
    job_name: str
    person_id: str
    due_ms: int
    occurrences: int
    state: RunState
    reason: str
    is_late: bool
    account: str
    chat: str
    thread: str
    budget_tokens: int
    file: str
    begun_ms: int
    ended_ms: int | None
    delivered: Delivered = ""
    receipt: str = ""  # the platform's id of the answer
    problem: str = ""  # why it was not delivered

    @property
    def address(self) -> Address | None:
        """Return where the answer goes; None when it goes to a file."""
        return Address(account=self.account, chat=self.chat, thread=self.thread) if self.account else None

    @property
    def key(self) -> SessionKey:
        return SessionKey(platform=PLATFORM, chat=self.job_id, thread=str(self.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The failure of a run, counted."""

    count: int
    is_paused: bool


def insert(tx: Transaction, job: Job) -> None:
    tx.insert("cron_jobs", **{name: getattr(job, name) for name in Job.__slots__})


def update(tx: Transaction, job: Job) -> None:
    """Store all fields of a job, except those that runs change."""
    changes = {name: getattr(job, name) for name in Job.__slots__ if name not in ("id", "runs", "failures")}
    names = ", ".join(f"{name} = ?" for name in changes)
    tx.execute(f"UPDATE cron_jobs SET {names} WHERE id = ?", *changes.values(), job.id)  # noqa: S608


def delete(tx: Transaction, job_id: str) -> None:
    """Delete a job. Its runs stay, as long as other records do."""
    tx.execute("DELETE FROM cron_jobs WHERE id = ?", job_id)


def get(tx: Transaction, job_id: str) -> Job | None:
    return tx.read_one(Job, "SELECT * FROM cron_jobs WHERE id = ?", job_id)


def find(tx: Transaction, name: str, person_id: str | None, place: str | None = None) -> Job | None:
    """Find a job by its id or name among those that `list_jobs` returns; names of one's own come first."""
    query = """SELECT * FROM cron_jobs WHERE (id = ?1 OR lower(name) = lower(?1)) AND (?2 IS NULL OR person_id = ?2)
                  AND (?3 IS NULL OR place = ?3) ORDER BY id = ?1 DESC, person_id = 'owner' DESC LIMIT 1"""
    return tx.read_one(Job, query, name, person_id, place)


def list_jobs(tx: Transaction, person_id: str | None = None, place: str | None = None) -> list[Job]:
    """Return the jobs of a person, or of everybody, that report to a chat, or to any, those due next first."""
    query = """SELECT * FROM cron_jobs WHERE (?1 IS NULL OR person_id = ?1) AND (?2 IS NULL OR place = ?2)
                ORDER BY status <> 'active', next_ms IS NULL, next_ms, name"""
    return tx.read_all(Job, query, person_id, place)


def list_from_settings(tx: Transaction) -> list[Job]:
    return tx.read_all(Job, "SELECT * FROM cron_jobs WHERE source = 'config' ORDER BY name")


def next_due_ms(tx: Transaction) -> int | None:
    query = "SELECT MIN(next_ms) AS due FROM cron_jobs INDEXED BY cron_jobs_due WHERE status = 'active'"
    return tx.value(query)


def list_due(tx: Transaction, at_ms: int, limit: int) -> list[Job]:
    query = """SELECT * FROM cron_jobs INDEXED BY cron_jobs_due WHERE status = 'active' AND next_ms <= ?
                ORDER BY next_ms LIMIT ?"""
    return tx.read_all(Job, query, at_ms, limit)


def set_next(tx: Transaction, job_id: str, next_ms: int | None) -> None:
    """Store when a job is due next; without such a time it is completed, unless somebody has paused it."""
    query = """UPDATE cron_jobs SET next_ms = ?1,
                      status = CASE WHEN ?1 IS NULL AND status = 'active' THEN 'completed' ELSE status END
                WHERE id = ?2 AND status = 'active'"""
    tx.execute(query, next_ms, job_id)


def pause(tx: Transaction, job_id: str, reason: str) -> None:
    query = "UPDATE cron_jobs SET status = 'paused', status_reason = ?, next_ms = NULL WHERE id = ?"
    tx.execute(query, reason, job_id)


def add_run(
    tx: Transaction,
    job: Job,
    due_ms: int,
    *,
    state: RunState,
    reason: str = "",
    is_late: bool = False,
    occurrences: int = 1,
    address: Address | None = None,
) -> JobRun | None:
    """Add the row of an occurrence; None when it has one already."""
    now = now_ms()
    run_id = tx.insert(
        "cron_runs",
        "(job_id, due_ms) DO NOTHING",
        job_id=job.id,
        job_name=job.name,
        person_id=job.person_id,
        due_ms=due_ms,
        occurrences=occurrences,
        state=state,
        reason=reason,
        is_late=is_late,
        account=address.account if address else "",
        chat=address.chat if address else "",
        thread=address.thread if address else "",
        budget_tokens=job.budget_tokens,
        begun_ms=now,
        ended_ms=None if state == "queued" else now,
    )
    return get_run(tx, run_id) if run_id is not None else None


def link_inbox(tx: Transaction, run: JobRun, inbox_id: int) -> None:
    """Record which message begins the turn of a run."""
    tx.execute("UPDATE cron_runs SET inbox_id = ? WHERE id = ?", inbox_id, run.id)


def count_begun(tx: Transaction, job_id: str) -> int:
    """Count a run that the schedule has begun; return how many there were."""
    tx.execute("UPDATE cron_jobs SET runs = runs + 1 WHERE id = ?", job_id)
    return tx.count("SELECT runs FROM cron_jobs WHERE id = ?", job_id)


def has_open_run(tx: Transaction, job_id: str) -> bool:
    return tx.exists(f"SELECT 1 FROM cron_runs INDEXED BY cron_runs_open WHERE job_id = ? AND {_OPEN}", job_id)  # noqa: S608


def list_open_runs(tx: Transaction, job_id: str) -> list[tuple[JobRun, int | None]]:
    """Return the runs of a job that have not ended, each with its message."""
    rows = tx.all(f"{_RUNS} WHERE r.job_id = ? AND r.state = 'queued'", job_id)
    return [(_run(row), row["inbox_id"]) for row in rows]


def get_run(tx: Transaction, run_id: int) -> JobRun:
    [row] = tx.all(f"{_RUNS} WHERE r.id = ?", run_id)
    return _run(row)


def find_run(tx: Transaction, key: SessionKey) -> JobRun | None:
    """Return the run that a session belongs to; None when it is no session of a job."""
    if key.platform != PLATFORM or not key.thread.isdecimal():
        return None
    row = tx.one(f"{_RUNS} WHERE r.id = ?", int(key.thread))
    return _run(row) if row is not None else None


def find_readers(tx: Transaction, key: SessionKey, person_id: str | None) -> SessionKey:
    """Return the conversation in which an answer is read: for a run, the chat that it goes to.

    A run answers its person alone if it goes to a file or to a chat where they write in private; otherwise it may use
    no more than anybody else there.
    """
    run = find_run(tx, key)
    to = run.address if run is not None else None
    if to is None:
        return key
    platform, _, account = to.account.partition("@")
    query = """SELECT 1 FROM inbox
                WHERE account = ?1 AND chat = ?2 AND chat_kind IN ('dm', '') AND person_id = ?3
                UNION ALL SELECT 1 FROM participants p JOIN sessions s ON s.id = p.session_id
                WHERE p.person_id = ?3 AND s.platform = ?4 AND s.account = ?5 AND s.chat = ?2
                  AND s.kind IN ('dm', '')"""
    if tx.exists(query, to.account, to.chat, person_id, platform, account):
        return key
    return SessionKey(platform=platform, account=account, kind="group", chat=to.chat, thread=to.thread)


def end_run(tx: Transaction, run: JobRun, outcome: Outcome) -> None:
    """Record how a run ended, in the transaction that ends its turn. The first end counts."""
    states = {Outcome.ANSWERED: "ran", Outcome.FAILED: "failed", Outcome.GIVEN_UP: "failed"}
    query = f"""UPDATE cron_runs SET state = CASE WHEN ?1 = 'ran' AND is_late THEN 'late' ELSE ?1 END, ended_ms = ?2,
                       reason = CASE WHEN ?1 = 'skipped' AND reason = '' THEN ?3 ELSE reason END
                 WHERE id = ?4 AND {_OPEN}"""  # noqa: S608
    tx.execute(query, states.get(outcome, "skipped"), now_ms(), outcome, run.id)


def end_abandoned_runs(tx: Transaction) -> None:
    """End the runs whose messages ended without a turn, such as those of a restored backup."""
    query = f"""SELECT r.id, i.outcome FROM cron_runs r LEFT JOIN inbox i ON i.id = r.inbox_id
                 WHERE r.{_OPEN} AND (i.id IS NULL OR i.state = 'done')"""  # noqa: S608
    for row in tx.all(query):
        end_run(tx, get_run(tx, row["id"]), Outcome(row["outcome"]) if row["outcome"] else Outcome.DELETED)


def set_answer(
    tx: Transaction,
    run: JobRun,
    *,
    outbox_id: int | None = None,
    file: str = "",
    silent: bool = False,
    reason: str = "",
) -> None:
    """Record where the answer of a run went, and why it failed if it did."""
    query = "UPDATE cron_runs SET outbox_id = ?, file = ?, is_silent = ?, reason = ? WHERE id = ?"
    tx.execute(query, outbox_id, file, silent, reason, run.id)


def count_success(tx: Transaction, job_id: str) -> None:
    """Set the count of a job's failures to zero."""
    tx.execute("UPDATE cron_jobs SET failures = 0 WHERE id = ? AND failures > 0", job_id)


def count_delivered(tx: Transaction, outbox_id: int) -> None:
    """Count an answer that arrived as a success: before that, a run may still fail to reach its chat."""
    row = tx.one("SELECT job_id FROM cron_runs WHERE outbox_id = ? AND state IN ('ran', 'late')", outbox_id)
    if row is not None:
        count_success(tx, row["job_id"])


def count_failure(tx: Transaction, job_id: str) -> Failure:
    """Count another failure in a row, and pause the job at MAX_FAILURES."""
    tx.execute("UPDATE cron_jobs SET failures = failures + 1 WHERE id = ?", job_id)
    count = tx.count("SELECT failures FROM cron_jobs WHERE id = ?", job_id)
    query = "SELECT 1 FROM cron_jobs WHERE id = ? AND status = 'active'"
    is_paused = count >= MAX_FAILURES and tx.exists(query, job_id)
    if is_paused:
        pause(tx, job_id, f"it failed {count} times in a row")
    return Failure(count=count, is_paused=is_paused)


def count_undelivered(tx: Transaction, outbox_id: int, problem: str) -> str:
    """Count an answer that its chat never got as a failure; return what to tell the operator, if anything."""
    row = tx.one(f"{_RUNS} WHERE r.outbox_id = ?", outbox_id)
    if row is None or row["state"] not in ("ran", "late"):
        return ""
    failure = count_failure(tx, row["job_id"])
    if failure.is_paused:
        return f"The job {row['job_name']!r} is paused: {failure.count} failures in a row, the last one: {problem}."
    if failure.count > 1:
        return ""
    where = f"{row['account']}:{row['chat']}"
    return f"The answer of the job {row['job_name']!r} did not reach {where}: {problem}. See: hermes cron history"


def read_history(
    tx: Transaction, job_id: str = "", *, person_id: str | None = None, place: str | None = None, limit: int = 20
) -> list[JobRun]:
    """Return the last runs of a job, or of all that `list_jobs` returns, newest first."""
    query = f"""{_RUNS} WHERE (?1 = '' OR r.job_id = ?1) AND (?2 IS NULL OR r.person_id = ?2)
                   AND (?3 IS NULL OR r.job_id IN (SELECT id FROM cron_jobs WHERE place = ?3))
                ORDER BY r.due_ms DESC, r.id DESC LIMIT ?4"""  # noqa: S608
    return [_run(row) for row in tx.all(query, job_id, person_id, place, limit)]


def find_last_run(tx: Transaction, job_id: str) -> JobRun | None:
    row = tx.one(f"{_RUNS} WHERE r.job_id = ? ORDER BY r.due_ms DESC LIMIT 1", job_id)
    return _run(row) if row else None


def list_in_trouble(tx: Transaction) -> list[Job]:
    """Return the jobs that failed the last time or were paused because of it."""
    query = "SELECT * FROM cron_jobs WHERE failures > 0 AND status <> 'completed' ORDER BY name"
    return tx.read_all(Job, query)


_RUNS = """SELECT r.*, o.state AS sent_state, o.receipt, o.problem FROM cron_runs r
             LEFT JOIN outbox o ON o.id = r.outbox_id"""


def _run(row: Row) -> JobRun:
    return build(
        JobRun,
        row,
        is_late=bool(row["is_late"]),
        delivered=_delivered(row),
        receipt=row["file"] or row["receipt"] or "",
        problem=row["problem"] or "",
    )


def _delivered(row: Row) -> Delivered:
    """Delivered means the platform's id of the message, or a file; never less."""
    if row["is_silent"]:
        return "silent"
    if row["file"] or (row["sent_state"] == "sent" and row["receipt"]):
        return "yes"
    if row["outbox_id"] is None:
        return ""
    return "pending" if row["sent_state"] in ("ready", "sending", "unsure") else "no"


def split_toolsets(job: Job) -> Sequence[str]:
    return [name for name in job.toolsets.split(",") if name]
