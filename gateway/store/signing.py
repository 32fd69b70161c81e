"""Sign decisions and granted rules with a key file beside the database, so that rows written by others do not count.

The key is made once and readable by its owner alone. A sandbox does not hold it.
"""

import functools
import hashlib
import hmac
import json
import os
import secrets
from pathlib import Path

from gateway.store.db.connection import Transaction

KEY_NAME = "approvals.key"
_KEY_BYTES = 32


def sign(tx: Transaction, *values: str) -> str:
    """Return the signature of a row's content; make the key if there is none."""
    path = _key_file(tx)
    return _signature(_read_key(path) or _make_key(path), values)


def is_signed(tx: Transaction, signature: str, *values: str) -> bool:
    """Return whether a signature is ours and for this content; never without a key."""
    key = _read_key(_key_file(tx))
    return key is not None and hmac.compare_digest(_signature(key, values).encode(), signature.encode())


def make_key(tx: Transaction) -> bool:
    """Make the key if there is none; return whether it was made."""
    path = _key_file(tx)
    if _read_key(path) is not None:
        return False
    _make_key(path)
    return True


def _signature(key: bytes, values: tuple[str, ...]) -> str:
    return hmac.new(key, json.dumps(values).encode(), hashlib.sha256).hexdigest()


def _key_file(tx: Transaction) -> Path:
    row, *_ = tx.all("PRAGMA database_list")
    return Path(row["file"]).with_name(KEY_NAME)


def _read_key(path: Path) -> bytes | None:
    try:
        return _read_once(path)
    except FileNotFoundError:
        return None


@functools.lru_cache(maxsize=8)  # replacing the file changes nothing while we run
def _read_once(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        return file.read()


def _make_key(path: Path) -> bytes:
    key = secrets.token_bytes(_KEY_BYTES)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:  # another process was faster
        return _read_once(path)
    with open(descriptor, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    return key
