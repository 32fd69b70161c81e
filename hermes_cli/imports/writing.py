"""Write what an import has planned: settings first, since they are checked as a whole, then files, people and jobs."""

import click

from gateway.schedule.wording import describe_made
from gateway.store import members, memories, trail
from gateway.store.db.connection import Transaction
from gateway.wiring.basics import build_library
from hermes_cli.config import hint_at_restart
from hermes_cli.cron import open_book
from hermes_cli.imports.jobs import create_job
from hermes_cli.imports.plan import ImportPlan
from hermes_cli.opening import open_home, write_store
from hermes_config.edit import replace_file, set_values
from skills.changes import replace_folder


def write_plan(plan: ImportPlan, peer: str) -> None:
    home = plan.state.home
    home.prepare()
    if plan.texts:
        set_values(home, plan.texts)
    if plan.personality:
        replace_file(home.root / "SOUL.md", plan.personality)
    library = build_library(plan.state.settings, home)
    for skill in plan.skills:
        source = str(skill.folder)
        replace_folder(library, skill.name, skill.category, skill.folder, action="import", by="import", source=source)
    if plan.people or plan.memories:
        write_store(plan.state.opened, lambda tx: _write_rows(tx, plan, peer))
    if plan.jobs:
        opened = open_home()  # with the settings as they are now
        book = open_book(opened)
        for job in write_store(opened, lambda tx: [create_job(tx, book, wish) for wish in plan.jobs]):
            opened.print_text(describe_made(job))
    click.echo(f"Done. Stop {peer} before you start Hermes: two programs cannot share a bot's token.")
    click.echo("To name yourself the owner: hermes setup owner. To check everything: hermes doctor --live")
    hint_at_restart(home)


def _write_rows(tx: Transaction, plan: ImportPlan, peer: str) -> None:
    """Let the people in as members, and remember the facts as the owner's."""
    for user in plan.people:
        members.admit(tx, user.platform, user.user_id, user.name or user.user_id, "member")
        trail.record(
            tx,
            trail.TrailEvent.PAIRING_APPROVED,
            account=user.platform,
            sender=user.user_id,
            role="member",
            by=f"import from {peer}",
        )
    for key, value in plan.memories.items():
        memories.put(tx, memories.OWNERS, key, value, memories.Source(writer="import"))
