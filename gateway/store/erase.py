"""Erase a person: conversations with them alone, their words in groups, and every row that names them.

Also erases a single chat of the page. The rows are found by the declarations in `tables.py`.

Works in many short transactions, so that a running gateway is not blocked; a second run resumes an interrupted one.
Answers given in groups, backups and the platforms' cursors stay: without cursors old messages would arrive again.
"""

import asyncio
import json
import re
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from agent_core.conversation import assistant
from gateway.clock import now_ms
from gateway.errors import StoreUnavailable
from gateway.store import compactions, inbox, processes, search_index, transcripts, turns
from gateway.store.db.connection import Row, Transaction, connect
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from gateway.store.people import OWNER
from gateway.store.retention import batches, delete_files, delete_rows, hashes_in, references
from gateway.store.tables import INBOX_OPEN, INBOX_WAITING, OUTBOX_OPEN, OUTBOX_WAITING, TABLES, TURN_OPEN, Named, Ref
from tools.backends.base import BackendFailed, ProcessBackends
from tools.content import Part, Quote, Text, dump_parts, in_search, load_parts

ERASED = "[erased]"

_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 60.0
_PASSES = 10
_UNFINISHED = "forget_unfinished"
_RUN_AGAIN = "Run `hermes forget` once more to finish."
_PRIVATE = ("dm", "")  # kinds of chat in which nobody else speaks

_REFERRED: dict[str, Named] = {"turns": "turn", "inbox": "inbox", "outbox": "outbox"}  # by other tables
_tables = {table.name: table for table in TABLES}
_PEOPLE = Ref("person", ("person_id",)).condition
_IDENTITIES = Ref("identity", ("account", "sender_id")).condition
_SENT_BY_THEM = f"({_PEOPLE} OR {_IDENTITIES})"
_ACCOUNT = "CASE s.account WHEN '' THEN s.platform ELSE s.platform || '@' || s.account END"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonToErase:
    """A person to erase, with every id and name they have here."""

    ids: frozenset[str]  # in `people`; empty when they were never let in
    identities: frozenset[tuple[str, str]]  # account, user id
    names: frozenset[str] = frozenset()
    has_owners_role: bool = False  # the one who runs this machine, or somebody paired as an owner
    was_revoked: bool = False

    @property
    def is_owner(self) -> bool:
        """Return whether they run this machine: the terminal and the page are theirs."""
        return OWNER in self.ids

    @property
    def handles(self) -> frozenset[str]:
        """Return the spellings that settings and rows use: `123`, `telegram:123`, `telegram@work:123`."""
        spelled = {f"{account}:{user}" for account, user in self.identities}
        by_platform = {f"{account.partition('@')[0]}:{user}" for account, user in self.identities}
        return frozenset(spelled | by_platform | {user for _, user in self.identities})

    @property
    def keys(self) -> tuple[str, str]:
        """Return the values of `_SENT_BY_THEM`."""
        return _json(self.ids), _json(self.identities)


_NOBODY = PersonToErase(ids=frozenset(), identities=frozenset())


@dataclass(slots=True, kw_only=True)
class PersonalData:
    """The rows of a person, or of a chat that is theirs alone, found on one snapshot."""

    values: dict[Named, Collection[object]] = field(default_factory=dict)  # identify their rows
    rows: dict[str, list[str | int]] = field(default_factory=dict)  # keys of the rows to delete, by table
    said: list[int] = field(default_factory=list)  # their messages in shared sessions, to be blanked
    shared: list[str] = field(default_factory=list)  # the sessions of these messages
    files: set[str] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        return not self.said and not any(self.rows.values())


def find_person(tx: Transaction, account: str, user_id: str) -> PersonToErase:
    """Find a person by one of their ids; `telegram` covers every bot on it, `telegram@work` only that one."""
    accounts = {account} | {name for name in find_accounts(tx) if name.startswith(f"{account}@")}
    named = {(name, user_id) for name in accounts}
    pairs = Ref("identity", ("account", "user_id")).condition
    known = tx.all(f"SELECT person_id FROM identities WHERE {pairs}", _json(named))  # noqa: S608
    ids = frozenset(row["person_id"] for row in known)
    linked = tx.all(f"SELECT * FROM identities WHERE {_PEOPLE}", _json(ids))  # noqa: S608
    people = tx.all("SELECT name, role FROM people WHERE id IN (SELECT value FROM json_each(?))", _json(ids))
    identities = frozenset(named | {(row["account"], row["user_id"]) for row in linked})
    person = PersonToErase(ids=ids, identities=identities)
    query = f"""SELECT sender_name AS name FROM inbox WHERE {_SENT_BY_THEM}
                UNION SELECT sender_name FROM overheard WHERE {_IDENTITIES}"""  # noqa: S608
    names = (*linked, *people, *tx.all(query, *person.keys, _json(identities)))
    return replace(
        person,
        names=frozenset(row["name"] for row in names if row["name"]),
        has_owners_role=OWNER in ids or any(row["role"] == "owner" for row in people),
        was_revoked=any(row["revoked_ms"] is not None for row in linked),
    )


