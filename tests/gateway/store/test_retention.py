"""What is old goes, a few rows at a time; what is open, young, or still referred to stays."""

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from agent_core.events import Usage
from gateway.clock import now_ms
from gateway.messages import Sender, SessionKey
from gateway.store import approvals, compactions, outbox, retention, sessions, spending, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from gateway.store.retention import delete_old_rows, delete_unused_files
from gateway.store.spending import Call, Payer
from hermes_config.settings import RetentionSettings
from tests.gateway.store.conftest import Clock
from tests.gateway.store.exchange import begin, exchange, keep_file
from tests.gateway.store.rows import ADDRESS, KEY, a_question, an_asker, find_hits, inbound, take
from tools.content import Text

NOTHING = RetentionSettings.model_validate(dict.fromkeys(RetentionSettings.model_fields, 0))
DAYS = 24
TABLES = ("messages", "inbox", "outbox", "turns", "trail", "sessions", "overheard", "pairing_requests", "todos")
WEB = SessionKey(platform="web", chat="abc")


async def counts(db: Database, *tables: str) -> dict[str, int]:
    def query(tx: Transaction) -> dict[str, int]:
        return {table: tx.count(f"SELECT COUNT(*) FROM {table}") for table in tables or TABLES}

    return await db.read(query)


async def sound(db: Database) -> bool:
    def query(tx: Transaction) -> bool:
        return not tx.all("PRAGMA foreign_key_check") and tx.all("PRAGMA integrity_check")[0][0] == "ok"

    return await db.read(query)


def some_of_everything(tx: Transaction) -> None:
    for _ in range(3):
        exchange(tx)
    tx.execute(
        """INSERT INTO overheard (session_key, account, sender_id, sender_name, message_id, text, sent_ms)
           VALUES ('telegram:group:1', 'telegram', '5', 'Bob', '1', 'psst', ?)""",
        now_ms(),
    )
    tx.execute(
        """INSERT INTO pairing_requests (account, user_id, user_name, chat, state, requested_ms, expires_ms)
           VALUES ('telegram', '6', 'Eve', '6', 'pending', ?, ?)""",
        now_ms(),
        now_ms() + 3_600_000,
    )


async def test_by_default_conversations_stay_for_ever_and_their_traces_go(db: Database, clock: Clock) -> None:
    await db.write(some_of_everything)
    before = await counts(db)
    clock.forward(hours=89 * DAYS)
    assert await delete_old_rows(db, RetentionSettings(overheard_days=0)) == {}
    assert await counts(db) == before
    clock.forward(hours=2 * DAYS)
    gone = await delete_old_rows(db, RetentionSettings())
    assert gone.pop("trail") == before["trail"]
    assert gone == {"inbox": 3, "outbox": 3, "turns": 3, "overheard": 1, "pairing_requests": 1}
    assert await counts(db, "messages", "sessions", "todos") == {"messages": 12, "sessions": 1, "todos": 1}
    assert await sound(db)


@pytest.mark.parametrize(
    ("table", "setting"),
    [(table, f"{table}_days") for table in ("trail", "overheard", "outbox", "inbox", "messages")]
    + [("pairing_requests", "pairing_days")],
)
async def test_each_kind_of_row_has_its_own_time(db: Database, clock: Clock, table: str, setting: str) -> None:
    await db.write(some_of_everything)
    before = await counts(db)
    clock.forward(hours=3 * DAYS + 1.1)  # a request for pairing is good for an hour
    gone = await delete_old_rows(db, NOTHING.model_copy(update={setting: 3}))
    assert gone == {table: before[table]} | ({"turns": 3} if table == "inbox" else {})
    assert await sound(db)


async def test_for_ever_means_for_ever(db: Database, clock: Clock) -> None:
    await db.write(some_of_everything)
    clock.forward(hours=10_000 * DAYS)
    assert await delete_old_rows(db, NOTHING) == {}


async def test_the_transcript_still_knows_who_spoke(db: Database, clock: Clock) -> None:
    await db.write(exchange)
    [person] = await db.read(lambda tx: [row["person_id"] for row in tx.all("SELECT person_id FROM inbox")])
    clock.forward(hours=91 * DAYS)
    await delete_old_rows(db, RetentionSettings())

    def query(tx: Transaction) -> list[tuple[object, ...]]:
        return [tuple(row) for row in tx.all("SELECT inbox_id, person_id FROM messages WHERE role = 'user'")]

    assert await db.read(query) == [(None, person)]
    assert await db.read(lambda tx: len(find_hits(tx, "hello"))) == 1


