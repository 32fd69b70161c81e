"""Compute how long to wait before a retry."""

import math
import random

_LONGEST_SECONDS = 60.0
_LONGEST_RETRY_AFTER_SECONDS = 3600.0
_DOUBLINGS = 6  # enough for the longest; 2.0 ** 1024, after a day of failures, is an OverflowError


def backoff_seconds(failures: int) -> float:
    """Return one second, doubled up to a minute, randomised so that many clients do not retry at once."""
    wait = min(2.0 ** min(failures - 1, _DOUBLINGS), _LONGEST_SECONDS)
    return wait * random.uniform(0.75, 1.25)  # noqa: S311 - spreads retries, guards nothing


def clamp_retry_after(seconds: float | None) -> float | None:
    """Return the wait that a server asked for, an hour at most; None when it asked for none that makes sense."""
    if seconds is None or not 0 <= seconds < math.inf:
        return None
    return min(seconds, _LONGEST_RETRY_AFTER_SECONDS)
