"""Background processes: their handles, which chats to tell about them, and how much was told."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from gateway.clock import now_ms
from gateway.messages import Address, InboundMessage, Kind, Part, Sender, SessionKey
from gateway.store import inbox, trail
from gateway.store.db.connection import Row, Transaction, build
from gateway.store.tables import INBOX_WAITING, PROCESS_OPEN, PROCESS_RUNNING, TURN_OPEN
from gateway.store.trail import TrailEvent
from tools.backends.base import ProcessHandle
from tools.content import load_parts
from tools.process_book import KEPT_MS, MAX_PROCESSES, Process

if TYPE_CHECKING:  # whoever only asks about processes needs no writer
    from gateway.store.db.database import Database

AT_TERMINAL = "cli"  # holder of every process started at the terminal, in any conversation
_MAX_WAITING_NEWS = 20  # reports given to one turn; the agent can ask about the others

_PLAIN = [field.name for field in fields(Process) if field.name != "handle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedProcess:
    """A process, and the chat that is told about it."""

    process: Process
    key: SessionKey | None  # None: nobody is told
    sender: Sender  # of the message that led to it
    person_id: str
    reply_to: str
    told: int  # bytes of its output that the chat was told
    told_ms: int
    end_requested: bool
    is_seen: bool  # the agent has already seen it end

    @property
    def address(self) -> Address:
        assert self.key is not None
        return self.key.reply_address(self.reply_to)

    def message(self, kind: Kind, parts: tuple[Part, ...]) -> InboundMessage:
        """Build a message about the process for the inbox, in the name of whoever started it."""
        assert self.key is not None
        return InboundMessage(
            key=self.key,
            message_id=self.process.id,
            kind=kind,
            sender=self.sender,
            parts=parts,
            sent_ms=now_ms(),
            about=self.reply_to,
        )


@dataclass(frozen=True, slots=True)
class StoredProcesses:
    """The store of processes that tools get; processes are found again after a restart."""

    db: "Database"
    is_watched: bool = True

    async def add(self, process: Process) -> None:
        await self.db.write_when_possible(lambda tx: add(tx, process))

    async def read_all(self, holder: str) -> Sequence[Process]:
        return await self.db.read(lambda tx: read_all(tx, holder))

    async def find(self, holder: str, process_id: str) -> Process | None:
        return await self.db.read(lambda tx: find(tx, holder, process_id))

    async def mark_polled(self, process_id: str, position: int) -> None:
        def unit(tx: Transaction) -> None:
            tx.execute("UPDATE processes SET polled = ? WHERE id = ?", position, process_id)

        await self.db.write_when_possible(unit)

    async def mark_ended(self, process_id: str, exit_code: int | None, *, seen: bool = True) -> bool:
        if not seen:
            return False  # the watcher notices it and reports it
        return await self.db.write_when_possible(lambda tx: mark_seen(tx, process_id, exit_code))

    async def remove(self, process_id: str) -> None:
        await self.db.write_when_possible(lambda tx: remove(tx, process_id))


def add(tx: Transaction, process: Process) -> None:
    """Add a process. Reports go where its session's running turn is answered, or nowhere without one, as at the
    terminal. If that turn is being stopped, the process is ended too."""
    values = {name: getattr(process, name) for name in _PLAIN}
    handle = process.handle
    values |= {"id": handle.id, "backend": handle.backend, "handle": json.dumps(dict(handle.data))}
    values |= _asker(tx, process.task_id) or {"session_key": process.holder}
    values |= {"told_ms": process.started_ms, "state": "running" if process.ended_ms is None else "ended"}
    tx.insert("processes", **values)


def _asker(tx: Transaction, session_id: str) -> dict[str, str | int]:
    """Return the person who asked; of several, the one with the fewest rights: the process is trusted no further."""
    query = f"""SELECT i.*, t.stop_requested FROM turns AS t INDEXED BY turns_one_per_session
                  JOIN inbox i ON i.turn_id = t.id
                 WHERE t.session_id = ? AND t.{TURN_OPEN} AND i.kind IN ('message', 'wake')
                 ORDER BY CASE i.role WHEN 'guest' THEN 0 WHEN 'member' THEN 1 ELSE 2 END, i.sent_ms DESC, i.id DESC
                 LIMIT 1"""  # noqa: S608
    row = tx.one(query, session_id)
    if row is None:
        return {}
    same = ("account", "chat", "thread", "within", "chat_kind", "user_id")
    who = ("person_id", "sender_id", "sender_name")
    return {name: row[name] for name in (*same, *who)} | {
        "session_key": str(inbox.key_of(row)),  # not of a prompt in the background, which has nobody to tell later
        "reply_to": row["message_id"] if row["kind"] == "message" else row["about"],
        "end_requested": int(row["stop_requested"] != 0),
    }


def read_all(tx: Transaction, holder: str) -> list[Process]:
    return _list(tx, "holder = ? ORDER BY started_ms DESC, id", holder)


def find(tx: Transaction, holder: str, process_id: str) -> Process | None:
    return next(iter(_list(tx, "id = ? AND holder = ?", process_id, holder)), None)


def mark_seen(tx: Transaction, process_id: str, exit_code: int | None) -> bool:
    """Record that the agent saw it end. A chat that follows its output, or asked for its end, is still told."""
    query = """UPDATE processes SET exit_code = ?, ended_ms = ?,
                      state = CASE WHEN account <> '' AND (check_interval_seconds > 0 OR end_requested) THEN 'untold'
                                   ELSE 'ended' END
                WHERE id = ? AND state = 'running'"""
    is_new = tx.execute(query, exit_code, now_ms(), process_id) > 0
    if is_new:
        _record_end(tx, process_id)
    return is_new


def _record_end(tx: Transaction, process_id: str) -> None:
    session_key = tx.value("SELECT session_key FROM processes WHERE id = ?", process_id)
    if session_key is not None:
        trail.record(tx, TrailEvent.PROCESS_ENDED, session=session_key, process=process_id)


def remove(tx: Transaction, process_id: str) -> None:
    tx.execute("DELETE FROM processes WHERE id = ? AND state = 'ended'", process_id)


def read_watched(tx: Transaction) -> list[WatchedProcess]:
    """Return the running processes, and those whose chat must still be told that they ended."""
    return _list_watched(tx, "holder <> ? ORDER BY started_ms, id", AT_TERMINAL)


def read_to_end(tx: Transaction) -> list[WatchedProcess]:
    return _list_watched(tx, "state = 'running' AND end_requested AND holder <> ?", AT_TERMINAL)


def read_at_terminal(tx: Transaction) -> list[WatchedProcess]:
    """Return the processes started from `hermes chat` that nobody has seen end."""
    return _list_watched(tx, "holder = ? ORDER BY started_ms, id", AT_TERMINAL)


def find_open(tx: Transaction, process_id: str) -> WatchedProcess | None:
    """Return a process that still has something to report; None otherwise."""
    return next(iter(_list_watched(tx, "id = ?", process_id)), None)


def mark_told(tx: Transaction, process_id: str, position: int) -> None:
    tx.execute("UPDATE processes SET told = ?, told_ms = ? WHERE id = ?", position, now_ms(), process_id)


def end(tx: Transaction, process_id: str, *, exit_code: int | None, ended_ms: int) -> None:
    is_new = tx.exists("SELECT 1 FROM processes WHERE id = ? AND ended_ms IS NULL", process_id)
    query = """UPDATE processes SET state = 'ended', exit_code = COALESCE(exit_code, ?),
                      ended_ms = COALESCE(ended_ms, ?) WHERE id = ?"""
    tx.execute(query, exit_code, ended_ms, process_id)
    if is_new:
        _record_end(tx, process_id)


def silence(tx: Transaction, process_id: str) -> Process | None:
    """Stop reporting on a process and request its end; return it if it exists."""
    row = tx.one("UPDATE processes SET account = '', end_requested = 1 WHERE id = ? RETURNING *", process_id)
    return _process(row) if row is not None else None


def erase(tx: Transaction, process_id: str) -> None:
    """Delete the row whatever its state, when a person is erased."""
    tx.execute("DELETE FROM processes WHERE id = ?", process_id)


def tell_agent(tx: Transaction, watched: WatchedProcess, kind: Kind, parts: tuple[Part, ...], *, role: str) -> None:
    """Tell the agent about a process, together with waiting reports of the same person: many ends make one turn."""
    query = f"""SELECT id, parts FROM inbox INDEXED BY inbox_open
                 WHERE session_key = ? AND {INBOX_WAITING} AND kind = ? AND sender_id = ?"""  # noqa: S608
    waiting = tx.one(query, str(watched.key), kind, watched.sender.id)
    if waiting is None:
        message = watched.message(kind, parts[-_MAX_WAITING_NEWS:])
        inbox.insert(tx, message, person_id=watched.person_id, role=role)
        return
    together = (*load_parts(waiting["parts"]), *parts)
    inbox.set_parts(tx, waiting["id"], together[-_MAX_WAITING_NEWS:])


def count_wakes(tx: Transaction, session_key: str) -> int:
    """Count how often the agent was woken in a session since somebody last spoke there."""
    query = """SELECT COUNT(*) FROM inbox WHERE session_key = ?1 AND kind = 'wake' AND id > (
                   SELECT COALESCE(MAX(id), 0) FROM inbox WHERE session_key = ?1 AND kind = 'message')"""
    return tx.count(query, session_key)


def request_end(tx: Transaction, session_key: str, *, by: str = "") -> None:
    """Request the end of a session's processes, or of those that one person in it has started."""
    query = f"""UPDATE processes SET end_requested = 1
                 WHERE {PROCESS_RUNNING} AND session_key = ? AND ? IN ('', sender_id)"""  # noqa: S608
    tx.execute(query, session_key, by)


