"""A database with some of everything in it, and a way to see whether all of it is still there."""

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from agent_core.conversation import assistant, user
from gateway.messages import Cursor, Receipt, Sender, SessionKey, Text
from gateway.store import chats, outbox, transcripts, turns
from gateway.store.db.connection import Transaction, connect
from tests.gateway.store.rows import inbound, take


def converse(path: Path, chat_rows: range) -> None:
    """A question and its answer in every chat, with all the rows that makes; one commit, as the gateway counts it."""
    connection = connect(path, busy_timeout_seconds=5)
    connection.execute("BEGIN IMMEDIATE")
    tx = Transaction(connection)
    for chat in chat_rows:
        key = SessionKey(platform="telegram", kind="dm", chat=str(chat))
        question = f"question {chat} about the weather in 東京 and other things that are asked of a bot"
        take(tx, inbound(question, key=key, message_id=str(chat), sender=Sender(id=str(chat), name=f"Person {chat}")))
        turn = turns.begin(tx)
        assert turn is not None
        message = turn.messages[0]
        transcripts.append(tx, turn.session_id, user(question), turn_id=turn.id, inbox_id=message.id)
        transcripts.append(tx, turn.session_id, assistant(f"answer {chat}: " + "it depends. " * 20), turn_id=turn.id)
        outbox.add(tx, message.address, [Text(text=f"answer {chat}")], turn_id=turn.id)
        if chat % 3:
            turns.finish(tx, turn.id, turn.messages, turns.Outcome.ANSWERED)
            for row in outbox.claim(tx, "telegram", 1):
                outbox.mark_sent(tx, row, Receipt(message_id=f"r{chat}"))
        chats.move_cursor(tx, "telegram", Cursor(channel=f"channel {chat}", value=str(chat)))
    tx.execute("UPDATE meta SET value = value + 1 WHERE name = 'commits'")
    connection.execute("COMMIT")
    connection.close()


@dataclass
class Contents:
    """The rows of every table, and by every index which of them it leads to."""

    rows: dict[str, dict[int, tuple[object, ...]]] = field(default_factory=dict)
    by_index: dict[str, set[int]] = field(default_factory=dict)

    @property
    def ids(self) -> dict[str, set[int]]:
        return {table: set(rows) for table, rows in self.rows.items()}

    def different_from(self, other: "Contents") -> int:
        """How many rows hold something else."""
        return sum(
            row != other.rows[table].get(row_id) for table, rows in self.rows.items() for row_id, row in rows.items()
        )


def read_all(path: Path) -> Contents:
    """Raises sqlite3.Error where something cannot be read. Texts are taken as bytes, whatever they hold."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.text_factory = bytes
    contents = Contents()
    try:
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 "
            "AND name NOT LIKE '%!_search%' ESCAPE '!' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
        ).fetchall():
            table = name.decode()
            found = connection.execute(f'SELECT rowid, * FROM "{table}" NOT INDEXED').fetchall()
            contents.rows[table] = {row[0]: row[1:] for row in found}
            assert len(contents.rows[table]) == len(found)
            for index in connection.execute(f'PRAGMA index_list("{table}")').fetchall():
                contents.by_index[index[1].decode()] = _rows_by_index(connection, table, index[1].decode())
    finally:
        connection.close()
    return contents


def _rows_by_index(connection: sqlite3.Connection, table: str, index: str) -> set[int]:
    [sql] = connection.execute("SELECT coalesce(sql, '') FROM sqlite_master WHERE name = ?", (index,)).fetchone()
    _, _, condition = sql.decode(errors="replace").partition(" WHERE ")
    query = f'SELECT rowid FROM "{table}" INDEXED BY "{index}" WHERE {condition or "1"}'
    found = [row[0] for row in connection.execute(query)]
    assert len(set(found)) == len(found)
    return set(found)
