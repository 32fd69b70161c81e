"""A person who is forgotten: nothing of theirs is left, not even in the raw bytes; nobody else loses anything."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent_core.conversation import Message, user
from agent_core.events import Usage
from gateway.errors import StoreUnavailable
from gateway.messages import Address, Sender, SessionKey
from gateway.store import (
    approvals,
    chats,
    compactions,
    drafts,
    erase,
    members,
    outbox,
    people,
    processes,
    sessions,
    spending,
    tables,
    trail,
    transcripts,
    turns,
)
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.erase import PersonToErase, erase_person, find_person, find_personal_data
from gateway.store.inspect import read_counts
from gateway.store.media import MediaFiles
from gateway.store.retention import delete_old_rows
from gateway.store.spending import Call
from gateway.store.trail import TrailEvent
from gateway.turns.transcript_text import render_for_model
from hermes_config.settings import RetentionSettings
from tests.gateway.store.conftest import Clock
from tests.gateway.store.exchange import begin, exchange, keep_file
from tests.gateway.store.rows import a_process, a_question, an_asker, find_hits, inbound, take
from tools.content import Quote, Text, dump_parts, load_parts
from tools.workplaces import process_backends

CANARY = "kanarienvogel"
ANN = Sender(id="42", name="Ann Kanarienvogel")
BOB = Sender(id="43", name="Bob")
ANNS = SessionKey(platform="telegram", kind="dm", chat="42")
BOBS = SessionKey(platform="telegram", kind="dm", chat="43")
GROUP = SessionKey(platform="telegram", kind="group", chat="-100")
SLACK = SessionKey(platform="slack", kind="dm", chat="D012")  # here a chat's id is not its person's
TABLES = [table.name for table in tables.TABLES if table.name not in ("meta", "notices", "web_keys", "cursors")]


@pytest.fixture
def files(tmp_path: Path) -> MediaFiles:
    return MediaFiles({"image": tmp_path / "images", "file": tmp_path / "documents"})


def everything_of(tx: Transaction, who: Sender, key: SessionKey, words: str) -> None:
    """Somebody with a bit of all that there is, and twenty exchanges so that the index has several parts."""
    for number in range(20):
        exchange(tx, f"{words} {number}", f"you said {words} {number}", key=key, sender=who)
    sessions.end_current(tx, str(key), reason="idle")
    exchange(tx, f"{words} again", f"again {words}", key=key, sender=who)
    exchange(tx, f"{words} in the group", "an answer to all", key=GROUP, sender=who)
    tx.execute(
        """INSERT INTO overheard (session_key, account, sender_id, sender_name, message_id, text, sent_ms)
           VALUES (?, 'telegram', ?, ?, ?, ?, 1)""",
        str(GROUP),
        who.id,
        who.name,
        f"overheard {who.id}",
        f"{words} to others",
    )
    tx.execute(
        """INSERT INTO pairing_requests (account, user_id, user_name, chat, state, requested_ms, expires_ms)
           VALUES ('telegram', ?, ?, ?, 'approved', 1, 2)""",
        who.id,
        f"{who.name} {words}",
        key.chat,
    )
    tx.execute(
        """INSERT INTO pairing_invites (platform, role, salt, hash, created_ms, expires_ms, used_by)
           VALUES ('telegram', 'member', x'00', x'00', 1, 2, ?)""",
        f"telegram:{who.id}",
    )
    tx.execute("INSERT INTO pairing_failures (platform, who, at_ms) VALUES ('telegram', ?, 1)", who.id)
    tx.execute("INSERT INTO chats (account, chat, title) VALUES ('telegram', ?, ?)", key.chat, words)
    process = replace(a_process("", who.id), holder=f"{key}/{words}", command=f"echo {words}", ended_ms=1)
    processes.add(tx, process)
    tx.execute("UPDATE processes SET account = 'telegram', sender_id = ? WHERE id = ?", who.id, process.id)
    person_id = people.find(tx, "telegram", who.id) or ""
    asked = approvals.create(
        tx,
        an_asker(key, person_id, who),
        "call",
        a_question(f"rm -r {words}", rules=(f"recursive-delete /srv/{words}",)),
        key.reply_address(""),
        expires_ms=2,
    )
    approvals.approve(tx, asked, "always", by=f"telegram:{who.id}")
    trail.record_refusal(tx, account="telegram", chat="9", sender_id=who.id, reason=words)


async def find(db: Database, account: str = "telegram", user_id: str = "42") -> PersonToErase:
    return await db.read(lambda tx: find_person(tx, account, user_id))


async def forget(db: Database, files: MediaFiles, person: PersonToErase, *, gateway_runs: bool = False) -> None:
    await erase_person(db, files, person, backends=process_backends(), gateway_runs=lambda: gateway_runs)


async def forget_ann(db: Database, files: MediaFiles, *, gateway_runs: bool = False) -> None:
    await forget(db, files, await find(db), gateway_runs=gateway_runs)


async def all_rows(db: Database) -> dict[str, list[tuple[object, ...]]]:
    def query(tx: Transaction) -> dict[str, list[tuple[object, ...]]]:
        return {table: [tuple(row) for row in tx.all(f"SELECT * FROM {table}")] for table in TABLES}

    return await db.read(query)


async def sound(db: Database) -> bool:
    def query(tx: Transaction) -> bool:
        return not tx.all("PRAGMA foreign_key_check") and tx.all("PRAGMA integrity_check")[0][0] == "ok"

    healthy = await db.read(query)
    await db.write(
        lambda tx: tx.execute("INSERT INTO messages_search (messages_search, rank) VALUES ('integrity-check', 1)")
    )
    return healthy


def raw_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()).lower()


async def test_nothing_is_left_in_the_raw_files(db: Database, files: MediaFiles, tmp_path: Path) -> None:
    await db.write(lambda tx: everything_of(tx, BOB, BOBS, "sparrow"))
    await db.write(lambda tx: everything_of(tx, ANN, ANNS, CANARY))
    picture = await db.write(lambda tx: keep_file(tx, files, CANARY.encode() * 100))
    await db.write(lambda tx: exchange(tx, "see", key=ANNS, sender=ANN, parts=(picture,)))
    assert CANARY.encode() in raw_bytes(tmp_path)
    await forget_ann(db, files)
    assert CANARY.encode() not in raw_bytes(tmp_path)
    assert b"sparrow" in raw_bytes(tmp_path)
    assert not any(CANARY in json.dumps(rows, default=str).lower() for rows in (await all_rows(db)).values())
    assert await sound(db)


async def test_nobody_else_loses_anything(db: Database, files: MediaFiles) -> None:
    await db.write(lambda tx: everything_of(tx, BOB, BOBS, "sparrow"))
    picture = await db.write(lambda tx: keep_file(tx, files, b"Bob's picture"))
    await db.write(lambda tx: exchange(tx, "see", key=BOBS, sender=BOB, parts=(picture,)))
    before = await all_rows(db)
    await db.write(lambda tx: everything_of(tx, ANN, ANNS, CANARY))
    await forget_ann(db, files)
    after = await all_rows(db)
    for table in TABLES:
        missing = [row for row in before[table] if row not in after[table]]
        assert [row for row in missing if table != "sessions"] == []
        assert len(missing) <= 1  # the group's session has lost its title, and its time has moved
    assert files.load(picture) == b"Bob's picture"
    assert len(await db.read(lambda tx: find_hits(tx, "sparrow", limit=100))) == 43


async def test_afterwards_they_are_a_stranger(db: Database, files: MediaFiles) -> None:
    await db.write(lambda tx: everything_of(tx, ANN, ANNS, CANARY))
    await db.write(lambda tx: tx.execute("UPDATE identities SET paired_ms = 1"))
    await forget_ann(db, files)
    standing = await db.read(lambda tx: people.read_status(tx, "telegram", "42", "42"))
    assert (standing.paired_as, standing.revoked) == (None, False)
    again = await find(db)
    assert (again.ids, again.names) == (frozenset(), frozenset())
    assert (await db.read(lambda tx: find_personal_data(tx, again))).is_empty
    await db.write(lambda tx: exchange(tx, "hello, I am new", key=ANNS, sender=ANN))


async def test_in_a_group_their_words_are_blanked_and_the_rest_stays_valid(db: Database, files: MediaFiles) -> None:
    await db.write(lambda tx: exchange(tx, "Bob asks", "to Bob", key=GROUP, sender=BOB))
    turn = await db.write(lambda tx: exchange(tx, f"{CANARY} asks", "to Ann", key=GROUP, sender=ANN))
    await forget_ann(db, files)
    history = await db.read(lambda tx: compactions.read_history(tx, turn.session_id, limit=100).messages)
    assert [(message.role, message.text) for message in history] == [
        ("user", "Bob asks"),
        ("assistant", ""),
        ("tool", "done"),
        ("assistant", "to Bob"),
        ("user", "[erased]"),
        ("assistant", ""),
        ("tool", "done"),
        ("assistant", "to Ann"),
    ]
    assert all(message.tool_calls for message in history if message.role == "assistant" and not message.text)


def quoting_ann(tx: Transaction) -> str:
    """Bob replies to Ann, and a mention has brought along what she said to others."""
    turn = exchange(tx, "Bob asks", "to Bob", key=GROUP, sender=BOB)
    overheard_lines = f"Bob: hm\n{ANN.name}: {CANARY}\nwith a second {CANARY} line"
    said = replace(turn.messages[0], parts=(Quote(text=CANARY, author=ANN.name), Text(text="what does Ann mean?")))
    parts = render_for_model(said, overheard_lines)
    transcripts.append(tx, turn.session_id, Message(role="user", parts=parts))
    tx.execute("UPDATE inbox SET parts = ?", dump_parts(parts))
    begin(tx, "hello", key=ANNS, sender=ANN)
    return turn.session_id


async def test_their_words_in_the_mouths_of_others_go_too(db: Database, files: MediaFiles, tmp_path: Path) -> None:
    session_id = await db.write(quoting_ann)
    await forget_ann(db, files)
    [row] = await db.read(
        lambda tx: tx.all("SELECT parts FROM messages WHERE session_id = ? ORDER BY id DESC LIMIT 1", session_id)
    )
    assert load_parts(row["parts"]) == (
        Text(text="[erased]"),
        Text(text="Bob:", origin="hermes"),
        Quote(text="[erased]"),
        Text(text="what does Ann mean?"),
    )
    assert CANARY.encode() not in raw_bytes(tmp_path)
    assert await db.read(lambda tx: [hit.role for hit in find_hits(tx, "mean")]) == ["user"]


async def test_a_file_that_somebody_else_sent_too_stays(db: Database, files: MediaFiles) -> None:
    shared = await db.write(lambda tx: keep_file(tx, files, b"a meme"))
    own = await db.write(lambda tx: keep_file(tx, files, b"a face"))
    await db.write(lambda tx: exchange(tx, key=ANNS, sender=ANN, parts=(shared, own)))
    await db.write(lambda tx: exchange(tx, key=BOBS, sender=BOB, parts=(shared,)))
    await forget_ann(db, files)
    assert files.load(shared) == b"a meme"
    assert files.load(own) is None
    assert await db.read(lambda tx: tx.count("SELECT COUNT(*) FROM media")) == 1


async def test_what_outlived_its_inbox_row_is_still_known_as_theirs(
    db: Database, files: MediaFiles, clock: Clock, tmp_path: Path
) -> None:
    await db.write(lambda tx: exchange(tx, f"{CANARY} in a dm", key=SLACK, sender=Sender(id="U0ANN", name="Ann")))
    await db.write(lambda tx: exchange(tx, f"{CANARY} in a group", key=GROUP, sender=ANN))
    clock.forward(hours=24 * 100)
    await delete_old_rows(db, RetentionSettings())
    for account, user_id in (("slack", "U0ANN"), ("telegram", "42")):
        await forget(db, files, await find(db, account, user_id))
    assert CANARY.encode() not in raw_bytes(tmp_path)
    assert await db.read(lambda tx: tx.count("SELECT COUNT(*) FROM sessions")) == 1


async def test_all_identities_of_a_person_are_forgotten(db: Database, files: MediaFiles, tmp_path: Path) -> None:
    def unit(tx: Transaction) -> None:
        exchange(tx, CANARY, key=ANNS, sender=ANN)
        row = tx.one("SELECT person_id FROM identities WHERE user_id = '42'")
        assert row is not None
        tx.execute("INSERT INTO identities (account, user_id, person_id, name) VALUES ('slack', 'U0', ?, 'A')", row[0])
        exchange(tx, CANARY, key=SLACK, sender=Sender(id="U0", name="A"))
        work = SessionKey(platform="telegram", account="work", kind="dm", chat="42")
        exchange(tx, CANARY, key=work, sender=ANN)  # the same id at a second bot is the same person

    await db.write(unit)
    await forget_ann(db, files)
    assert CANARY.encode() not in raw_bytes(tmp_path)
    assert await db.read(lambda tx: tx.count("SELECT COUNT(*) FROM identities")) == 0


async def test_conversations_of_their_own_in_a_group(db: Database, files: MediaFiles, tmp_path: Path) -> None:
    own = SessionKey(platform="telegram", kind="group", chat="-100", user="42")
    bobs = SessionKey(platform="telegram", kind="group", chat="-100", user="43")
    await db.write(lambda tx: exchange(tx, CANARY, CANARY, key=own, sender=ANN))
    await db.write(lambda tx: exchange(tx, "tweet", "tweet", key=bobs, sender=BOB))
    await forget_ann(db, files)
    assert CANARY.encode() not in raw_bytes(tmp_path)
    rest = await all_rows(db)
    assert {table: len(rest[table]) for table in ("sessions", "inbox", "outbox", "messages")} == {
        "sessions": 1,
        "inbox": 1,
        "outbox": 1,
        "messages": 4,
    }


async def test_somebody_who_was_never_let_in_leaves_nothing_either(db: Database, files: MediaFiles) -> None:
    def unit(tx: Transaction) -> None:
        trail.record_refusal(tx, account="telegram@work", chat="42", sender_id="42", reason="not paired yet")
        tx.execute(
            """INSERT INTO pairing_requests (account, user_id, user_name, chat, state, requested_ms, expires_ms)
               VALUES ('telegram@work', '42', 'Ann', '42', 'pending', 1, 2)"""
        )
        address = SessionKey(platform="telegram", account="work", kind="dm", chat="42").reply_address("1")
        outbox.add_notice(tx, address, "Your code …", topic="pairing")

    await db.write(unit)
    await forget_ann(db, files)
    rest = await all_rows(db)
    assert {table: rows for table, rows in rest.items() if rows} == {}


async def test_the_owner_takes_their_terminal_and_page_along(db: Database, files: MediaFiles, tmp_path: Path) -> None:
    def unit(tx: Transaction) -> None:
        me = Sender(id="local", name="Me")
        people.recognise(tx, "web", me, role="owner")
        exchange(tx, CANARY, CANARY, key=SessionKey(platform="web", chat="abc"), sender=me)
        session = sessions.open_current(tx, SessionKey(platform="cli", chat="1a2b"))
        transcripts.append(tx, session.id, user(CANARY))
        exchange(tx, "hello", key=BOBS, sender=BOB)

    await db.write(unit)
    me = await find(db, "web", "local")
    assert me.is_owner
    await forget(db, files, me)
    assert CANARY.encode() not in raw_bytes(tmp_path)
    assert await db.read(lambda tx: tx.count("SELECT COUNT(*) FROM sessions")) == 1


@pytest.mark.parametrize("key", [ANNS, GROUP])
async def test_without_a_gateway_open_work_is_ended(db: Database, files: MediaFiles, key: SessionKey) -> None:
    def unit(tx: Transaction) -> None:
        turn = begin(tx, CANARY, key=key, sender=ANN)
        transcripts.mark_tool_started(tx, turn.id, "call")
        take(tx, inbound(f"{CANARY} waiting", key=key, sender=ANN))

    await db.write(unit)
    await forget_ann(db, files)
    rest = await all_rows(db)
    assert (rest["inbox"], rest["tool_starts"], rest["people"]) == ([], [], [])
    assert (await db.read(read_counts))["running"] == 0
    assert await sound(db)


async def test_beside_a_gateway_a_running_turn_is_stopped_first(db: Database, files: MediaFiles) -> None:
    """The gateway is played here: it sees that the turn is to stop, and ends it."""
    turn = await db.write(lambda tx: begin(tx, CANARY, key=ANNS, sender=ANN))
    forgetting = asyncio.create_task(forget_ann(db, files, gateway_runs=True))

    def stop(tx: Transaction) -> bool:
        if turns.list_stopping(tx) != [turn.id]:
            return False
        turns.finish(tx, turn.id, turn.messages, turns.Outcome.STOPPED)
        return True

    async with asyncio.timeout(10):
        while not await db.write(stop):
            assert not forgetting.done()
            await asyncio.sleep(0)
        await forgetting
    assert {table: rows for table, rows in (await all_rows(db)).items() if rows} == {}


async def test_the_draft_that_a_crash_has_left_for_them_is_forgotten(db: Database, files: MediaFiles) -> None:
    def unit(tx: Transaction) -> None:
        for who, key in ((ANN, ANNS), (BOB, BOBS)):
            exchange(tx, "hello", "hi", key=key, sender=who)
        for row in tx.all("SELECT id, session_key FROM turns"):
            chat = row["session_key"].rpartition(":")[2]
            drafts.begin(tx, drafts.new(row["id"], Address(account="telegram", chat=chat)))

    await db.write(unit)
    await forget_ann(db, files)
    assert await db.read(lambda tx: [row["chat"] for row in tx.all("SELECT chat FROM drafts")]) == ["43"]


async def test_what_they_spent_stays_in_the_sums_under_nobodys_name(db: Database, files: MediaFiles) -> None:
    def unit(tx: Transaction) -> None:
        for who, key in ((ANN, ANNS), (ANN, GROUP), (BOB, GROUP)):
            turn = begin(tx, "hello", key=key, sender=who)
            payer = spending.payer_of_turn(tx, turn.id, turn.session_id)
            call = Call(key=turn.id, at_ms=1, day="2026-03-24", model="m", usage=Usage(input_tokens=10))
            spending.settle(tx, call, payer)
            turns.finish(tx, turn.id, turn.messages, turns.Outcome.ANSWERED)

    await db.write(unit)
    await forget_ann(db, files)
    [bob] = (await find(db, user_id="43")).ids
    kept = await db.read(lambda tx: tx.all("SELECT person_id, chat, session_id <> '' FROM spending ORDER BY id"))
    assert [tuple(row) for row in kept] == [("", "", 0), ("", "telegram:-100", 0), (bob, "telegram:-100", 1)]


async def test_a_gateway_that_does_not_stop_is_told_of(
    db: Database, files: MediaFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erase, "_PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(erase, "_LOOK_SECONDS", 0.01)
    await db.write(lambda tx: begin(tx, CANARY, key=ANNS, sender=ANN))
    with pytest.raises(StoreUnavailable, match="Stop it, and try again"):
        await forget_ann(db, files, gateway_runs=True)
    await forget_ann(db, files)  # and then it goes on where it was
    assert (await all_rows(db))["inbox"] == []


async def test_what_the_owner_was_told_about_them_goes(db: Database, files: MediaFiles, tmp_path: Path) -> None:
    def unit(tx: Transaction) -> None:
        exchange(tx, "hello", key=ANNS, sender=ANN)
        home = BOBS.reply_address("1")
        outbox.add_notice(tx, home, f"{ANN.name} (42) asks to be let in.", topic="pairing")
        outbox.add_notice(tx, home, f"{ANN.name}s and others are birds.", topic="birds")
        trail.record(tx, TrailEvent.REVOKED, platform="telegram", sender="42", by="telegram:43")
        trail.record(tx, TrailEvent.PAIRING_APPROVED, account="telegram", sender="43", by="telegram:42")
        trail.record(tx, TrailEvent.REVOKED, platform="discord", sender="42", by="telegram:43")

    await db.write(unit)
    await forget_ann(db, files)
    rest = await all_rows(db)
    assert [json.loads(str(row[8]))[0]["text"] for row in rest["outbox"]] == [
        "[erased]",
        "Ann Kanarienvogels and others are birds.",
    ]
    assert len(rest["trail"]) == 1


@pytest.mark.parametrize(
    ("text", "goes"),
    [
        ("Ann: psst", True),
        ("> Ann: psst", True),
        ("first\n> Ann: psst\nlast", True),
        ("> Bob: Ann: psst", False),
        ("> Joann: psst", False),
        ("I know Ann: she sings", False),
    ],
)
def test_only_a_line_that_is_theirs_is_taken_for_it(text: str, goes: bool) -> None:
    assert (erase._blank_part(Text(text=text), {"Ann"}, is_ours=False) == Text(text="[erased]")) is goes


async def test_an_owner_is_known_as_one_however_they_became_it(db: Database) -> None:
    def unit(tx: Transaction) -> None:
        members.admit(tx, "telegram", "42", "Ann", "owner")
        members.admit(tx, "telegram", "43", "Bob", "member")
        members.revoke(tx, "telegram", "43", owner_users=(), allowed_users=(), by="test")

    await db.write(unit)
    ann, bob = await find(db), await find(db, user_id="43")
    assert (ann.has_owners_role, ann.is_owner, ann.was_revoked) == (True, False, False)
    assert (bob.has_owners_role, bob.was_revoked) == (False, True)


async def test_overheard_words_of_others_stay(db: Database, files: MediaFiles) -> None:
    def unit(tx: Transaction) -> None:
        for who in (ANN, BOB):
            chats.add_overheard(tx, inbound("psst", key=GROUP, sender=who), keep=20)

    await db.write(unit)
    await forget_ann(db, files)
    assert await db.read(lambda tx: [row["sender_name"] for row in tx.all("SELECT * FROM overheard")]) == ["Bob"]


async def test_what_would_go_is_counted_before(db: Database) -> None:
    await db.write(lambda tx: everything_of(tx, BOB, BOBS, "sparrow"))
    await db.write(lambda tx: everything_of(tx, ANN, ANNS, CANARY))
    ann = await find(db)
    data = await db.read(lambda tx: find_personal_data(tx, ann))
    rows = {table: len(keys) for table, keys in data.rows.items()}
    assert (rows["sessions"], rows["messages"], len(data.said)) == (2, 84, 1)
    assert (rows["inbox"], rows["outbox"], rows["overheard"], rows["pairing_requests"]) == (22, 21, 1, 1)
    assert ann.names == {"Ann Kanarienvogel"}
