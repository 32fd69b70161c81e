"""A million guesses at approvals and at invites: how few of them are ever looked at."""

from itertools import cycle

import pytest

from gateway.policies.pairing import ALPHABET, CODE_CHARS
from gateway.store import pairing
from gateway.store.db.connection import Transaction
from tests.gateway.store.conftest import Clock
from tests.gateway.store.strangers import LIMITS, asks, saying, stranger
from tests.thorough import a_few_of

GUESSES = a_few_of([20_000, 500_000], 1)  # at each of the two doors
DAYS = 5
CODES = len(ALPHABET) ** CODE_CHARS


@pytest.mark.slow  # half a million transactions
@pytest.mark.parametrize("guesses", GUESSES)
def test_endless_wrong_approvals_get_five_tries_an_hour(
    tx: Transaction, clock: Clock, hashed: list[str], guesses: int
) -> None:
    """Even an owner's stolen chat cannot find the code of an accomplice."""
    step_ms, begun, hour = DAYS * 86_400_000 // guesses, clock.ms, -1
    for _ in range(guesses):
        if (clock.ms - begun) // 3_600_000 > hour:  # somebody always waits
            hour += 1
            asks(tx, str(hour))
            hashed.pop()
        pairing.approve(tx, "telegram", "22222222", "member", LIMITS, by="test")
        clock.ms += step_ms
    a_day = len(hashed) / DAYS
    assert 100 < a_day <= 24 * LIMITS.max_failures
    assert a_day * 365 * LIMITS.max_pending / CODES < 1e-6, "the chance to hit any of the pending codes in a year"
    assert tx.count("SELECT COUNT(*) FROM pairing_failures") <= 2 * LIMITS.max_failures


@pytest.mark.slow  # half a million transactions
@pytest.mark.parametrize("guesses", GUESSES)
def test_endless_guessed_invites_get_fifty_tries_an_hour(
    tx: Transaction, clock: Clock, hashed: list[str], guesses: int
) -> None:
    """From as many senders as one likes."""
    step_ms, begun, hour = DAYS * 86_400_000 // guesses, clock.ms, -1
    senders = cycle([saying(stranger(str(number)), "22222222") for number in range(1000)])
    for _ in range(guesses):
        if (clock.ms - begun) // 3_600_000 > hour:
            hour += 1
            pairing.invite(tx, "telegram", "member", LIMITS, by="test")
            hashed.pop()
        assert pairing.redeem(tx, next(senders), LIMITS) is None
        clock.ms += step_ms
    a_day = len(hashed) / DAYS
    assert 1000 < a_day <= 24 * LIMITS.max_guesses
    assert a_day * 365 / CODES < 1e-6, "the chance to hit an invite that is always open in a year"
    assert tx.count("SELECT COUNT(*) FROM pairing_failures") <= 3 * LIMITS.max_guesses