def request_end_by_id(tx: Transaction, process_id: str) -> bool:
    """Request the end of one process; return whether it runs and was not started at the terminal."""
    query = f"UPDATE processes SET end_requested = 1 WHERE {PROCESS_RUNNING} AND id = ? AND holder <> ?"  # noqa: S608
    return tx.execute(query, process_id, AT_TERMINAL) > 0


def request_end_of(tx: Transaction, account: str, sender_id: str) -> None:
    """Request the end of everything a person runs, because their access is revoked."""
    query = f"UPDATE processes SET end_requested = 1 WHERE {PROCESS_OPEN} AND account = ? AND sender_id = ?"  # noqa: S608
    tx.execute(query, account, sender_id)


def read_running_in(tx: Transaction, session_key: str, *, by: str = "") -> list[Process]:
    condition = f"{PROCESS_RUNNING} AND session_key = ? AND ? IN ('', sender_id) ORDER BY started_ms, id"
    return _list(tx, condition, session_key, by)


def read_running(tx: Transaction) -> list[Process]:
    """Return the processes that nobody has seen end: where no gateway watches, some may have ended."""
    return _list(tx, PROCESS_RUNNING)


def read_newest(tx: Transaction, *, limit: int) -> list[Process]:
    """Return everybody's processes, those that run first."""
    return _list(tx, f"TRUE ORDER BY {PROCESS_RUNNING} DESC, started_ms DESC LIMIT {limit:d}")