def find_accounts(tx: Transaction) -> set[str]:
    """Return every account that has received a message or knows a person."""
    tables = ("identities", "inbox", "overheard", "pairing_requests", "cursors")
    return {row["account"] for row in tx.all(" UNION ".join(f"SELECT account FROM {name}" for name in tables))}  # noqa: S608


def find_personal_data(tx: Transaction, person: PersonToErase) -> PersonalData:
    """Find all rows of a person."""
    data = PersonalData(values=_find_own_chats(tx, person))
    _find_rows(tx, data)
    query = f"""SELECT id, session_id, parts FROM messages
                 WHERE (inbox_id IN (SELECT value FROM json_each(?)) OR {_PEOPLE})
                   AND session_id NOT IN (SELECT value FROM json_each(?))"""  # noqa: S608
    said = tx.all(query, *(_json(data.values[named]) for named in ("inbox", "person", "session")))
    data.said = [row["id"] for row in said]
    data.shared = sorted({row["session_id"] for row in said})
    data.files.update(*(hashes_in(row["parts"]) for row in said))
    return data


def _find_own_chats(tx: Transaction, person: PersonToErase) -> dict[Named, Collection[object]]:
    """Return the values that identify a person's rows: their ids, and the conversations that are theirs alone."""
    identities = _json(person.identities)
    query = f"SELECT DISTINCT session_key, account, chat, chat_kind, user_id FROM inbox WHERE {_SENT_BY_THEM}"  # noqa: S608
    spoke_in = tx.all(query, *person.keys)
    alone = {row["session_key"] for row in spoke_in if row["chat_kind"] in _PRIVATE or row["user_id"]}
    query = f"""SELECT s.id, s.key, s.kind, s.chat, {_ACCOUNT} AS account FROM sessions s
                 WHERE s.key IN (SELECT value FROM json_each(?))
                    OR {Ref("identity", (_ACCOUNT, "s.user_id")).condition}
                    OR (s.kind = 'dm' AND {Ref("identity", (_ACCOUNT, "s.chat")).condition})
                    OR (s.platform = 'cli' AND ?)
                    OR (s.kind IN (?, ?) AND EXISTS (
                        SELECT 1 FROM messages m WHERE m.session_id = s.id AND {_PEOPLE}))"""  # noqa: S608
    sessions = tx.all(query, _json(alone), identities, identities, person.is_owner, *_PRIVATE, _json(person.ids))
    query = f"SELECT account, chat FROM pairing_requests WHERE {Ref('identity', ('account', 'user_id')).condition}"  # noqa: S608
    asked = tx.all(query, identities)
    private = [row for row in spoke_in if row["chat_kind"] in _PRIVATE]
    private += [row for row in sessions if row["kind"] in _PRIVATE and row["account"] != "cli"]
    chats = {(row["account"], row["chat"]) for row in (*private, *asked)}
    return {
        "person": person.ids,
        "identity": person.identities,
        "handle": person.handles,
        "session": [row["id"] for row in sessions],
        "session_key": alone | {row["key"] for row in sessions},
        "chat": chats,
        "place": {f"{account}:{chat}" for account, chat in chats},
    }


def _find_rows(tx: Transaction, data: PersonalData) -> None:
    # These first, in this order: other tables refer to them by their keys.
    for name in dict.fromkeys((*_REFERRED, *(table.name for table in TABLES if table.key))):
        table = _tables[name]
        condition, values = _match(table.personal_by, data)
        rows = tx.all(f"SELECT * FROM {table.name} WHERE {condition}", *values)  # noqa: S608
        data.rows[table.name] = [row[table.key] for row in rows]
        if table.name in _REFERRED:
            data.values[_REFERRED[table.name]] = data.rows[table.name]
        if table.has_parts:
            data.files.update(*(hashes_in(row["parts"]) for row in rows))


