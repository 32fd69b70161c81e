"""Who may open the web page: one-time links, and the cookies they become. Only hashes are kept."""

import hashlib
import secrets
from typing import Literal

from gateway.clock import now_ms
from gateway.store.connection import Transaction

LINK_LIFE_MS = 3_600_000
COOKIE_LIFE_MS = 30 * 86_400_000


def new_link(tx: Transaction) -> str:
    """The token of a link that works once, within the hour."""
    return _new(tx, "link", LINK_LIFE_MS)


def exchange(tx: Transaction, link: str) -> str | None:
    """A cookie for a link, which is used up by this; None for one that is unknown, used or too old."""
    used = tx.execute("DELETE FROM web_keys WHERE hash = ? AND kind = 'link' AND expires_ms > ?", _hash(link), now_ms())
    return new_cookie(tx) if used else None


def new_cookie(tx: Transaction) -> str:
    tx.execute("DELETE FROM web_keys WHERE expires_ms <= ?", now_ms())
    return _new(tx, "cookie", COOKIE_LIFE_MS)


def is_valid(tx: Transaction, cookie: str) -> bool:
    # Looked up by hash: how long that takes tells nothing about the cookie.
    row = tx.one(
        "SELECT 1 FROM web_keys WHERE hash = ? AND kind = 'cookie' AND expires_ms > ?", _hash(cookie), now_ms()
    )
    return row is not None


def _new(tx: Transaction, kind: Literal["link", "cookie"], life_ms: int) -> str:
    token = secrets.token_urlsafe(32)
    now = now_ms()
    tx.execute(
        "INSERT INTO web_keys (hash, kind, created_ms, expires_ms) VALUES (?, ?, ?, ?)",
        _hash(token),
        kind,
        now,
        now + life_ms,
    )
    return token


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
