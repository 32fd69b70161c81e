"""The real gateway in a process of its own, with a tool whose effects can be counted and, if wanted, a kill point.

    python -m tests.faults.gateway_under_test --effects FILE [--kill-at before:answered [--occurrence 2]]

Nothing of the product is changed for it: what is wrapped here is wrapped in this process alone.
"""

import argparse
import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from gateway.platforms import socket
from gateway.store import database, trail
from gateway.store.connection import Transaction
from gateway.store.mark import Mark
from hermes_cli.main import main as hermes
from tests.faults.points import ACKED, NOT_RECORDED, TOOL_BEGUN, TOOL_DONE, WRITTEN
from tools.base import ToolContext
from tools.registry import registry

_LOOK_AGAIN_SECONDS = 0.01
_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "What to write down"},
        "wait_ms": {"type": "integer", "description": "How long to go on after that"},
        "hold": {"type": "boolean", "description": "Whether to go on until the file beside ours appears"},
    },
    "required": ["id"],
}


class KillPoint:
    """Ends this process by SIGKILL when the named point is reached for the nth time."""

    def __init__(self, name: str, occurrence: int) -> None:
        self._name = name
        self._left = occurrence
        self._due = False

    def reached(self, name: str) -> None:
        if self._counts(name):
            _die()

    def arm(self) -> None:
        when, _, event = self._name.partition(":")
        if when in ("before", "after"):
            self._watch_trail(event)
            if when == "before":
                self._watch_begin_of_commit()
            else:
                self._watch_end_of_commit()
        else:
            self._watch_socket()

    def _counts(self, name: str) -> bool:
        if name == self._name:
            self._left -= 1
        return name == self._name and self._left == 0

    def _watch_trail(self, wanted: str) -> None:
        record = trail.record

        def recording(tx: Transaction, event: str, **rest: Any) -> None:
            record(tx, event, **rest)
            if event == wanted.removeprefix("command_") and _of_command(tx, rest) == wanted.startswith("command_"):
                self._due = self._due or self._counts(self._name)

        patch.object(trail, "record", recording).start()

    def _watch_begin_of_commit(self) -> None:
        commit_together = database._commit_together

        def on_statement(sql: str) -> None:  # SQLite calls this before it runs the statement
            if self._due and sql == "COMMIT":
                _die()

        def traced(connection: sqlite3.Connection, units: Sequence[database.Unit[Any]], mark: Mark) -> Any:
            connection.set_trace_callback(on_statement)
            return commit_together(connection, units, mark)

        patch.object(database, "_commit_together", traced).start()

    def _watch_end_of_commit(self) -> None:
        write = Mark.write

        def writing(mark: Mark, commits: int) -> None:  # the first thing done after a COMMIT, in the same thread
            if self._due:
                _die()
            write(mark, commits)

        patch.object(Mark, "write", writing).start()

    def _watch_socket(self) -> None:
        say, send = socket._Client.say, socket.SocketPlatform.send

        def saying(client: socket._Client, **line: Any) -> None:
            say(client, **line)
            self.reached({"ack": ACKED, "message": WRITTEN}.get(line["type"], ""))

        async def sending(platform: socket.SocketPlatform, message: Any) -> Any:
            receipt = await send(platform, message)
            self.reached(NOT_RECORDED)
            return receipt

        patch.object(socket._Client, "say", saying).start()
        patch.object(socket.SocketPlatform, "send", sending).start()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _of_command(tx: Transaction, ids: dict[str, Any]) -> bool:
    row = tx.one("SELECT kind FROM inbox WHERE id = ?", ids.get("inbox_id"))
    return row is not None and row["kind"] == "command"


def _register_tool(effects: Path, point: KillPoint) -> None:
    released = effects.with_suffix(".released")

    async def side_effect(arguments: dict[str, Any], _: ToolContext) -> str:
        """Write a line where it can be counted."""
        point.reached(TOOL_BEGUN)
        handle = os.open(effects, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(handle, f"{arguments['id']}\n".encode())  # one write: two processes cannot mix their lines
        os.close(handle)
        await asyncio.sleep(arguments.get("wait_ms", 0) / 1000)
        while arguments.get("hold") and not released.exists():
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        point.reached(TOOL_DONE)
        return f"did {arguments['id']}."

    registry.register("side_effect", "side_effect", _SCHEMA, side_effect)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--effects", type=Path, required=True)
    parser.add_argument("--kill-at", default="")
    parser.add_argument("--occurrence", type=int, default=1)
    options = parser.parse_args()
    point = KillPoint(options.kill_at, options.occurrence)
    if options.kill_at:
        point.arm()
    _register_tool(options.effects, point)
    sys.argv = ["hermes", "gateway", "run"]
    hermes()


if __name__ == "__main__":
    main()
