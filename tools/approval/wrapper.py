"""A call that could do harm waits for a human's yes: a wrapper around a tool, so the loop knows nothing of it.

The question is put before the call begins, and once more when it does: what was approved while it waited must be what
is done. Whoever calls the tool, the loop, a script or another tool, comes through here.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

from tools.approval.gate import NobodyNeedsToBeAsked, NotApproved, Question, bound_to, refusal
from tools.arguments import parse_object
from tools.base import Tool, ToolContext, ToolOutput
from tools.errors import BadArguments

About = Callable[[dict[str, object], ToolContext], Awaitable[Question | None]]
"""What to ask about a call with these arguments; None when nothing speaks against it. Raises ToolFailed."""

_NEVER = "This is never done, whoever asks for it."
_MAX_SHOWN_CHARS = 8_000
_TOO_LONG = f"A human reads all of it first, and this has more than {_MAX_SHOWN_CHARS:,} characters. Say it shorter."


def needs_approval(tool: Tool, about: About) -> Tool:
    """The tool, asking first whatever `about` finds."""

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
    """The tool, asking an owner before every call. `why` is a clause: "it changes the production board".

    A yes is good for this once, and for these arguments: what others would bring about nobody here can know.
    """

    async def about(arguments: dict[str, object], context: ToolContext) -> Question:
        action = f"{tool.name} {json.dumps(arguments, ensure_ascii=False, indent=2)}" if arguments else tool.name
        question = Question(tool=tool.name, action=action, reasons=(why,), binding=bound_to(tool.name, arguments))
        if len(action) > _MAX_SHOWN_CHARS and not isinstance(context.gate, NobodyNeedsToBeAsked):
            raise NotApproved(refusal(question, _TOO_LONG))
        return question

    return needs_approval(tool, about)
