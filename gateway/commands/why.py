"""`/why`: what became of a message, asked in the chat where it was said."""

from gateway.clock import now_ms
from gateway.commands.registry import CommandCall, CommandReply, CommandSpec
from gateway.store import tracing
from gateway.store.connection import Transaction
from gateway.tracing import NOT_LET_IN, UNADDRESSED, UNKNOWN, GatewayState, chat_lines, refused

_NOTHING_YET = "Nothing has been said to me in this conversation yet."


def why(tx: Transaction, call: CommandCall) -> CommandReply:
    """The message that it replies to, or else the last one before it; never one of another chat."""
    account, chat = call.key.account_name, call.key.chat
    found = None
    # On Slack whatever is said in a thread replies to the message that opened it, and means none in particular.
    if call.about in ("", call.key.thread):
        found = tracing.newest_message(tx, str(call.key))
    if found is None and call.about:
        found = tracing.of_message(tx, account, chat, call.about)
    trace = tracing.read(tx, found) if found is not None else None
    if trace is not None and trace.user == call.key.user:
        return CommandReply(text="\n".join(chat_lines(trace, now_ms(), GatewayState())))
    return CommandReply(text=_untaken(tx, call) if call.about else _NOTHING_YET)


def _untaken(tx: Transaction, call: CommandCall) -> str:
    place = call.key.account_name, call.key.chat, call.about
    if tracing.was_overheard(tx, *place):
        return UNADDRESSED
    refusal = tracing.refusal_of(tx, *place)
    if refusal is None:
        return UNKNOWN
    return refused(refusal) if call.role == "owner" else NOT_LET_IN  # why not is between them and the owner


WHY_COMMANDS = (
    CommandSpec(
        name="why",
        category="Session",
        description="Show what became of the message you reply to, or of the last one",
        run=why,
        places=frozenset({"chat"}),
    ),
)
