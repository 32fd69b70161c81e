"""Commands about what was said: `/history`, `/search`, `/save`, `/retry`, `/undo`, `/branch`."""

from collections.abc import Callable
from dataclasses import dataclass

from gateway.clock import for_people
from gateway.commands.registry import Answer, CommandCall, CommandReply, CommandSpec, TurnStart
from gateway.commands.transcript_files import FORMATS, TranscriptFormat, render_transcript
from gateway.commands.wording import age, quote
from gateway.messages import Choice, Media, Text
from gateway.store import compactions, inbox, outbox, sessions, transcripts, turns
from gateway.store.db.connection import Transaction
from gateway.store.search import Window, reader_in, search
from gateway.store.sessions import Session, title_of
from gateway.store.transcripts import Exchange
from tools.content import words_of
from tools.provenance import CHAT, EVENT, HERMES

_SHOWN = 10
_MOST_SHOWN = 50
_LINE_CHARS = 200
_HITS = 5
_FOUND_CHARS = 160
_SAVED_MESSAGES = 20_000
_NOTHING_SAID = "Nothing has been said in this conversation yet."
_ANSWERING = "I am still working on your last message. Wait for the answer, or send /stop before /{}."
_NOT_UNDONE = "Files I changed and messages I sent stay as they are."


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptFiles:
    """Where the files of `/save` go."""

    clean: Callable[[str], str]  # hides secrets: the file may be passed on
    store: Callable[[str, bytes], Media | str]  # by name and content; returns the file to send, or the path it is at
    can_send: Callable[[str], bool] = lambda account: True


def history(tx: Transaction, call: CommandCall) -> str:
    session = sessions.find_current(tx, str(call.key))
    wanted = call.arguments or str(_SHOWN)
    if not wanted.isdecimal() or not 1 <= int(wanted) <= _MOST_SHOWN:
        return f"Use /history or /history NUMBER, from 1 to {_MOST_SHOWN}."
    entries = transcripts.entries(tx, session.id, limit=_MOST_SHOWN * 4) if session else []
    lines = [
        f"{'**' if call.place == 'chat' else ''}{_who(entry)}{'**' if call.place == 'chat' else ''}, "
        f"{age(entry.created_ms)}{' (undone)' if entry.is_undone else ''}: {quote(text, _LINE_CHARS)}"
        for entry in entries
        if entry.message.role != "tool" and (text := words_of(entry.message.parts) or entry.message.text)
    ]
    return "\n".join(f"- {line}" for line in lines[-int(wanted) :]) or _NOTHING_SAID


def _who(entry: transcripts.TranscriptEntry) -> str:
    if entry.message.role == "assistant":
        return "Hermes"
    speaker = next((part for part in entry.message.parts if isinstance(part, Text) and part.origin == HERMES), None)
    return speaker.text.removesuffix(":") if speaker is not None and speaker.text.endswith(":") else "You"


def search_past(tx: Transaction, call: CommandCall) -> str:
    """Search the conversations that the sender may read; in a group, only those of the group."""
    if not call.arguments:
        return "Say what to search for: /search WORDS"
    found = search(tx, call.arguments, reader=reader_in(call.key, call.person_id), limit=_HITS)
    if not found:
        return f"Nothing found for {quote(call.arguments)}. Try fewer or other words."
    lines = [f"- {_describe_window(window, call)}" for window in found[:_HITS]]
    return "\n".join([*lines, "", "Go back to a conversation of this chat with /resume and its id."])


def _describe_window(window: Window, call: CommandCall) -> str:
    people = "you" if call.key.is_private else "a member"
    hit = window.hit
    where = "" if hit.session_key == str(call.key) else f", {hit.session_key}"
    speakers = {"assistant": "Hermes", "tool": "a tool"}
    said = [
        f"  - {speakers.get(one.role, people)}: {quote(one.excerpt, _FOUND_CHARS)}"
        for one in window.messages
        if one.role != "tool" or one is hit
    ]
    return "\n".join([f"{for_people(hit.created_ms)} ({hit.session_id}{where})", *said])


def retry(tx: Transaction, call: CommandCall) -> Answer:
    """Take the last answer away and run the request again."""
    found = _find_last(tx, call)
    if isinstance(found, str):
        return found
    session, exchange = found
    said = (part for message in exchange.messages if message.role == "user" for part in message.parts)
    # Without what was added for the model.
    parts = tuple(part for part in said if not (isinstance(part, Text) and part.origin in (CHAT, EVENT, HERMES)))
    if not parts:
        return "The last turn was not started by a message, so there is nothing to retry."
    if not call.key.is_private and (asked := _asked_by_another(tx, call, exchange)):
        return f"The last request was made by {asked}. Only they can retry it."
    _hide_from_model(tx, session, exchange)
    return CommandReply("", starts=TurnStart(parts=parts))


def _asked_by_another(tx: Transaction, call: CommandCall, exchange: Exchange) -> str:
    asked = inbox.read_turn(tx, exchange.turn_id) if exchange.turn_id else []
    others = [one for one in asked if one.asks and one.sender_id != call.sender_id]
    return (others[-1].sender_name or "somebody else") if others else ""


