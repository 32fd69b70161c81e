"""How long it takes to find something in all that was ever said."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path

from agent_core.conversation import Message, assistant, user
from gateway.messages import SessionKey
from gateway.store import sessions, transcripts
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.search import Filter, search
from tests.bench.rows import Row, Size
from tests.bench.scratch import scratch_store

Query = Callable[[Transaction], Sequence[object]]

_MESSAGES: dict[Size, int] = {"full": 200_000, "quick": 10_000, "tiny": 600}
_SAMPLES: dict[Size, int] = {"full": 9, "quick": 5, "tiny": 1}
_IN_A_SESSION = 200
_IN_A_UNIT = 2_000
_WORDS = 20_000
_PLATFORMS = ("telegram", "discord", "slack")
_RARE, _PHRASE, _CJK = "zyxomma", "nightly build failed", "昨日は東京へ行きました"
_QUERIES: dict[str, tuple[str, Filter]] = {
    "a rare word": (_RARE, Filter()),
    "a common word": ("the", Filter()),
    "a phrase": (f'"{_PHRASE}"', Filter()),
    "a prefix": ("nigh*", Filter()),
    "two CJK characters": ("東京", Filter()),
    "a common word of one platform and role": ("the", Filter(platform="slack", role="user")),
}


def measure(size: Size, folder: Path) -> list[Row]:
    return asyncio.run(_measure(folder / "store", _MESSAGES[size], _SAMPLES[size]))


async def _measure(folder: Path, messages: int, samples: int) -> list[Row]:
    async with scratch_store(folder) as db:
        began = time.perf_counter()
        await _fill(db, messages)
        filled_per_second = messages / (time.perf_counter() - began)
        scan = Row(
            what="floor: a rare word by reading every row",
            samples=[await _milliseconds(db, _scan) for _ in range(samples)],
            unit="ms",
        )
        rows = [
            Row(
                what=f"search {messages:,} messages, {name}",
                samples=[await _milliseconds(db, partial(search, query=query, where=where)) for _ in range(samples)],
                unit="ms",
                floor=scan,
            )
            for name, (query, where) in _QUERIES.items()
        ]
    size_mb = sum(file.stat().st_size for file in folder.glob("state.db*")) / 1e6
    return [
        *rows,
        scan,
        Row(what=f"{messages:,} messages, written and indexed", samples=[filled_per_second], unit="messages/s"),
        Row(what=f"{messages:,} messages, the database file", samples=[size_mb], unit="MB"),
    ]


async def _milliseconds(db: Database, query: Query) -> float:
    began = time.perf_counter()
    found = await db.read(query)
    milliseconds = (time.perf_counter() - began) * 1000
    assert found, "nothing was found, so this measured something else"
    return milliseconds


def _scan(tx: Transaction) -> Sequence[object]:
    return tx.all("SELECT id FROM messages WHERE search_text LIKE ? LIMIT 10", f"%{_RARE}%")


async def _fill(db: Database, messages: int) -> None:
    said = _said(messages)
    session_ids: list[str] = []

    def unit(tx: Transaction) -> None:
        for n, message in zip(range(_IN_A_UNIT), said, strict=False):
            if n % _IN_A_SESSION == 0:
                place = len(session_ids)
                key = SessionKey(platform=_PLATFORMS[place % len(_PLATFORMS)], kind="dm", chat=str(place))
                session_ids.append(sessions.open_current(tx, key).id)
            transcripts.append(tx, session_ids[-1], message)

    for _ in range(0, messages, _IN_A_UNIT):
        await db.write(unit)


def _said(messages: int) -> Iterator[Message]:
    """Made-up words, as often as words of a language are: the second half as often as the first, and so on."""
    chance = random.Random(1)
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    words = ["the", *("".join(chance.choices(syllables, k=chance.randint(2, 4))) for _ in range(_WORDS))]
    weights = list(accumulate(1 / place for place in range(1, len(words) + 1)))
    for n in range(messages):
        spoken = chance.choices(words, cum_weights=weights, k=chance.randint(10, 40))
        for every, extra in ((messages // 5, _RARE), (200, _PHRASE), (50, _CJK)):
            if n % every == 0:
                spoken.append(extra)
        yield (user, assistant)[n % 2](" ".join(spoken))
