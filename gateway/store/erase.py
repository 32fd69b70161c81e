"""Erase a person: all that was said with them alone, their words in groups, and every trace that names them.

Also erases a single chat of the page.

In many short transactions, so that a gateway beside it goes on; run again, it takes up what a cut one left. What stays
are answers that were given in groups, backups, and the platforms' cursors: without them old messages would come again.
"""

import asyncio
import json
import re
import sqlite3
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from agent_core.conversation import assistant
from gateway.clock import new_id, now_ms
from gateway.errors import StoreUnavailable
from gateway.messages import InboundMessage, Sender, SessionKey
from gateway.store import approvals, drafts, inbox, processes, search, spending, transcripts, turns
from gateway.store.db.connection import Row, Transaction, connect
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from gateway.store.personal_data import (
    NOBODY,
    SENT_BY_THEM,
    Belongings,
    KnownPerson,
    belongings,
    belongings_of_chat,
    others_words,
)
from gateway.store.retention import batches, delete_files, delete_session, references
from tools.backends import supervised
from tools.backends.base import BackendFailed
from tools.content import Part, Quote, Text, dump_parts, in_search, load_parts

ERASED = "[erased]"

_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 60.0
_PASSES = 10
_TRAIL_ROWS = 5_000
_UNFINISHED = "forget_unfinished"
_ONCE_MORE = "Run `hermes forget` once more to finish it."


async def erase_person(
    db: Database, files: MediaFiles, person: KnownPerson, *, gateway_runs: Callable[[], bool]
) -> None:
    """Returns once nothing is left in the database, its log and the caches.

    Raises StoreUnavailable when that cannot be reached; what was erased until then stays erased.
    """
    hashes: set[str] = set()
    for _ in range(_PASSES):
        await _stop_work(db, person, gateway_runs)
        found = await db.read(partial(belongings, person=person))
        hashes |= found.files
        await _erase_rows(db, person, found)
        if await db.write(partial(_erase_names, person=person, found=found)):
            break
    else:
        raise StoreUnavailable("New messages of theirs keep coming in. Stop the gateway and try again.")
    await _delete_unused(db, files, hashes)
    await finish(db)


async def erase_chat(db: Database, files: MediaFiles, account: str, chat: str, session_key: str) -> bool:
    """Erase a chat that is one person's alone; False, and nothing is erased, while something runs or waits in it.

    The words are gone from the tables, the search and the caches. The file is not rewritten: that would hold up
    everybody else's messages, and `hermes forget` does it.
    """
    look = partial(belongings_of_chat, account=account, chat=chat, session_key=session_key)
    hashes: set[str] = set()
    for _ in range(_PASSES):
        found = await db.read(look)
        if await db.read(partial(_is_busy, session_key=session_key)):
            return False
        hashes |= found.files
        await _erase_rows(db, NOBODY, found)
        if await db.write(partial(_erase_names, person=NOBODY, found=found)):
            await _delete_unused(db, files, hashes)
            await _clean_index(db)
            return True
    return False


def _is_busy(tx: Transaction, session_key: str) -> bool:
    waits = tx.one("SELECT 1 FROM inbox WHERE session_key = ? AND state <> 'done'", session_key) is not None
    return waits or turns.is_running(tx, session_key)


async def _delete_unused(db: Database, files: MediaFiles, hashes: Collection[str]) -> None:
    """Delete those of the files to which no row refers any more."""
    if not hashes:
        return
    seen, still_used = await references(db)
    for batch in batches(sorted(set(hashes) - still_used.keys())):
        await delete_files(db, files, batch, seen=seen, before_ms=now_ms() + 1)


def is_unfinished(tx: Transaction) -> bool:
    """Whether somebody's rows were erased, but the file was not rewritten after that."""
    return tx.one("SELECT 1 FROM meta WHERE name = ?", _UNFINISHED) is not None


async def finish(db: Database) -> None:
    """Deleted rows are still in the search index, in free pages and in the log: all three are gone through now."""
    await _clean_index(db)
    await asyncio.to_thread(_rewrite_file, db.path)
    await db.write(lambda tx: tx.execute("DELETE FROM meta WHERE name = ?", _UNFINISHED))


