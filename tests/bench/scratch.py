"""What the benchmarks run on: a real store on the disk, messages to put into it, real processes."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from gateway.clock import now_ms
from gateway.messages import InboundMessage, Sender, SessionKey, Text
from gateway.store.database import Database, open_database
from gateway.store.prepare import Care, prepare

ACCOUNT = "bench"
ROOT = Path(__file__).parents[2]
HERMES = (sys.executable, "-m", "hermes_cli")  # the tree that this file is in, whatever is installed
_STOPPED_WITHIN_SECONDS = 30.0
_OURS = ("HERMES_", "GATEWAY_", "TELEGRAM_", "DISCORD_", "SLACK_", "OPENAI_", "OPENROUTER_", "NOUS_", "NOTIFY_SOCKET")


@asynccontextmanager
async def scratch_store(folder: Path) -> AsyncIterator[Database]:
    folder.mkdir(exist_ok=True)
    path = folder / "state.db"
    await asyncio.to_thread(prepare, path, Care(backups=folder / "backups"), repair=False)
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


@contextmanager
def running_gateway(
    home: Path, *, web: bool, model_url: str = "", model_key: str = ""
) -> Iterator[tuple[int, float, str]]:
    """A gateway with the socket, ready; gives its pid, the seconds from its start to ready, and the page's link."""
    home.mkdir(mode=0o700, exist_ok=True)
    platforms = {"socket": {"enabled": True}, "web": {"enabled": web, "port": 0}}
    (home / "config.yaml").write_text(json.dumps({"platforms": platforms, "logs": {"level": "error"}}))  # also YAML
    model = {"HERMES_MODEL": "bench", "OPENAI_BASE_URL": model_url, "OPENAI_API_KEY": model_key} if model_url else {}
    began = time.perf_counter()
    with running((*HERMES, "gateway", "run"), environment(home) | model) as (pid, lines):
        assert any(line.startswith("Ready") for line in lines), "the gateway ended before it was ready"
        seconds = time.perf_counter() - began
        yield pid, seconds, next(lines).split()[-1] if web else ""


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
