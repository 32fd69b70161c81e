"""Wrap a tool so that risky calls wait for a human's approval.

The question is asked before the call begins and checked again when it does: the approved call must be the one that
runs. Every caller of the tool, be it the loop, a script or another tool, comes through here.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

from tools.approval.gate import NobodyNeedsToBeAsked, NotApproved, Question, bound_to, refusal
from tools.arguments import parse_object
from tools.base import Tool, ToolContext, ToolOutput
from tools.errors import BadArguments

About = Callable[[dict[str, object], ToolContext], Awaitable[Question | None]]
"""Returns the question about a call with these arguments, None when it needs no approval. Raises ToolFailed."""

_NEVER = "This is never allowed, whoever asks for it."
_MAX_SHOWN_CHARS = 8_000
_TOO_LONG = f"A human must read all of it, and it has more than {_MAX_SHOWN_CHARS:,} characters. Make it shorter."


def needs_approval(tool: Tool, about: About) -> Tool:
    """Return the tool with approval of the calls for which `about` returns a question."""

    async def question(arguments: str, context: ToolContext) -> Question | None:
        try:
            given = parse_object(arguments)
        except BadArguments:
            return None  # the tool itself says what is wrong with them
        found = await about(given, context)
        if found is not None and found.is_blocked:
            raise NotApproved(refusal(found, _NEVER))
        return found

    async def admit(arguments: str, context: ToolContext) -> None:
        await tool.admit(arguments, context)
        if (found := await question(arguments, context)) is not None:
            await context.gate.ask(found, context.call_id)

    async def run(arguments: str, context: ToolContext) -> ToolOutput:
        if (found := await question(arguments, context)) is not None:
            await context.gate.use(found, context.call_id)
        return await tool.run(arguments, context)

    return replace(tool, admit=admit, run=run)


def asks_first(tool: Tool, why: str) -> Tool:
    """Return the tool with approval of every call by an owner. `why` is a clause: "it changes the production board".

    An approval is good once, for these arguments: the effect of others cannot be known here.
    """

    async def about(arguments: dict[str, object], context: ToolContext) -> Question:
        action = f"{tool.name} {json.dumps(arguments, ensure_ascii=False, indent=2)}" if arguments else tool.name
        question = Question(tool=tool.name, action=action, reasons=(why,), binding=bound_to(tool.name, arguments))
        if len(action) > _MAX_SHOWN_CHARS and not isinstance(context.gate, NobodyNeedsToBeAsked):
            raise NotApproved(refusal(question, _TOO_LONG))
        return question

    return needs_approval(tool, about)
