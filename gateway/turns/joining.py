"""Adds messages that arrive while a turn runs to it, between its tools and the next model call."""

import asyncio
from dataclasses import dataclass
from functools import partial

from agent_core.conversation import Message
from gateway.media.incoming import has_outside_files
from gateway.store import compactions, inbox, transcripts, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.inbox import Accepted
from gateway.store.turns import Turn
from gateway.turns.transcript_text import render_joining


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """Implements the `joining` argument of `agent_core.turn.run_turn` over the store."""

    db: Database
    turn: Turn
    user_wrote: asyncio.Event

    async def __call__(self) -> list[Message]:
        """Return the messages that join now. Rows and transcript are one commit: a crash finds both in the turn."""
        self.user_wrote.clear()  # before the read: a message that arrives meanwhile sets it again
        said, some_wait = await self.db.write_when_possible(self._join)
        if some_wait:
            self.user_wrote.set()
        return said

    def _join(self, tx: Transaction) -> tuple[list[Message], bool]:
        said: list[Message] = []
        for message in turns.join(tx, self.turn.id, partial(_is_ready, tx)):
            said.append(Message(role="user", parts=render_joining(message)))
            transcripts.append(tx, self.turn.session_id, said[-1], turn_id=self.turn.id, inbox_id=message.id)
        return said, any(message.kind == "message" for message in inbox.read_waiting_behind(tx, self.turn.id))


def _is_ready(tx: Transaction, message: Accepted) -> bool:
    """Return whether a message can join at once. Files are only fetched, calls only made and programs only answered by
    turns of their own."""
    if message.key.is_of_program or has_outside_files([message]) or compactions.read_order(message) is not None:
        return False
    return not inbox.read_call(tx, message.id)
