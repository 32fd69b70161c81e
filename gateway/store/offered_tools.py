"""The tools of MCP servers that each conversation began with."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.store.db.connection import Transaction

if TYPE_CHECKING:  # commands that only look need none of it
    from gateway.store.db.database import Database


@dataclass(frozen=True, slots=True)
class StoredOffers:
    """Keeps what the hub of the MCP servers has offered, so that it outlives the process."""

    db: "Database"

    async def find(self, conversation: str, servers: str) -> str:
        return await self.db.read(lambda tx: _read(tx, conversation, servers))

    async def keep(self, conversation: str, servers: str, offer: str) -> str:
        def unit(tx: Transaction) -> str:
            tx.insert("offered_tools", "DO NOTHING", session_id=conversation, servers=servers, tools=offer)
            return _read(tx, conversation, servers)

        return await self.db.write_when_possible(unit)


def _read(tx: Transaction, session_id: str, servers: str) -> str:
    row = tx.one("SELECT tools FROM offered_tools WHERE session_id = ? AND servers = ?", session_id, servers)
    return str(row["tools"]) if row is not None else ""


def copy(tx: Transaction, source_id: str, target_id: str) -> None:
    """Offer a conversation what another one is offered."""
    chosen = "SELECT ?, servers, tools FROM offered_tools WHERE session_id = ?"
    tx.execute(f"INSERT INTO offered_tools (session_id, servers, tools) {chosen}", target_id, source_id)
