"""A question and its answer with all the rows that makes, as the gateway writes them."""

from agent_core.conversation import Message, ToolCall, assistant, tool_result
from gateway.messages import Receipt, Sender, SessionKey
from gateway.store import media, outbox, sessions, transcripts, turns
from gateway.store.db.connection import Transaction
from gateway.store.media import MediaFiles
from gateway.store.turns import Turn
from tests.gateway.store.rows import ANN, KEY, inbound, take
from tools.content import Media, Part, Text


def begin(
    tx: Transaction,
    text: str = "hello",
    *,
    key: SessionKey = KEY,
    sender: Sender = ANN,
    parts: tuple[Part, ...] = (),
) -> Turn:
    """Accepted, claimed and written down."""
    take(tx, inbound(text, key=key, sender=sender))
    turn = turns.begin(tx)
    assert turn is not None
    spoken = Message(role="user", parts=(Text(text=text), *parts))
    transcripts.append(tx, turn.session_id, spoken, turn_id=turn.id, inbox_id=turn.messages[0].id)
    return turn


def exchange(
    tx: Transaction,
    text: str = "hello",
    answer: str = "hi",
    *,
    key: SessionKey = KEY,
    sender: Sender = ANN,
    parts: tuple[Part, ...] = (),
) -> Turn:
    """One that used a tool, ended, and was sent."""
    turn = begin(tx, text, key=key, sender=sender, parts=parts)
    call = ToolCall(id=f"call {turn.id}", name="todo", arguments="{}")
    for message in (assistant(tool_calls=(call,)), tool_result(call, "done"), assistant(answer)):
        transcripts.append(tx, turn.session_id, message, turn_id=turn.id)
    sessions.set_title(tx, turn.session_id, text)
    listed = text if key.kind == "dm" else "[]"
    tx.execute("INSERT INTO todos (task_id, todos) VALUES (?, ?) ON CONFLICT DO NOTHING", turn.session_id, listed)
    outbox.add(tx, turn.messages[0].address, [Text(text=answer)], turn_id=turn.id)
    turns.finish(tx, turn.id, turn.messages, turns.Outcome.ANSWERED)
    for row in outbox.claim(tx, key.account_name, 10):
        outbox.mark_sent(tx, row, Receipt(message_id=f"receipt {row.id}"))
    return turn


def keep_file(tx: Transaction, files: MediaFiles, content: bytes) -> Media:
    sha256 = files.save("image", content)
    media.record(tx, sha256=sha256, kind="image", mime="image/png", size_bytes=len(content))
    return Media(kind="image", name="a.png", mime="image/png", size_bytes=len(content), sha256=sha256)
