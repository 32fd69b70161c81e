"""What the benchmarks run on: a real store on the disk, messages to put into it, real processes."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gateway.clock import now_ms
from gateway.messages import InboundMessage, Sender, SessionKey, Text
from gateway.store.db.database import Database, open_database
from gateway.store.db.prepare import BackupPolicy, prepare
from tests.bench.relay_model import KEY

ACCOUNT = "bench"
ROOT = Path(__file__).parents[2]
HERMES = (sys.executable, "-m", "hermes_cli")  # the tree that this file is in, whatever is installed
_STOPPED_WITHIN_SECONDS = 30.0
_OURS = ("HERMES_", "GATEWAY_", "TELEGRAM_", "DISCORD_", "SLACK_", "OPENAI_", "OPENROUTER_", "NOUS_", "NOTIFY_SOCKET")


@asynccontextmanager
async def scratch_store(folder: Path) -> AsyncIterator[Database]:
    folder.mkdir(exist_ok=True)
    path = folder / "state.db"
    await asyncio.to_thread(prepare, path, BackupPolicy(backups=folder / "backups"), repair=False)
    db = await open_database(path)
    try:
        yield db
    finally:
        await db.close()


def inbound(chat: str, message_id: str, text: str) -> InboundMessage:
    return InboundMessage(
        key=SessionKey(platform=ACCOUNT, kind="dm", chat=chat),
        message_id=message_id,
        sender=Sender(id="1", name="Ada"),
        parts=(Text(text=text),),
        sent_ms=now_ms(),
    )


def environment(home: Path) -> dict[str, str]:
    """Nothing of the developer's own Hermes reaches a measurement, and no measurement reaches it."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return inherited | {"HERMES_HOME": str(home)}


def seconds_to_run(command: tuple[str, ...], home: Path) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=environment(home), cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def with_socket(*, web: bool) -> dict[str, Any]:
    """Settings of a gateway that is reached through the local socket, and through the page if so wished."""
    return {"platforms": {"socket": {"enabled": True}, "web": {"enabled": web, "port": 0}}}


def at_model(url: str) -> dict[str, str]:
    """Variables by which a gateway asks the benchmarks' own model."""
    return {"HERMES_MODEL": "bench", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY}


@contextmanager
def running_gateway(
    home: Path, settings: Mapping[str, Any], variables: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[int, float, Iterator[str]]]:
    """A gateway that is ready; gives its pid, the seconds from its start to ready, and the lines it prints then."""
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.yaml").write_text(json.dumps({**settings, "logs": {"level": "error"}}))  # also YAML
    began = time.perf_counter()
    with running((*HERMES, "gateway", "run"), {**environment(home), **variables}) as (pid, lines):
        assert any(line.startswith("Ready") for line in lines), "the gateway ended before it was ready"
        yield pid, time.perf_counter() - began, lines


@contextmanager
def running(command: tuple[str, ...], variables: dict[str, str]) -> Iterator[tuple[int, Iterator[str]]]:
    """A process until the end of the block; gives its pid and the lines it prints."""
    with subprocess.Popen(command, env=variables, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.pid, iter(process.stdout)
        finally:
            process.terminate()
            process.wait(timeout=_STOPPED_WITHIN_SECONDS)
