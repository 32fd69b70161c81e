"""What the page is shown of the database: the newest rows, what changed, and the way of each message."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from playground.page import rows as rows_module
from playground.page.rows import ROWS_SHOWN, Rows

SCRIPTS = sorted((Path(__file__).parents[3] / "gateway" / "store" / "db" / "migrations").glob("*.sql"))
MIGRATIONS = [script for script in SCRIPTS if not script.stem.endswith(".undo")]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """As the gateway makes it."""
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as made:
        made.execute("PRAGMA journal_mode = wal")
        for migration in MIGRATIONS:
            made.executescript(migration.read_text())
        yield made


def add_message(db: sqlite3.Connection, text: str, *, message_id: str = "5", turn: str | None = None) -> int:
    parts = json.dumps([{"type": "text", "text": text}])
    if turn:
        db.execute(
            """INSERT OR IGNORE INTO sessions
                      (id, key, platform, account, kind, chat, thread, user_id, created_ms, updated_ms)
               VALUES ('s', 'telegram:dm:7', 'telegram', 'telegram', 'dm', '7', '', '', 0, 0)"""
        )
        db.execute(
            """INSERT OR IGNORE INTO turns (id, session_key, session_id, state, started_ms)
               VALUES (?, 'k', 's', 'done', 0)""",
            (turn,),
        )
    found = db.execute(
        """INSERT INTO inbox (account, chat, message_id, kind, thread, session_key, chat_kind, user_id, role, sender_id,
                              sender_name, parts, sent_ms, accepted_ms, own_turn, state, turn_id)
           VALUES ('telegram', '7', ?, 'message', '', 'telegram:dm:7', 'dm', '', 'member', '7', 'Ada', ?, 0, 0, 0,
                   'ready', ?)""",
        (message_id, parts, turn),
    )
    return int(found.lastrowid or 0)


def add_reply(db: sqlite3.Connection, **columns: Any) -> int:
    given: dict[str, Any] = {
        "key": f"k{columns}",
        "kind": "answer",
        "account": "telegram",
        "chat": "7",
        "thread": "",
        "reply_to": "",
    }
    given |= {"parts": "[]", "state": "sent", "expires_ms": 0, "created_ms": 0, **columns}
    places = ", ".join("?" * len(given))
    found = db.execute(f"INSERT INTO outbox ({', '.join(given)}) VALUES ({places})", list(given.values()))
    return int(found.lastrowid or 0)


def add_step(db: sqlite3.Connection, event: str, at_ms: int, *, detail: Any = None, **about: Any) -> None:
    values = (
        at_ms,
        event,
        about.get("inbox_id"),
        about.get("turn_id"),
        about.get("outbox_id"),
        json.dumps(detail or {}),
    )
    db.execute(
        "INSERT INTO trail (at_ms, event, inbox_id, turn_id, outbox_id, detail) VALUES (?, ?, ?, ?, ?, ?)", values
    )


@pytest.fixture
def rows(database: sqlite3.Connection, tmp_path: Path) -> Rows:
    return Rows(tmp_path / "state.db")


def look(rows: Rows) -> dict[str, Any]:
    seen = rows.look()
    assert seen is not None
    return seen


def test_there_is_nothing_to_see_before_there_is_a_database(tmp_path: Path) -> None:
    assert Rows(tmp_path / "state.db").look() is None
    assert list(tmp_path.iterdir()) == []


def test_a_new_row_and_a_changed_cell_are_marked_once(database: sqlite3.Connection, rows: Rows) -> None:
    first = add_message(database, "hello")
    assert look(rows)["tables"]["inbox"]["changed"] == {}  # what was there before the page was opened
    second = add_message(database, "again", message_id="6")
    inbox = look(rows)["tables"]["inbox"]
    assert list(inbox["changed"]) == [str(second)]
    assert set(inbox["changed"][str(second)]) == set(inbox["rows"][0])
    database.execute("UPDATE inbox SET state = 'done', outcome = 'answered' WHERE id = ?", (first,))
    assert sorted(look(rows)["tables"]["inbox"]["changed"][str(first)]) == ["outcome", "state"]


def test_while_nothing_is_written_nothing_is_read(
    database: sqlite3.Connection, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_message(database, "hello")
    look(rows)
    assert rows.look() is not None  # another write within the same tick of the clock would have the same time
    monkeypatch.setattr(rows_module, "_CLOCK_TICK_NS", 0)
    look(rows)
    assert rows.look() is None
    add_message(database, "again", message_id="6")
    look(rows)
    assert rows.look() is None


def test_only_the_newest_rows_are_shown_the_newest_first(database: sqlite3.Connection, rows: Rows) -> None:
    for number in range(ROWS_SHOWN + 5):
        add_message(database, "hello", message_id=str(number))
    shown = [int(row["id"]) for row in look(rows)["tables"]["inbox"]["rows"]]
    assert shown == list(range(ROWS_SHOWN + 5, 5, -1))


def test_hashes_of_codes_are_not_shown(database: sqlite3.Connection, rows: Rows) -> None:
    database.execute(
        """INSERT INTO pairing_requests (account, user_id, user_name, chat, state, salt, hash, requested_ms, expires_ms)
           VALUES ('telegram', '7', 'Ada', '7', 'pending', x'aabb', x'ccddee', 0, 0)"""
    )
    shown = look(rows)["tables"]["pairing_requests"]["rows"][0]
    assert (shown["salt"], shown["hash"]) == ("2 bytes", "3 bytes")


def test_a_database_that_was_replaced_is_opened_anew(database: sqlite3.Connection, rows: Rows, tmp_path: Path) -> None:
    add_message(database, "hello")
    assert len(look(rows)["tables"]["inbox"]["rows"]) == 1
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        for migration in MIGRATIONS:
            other.executescript(migration.read_text())
    (tmp_path / "other.db").replace(tmp_path / "state.db")
    assert look(rows)["tables"]["inbox"]["rows"] == ()


def test_a_messages_trail_holds_what_its_turn_and_its_answer_did(database: sqlite3.Connection, rows: Rows) -> None:
    number = add_message(database, "what is 6 * 7?", turn="t1")
    reply = add_reply(database, turn_id="t1")
    add_step(database, "accepted", 10, inbox_id=number)
    add_step(database, "claimed", 11, inbox_id=number, turn_id="t1")
    add_step(database, "tool_started", 12, turn_id="t1", detail={"tool": "clock"})
    add_step(database, "sent", 30, outbox_id=reply, turn_id="t1", detail={"receipt": "9"})
    (trail,) = look(rows)["trails"]
    assert (trail["who"], trail["text"], trail["account"]) == ("Ada", "what is 6 * 7?", "telegram")
    assert [step["event"] for step in trail["steps"]] == ["accepted", "claimed", "tool_started", "sent"]


def test_a_question_to_a_human_is_told_from_the_answer(database: sqlite3.Connection, rows: Rows) -> None:
    number = add_message(database, "run it", turn="t1")
    question = add_reply(database, turn_id="t1", kind="notice", topic="approval")
    answer = add_reply(database, turn_id="t1")
    add_step(database, "accepted", 10, inbox_id=number)
    for at, row in ((20, question), (30, answer)):
        add_step(database, "sent", at, outbox_id=row, turn_id="t1", detail={"receipt": "9"})
    (trail,) = look(rows)["trails"]
    assert [step["detail"] for step in trail["steps"][1:]] == [
        {"receipt": "9", "about": "approval"},
        {"receipt": "9"},
    ]


def test_a_commands_answer_belongs_to_the_command(database: sqlite3.Connection, rows: Rows) -> None:
    number = add_message(database, "/status", message_id="44")
    add_step(database, "accepted", 10, inbox_id=number)
    add_step(database, "sent", 12, outbox_id=add_reply(database, answers='["44"]'))
    (trail,) = look(rows)["trails"]
    assert [step["event"] for step in trail["steps"]] == ["accepted", "sent"]


def test_what_a_button_brings_belongs_to_the_press(database: sqlite3.Connection, rows: Rows) -> None:
    number = add_message(database, "continue:1", message_id="44")
    notice = add_reply(database, kind="notice")
    add_step(database, "accepted", 10, inbox_id=number)
    add_step(database, "answered", 11, inbox_id=number, outbox_id=notice)
    add_step(database, "sending", 12, outbox_id=notice)
    add_step(database, "sent", 13, outbox_id=notice)
    (trail,) = look(rows)["trails"]
    assert [step["event"] for step in trail["steps"]] == ["accepted", "answered", "sending", "sent"]
    assert not any("is_last" in step["detail"] for step in trail["steps"])


@pytest.mark.parametrize("turn", [None, "t1"])
def test_what_is_answered_without_a_message_ends_there(
    database: sqlite3.Connection, rows: Rows, turn: str | None
) -> None:
    number = add_message(database, "approve:1", message_id="44", turn=turn)
    add_step(database, "accepted", 10, inbox_id=number)
    add_step(database, "answered", 11, inbox_id=number, turn_id=turn)
    (trail,) = look(rows)["trails"]
    assert trail["steps"][-1]["detail"] == {"is_last": True}


def test_a_stranger_at_the_door_has_one_trail_with_what_they_were_told(
    database: sqlite3.Connection, rows: Rows
) -> None:
    who = {"account": "telegram", "chat": "7", "sender": "7"}
    add_step(database, "pairing asked", 10, detail=who)
    add_step(database, "sent", 12, outbox_id=add_reply(database, kind="notice"))
    add_step(database, "pairing approved", 20, detail={"account": "telegram", "sender": "7", "role": "member"})
    (trail,) = look(rows)["trails"]
    assert [step["event"] for step in trail["steps"]] == ["pairing asked", "sent", "pairing approved"]
