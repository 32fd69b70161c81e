"""The agent's search of earlier conversations: as whoever asks, and nothing but what they may read."""

import pytest

from gateway.messages import Sender, SessionKey
from gateway.store import sessions, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.turns.recall import Recall
from tests.gateway.store.exchange import begin, exchange
from tools.base import ToolFailed
from tools.builtin.session_search import SessionQuery

ANN, BOB = Sender(id="1", name="Ann"), Sender(id="2", name="Bob")
ANNS, BOBS = (SessionKey(platform="telegram", kind="dm", chat=chat) for chat in "12")
SLACK = SessionKey(platform="slack", kind="dm", chat="D1")
GROUP = SessionKey(platform="telegram", kind="group", chat="-1")
TERMINAL = SessionKey(platform="cli", chat="abc")


def talk(tx: Transaction) -> None:
    exchange(tx, "the canary of ann", "noted", key=ANNS, sender=ANN)
    exchange(tx, "the canary of bob", "noted", key=BOBS, sender=BOB)
    exchange(tx, "the canary of the group", "noted", key=GROUP, sender=ANN)


async def ask(db: Database, key: SessionKey, sender: Sender, query: str = "canary") -> set[str]:
    turn = await db.write(lambda tx: begin(tx, f"where is the {query}?", key=key, sender=sender))
    windows = await Recall(db=db).search(turn.session_id, SessionQuery(query=query))
    return {row["content"] for window in windows for row in window if row["match"]}


@pytest.mark.parametrize(
    ("key", "sender", "found"),
    [
        (ANNS, ANN, {"the canary of ann", "the canary of the group"}),
        (BOBS, BOB, {"the canary of bob"}),
        (GROUP, ANN, {"the canary of the group"}),
        (GROUP, BOB, {"the canary of the group"}),
    ],
)
async def test_a_turn_finds_what_its_readers_may_read(
    db: Database, key: SessionKey, sender: Sender, found: set[str]
) -> None:
    await db.write(talk)
    assert await ask(db, key, sender) == found


async def test_rows_say_where_and_when_and_who(db: Database) -> None:
    await db.write(talk)
    turn = await db.write(lambda tx: begin(tx, "so?", key=BOBS, sender=BOB))
    [window] = await Recall(db=db).search(turn.session_id, SessionQuery(query="canary", platform=" Telegram "))
    hit, neighbour = window
    assert hit["timestamp"].endswith("+00:00")
    assert {name: value for name, value in hit.items() if name != "timestamp"} == {
        "session_key": "telegram:dm:2",
        "role": "user",
        "content": "the canary of bob",
        "display_name": "Bob",
        "platform": "telegram",
        "match": True,
    }
    assert (neighbour["role"], neighbour["content"], neighbour["match"]) == ("assistant", "noted", False)
    assert await Recall(db=db).search(turn.session_id, SessionQuery(query="canary", platform="slack")) == []


async def test_the_terminal_reads_as_the_owner(db: Database) -> None:
    await db.write(talk)

    def at_terminal(tx: Transaction) -> str:
        session = sessions.open_current(tx, TERMINAL)
        turns.begin_at_terminal(tx, TERMINAL, session.id)
        return session.id

    assert await Recall(db=db).search(await db.write(at_terminal), SessionQuery(query="canary")) == []


async def test_a_turn_that_is_over_finds_nothing(db: Database) -> None:
    await db.write(talk)
    with pytest.raises(ToolFailed, match="over"):
        await Recall(db=db).search("no such session", SessionQuery(query="canary"))