def undo(tx: Transaction, call: CommandCall) -> Answer:
    found = _find_last(tx, call)
    if isinstance(found, str):
        return found
    session, exchange = found
    match call.arguments.lower():
        case "yes":
            return _undo(tx, session, exchange)
        case "":
            text = (
                f"Remove the last exchange from this conversation?\n{_describe(exchange)}\n\n"
                f"I will forget it; search still finds it. {_NOT_UNDONE}"
            )
            if call.place == "cli":
                return f"{text}\nType /undo yes to remove it."
            choices = (
                Choice(label="Remove it", action=f"undo:{exchange.first_id}"),
                Choice(label="Keep it", action="undo:keep"),
            )
            return CommandReply(text, choices=choices)
        case _:
            return "Use /undo, or /undo yes to remove the last exchange without being asked."


def undo_pressed(tx: Transaction, call: CommandCall) -> Answer:
    if call.arguments == "keep":
        return CommandReply("The last exchange stays.", in_place=True)
    found = _find_last(tx, call)
    if isinstance(found, str):
        return found
    session, exchange = found
    if str(exchange.first_id) != call.arguments:
        return "More was said since then. Send /undo again to remove what is last now."
    return CommandReply(_undo(tx, session, exchange), in_place=True)


def _hide_from_model(tx: Transaction, session: Session, exchange: Exchange) -> None:
    transcripts.undo(tx, session.id, exchange)
    compactions.forget_count(tx, session.id)


def _undo(tx: Transaction, session: Session, exchange: Exchange) -> str:
    _hide_from_model(tx, session, exchange)
    return f"Removed:\n{_describe(exchange)}\n\n{_NOT_UNDONE}"


def _describe(exchange: Exchange) -> str:
    asked = quote(exchange.request or "(a report)", _LINE_CHARS)
    return f"- You: {asked}\n- Hermes: {quote(exchange.answer or '(no answer)', _LINE_CHARS)}"


def branch(tx: Transaction, call: CommandCall) -> str:
    found = _find_last(tx, call)
    if isinstance(found, str):
        return found
    session, _ = found
    title = title_of(call.arguments or f"Branch of {session.title or session.id}")
    copy = sessions.branch(tx, call.key, session, title)
    compactions.copy(tx, session.id, transcripts.copy(tx, session.id, copy.id), copy.id)
    return f"You are now in a copy of this conversation, {quote(title)}. Back to the original: /resume {session.id}"


def _find_last(tx: Transaction, call: CommandCall) -> tuple[Session, Exchange] | str:
    """Return the session and its last exchange, or what to say when there is none, or when it is not over."""
    session = sessions.find_current(tx, str(call.key))
    exchange = transcripts.last_exchange(tx, session.id) if session is not None else None
    if turns.is_running(tx, str(call.key)) or inbox.count_waiting(tx, str(call.key)):
        return _ANSWERING.format(call.name)
    if session is None or exchange is None:
        return f"{_NOTHING_SAID} There is nothing to {call.name}."
    if call.name != "branch" and compactions.covers(tx, session.id, exchange.first_id):
        return "The last exchange is already part of a summary, so it cannot be taken away."
    return session, exchange


def send_again(tx: Transaction, call: CommandCall) -> Answer:
    """Answer the button below an answer of which nobody can know whether it arrived."""
    account, chat = call.key.account_name, call.key.chat
    if outbox.send_again(tx, call.arguments, account=account, chat=chat):
        return CommandReply("Sent again:", in_place=True)
    if outbox.is_known(tx, call.arguments, account=account, chat=chat):
        return CommandReply("That answer was already sent again.", in_place=True)
    return "That answer is no longer stored."


def history_commands(files: TranscriptFiles | None) -> tuple[CommandSpec, ...]:
    """Return the commands; without `files`, `/save` says that nothing can be saved here."""

    def save(tx: Transaction, call: CommandCall) -> Answer:
        return _save(tx, call, files)

    return (
        CommandSpec("history", "Session", "Show the last messages of this conversation", history, "[number]"),
        CommandSpec("search", "Session", "Search your earlier conversations", search_past, "WORDS"),
        CommandSpec("save", "Session", "Save this conversation as a file", save, f"[{'|'.join(FORMATS)}]"),
        CommandSpec("retry", "Session", "Run your last message again", retry),
        CommandSpec("undo", "Session", "Remove the last exchange from the conversation", undo, "[yes]"),
        CommandSpec("branch", "Session", "Continue in a copy of this conversation", branch, "[title]"),
    )


def _save(tx: Transaction, call: CommandCall, files: TranscriptFiles | None) -> Answer:
    form: TranscriptFormat | None = next((one for one in FORMATS if one == (call.arguments.lower() or "md")), None)
    if form is None:
        return f"There is no format {quote(call.arguments)}. Use /save {'|'.join(FORMATS)}."
    session = sessions.find_current(tx, str(call.key))
    entries = transcripts.entries(tx, session.id, limit=_SAVED_MESSAGES) if session is not None else []
    if session is None or not entries:
        return f"{_NOTHING_SAID} There is nothing to save."
    if files is None or not files.can_send(call.key.account_name):
        return f"No file can be sent here. On the machine: hermes sessions show {session.id}"
    content = files.clean(render_transcript(session, entries, form)).encode(errors="replace")
    stored = files.store(f"hermes-{session.id}.{form}", content)
    count = f"{len(entries)} message{'s' if len(entries) > 1 else ''}"
    if isinstance(stored, str):
        return f"Saved {count} to {stored}"
    return CommandReply(f"This conversation as a file, {count}:", files=(stored,))
