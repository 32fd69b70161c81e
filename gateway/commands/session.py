"""Commands about the conversation itself."""

from collections.abc import Sequence
from dataclasses import replace

from gateway.clock import now_ms
from gateway.commands.registry import CommandCall, CommandReply, CommandSpec
from gateway.messages import Choice
from gateway.processes.messages import listing
from gateway.store import inbox, processes, sessions, turns
from gateway.store.db.connection import Transaction
from gateway.store.sessions import Session

_SEARCHED = 1_000
_SHOWN = 5
_LABEL_CHARS = 40
_STOP_ALL = "/stop all ends them"


def new(tx: Transaction, call: CommandCall) -> CommandReply:
    key = str(call.key)
    stopped = _stop_for_another(tx, key)
    ended = sessions.end_current(tx, key, reason="new")
    sessions.dismiss_end(tx, key)
    # They came before the command, but no turn has taken them: they are answered, and from here on in the new one.
    waiting = inbox.count_waiting(tx, key)
    begins = "the waiting message" if waiting == 1 else f"the {waiting} waiting messages"
    text = f"{stopped}A new conversation begins with {begins if waiting else 'your next message'}."
    return CommandReply(text=text + (" The old one can still be read and searched." if ended else ""))


def resume(tx: Transaction, call: CommandCall) -> CommandReply:
    """By id, by the beginning of one, or by words of the title; only within this chat."""
    found = sessions.list_ended(tx, str(call.key), limit=_SEARCHED)
    if not call.arguments:
        return _offer(found, "Conversations to go back to:")
    fitting = _fitting(found, call.arguments)
    if len(fitting) != 1:
        return _offer(fitting, f"Several fit {call.arguments[:60]!r}:") if fitting else _offer(found, "None fits that.")
    return _take_up(tx, call, fitting[0])


def continue_old(tx: Transaction, call: CommandCall) -> CommandReply:
    """The button below the notice that a conversation has ended, and those below the list of old ones."""
    found = sessions.find(tx, call.arguments)
    if found is None or (found.id, found.key) != (call.arguments, str(call.key)):
        # Not in place: in a group the list may be somebody else's, who still needs it.
        return CommandReply(text="That conversation no longer exists.")
    if found.ended_ms is None:
        return CommandReply(text="You are in that conversation already.", in_place=True)
    return replace(_take_up(tx, call, found), in_place=True)


def stop(tx: Transaction, call: CommandCall) -> CommandReply:
    key = str(call.key)
    is_stopped = turns.request_stop(tx, key)
    left = len(processes.read_running_in(tx, call.processes_of or key, by=_whose(call)))
    in_background = f"{left} background {'process' if left == 1 else 'processes'}"
    if left and call.arguments.lower() == "all":
        processes.request_end(tx, call.processes_of or key, by=_whose(call))
        return CommandReply(text=f"{'Stopped. ' if is_stopped else ''}Ending {in_background}.")
    if not is_stopped:
        rest = f" but {in_background}; {_STOP_ALL}" if left else ""
        return CommandReply(text=f"Nothing is running{rest}.")
    return CommandReply(text=f"Stopped.{_what_comes_next(tx, key)}")


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
    if waiting := inbox.count_waiting(tx, str(call.key)):
        lines.append(f"Waiting: {waiting}")
    if started := processes.read_running_in(tx, call.processes_of or str(call.key), by=_whose(call)):
        lines.append(f"In the background ({_STOP_ALL}):")
        lines += [f"- {listing(process, now_ms())}" for process in started]
    return CommandReply(text="\n".join(lines))


def _whose(call: CommandCall) -> str:
    """In a group everybody's processes are their own; an owner's word counts for all of them."""
    return "" if call.role == "owner" else call.sender_id


def _fitting(found: Sequence[Session], name: str) -> list[Session]:
    if by_id := [session for session in found if session.id.startswith(name)]:
        return by_id
    words = name.casefold().split()
    by_title = [session for session in found if all(word in session.title.casefold() for word in words)]
    exact = [session for session in by_title if session.title.casefold() == name.casefold()]
    return exact or by_title


def _offer(found: Sequence[Session], heading: str) -> CommandReply:
    if not found:
        return CommandReply(text="There is no old conversation in this chat.")
    shown = found[:_SHOWN]
    lines = [f"{session.id}  {_age(session)}  {session.title or '(no title)'}" for session in shown]
    text = "\n".join([heading, *lines, "Send /resume and an id or words of the title."])
    choices = tuple(Choice(label=_label(session), action=f"continue:{session.id}") for session in shown)
    return CommandReply(text=text, choices=choices)


def _take_up(tx: Transaction, call: CommandCall, session: Session) -> CommandReply:
    key = str(call.key)
    stopped = _stop_for_another(tx, key)
    sessions.resume(tx, key, session.id)
    name = f"“{session.title}”" if session.title else session.id
    text = f"{stopped}You are back in {name}, last used {_age(session)}. /resume takes you to the others."
    return CommandReply(text=text + _what_comes_next(tx, key))


def _stop_for_another(tx: Transaction, key: str) -> str:
    """Stop what runs in a conversation that is left for another; return the sentence that says so, if anything did."""
    current = sessions.find_current(tx, key)
    is_stopped = turns.request_stop(tx, key) or (current is not None and turns.is_superseded(tx, current.id))
    return "Stopped what I was doing. " if is_stopped else ""


def _what_comes_next(tx: Transaction, key: str) -> str:
    waiting = inbox.count_waiting(tx, key)
    return f" {waiting} waiting {'message comes' if waiting == 1 else 'messages come'} next." if waiting else ""


def _label(session: Session) -> str:
    title = session.title or session.id
    return title if len(title) <= _LABEL_CHARS else title[: _LABEL_CHARS - 1] + "…"


def _age(session: Session) -> str:
    minutes = max(0, now_ms() - session.updated_ms) // 60_000
    for size, unit in ((1_440, "day"), (60, "hour"), (1, "minute")):
        if count := minutes // size:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


SESSION_COMMANDS = (
    CommandSpec(name="new", aliases=("reset",), category="Session", description="Start a new conversation", run=new),
    CommandSpec(
        name="resume",
        category="Session",
        description="Go back to an old conversation",
        run=resume,
        argument_hint="[id or title]",
    ),
    CommandSpec(
        name="stop",
        category="Session",
        description="Stop the running turn; all: also background processes",
        run=stop,
        argument_hint="[all]",
    ),
    CommandSpec(name="status", category="Session", description="Show model, session and tokens used", run=status),
)
