"""Give the agent BOOT.md as a message of the owner, in a conversation of its own at the terminal."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

_LONGEST_CHARS = 20_000


async def handle(event_type: str, context: dict[str, Any]) -> None:
    """Run the agent on BOOT.md; its answer is in logs/boot.log and in `hermes sessions list`."""
    home = Path(context["home"])
    try:
        text = (home / "BOOT.md").read_text(encoding="utf-8").strip()[:_LONGEST_CHARS]
    except FileNotFoundError:
        return
    if not text:
        return
    log = home / "logs" / "boot.log"
    log.parent.mkdir(mode=0o700, exist_ok=True)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hermes_cli", "chat", "-q", text),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    finally:
        os.close(output)
    try:
        code = await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if code:
        raise RuntimeError(f"the agent could not work on BOOT.md; see {log}")
