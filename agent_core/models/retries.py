"""When a failed model call is tried again, and when it is given up."""

import random
from dataclasses import dataclass

from agent_core.model import ProviderError


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    attempts: int = 4  # in all
    first_wait_seconds: float = 1.0  # doubles each time
    longest_wait_seconds: float = 30.0
    give_up_after_seconds: float = 300.0  # no attempt begins later than this

    def wait_seconds(self, error: ProviderError, *, failures: int, elapsed_seconds: float) -> float | None:
        """How long to wait before the next attempt; None means give up.

        What the provider asks for wins, unless a person would be kept waiting too long: then it is for the
        chain of models, or for the person, to decide what to do meanwhile.
        """
        if not error.retryable or failures >= self.attempts:
            return None
        asked = error.retry_after_seconds
        wait = self._backoff(failures) if asked is None else asked + random.uniform(0, 0.1)  # noqa: S311 - spreads
        too_long = wait > self.longest_wait_seconds * 1.25 or elapsed_seconds + wait > self.give_up_after_seconds
        return None if too_long else wait

    def _backoff(self, failures: int) -> float:
        wait = min(self.first_wait_seconds * 2.0 ** (failures - 1), self.longest_wait_seconds)
        return wait * random.uniform(0.75, 1.25)  # noqa: S311 - spreads retries, guards nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for a server, at each stage of an answer."""

    connect_seconds: float = 10.0
    first_byte_seconds: float = 120.0  # of a streamed answer: thinking and reading the prompt
    idle_seconds: float = 60.0  # between two pieces of a stream
    whole_seconds: float = 900.0  # one attempt in all, and the only bound on an answer that is not streamed
