"""`hermes forget`: erase a person from everything stored."""

import asyncio
import errno
import re
from collections.abc import Iterable, Iterator

import click

from gateway.lock import read_state
from gateway.memory.files import MemoryFiles
from gateway.policies.pairing import looks_like_id, nearest, platform_of
from gateway.store.db.backup import backups
from gateway.store.db.connection import Transaction
from gateway.store.erase import (
    PersonalData,
    PersonToErase,
    erase_person,
    find_accounts,
    find_person,
    find_personal_data,
    finish,
    is_unfinished,
)
from gateway.turns.workplaces import delete_folders
from gateway.wiring.tools import build_media_files
from hermes_cli.opening import OpenedStore, confirm, open_home, read_store, with_store
from hermes_config.ids import HOW_TO_FIND_AN_ID
from tools.backends.base import BackendFailed
from tools.backends.remote.places import remove_places_of
from tools.workplaces import process_backends

_NAMED = re.compile(r"([a-z][a-z0-9_]*(?:@[a-z0-9_]+)?):(\S+)", re.IGNORECASE)
_LASTING = ("before-schema-*.db", "damaged-*", "replaced-*.db")  # copies that no newer one replaces
_LOCAL = ("api", "cli", "socket", "web")  # on these an id may be any word

_NOBODY = (PersonToErase(ids=frozenset(), identities=frozenset()), PersonalData())


@click.command()
@click.argument("user")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--owner", is_flag=True, help="Even an owner; if it is you, all your own conversations go too.")
def forget(user: str, yes: bool, owner: bool) -> None:
    """Erase a person: conversations, search, files, workspace, pairing. USER is an id such as telegram:123456789.

    In groups their own messages are blanked; what others and the agent said stays. Works while the gateway runs.
    """
    named = _NAMED.fullmatch(user)
    if named is None:
        raise click.UsageError(f"{user!r} names nobody; {HOW_TO_FIND_AN_ID}.")
    account, user_id = named[1].lower(), named[2]
    user = f"{account}:{user_id}"
    opened = open_home(make=False)  # erasing an unknown person creates no home
    person, data = read_store(opened, lambda tx: _find_person(tx, opened, account, user_id)) or _NOBODY
    if not person.ids and data.is_empty:
        if platform_of(account) not in _LOCAL and not looks_like_id(user_id):
            raise click.ClickException(f"{user_id!r} is no id, and names change hands; {HOW_TO_FIND_AN_ID}.")
        click.echo(f"Nothing is stored about {user}.")
        if read_store(opened, is_unfinished):
            with_store(opened, finish)
            click.echo("The rows that an earlier run erased are now overwritten on disk.")
        return
    if person.has_owners_role and not owner:
        raise click.ClickException(_explain_owner(user, person))
    for line in _summarise(user, person, data):
        click.echo(line)
    command = f"hermes forget {user}{' --owner' if owner else ''} --yes"
    confirm("Erase all this? It cannot be undone.", yes=yes, command=command)

    def gateway_runs() -> bool:
        return read_state(opened.home.lock_file) is not None

    def delete_own_files() -> None:
        remembered = MemoryFiles(root=opened.home.memories, redactor=opened.redactor)
        read_store(opened, lambda tx: remembered.delete_of(tx, person.ids))
        delete_folders(opened.home, person.ids)
        _delete_places(opened, person.ids)

    files = build_media_files(opened.home)
    with_store(
        opened,
        lambda db: erase_person(
            db,
            files,
            person,
            backends=process_backends(opened.settings.terminal),
            gateway_runs=gateway_runs,
            delete_folders=delete_own_files,
        ),
    )
    click.echo(f"Erased: {user} is a stranger from now on.")
    for line in (*_describe_allowlists(opened, person), *_describe_backups(opened)):
        click.echo(line)


def _delete_places(opened: OpenedStore, person_ids: Iterable[str]) -> None:
    """Delete their containers and sandboxes. Raises OSError."""
    for person_id in person_ids:
        try:
            asyncio.run(remove_places_of(opened.settings.terminal, opened.home, person_id))
        except BackendFailed as error:
            raise OSError(errno.EBUSY, str(error).rstrip("."), "A container or sandbox") from error


def _explain_owner(user: str, person: PersonToErase) -> str:
    what = (
        "is you, the owner: all your conversations would go, those in the browser and the terminal too"
        if person.is_owner
        else "is an owner: all their conversations would go, and they would no longer be one"
    )
    return f"{user} {what}. If you mean that: hermes forget {user} --owner"


def _find_person(
    tx: Transaction, opened: OpenedStore, account: str, user_id: str
) -> tuple[PersonToErase, PersonalData]:
    met = find_accounts(tx)
    known = met | {platform_of(one) for one in met} | set(_LOCAL)
    for platform, section in opened.settings.platforms:
        known |= {platform, *(f"{platform}@{name}" for name in getattr(section, "accounts", ()))}
    if account not in known:
        raise click.ClickException(nearest(account, known))
    person = find_person(tx, account, user_id)
    return person, find_personal_data(tx, person)


def _summarise(user: str, person: PersonToErase, data: PersonalData) -> Iterator[str]:
    also = sorted({f"{account}:{user_id}" for account, user_id in person.identities} - {user} if person.ids else ())
    yield f"{', '.join(sorted(person.names)) or 'Somebody'} ({', '.join((user, *also))})"
    rows = {table: len(keys) for table, keys in data.rows.items()}
    for count, what in (
        (rows["sessions"], "conversations with them alone"),
        (rows["messages"], "messages in these"),
        (len(data.said), "messages of theirs in groups, to be blanked"),
        (rows["overheard"], "messages overheard in groups"),
        (rows["inbox"] + rows["outbox"], "messages received and sent"),
        (len(data.files), "files, except those that others have sent too"),
        (rows["memories"], "memories"),
        (rows["pairing_requests"], "requests to be let in"),
        (rows["processes"], "background processes, which are ended if they still run"),
    ):
        if count:
            yield f"  {what}: {count:,}"
    if person.was_revoked:
        yield "  the record that their access was revoked; afterwards they may ask for a code again"


def _describe_allowlists(opened: OpenedStore, person: PersonToErase) -> Iterator[str]:
    settings = opened.settings
    lists = {
        "access.owner_users": settings.access.owner_users,
        "access.allowed_users": settings.access.allowed_users,
    }
    for platform, section in settings.platforms:
        lists[f"platforms.{platform}.allowed_users"] = getattr(section, "allowed_users", ())
    for key, users in lists.items():
        if person.handles.intersection(users):
            yield f"They are still listed in {key} and may write again. To change that: hermes config set {key} …"


def _describe_backups(opened: OpenedStore) -> Iterator[str]:
    folder, store = opened.home.backups, opened.settings.store
    if copies := len(backups(folder)):
        days = store.backups_kept * store.backup_every_hours / 24
        within = f"{days:.3g} {'day' if days == 1 else 'days'}"
        count, theirs = ("1 backup", "holds") if copies == 1 else (f"{copies} backups", "hold")
        yield (
            f"{count} in {folder} still {theirs} what was erased; while the gateway runs, newer ones replace all "
            f"of today's within {within}."
        )
    if lasting := sorted(path.name for kind in _LASTING for path in folder.glob(kind)):
        yield f"These copies hold it too, and stay until you delete them: {', '.join(lasting)} in {folder}."
