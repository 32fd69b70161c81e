"""`/memory`: what is remembered in this conversation, where it came from, and how to take it back."""

from datetime import UTC, datetime

from gateway.commands.registry import CommandCall, CommandSpec
from gateway.commands.wording import name_nearest, quote
from gateway.store import memories, sessions
from gateway.store.db.connection import Transaction
from gateway.store.memories import Memory, MemoryAccess, Source, access_in
from tools.content import load_parts, words_of

_SHOWN = 50
_WRITERS = {
    "agent": "noted by the agent",
    "nudge": "noted when the agent looked back at the conversation",
    "person": "written by you",
    "file": "changed in its file",
    "import": "taken over from another program",
}
_UNDONE = {"added": "it is forgotten again", "replaced": "the value before it is back", "deleted": "it is back"}


def memory(tx: Transaction, call: CommandCall) -> str:
    access = access_in(call.key, call.person_id)
    if access is None:
        return "I do not know whose memory to show here."
    action, _, rest = call.arguments.partition(" ")
    rest = rest.strip()
    match action.lower():
        case "undo" | "forget" if call.is_guest_in_group:
            return "Only owners and members can change what is remembered in a group."
        case "" | "list":
            return _list(memories.list_all(tx, access), access)
        case "search" if rest:
            found = memories.search(tx, access, rest)
            return _list(found, access) if found else f"Nothing fits {quote(rest)}."
        case "why" if rest:
            return explain_source(tx, access, rest)
        case "undo":
            return _undo(tx, call, access)
        case "forget" if rest:
            return _forget(tx, call, access, rest)
        case "search":
            return "Say what to look for: /memory search WORDS."
        case "why" | "forget":
            return f"Say which one: /memory {action.lower()} KEY. /memory lists the keys."
    return "Use /memory list, search WORDS, why KEY, undo, or forget KEY."


def explain_source(tx: Transaction, access: MemoryAccess, key: str) -> str:
    """Say where a memory came from, with its earlier values."""
    rows = memories.find_sources(tx, access, key)
    if not rows:
        return _name_nearest(tx, access, key)
    return "\n".join(_describe_source(tx, row) for row in rows)


def _describe_source(tx: Transaction, row: Memory) -> str:
    when = datetime.fromtimestamp(row.created_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    state = f" ({row.ended})" if row.ended else ""
    said = tx.one("SELECT parts FROM messages WHERE id = ?", row.message_id) if row.message_id else None
    words = words_of(load_parts(said["parts"])) if said is not None else ""
    source = f", from the message {quote(words, 200)}" if words else ""
    outside = " It may come from outside text, so it is found by search only." if row.from_outside else ""
    return f"{row.key}: {row.value}{state}\n{when}, {_WRITERS[row.source]}{source}.{outside}"


def _undo(tx: Transaction, call: CommandCall, access: MemoryAccess) -> str:
    undone = memories.undo(tx, access)
    if undone is None:
        return "There is no change to undo."
    _rebuild_prompt(tx, call)
    how, row = undone
    return f"Undone: {row.key} was {how} with {quote(row.value)}; {_UNDONE[how]}."


def _forget(tx: Transaction, call: CommandCall, access: MemoryAccess, key: str) -> str:
    gone = memories.delete(tx, access, key, Source(writer="person"))
    if gone is None:
        return _name_nearest(tx, access, key)
    _rebuild_prompt(tx, call)
    return f"Forgotten: {gone.key}. /memory undo brings it back."


def _rebuild_prompt(tx: Transaction, call: CommandCall) -> None:
    """Have the prompt rebuilt: it must not go on showing what its user took back."""
    session = sessions.find_current(tx, str(call.key))
    if session is not None:
        sessions.drop_prompt(tx, session.id)


def _name_nearest(tx: Transaction, access: MemoryAccess, key: str) -> str:
    return name_nearest("memory", key, (one.key for one in memories.list_all(tx, access)), "memory")


def _list(found: list[Memory], access: MemoryAccess) -> str:
    if not found:
        return "I remember nothing about " + ("this chat yet." if access.scope == "chat" else "you yet.")
    lines = [f"- {one.key}: {quote(one.value, 200)}{' (for everybody)' * (one.scope == 'shared')}" for one in found]
    more = len(lines) - _SHOWN
    lines = lines[:_SHOWN] + ([f"… and {more} more. Find one with /memory search WORDS."] if more > 0 else [])
    return "\n".join([*lines, "", "/memory why KEY says where one comes from, /memory forget KEY removes it."])


MEMORY_COMMANDS = (
    CommandSpec(
        "memory",
        "Agent",
        "Show, explain and take back what I remember",
        memory,
        "[list|search WORDS|why KEY|undo|forget KEY]",
    ),
)
