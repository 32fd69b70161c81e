"""Pairing requests, invites and approvals, and the limits that make guessing codes hopeless.

No row holds a code: only a salted hash, made when the message with the code is sent. Codes that are open at the same
time on one platform share a salt, so that checking a guess costs one slow hash instead of one per code.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from gateway.clock import now_ms
from gateway.messages import Address, InboundMessage, Text
from gateway.policies import pairing as words
from gateway.policies.access import Role
from gateway.policies.pairing import SALT_BYTES, PairingLimits, covers, platform_of
from gateway.store import members, outbox, trail
from gateway.store.db.connection import Row, Transaction, build
from gateway.store.members import KnownPerson, Problem
from gateway.store.tables import PAIRING_PENDING
from gateway.store.trail import TrailEvent

CODE_TOPIC = "pairing code"  # topic of an outbox row without text, which delivery fills in with `compose_code`
_WELCOME_TOPIC = "paired"
_APPROVALS = ""  # `who` of failed approvals; for a wrong invite it is the sender


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    account: str
    user_id: str
    name: str
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRequest:
    account: str
    user_id: str
    name: str
    requested_ms: int
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    platform: str
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenInvite:
    platform: str
    role: Role
    created_ms: int
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    pending: tuple[PendingRequest, ...] = ()
    people: tuple[KnownPerson, ...] = ()
    revoked: tuple[KnownPerson, ...] = ()
    locks: tuple[Lock, ...] = ()
    invites: tuple[OpenInvite, ...] = ()


# Requests of strangers


def ask(tx: Transaction, message: InboundMessage, limits: PairingLimits) -> bool:
    """Handle a stranger's direct message: return whether they will be sent a code; otherwise we stay silent."""
    account, user_id, now = message.key.account_name, message.sender.id, now_ms()
    just_before = now - limits.request_ms
    query = "SELECT 1 FROM pairing_requests WHERE account = ? AND user_id = ? AND requested_ms > ?"
    has_asked = tx.exists(query, account, user_id, just_before)
    query = f"SELECT COUNT(*) FROM pairing_requests WHERE account = ? AND user_id <> ? AND {PAIRING_PENDING}"  # noqa: S608
    if has_asked or tx.count(query, account, user_id, now) >= limits.max_pending:
        return False
    # Expired requests go, so that strangers cannot fill the disk, and the user's own earlier ones.
    query = """DELETE FROM pairing_requests WHERE account = ? AND state <> 'approved'
                  AND (user_id = ? OR (expires_ms <= ? AND requested_ms <= ?))"""
    tx.execute(query, account, user_id, now, just_before)
    tx.insert(
        "pairing_requests",
        account=account,
        user_id=user_id,
        user_name=message.sender.name,
        chat=message.key.chat,
        state="pending",
        requested_ms=now,
        expires_ms=now + limits.code_ms,
    )
    if not outbox.notice_waits(tx, message.address, CODE_TOPIC):
        outbox.add(tx, message.address, [], kind="notice", topic=CODE_TOPIC, age_limit_ms=limits.code_ms)
    trail.record(tx, TrailEvent.PAIRING_ASKED, account=account, chat=message.key.chat, sender=user_id)
    return True


def compose_code(tx: Transaction, account: str, chat: str, limits: PairingLimits) -> str | None:
    """Compose the text of an empty `CODE_TOPIC` row; None when nobody waits there any more.

    Each call makes a new code and voids the one before: call it once per attempt to send.
    """
    now = now_ms()
    query = f"""SELECT id, requested_ms, expires_ms FROM pairing_requests
                 WHERE account = ? AND chat = ? AND {PAIRING_PENDING} ORDER BY id DESC LIMIT 1"""  # noqa: S608
    request = tx.one(query, account, chat, now)
    if request is None:
        return None
    code = words.new_code()
    salt = _salt(tx, "SELECT salt FROM pairing_requests WHERE account = ? AND state = 'pending'", account)
    # A limit lowered since the request applies to its code too.
    expires_ms = min(request["expires_ms"], request["requested_ms"] + limits.code_ms)
    query = "UPDATE pairing_requests SET salt = ?, hash = ?, expires_ms = ? WHERE id = ?"
    tx.execute(query, salt, words.fingerprint(code, salt), expires_ms, request["id"])
    return words.for_code(code, account, expires_ms - now) if expires_ms > now else None


