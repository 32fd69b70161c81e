"""`hermes forget`: erase a person from all that is kept."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gateway.store.belongings import Belongings, Person
    from gateway.store.connection import Transaction
    from hermes_cli.opening import Opened

_NAMED = re.compile(r"([a-z][a-z0-9_]*(?:@[a-z0-9_]+)?):(\S+)")


@click.command()
@click.argument("user")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--owner", is_flag=True, help="Even if it is you: all your own conversations go too.")
def forget(user: str, yes: bool, owner: bool) -> None:
    """Erase a person: conversations, search, files, pairing. USER is such as telegram:123456789.

    In groups their own messages are blanked; what others and the agent said stays. Works while the gateway runs.
    """
    from gateway.lock import read_state
    from gateway.store.forget import erase, finish, is_unfinished
    from gateway.wiring import build_media_files
    from hermes_cli.opening import open_home, with_store

    account, user_id = _read(user)
    opened = open_home()
    person, found = with_store(opened, lambda db: db.read(lambda tx: _look(tx, account, user_id)))
    if not person.ids and found.is_empty:
        click.echo(f"Nothing is known of {user}.")
        if with_store(opened, lambda db: db.read(is_unfinished)):
            with_store(opened, finish)
            click.echo("What an earlier run erased is overwritten now.")
        return
    if person.is_owner and not owner:
        raise click.ClickException(
            f"{user} is you, the owner: all your conversations would go, those in the browser and the terminal too. "
            f"If you mean that: hermes forget {user} --owner"
        )
    for line in _summary(user, person, found):
        click.echo(line)
    if not yes:
        click.confirm("Erase all this? It cannot be undone.", abort=True)

    def gateway_runs() -> bool:
        return read_state(opened.home.lock_file) is not None

    files = build_media_files(opened.home)
    with_store(opened, lambda db: erase(db, files, person, gateway_runs=gateway_runs))
    click.echo(f"Erased: {user} is a stranger from now on.")
    for line in (*_still_let_in(opened, person), *_in_backups(opened)):
        click.echo(line)


def _read(user: str) -> tuple[str, str]:
    from hermes_config.values import HOW_TO_FIND_AN_ID

    named = _NAMED.fullmatch(user)
    if named is None:
        raise click.UsageError(f"{user!r} names nobody; {HOW_TO_FIND_AN_ID}.")
    return named[1], named[2]


def _look(tx: "Transaction", account: str, user_id: str) -> "tuple[Person, Belongings]":
    from gateway.store.belongings import belongings, find_person

    person = find_person(tx, account, user_id)
    return person, belongings(tx, person)


def _summary(user: str, person: "Person", found: "Belongings") -> Iterator[str]:
    also = sorted({f"{account}:{user_id}" for account, user_id in person.identities} - {user} if person.ids else ())
    yield f"{', '.join(sorted(person.names)) or 'Somebody'} ({', '.join((user, *also))})"
    for count, what in (
        (len(found.sessions), "conversations with them alone"),
        (len(found.messages), "messages in these"),
        (len(found.said), "messages of theirs in groups, to be blanked"),
        (len(found.overheard), "messages overheard in groups"),
        (len(found.inbox) + len(found.outbox), "messages received and sent"),
        (len(found.files), "files, except those that others have sent too"),
        (len(found.pairing), "requests to be let in"),
    ):
        if count:
            yield f"  {what}: {count:,}"


def _still_let_in(opened: "Opened", person: "Person") -> Iterator[str]:
    settings = opened.settings
    lists = {
        "access.owner_users": settings.access.owner_users,
        "access.allowed_users": settings.access.allowed_users,
        "platforms.telegram.allowed_users": settings.platforms.telegram.allowed_users,
    }
    for key, users in lists.items():
        if person.handles.intersection(users):
            yield f"They still stand in {key} and are let in again when they write; mend it: hermes config set {key} …"


def _in_backups(opened: "Opened") -> Iterator[str]:
    from gateway.store.backup import backups

    folder, store = opened.home.backups, opened.settings.store
    if copies := len(backups(folder)):
        days = store.backups_kept * store.backup_every_hours / 24
        yield (
            f"{copies} {'backup' if copies == 1 else 'backups'} in {folder} still hold what was erased; while the "
            f"gateway runs, new ones take their place within {days:g} days."
        )
    if damaged := sorted(path.name for path in folder.glob("damaged-*")):
        yield f"Copies of a damaged database stay until you delete them: {', '.join(damaged)} in {folder}."
