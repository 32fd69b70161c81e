"""Tells hooks what was committed: reads the trail and the tables, so that no turn waits for a hook or knows of any.

Events of other processes, such as `hermes chat` and `hermes pairing approve`, are told too. What happened before the
start is not.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import structlog

from gateway.commands.registry import parse
from gateway.errors import StoreUnavailable
from gateway.policies.resets import REASONS
from gateway.store import cron
from gateway.store.db.connection import Row, Transaction
from gateway.store.db.database import Database
from gateway.store.trail import TrailEvent
from hooks.dispatcher import Hooks
from hooks.events import TOOL_BEFORE, cut
from tools.base import Tool, ToolContext, ToolFailed
from tools.content import load_parts, loads_list, text_of, words_of

log = structlog.get_logger()

_POLL_SECONDS = 0.2
_READ_ROWS = 500
_TOLD_ELSEWHERE = ("gateway:startup", "gateway:shutdown", TOOL_BEFORE)
_ENDS = (TrailEvent.ANSWERED, TrailEvent.STOPPED, TrailEvent.GIVEN_UP, TrailEvent.SUPERSEDED, TrailEvent.FAILED)

HookContext = dict[str, Any]
HookEvent = tuple[str, HookContext]


@dataclass(slots=True)
class HookFeed:
    db: Database
    hooks: Hooks
    _position: int | None = None  # in the trail

    async def run(self) -> None:
        """Tell the hooks until cancelled; return at once when no hook wants to know."""
        if not self.hooks.want_more_than(*_TOLD_ELSEWHERE):
            return
        while True:
            await self.tell()
            await asyncio.sleep(_POLL_SECONDS)

    async def tell(self) -> None:
        """Tell the hooks what has happened since the last time."""
        if not self.hooks.want_more_than(*_TOLD_ELSEWHERE):
            return
        try:
            if self._position is None:
                self._position = await self.db.read(find_end)
            position = self._position
            self._position, events = await self.db.read(lambda tx: read_events(tx, position))
        except StoreUnavailable as error:
            log.warning("hooks not told", problem=str(error))
            return
        for event, context in events:
            self.hooks.emit(event, context)


def find_end(tx: Transaction) -> int:
    return tx.count("SELECT COALESCE(MAX(id), 0) FROM trail")


def read_events(tx: Transaction, after: int) -> tuple[int, list[HookEvent]]:
    """Return the new position in the trail, and what happened after the old one."""
    rows = tx.all("SELECT * FROM trail WHERE id > ? ORDER BY id LIMIT ?", after, _READ_ROWS)
    return rows[-1]["id"] if rows else after, [event for row in rows for event in _read_trail_row(tx, row)]


def _read_trail_row(tx: Transaction, row: Row) -> Iterator[HookEvent]:
    detail = json.loads(row["detail"])
    match row["event"]:
        case TrailEvent.SESSION_BEGUN | TrailEvent.SESSION_ENDED:
            yield from _read_session(tx, detail)
        case TrailEvent.PROCESS_ENDED:
            yield from _read_process(tx, detail["process"])
        case TrailEvent.PAIRING_ASKED:
            yield "pairing:request", _describe_person(detail)
        case TrailEvent.PAIRING_APPROVED | TrailEvent.INVITE_USED:
            yield "pairing:approved", _describe_person(detail)
        case event if event in _ENDS and row["inbox_id"] is not None and row["turn_id"] is None:
            yield from _read_command(tx, row["inbox_id"])
        case _ if row["turn_id"] is not None:
            yield from _read_turn_row(tx, row, detail)


def _read_turn_row(tx: Transaction, row: Row, detail: dict[str, Any]) -> Iterator[HookEvent]:
    turn_id = row["turn_id"]
    match row["event"]:
        case TrailEvent.CLAIMED if _is_first(tx, row, (TrailEvent.CLAIMED,)):
            yield "agent:start", _describe_turn(tx, turn_id)
        case TrailEvent.TOOL_FINISHED:
            yield from _read_step(tx, turn_id, detail.get("call", ""))
        case TrailEvent.COMPACTED:
            about = {name: value for name, value in _describe_turn(tx, turn_id).items() if name != "message"}
            yield "session:compress", about | {name: detail[name] for name in ("tokens_before", "tokens_after")}
        case event if event in _ENDS and row["inbox_id"] is not None and _is_first(tx, row, _ENDS):
            yield "agent:end", _describe_turn(tx, turn_id) | _read_end(tx, turn_id, event)
            yield from _read_job(tx, turn_id, event)


def _is_first(tx: Transaction, row: Row, events: tuple[TrailEvent, ...]) -> bool:
    """Return whether it is the first such row of its turn: each message of a turn has one."""
    first = tx.count(
        """SELECT MIN(id) FROM trail WHERE turn_id = ? AND inbox_id IS NOT NULL
              AND event IN (SELECT value FROM json_each(?))""",
        row["turn_id"],
        json.dumps(events),
    )
    return first == int(row["id"])


def _read_session(tx: Transaction, detail: dict[str, Any]) -> Iterator[HookEvent]:
    row = tx.one("SELECT platform, key, kind, chat, user_id FROM sessions WHERE id = ?", detail["id"])
    if row is None:  # erased meanwhile
        return
    user_id = row["user_id"] or (row["chat"] if row["kind"] == "dm" else "")
    context = _describe_session(row["platform"], row["key"], detail["id"], user_id)
    if "reason" not in detail:
        yield "session:start", context
        return
    yield "session:end", context | {"reason": detail["reason"]}
    if detail["reason"] in ("new", *REASONS):
        yield "session:reset", context | {"reason": detail["reason"]}


def _read_process(tx: Transaction, process_id: str) -> Iterator[HookEvent]:
    row = tx.one("SELECT * FROM processes WHERE id = ?", process_id)
    if row is not None:
        about = _describe_session(row["account"], row["session_key"], row["task_id"], row["sender_id"])
        ended = {"process_id": row["id"], "command": cut(row["command"]), "exit_code": row["exit_code"]}
        yield "process:exit", about | ended


def _describe_turn(tx: Transaction, turn_id: str) -> HookContext:
    row = tx.one(
        """SELECT s.platform, t.session_key, t.session_id, i.sender_id, i.parts, (
                  SELECT m.parts FROM messages m WHERE m.session_id = t.session_id AND m.turn_id = t.id
                     AND m.role = 'user' ORDER BY m.id LIMIT 1) AS written
             FROM turns t JOIN sessions s ON s.id = t.session_id LEFT JOIN inbox i ON i.turn_id = t.id
            WHERE t.id = ? ORDER BY i.id LIMIT 1""",
        turn_id,
    )
    if row is None:
        return _describe_session() | {"message": ""}
    parts = load_parts(row["parts"] or "[]") or load_parts(row["written"] or "[]")
    about = _describe_session(row["platform"], row["session_key"], row["session_id"], row["sender_id"])
    return about | {"message": cut(words_of(parts) or text_of(parts))}


def _describe_session(account: str = "", key: str = "", session_id: str = "", user_id: str | None = "") -> HookContext:
    return {
        "platform": account.partition("@")[0],
        "session_key": key,
        "session_id": session_id,
        "user_id": user_id or "",
    }


def _read_step(tx: Transaction, turn_id: str, call_id: str) -> Iterator[HookEvent]:
    """Yield the step of a call if it was the last one of its step to finish."""
    rows = tx.all(
        """SELECT id, role, tool_calls, tool_call_id, parts FROM messages
            WHERE turn_id = ? AND (role = 'tool' OR tool_calls <> '') ORDER BY id""",
        turn_id,
    )
    results = {row["tool_call_id"]: row for row in rows if row["role"] == "tool"}
    steps = [loads_list(row["tool_calls"]) for row in rows if row["tool_calls"]]
    for number, calls in enumerate(steps, 1):
        done = [results[call["id"]] for call in calls if call["id"] in results]
        if call_id in [call["id"] for call in calls] and len(done) == len(calls):
            if max(done, key=lambda row: int(row["id"]))["tool_call_id"] == call_id:
                step = {
                    "iteration": number,
                    "tool_names": [call["name"] for call in calls],
                    "results": [cut(text_of(load_parts(row["parts"]))) for row in done],
                }
                yield "agent:step", _describe_turn(tx, turn_id) | step
            return


def _read_end(tx: Transaction, turn_id: str, outcome: str) -> dict[str, Any]:
    row = tx.one(
        "SELECT parts FROM messages WHERE turn_id = ? AND role = 'assistant' ORDER BY id DESC LIMIT 1", turn_id
    )
    return {"response": cut(text_of(load_parts(row["parts"]))) if row is not None else "", "outcome": outcome}


def _read_job(tx: Transaction, turn_id: str, outcome: str) -> Iterator[HookEvent]:
    """Yield the run of a scheduled job whose turn ended."""
    about = {name: value for name, value in _describe_turn(tx, turn_id).items() if name != "message"}
    if about["platform"] == cron.PLATFORM:
        run_id = about["session_key"].rpartition(":")[2]
        row = tx.one("SELECT job_name FROM cron_runs WHERE id = ?", run_id)
        yield "cron:run", about | {"job": row["job_name"] if row is not None else "", "outcome": outcome}


def _read_command(tx: Transaction, inbox_id: int) -> Iterator[HookEvent]:
    row = tx.one("SELECT * FROM inbox WHERE id = ? AND kind = 'command'", inbox_id)
    said = words_of(load_parts(row["parts"])) if row is not None else ""
    if row is None or (parsed := parse(said)) is None:
        return
    session = tx.one("SELECT id FROM sessions WHERE key = ? AND ended_ms IS NULL", row["session_key"])
    session_id = session["id"] if session is not None else ""
    about = _describe_session(row["account"], row["session_key"], session_id, row["sender_id"])
    command, arguments = parsed
    yield f"command:{command}", about | {"message": cut(said), "command": command, "args": cut(arguments)}


def _describe_person(detail: dict[str, Any]) -> dict[str, Any]:
    return {
        "platform": str(detail.get("account", "")).partition("@")[0],
        "user_id": detail.get("sender", ""),
        "chat": detail.get("chat", ""),
        "role": detail.get("role", ""),
    }


def ask_hooks_first(tool: Tool, hooks: Hooks, db: Database) -> Tool:
    """Return the tool with an admission that hooks may refuse, before anybody is asked for approval."""

    def describe(tx: Transaction, session_id: str) -> dict[str, Any]:
        row = tx.one(
            """SELECT s.platform, s.key, i.sender_id FROM sessions s LEFT JOIN turns t ON t.session_id = s.id
                      LEFT JOIN inbox i ON i.turn_id = t.id
                WHERE s.id = ? ORDER BY t.started_ms DESC, i.id LIMIT 1""",
            session_id,
        )
        platform, key, user_id = row if row is not None else ("", "", "")
        return _describe_session(platform, key, session_id, user_id)

    async def admit(arguments: str, context: ToolContext) -> None:
        if hooks.wants(TOOL_BEFORE):
            about = await db.read(lambda tx: describe(tx, context.task_id))
            objection = await hooks.object_to(about | {"tool": tool.name, "arguments": arguments})
            if objection is not None:
                raise ToolFailed(f"The hook {objection.hook} blocked this call: {objection.reason}")
        await tool.admit(arguments, context)

    return replace(tool, admit=admit)
