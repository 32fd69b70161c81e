"""How long it takes to find something in all that was ever said."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate
from pathlib import Path

from agent_core.conversation import Message, assistant, user
from gateway.messages import SessionKey
from gateway.store import sessions, transcripts
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.search import EVERYTHING, OWNER_READS, Filter, Reader, search
from tests.bench.rows import Row, Size, percentile
from tests.bench.scratch import scratch_store

Query = Callable[[Transaction], Sequence[object]]

_MESSAGES: dict[Size, int] = {"full": 1_000_000, "quick": 10_000, "tiny": 600}
_SAMPLES: dict[Size, int] = {"full": 9, "quick": 5, "tiny": 1}
_QUESTIONS: dict[Size, int] = {"full": 200, "quick": 60, "tiny": 3}
_AIM_MS = 50
_IN_A_SESSION = 200
_IN_A_UNIT = 2_000
_SESSIONS_OF_ADA = 50  # one of so many
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
    "a common word of one person": ("the", Filter(person="Ada")),
}


def measure(size: Size, folder: Path) -> list[Row]:
    return asyncio.run(_measure(folder / "store", _MESSAGES[size], _SAMPLES[size], _QUESTIONS[size]))


async def _measure(folder: Path, messages: int, samples: int, questions: int) -> list[Row]:
    async with scratch_store(folder) as db:
        began = time.perf_counter()
        await _fill(db, messages)
        filled_per_second = messages / (time.perf_counter() - began)
        scan = Row(
            what="floor: a rare word by reading every row",
            samples=[(await _milliseconds(db, _scan))[0] for _ in range(samples)],
            unit="ms",
        )
        rows = [
            Row(
                what=f"search {messages:,} messages, {name}",
                samples=[(await _milliseconds(db, partial(_search, query, where)))[0] for _ in range(samples)],
                unit="ms",
                floor=scan,
            )
            for name, (query, where) in _QUERIES.items()
        ]
        asked = [
            await _milliseconds(db, partial(_search, question, Filter(), reader=OWNER_READS))
            for question in _ask(questions)
        ]
        what = f"search {messages:,} messages, plain questions, 95 of 100"
        waited, computed = (percentile(taken, 0.95) for taken in zip(*asked, strict=True))
        rows.append(Row(what=what, samples=[waited], unit="ms", aim=_AIM_MS, floor=scan))
        rows.append(Row(what=f"{what}, of the processor", samples=[computed], unit="ms", aim=_AIM_MS))
    size_mb = sum(file.stat().st_size for file in folder.glob("state.db*")) / 1e6
    return [
        *rows,
        scan,
        Row(what=f"{messages:,} messages, written and indexed", samples=[filled_per_second], unit="messages/s"),
        Row(what=f"{messages:,} messages, the database file", samples=[size_mb], unit="MB"),
    ]


async def _milliseconds(db: Database, query: Query) -> tuple[float, float]:
    """Return how long one waits, and how long the processor works for it, which its neighbours lengthen less."""
    began, began_to_work = time.perf_counter(), time.process_time()
    found = await db.read(query)
    waited, worked = time.perf_counter() - began, time.process_time() - began_to_work
    assert found, "nothing was found, so this measured something else"
    return waited * 1000, worked * 1000


def _search(query: str, where: Filter, tx: Transaction, *, reader: Reader = EVERYTHING) -> Sequence[object]:
    return search(tx, query, reader=reader, where=where)


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
                if place % _SESSIONS_OF_ADA == 0:
                    tx.insert("participants", session_id=session_ids[-1], person_id="ada")
            transcripts.append(tx, session_ids[-1], message)

    await db.write(lambda tx: tx.insert("people", id="ada", name="Ada", role="member", created_ms=0))
    for _ in range(0, messages, _IN_A_UNIT):
        await db.write(unit)


def _ask(count: int) -> Iterator[str]:
    """Yield questions of a few words as they are spoken, but for the hundred commonest, which are like "the"."""
    chance = random.Random(2)
    for _ in range(count):
        yield f"when did we talk about the {' '.join(_speak(chance, chance.randint(2, 5), but_for=100))}?"


def _said(messages: int) -> Iterator[Message]:
    chance = random.Random(1)
    for n in range(messages):
        spoken = _speak(chance, chance.randint(10, 40))
        for every, extra in ((messages // 5, _RARE), (200, _PHRASE), (50, _CJK)):
            if n % every == 0:
                spoken.append(extra)
        yield (user, assistant)[n % 2](" ".join(spoken))


def _speak(chance: random.Random, count: int, *, but_for: int = 0) -> list[str]:
    """Return made-up words, as often as words of a language are: the second half as often as the first, and so on."""
    words, weights = _vocabulary(but_for)
    return chance.choices(words, cum_weights=weights, k=count)


@cache
def _vocabulary(but_for: int) -> tuple[list[str], list[float]]:
    chance = random.Random(3)
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    words = ["the", *("".join(chance.choices(syllables, k=chance.randint(2, 4))) for _ in range(_WORDS))]
    return words[but_for:], list(accumulate(1 / place for place in range(1 + but_for, len(words) + 1)))
