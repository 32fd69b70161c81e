"""Members: the people behind identities, their roles, and revoking their access."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

from gateway.clock import new_id, now_ms
from gateway.policies import pairing as words
from gateway.policies.access import Role
from gateway.policies.pairing import covers, platform_of
from gateway.store import inbox, processes, trail, turns
from gateway.store.db.connection import Row, Transaction
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
    now = now_ms()
    known = tx.one(
        "SELECT person_id FROM identities WHERE account = ? AND user_id = ? AND person_id <> ?", account, user_id, OWNER
    )
    person_id = known["person_id"] if known is not None else new_id()
    tx.execute(
        """INSERT INTO people (id, name, role, created_ms) VALUES (?, ?, ?, ?)
           ON CONFLICT (id) DO UPDATE SET role = excluded.role""",
        person_id,
        name,
        role,
        now,
    )
    tx.execute(
        """INSERT INTO identities (account, user_id, person_id, name, paired_ms) VALUES (?, ?, ?, ?, ?)
           ON CONFLICT (account, user_id) DO UPDATE
               SET person_id = excluded.person_id, paired_ms = excluded.paired_ms, revoked_ms = NULL""",
        account,
        user_id,
        person_id,
        name,
        now,
    )


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
    accounts = sorted({row["account"] for row in found} | _accounts(tx, platform))
    names = {user_id, *(f"{prefix}:{user_id}" for account in accounts for prefix in (account, platform_of(account)))}
    if names & set(owner_users):
        return Problem(
            text=f"{user_id} is an owner by access.owner_users and stays one. Take them out there first: "
            "hermes config set access.owner_users …, then restart the gateway."
        )
    name = words.plain_name(found[0]["name"] if found else "", user_id)
    _revoke_on(tx, accounts, user_id, name)
    trail.record(tx, TrailEvent.REVOKED, platform=platform, sender=user_id, by=by)
    is_listed = bool(names & set(allowed_users))
    return Revoked(accounts=tuple(accounts), user_id=user_id, name=name, is_listed=is_listed)


def list_people(tx: Transaction) -> tuple[list[KnownPerson], list[KnownPerson]]:
    """Return the paired people, and those whose access was revoked."""
    rows = tx.all(
        "SELECT i.*, p.role FROM identities i JOIN people p ON p.id = i.person_id ORDER BY i.account, i.name, i.user_id"
    )
    return (
        [_to_person(row, row["paired_ms"]) for row in rows if row["paired_ms"] is not None],
        [_to_person(row, row["revoked_ms"]) for row in rows if row["revoked_ms"] is not None],
    )


def has_owner(tx: Transaction) -> bool:
    """Return whether somebody was paired as an owner; the person who runs this machine does not count."""
    paired = tx.one(
        """SELECT 1 FROM identities i JOIN people p ON p.id = i.person_id
            WHERE i.paired_ms IS NOT NULL AND p.role = 'owner' AND p.id <> ?""",
        OWNER,
    )
    return paired is not None


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


def _accounts(tx: Transaction, platform: str) -> set[str]:
    """Return the accounts that a name covers: itself, and those of the platform that are in use."""
    return {platform} | {account for account in list_accounts(tx) if covers(platform, account)}


def _revoke_on(tx: Transaction, accounts: Sequence[str], user_id: str, name: str) -> None:
    now = now_ms()
    for account in accounts:
        known = tx.one("SELECT person_id FROM identities WHERE account = ? AND user_id = ?", account, user_id)
        person_id = known["person_id"] if known is not None else new_id()
        if known is None:
            tx.execute(
                "INSERT INTO people (id, name, role, created_ms) VALUES (?, ?, 'guest', ?)", person_id, name, now
            )
        tx.execute(
            """INSERT INTO identities (account, user_id, person_id, name, revoked_ms) VALUES (?, ?, ?, ?, ?)
               ON CONFLICT (account, user_id) DO UPDATE SET paired_ms = NULL, revoked_ms = excluded.revoked_ms""",
            account,
            user_id,
            person_id,
            name,
            now,
        )
        # A role must not outlive the pairing that gave it.
        tx.execute(
            """UPDATE people SET role = 'guest' WHERE id = ? AND id <> ?
                  AND NOT EXISTS (SELECT 1 FROM identities WHERE person_id = people.id AND paired_ms IS NOT NULL)""",
            person_id,
            OWNER,
        )
        tx.execute(
            "UPDATE pairing_requests SET state = 'cleared' WHERE account = ? AND user_id = ? AND state = 'pending'",
            account,
            user_id,
        )
        inbox.drop_waiting(tx, account, user_id, TrailEvent.REVOKED)
        turns.stop_turns_of(tx, account, user_id)
        processes.request_end_of(tx, account, user_id)


def _to_person(row: Row, since_ms: int) -> KnownPerson:
    return KnownPerson(
        account=row["account"],
        user_id=row["user_id"],
        name=words.plain_name(row["name"], row["user_id"]),
        role=cast(Role, row["role"]),
        since_ms=since_ms,
    )
