"""What a message costs us when the model and the platform take no time at all."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from agent_core.conversation import ListJournal, Message, user
from agent_core.turn import run_turn
from gateway.store.db.connection import Transaction
from tests.bench.rows import Row, Size, percentile
from tests.bench.small_gateway import InstantModel, SmallGateway, small_gateway
from tools.base import ToolContext

_IN_A_ROW: dict[Size, int] = {"full": 200, "quick": 50, "tiny": 3}
_EACH_OF_MANY: dict[Size, int] = {"full": 20, "quick": 3, "tiny": 1}
_MANY: dict[Size, int] = {"full": 100, "quick": 100, "tiny": 4}
_REPEATS: dict[Size, int] = {"full": 5, "quick": 1, "tiny": 1}
_TEXT = "Could you look at the build of last night and tell me what broke?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    latencies_ms: list[float]
    seconds: float
    cpu_ms: float  # for each message, our database thread's included
    commits: float  # for each message

    @property
    def messages_per_second(self) -> float:
        return len(self.latencies_ms) / self.seconds


def measure(size: Size, folder: Path) -> list[Row]:
    in_a_row, each, many = _IN_A_ROW[size], _EACH_OF_MANY[size], _MANY[size]
    one: list[Run] = []
    all_at_once: list[Run] = []
    bare: list[float] = []
    for n in range(_REPEATS[size]):
        one.append(asyncio.run(converse(folder / f"one-{n}", chats=1, messages=in_a_row)))
        all_at_once.append(asyncio.run(converse(folder / f"many-{n}", chats=many, messages=each)))
        bare.append(asyncio.run(_without_store(in_a_row)))
    floor = Row(what="floor: the same turns without store and platform, p50", samples=bare, unit="ms")
    row, crowd = f"turn, one chat, {in_a_row} in a row", f"turn, {many} chats at once"
    return [
        Row(what=f"{row}, p50", samples=[percentile(run.latencies_ms, 0.5) for run in one], unit="ms", floor=floor),
        Row(what=f"{row}, p95", samples=[percentile(run.latencies_ms, 0.95) for run in one], unit="ms", floor=floor),
        Row(what=f"{row}, CPU", samples=[run.cpu_ms for run in one], unit="CPU-ms/message"),
        Row(what=f"{row}, durable commits", samples=[run.commits for run in one], unit="commits/message"),
        Row(what=f"{crowd}, throughput", samples=[run.messages_per_second for run in all_at_once], unit="messages/s"),
        Row(what=f"{crowd}, p50", samples=[percentile(run.latencies_ms, 0.5) for run in all_at_once], unit="ms"),
        Row(what=f"{crowd}, p95", samples=[percentile(run.latencies_ms, 0.95) for run in all_at_once], unit="ms"),
        Row(what=f"{crowd}, CPU", samples=[run.cpu_ms for run in all_at_once], unit="CPU-ms/message"),
        floor,
    ]


async def converse(folder: Path, *, chats: int, messages: int) -> Run:
    """In each chat the next message is said when the last one was answered."""
    async with small_gateway(folder) as gateway:
        await gateway.ask("warm-up", "0", _TEXT)
        await gateway.settle()
        commits, cpu, began = await _commits(gateway), time.process_time(), time.perf_counter()

        async def chat(name: str) -> list[float]:
            return [await gateway.ask(name, str(n), _TEXT) for n in range(messages)]

        latencies = await asyncio.gather(*(chat(f"chat-{n}") for n in range(chats)))
        await gateway.settle()
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        commits = await _commits(gateway) - commits
    total = chats * messages
    return Run(
        latencies_ms=[latency * 1000 for of_chat in latencies for latency in of_chat],
        seconds=seconds,
        cpu_ms=cpu * 1000 / total,
        commits=commits / total,
    )


async def _commits(gateway: SmallGateway) -> int:
    def count(tx: Transaction) -> int:
        return tx.count("SELECT value FROM meta WHERE name = 'commits'")

    return await gateway.db.read(count)


async def _without_store(messages: int) -> float:
    """The median of as many turns, the conversation growing as it does there."""
    history: list[Message] = []
    samples: list[float] = []
    for _ in range(messages):
        began = time.perf_counter()
        history.append(user(_TEXT))
        outcome = await run_turn(
            model=InstantModel(),
            tools=(),
            messages=history,
            journal=ListJournal(),
            context=ToolContext(task_id="bench"),
        )
        history.append(outcome.final)
        samples.append((time.perf_counter() - began) * 1000)
    return percentile(samples, 0.5)
