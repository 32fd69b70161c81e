"""Decide approval requests for `hermes approvals`, over a Unix socket in the home.

The running gateway decides, not the command: it alone can see who is at the other end, and refuses whatever a command
of the agent has started. One line of JSON each way: `{"id": …, "verdict": …}`, `{"is_decided": …, "text": …}`.
"""

import asyncio
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path

import structlog

from gateway.approvals import decisions
from gateway.approvals.wording import Verdict, parse_verdict
from gateway.changes import Changes
from gateway.errors import StoreUnavailable
from gateway.store.db.database import Database
from tools.backends.ancestry import is_our_command, peer_pid
from tools.backends.box import bind
from tools.backends.supervisor_child import connect

log = structlog.get_logger()

REFUSED = "This comes from a command of the agent, and nothing may approve itself. Run it in a terminal of your own."
_MAX_LINE_BYTES = 10_000
_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalControl:
    db: Database
    path: Path
    changes: Changes

    async def run(self) -> None:
        """Serve until cancelled. Without the socket the gateway works as well, but for `hermes approvals approve`."""
        try:
            listening = _listen(self.path)
        except OSError as error:
            log.warning("no control socket", path=str(self.path), problem=error.strerror or str(error))
            return
        server = await asyncio.start_unix_server(self._serve, sock=listening, limit=_MAX_LINE_BYTES)
        try:
            await asyncio.Event().wait()
        finally:
            server.close()
            self.path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                is_decided, text = await self._answer(reader, writer)
                writer.write(json.dumps({"is_decided": is_decided, "text": text}).encode() + b"\n")
                await writer.drain()
        except (TimeoutError, ConnectionError, ValueError) as error:
            log.debug("control request dropped", problem=str(error))
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[bool, str]:
        line = await reader.readline()  # first: whoever is still writing would not read the answer
        pid = peer_pid(writer.get_extra_info("socket"))
        if await asyncio.to_thread(is_our_command, pid, gateway_pid=os.getpid()):
            log.warning("a command tried to decide an approval request", pid=pid)
            return False, REFUSED
        asked = json.loads(line)
        verdict = parse_verdict(asked.get("verdict")) if isinstance(asked, dict) else None
        if verdict is None:
            return False, "This request is not understood."
        approval_id = str(asked.get("id", ""))
        try:
            answer = await self.db.write(lambda tx: decisions.decide_for_owner(tx, approval_id, verdict))
        except StoreUnavailable as error:
            return False, str(error)
        self.changes.notify("decisions", "outbox")
        return answer


def request_decision(path: Path, approval_id: str, verdict: Verdict) -> tuple[bool, str]:
    """Ask the running gateway to decide; return whether it did, and its words. Raises OSError or ValueError. Blocks."""
    with socket.socket(fileno=connect(str(path)).detach()) as connection:
        connection.settimeout(_TIMEOUT_SECONDS)
        connection.sendall(json.dumps({"id": approval_id, "verdict": verdict}).encode() + b"\n")
        with connection.makefile("rb") as answers:
            answer = json.loads(answers.readline(_MAX_LINE_BYTES * 10))
    return bool(answer["is_decided"]), str(answer["text"])


def _listen(path: Path) -> socket.socket:
    listening = bind(path)  # instead of a dead gateway's: the lock on the home shows that none runs
    try:
        path.chmod(0o600)
        listening.listen()
    except BaseException:
        listening.close()
        raise
    listening.setblocking(False)
    return listening
