"""One turn: ask the model, run the tools, repeat until there is an answer."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

from agent_core.compactor import Asking, AskWhole
from agent_core.conversation import Journal, Message, assistant, user
from agent_core.events import Done, Emit, Restarted, ignore
from agent_core.history import SUMMARY_REQUEST, arrange, iterations_used, open_calls, with_unique_ids
from agent_core.model import Model
from agent_core.result import TurnOutcome
from agent_core.toolbox import Toolbox
from tools.base import Tool, ToolContext

Joining = Callable[[], Awaitable[Sequence[Message]]]
"""Returns the messages that came since the last call, already journalled."""


async def nobody_joins() -> Sequence[Message]:
    """Return nothing, for turns that no message joins."""
    return ()


Review = Callable[[Sequence[Message], Message], str]
"""Returns what is wrong with a final answer, given the messages of the turn before it; empty when nothing is."""


async def run_turn(
    *,
    model: Model,
    tools: Sequence[Tool],
    messages: Sequence[Message],
    journal: Journal,
    context: ToolContext,
    emit: Emit = ignore,
    max_iterations: int = 60,
    started: Collection[str] = (),
    tool_slots: asyncio.Semaphore | None = None,
    max_tool_runs: int = 8,
    max_result_chars: int = 100_000,
    joining: Joining = nobody_joins,
    asking: Asking | None = None,
    review: Review | None = None,
) -> TurnOutcome:
    """Continue the conversation to the assistant's next answer; raises ModelError.

    Every message is journalled as it happens except the final answer, which the caller commits together with the reply
    it sends. When `messages` ends in calls without results, an earlier process was cut off there: calls in `started`
    are reported to the model as interrupted, the others run. Cancelling is safe anywhere; the caller settles calls
    that it leaves without a result. A result longer than `max_result_chars` loses its middle. `joining` is called
    between the tools and the model. `asking` asks the model, and may shorten the conversation for that. An answer to
    which `review` objects is dropped, and the model tries once more.
    """
    toolbox = Toolbox(
        tools={tool.name: tool for tool in tools},
        journal=journal,
        context=context,
        emit=emit,
        slots=tool_slots,
        max_runs=max_tool_runs,
        max_result_chars=max_result_chars,
    )
    asking = asking or AskWhole()
    iterations = iterations_used(messages)
    new = await toolbox.run(open_calls(messages), messages, started=started)
    shown: Sequence[Message] = [*messages, *new]

    while iterations < max_iterations:
        if iterations and (joined := await joining()):
            # Steps count from the user's last message, as after a restart.
            new, shown, iterations = [*new, *joined], [*shown, *joined], 0
        shown, reply = await asking.ask(model, arrange(shown), tools, emit)
        reply = with_unique_ids(reply, shown)
        if not reply.tool_calls:
            objection = review(new, reply) if review else ""
            if not objection:
                break
            review = None
            emit(Restarted())
            shown = [*shown, reply, user(objection)]
            iterations += 1
            continue
        await journal.append(reply)
        results = await toolbox.run(reply.tool_calls, [*shown, reply])
        new, shown = [*new, reply, *results], [*shown, reply, *results]
        iterations += 1
    else:
        reply = await _summarize(asking, model, tools, arrange(shown), emit)

    finished_naturally = iterations < max_iterations
    emit(Done(finished_naturally=finished_naturally))
    return TurnOutcome(history=tuple(messages), messages=(*new, reply), finished_naturally=finished_naturally)


async def _summarize(
    asking: Asking, model: Model, tools: Sequence[Tool], conversation: Sequence[Message], emit: Emit
) -> Message:
    # The tools are passed all the same: some providers refuse a history with calls of tools that they do not know.
    _, reply = await asking.ask(model, [*conversation, SUMMARY_REQUEST], tools, emit, may_call=False)
    if not reply.text:
        return assistant(
            "I stopped here: this needs more steps than one turn may use. Send a message to continue.",
            reasoning=reply.reasoning,
        )
    return replace(reply, tool_calls=())  # some models call tools all the same
