"""Commands about the conversation itself."""

from gateway.commands.registry import CommandCall, CommandReply, CommandSpec
from gateway.store import inbox, sessions, turns
from gateway.store.connection import Transaction


def new(tx: Transaction, call: CommandCall) -> CommandReply:
    key = str(call.key)
    was_running = turns.request_stop(tx, key)
    ended = sessions.end_current(tx, key, reason="new")
    text = "A new conversation begins with your next message." + (
        " The old one can still be read and searched." if ended else ""
    )
    return CommandReply(text=text, stops_turn=was_running)


def stop(tx: Transaction, call: CommandCall) -> CommandReply:
    if not turns.request_stop(tx, str(call.key)):
        return CommandReply(text="Nothing is running.")
    waiting = inbox.waiting(tx, str(call.key))
    rest = f" {waiting} waiting {'message comes' if waiting == 1 else 'messages come'} next." if waiting else ""
    return CommandReply(text=f"Stopped.{rest}", stops_turn=True)


def status(tx: Transaction, call: CommandCall) -> CommandReply:
    session = sessions.find_current(tx, str(call.key))
    lines = [f"Model: {call.model}"]
    if session is None:
        lines.append("No conversation yet: it begins with your next message.")
    else:
        lines.append(f"Session: {session.id}" + (f", {session.title}" if session.title else ""))
        lines.append(f"Tokens: {session.input_tokens:,} in, {session.output_tokens:,} out")
    if turns.is_running(tx, str(call.key)):
        lines.append("A turn is running; /stop ends it.")
    if waiting := inbox.waiting(tx, str(call.key)):
        lines.append(f"Waiting: {waiting}")
    return CommandReply(text="\n".join(lines))


SESSION_COMMANDS = (
    CommandSpec(name="new", aliases=("reset",), category="Session", description="Start a new conversation", run=new),
    CommandSpec(name="stop", category="Session", description="Stop what is running", run=stop),
    CommandSpec(name="status", category="Session", description="Show model, session and tokens used", run=status),
)
