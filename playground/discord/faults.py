"""What can go wrong with what Discord sends by itself, and its words for a call that fails."""

from typing import Literal, get_args

from playground.discord.rules import Refused, too_many_requests
from playground.faults import CallKind, Fault

EventKind = Literal[
    "duplicate",  # an event comes twice, with two numbers
    "drop",  # an event is never sent, nor sent again after a resume
    "delay",  # an event, and all after it, comes after `seconds`
    "cut_gateway",  # the connection is cut in place of the event, which comes again after a resume
    "close_gateway",  # the same, closed in order with the code `status`
]
EVENT_KINDS: tuple[str, ...] = get_args(EventKind)
Kind = CallKind | EventKind


def refused(fault: Fault) -> Refused:
    """`extra` may hold `code`, `errors` and `global`."""
    status, extra = fault.failure_status, dict(fault.extra)
    if status == 429:
        return too_many_requests(fault.retry_after, everywhere=bool(extra.get("global")))
    words = {401: "401: Unauthorized", 404: "404: Not Found", 502: "502: Bad Gateway", 503: "503: Service Unavailable"}
    message = fault.description or words.get(status, f"{status}: Internal Server Error")
    return Refused(status, extra.get("code", 0), message, extra.get("errors"))
