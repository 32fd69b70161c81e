"""Commands about the conversation itself."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

from gateway.clock import now_ms
from gateway.commands.registry import Answer, CommandCall, CommandReply, CommandSpec
from gateway.commands.wording import age, quote
from gateway.messages import Choice, Sender
from gateway.processes.messages import listing
from gateway.store import compactions, delegations, inbox, processes, sessions, turns
from gateway.store.db.connection import Transaction
from gateway.store.sessions import Session, title_of
from gateway.wording import count, shorten

_SEARCHED = 1_000
_COMPARED, _COMPARED_CHARS = 200, 80  # titles, and the start of a name: commands run while nobody else can write
_TARGET_TOKENS, _LEAST_TOKENS, _MOST_TOKENS = 50_000, 1_000, 10_000_000
_SHOWN = 5
_LABEL_CHARS = 40
_STOP_ALL = "/stop all ends them"


def new(tx: Transaction, call: CommandCall) -> str:
    key = str(call.key)
    stopped = _stop_for_another(tx, key)
    ended = sessions.end_current(tx, key, reason="new")
    sessions.dismiss_end(tx, key)
    # They came before the command, but no turn has taken them: they are answered, and from here on in the new one.
    waiting = inbox.count_waiting(tx, key)
    begins = "the waiting message" if waiting == 1 else f"the {waiting} waiting messages"
    text = f"{stopped}A new conversation begins with {begins if waiting else 'your next message'}."
    return text + (" The old one can still be read and searched." if ended else "")


def resume(tx: Transaction, call: CommandCall) -> Answer:
    """By id, by the beginning of one, or by words of the title; only within this chat."""
    found = sessions.list_ended(tx, str(call.key), limit=_SEARCHED)
    if not call.arguments:
        return _offer(found, "Conversations to go back to:")
    matching = _find_matching(found, call.arguments)
    if not matching:
        return _offer_nearest(found, call.arguments)
    if len(matching) > 1:
        return _offer(matching, f"Several conversations match {quote(call.arguments)}.")
    return _resume(tx, call, matching[0])


def list_all(tx: Transaction, call: CommandCall) -> Answer:
    """List the conversations of this chat, or those whose titles have the given words."""
    current = sessions.find_current(tx, str(call.key))
    found = sessions.list_ended(tx, str(call.key), limit=_SEARCHED)
    if call.arguments:
        matching = _find_matching(found, call.arguments)
        if not matching:
            return _offer_nearest(found, call.arguments)
        return _offer(matching, f"Earlier conversations that match {quote(call.arguments)}:")
    here = (
        f"Current: {current.title or '(no title yet)'} ({current.id})." if current else "No conversation is open now."
    )
    if not found:
        return f"{here} There are no others." if current else "This chat has no conversations yet."
    return _offer(found, f"{here}\nEarlier ones, most recent first:")


def title(tx: Transaction, call: CommandCall) -> str:
    session = sessions.find_current(tx, str(call.key))
    if session is None:
        return "No conversation is open. Send a message first, then give it a title."
    if not call.arguments:
        now = f"is called {quote(session.title)}" if session.title else "has no title yet"
        return f"This conversation {now}. Change that with /title TEXT."
    new = title_of(call.arguments)
    sessions.set_title(tx, session.id, new, replace=True)
    return f"This conversation is now called {quote(new)}."


def continue_old(tx: Transaction, call: CommandCall) -> Answer:
    """The button below the notice that a conversation has ended, and those below the list of old ones."""
    found = sessions.find(tx, call.arguments)
    if found is None or (found.id, found.key) != (call.arguments, str(call.key)):
        # Not in place: in a group the list may be somebody else's, who still needs it.
        return "That conversation no longer exists."
    if found.ended_ms is None:
        return CommandReply("You are in that conversation already.", in_place=True)
    return CommandReply(_resume(tx, call, found), in_place=True)


def stop(tx: Transaction, call: CommandCall) -> str:
    key = str(call.key)
    is_stopped = turns.request_stop(tx, key)
    running = len(processes.read_running_in(tx, call.processes_of or key, by=_whose(call)))
    prompts = len(turns.list_in_background(tx, call.key, by=_whose(call)))
    counts = [count(running, "background process", "background processes")] if running else []
    counts += [count(prompts, "background prompt")] if prompts else []
    in_background = " and ".join(counts)
    if in_background and call.arguments.lower() == "all":
        processes.request_end(tx, call.processes_of or key, by=_whose(call))
        turns.request_stop_in_background(tx, call.key, by=_whose(call))
        return f"{'Stopped. ' if is_stopped else ''}Ending {in_background}."
    if not is_stopped:
        rest = f" but {in_background}; {_STOP_ALL}" if in_background else ""
        return f"Nothing is running{rest}."
    return f"Stopped.{_what_comes_next(tx, key)}"


def status(tx: Transaction, call: CommandCall) -> str:
    session = sessions.find_current(tx, str(call.key))
    chosen = sessions.read_settings(tx, session.id).model if session is not None else ""
    lines = [f"Model: {chosen or call.model}"]
    if session is None:
        lines.append("No conversation yet: it begins with your next message.")
    else:
        lines.append(f"Session: {session.id}" + (f", {session.title}" if session.title else ""))
        lines.append(f"Tokens: {session.input_tokens:,} in, {session.output_tokens:,} out")
    if turns.is_running(tx, str(call.key)):
        lines.append("A turn is running; /stop ends it.")
        lines += [
            f"- task {task['position']}: {task['title']} ({count(task['steps'], 'step')}, {task['tokens']:,} tokens)"
            for task in delegations.list_open(tx, str(call.key))
        ]
    if waiting := inbox.count_waiting(tx, str(call.key)):
        lines.append(f"Waiting: {waiting}")
    started = processes.read_running_in(tx, call.processes_of or str(call.key), by=_whose(call))
    prompts = turns.list_in_background(tx, call.key, by=_whose(call))
    if started or prompts:
        lines.append(f"In the background ({_STOP_ALL}):")
        lines += [f"- {listing(process, now_ms())}" for process in started]
        lines += [f"- prompt {quote(prompt)}" for prompt in prompts]
    return "\n".join(lines)


def compress(tx: Transaction, call: CommandCall) -> Answer:
    """In a chat it becomes an inbox row: summaries take time, and no turn may run meanwhile."""
    target = _read_tokens(call.arguments) if call.arguments else _TARGET_TOKENS
    if target is None:
        return "Give the target in tokens, such as /compress 20000 or /compress 20k."
    session = sessions.find_current(tx, str(call.key))
    if session is None or tx.one("SELECT 1 FROM messages WHERE session_id = ?", session.id) is None:
        return "There is nothing to compress yet: this conversation has not begun."
    if call.place == "cli":
        return CommandReply("", compress_to=target)
    sender = Sender(id=call.sender_id, name=call.sender_name)
    wanted = compactions.order(call.key, sender, message_id=call.message_id, target_tokens=target)
    inbox.insert(tx, wanted, person_id=call.person_id, role=call.role)
    return "Summarising the older messages. This may take a minute; I will say when it is done."


def _read_tokens(text: str) -> int | None:
    found = re.fullmatch(r"(\d[\d,._]{0,12})(k?)", text.strip().lower())
    if found is None:
        return None
    tokens = int(re.sub(r"[,._]", "", found[1])) * (1_000 if found[2] else 1)
    return tokens if _LEAST_TOKENS <= tokens <= _MOST_TOKENS else None


def _whose(call: CommandCall) -> str:
    """In a group everybody's processes are their own; an owner's word counts for all of them."""
    return "" if call.role == "owner" else call.sender_id


def _find_matching(found: Sequence[Session], name: str) -> list[Session]:
    if by_id := [session for session in found if session.id.startswith(name)]:
        return by_id
    words = name.casefold().split()
    by_title = [session for session in found if all(word in session.title.casefold() for word in words)]
    exact = [session for session in by_title if session.title.casefold() == name.casefold()]
    return exact or by_title


def _offer_nearest(found: Sequence[Session], name: str) -> Answer:
    """Offer the conversations whose titles are most like a name that none has, or else all."""

    def count_similar_words(session: Session) -> int:
        words = session.title.casefold().split()
        return sum(bool(get_close_matches(word, words, n=1, cutoff=0.7)) for word in wanted)

    wanted = name[:_COMPARED_CHARS].casefold().split()
    near = {session.id: count for session in found[:_COMPARED] if (count := count_similar_words(session))}
    if not near:
        return _offer(found, f"No conversation matches {quote(name)}. These exist:")
    ranked = sorted((one for one in found if one.id in near), key=lambda one: -near[one.id])
    return _offer(ranked, f"No conversation matches {quote(name)}. Did you mean one of these?")


def _offer(found: Sequence[Session], heading: str) -> Answer:
    if not found:
        return "There is no old conversation in this chat."
    shown = found[:_SHOWN]
    lines = [f"{session.id}  {age(session.updated_ms)}  {session.title or '(no title)'}" for session in shown]
    text = "\n".join([heading, *lines, "Send /resume and an id or words of the title."])
    choices = tuple(
        Choice(label=shorten(session.title or session.id, _LABEL_CHARS), action=f"continue:{session.id}")
        for session in shown
    )
    return CommandReply(text, choices=choices)


def _resume(tx: Transaction, call: CommandCall, session: Session) -> str:
    key = str(call.key)
    stopped = _stop_for_another(tx, key)
    sessions.resume(tx, key, session.id)
    name = f"“{session.title}”" if session.title else session.id
    text = f"{stopped}You are back in {name}, last used {age(session.updated_ms)}. /resume takes you to the others."
    return text + _what_comes_next(tx, key)


def _stop_for_another(tx: Transaction, key: str) -> str:
    """Stop what runs in a conversation that is left for another; return the sentence that says so, if anything did."""
    current = sessions.find_current(tx, key)
    is_stopped = turns.request_stop(tx, key) or (current is not None and turns.is_superseded(tx, current.id))
    return "Stopped what I was doing. " if is_stopped else ""


def _what_comes_next(tx: Transaction, key: str) -> str:
    waiting = inbox.count_waiting(tx, key)
    return f" {waiting} waiting {'message comes' if waiting == 1 else 'messages come'} next." if waiting else ""


SESSION_COMMANDS = (
    CommandSpec("new", "Session", "Start a new conversation", new, aliases=("reset",)),
    CommandSpec("resume", "Session", "Go back to an old conversation", resume, "[id or title]"),
    CommandSpec("sessions", "Session", "List the conversations of this chat", list_all, "[words of a title]"),
    CommandSpec("title", "Session", "Show or change the title of this conversation", title, "[text]"),
    CommandSpec("compress", "Session", "Summarise the older messages of this conversation", compress, "[tokens]"),
    CommandSpec("stop", "Session", "Stop the running turn; all: also what runs in the background", stop, "[all]"),
    CommandSpec("status", "Session", "Show model, session and tokens used", status),
)
