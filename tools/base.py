"""What a tool is: a name, typed parameters, and an async function.

A tool raises `ToolFailed` for a failure it foresaw; its text goes to the model.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.approval.gate import Gate, NobodyToAsk
from tools.backends.base import Workplace
from tools.content import Part
from tools.errors import BadArguments as BadArguments
from tools.errors import ToolFailed as ToolFailed
from tools.provenance import UNKNOWN_TOOL, Provenance, nothing_heard

ToolOutput = str | Mapping[str, Any] | list[Any] | tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a call may know about where it runs."""

    task_id: str  # the session, or the batch task: state that a tool keeps is kept per task
    call_id: str = ""  # filled in for each call
    timezone: str = ""  # IANA name; empty means the machine's
    workplace: Workplace | None = None  # where files are and commands run; None where there is no such place
    user_wrote: asyncio.Event | None = None  # set while a message waits behind this turn: a call that waits gives way
    gate: Gate = field(default_factory=NobodyToAsk)  # who is asked before a call does harm
    heard: Callable[[], Provenance] = nothing_heard  # what the conversation holds when the call is made


def workplace_of(context: ToolContext) -> Workplace:
    """Raises ToolFailed where there is none."""
    if context.workplace is None:
        raise ToolFailed("There is no workplace here: this conversation has neither files nor commands.")
    return context.workplace


async def _admitted(arguments: str, context: ToolContext) -> None:
    """Nothing speaks against it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str
    toolset: str
    description: str
    schema: Mapping[str, Any]  # JSON Schema of the parameters
    run: Callable[[str, ToolContext], Awaitable[ToolOutput]]
    """Takes the arguments as the model wrote them; raises BadArguments or ToolFailed."""
    admit: Callable[[str, ToolContext], Awaitable[None]] = _admitted
    """Waits until the call may begin, for a human perhaps; raises ToolFailed when it may not. `run` checks again."""
    unavailable: Callable[[], str] = lambda: ""
    """Why the tool cannot be used now, in words for the operator; empty when it can."""
    requires_env: tuple[str, ...] = ()
    needs_workplace: bool = False  # left out where a call would have none
    for_guests: bool = True  # offered in their turns, too
    only_waits: Callable[[str], bool] = lambda arguments: False
    """Whether a call with these arguments waits and does nothing else: then it keeps no other from running."""
    brings: str = UNKNOWN_TOOL  # the origin of its results (tools/provenance.py); empty when all in them is our own
