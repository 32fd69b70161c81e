"""Commands about how the agent works in this conversation."""

from gateway.commands.registry import CommandCall, CommandReply, CommandSpec
from gateway.messages import TOOL_PROGRESS_MODES, parse_tool_progress_mode
from gateway.store import sessions
from gateway.store.db.connection import Transaction

_NOT_FOR_GUESTS = "Only owners and members can change this here, because everyone in the group sees tool results."
_TOLD = {
    "off": "Tool calls are not shown.",
    "new": "A tool is shown once, and again after another was used.",
    "all": "Every tool call is shown.",
    "verbose": "Every tool call is shown with its result.",
}


def verbose(tx: Transaction, call: CommandCall) -> CommandReply:
    """In this conversation, while an answer is made; without an argument everything is shown."""
    if call.role == "guest" and not call.key.is_private:  # an owner's tools may be at work here, too
        return CommandReply(text=_NOT_FOR_GUESTS)
    mode = parse_tool_progress_mode(call.arguments.lower() or "verbose")
    if mode is None:
        return CommandReply(text=f"There is no such mode. Use /verbose {'|'.join(TOOL_PROGRESS_MODES)}.")
    session = sessions.open_current(tx, call.key, display_name=call.sender_name)
    sessions.set_verbosity(tx, session.id, mode)
    return CommandReply(text=f"{_TOLD[mode]} This lasts until the next /new.")


AGENT_COMMANDS = (
    CommandSpec(
        name="verbose",
        category="Agent",
        description="Choose how much to show of tool use",
        argument_hint="|".join(TOOL_PROGRESS_MODES),
        run=verbose,
        places=frozenset({"chat"}),
    ),
)
