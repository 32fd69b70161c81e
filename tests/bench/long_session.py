"""How long a turn takes to open in a session that has gone on for years."""

import asyncio
import time
from functools import partial
from pathlib import Path

from agent_core.compaction import Summary
from agent_core.compactor import CompactionStep
from agent_core.conversation import Message, ToolCall, assistant, tool_result, user
from gateway.inbound.intake import Intake
from gateway.policies.access import Rules
from gateway.store import compactions, sessions, transcripts, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.turns import Turn
from tests.bench.rows import Row, Size
from tests.bench.scratch import ACCOUNT, inbound, scratch_store
from tests.bench.small_gateway import build_responder

_MESSAGES: dict[Size, int] = {"full": 10_000, "quick": 5_000, "tiny": 100}
_SAMPLES: dict[Size, int] = {"full": 50, "quick": 15, "tiny": 2}
_AIM_MS = 20
_SHOWN = 400
_CHAT = "long"
_TEXT = "Could you look at the build of last night and tell me what broke? " * 3


def measure(size: Size, folder: Path) -> list[Row]:
    messages = _MESSAGES[size]
    opening, bare = asyncio.run(_measure(folder, messages, _SAMPLES[size]))
    floor = Row(what="floor: a bare commit, and the rows unread", samples=bare, unit="ms")
    what = f"opening a turn in a session of {messages:,} messages"
    return [Row(what=what, samples=opening, unit="ms", aim=_AIM_MS, floor=floor), floor]


async def _measure(folder: Path, messages: int, samples: int) -> tuple[list[float], list[float]]:
    async with scratch_store(folder / "store") as db:
        await db.write(lambda tx: _fill(tx, messages))
        await db.write(_summarise)
        responder = build_responder(db, folder)
        opening: list[float] = []
        bare: list[float] = []
        for n in range(samples):
            turn = await _begin(db, str(n))
            began = time.perf_counter()
            history = (await responder._fetch_and_open(turn)).history.messages
            opening.append((time.perf_counter() - began) * 1000)
            assert history[-1].text == _TEXT
            await db.write(
                partial(turns.finish, turn_id=turn.id, messages=turn.messages, outcome=turns.Outcome.ANSWERED)
            )
            bare.append(await _bare(db, turn.session_id, _SHOWN))
        return opening, bare


async def _begin(db: Database, message_id: str) -> Turn:
    intake = Intake(db=db, rules=Rules())
    await intake.accept([inbound(_CHAT, message_id, _TEXT)], None, account=ACCOUNT, local=True)
    turn = await db.write(turns.begin)
    assert turn is not None
    return turn


async def _bare(db: Database, session_id: str, limit: int) -> float:
    began = time.perf_counter()
    await db.write(lambda tx: tx.execute("UPDATE meta SET value = value"))
    sql = "SELECT * FROM messages WHERE session_id = ? ORDER BY id DESC LIMIT ?"
    await db.read(lambda tx: tx.all(sql, session_id, limit))
    return (time.perf_counter() - began) * 1000


def _fill(tx: Transaction, messages: int) -> None:
    session = sessions.open_current(tx, inbound(_CHAT, "", _TEXT).key)
    for message in (message for n in range(messages // 4) for message in _exchange(n)):
        transcripts.append(tx, session.id, message)


def _summarise(tx: Transaction) -> None:
    """Shorten the session as its next turn would, but keep as much as is ever shown."""
    session_id = sessions.open_current(tx, inbound(_CHAT, "", _TEXT).key).id
    spoken = tx.count("SELECT COUNT(*) FROM messages WHERE session_id = ? AND role <> 'tool'", session_id)
    covers = max(spoken - _SHOWN * 3 // 4, 0)  # a quarter of the messages are results
    step = CompactionStep(summary=Summary(text="Much was said.", messages=covers), head=3, covers=covers)
    if covers:
        compactions.append(tx, session_id, compactions.read_history(tx, session_id, limit=10**9).boundary, step)


def _exchange(n: int) -> tuple[Message, ...]:
    call = ToolCall(id=f"call-{n}", name="terminal", arguments='{"command": "make test"}')
    return user(_TEXT), assistant(tool_calls=(call,)), tool_result(call, _TEXT), assistant(_TEXT)
