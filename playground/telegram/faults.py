"""What can go wrong with what Telegram sends by itself, and its words for a call that fails."""

from typing import Literal, get_args

from playground.faults import CallKind, Fault
from playground.telegram.rules import Refused

UpdateKind = Literal[
    "duplicate",  # an update comes twice in a row with one id
    "duplicate_later",  # an update comes once more with the same id after it was confirmed
    "duplicate_new_id",  # an update comes twice with two ids
]
UPDATE_KINDS: tuple[str, ...] = get_args(UpdateKind)
Kind = CallKind | UpdateKind


def refused(fault: Fault) -> Refused:
    status, seconds = fault.failure_status, int(fault.retry_after)
    words = {429: f"Too Many Requests: retry after {seconds}", 502: "Bad Gateway"}
    description = fault.description or words.get(status, "Internal Server Error")
    parameters = ({"retry_after": seconds} if seconds else {}) | fault.extra
    return Refused(status, description, **parameters)
