"""A tool: a name, typed parameters, and an async function.

A tool raises `ToolFailed` for a failure it expects; its text goes to the model.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tools.approval.gate import Gate, NobodyToAsk
from tools.backends.base import Workplace
from tools.content import Media, Part
from tools.errors import BadArguments as BadArguments
from tools.errors import ToolFailed as ToolFailed
from tools.provenance import UNKNOWN_TOOL, Provenance, nothing_heard

if TYPE_CHECKING:
    from tools.delegated import Delegate, Panel

ToolOutput = str | Mapping[str, Any] | list[Any] | tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """The surroundings of a tool call."""

    task_id: str  # the session, or the batch task: tools keep their state per task
    call_id: str = ""  # filled in for each call
    timezone: str = ""  # IANA name; empty means the machine's
    workplace: Workplace | None = None  # where files are and commands run; None: nowhere
    user_wrote: asyncio.Event | None = None  # set while a message waits: a call that only waits returns
    gate: Gate = field(default_factory=NobodyToAsk)  # asks a human before a risky call
    heard: Callable[[], Provenance] = nothing_heard  # reads the conversation up to the call
    ask: Callable[[str], Awaitable[str]] | None = (
        None  # asks a model a question of its own; whoever pays for the turn pays
    )
    see: Callable[[Media, str], Awaitable[str]] | None = None  # asks a model that sees about a stored picture
    tools: "Mapping[str, Tool]" = field(default_factory=dict)  # all of the turn; filled in for each call
    call: Callable[[str, str], Awaitable[tuple[str, bool]]] | None = None
    """Calls another tool of the turn on behalf of this call, by its name and arguments; returns its result as the model
    would read it, and whether it is a failure. Filled in for each call."""
    report: Callable[[str], None] = lambda line: None  # shows a line about the call while it runs; filled in as well
    delegate: "Delegate | None" = None  # has tasks done by agents of their own
    panel: "Panel | None" = None  # several models to ask at once


def workplace_of(context: ToolContext) -> Workplace:
    """Return the workplace of a call; raises ToolFailed where there is none."""
    if context.workplace is None:
        raise ToolFailed("There is no workplace here: this conversation has no files and no commands.")
    return context.workplace


class _Absent:
    def __init__(self, problem: str) -> None:
        self._problem = problem

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked for by copy and the like
            raise AttributeError(name)

        async def fail(*_: object, **__: object) -> None:
            raise ToolFailed(self._problem)

        return fail


def absent(problem: str) -> Any:
    """Return a stand-in for what only a gateway has: each method is a coroutine that raises ToolFailed."""
    return _Absent(problem)


async def _admit(arguments: str, context: ToolContext) -> None:
    """Let every call begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that a model can call."""

    name: str
    toolset: str
    description: str
    schema: Mapping[str, Any]  # JSON Schema of the parameters
    run: Callable[[str, ToolContext], Awaitable[ToolOutput]]
    """Takes the arguments as the model wrote them; raises BadArguments or ToolFailed."""
    admit: Callable[[str, ToolContext], Awaitable[None]] = _admit
    """Waits until the call may begin, perhaps for a human; raises ToolFailed when it may not. `run` checks again."""
    unavailable: Callable[[], str] = lambda: ""
    """Returns why the tool cannot be used now, for the operator; empty when it can."""
    requires_env: tuple[str, ...] = ()
    needs_workplace: bool = False  # not offered where there is none
    for_guests: bool = True  # offered in turns of guests, too
    only_waits: Callable[[str], bool] = lambda arguments: False
    """Returns whether a call with these arguments only waits: then it takes no slot from others."""
    continues: bool = False  # stores its own progress: a call that a restart interrupted is run again and goes on
    brings: str = UNKNOWN_TOOL  # the origin of its results (tools/provenance.py); empty when all in them is our own