def _match(refs: Sequence[Ref], data: PersonalData) -> tuple[str, list[str]]:
    """Return a condition that holds for rows with any of the references, and its values."""
    used = [ref for ref in refs if data.values.get(ref.named)]  # one without values would only cost a slow scan
    condition = " OR ".join(f"({ref.condition} AND {ref.when})" for ref in used) or "FALSE"
    return condition, [_json(data.values[ref.named]) for ref in used]


async def erase_person(
    db: Database,
    files: MediaFiles,
    person: PersonToErase,
    *,
    backends: ProcessBackends,
    gateway_runs: Callable[[], bool],
    delete_folders: Callable[[], None] = lambda: None,
) -> None:
    """Erase a person; return once nothing is left in the database, its log and the caches.

    `delete_folders` deletes their workspaces. It comes before the rows, without which nobody could find them again.
    Raises StoreUnavailable when that is not possible; everything erased until then stays erased.
    """

    async def find() -> PersonalData:
        await _stop_work(db, person, gateway_runs)
        data = await db.read(partial(find_personal_data, person=person))
        await _end_processes(db, data, backends)
        try:
            await asyncio.to_thread(delete_folders)
        except OSError as error:
            raise StoreUnavailable(
                f"{error.filename} could not be deleted ({error.strerror}), so nothing else was erased. Delete it "
                "yourself, then run `hermes forget` once more."
            ) from error
        return data

    if not await _erase(db, files, person, find):
        raise StoreUnavailable("New messages of theirs keep coming in. Stop the gateway and try again.")
    await finish(db)


async def erase_chat(
    db: Database, files: MediaFiles, account: str, chat: str, session_key: str, *, backends: ProcessBackends
) -> bool:
    """Erase a chat that is one person's alone; return False, erasing nothing, while something runs or waits in it."""

    def unit(tx: Transaction) -> PersonalData | None:
        query = f"SELECT 1 FROM inbox WHERE session_key = ? AND {INBOX_OPEN}"  # noqa: S608
        if tx.exists(query, session_key) or turns.is_running(tx, session_key):
            return None
        sessions = [row["id"] for row in tx.all("SELECT id FROM sessions WHERE key = ?", session_key)]
        place: dict[Named, Collection[object]] = {"chat": [(account, chat)], "place": [f"{account}:{chat}"]}
        return PersonalData(values={"session": sessions, "session_key": [session_key], **place})

    return await _erase_quietly(db, files, unit, backends)


async def erase_session(db: Database, files: MediaFiles, session_id: str, *, backends: ProcessBackends) -> bool:
    """Erase one conversation; return False, erasing nothing, while something runs in it."""

    def unit(tx: Transaction) -> PersonalData | None:
        if tx.exists(f"SELECT 1 FROM turns WHERE session_id = ? AND {TURN_OPEN}", session_id):  # noqa: S608
            return None
        return PersonalData(values={"session": [session_id]})

    return await _erase_quietly(db, files, unit, backends)


async def _erase_quietly(
    db: Database,
    files: MediaFiles,
    choose: Callable[[Transaction], PersonalData | None],
    backends: ProcessBackends,
) -> bool:
    """Erase the chosen rows, unless `choose` returns None.

    The words are gone from the tables, the search and the caches. The file is not rewritten, since that would delay
    everybody else's messages; `hermes forget` does it.
    """

    def unit(tx: Transaction) -> PersonalData | None:
        data = choose(tx)
        if data is not None:
            _find_rows(tx, data)
        return data

    async def find() -> PersonalData | None:
        data = await db.read(unit)
        if data is not None:
            await _end_processes(db, data, backends)
        return data

    if not await _erase(db, files, _NOBODY, find):
        return False
    await _clean_index(db)
    return True


async def _erase(
    db: Database,
    files: MediaFiles,
    person: PersonToErase,
    find: Callable[[], Awaitable[PersonalData | None]],
) -> bool:
    """Erase the rows that `find` returns, again while new ones appear, then the files that nobody else refers to."""
    hashes: set[str] = set()
    for _ in range(_PASSES):
        data = await find()
        if data is None:
            return False
        hashes |= data.files
        await _erase_rows(db, person, data)
        if await db.write(partial(_erase_names, person=person, data=data)):
            break
    else:
        return False
    if hashes:
        seen, still_used = await references(db)
        for batch in batches(sorted(hashes - still_used.keys())):
            await delete_files(db, files, batch, seen=seen, before_ms=now_ms() + 1)
    return True


