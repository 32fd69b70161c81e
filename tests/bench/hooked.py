"""What hooks that block, raise and flood cost a chat: nothing, for nobody waits for them."""

import asyncio
import time
from pathlib import Path

from tests.bench.rows import Row, Size, percentile
from tests.bench.scratch import running_gateway, with_socket
from tests.gateway.platforms.client import connect
from tests.hooks.making import write_hook

_MESSAGES: dict[Size, int] = {"full": 200, "quick": 40, "tiny": 2}
_REPEATS: dict[Size, int] = {"full": 3, "quick": 2, "tiny": 1}
_AIM = 1.2  # times the latency without hooks
_HANDLERS = {
    "good": "async def handle(event_type, context): ...",
    "blocks": "import threading\ndef handle(event_type, context): threading.Event().wait()",
    "loops": "def handle(event_type, context):\n    while True: pass",
    "raises": "def handle(event_type, context): raise ValueError",
    "exits": "import sys\ndef handle(event_type, context): sys.exit(1)",
}


def measure(size: Size, folder: Path) -> list[Row]:
    measured: dict[str, list[tuple[float, float]]] = {"plain": [], "hooked": []}
    for n in range(_REPEATS[size]):  # taking turns, so that whatever else the machine does weighs on both
        for name, samples in measured.items():
            home = folder / f"{name}-{n}"
            home.mkdir(mode=0o700)
            if name == "hooked":
                _write_hooks(home / "hooks")
            with running_gateway(home, with_socket(web=False) | {"model": {"demo_pace_ms": 0}}) as (_, seconds, _):
                samples.append((asyncio.run(_converse(home / "hermes.sock", _MESSAGES[size])), seconds))
    turns, starts = ({name: [one[of] for one in found] for name, found in measured.items()} for of in (0, 1))
    floor = Row(what="floor: the same without hooks, p50", samples=turns["plain"], unit="ms")
    start = Row(what="floor: start without hooks", samples=starts["plain"], unit="s")
    aim = floor.value * _AIM
    return [
        Row(
            what="turn with seven hooks, five of them bad, p50",
            samples=turns["hooked"],
            unit="ms",
            aim=aim,
            floor=floor,
        ),
        floor,
        Row(what="start with seven hooks", samples=starts["hooked"], unit="s", floor=start),
        start,
    ]


def _write_hooks(folder: Path) -> None:
    for name, handler in _HANDLERS.items():
        write_hook(folder / name, handler, events="*", timeout=0.5)
    write_hook(folder / "floods", events="*", timeout=0.5, command="sh -c 'yes & yes >&2'")
    write_hook(folder / "command", events="gateway:*", command="cat")


async def _converse(socket: Path, messages: int) -> float:
    """Return the median of the milliseconds from a message to its answer."""
    samples = []
    async with connect(socket) as client:
        for n in range(messages):
            began = time.perf_counter()
            await client.say(f"what is {n} * 2?", message_id=str(n))
            await client.hear()
            samples.append((time.perf_counter() - began) * 1000)
    return percentile(samples, 0.5)
