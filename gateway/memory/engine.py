"""The agent's memory: serves the `memory` tool, the snapshot in prompts and the reviews of conversations."""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from agent_core.model import Model
from gateway.changes import Changes
from gateway.errors import GatewayError, StoreUnavailable
from gateway.memory.checks import explain_refusal, is_grounded
from gateway.memory.files import MemoryFiles
from gateway.memory.nudge import Nudge
from gateway.store import memories
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.memories import Memory, MemoryAccess, Source
from tools.base import ToolFailed
from tools.builtin.memory import MemoryAnswer, MemoryRequest
from tools.provenance import PROJECT, Provenance

log = structlog.get_logger()

_LISTED_CHARS = 6_000
_TRY_AGAIN_SECONDS = 5.0  # when the store could not be read
_OWN_SHARE = 2 / 3  # of a memory's words that its user said, for it to count as theirs
_NOBODY = "There is nobody here whose memory this could be. Nothing was changed."


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEngine:
    """Implements `tools.builtin.memory.MemoryStore`."""

    db: Database
    files: MemoryFiles
    nudge: Nudge
    _looking: set[str] = field(default_factory=set)  # sessions, so that a turn does not look at what another looks at

    async def act(self, task_id: str, request: MemoryRequest, heard: Callable[[], Provenance]) -> MemoryAnswer:
        access, turn_id = await self.db.read(lambda tx: memories.access_of_session(tx, task_id))
        if access is None:
            raise ToolFailed(_NOBODY)
        if request.action in ("get", "list", "search"):
            return await self.db.write_when_possible(lambda tx: _read(tx, access, request))
        await self.files.import_edits(self.db, access)
        source = await self.db.read(
            lambda tx: Source(writer="agent", message_id=memories.find_last_message(tx, task_id), turn_id=turn_id)
        )
        if request.action == "delete":
            return await self._delete(access, request.key, source)
        return await self._set(access, request, replace(source, from_outside=_is_from_outside(request.value, heard())))

    async def _set(self, access: MemoryAccess, request: MemoryRequest, source: Source) -> MemoryAnswer:
        value = request.value.strip()
        if refusal := explain_refusal(request.key, value, self.files.redactor):
            raise ToolFailed(refusal)
        key = memories.normalise_key(request.key)

        def unit(tx: Transaction) -> bool:
            memories.put(tx, access, key, value, source)
            return key in memories.snapshot(tx, access)[1]

        is_shown = await self.db.write_when_possible(unit)
        await self.files.write_pending(self.db)
        visible = "always, from the next conversation on" if is_shown else "found by search"
        return MemoryAnswer(data={"saved": key, "visible": visible})

    async def _delete(self, access: MemoryAccess, key: str, source: Source) -> MemoryAnswer:
        gone = await self.db.write_when_possible(lambda tx: memories.delete(tx, access, key, source))
        await self.files.write_pending(self.db)
        if gone is None:
            raise ToolFailed(f"There is no memory with the key {key!r}. List or search to find its key.")
        return MemoryAnswer(data={"deleted": gone.key})

    async def run(self, changes: Changes) -> None:
        """Keep the files up to date with what commands change, until cancelled."""
        changed = asyncio.Event()
        changed.set()  # for what an earlier process left behind
        changes.subscribe("commands", changed.set)
        while True:
            await changed.wait()
            changed.clear()
            try:
                await self.files.write_pending(self.db)
            except StoreUnavailable as error:
                log.warning("memory files not written", problem=str(error))
                await asyncio.sleep(_TRY_AGAIN_SECONDS)
                changed.set()

    async def snapshot(self, session_id: str) -> str:
        """Return what the prompt of a session shows, with what was edited by hand."""
        access, _ = await self.db.read(lambda tx: memories.access_of_session(tx, session_id))
        if access is None:
            return ""
        await self.files.import_edits(self.db, access)
        return await self.db.read(lambda tx: memories.snapshot(tx, access)[0])

    async def look_back(
        self,
        session_id: str,
        access: MemoryAccess | None,
        model: Model,
        settle: Callable[[Transaction], None],
        *,
        at_last: bool = False,
    ) -> None:
        """Let the model look for facts in a session, if enough was said since the last time.

        With `at_last`, it looks at the rest of the conversation before this one, which has ended.
        """
        looked_at: str | None = session_id
        if at_last:
            looked_at = await self.db.read(lambda tx: memories.find_session_before(tx, session_id))
        if access is None or looked_at is None or looked_at in self._looking:
            return
        self._looking.add(looked_at)
        try:
            at_least = 1 if at_last else 0
            if await self.nudge.look(self.db, looked_at, access, model, settle, at_least=at_least):
                await self.files.write_pending(self.db)
        except GatewayError:
            raise
        except Exception:  # contained: the answer does not depend on it
            log.exception("memory not reviewed")
        finally:
            self._looking.discard(looked_at)


def _read(tx: Transaction, access: MemoryAccess, request: MemoryRequest) -> MemoryAnswer:
    if request.action == "get":
        one = memories.get(tx, access, request.key)
        if one is None:
            raise ToolFailed(f"There is no memory with the key {request.key!r}. List or search to find its key.")
        return MemoryAnswer(data=_describe(one), from_outside=bool(one.from_outside))
    is_search = request.action == "search"
    found = memories.search(tx, access, request.query) if is_search else memories.list_all(tx, access)
    shown = found if is_search else _fit(found)
    data: dict[str, Any] = {"memories": [_describe(one) for one in shown]}
    if not found:
        data["hint"] = "Nothing found. Try other or fewer words." if is_search else "Nothing is known."
    elif more := len(found) - len(shown):
        data["hint"] = f"{more} more are not listed. Use search to find one."
    return MemoryAnswer(data=data, from_outside=any(one.from_outside for one in shown))


def _fit(found: list[Memory]) -> list[Memory]:
    """Return as many memories as one result should hold, in their order."""
    lengths = itertools.accumulate(len(one.key) + len(one.value) for one in found)
    return [one for one, length in zip(found, lengths, strict=True) if length <= _LISTED_CHARS]


def _describe(memory: Memory) -> dict[str, Any]:
    return {"key": memory.key, "value": memory.value}


def _is_from_outside(value: str, heard: Provenance) -> bool:
    has_outside = any(passage.origin != PROJECT for passage in heard.outside)
    return has_outside and not is_grounded(value, heard.own_words, share=_OWN_SHARE)