async def _clean_index(db: Database) -> None:
    begin = True
    while await db.write(partial(search.drop_deleted, begin=begin)):
        begin = False


async def _stop_work(db: Database, person: KnownPerson, gateway_runs: Callable[[], bool]) -> None:
    """Returns when nothing of theirs comes in, runs or is being sent any more."""
    asked: set[str] = set()
    found = await db.read(partial(belongings, person=person))
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                await db.write(partial(_close_the_door, person=person, found=found))
                at_work = await db.read(partial(_at_work, person=person))
                if not gateway_runs():
                    await db.write(partial(_end_work, at_work=at_work))
                    return
                # Deleted while it is sent, a reply would still be told of by the one who sends it.
                if not at_work and not await db.read(partial(_open_replies, found=found)):
                    return
                for turn in at_work:
                    if turn["id"] not in asked:
                        await db.write(partial(_ask_to_stop, turn=turn, person=person))
                        asked.add(turn["id"])
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise StoreUnavailable("The gateway does not stop working for them. Stop it, and try again.") from None


def _close_the_door(tx: Transaction, person: KnownPerson, found: Belongings) -> None:
    now = now_ms()
    for account, user_id in person.identities:
        tx.execute("UPDATE identities SET revoked_ms = ? WHERE account = ? AND user_id = ?", now, account, user_id)
    waiting = f"SELECT id FROM inbox WHERE state <> 'done' AND state = 'ready' AND kind <> 'command' AND {SENT_BY_THEM}"  # noqa: S608
    for row in tx.all(waiting, *person.keys):
        inbox.finish(tx, row["id"], "deleted")
    for row_id in _open_replies(tx, found):
        tx.execute("UPDATE outbox SET state = 'expired' WHERE id = ? AND state <> 'sending'", row_id)


def _at_work(tx: Transaction, person: KnownPerson) -> list[Row]:
    """Open turns that answer them."""
    return tx.all(
        f"""SELECT DISTINCT t.id, t.session_id, s.platform, s.account, s.kind, s.chat, s.thread, s.user_id
              FROM turns t JOIN sessions s ON s.id = t.session_id JOIN inbox i ON i.turn_id = t.id
             WHERE t.state <> 'done' AND i.id IN (
                   SELECT id FROM inbox WHERE state <> 'done' AND {SENT_BY_THEM})""",  # noqa: S608
        *person.keys,
    )


def _open_replies(tx: Transaction, found: Belongings) -> list[int]:
    rows = tx.all("SELECT id, account, chat, turn_id FROM outbox WHERE state IN ('ready', 'sending', 'unsure')")
    own_turns = set(found.turns)
    return [row["id"] for row in rows if (row["account"], row["chat"]) in found.chats or row["turn_id"] in own_turns]


def _ask_to_stop(tx: Transaction, turn: Row, person: KnownPerson) -> None:
    """As they could themselves: the gateway notices what another process writes."""
    key = SessionKey(
        platform=turn["platform"],
        account=turn["account"],
        kind=turn["kind"],
        chat=turn["chat"],
        thread=turn["thread"],
        user=turn["user_id"],
    )
    _, user_id = min(person.identities)
    stop = InboundMessage(
        key=key,
        message_id=f"forget-{new_id()}",
        kind="command",
        sender=Sender(id=user_id),
        parts=(Text(text="/stop"),),
        sent_ms=now_ms(),
    )
    inbox.insert(tx, stop, person_id=min(person.ids))


def _end_work(tx: Transaction, at_work: Sequence[Row]) -> None:
    for turn in at_work:
        transcripts.append(tx, turn["session_id"], assistant("(Stopped.)"), turn_id=turn["id"])
        turns.finish(tx, turn["id"], inbox.of_turn(tx, turn["id"]), "stopped")