def approve(
    tx: Transaction, platform: str, code: str, role: Role, limits: PairingLimits, *, by: str
) -> Approved | Problem:
    """Admit whoever waits under this code, permanently. If several people try the same code, one succeeds."""
    bare = platform_of(platform)
    if until_ms := _locked_until(tx, bare, limits):
        return Problem(text=words.locked(bare, until_ms, limits.max_failures))
    typed = words.read_code(code)
    waiting = [row for row in _pending(tx) if covers(platform, row["account"]) and row["hash"] is not None]
    match = _match(typed, waiting) if typed is not None else None
    # The update decides, not the earlier read: of two simultaneous approvals, one gets the row.
    query = """UPDATE pairing_requests SET state = 'approved', salt = NULL, hash = NULL
                WHERE id = ? AND state = 'pending' AND hash = ? RETURNING *"""
    request = tx.one(query, match["id"], match["hash"]) if match is not None else None
    if request is None:
        return _count_wrong_code(tx, platform, limits, by=by, well_formed=typed is not None)
    tx.execute("DELETE FROM pairing_failures WHERE platform = ? AND who = ?", bare, _APPROVALS)
    return _admit_request(tx, request, role, by=by)


def decide(tx: Transaction, account: str, user_id: str, role: Role | None, *, by: str) -> Approved | None:
    """Admit somebody who waits, or with no role clear their request. Only for an owner who sees who it is.

    Return None when nobody was admitted.
    """
    query = f"""UPDATE pairing_requests SET state = ?2, salt = NULL, hash = NULL
                 WHERE id = (SELECT MAX(id) FROM pairing_requests WHERE account = ?3 AND user_id = ?4
                                AND {PAIRING_PENDING.replace("?", "?1")}) RETURNING *"""  # noqa: S608
    request = tx.one(query, now_ms(), "approved" if role else "cleared", account, user_id)
    if request is None:
        return None
    if role is None:
        trail.record(tx, TrailEvent.PAIRING_CLEARED, account=account, sender=user_id)
        return None
    return _admit_request(tx, request, role, by=by)


def _admit_request(tx: Transaction, request: Row, role: Role, *, by: str) -> Approved:
    account, user_id = request["account"], request["user_id"]
    name = words.plain_name(request["user_name"], user_id)
    _admit(tx, Address(account=account, chat=request["chat"]), user_id, name, role)
    trail.record(tx, TrailEvent.PAIRING_APPROVED, account=account, sender=user_id, role=role, by=by)
    return Approved(account=account, user_id=user_id, name=name, role=role)


def clear(tx: Transaction, platform: str | None = None) -> tuple[int, int]:
    """Void all open requests and invites; return how many there were of each."""
    pending = [row for row in _pending(tx) if platform is None or covers(platform, row["account"])]
    for row in pending:
        tx.execute("UPDATE pairing_requests SET state = 'cleared', salt = NULL, hash = NULL WHERE id = ?", row["id"])
        trail.record(tx, TrailEvent.PAIRING_CLEARED, account=row["account"], sender=row["user_id"])
    invites = [row for row in _open_invites(tx) if platform is None or covers(platform, row["platform"])]
    for row in invites:
        tx.execute("DELETE FROM pairing_invites WHERE id = ?", row["id"])
        trail.record(tx, TrailEvent.INVITE_CLEARED, platform=row["platform"])
    return len(pending), len(invites)


