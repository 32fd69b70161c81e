"""`/reasoning`: how much the model thinks in this conversation, and what it thought."""

from gateway.commands.registry import CommandCall
from gateway.store import sessions, transcripts
from gateway.store.db.connection import Transaction
from tools.content import cut_middle

EFFORTS = ("none", "minimal", "low", "medium", "high", "default")
_MAX_CHARS = 3_000
_NOT_FOR_GUESTS = "Only owners and members can use this here, because thoughts may quote what tools have read."


def reasoning(tx: Transaction, call: CommandCall) -> str:
    """Without an argument: the thoughts behind the last answer, and what is set."""
    if call.is_guest_in_group:
        return _NOT_FOR_GUESTS
    wanted = call.arguments.lower()
    if not wanted:
        return _show(tx, call)
    if wanted not in (*EFFORTS, "show", "hide"):
        return f"There is no such level. Use /reasoning {'|'.join(EFFORTS)}, show or hide."
    session = sessions.open_current(tx, call.key, display_name=call.sender_name)
    if wanted in ("show", "hide"):
        sessions.change_settings(tx, session.id, show_reasoning=wanted == "show")
        text = "Answers come with the model's thoughts." if wanted == "show" else "Thoughts are hidden."
    else:
        sessions.change_settings(tx, session.id, reasoning="" if wanted == "default" else wanted)
        text = f"Reasoning effort: {wanted}. A model that has no such setting ignores it."
    return f"{text} This lasts until the next /new."


def _show(tx: Transaction, call: CommandCall) -> str:
    session = sessions.find_current(tx, str(call.key))
    if session is None:
        return "There is no answer in this conversation yet."
    thoughts = transcripts.last_thoughts(tx, session.id)
    chosen = sessions.read_settings(tx, session.id)
    thoughts_are = "shown with" if chosen.show_reasoning else "not part of"
    state = (
        f"Effort: {chosen.reasoning or 'default'}. Thoughts are {thoughts_are} answers. "
        f"Change it with /reasoning {'|'.join(EFFORTS)} or /reasoning show|hide."
    )
    if not thoughts:
        return f"The last answer came without thoughts.\n{state}"
    return f"Thoughts behind the last answer:\n{quote_thoughts(thoughts)}\n\n{state}"


def quote_thoughts(thoughts: str) -> str:
    """Return thoughts as a quotation, shortened if they are long."""
    return "\n".join(f"> {line}" for line in cut_middle(thoughts.strip(), _MAX_CHARS).splitlines())