def read_by_id(tx: Transaction, process_id: str) -> Process | None:
    return next(iter(_list(tx, "id = ?", process_id)), None)


def read_outdated(tx: Transaction) -> list[Process]:
    """Return the processes that ended long ago, and all but the newest of each holder."""
    query = """SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY holder ORDER BY ended_ms DESC, id) AS place
                                FROM processes WHERE state = 'ended')
                WHERE ended_ms < ? OR place > ?"""
    return [_process(row) for row in tx.all(query, now_ms() - KEPT_MS, MAX_PROCESSES)]


def _list(tx: Transaction, condition: str, *values: str) -> list[Process]:
    return [_process(row) for row in tx.all(f"SELECT * FROM processes WHERE {condition}", *values)]  # noqa: S608


def _list_watched(tx: Transaction, condition: str, *values: str) -> list[WatchedProcess]:
    query = f"SELECT * FROM processes WHERE {PROCESS_OPEN} AND {condition}"  # noqa: S608
    return [_watched(row) for row in tx.all(query, *values)]


def _process(row: Row) -> Process:
    flags = {name: bool(row[name]) for name in ("pty", "interactive", "notify_on_complete")}
    handle = build(ProcessHandle, row, data=json.loads(row["handle"]))
    return build(Process, row, handle=handle, **flags)


def _watched(row: Row) -> WatchedProcess:
    return build(
        WatchedProcess,
        row,
        process=_process(row),
        key=inbox.key_of(row) if row["account"] else None,
        sender=Sender(id=row["sender_id"], name=row["sender_name"]),
        person_id=row["person_id"] or "",
        end_requested=bool(row["end_requested"]),
        is_seen=row["state"] == "untold",
    )
