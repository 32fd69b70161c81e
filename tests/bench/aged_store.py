"""What a message costs in a store that has answered very many before."""

import asyncio
from pathlib import Path

from gateway.messages import SessionKey
from gateway.store import people, sessions
from gateway.store.connection import Transaction
from tests.bench.rows import Row, Size, percentile
from tests.bench.scratch import ACCOUNT, inbound
from tests.bench.turns import converse

_ANSWERED: dict[Size, int] = {"full": 100_000, "quick": 10_000, "tiny": 100}
_IN_A_ROW: dict[Size, int] = {"full": 20, "quick": 10, "tiny": 2}
_REPEATS: dict[Size, int] = {"full": 3, "quick": 1, "tiny": 1}

_NUMBERS = "WITH RECURSIVE old (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM old WHERE n < ?)"


def measure(size: Size, folder: Path) -> list[Row]:
    answered, in_a_row = _ANSWERED[size], _IN_A_ROW[size]
    young, aged = (
        Row(
            what=f"{name}, p50",
            samples=[
                percentile(asyncio.run(_latencies_ms(folder / f"{count}-{n}", count, in_a_row)), 0.5)
                for n in range(_REPEATS[size])
            ],
            unit="ms",
        )
        for name, count in (("floor: the same in a new store", 1), (f"turn, after {answered:,} messages", answered))
    )
    return [Row(what=aged.what, samples=aged.samples, unit="ms", floor=young), young]


async def _latencies_ms(folder: Path, answered: int, messages: int) -> list[float]:
    run = await converse(folder, chats=1, messages=messages, prepare=lambda tx: _answer_many(tx, answered))
    return run.latencies_ms


def _answer_many(tx: Transaction, answered: int) -> None:
    """The rows that so many answered messages leave behind, a hundred to a chat, without their transcripts."""
    message = inbound("old", "0", "hello")
    person = people.recognise(tx, ACCOUNT, message.sender, role="owner")
    session = sessions.open_current(tx, SessionKey(platform=ACCOUNT, kind="dm", chat="old"))
    tx.execute(
        f"""{_NUMBERS} INSERT INTO turns (id, session_key, session_id, state, outcome, started_ms, ended_ms)
            SELECT 't' || n, '{ACCOUNT}:dm:' || n / 100, ?, 'done', 'answered', n, n FROM old""",
        answered,
        session.id,
    )
    tx.execute(
        f"""{_NUMBERS} INSERT INTO inbox (account, chat, message_id, kind, thread, session_key, chat_kind, user_id,
                   person_id, role, sender_id, sender_name, parts, sent_ms, accepted_ms, own_turn, state, outcome,
                   turn_id)
            SELECT ?, n / 100, 'm' || n, 'message', '', '{ACCOUNT}:dm:' || n / 100, 'dm', '', ?, 'owner',
                   '1', 'Ada', '[]', n, n, 0, 'done', 'answered', 't' || n FROM old""",
        answered,
        ACCOUNT,
        person,
    )
    tx.execute(
        f"""{_NUMBERS} INSERT INTO outbox (key, kind, account, chat, thread, reply_to, parts, turn_id, state,
                   expires_ms, created_ms, sent_ms, receipt)
            SELECT 'k' || n, 'answer', ?, n / 100, '', 'm' || n, '[]', 't' || n, 'sent', n, n, n, 'r' || n FROM old""",
        answered,
        ACCOUNT,
    )
    tx.execute(
        f"{_NUMBERS} INSERT INTO trail (at_ms, event, turn_id) SELECT n, 'answered', 't' || n FROM old", answered
    )
