"""`hermes state`: check the database, undo an upgrade, list and restore backups."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from gateway.clock import for_people
from gateway.lock import hold_home
from gateway.store.db.backup import BackupPolicy, Copy, list_copies
from gateway.store.db.commit_counter import check_not_lost
from gateway.store.db.restore import restore as put_back
from gateway.store.db.restore import undo_upgrade
from gateway.store.db.schema import Lost
from gateway.store.db.upgrade import UpgradePreview, find_undo_target, preview_losses, preview_upgrade
from gateway.wiring.basics import build_backup_policy
from hermes_cli.opening import confirm, open_home
from hermes_config.places import Home
from tools.content import in_bytes


@click.group()
def state() -> None:
    """Check the database, undo an upgrade, and list or restore backups."""


@state.command(short_help="Try on a copy what the next start would do.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def check(as_json: bool) -> None:
    """Check the database and rehearse its upgrade on a copy. Changes nothing.

    Exits with 1 when the database is damaged or the upgrade would fail.
    """
    home, policy = _open()
    found = preview_upgrade(home.database, policy)
    click.echo(json.dumps(asdict(found), indent=2) if as_json else "\n".join(_check_lines(found)))
    if found.problem:
        raise SystemExit(1)


@state.command(short_help="Go back to an older schema, for an older Hermes.")
@click.option("--to", type=int, help="The schema to go back to.  [default: the one before the last upgrade]")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="For scripts; needs --yes.")
def undo(to: int | None, yes: bool, as_json: bool) -> None:
    """Bring the database back to an older schema, so that the previous version can open it again.

    The gateway must be stopped. Lists first what the older version cannot hold, and keeps a copy of everything.
    """
    home, policy = _open()
    with hold_home(home.lock_file) as lock:
        lock.tell({"state": "undoing an upgrade"})
        reach = find_undo_target(home.database, policy)
        target = reach.usual if to is None else to
        if not reach.oldest <= target < reach.found:
            raise click.UsageError(_explain_unreachable(reach.found, reach.oldest, target))
        losses = preview_losses(home.database, policy, target)
        if not as_json:
            click.echo("\n".join(_undo_lines(reach.found, target, losses)))
        confirm("Go back?", yes=yes, command=f"hermes state undo --to {target} --yes")
        kept = undo_upgrade(home.database, policy, target)
    if as_json:
        lost = [asdict(one) for one in losses]
        click.echo(json.dumps({"from": reach.found, "to": target, "lost": lost, "kept": kept.name}, indent=2))
        return
    click.echo(f"Done: the database has schema {target}. A copy from before is in backups/{kept.name}.")
    click.echo("Install the older version now, before any other command: this one would upgrade it again.")


@state.command(short_help="List the copies that can be restored.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def backups(as_json: bool) -> None:
    """Check the copies of the database and list them with age and schema."""
    home, _ = _open(needs_database=False)
    copies = list_copies(home.backups)
    if as_json:
        click.echo(json.dumps([asdict(copy) for copy in copies], indent=2))
    elif not copies:
        click.echo("There are no backups yet. The gateway makes the first when it starts.")
    else:
        click.echo("\n".join(map(_copy_line, copies)))


@state.command(short_help="Replace the database with a copy.")
@click.argument("backup")
@click.option("--yes", is_flag=True, help="Do not ask.")
def restore(backup: str, yes: bool) -> None:
    """Replace the database with a copy. BACKUP is a name from `hermes state backups`, or a path.

    The gateway must be stopped. The replaced database is kept in backups/.
    """
    home, policy = _open(needs_database=False)
    copy = _find(home, backup)
    with hold_home(home.lock_file) as lock:
        lock.tell({"state": "restoring a backup"})
        click.echo(f"{copy.name} is of {for_people(int(copy.stat().st_mtime * 1000))}.")
        question = "Restore it? What came in since then is not in it and is not answered again."
        confirm(question, yes=yes, command=f"hermes state restore {backup} --yes")
        aside = put_back(home.database, copy, policy)
    click.echo("Restored.")
    if aside is not None:
        click.echo(f"The replaced database is in backups/{aside.name}; it stays until you delete it.")


def _open(*, needs_database: bool = True) -> tuple[Home, BackupPolicy]:
    opened = open_home(make=False)  # these commands never create a home
    if needs_database:
        check_not_lost(opened.home.database)
    if needs_database and not opened.home.database.exists():
        raise click.ClickException(f"There is no database in {opened.home.root} yet. Start with: hermes gateway run")
    return opened.home, build_backup_policy(opened.settings, opened.home.backups)


def _find(home: Home, backup: str) -> Path:
    for copy in (home.backups / backup, Path(backup).expanduser()):
        if copy.is_file() and home.database.exists() and copy.samefile(home.database):
            raise click.UsageError("That is the database itself, not a copy of it.")
        if copy.is_file():
            return copy
    raise click.UsageError(f"There is no backup {backup!r}. `hermes state backups` lists them.")


def _check_lines(found: UpgradePreview) -> Iterator[str]:
    if found.problem:
        yield found.problem
    elif found.schema == found.newest:
        yield f"The database is sound and up to date (schema {found.schema}). There is nothing to do."
    else:
        yield f"The database is sound and has schema {found.schema}. The next start brings it to {found.newest}."
        yield "That was tried on a copy and works. Nothing was changed."
    if found.room is not None:
        yield f"It needs {in_bytes(found.room.needed_bytes)} of disk space; {in_bytes(found.room.free_bytes)} are free."


def _explain_unreachable(found: int, oldest: int, target: int) -> str:
    if target >= found:
        return f"The database has schema {found}; {target} is not before that."
    reason = f"the oldest reachable one is {oldest}" if oldest < found else "no older one is reachable"
    return (
        f"There is no way from schema {found} to {target}: {reason}. `hermes state backups` lists copies from before, "
        "and `hermes state restore` puts one in place."
    )


def _undo_lines(found: int, target: int, losses: list[Lost]) -> Iterator[str]:
    yield f"The database goes back from schema {found} to {target}. That was tried on a copy and works."
    if not losses:
        yield "Nothing will be lost."
        return
    yield "The older version cannot hold:"
    for lost in losses:
        what = f"values in the column {lost.column} of {lost.table}" if lost.column else f"rows of {lost.table}"
        yield f"  {what}: {lost.count:,}"


def _copy_line(copy: Copy) -> str:
    what = f"CANNOT BE RESTORED: {copy.problem}" if copy.problem else f"schema {copy.schema}, sound"
    return f"{copy.name:<48}  {for_people(copy.taken_ms)}  {in_bytes(copy.size_bytes):>9}  {what}"
