"""Describe jobs and their runs, for the tool, /cron and `hermes cron`."""

from typing import Any

from gateway.clock import how_long
from gateway.schedule.book import list_next_times
from gateway.schedule.runs import schedule_of
from gateway.schedule.times import format_time
from gateway.store.cron import Job, JobRun

_DELIVERED = {
    "yes": "delivered",
    "no": "NOT delivered",
    "silent": "nothing to tell",
    "pending": "being delivered",
    "": "",
}


def describe_made(job: Job, what: str = "Scheduled") -> str:
    """Say that a job was made or changed, with its next times."""
    times = list_next_times(job)
    lines = [f"{what}: “{job.name}” ({job.id}), {schedule_of(job).describe()}."]
    if times:
        lines += ["Next: " + "; ".join(times)]
    return "\n".join([*lines, f"Answers go to {describe_target(job)}."])


def describe_target(job: Job) -> str:
    match job.deliver:
        case "origin":
            return "the chat where it was made"
        case "local":
            return f"files in cron/{job.id}/ of the home"
        case "home":
            return "the home channel"
        case where:
            return f"the home channel on {where.capitalize()}" if ":" not in where else where


def describe_job(job: Job, last: JobRun | None) -> str:
    """Describe a job in one line."""
    when = f"next {format_time(job.next_ms, job.timezone)}" if job.next_ms is not None else job.status
    if job.status == "paused" and job.status_reason:
        when = f"paused: {job.status_reason}"
    parts = [f"{job.name} ({job.id}): {schedule_of(job).describe()}", when]
    if last is not None:
        parts.append(f"last {describe_state(last)}")
    return "; ".join(parts)


def describe_state(run: JobRun) -> str:
    """Say how a run ended, and apart from that whether its answer arrived."""
    state = "running" if run.state == "queued" else run.state
    ended = f"{state} ({run.reason})" if run.reason else state
    arrived = _DELIVERED[run.delivered] if run.state in ("ran", "late") or run.delivered == "no" else ""
    if run.delivered == "yes" and run.receipt:
        arrived += f" as {run.receipt}"
    elif arrived and run.problem:
        arrived += f" ({run.problem})"
    return f"{ended}, {arrived}" if arrived else ended


def describe_run(run: JobRun, timezone: str) -> str:
    """Describe a run in one line of a history."""
    count = f" and {run.occurrences - 1} more" if run.occurrences > 1 else ""
    took = f" in {how_long(run.ended_ms - run.begun_ms)}" if run.ended_ms and run.state in ("ran", "late") else ""
    return f"{format_time(run.due_ms, timezone)}{count}: {describe_state(run)}{took}"


def as_data(job: Job, last: JobRun | None) -> dict[str, Any]:
    """Return a job for a language model or a script."""
    return {
        "id": job.id,
        "name": job.name,
        "schedule": job.schedule,
        "meaning": schedule_of(job).describe(),
        "timezone": job.timezone,
        "prompt": job.prompt,
        "deliver": job.deliver,
        "answers_go_to": describe_target(job),
        "model": job.model,
        "toolsets": [name for name in job.toolsets.split(",") if name],
        "skills": [name for name in job.skills.split(",") if name],
        "repeat": job.repeats or "forever",
        "runs": job.runs,
        "budget_tokens": job.budget_tokens,
        "status": job.status,
        "status_reason": job.status_reason,
        "failures_in_a_row": job.failures,
        "next": list_next_times(job),
        "last": describe_state(last) if last is not None else "",
    }