def is_unfinished(tx: Transaction) -> bool:
    """Return whether rows were erased without rewriting the file afterwards."""
    return tx.exists("SELECT 1 FROM meta WHERE name = ?", _UNFINISHED)


async def finish(db: Database) -> None:
    """Remove deleted rows from the search index, from free pages and from the log."""
    await _clean_index(db)
    await asyncio.to_thread(_rewrite_file, db.path)
    await db.write(lambda tx: tx.execute("DELETE FROM meta WHERE name = ?", _UNFINISHED))


async def _clean_index(db: Database) -> None:
    begin = True
    while await db.write(partial(search_index.drop_deleted, begin=begin)):
        begin = False


async def _stop_work(db: Database, person: PersonToErase, gateway_runs: Callable[[], bool]) -> None:
    """Wait until nothing of theirs comes in, runs or is being sent."""
    data = await db.read(partial(find_personal_data, person=person))
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                if await db.write(partial(_end_work, person=person, data=data, end_turns=not gateway_runs())):
                    return
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise StoreUnavailable("The gateway does not stop working for them. Stop it, and try again.") from None


def _end_work(tx: Transaction, person: PersonToErase, data: PersonalData, *, end_turns: bool) -> bool:
    """Close their access and end what waits; return False while a gateway, asked to stop, still works for them."""
    for account, user_id in person.identities:
        tx.execute("UPDATE identities SET revoked_ms = ? WHERE account = ? AND user_id = ?", now_ms(), account, user_id)
    for row in tx.all(f"SELECT id FROM inbox WHERE {INBOX_WAITING} AND {_SENT_BY_THEM}", *person.keys):  # noqa: S608
        inbox.finish(tx, row["id"], inbox.Outcome.DELETED)
    replies, values = _match(_tables["outbox"].personal_by, data)
    tx.execute(f"UPDATE outbox SET state = 'expired' WHERE {OUTBOX_WAITING} AND ({replies})", *values)  # noqa: S608
    query = f"""SELECT id, session_key, session_id FROM turns WHERE {TURN_OPEN}
                   AND id IN (SELECT turn_id FROM inbox WHERE {INBOX_OPEN} AND {_SENT_BY_THEM})"""  # noqa: S608
    at_work = tx.all(query, *person.keys)
    for turn in at_work:
        if end_turns:
            transcripts.append(tx, turn["session_id"], assistant("(Stopped.)"), turn_id=turn["id"])
            turns.finish(tx, turn["id"], inbox.read_turn(tx, turn["id"]), inbox.Outcome.STOPPED)
        else:
            turns.request_stop(tx, turn["session_key"])
    # If a reply were deleted while it is sent, its sender would still record it.
    is_sending = tx.exists(f"SELECT 1 FROM outbox WHERE {OUTBOX_OPEN} AND ({replies})", *values)  # noqa: S608
    return end_turns or not (at_work or is_sending)


async def _end_processes(db: Database, data: PersonalData, backends: ProcessBackends) -> None:
    for process_id in data.rows.pop("processes"):
        await _end_process(db, str(process_id), backends)


async def _erase_rows(db: Database, person: PersonToErase, data: PersonalData) -> None:
    for batch in batches(data.said):
        await db.write(partial(_blank, ids=batch))
    await db.write(partial(compactions.erase, session_ids=data.shared, names=person.names))
    for table in ("messages", "inbox", "outbox"):
        own_sessions = data.values["session"]
        rows = await db.read(partial(_find_mentions, person=person, table=table, own_sessions=own_sessions))
        for some in batches(rows):
            await db.write(partial(_blank_mentions, table=table, rows=some, person=person))
    for declared in TABLES:
        for keys in batches(data.rows.get(declared.name, [])):
            await db.write(partial(delete_rows, table=declared, keys=keys))


async def _end_process(db: Database, process_id: str, backends: ProcessBackends) -> None:
    """End a process, then delete its row, so that after an interruption the next run still finds the process."""
    process = await db.write(partial(processes.silence, process_id=process_id))
    if process is None:
        return
    backend = backends[process.handle.backend]
    try:
        await backend.kill(process.handle)
        await backend.forget(process.handle)
    except BackendFailed as error:
        raise StoreUnavailable(
            f"The background process {process.id} was not ended: {error} Try again to finish."
        ) from error
    await db.write(partial(processes.erase, process_id=process_id))


