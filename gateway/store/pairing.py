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
from gateway.policies.pairing import SALT_BYTES, covers, platform_of
from gateway.store import members, outbox, trail
from gateway.store.db.connection import Row, Transaction
from gateway.store.members import KnownPerson, Problem
from gateway.store.trail import TrailEvent

CODE_TOPIC = "pairing code"  # topic of an outbox row without text, which delivery fills in with `compose_code`
_WELCOME_TOPIC = "paired"
_APPROVALS = ""  # `who` of failed approvals; for a wrong invite it is the sender
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingLimits:
    code_ms: int = _HOUR_MS  # lifetime of a code or an invite
    request_ms: int = 600_000  # minimum time between two requests of one user
    max_pending: int = 3  # per account
    max_failures: int = 5  # wrong approvals within `lockout_ms` lock a platform for as long
    lockout_ms: int = _HOUR_MS
    max_guesses_per_sender: int = 5  # wrong invites within `guesses_ms`
    max_guesses: int = 50  # the same for all senders of a platform together
    guesses_ms: int = _HOUR_MS


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
    pending: tuple[PendingRequest, ...]
    people: tuple[KnownPerson, ...]
    revoked: tuple[KnownPerson, ...]
    locks: tuple[Lock, ...]
    invites: tuple[OpenInvite, ...]


# Requests of strangers