async def test_what_was_spent_goes_by_its_own_time_and_a_reservation_stays(db: Database, clock: Clock) -> None:
    def unit(tx: Transaction) -> None:
        payer = Payer(chat="cli", people=("owner",), session_id="")
        call = Call(key="a", at_ms=now_ms(), day="2026-09-21", model="m", usage=Usage(input_tokens=1))
        spending.settle(tx, call, payer)
        spending.reserve(tx, replace(call, key="b"), payer)

    await db.write(unit)
    clock.forward(hours=399 * DAYS)
    assert await delete_old_rows(db, RetentionSettings()) == {}
    clock.forward(hours=2 * DAYS)
    assert await delete_old_rows(db, RetentionSettings()) == {"spending": 1}


async def test_work_that_is_open_is_left_alone(db: Database, clock: Clock) -> None:
    def unit(tx: Transaction) -> None:
        begin(tx, "being answered")
        take(tx, inbound("waiting"))
        outbox.add(tx, ADDRESS, [Text(text="to be sent")])

    await db.write(unit)
    before = await counts(db)
    clock.forward(hours=400 * DAYS)
    await delete_old_rows(db, NOTHING.model_copy(update={"messages_days": 1, "inbox_days": 3, "outbox_days": 3}))
    assert await counts(db) == before


async def test_the_pages_chats_stay_as_long_as_conversations_do(db: Database, clock: Clock) -> None:
    await db.write(lambda tx: exchange(tx, key=WEB))
    await db.write(exchange)
    clock.forward(hours=91 * DAYS)
    await delete_old_rows(db, RetentionSettings())
    rest = await db.read(lambda tx: [row["account"] for row in tx.all("SELECT account FROM inbox")])
    assert rest == ["web"]
    assert await counts(db, "inbox", "outbox") == {"inbox": 1, "outbox": 1}
    await delete_old_rows(db, RetentionSettings(messages_days=30))
    assert await counts(db, "inbox", "outbox", "messages", "sessions", "turns", "todos") == dict.fromkeys(
        ("inbox", "outbox", "messages", "sessions", "turns", "todos"), 0
    )
    assert await sound(db)


async def test_a_session_that_lost_its_beginning_is_still_one_that_a_model_can_read(db: Database, clock: Clock) -> None:
    await db.write(lambda tx: exchange(tx, "long ago"))
    clock.forward(hours=40 * DAYS)
    turn = await db.write(lambda tx: exchange(tx, "yesterday"))
    await delete_old_rows(db, RetentionSettings(messages_days=30))
    history = await db.read(lambda tx: compactions.read_history(tx, turn.session_id, limit=100).messages)
    assert [message.role for message in history] == ["user", "assistant", "tool", "assistant"]
    assert await db.read(lambda tx: find_hits(tx, "ago")) == []
    assert await counts(db, "sessions") == {"sessions": 1}


async def test_children_of_a_deleted_session_stay(db: Database, clock: Clock) -> None:
    await db.write(exchange)
    await db.write(lambda tx: sessions.end_current(tx, str(KEY), reason="idle"))
    clock.forward(hours=40 * DAYS)
    await db.write(lambda tx: exchange(tx, "again"))
    clock.forward(hours=60 * DAYS)
    await db.write(lambda tx: exchange(tx, "and again"))
    assert await db.read(lambda tx: tx.count("SELECT COUNT(*) FROM sessions WHERE parent_id IS NOT NULL")) == 1
    gone = await delete_old_rows(db, RetentionSettings(messages_days=80, inbox_days=80, outbox_days=80, trail_days=80))
    assert gone["sessions"] == 1
    assert await db.read(lambda tx: tx.count("SELECT COUNT(*) FROM sessions WHERE parent_id IS NOT NULL")) == 0
    assert await sound(db)


