"""Keys for the HTTP API: made for a person, stored as hashes, checked on every request, revoked."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from gateway.clock import new_id, now_ms
from gateway.messages import PROGRAMS
from gateway.policies.access import Role
from gateway.store import inbox, trail, turns
from gateway.store.db.connection import Row, Transaction
from gateway.store.people import OWNER
from gateway.store.trail import TrailEvent

PREFIX = "sk-hermes-"  # as other keys begin, so that it is hidden wherever those are
ENDING_CHARS = 4
_USE_NOTED_MS = 60_000  # a busy program must not cost a commit with every request


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHolder:
    """The person that a valid key acts for."""

    key_id: int
    person_id: str
    name: str
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as it is listed; the key itself is not stored."""

    id: int
    person_id: str
    person: str
    role: Role
    label: str
    ending: str
    created_ms: int
    used_ms: int | None
    revoked_ms: int | None


def create(tx: Transaction, person_id: str, *, label: str = "") -> tuple[int, str]:
    """Make a key for a known person and return its id and the key, which cannot be read again."""
    key, now = PREFIX + secrets.token_hex(24), now_ms()
    key_id = tx.insert(
        "api_keys", hash=_hash(key), person_id=person_id, label=label, ending=key[-ENDING_CHARS:], created_ms=now
    )
    assert key_id is not None
    [person] = tx.all("SELECT name FROM people WHERE id = ?", person_id)
    update = "(account, user_id) DO UPDATE SET paired_ms = excluded.paired_ms, revoked_ms = NULL"
    identity = {"account": PROGRAMS, "user_id": person_id, "person_id": person_id, "name": person["name"]}
    tx.insert("identities", update, **identity, paired_ms=now)
    return key_id, key


def find_holder(tx: Transaction, key: str) -> KeyHolder | None:
    """Return whom a key acts for; None for one that is unknown or revoked."""
    # Looked up by hash, so that the time taken reveals nothing about the key.
    query = """SELECT k.id AS key_id, p.id AS person_id, p.name, p.role FROM api_keys k
                 JOIN people p ON p.id = k.person_id
                 JOIN identities i ON i.account = ? AND i.user_id = k.person_id
                WHERE k.hash = ? AND k.revoked_ms IS NULL AND i.paired_ms IS NOT NULL"""
    return tx.read_one(KeyHolder, query, PROGRAMS, _hash(key))


def needs_note(tx: Transaction, key_id: int) -> bool:
    """Return whether the recorded last use is old enough to be updated."""
    query = "SELECT 1 FROM api_keys WHERE id = ? AND COALESCE(used_ms, 0) < ?"
    return tx.exists(query, key_id, now_ms() - _USE_NOTED_MS)


def note_use(tx: Transaction, key_id: int) -> None:
    tx.execute("UPDATE api_keys SET used_ms = ? WHERE id = ?", now_ms(), key_id)


def list_keys(tx: Transaction) -> list[ApiKey]:
    query = """SELECT k.*, p.name AS person, p.role FROM api_keys k JOIN people p ON p.id = k.person_id ORDER BY k.id"""
    return tx.read_all(ApiKey, query)


def revoke(tx: Transaction, key_id: int, *, by: str) -> ApiKey | None:
    """Revoke a key; with the last one of a person, what still runs for their programs ends. None: no such key."""
    found = next((one for one in list_keys(tx) if one.id == key_id), None)
    if found is None or found.revoked_ms is not None:
        return found
    tx.execute("UPDATE api_keys SET revoked_ms = ? WHERE id = ?", now_ms(), key_id)
    trail.record(tx, TrailEvent.REVOKED, platform=PROGRAMS, sender=found.person_id, by=by)
    if not tx.exists("SELECT 1 FROM api_keys WHERE person_id = ? AND revoked_ms IS NULL", found.person_id):
        _close(tx, found.person_id)
    return found


def revoke_all(tx: Transaction, person_id: str) -> None:
    """Revoke the keys of a person who lost access everywhere else."""
    query = "UPDATE api_keys SET revoked_ms = ? WHERE person_id = ? AND revoked_ms IS NULL"
    if tx.execute(query, now_ms(), person_id):
        _close(tx, person_id)


def find_people(tx: Transaction, who: str) -> Sequence[Row]:
    """Return the people who are meant: `owner`, an id such as `telegram:123`, or a name."""
    if who.lower() == OWNER:
        tx.insert("people", "(id) DO NOTHING", id=OWNER, name=OWNER, role="owner", created_ms=now_ms())
        return tx.all("SELECT * FROM people WHERE id = ?", OWNER)
    account, _, user_id = who.rpartition(":")
    query = """SELECT DISTINCT p.* FROM people p LEFT JOIN identities i ON i.person_id = p.id
                WHERE p.id = ?1 OR LOWER(p.name) = LOWER(?1) OR LOWER(i.name) = LOWER(?1)
                   OR (i.user_id = ?3 AND (i.account = ?2 OR i.account LIKE ?2 || '@%')) ORDER BY p.name, p.id"""
    return tx.all(query, who, account.lower(), user_id)


def suggest_person(tx: Transaction, who: str) -> str:
    """Return the name that is probably meant; empty when nothing is close."""
    names = [row["name"] for row in tx.all("SELECT name FROM people")]
    return next(iter(get_close_matches(who, [*names, OWNER], n=1, cutoff=0.6)), "")


def add_person(tx: Transaction, name: str, role: Role) -> str:
    """Add somebody who is known by their keys alone, such as a program, and return their id."""
    person_id = new_id()
    tx.insert("people", id=person_id, name=name, role=role, created_ms=now_ms())
    return person_id


def _close(tx: Transaction, person_id: str) -> None:
    tx.execute("UPDATE identities SET paired_ms = NULL WHERE account = ? AND user_id = ?", PROGRAMS, person_id)
    inbox.drop_waiting(tx, PROGRAMS, person_id, inbox.Outcome.REVOKED)
    turns.stop_turns_of(tx, PROGRAMS, person_id)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
