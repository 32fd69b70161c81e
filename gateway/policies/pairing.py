"""Make, hash and read pairing codes, and write the messages about pairing. Pure.

A code is 40 random bits. The limits make guessing hopeless, and the slow hash makes a stolen
database useless within the hour for which a code is valid.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches

from gateway.policies.access import Role
from gateway.wording import count

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # 32 characters without the ambiguous 0, O, 1, I
CODE_CHARS = 8
SALT_BYTES = 16
_HOUR_MS = 3_600_000

_SEPARATORS = re.compile(r"[\s`\-\u2010-\u2015_]+")
_START = re.compile(r"/start(?:@\w+)?\s+(\S.*)", re.IGNORECASE | re.DOTALL)
_ID = re.compile(r"[0-9]{1,32}|[UW](?=[A-Z]*[0-9])[A-Z0-9]{2,32}")
_NAME_CHARS = 64
_WITHOUT_CODES = {"list", "revoke", "clear", "invite"}


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


def new_code() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(CODE_CHARS))


def read_code(typed: str) -> str | None:
    """Return the code that somebody typed, in any spelling; None when it cannot be one."""
    code = _SEPARATORS.sub("", typed)
    if not code.isascii():  # upper() changes or doubles some letters
        return None
    code = code.upper()
    return code if len(code) == CODE_CHARS and set(code) <= set(ALPHABET) else None


def code_in(said: str) -> str | None:
    """Return the code if the message is nothing else: `ABCD2345`, or `/start ABCD2345` from a link."""
    started = _START.fullmatch(said.strip())
    return read_code(started[1] if started else said)


def fingerprint(code: str, salt: bytes) -> bytes:
    """Return the hash of a code, which is all that is stored of it. Takes about 10 ms, on purpose."""
    return hashlib.scrypt(code.encode(), salt=salt, n=2**12, r=8, p=1, dklen=32)


def is_same(one: bytes, other: bytes) -> bool:
    return hmac.compare_digest(one, other)


def deep_link(username: str, code: str) -> str:
    return f"https://t.me/{username.lstrip('@')}?start={code}"


def covers(name: str, account: str) -> bool:
    """Return whether a name includes an account: `telegram` means all its accounts, `telegram@work` only that one."""
    return name in (account, platform_of(account))


def platform_of(account: str) -> str:
    return account.partition("@")[0]


def looks_like_id(text: str) -> bool:
    """Return whether this can be a platform's immutable id, unlike a name, which can change hands."""
    return _ID.fullmatch(text) is not None


def plain_name(name: str, id_: str) -> str:
    """Return a stranger's name safe to show: it cannot move the cursor, open a link or fill the screen."""
    printable = "".join(" " if char in "`[]<>" or not char.isprintable() else char for char in name)
    return " ".join(printable.split())[:_NAME_CHARS] or id_


def holds_code(command: str) -> bool:
    """Return whether a command may contain a pairing code, which must not be stored."""
    return without_code(command) != command


def without_code(command: str) -> str:
    """Return a `/pairing` command as it may be stored, without anything that could be a code."""
    words = command.split()
    name = words[0].partition("@")[0].lower() if words else ""
    if name != "/pairing" or len(words) < 2 or words[1].lower() in _WITHOUT_CODES:
        return command
    kept = words[:2] if words[1].lower() == "approve" else words[:1]
    return " ".join([*kept, "[not kept]"])


def for_code(code: str, account: str, left_ms: int) -> str:
    return (
        f"I do not know you yet, and only talk to people my owner has approved. Send this code to the owner: `{code}`\n"
        f"They run `hermes pairing approve {account} {code}` within {in_words(left_ms)}; I will then tell you here."
    )


def welcome(role: Role) -> str:
    rights = {
        "owner": "as an owner: you may use every command in every chat",
        "member": "as a member",
        "guest": "as a guest",
    }
    return (
        f"You are in, {rights[role]}. Write what you need (earlier messages are not answered), "
        "or /help for the commands."
    )


def approved(name: str, id_: str, role: Role, *, in_chat: bool = False) -> str:
    command = "/pairing" if in_chat else "hermes pairing"
    return f"{name} ({id_}) is in as {role} and has been told. To undo this: {command} revoke {id_.replace(':', ' ')}"


def revoked(name: str, user_id: str, platform: str, *, is_listed: bool, in_chat: bool = False) -> str:
    who = name if name == user_id else f"{name} ({user_id})"
    if is_listed:
        then = "They are also on an allowlist: remove them from it, so that no outdated entry remains."
    elif in_chat:  # a chat would store the invite
        then = f"To let them in again, create an invite on the machine itself: hermes pairing invite {platform}"
    else:
        then = f"`hermes pairing invite {platform}` lets them in again."
    return f"{who} may no longer talk to me. {then}"


def cleared(requests: int, invites: int) -> str:
    counts = ((requests, "request"), (invites, "invite"))
    found = " and ".join(count(number, what) for number, what in counts if number)
    if not found:
        return "Nobody was waiting to be let in, and no invite was open."
    verb, codes = ("is", "its code is") if requests + invites == 1 else ("are", "their codes are")
    again = " Anyone who still wants in can ask again." if requests else ""
    return f"{found} {verb} forgotten and {codes} void.{again}"


def unknown_role(word: str, roles: Iterable[str]) -> str:
    return f"There is no role {word!r}, so nobody was let in. The roles are {', '.join(roles)}."


def locked(platform: str, until_ms: int, failures: int) -> str:
    until = f"{datetime.fromtimestamp(until_ms / 1000, UTC):%H:%M} UTC"
    return (
        f"Approval on {platform} is locked until {until} after {failures} wrong codes. "
        f"To continue now, run this on the machine itself: hermes pairing unlock {platform}"
    )


def wrong_code(platform: str, *, well_formed: bool, tries_left: int) -> str:
    happened = (
        f"Nobody on {platform} is waiting with that code; it may be mistyped, used or expired"
        if well_formed
        else f"That is not a pairing code: a code has {CODE_CHARS} letters and digits, without 0, O, 1 and I"
    )
    left = "the next wrong one locks" if tries_left == 1 else f"{tries_left} more wrong ones lock"
    return f"{happened}. Ask them for the code again; {left} approval on {platform_of(platform)}."


def nearest(name: str, names: Iterable[str]) -> str:
    """Say that a platform is unknown, and suggest the nearest name."""
    known = sorted(names)
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    if near:
        return f"There is no platform {name!r}. Did you mean {near[0]}?"
    return f"There is no platform {name!r}. Known here: {', '.join(known) or 'none'}."


def in_words(ms: int) -> str:
    """Return a duration in words: 1 hour, 59 minutes, 30 seconds."""
    minutes = round(ms / 60_000)
    if minutes < 1:
        return count(max(1, ms // 1000), "second")
    return count(minutes, "minute") if minutes % 60 else count(minutes // 60, "hour")
