"""`/cron`: make and manage scheduled jobs."""

import shlex

from gateway.commands.registry import CommandCall, CommandSpec
from gateway.messages import Sender
from gateway.schedule.book import AT_TERMINAL, Author, JobBook, JobOptions, JobWish
from gateway.schedule.targets import JobRefused
from gateway.schedule.wording import describe_job, describe_made, describe_run
from gateway.store import cron
from gateway.store.db.connection import Transaction

EXAMPLE = '/cron create "Daily" "0 9 * * *" "Summarise the news" deliver=telegram'
_USAGE = (
    "Use /cron list, create, edit, pause, resume, run, remove or history. For example:\n"
    f"{EXAMPLE}\n"
    '/cron create "every 30m" "Check the oven"\n'
    '/cron edit "Daily" schedule="every day at 08:00"\n'
    '/cron pause "Daily"'
)
_OPTIONS = ("name", "schedule", "prompt", "deliver", "timezone", "model", "toolsets", "skills", "repeat", "budget")
_SHOWN = 50
_RUNS_SHOWN = 10


def cron_commands(options: JobOptions) -> tuple[CommandSpec, ...]:
    def run(tx: Transaction, call: CommandCall) -> str:
        by = AT_TERMINAL if call.place == "cli" else _author(call)
        try:
            return _carry_out(tx, options.open(call.role_of), by, call.arguments)
        except JobRefused as refused:
            return str(refused)

    return (
        CommandSpec(
            "cron",
            "Agent",
            "Schedule prompts, and see what became of them",
            run,
            "[list|create|edit|pause|resume|run|remove|history]",
        ),
    )


def _author(call: CommandCall) -> Author:
    if call.person_id is None:
        raise JobRefused("I do not know whose job this would be.")
    return Author.of(call.key, call.person_id, call.role, Sender(id=call.sender_id, name=call.sender_name))


def _carry_out(tx: Transaction, book: JobBook, by: Author, arguments: str) -> str:
    action, _, rest = arguments.partition(" ")
    words, wish = _read_words(rest)
    name = " ".join(words)
    match action.lower():
        case "" | "list":
            return _list(tx, by)
        case "create" | "add":
            return describe_made(book.create(tx, by, _read_new(words, wish)))
        case "edit" if words and wish != JobWish():
            return describe_made(book.edit(tx, by, name, wish), "Changed")
        case "pause" if words:
            job = book.pause(tx, by, name)
            return f'“{job.name}” is paused. To resume it: /cron resume "{job.name}"'
        case "resume" if words:
            return describe_made(book.resume(tx, by, name), "Active again")
        case "run" if words:
            return f"“{book.run(tx, by, name).name}” runs now."
        case "remove" | "delete" if words:
            return f"“{book.remove(tx, by, name).name}” is removed."
        case "history":
            runs = book.read_history(tx, by, name, limit=_RUNS_SHOWN)
            lines = [f"- {run.job_name}, {describe_run(run, zone)}" for run, zone in runs]
            return "\n".join(lines) or "Nothing has run yet."
    return _USAGE


def _read_words(text: str) -> tuple[list[str], JobWish]:
    """Return the words and the options of a command; quotes that phones put in count as quotes."""
    plain = text.translate({ord(mark): '"' for mark in "“”„«»"})
    try:
        tokens = shlex.split(plain)
    except ValueError:
        raise JobRefused(f"A quotation mark is missing. For example:\n{EXAMPLE}") from None
    given = {key: value for token in tokens for key, sign, value in [token.partition("=")] if sign and key in _OPTIONS}
    words = [token for token in tokens if token.partition("=")[0] not in _OPTIONS or "=" not in token]
    return words, JobWish(**given)


def _read_new(words: list[str], wish: JobWish) -> JobWish:
    match words:
        case [name, schedule, prompt]:
            return JobWish(**_given(wish) | {"name": name, "schedule": schedule, "prompt": prompt})
        case [schedule, prompt]:
            return JobWish(**_given(wish) | {"schedule": schedule, "prompt": prompt})
        case [] if wish.schedule and wish.prompt:
            return wish
    raise JobRefused(f"Give a name, a schedule and a prompt, each in quotes:\n{EXAMPLE}")


def _given(wish: JobWish) -> dict[str, str]:
    return {name: value for name in _OPTIONS if (value := getattr(wish, name)) is not None}


def _list(tx: Transaction, by: Author) -> str:
    jobs = cron.list_jobs(tx, by.whose, by.place)
    if not jobs:
        return f"Nothing is scheduled. For example:\n{EXAMPLE}"
    lines = [f"- {describe_job(job, cron.find_last_run(tx, job.id))}" for job in jobs[:_SHOWN]]
    more = [f"… and {len(jobs) - _SHOWN} more."] if len(jobs) > _SHOWN else []
    return "\n".join([*lines, *more])
