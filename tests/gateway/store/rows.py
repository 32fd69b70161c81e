"""Short ways to put messages into a database and to look at what is in it."""

import sqlite3
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from gateway.messages import Address, InboundMessage, Kind, Sender, SessionKey, Text
from gateway.store import inbox, people, restored
from gateway.store.approvals import Asker
from gateway.store.db.connection import Transaction
from gateway.store.inbox import Accepted
from gateway.store.search import EVERYTHING, Filter, FoundMessage, Reader, search
from tools.approval.gate import Question, bound_to
from tools.backends.base import ProcessHandle
from tools.process_book import Process

ANN = Sender(id="42", name="Ann")
KEY = SessionKey(platform="telegram", kind="dm", chat="42")
ADDRESS = Address(account="telegram", chat="42", reply_to="1")

_ids = count(1)


def key_of(account: str, kind: str = "dm", chat: str = "42") -> SessionKey:
    platform, _, name = account.partition("@")
    return SessionKey(platform=platform, account=name, kind=kind, chat=chat)


def inbound(
    text: str,
    *,
    key: SessionKey = KEY,
    message_id: str = "",
    kind: Kind = "message",
    sent_ms: int = 0,
    edited_ms: int = 0,
    sender: Sender = ANN,
) -> InboundMessage:
    number = next(_ids)
    return InboundMessage(
        key=key,
        message_id=message_id or f"m{number}",
        kind=kind,
        sender=sender,
        parts=(Text(text=text),),
        sent_ms=sent_ms or number,
        edited_ms=edited_ms,
    )


def accept(tx: Transaction, message: InboundMessage) -> int | None:
    person_id = people.recognise(tx, message.key.account_name, message.sender, role="member")
    return inbox.insert(tx, message, person_id=person_id)


def take(tx: Transaction, message: InboundMessage) -> int:
    accepted = accept(tx, message)
    assert accepted is not None
    return accepted


def accepted(message: InboundMessage, *, role: str = "owner") -> Accepted:
    """As the inbox would have it."""
    return Accepted(
        id=1,
        key=message.key,
        kind=message.kind,
        message_id=message.message_id,
        sender_id=message.sender.id,
        sender_name=message.sender.name,
        person_id="owner",
        role=role,
        parts=message.parts,
    )


def a_process(task_id: str, name: str = "a") -> Process:
    """One that nobody has started."""
    data = {"pid": 1, "supervisor_pid": 2, "supervisor_started": 3, "folder": f"outputs/proc_{name}"}
    return Process(
        handle=ProcessHandle(id=f"proc_{name}", backend="local", data=data),
        holder="telegram:dm:42/ann",
        task_id=task_id,
        command="make",
        workdir="src",
        started_ms=5,
        pty=True,
        interactive=True,
        check_interval_seconds=40,
        notify_on_complete=True,
    )


def a_question(action: str = "rm -r build", **other: Any) -> Question:
    given: dict[str, Any] = {"tool": "terminal", "reasons": ("it deletes build",), "binding": bound_to(action)} | other
    return Question(action=action, **given)


def an_asker(key: SessionKey = KEY, person_id: str = "", sender: Sender = ANN, *, turn_id: str = "") -> Asker:
    return Asker(
        turn_id=turn_id or f"turn of {sender.id}",
        session_id=f"session of {sender.id}",
        session_key=str(key),
        holder=person_id or f"person {sender.id}",
        person_id=person_id or None,
        account=key.account_name,
        sender_id=sender.id,
        sender_name=sender.name,
    )


def find_plans(tx: Transaction, work: Callable[[], object]) -> set[str]:
    """Return the steps in which SQLite carries out the statements of some work."""
    asked: list[str] = []
    tx._connection.set_trace_callback(asked.append)
    work()
    tx._connection.set_trace_callback(None)
    statements = [statement for statement in asked if not statement.startswith("--")]
    assert statements
    return {row["detail"] for statement in statements for row in tx.all(f"EXPLAIN QUERY PLAN {statement}")}


def put_note(tx: Transaction, text: str) -> None:
    """The smallest thing that can be written."""
    tx.execute("INSERT INTO notices (at_ms, text) VALUES (0, ?)", text)


def notes(tx: Transaction) -> list[str]:
    return [row["text"] for row in tx.all("SELECT text FROM notices ORDER BY id")]


def went_back_ms(path: Path) -> int:
    """As a platform that connects would be told."""
    connection = sqlite3.connect(path)
    try:
        return restored.went_back_ms(Transaction(connection))
    finally:
        connection.close()


def notes_in(path: Path) -> list[str]:
    """What a fresh connection finds."""
    connection = sqlite3.connect(path)
    try:
        return [row[0] for row in connection.execute("SELECT text FROM notices ORDER BY id")]
    finally:
        connection.close()


def find_hits(
    tx: Transaction, query: str, *, reader: Reader = EVERYTHING, where: Filter | None = None, limit: int = 10
) -> list[FoundMessage]:
    """Return the hits of a search without their neighbours."""
    windows = search(tx, query, reader=reader, where=where, limit=limit)
    return [message for window in windows for message in window.messages if message.is_hit]