def unlock(tx: Transaction, platform: str, limits: PairingLimits) -> bool:
    """Delete wrong codes and guesses; return whether approval was locked. Only for someone at the machine itself."""
    bare = platform_of(platform)
    was_locked = _locked_until(tx, bare, limits) > 0
    tx.execute("DELETE FROM pairing_failures WHERE platform = ?", bare)
    trail.record(tx, TrailEvent.PAIRING_UNLOCKED, platform=bare)
    return was_locked


# Invites


def invite(tx: Transaction, platform: str, role: Role, limits: PairingLimits, *, by: str) -> str:
    """Create an invite for one person and return its code. It is stored nowhere: show it, do not store it."""
    now = now_ms()
    tx.execute("DELETE FROM pairing_invites WHERE used_ms IS NULL AND expires_ms <= ?", now)
    code = words.new_code()
    salt = _salt(tx, "SELECT salt FROM pairing_invites WHERE platform = ? AND used_ms IS NULL", platform)
    secret = {"salt": salt, "hash": words.fingerprint(code, salt)}
    times = {"created_ms": now, "expires_ms": now + limits.code_ms}
    tx.insert("pairing_invites", platform=platform, role=role, **secret, **times)
    trail.record(tx, TrailEvent.INVITED, platform=platform, role=role, by=by)
    return code


def redeem(tx: Transaction, message: InboundMessage, limits: PairingLimits) -> Role | None:
    """Admit the sender if the message is an open invite; return their role.

    Return None for anything else: an ordinary message, a wrong code, or one guess too many, which is not even checked.
    """
    found = _find_invite(tx, message, limits)
    if found is None:
        return None
    account, sender, who = message.key.account_name, message.sender, _guesser(message)
    query = "UPDATE pairing_invites SET used_ms = ?, used_by = ? WHERE id = ?"
    tx.execute(query, now_ms(), who, found["id"])
    tx.execute("DELETE FROM pairing_failures WHERE platform = ? AND who = ?", message.key.platform, who)
    members.clear_request(tx, account, sender.id)
    role = cast(Role, found["role"])
    _admit(tx, message.address, sender.id, words.plain_name(sender.name, sender.id), role)
    trail.record(tx, TrailEvent.INVITE_USED, account=account, sender=sender.id, role=role)
    return role


def is_open_invite(tx: Transaction, message: InboundMessage, limits: PairingLimits) -> bool:
    """Return whether a member has sent an invite that is still open. They may guess no more often than strangers."""
    return _find_invite(tx, message, limits) is not None


def _find_invite(tx: Transaction, message: InboundMessage, limits: PairingLimits) -> Row | None:
    """Return the open invite whose code a message is; None without one, counting a wrong guess, or after too many."""
    if message.key.kind != "dm" or message.sender.is_bot or message.kind not in ("message", "command"):
        return None
    code = words.code_in(message.said)
    named = (message.key.account_name, message.key.platform)
    invites = [row for row in _open_invites(tx) if row["platform"] in named] if code is not None else []
    if code is None or not invites:
        return None
    platform, who = message.key.platform, _guesser(message)
    query = """SELECT COUNT(*) AS of_all, COUNT(*) FILTER (WHERE who = ?) AS own FROM pairing_failures
                WHERE platform = ? AND who <> ? AND at_ms > ?"""
    [guesses] = tx.all(query, who, platform, _APPROVALS, now_ms() - limits.guesses_ms)
    if guesses["own"] >= limits.max_guesses_per_sender or guesses["of_all"] >= limits.max_guesses:
        return None
    found = _match(code, invites)
    if found is None:
        _count_failure(tx, platform, who, limits)
    return found


def _guesser(message: InboundMessage) -> str:
    return f"{message.key.account_name}:{message.sender.id}"


# Overview


