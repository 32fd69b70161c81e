"""`hermes forget`: erase a person from everything stored."""

import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gateway.store.db.connection import Transaction
    from gateway.store.erase import PersonalData, PersonToErase
    from hermes_cli.opening import OpenedStore

_NAMED = re.compile(r"([a-z][a-z0-9_]*(?:@[a-z0-9_]+)?):(\S+)", re.IGNORECASE)
_LASTING = ("before-schema-*.db", "damaged-*", "replaced-*.db")  # copies that no newer one replaces
_LOCAL = ("cli", "socket", "web")  # on these an id may be any word


@click.command()
@click.argument("user")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--owner", is_flag=True, help="Even an owner; if it is you, all your own conversations go too.")
def forget(user: str, yes: bool, owner: bool) -> None:
    """Erase a person: conversations, search, files, workspace, pairing. USER is an id such as telegram:123456789.

    In groups their own messages are blanked; what others and the agent said stays. Works while the gateway runs.
    """
    from gateway.lock import read_state
    from gateway.store.db.commit_counter import check_not_lost
    from gateway.store.erase import erase_person, finish, is_unfinished
    from gateway.turns.workplaces import delete_folders
    from gateway.wiring.tools import build_media_files
    from hermes_cli.opening import open_home, with_store
    from tools.workplaces import process_backends

    account, user_id = _read(user)
    user = f"{account}:{user_id}"
    opened = open_home(make=False)  # erasing an unknown person creates no home
    check_not_lost(opened.home.database)
    if not opened.home.database.exists():
        _refuse_user_name(account, user_id)
        click.echo(f"Nothing is known of {user}: nobody has talked to the agent of this home yet.")
        return
    person, data = with_store(opened, lambda db: db.read(lambda tx: _find_person(tx, opened, account, user_id)))
    if not person.ids and data.is_empty:
        _refuse_user_name(account, user_id)
        click.echo(f"Nothing is known of {user}.")
        if with_store(opened, lambda db: db.read(is_unfinished)):
            with_store(opened, finish)
            click.echo("The rows that an earlier run erased are now overwritten on disk.")
        return
    if person.has_owners_role and not owner:
        raise click.ClickException(_explain_owner(user, person))
    for line in _summarise(user, person, data):
        click.echo(line)
    if not yes:
        _ask(user, owner)

    def gateway_runs() -> bool:
        return read_state(opened.home.lock_file) is not None

    files = build_media_files(opened.home)
    with_store(
        opened, lambda db: erase_person(db, files, person, backends=process_backends(), gateway_runs=gateway_runs)
    )
    for left in delete_folders(opened.home, person.ids):
        click.echo(f"{left} could not be deleted: delete it yourself.")
    click.echo(f"Erased: {user} is a stranger from now on.")
    for line in (*_describe_allowlists(opened, person), *_describe_backups(opened)):
        click.echo(line)


def _ask(user: str, owner: bool) -> None:
    if not _is_terminal():
        raise click.UsageError(
            "Nothing was erased: there is no terminal to confirm at. To erase without confirming: "
            f"hermes forget {user}{' --owner' if owner else ''} --yes"
        )
    click.confirm("Erase all this? It cannot be undone.", abort=True)


def _read(user: str) -> tuple[str, str]:
    from hermes_config.ids import HOW_TO_FIND_AN_ID

    named = _NAMED.fullmatch(user)
    if named is None:
        raise click.UsageError(f"{user!r} names nobody; {HOW_TO_FIND_AN_ID}.")
    return named[1].lower(), named[2]


def _refuse_user_name(account: str, user_id: str) -> None:
    from gateway.policies.pairing import looks_like_id, platform_of
    from hermes_config.ids import HOW_TO_FIND_AN_ID

    if platform_of(account) not in _LOCAL and not looks_like_id(user_id):
        raise click.ClickException(f"{user_id!r} is no id, and names change hands; {HOW_TO_FIND_AN_ID}.")


def _explain_owner(user: str, person: "PersonToErase") -> str:
    what = (
        "is you, the owner: all your conversations would go, those in the browser and the terminal too"
        if person.is_owner
        else "is an owner: all their conversations would go, and they would no longer be one"
    )
    return f"{user} {what}. If you mean that: hermes forget {user} --owner"


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _find_person(
    tx: "Transaction", opened: "OpenedStore", account: str, user_id: str
) -> "tuple[PersonToErase, PersonalData]":
    from gateway.policies.pairing import nearest, platform_of
    from gateway.store.erase import find_accounts, find_person, find_personal_data

    met = find_accounts(tx)
    known = met | {platform_of(one) for one in met} | set(_LOCAL)
    for platform, section in opened.settings.platforms:
        known |= {platform, *(f"{platform}@{name}" for name in getattr(section, "accounts", ()))}
    if account not in known:
        raise click.ClickException(nearest(account, known))
    person = find_person(tx, account, user_id)
    return person, find_personal_data(tx, person)


def _summarise(user: str, person: "PersonToErase", data: "PersonalData") -> Iterator[str]:
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
        (rows["pairing_requests"], "requests to be let in"),
        (rows["processes"], "background processes, which are ended if they still run"),
    ):
        if count:
            yield f"  {what}: {count:,}"
    if person.was_revoked:
        yield "  the record that their access was revoked; afterwards they may ask for a code again"


def _describe_allowlists(opened: "OpenedStore", person: "PersonToErase") -> Iterator[str]:
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


def _describe_backups(opened: "OpenedStore") -> Iterator[str]:
    from gateway.store.db.backup import backups

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