async def _erase_rows(db: Database, person: KnownPerson, found: Belongings) -> None:
    for process_id in found.processes:
        await _end_process(db, process_id)
    for batch in batches(found.said):
        await db.write(partial(_blank, ids=batch))
    for table in ("messages", "inbox", "outbox"):
        rows = await db.read(partial(others_words, person=person, table=table, own_sessions=found.sessions))
        for some in batches(rows):
            await db.write(partial(_blank_repeated, table=table, rows=some, person=person))
    await _erase_trail(db, person, found)
    for table, ids in (
        ("messages", found.messages),
        ("outbox", found.outbox),
        ("overheard", found.overheard),
        ("inbox", found.inbox),
    ):
        for some_ids in batches(ids):
            await db.write(partial(_delete, table=table, ids=some_ids))
    for turns_of_theirs in batches(found.turns):
        await db.write(partial(_forget_drafts, ids=turns_of_theirs))
    for some_turns in batches(found.turns):
        await db.write(partial(_delete_turns, ids=some_turns))
    for sessions in batches(found.sessions):
        await db.write(partial(_delete_sessions, ids=sessions))


async def _end_process(db: Database, process_id: str) -> None:
    """The row goes last: cut off in between, the next run still finds the process and its output."""
    process = await db.write(partial(processes.hush, process_id=process_id))
    if process is None:
        return
    try:
        await supervised.kill(process.spawned)
    except BackendFailed as error:
        raise StoreUnavailable(
            f"The background process {process.id} was not ended: {error} Try again to finish."
        ) from error
    await asyncio.to_thread(supervised.forget, process.spawned)
    await db.write(partial(processes.erase, process_id=process_id))


def _blank(tx: Transaction, ids: Sequence[int]) -> None:
    """A transcript without the message would no longer fit the answers in it."""
    for row_id in ids:
        tx.execute(
            "UPDATE messages SET parts = ?, search_text = ?, inbox_id = NULL, person_id = NULL WHERE id = ?",
            dump_parts([Text(text=ERASED)]),
            ERASED,
            row_id,
        )


def _blank_repeated(tx: Transaction, table: str, rows: Sequence[Row], person: KnownPerson) -> None:
    for row in rows:
        before = load_parts(row["parts"])
        after = (
            tuple(_without_name(part, person.names) for part in before)
            if table == "outbox"
            else tuple(_without_words(part, person.names) for part in before)
        )
        if after == before:
            continue
        tx.execute(f"UPDATE {table} SET parts = ? WHERE id = ?", dump_parts(after), row["id"])  # noqa: S608
        if table == "messages":
            found_by = search.searchable(in_search(after))
            tx.execute("UPDATE messages SET search_text = ? WHERE id = ?", found_by, row["id"])


def _without_words(part: Part, names: Collection[str]) -> Part:
    match part:
        case Quote() if part.author in names:
            return replace(part, text=ERASED, author="")
        case Text() if any(_speaks(name, part.text) for name in names):  # what was overheard in a group
            return Text(text=ERASED)
        case _:
            return part


def _speaks(name: str, text: str) -> bool:
    """`gateway.turns.transcript_text` marks each overheard line."""
    return re.search(rf"^(?:> )?{re.escape(name)}: ", text, re.MULTILINE) is not None


def _without_name(part: Part, names: Collection[str]) -> Part:
    """For what we said ourselves about them, such as that they ask to be let in."""
    named = isinstance(part, Text) and any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", part.text) for name in names)
    return Text(text=ERASED) if named else part


async def _erase_trail(db: Database, person: KnownPerson, found: Belongings) -> None:
    inbox_ids, outbox_ids, turn_ids = set(found.inbox), set(found.outbox), set(found.turns)

    def is_theirs(row: Row) -> bool:
        if row["inbox_id"] in inbox_ids or row["outbox_id"] in outbox_ids or row["turn_id"] in turn_ids:
            return True
        detail = json.loads(row["detail"])
        sender = f"{detail.get('account') or detail.get('platform')}:{detail.get('sender')}"
        return detail.get("session") in found.session_keys or bool({sender, detail.get("by")} & person.handles)

    last = 0
    while rows := await db.read(partial(_page_of_trail, after=last)):
        last = rows[-1]["id"]
        for ids in batches([row["id"] for row in rows if is_theirs(row)]):
            await db.write(partial(_delete, table="trail", ids=ids))