def ask(tx: Transaction, message: InboundMessage, limits: PairingLimits) -> bool:
    """Handle a stranger's direct message: return whether they will be sent a code; otherwise we stay silent."""
    account, user_id, now = message.key.account_name, message.sender.id, now_ms()
    asked = tx.one(
        "SELECT 1 FROM pairing_requests WHERE account = ? AND user_id = ? AND requested_ms > ?",
        account,
        user_id,
        now - limits.request_ms,
    )
    others = tx.count(
        """SELECT COUNT(*) FROM pairing_requests
            WHERE account = ? AND user_id <> ? AND state = 'pending' AND expires_ms > ?""",
        account,
        user_id,
        now,
    )
    if asked is not None or others >= limits.max_pending:
        return False
    _forget_requests(tx, account, user_id, limits)
    tx.execute(
        """INSERT INTO pairing_requests (account, user_id, user_name, chat, state, requested_ms, expires_ms)
           VALUES (?, ?, ?, ?, 'pending', ?, ?)""",
        account,
        user_id,
        message.sender.name,
        message.key.chat,
        now,
        now + limits.code_ms,
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
    request = tx.one(
        """SELECT id, requested_ms, expires_ms FROM pairing_requests
            WHERE account = ? AND chat = ? AND state = 'pending' AND expires_ms > ? ORDER BY id DESC LIMIT 1""",
        account,
        chat,
        now,
    )
    if request is None:
        return None
    code = words.new_code()
    salt = _salt(tx, "SELECT salt FROM pairing_requests WHERE account = ? AND state = 'pending'", account)
    # A limit lowered since the request applies to its code too.
    expires_ms = min(request["expires_ms"], request["requested_ms"] + limits.code_ms)
    tx.execute(
        "UPDATE pairing_requests SET salt = ?, hash = ?, expires_ms = ? WHERE id = ?",
        salt,
        words.fingerprint(code, salt),
        expires_ms,
        request["id"],
    )
    return words.for_code(code, account, expires_ms - now) if expires_ms > now else None


def approve(
    tx: Transaction, platform: str, code: str, role: Role, limits: PairingLimits, *, by: str
) -> Approved | Problem:
    """Admit whoever waits under this code, permanently. If several people try the same code, one succeeds."""
    bare = platform_of(platform)
    if until_ms := _locked_until(tx, bare, limits):
        return Problem(text=words.locked(bare, until_ms, limits.max_failures))
    typed = words.read_code(code)
    request = _take_request(tx, platform, typed) if typed is not None else None
    if request is None:
        return _count_wrong_code(tx, platform, limits, by=by, well_formed=typed is not None)
    tx.execute("DELETE FROM pairing_failures WHERE platform = ? AND who = ?", bare, _APPROVALS)
    account, user_id = request["account"], request["user_id"]
    name = words.plain_name(request["user_name"], user_id)
    members.admit(tx, account, user_id, name, role)
    _say_welcome(tx, Address(account=account, chat=request["chat"]), role)
    trail.record(tx, TrailEvent.PAIRING_APPROVED, account=account, sender=user_id, role=role, by=by)
    return Approved(account=account, user_id=user_id, name=name, role=role)


def clear(tx: Transaction, platform: str | None = None) -> tuple[int, int]:
    """Void all open requests and invites; return how many there were of each."""
    return clear_pending(tx, platform), _clear_invites(tx, platform)


def clear_pending(tx: Transaction, platform: str | None = None) -> int:
    """Void the codes of all pending requests; return how many there were."""
    pending = [row for row in _pending(tx) if platform is None or covers(platform, row["account"])]
    for row in pending:
        tx.execute("UPDATE pairing_requests SET state = 'cleared', salt = NULL, hash = NULL WHERE id = ?", row["id"])
        trail.record(tx, TrailEvent.PAIRING_CLEARED, account=row["account"], sender=row["user_id"])
    return len(pending)


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
    tx.execute(
        "INSERT INTO pairing_invites (platform, role, salt, hash, created_ms, expires_ms) VALUES (?, ?, ?, ?, ?, ?)",
        platform,
        role,
        salt,
        words.fingerprint(code, salt),
        now,
        now + limits.code_ms,
    )
    trail.record(tx, TrailEvent.INVITED, platform=platform, role=role, by=by)
    return code


def redeem(tx: Transaction, message: InboundMessage, limits: PairingLimits) -> Role | None:
    """Admit the sender if the message is an open invite; return their role.

    Return None for anything else: an ordinary message, a wrong code, or one guess too many, which is not even checked.
    """
    code, invites = _guess(tx, message, limits)
    if code is None:
        return None
    account, platform, who = message.key.account_name, message.key.platform, _guesser(message)
    role = _take_invite(tx, code, invites, who)
    if role is None:
        _count_failure(tx, platform, who, limits)
        return None
    tx.execute("DELETE FROM pairing_failures WHERE platform = ? AND who = ?", platform, who)
    tx.execute(
        "UPDATE pairing_requests SET state = 'cleared' WHERE account = ? AND user_id = ? AND state = 'pending'",
        account,
        message.sender.id,
    )
    members.admit(tx, account, message.sender.id, words.plain_name(message.sender.name, message.sender.id), role)
    _say_welcome(tx, message.address, role)
    trail.record(tx, TrailEvent.INVITE_USED, account=account, sender=message.sender.id, role=role)
    return role


def is_open_invite(tx: Transaction, message: InboundMessage, limits: PairingLimits) -> bool:
    """Return whether a member has sent an invite that is still open. They may guess no more often than strangers."""
    code, invites = _guess(tx, message, limits)
    if code is None:
        return False
    if _match(code, invites) is None:
        _count_failure(tx, message.key.platform, _guesser(message), limits)
        return False
    return True


def _guess(tx: Transaction, message: InboundMessage, limits: PairingLimits) -> tuple[str | None, list[Row]]:
    """Return the code in a message and the invites to check it against; None without one or after too many guesses."""
    if message.key.kind != "dm" or message.sender.is_bot or message.kind not in ("message", "command"):
        return None, []
    code = words.code_in(message.said)
    invites = _open_invites(tx, message.key.account_name) if code is not None else []
    if not invites or not _may_guess(tx, message.key.platform, _guesser(message), limits):
        return None, []
    return code, invites


def _guesser(message: InboundMessage) -> str:
    return f"{message.key.account_name}:{message.sender.id}"


# Overview


def overview(tx: Transaction, limits: PairingLimits) -> Overview:
    now = now_ms()
    people, revoked = members.list_people(tx)
    platforms = tx.all("SELECT DISTINCT platform FROM pairing_failures WHERE who = ? ORDER BY platform", _APPROVALS)
    locks = [Lock(platform=row["platform"], until_ms=_locked_until(tx, row["platform"], limits)) for row in platforms]
    invites = tx.all("SELECT * FROM pairing_invites WHERE used_ms IS NULL AND expires_ms > ? ORDER BY id", now)
    return Overview(
        pending=tuple(
            PendingRequest(
                account=row["account"],
                user_id=row["user_id"],
                name=words.plain_name(row["user_name"], row["user_id"]),
                requested_ms=row["requested_ms"],
                expires_ms=row["expires_ms"],
            )
            for row in _pending(tx)
        ),
        people=tuple(people),
        revoked=tuple(revoked),
        locks=tuple(lock for lock in locks if lock.until_ms),
        invites=tuple(
            OpenInvite(
                platform=row["platform"],
                role=row["role"],
                created_ms=row["created_ms"],
                expires_ms=row["expires_ms"],
            )
            for row in invites
        ),
    )


def _pending(tx: Transaction) -> list[Row]:
    return tx.all("SELECT * FROM pairing_requests WHERE state = 'pending' AND expires_ms > ? ORDER BY id", now_ms())


def _forget_requests(tx: Transaction, account: str, user_id: str, limits: PairingLimits) -> None:
    """Delete expired requests, so that strangers cannot fill the disk, and the user's own earlier ones."""
    now = now_ms()
    tx.execute(
        """DELETE FROM pairing_requests WHERE account = ? AND state <> 'approved'
              AND (user_id = ? OR (expires_ms <= ? AND requested_ms <= ?))""",
        account,
        user_id,
        now,
        now - limits.request_ms,
    )


def _take_request(tx: Transaction, platform: str, code: str) -> Row | None:
    waiting = [row for row in _pending(tx) if covers(platform, row["account"]) and row["hash"] is not None]
    match = _match(code, waiting)
    if match is None:
        return None
    # The update decides, not the earlier read: of two simultaneous approvals, one gets the row.
    return tx.one(
        """UPDATE pairing_requests SET state = 'approved', salt = NULL, hash = NULL
            WHERE id = ? AND state = 'pending' AND hash = ? RETURNING *""",
        match["id"],
        match["hash"],
    )


def _count_wrong_code(tx: Transaction, platform: str, limits: PairingLimits, *, by: str, well_formed: bool) -> Problem:
    bare = platform_of(platform)
    _count_failure(tx, bare, _APPROVALS, limits)
    trail.record(tx, TrailEvent.APPROVAL_FAILED, platform=platform, by=by)
    if until_ms := _locked_until(tx, bare, limits):
        return Problem(text=words.locked(bare, until_ms, limits.max_failures))
    recent = tx.count(
        "SELECT COUNT(*) FROM pairing_failures WHERE platform = ? AND who = ? AND at_ms > ?",
        bare,
        _APPROVALS,
        now_ms() - limits.lockout_ms,
    )
    tries_left = limits.max_failures - recent
    return Problem(text=words.wrong_code(platform, well_formed=well_formed, tries_left=tries_left))


def _locked_until(tx: Transaction, platform: str, limits: PairingLimits) -> int:
    """Return when approval is possible again; 0 when it is possible now."""
    last = tx.all(
        "SELECT at_ms FROM pairing_failures WHERE platform = ? AND who = ? ORDER BY at_ms DESC, id DESC LIMIT ?",
        platform,
        _APPROVALS,
        limits.max_failures,
    )
    if len(last) < limits.max_failures or last[0]["at_ms"] - last[-1]["at_ms"] >= limits.lockout_ms:
        return 0
    until_ms = int(last[0]["at_ms"]) + limits.lockout_ms
    return until_ms if until_ms > now_ms() else 0


def _count_failure(tx: Transaction, platform: str, who: str, limits: PairingLimits) -> None:
    now = now_ms()
    tx.execute("INSERT INTO pairing_failures (platform, who, at_ms) VALUES (?, ?, ?)", platform, who, now)
    # A lock depends on failures up to twice its length ago: deleting them earlier would lift it.
    over_ms = now - 2 * max(limits.lockout_ms, limits.guesses_ms)
    tx.execute("DELETE FROM pairing_failures WHERE at_ms <= ?", over_ms)


def _may_guess(tx: Transaction, platform: str, who: str, limits: PairingLimits) -> bool:
    guesses = tx.one(
        """SELECT COUNT(*) AS of_all, COUNT(*) FILTER (WHERE who = ?) AS own FROM pairing_failures
            WHERE platform = ? AND who <> ? AND at_ms > ?""",
        who,
        platform,
        _APPROVALS,
        now_ms() - limits.guesses_ms,
    )
    assert guesses is not None
    own, of_all = int(guesses["own"]), int(guesses["of_all"])
    return own < limits.max_guesses_per_sender and of_all < limits.max_guesses


def _open_invites(tx: Transaction, account: str) -> list[Row]:
    return tx.all(
        "SELECT * FROM pairing_invites WHERE platform IN (?, ?) AND used_ms IS NULL AND expires_ms > ? ORDER BY id",
        account,
        platform_of(account),
        now_ms(),
    )


def _clear_invites(tx: Transaction, platform: str | None) -> int:
    open_ones = tx.all("SELECT id, platform FROM pairing_invites WHERE used_ms IS NULL AND expires_ms > ?", now_ms())
    invites = [one for one in open_ones if platform is None or covers(platform, one["platform"])]
    for invite in invites:
        tx.execute("DELETE FROM pairing_invites WHERE id = ?", invite["id"])
        trail.record(tx, TrailEvent.INVITE_CLEARED, platform=invite["platform"])
    return len(invites)


def _take_invite(tx: Transaction, code: str, invites: Sequence[Row], who: str) -> Role | None:
    match = _match(code, invites)
    if match is None:
        return None
    taken = tx.one(
        "UPDATE pairing_invites SET used_ms = ?, used_by = ? WHERE id = ? AND used_ms IS NULL RETURNING role",
        now_ms(),
        who,
        match["id"],
    )
    return cast(Role, taken["role"]) if taken is not None else None


def _salt(tx: Transaction, open_ones: str, name: str) -> bytes:
    """Return the salt of the other open codes, or a new one."""
    used = [row["salt"] for row in tx.all(open_ones, name) if row["salt"] is not None]
    return bytes(used[0]) if used else secrets.token_bytes(SALT_BYTES)


def _match(code: str, rows: Sequence[Row]) -> Row | None:
    """Compare with every row, so that the time taken reveals nothing."""
    prints = {salt: words.fingerprint(code, salt) for salt in {row["salt"] for row in rows}}
    matching = [row for row in rows if words.is_same(prints[row["salt"]], row["hash"])]
    return matching[0] if matching else None


def _say_welcome(tx: Transaction, address: Address, role: Role) -> None:
    outbox.add(tx, address, [Text(text=words.welcome(role))], kind="notice", topic=_WELCOME_TOPIC)
