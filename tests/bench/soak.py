"""Whether a message costs the same after some thousands as at the beginning, in one run of the gateway."""

import asyncio
import time
from pathlib import Path

from tests.bench.rows import Row, Size
from tests.bench.small_gateway import small_gateway

_MESSAGES: dict[Size, int] = {"full": 3_000, "quick": 600, "tiny": 6}
_CHATS = 50
_AIM_CPU_MS = 8.0


def measure(size: Size, folder: Path) -> list[Row]:
    count = _MESSAGES[size]
    part = count // 6
    costs = asyncio.run(_cpu_milliseconds(folder / "store", count, part))
    first = Row(what=f"floor: the first {part:,} of them", samples=costs[:1], unit="CPU-ms/message")
    return [
        Row(what=f"{count:,} messages in a row, each", samples=costs, unit="CPU-ms/message", aim=_AIM_CPU_MS),
        Row(what=f"the last {part:,} of them", samples=costs[-1:], unit="CPU-ms/message", aim=_AIM_CPU_MS, floor=first),
        first,
    ]


async def _cpu_milliseconds(folder: Path, messages: int, part: int) -> list[float]:
    """Return what each message cost, part by part. Many chats, so that no conversation grows long."""
    costs = []
    async with small_gateway(folder) as gateway:
        await gateway.ask("warm-up", "0", "hello")
        for start in range(0, messages, part):
            began = time.process_time()
            for n in range(start, start + part):
                await gateway.ask(f"chat-{n % _CHATS}", str(n), "Could you look at the build of last night?")
            await gateway.settle()
            costs.append((time.process_time() - began) * 1000 / part)
    return costs