async def test_no_transaction_is_longer_than_a_batch(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH_ROWS", 5)

    def unit(tx: Transaction) -> None:
        for number in range(13):
            exchange(tx, key=SessionKey(platform="telegram", kind="dm", chat=str(number)))
            exchange(tx, key=SessionKey(platform="web", chat=str(number)))

    await db.write(unit)
    commits = await db.read(lambda tx: tx.count("SELECT value FROM meta WHERE name = 'commits'"))
    clock.forward(hours=91 * DAYS)
    gone = await delete_old_rows(db, RetentionSettings(trail_days=0))
    assert gone == {"outbox": 13, "inbox": 13, "turns": 13}
    assert await db.read(lambda tx: tx.count("SELECT value FROM meta WHERE name = 'commits'")) == commits + 9


def hashes(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def files(tmp_path: Path) -> MediaFiles:
    return MediaFiles({"image": tmp_path / "images", "file": tmp_path / "documents"})


async def test_files_that_nothing_refers_to_go(db: Database, clock: Clock, files: MediaFiles, tmp_path: Path) -> None:
    used = await db.write(lambda tx: keep_file(tx, files, b"used"))
    waiting = await db.write(lambda tx: keep_file(tx, files, b"just uploaded"))
    orphan = await db.write(lambda tx: keep_file(tx, files, b"orphan"))
    await db.write(lambda tx: exchange(tx, parts=(used,)))
    assert await delete_unused_files(db, files) == 0
    clock.forward(hours=25)
    await db.write(lambda tx: keep_file(tx, files, b"just uploaded"))
    assert await delete_unused_files(db, files) == 1
    assert hashes(tmp_path / "images") == {used.sha256, waiting.sha256}
    assert await db.read(lambda tx: tx.count("SELECT COUNT(*) FROM media WHERE sha256 = ?", orphan.sha256)) == 0


async def test_files_last_used_long_ago_go_though_something_refers_to_them(
    db: Database, clock: Clock, files: MediaFiles, tmp_path: Path
) -> None:
    old = await db.write(lambda tx: keep_file(tx, files, b"old"))
    again = await db.write(lambda tx: keep_file(tx, files, b"again"))
    await db.write(lambda tx: exchange(tx, parts=(old, again)))
    clock.forward(hours=20 * DAYS)
    await db.write(lambda tx: exchange(tx, parts=(again,)))
    clock.forward(hours=20 * DAYS)
    assert await delete_unused_files(db, files, media_days=30) == 1
    assert hashes(tmp_path / "images") == {again.sha256}
    assert files.load(old) is None


async def test_one_that_came_into_use_since_the_look_stays(
    db: Database, clock: Clock, files: MediaFiles, tmp_path: Path
) -> None:
    part = await db.write(lambda tx: keep_file(tx, files, b"orphan"))
    seen, _ = await retention.references(db)
    clock.forward(hours=25)
    await db.write(lambda tx: exchange(tx, parts=(part,)))

    assert await retention.delete_files(db, files, [part.sha256], seen=seen, before_ms=clock.ms) == 0
    assert hashes(tmp_path / "images") == {part.sha256}


async def test_a_file_goes_only_once_its_row_is_gone_for_good(
    db: Database, clock: Clock, files: MediaFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = await db.write(lambda tx: keep_file(tx, files, b"orphan"))
    clock.forward(hours=25)
    left: list[int] = []
    really_remove = files.remove

    def remove(sha256: str, *, before_ms: int) -> None:
        with closing(sqlite3.connect(db.path)) as connection:
            left.append(connection.execute("SELECT COUNT(*) FROM media").fetchone()[0])
        really_remove(sha256, before_ms=before_ms)

    monkeypatch.setattr(files, "remove", remove)
    assert await delete_unused_files(db, files) == 1
    assert left == [0]
    assert hashes(tmp_path / "images") == set()
    assert files.load(part) is None


async def test_a_file_that_is_saved_again_while_its_row_goes_stays(
    db: Database, clock: Clock, files: MediaFiles, tmp_path: Path
) -> None:
    part = await db.write(lambda tx: keep_file(tx, files, b"orphan"))
    clock.forward(hours=25)
    files.save("image", b"orphan")  # its row will be written in a moment
    await delete_unused_files(db, files)
    assert hashes(tmp_path / "images") == {part.sha256}


async def test_what_a_killed_process_left_in_the_caches_goes(
    db: Database, clock: Clock, files: MediaFiles, tmp_path: Path
) -> None:
    stray = files.save("file", b"no row was written")
    folder = tmp_path / "documents"
    (folder / ".partial-x").write_bytes(b"half")
    (folder / "README").write_text("somebody else's")
    for path in folder.iterdir():
        os.utime(path, (clock.ms / 1000, clock.ms / 1000))
    assert await delete_unused_files(db, files) == 0
    clock.forward(hours=25)
    assert await delete_unused_files(db, files) == 2
    assert hashes(folder) == {"README"}
    assert stray


async def test_ending_an_old_turn_is_no_reason_to_lose_its_messages(db: Database, clock: Clock) -> None:
    turn = await db.write(lambda tx: begin(tx, "long", sender=Sender(id="42")))
    clock.forward(hours=100 * DAYS)
    await delete_old_rows(db, RetentionSettings(messages_days=10))
    await db.write(lambda tx: turns.finish(tx, turn.id, turn.messages, turns.Outcome.ANSWERED))
    assert await counts(db, "messages", "turns") == {"messages": 1, "turns": 1}


async def test_old_questions_go_whatever_their_ids(db: Database, clock: Clock) -> None:
    def ask(tx: Transaction, call: str) -> None:
        asked = approvals.create(tx, an_asker(KEY, "", Sender(id="1")), call, a_question("rm x"), ADDRESS, expires_ms=2)
        approvals.deny(tx, asked, by="x")

    for number in range(10):
        await db.write(partial(ask, call=f"old {number}"))
    clock.forward(hours=30 * DAYS)
    for number in range(10):
        await db.write(partial(ask, call=f"young {number}"))
    assert await delete_old_rows(db, NOTHING.model_copy(update={"trail_days": 20})) == {"approvals": 10, "trail": 20}
    clock.forward(hours=30 * DAYS)
    await delete_old_rows(db, NOTHING.model_copy(update={"trail_days": 20}))
    assert await counts(db, "approvals") == {"approvals": 0}