def _blank(tx: Transaction, ids: Sequence[int]) -> None:
    """Blank messages of a shared transcript. Deleting them would leave its answers without their questions."""
    query = "UPDATE messages SET parts = ?, search_text = ?, inbox_id = NULL, person_id = NULL WHERE id = ?"
    for row_id in ids:
        tx.execute(query, dump_parts([Text(text=ERASED)]), ERASED, row_id)


def _find_mentions(tx: Transaction, person: PersonToErase, table: str, own_sessions: Collection[object]) -> list[Row]:
    """Return rows of other people that name the person, and so may repeat their words."""
    named = " OR ".join("instr(parts, ?)" for _ in person.names)
    if not named:
        return []
    narrowed = {
        "messages": "AND role = 'user' AND session_id NOT IN (SELECT value FROM json_each(?))",
        "outbox": "AND (kind = 'notice' OR turn_id IS NULL)",  # not what the agent said
        "inbox": "",
    }[table]
    values = [json.dumps(name, ensure_ascii=False)[1:-1] for name in sorted(person.names)]
    values += [_json(own_sessions)] if table == "messages" else []
    return tx.all(f"SELECT id, parts FROM {table} WHERE ({named}) {narrowed} ORDER BY id", *values)  # noqa: S608


def _blank_mentions(tx: Transaction, table: str, rows: Sequence[Row], person: PersonToErase) -> None:
    for row in rows:
        before = load_parts(row["parts"])
        after = tuple(_blank_part(part, person.names, is_ours=table == "outbox") for part in before)
        if after == before:
            continue
        tx.execute(f"UPDATE {table} SET parts = ? WHERE id = ?", dump_parts(after), row["id"])  # noqa: S608
        if table == "messages":
            found_by = search_index.searchable(in_search(after))
            tx.execute("UPDATE messages SET search_text = ? WHERE id = ?", found_by, row["id"])


def _blank_part(part: Part, names: Collection[str], *, is_ours: bool) -> Part:
    """Blank their words, or a message of ours that names them, such as the one about their pairing request."""
    one_of = "|".join(map(re.escape, names))
    # The line of an overheard message, as `gateway.turns.transcript_text` marks it.
    pattern = rf"(?<!\w)(?:{one_of})(?!\w)" if is_ours else rf"^(?:> )?(?:{one_of}): "
    match part:
        case Quote() if not is_ours and part.author in names:
            return replace(part, text=ERASED, author="")
        case Text() if re.search(pattern, part.text, re.MULTILINE):
            return Text(text=ERASED)
        case _:
            return part


def _erase_names(tx: Transaction, person: PersonToErase, data: PersonalData) -> bool:
    """Erase the rows left after the batches; return False when new rows of theirs have appeared."""
    for session_id in data.shared:  # a title comes from the first message, which may be theirs
        tx.execute("UPDATE sessions SET title = '' WHERE id = ?", session_id)
    for name in person.names:
        tx.execute("UPDATE sessions SET display_name = '' WHERE display_name = ?", name)
    for table in TABLES:
        for ref in table.blank_by:
            condition, values = _match([ref], data)
            blanks = ", ".join(f"{column} = ''" for column in (ref.columns[-1], table.blanks) if column)
            tx.execute(f"UPDATE {table.name} SET {blanks} WHERE {condition}", *values)  # noqa: S608
    has_new = tx.exists(f"SELECT 1 FROM inbox WHERE {_SENT_BY_THEM}", *person.keys)  # noqa: S608
    if has_new or any(tx.exists("SELECT 1 FROM sessions WHERE id = ?", str(one)) for one in data.values["session"]):
        return False
    for table in TABLES:
        if not table.key:
            condition, values = _match(table.personal_by, data)
            tx.execute(f"DELETE FROM {table.name} WHERE {condition}", *values)  # noqa: S608
    tx.insert("meta", "DO NOTHING", name=_UNFINISHED, value=1)
    return True


def _rewrite_file(path: Path) -> None:
    # Not `PRAGMA secure_delete`: it misses what SQLite copied when it moved rows from page to page. While the file is
    # rewritten a gateway's writes wait; one that waits too long is refused before it is acknowledged, and tried again.
    try:
        with closing(connect(path, busy_timeout_seconds=_PATIENCE_SECONDS)) as connection:
            connection.execute("VACUUM")
            [in_use, *_] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as error:
        raise StoreUnavailable(f"All rows are erased, but not overwritten yet: {error}. {_RUN_AGAIN}") from error
    if in_use:
        raise StoreUnavailable(f"All rows are erased, but the log of the database is in use. {_RUN_AGAIN}")


def _json(values: Iterable[object]) -> str:
    return json.dumps(list(values))
