"""Searches earlier conversations for the agent, as the person who asks in the turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.store import cron, inbox
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.search import OWNER_READS, Filter, FoundMessage, Reader, Window, reader_in, search
from tools.base import ToolFailed
from tools.builtin.session_search import SessionQuery, SessionWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """Implements `tools.builtin.session_search.PastConversations` over the store."""

    db: Database

    async def search(self, task_id: str, query: SessionQuery) -> Sequence[SessionWindow]:
        def read(tx: Transaction) -> list[Window]:
            turn_id, reader = find_reader(tx, task_id)
            where = Filter(
                platform=query.platform.strip().lower(),
                role=query.role,
                person=query.person.strip(),
                since_ms=_milliseconds(query.since, 0),
                until_ms=_milliseconds(query.until, Filter().until_ms),
                except_turn=turn_id,
            )
            return search(tx, query.query, reader=reader, where=where, limit=query.limit)

        windows = await self.db.read(read)
        return [[_to_row(message) for message in window.messages] for window in windows]


def find_reader(tx: Transaction, session_id: str) -> tuple[str, Reader]:
    """Return the turn of a session that runs now, and who reads its answer."""
    turn_id, asked = inbox.read_asking(tx, session_id)
    if not asked:
        raise ToolFailed("Nothing was searched: the turn that asked for it is over.")
    if asked[-1].is_at_terminal:
        return turn_id, OWNER_READS
    people = {message.person_id for message in asked}
    key = cron.find_readers(tx, asked[-1].key, asked[-1].person_id)
    # Several people who ask together in a private chat: nobody's own conversations.
    return turn_id, reader_in(key, people.pop() if len(people) == 1 else None)


def _milliseconds(moment: datetime | None, default: int) -> int:
    return int(moment.timestamp() * 1000) if moment is not None else default


def _to_row(message: FoundMessage) -> dict[str, object]:
    when = datetime.fromtimestamp(message.created_ms / 1000, UTC)
    return {
        "session_key": message.session_key,
        "role": message.role,
        "content": message.text,
        "timestamp": when.isoformat(timespec="seconds"),
        "display_name": message.display_name,
        "platform": message.platform,
        "match": message.is_hit,
    }
