"""Chats while 10,000 forged webhooks arrive, from another process that is held to one processor.

The floor is a chat without any, in the same run. `python -m tests.bench.hostile_webhooks PORT NUMBER` is the generator.
"""

import asyncio
import os
import socket
import sys
import time
from collections import Counter
from pathlib import Path
from threading import Thread

from tests.bench.relay_sides import cpu_seconds
from tests.bench.rows import Row, Size, percentile
from tests.bench.scratch import environment, running, running_gateway
from tests.gateway.platforms.client import connect

_REQUESTS: dict[Size, int] = {"full": 10_000, "quick": 1_000, "tiny": 50}
_CALM_MESSAGES: dict[Size, int] = {"full": 200, "quick": 50, "tiny": 3}
_AT_ONCE = 50
_EVERY_SECONDS = 0.02
_AIM = 1.5  # times the latency without a generator
_SECRETS = {"HERMES_WEBHOOK_SECRET_DEPLOYS": "It's a Secret to Everybody, of course"}
_SETTINGS = {
    "model": {"demo_pace_ms": 0},
    "access": {"messages_per_minute": 0},
    "http": {"enabled": True, "webhooks": ["deploys=github"]},
}


def measure(size: Size, folder: Path) -> list[Row]:
    port = _free_port()
    platforms = {"socket": {"enabled": True}, "web": {"enabled": True, "port": port}}
    phases: dict[str, tuple[list[float], float]] = {}
    with running_gateway(folder / "home", {**_SETTINGS, "platforms": platforms}, _SECRETS) as (pid, _, _):
        chat = folder / "home" / "hermes.sock"
        asyncio.run(_converse(chat, "warm", _CALM_MESSAGES[size], []))
        for name, attacked in (("calm", 0), ("attacked", port)):
            before, began = cpu_seconds(pid), time.monotonic()
            latencies = _talk_during(size, chat, folder, name, attacked)
            phases[name] = latencies, (cpu_seconds(pid) - before) / (time.monotonic() - began)
    rows = []
    for share in (0.5, 0.95):
        calm, rough = ([percentile(phases[name][0], share)] for name in ("calm", "attacked"))
        of = f"p{share * 100:.0f}"
        floor = Row(what=f"floor: chat without a generator, {of}", samples=calm, unit="ms")
        aim = floor.value * _AIM if share == 0.5 else None
        rows += [Row(what=f"chat during forged webhooks, {of}", samples=rough, unit="ms", aim=aim, floor=floor), floor]
    rows += [
        Row(what=f"the gateway, {name}", samples=[max(cpu, 0.001)], unit="CPU-s a second")
        for name, (_, cpu) in phases.items()
    ]
    return rows


def _talk_during(size: Size, chat: Path, folder: Path, name: str, attacked: int) -> list[float]:
    latencies: list[float] = []
    if not attacked:
        asyncio.run(_converse(chat, name, _CALM_MESSAGES[size], latencies))
        return latencies
    command = (sys.executable, "-m", "tests.bench.hostile_webhooks", str(attacked), str(_REQUESTS[size]))
    with running(command, environment(folder)) as (_, lines):
        waiting = Thread(target=lambda: print(next(lines).strip(), file=sys.stderr))
        waiting.start()
        asyncio.run(_converse(chat, name, None, latencies, waiting))
        waiting.join()
    return latencies


async def _converse(
    chat: Path, name: str, messages: int | None, latencies: list[float], until: Thread | None = None
) -> None:
    """Ask at a pace, a number of times or until the generator has ended."""
    async with connect(chat) as client:
        number = 0
        while number < messages if messages is not None else until is not None and (until.is_alive() or not number):
            began = time.perf_counter()
            asked = f"{name}-{number}"
            await client.write(type="message", text=f"what is {number} * 2?", id=asked, chat=name)
            answered: list[str] = []
            while asked not in answered:  # else a notice would be taken for it, and each answer for the next one
                line = await client.read()
                assert line is not None
                if line["type"] == "message":
                    await client.write(type="ack", key=line["key"])
                    answered = line.get("answers", [])
            latencies.append((time.perf_counter() - began) * 1000)
            number += 1
            await asyncio.sleep(_EVERY_SECONDS)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


async def _attack(port: int, requests: int) -> str:
    """Send forged events over connections that are kept as long as the server keeps them, as fast as it goes."""
    body = b'{"ref": "refs/heads/main", "pad": "' + b"x" * 2_000 + b'"}'
    head = (
        f"POST /hooks/deploys HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"X-Hub-Signature-256: sha256={'0' * 64}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request, left, statuses = head.encode() + body, iter(range(requests)), Counter[str]()

    async def attacker() -> None:
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        for _ in left:
            try:
                streams = streams or await asyncio.open_connection("127.0.0.1", port)
                streams[1].write(request)
                answer = await streams[0].readuntil(b"\r\n\r\n")
                statuses[answer[9:12].decode()] += 1
                if b"connection: close" in answer.lower():
                    raise ConnectionResetError
                await streams[0].readexactly(int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
            except (OSError, EOFError) as error:
                statuses["closed"] += not isinstance(error, ConnectionResetError) or error.errno is not None
                if streams is not None:
                    streams[1].transport.abort()
                streams = None

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(attacker())
    told = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    seconds = time.monotonic() - began
    return f"{told} in {seconds:.1f} s, the generator used {time.process_time() / seconds:.2f} of its processor"


if __name__ == "__main__":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(asyncio.run(_attack(*map(int, sys.argv[1:]))), flush=True)
