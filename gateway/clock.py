"""What time it is, and names made from it."""

import secrets
import time
from datetime import UTC, datetime


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def new_session_id(at_ms: int) -> str:
    """Readable and sortable: 20260322_124359_6b542f4e."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{moment:%Y%m%d_%H%M%S}_{secrets.token_hex(4)}"


def new_id() -> str:
    """Unique, 24 characters: short enough for the platforms that take an idempotency key."""
    return secrets.token_hex(12)


def for_people(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
