"""`hermes cron`: make and manage scheduled jobs."""

from collections.abc import Callable
from dataclasses import asdict
from typing import TypeVar

import click

from gateway.lock import read_state
from gateway.schedule.book import AT_TERMINAL, JobBook, JobWish
from gateway.schedule.targets import JobRefused
from gateway.schedule.wording import as_data, describe_job, describe_made, describe_run
from gateway.store import cron as store
from gateway.store.db.connection import Transaction
from gateway.store.people import find_role
from gateway.wiring.policies import build_rules
from gateway.wiring.schedule import build_job_options
from hermes_cli.opening import OpenedStore, open_home, read_store, refuse_agent, write_store
from hermes_config.platforms import PLATFORMS

T = TypeVar("T")

_OPTIONS = (
    click.option(
        "--deliver",
        help="home, telegram, telegram:-100123, or local for a file. [default: home; local while there is no chat]",
    ),
    click.option("--timezone", help="Time zone, such as Europe/Berlin."),
    click.option("--model", help="Model for this job."),
    click.option("--toolsets", help="Toolsets for this job, separated by commas."),
    click.option("--skills", help="Skills that each run is given, separated by commas."),
    click.option("--repeat", help="How many times it runs: a number or forever."),
    click.option("--budget", help="Tokens that it may use per day."),
)


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.group()
def cron() -> None:
    """Schedule prompts, and see the result of each run."""


@cron.command("list")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def list_jobs(as_json: bool) -> None:
    """List all jobs, those due next first."""
    opened = open_home(make=False)

    def read(tx: Transaction) -> list[tuple[store.Job, store.JobRun | None]]:
        return [(job, store.find_last_run(tx, job.id)) for job in store.list_jobs(tx)]

    found = read_store(opened, read) or []

    def line(row: tuple[store.Job, store.JobRun | None]) -> str:
        job, last = row
        whose = "" if job.person_id == "owner" else f" [{job.sender_name or job.person_id}]"
        return f"{describe_job(job, last)}{whose}"

    nothing = 'Nothing is scheduled. For example: hermes cron create Daily "0 9 * * *" "Summarise the news"'
    opened.print_list(found, as_json=as_json, data=lambda row: as_data(*row), line=line, nothing=nothing)


@cron.command()
@click.argument("name")
@click.argument("schedule")
@click.argument("prompt")
@_with_options
def create(name: str, schedule: str, prompt: str, **options: str | None) -> None:
    """Make a job: hermes cron create NAME SCHEDULE PROMPT

    SCHEDULE is a cron expression of five fields, `every 30m`, `every day at 09:00`, `in 2h`, `at 09:00`, or a time such
    as `2027-05-03 09:00`.
    """
    wish = JobWish(name=name, schedule=schedule, prompt=prompt, **options)
    _change(lambda tx, book: describe_made(book.create(tx, AT_TERMINAL, wish)))


@cron.command()
@click.argument("job")
@click.option("--name", help="Another name.")
@click.option("--schedule", help="Another schedule.")
@click.option("--prompt", help="Another prompt.")
@_with_options
def edit(job: str, **options: str | None) -> None:
    """Change a job; what is not given stays."""
    wish = JobWish(**options)
    if wish == JobWish():
        raise click.UsageError("Say what to change, such as --schedule 'every day at 09:00'.")
    _change(lambda tx, book: describe_made(book.edit(tx, AT_TERMINAL, job, wish), "Changed"))


@cron.command()
@click.argument("job")
def pause(job: str) -> None:
    """Stop a job from running, until it is resumed."""
    _change(lambda tx, book: f"“{book.pause(tx, AT_TERMINAL, job).name}” is paused.")


@cron.command()
@click.argument("job")
def resume(job: str) -> None:
    """Let a paused job run again, from now on."""
    _change(lambda tx, book: describe_made(book.resume(tx, AT_TERMINAL, job), "Active again"))


@cron.command()
@click.argument("job")
def run(job: str) -> None:
    """Run a job now, whatever its schedule says."""
    _change(lambda tx, book: f"“{book.run(tx, AT_TERMINAL, job).name}” runs now. See: hermes cron history")


@cron.command()
@click.argument("job")
def remove(job: str) -> None:
    """Remove a job, and stop its run if one is going on."""
    _change(lambda tx, book: f"“{book.remove(tx, AT_TERMINAL, job).name}” is removed.")


@cron.command()
@click.argument("job", default="")
@click.option("--limit", default=20, show_default=True, help="How many.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def history(job: str, limit: int, as_json: bool) -> None:
    """Show each occurrence: whether it ran, and whether its answer arrived."""
    opened = open_home(make=False)
    book = open_book(opened)

    runs = _refuse(lambda: read_store(opened, lambda tx: book.read_history(tx, AT_TERMINAL, job, limit=limit))) or []
    opened.print_list(
        runs,
        as_json=as_json,
        data=lambda row: asdict(row[0]),
        line=lambda row: f"{row[0].job_name}: {describe_run(*row)}",
        nothing="Nothing has run yet.",
    )


def _change(unit: Callable[[Transaction, JobBook], str]) -> None:
    refuse_agent("use the tool cronjob")
    opened = open_home()
    book = open_book(opened)
    opened.print_text(_refuse(lambda: write_store(opened, lambda tx: unit(tx, book))))
    if read_state(opened.home.lock_file) is None:
        click.echo("The gateway does not run, and jobs run only while it does: hermes gateway start")


def _refuse(work: Callable[[], T]) -> T:
    try:
        return work()
    except JobRefused as refused:
        raise click.ClickException(str(refused)) from refused


def open_book(opened: OpenedStore) -> JobBook:
    """Open the book of jobs as the settings have it, without a gateway."""
    rules = build_rules(opened.settings)
    return build_job_options(opened.settings, opened.home).open(
        lambda tx, key, user_id: find_role(tx, key, user_id, rules, local=PLATFORMS[key.platform].is_local)
    )