def overview(tx: Transaction, limits: PairingLimits) -> Overview:
    people, revoked = members.list_people(tx)
    platforms = tx.all("SELECT DISTINCT platform FROM pairing_failures WHERE who = ? ORDER BY platform", _APPROVALS)
    locks = [Lock(platform=row["platform"], until_ms=_locked_until(tx, row["platform"], limits)) for row in platforms]
    pending = [
        build(PendingRequest, row, name=words.plain_name(row["user_name"], row["user_id"])) for row in _pending(tx)
    ]
    return Overview(
        pending=tuple(pending),
        people=tuple(people),
        revoked=tuple(revoked),
        locks=tuple(lock for lock in locks if lock.until_ms),
        invites=tuple(build(OpenInvite, row) for row in _open_invites(tx)),
    )


def _pending(tx: Transaction) -> list[Row]:
    return tx.all(f"SELECT * FROM pairing_requests WHERE {PAIRING_PENDING} ORDER BY id", now_ms())  # noqa: S608


def _open_invites(tx: Transaction) -> list[Row]:
    return tx.all("SELECT * FROM pairing_invites WHERE used_ms IS NULL AND expires_ms > ? ORDER BY id", now_ms())


def _admit(tx: Transaction, address: Address, user_id: str, name: str, role: Role) -> None:
    members.admit(tx, address.account, user_id, name, role)
    outbox.add(tx, address, [Text(text=words.welcome(role))], kind="notice", topic=_WELCOME_TOPIC)


def _count_wrong_code(tx: Transaction, platform: str, limits: PairingLimits, *, by: str, well_formed: bool) -> Problem:
    bare = platform_of(platform)
    _count_failure(tx, bare, _APPROVALS, limits)
    trail.record(tx, TrailEvent.APPROVAL_FAILED, platform=platform, by=by)
    if until_ms := _locked_until(tx, bare, limits):
        return Problem(text=words.locked(bare, until_ms, limits.max_failures))
    query = "SELECT COUNT(*) FROM pairing_failures WHERE platform = ? AND who = ? AND at_ms > ?"
    recent = tx.count(query, bare, _APPROVALS, now_ms() - limits.lockout_ms)
    tries_left = limits.max_failures - recent
    return Problem(text=words.wrong_code(platform, well_formed=well_formed, tries_left=tries_left))


def _locked_until(tx: Transaction, platform: str, limits: PairingLimits) -> int:
    """Return when approval is possible again; 0 when it is possible now."""
    query = "SELECT at_ms FROM pairing_failures WHERE platform = ? AND who = ? ORDER BY at_ms DESC, id DESC LIMIT ?"
    last = tx.all(query, platform, _APPROVALS, limits.max_failures)
    if len(last) < limits.max_failures or last[0]["at_ms"] - last[-1]["at_ms"] >= limits.lockout_ms:
        return 0
    until_ms = int(last[0]["at_ms"]) + limits.lockout_ms
    return until_ms if until_ms > now_ms() else 0


def _count_failure(tx: Transaction, platform: str, who: str, limits: PairingLimits) -> None:
    now = now_ms()
    tx.insert("pairing_failures", platform=platform, who=who, at_ms=now)
    # A lock depends on failures up to twice its length ago: deleting them earlier would lift it.
    over_ms = now - 2 * max(limits.lockout_ms, limits.guesses_ms)
    tx.execute("DELETE FROM pairing_failures WHERE at_ms <= ?", over_ms)


def _salt(tx: Transaction, open_ones: str, name: str) -> bytes:
    """Return the salt of the other open codes, or a new one."""
    used = [row["salt"] for row in tx.all(open_ones, name) if row["salt"] is not None]
    return bytes(used[0]) if used else secrets.token_bytes(SALT_BYTES)


def _match(code: str, rows: Sequence[Row]) -> Row | None:
    """Compare with every row, so that the time taken reveals nothing."""
    prints = {salt: words.fingerprint(code, salt) for salt in {row["salt"] for row in rows}}
    matching = [row for row in rows if words.is_same(prints[row["salt"]], row["hash"])]
    return matching[0] if matching else None
