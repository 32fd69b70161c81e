"""Decide when to retry a failed model call, and how long to wait for a server."""

import random
from dataclasses import dataclass

from agent_core.model import ProviderError


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Limits on retrying one model call."""

    attempts: int = 4  # in all
    first_wait_seconds: float = 1.0  # doubles each time
    longest_wait_seconds: float = 30.0
    give_up_after_seconds: float = 300.0  # no attempt begins later than this

    def wait_seconds(self, error: ProviderError, *, failures: int, elapsed_seconds: float) -> float | None:
        """Return the seconds to wait before the next attempt, None to give up.

        The provider's own wish wins, unless a person would wait too long: then the chain of models, or the person,
        decides what to do.
        """
        if not error.retryable or failures >= self.attempts:
            return None
        asked = error.retry_after_seconds
        if asked is None:
            wait = min(self.first_wait_seconds * 2.0 ** (failures - 1), self.longest_wait_seconds)
            wait *= random.uniform(0.75, 1.25)  # noqa: S311 - spreads retries, guards nothing
        else:
            wait = asked + random.uniform(0, 0.1)  # noqa: S311
        too_long = wait > self.longest_wait_seconds * 1.25 or elapsed_seconds + wait > self.give_up_after_seconds
        return None if too_long else wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Timeouts for each stage of an answer."""

    connect_seconds: float = 10.0
    first_byte_seconds: float = 120.0  # of a streamed answer: the model reads the prompt and thinks
    idle_seconds: float = 60.0  # between two pieces of a stream
    whole_seconds: float = 900.0  # one attempt in all, and the only bound on an answer that is not streamed
