"""Members: the people behind identities, their roles, and revoking their access."""

from collections.abc import Collection
from dataclasses import dataclass

from gateway.clock import new_id, now_ms
from gateway.messages import PROGRAMS
from gateway.policies import pairing as words
from gateway.policies.access import Role
from gateway.policies.pairing import covers, platform_of
from gateway.store import api_keys, inbox, people, processes, trail, turns
from gateway.store.db.connection import Row, Transaction, build
from gateway.store.people import OWNER
from gateway.store.trail import TrailEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Tells the person who asked why it was not done and what to do. A value: an exception would undo the count."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPerson:
    account: str
    user_id: str
    name: str
    role: Role
    since_ms: int  # when they were paired or revoked


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    accounts: tuple[str, ...]
    user_id: str
    name: str
    is_listed: bool  # also on an allowlist, from which they should be removed


def admit(tx: Transaction, account: str, user_id: str, name: str, role: Role) -> None:
    """Pair an identity permanently. A known person stays the same person; nobody becomes the local owner."""
    known = people.find(tx, account, user_id)
    person_id = known if known not in (None, OWNER) else new_id()
    now = now_ms()
    tx.insert("people", "(id) DO UPDATE SET role = excluded.role", id=person_id, name=name, role=role, created_ms=now)
    identity = {"account": account, "user_id": user_id, "person_id": person_id, "name": name}
    update = """(account, user_id) DO UPDATE
                SET person_id = excluded.person_id, paired_ms = excluded.paired_ms, revoked_ms = NULL"""
    tx.insert("identities", update, **identity, paired_ms=now)


def revoke(
    tx: Transaction,
    platform: str,
    who: str,
    *,
    owner_users: Collection[str],
    allowed_users: Collection[str],
    by: str,
) -> Revoked | Problem:
    """Revoke access by id or by exact name; someone never seen is kept out from the start."""
    found = _find_identities(tx, platform, who)
    ids = sorted({row["user_id"] for row in found})
    if len(ids) > 1:
        several = ", ".join(ids)
        return Problem(text=f"Several people on {platform} are called {who!r}: {several}. Name one by the id.")
    if not ids and not words.looks_like_id(who):
        return Problem(text=f"Nobody on {platform} is called {who!r}. `hermes pairing list` shows names and ids.")
    user_id = ids[0] if ids else who
    in_use = {account for account in list_accounts(tx) if covers(platform, account)}
    accounts = sorted({platform, *in_use, *(row["account"] for row in found)})
    names = {user_id, *(f"{prefix}:{user_id}" for account in accounts for prefix in (account, platform_of(account)))}
    if names & set(owner_users):
        return Problem(
            text=f"{user_id} is an owner by access.owner_users and stays one. Take them out there first: "
            "hermes config set access.owner_users …, then restart the gateway."
        )
    name = words.plain_name(found[0]["name"] if found else "", user_id)
    for account in accounts:
        _revoke_on(tx, account, user_id, name)
    trail.record(tx, TrailEvent.REVOKED, platform=platform, sender=user_id, by=by)
    is_listed = bool(names & set(allowed_users))
    return Revoked(accounts=tuple(accounts), user_id=user_id, name=name, is_listed=is_listed)


def list_people(tx: Transaction) -> tuple[list[KnownPerson], list[KnownPerson]]:
    """Return the paired people, and those whose access was revoked."""
    query = "SELECT i.*, p.role FROM identities i JOIN people p ON p.id = i.person_id ORDER BY account, i.name, user_id"
    rows = [(row, words.plain_name(row["name"], row["user_id"])) for row in tx.all(query)]

    def list_since(column: str) -> list[KnownPerson]:
        return [build(KnownPerson, row, name=name, since_ms=row[column]) for row, name in rows if row[column]]

    return list_since("paired_ms"), list_since("revoked_ms")


def has_owner(tx: Transaction) -> bool:
    """Return whether somebody was paired as an owner; the person who runs this machine does not count."""
    query = """SELECT 1 FROM identities i JOIN people p ON p.id = i.person_id
                WHERE i.paired_ms IS NOT NULL AND p.role = 'owner' AND p.id <> ?"""
    return tx.exists(query, OWNER)


def list_accounts(tx: Transaction) -> set[str]:
    """Return the accounts on which anybody was ever seen or is waiting."""
    rows = tx.all("SELECT account FROM identities UNION SELECT account FROM pairing_requests")
    return {row["account"] for row in rows}


def _find_identities(tx: Transaction, platform: str, who: str) -> list[Row]:
    """Find identities by id or, if nobody has that id, by name."""
    for column in ("user_id", "name"):
        rows = tx.all(f"SELECT * FROM identities WHERE {column} = ? ORDER BY account, user_id", who)  # noqa: S608
        if found := [row for row in rows if covers(platform, row["account"])]:
            return found
    return []


def _revoke_on(tx: Transaction, account: str, user_id: str, name: str) -> None:
    now, person_id = now_ms(), people.find(tx, account, user_id)
    if person_id is None:
        person_id = new_id()
        tx.insert("people", id=person_id, name=name, role="guest", created_ms=now)
    identity = {"account": account, "user_id": user_id, "person_id": person_id, "name": name}
    update = "(account, user_id) DO UPDATE SET paired_ms = NULL, revoked_ms = excluded.revoked_ms"
    tx.insert("identities", update, **identity, revoked_ms=now)
    # A role must not outlive the pairing that gave it.
    query = """UPDATE people SET role = 'guest' WHERE id = ? AND id <> ?
                  AND NOT EXISTS (SELECT 1 FROM identities WHERE person_id = people.id AND paired_ms IS NOT NULL
                                     AND account <> ?)"""
    tx.execute(query, person_id, OWNER, PROGRAMS)
    # Nor must the keys of somebody who has no access anywhere else.
    elsewhere = "SELECT 1 FROM identities WHERE person_id = ? AND revoked_ms IS NULL AND account <> ?"
    if person_id != OWNER and not tx.exists(elsewhere, person_id, PROGRAMS):
        api_keys.revoke_all(tx, person_id)
    clear_request(tx, account, user_id)
    inbox.drop_waiting(tx, account, user_id, inbox.Outcome.REVOKED)
    turns.stop_turns_of(tx, account, user_id)
    processes.request_end_of(tx, account, user_id)


def clear_request(tx: Transaction, account: str, user_id: str) -> None:
    """Void a pairing request that has become pointless."""
    query = "UPDATE pairing_requests SET state = 'cleared' WHERE account = ? AND user_id = ? AND state = 'pending'"
    tx.execute(query, account, user_id)