def _page_of_trail(tx: Transaction, after: int) -> list[Row]:
    return tx.all("SELECT * FROM trail WHERE id > ? ORDER BY id LIMIT ?", after, _TRAIL_ROWS)


def _delete(tx: Transaction, table: str, ids: Sequence[int]) -> None:
    for row_id in ids:
        if table == "inbox":
            tx.execute("UPDATE messages SET inbox_id = NULL WHERE inbox_id = ?", row_id)
        tx.execute(f"DELETE FROM {table} WHERE id = ?", row_id)  # noqa: S608


def _forget_drafts(tx: Transaction, ids: Sequence[str]) -> None:
    """A gateway that is still about to take one away finds that out by itself."""
    for turn_id in ids:
        drafts.forget(tx, turn_id)


def _delete_turns(tx: Transaction, ids: Sequence[str]) -> None:
    for turn_id in ids:
        tx.execute(
            """DELETE FROM turns WHERE id = ? AND state = 'done'
                  AND NOT EXISTS (SELECT 1 FROM inbox WHERE turn_id = turns.id)""",
            turn_id,
        )


def _delete_sessions(tx: Transaction, ids: Sequence[str]) -> None:
    for session_id in ids:
        if not tx.one(
            """SELECT 1 FROM turns WHERE session_id = ? UNION ALL SELECT 1 FROM messages WHERE session_id = ?""",
            session_id,
            session_id,
        ):
            delete_session(tx, session_id)


def _erase_names(tx: Transaction, person: KnownPerson, found: Belongings) -> bool:
    """The last step; False when something of theirs has come in meanwhile and must go first."""
    for session_id in found.shared:  # called after what was said first in it, perhaps by them
        tx.execute("UPDATE sessions SET title = '' WHERE id = ?", session_id)
    for name in person.names:
        tx.execute("UPDATE sessions SET display_name = '' WHERE display_name = ?", name)
    for account, chat in found.chats:
        tx.execute("DELETE FROM chats WHERE account = ? AND chat = ?", account, chat)
    for row_id in found.pairing:
        tx.execute("DELETE FROM pairing_requests WHERE id = ?", row_id)
    spending.forget(tx, person.ids, found.chats)
    approvals.forget(tx, person.ids, found.session_keys)
    for handle in person.handles:
        tx.execute("UPDATE chats SET allowed_by = '' WHERE allowed_by = ?", handle)
        tx.execute("DELETE FROM pairing_invites WHERE used_by = ?", handle)
        tx.execute("DELETE FROM pairing_failures WHERE who = ?", handle)
        approvals.forget_decider(tx, handle)
    still_there = tx.one(f"SELECT 1 FROM inbox WHERE {SENT_BY_THEM} LIMIT 1", *person.keys) is not None  # noqa: S608
    if still_there or any(tx.one("SELECT 1 FROM sessions WHERE id = ?", one) for one in found.sessions):
        return False
    for person_id in person.ids:
        tx.execute("DELETE FROM identities WHERE person_id = ?", person_id)
        tx.execute("DELETE FROM people WHERE id = ?", person_id)
    tx.execute("INSERT INTO meta (name, value) VALUES (?, 1) ON CONFLICT DO NOTHING", _UNFINISHED)
    return True


def _rewrite_file(path: Path) -> None:
    # Not `PRAGMA secure_delete`: it misses what SQLite copied when it moved rows from page to page. While the file is
    # rewritten a gateway's writes wait; one that waits too long is refused before it is acknowledged, and tried again.
    connection = connect(path, busy_timeout_seconds=_PATIENCE_SECONDS)
    try:
        connection.execute("VACUUM")
        [in_use, *_] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as error:
        raise StoreUnavailable(f"All rows are erased, but not overwritten yet: {error}. {_ONCE_MORE}") from error
    finally:
        connection.close()
    if in_use:
        raise StoreUnavailable(f"All rows are erased, but the log of the database is in use. {_ONCE_MORE}")
