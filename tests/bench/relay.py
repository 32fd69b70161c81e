"""What a message costs through the page and a model over loopback, against a bare relay between the same two.

The bare relay keeps nothing and knows no SDK. It, the gateway and the model each run in a process of their own;
one client drives both.
"""

import asyncio
import sys
from pathlib import Path

from tests.bench.relay_client import relay_client
from tests.bench.relay_sides import Aims, Side, compare
from tests.bench.rows import Row, Size
from tests.bench.scratch import HERMES, at_model, environment, running, running_gateway, with_socket

_AIMS = Aims(latency=3.0, throughput=0.3, slow_throughput=0.85, cpu_ms=7.0, idle_mb=60.0)


def measure(size: Size, folder: Path) -> list[Row]:
    module = (sys.executable, "-m")
    variables = environment(folder)
    with running((*module, "tests.bench.relay_model"), variables) as (_, model_lines):
        model = next(model_lines).strip()
        with (
            running((*module, "tests.bench.relay_floor", model), variables) as (floor_pid, floor_lines),
            running_gateway(folder / "home", with_socket(web=True), at_model(model)) as (pid, _, _),
            running((*HERMES, "web"), environment(folder / "home")) as (_, web_lines),
        ):
            floor, link = next(floor_lines).strip(), next(line.strip() for line in web_lines if "://" in line)
            return asyncio.run(_measure(size, model, (floor_pid, floor), (pid, link)))


async def _measure(size: Size, model: str, floor: tuple[int, str], gateway: tuple[int, str]) -> list[Row]:
    async with relay_client(floor[1]) as floor_client, relay_client(gateway[1]) as gateway_client:
        bare, ours = Side(floor_client, floor[0]), Side(gateway_client, gateway[0])
        return await compare(size, "page to model", model, bare, ours, _AIMS)
