"""The real gateway in a process of its own, with a tool whose effects can be counted and, if wanted, a kill point.

    python -m tests.faults.gateway_under_test --effects FILE [--kill-at before:answered [--occurrence 2]]
                                              [--chat telegram [--broken resend]]

Nothing of the product is changed for it: what is wrapped here is wrapped in this process alone.
"""

import argparse
import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

from agent_core.models import demo
from gateway.platforms import socket
from gateway.processes.watcher import Watchers
from gateway.store import trail
from gateway.store.db import database
from gateway.store.db.commit_counter import CommitCounter
from gateway.store.db.connection import Transaction
from gateway.wiring import app
from hermes_cli.main import main as hermes
from tests.faults.points import ACKED, NOT_RECORDED, TOOL_BEGUN, TOOL_DONE, WRITTEN
from tools.backends.background import BackgroundProcesses
from tools.base import ToolContext
from tools.registry import registry

_LOOK_AGAIN_SECONDS = 0.01
_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "What to write down"},
        "wait_ms": {"type": "integer", "description": "How long to go on after that"},
        "hold": {"type": "boolean", "description": "Whether to go on until the file beside ours appears"},
        "for": {"type": "string", "description": "Who is asked: in a group a message names the bot"},
        "words": {"type": "integer", "description": "How many words to say about it"},
    },
    "required": ["id"],
}


class Inside(Protocol):
    """What is wrapped around a platform in this process."""

    @property
    def BREAKS(self) -> Mapping[str, Callable[[], None]]:  # noqa: N802 - a constant of the module
        """What can be wrong on purpose."""

    def prepare(self) -> None: ...

    def watch_steps(self, reached: Callable[[str], None], /) -> None: ...


class KillPoint:
    """Ends this process by SIGKILL when the named point is reached for the nth time."""

    def __init__(self, name: str, occurrence: int) -> None:
        self._name = name
        self._left = occurrence
        self._due = False

    def reached(self, name: str) -> None:
        if self._counts(name):
            _die()

    def arm(self, watch_steps: Callable[[Callable[[str], None]], None]) -> None:
        """`watch_steps` is handed what to call with the name of a step that ends in no commit."""
        when, _, event = self._name.partition(":")
        if when in ("before", "after"):
            self._watch_trail(event)
            if when == "before":
                self._watch_begin_of_commit()
            else:
                self._watch_end_of_commit()
        else:
            watch_steps(self.reached)

    def _counts(self, name: str) -> bool:
        if name == self._name:
            self._left -= 1
        return name == self._name and self._left == 0

    def _watch_trail(self, wanted: str) -> None:
        record = trail.record

        def recording(tx: Transaction, event: trail.TrailEvent, **rest: Any) -> None:
            record(tx, event, **rest)
            if f"{_prefix(tx, rest)}{event}" == wanted:
                self._due = self._due or self._counts(self._name)

        patch.object(trail, "record", recording).start()

    def _watch_begin_of_commit(self) -> None:
        commit_together = database._commit_together

        def on_statement(sql: str) -> None:  # SQLite calls this before it runs the statement
            if self._due and sql == "COMMIT":
                _die()

        def traced(connection: sqlite3.Connection, units: Sequence[database.Unit[Any]], mark: CommitCounter) -> Any:
            connection.set_trace_callback(on_statement)
            return commit_together(connection, units, mark)

        patch.object(database, "_commit_together", traced).start()

    def _watch_end_of_commit(self) -> None:
        write = CommitCounter.write

        def writing(
            mark: CommitCounter, commits: int
        ) -> None:  # the first thing done after a COMMIT, in the same thread
            if self._due:
                _die()
            write(mark, commits)

        patch.object(CommitCounter, "write", writing).start()


def _watch_socket(reached: Callable[[str], None]) -> None:
    say, send = socket._Client.say, socket.SocketPlatform.send

    def saying(client: socket._Client, **line: Any) -> None:
        say(client, **line)
        reached({"ack": ACKED, "message": WRITTEN}.get(line["type"], ""))

    async def sending(platform: socket.SocketPlatform, message: Any) -> Any:
        receipt = await send(platform, message)
        reached(NOT_RECORDED)
        return receipt

    patch.object(socket._Client, "say", saying).start()
    patch.object(socket.SocketPlatform, "send", sending).start()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _prefix(tx: Transaction, ids: dict[str, Any]) -> str:
    """What an event is about, where that is no message and no answer."""
    row = tx.one(
        """SELECT kind FROM inbox WHERE id = ? AND kind IN ('command', 'button')
            UNION ALL SELECT kind FROM outbox WHERE id = ? AND kind = 'notice'""",
        ids.get("inbox_id"),
        ids.get("outbox_id"),
    )
    return f"{row['kind']}_" if row is not None else ""


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
        about = " ".join(["word"] * arguments["words"] + [f"end of {arguments['id']}."]) if "words" in arguments else ""
        return f"did {arguments['id']}. {about}".strip()

    registry.register("side_effect", "side_effect", _SCHEMA, side_effect)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--effects", type=Path, required=True)
    parser.add_argument("--kill-at", default="")
    parser.add_argument("--occurrence", type=int, default=1)
    parser.add_argument("--chat", default="", help="a platform: what is sent through it shall tell what it answers")
    parser.add_argument("--broken", default="", help="what shall be wrong on purpose")
    options = parser.parse_args()
    point = KillPoint(options.kill_at, options.occurrence)
    watch_steps = _prepare_chat(options.chat, options.broken) if options.chat else _watch_socket
    if options.kill_at:
        point.arm(watch_steps)
    _register_tool(options.effects, point)
    patch.object(demo, "MAX_RESULT_CHARS", 100_000).start()  # else it could give no long answer
    patch.object(app, "Watchers", partial(Watchers, gather_seconds=0.1)).start()
    patch.object(BackgroundProcesses, "poll_seconds", 0.05).start()
    sys.argv = ["hermes", "gateway", "run"]
    hermes()


def _prepare_chat(platform: str, broken: str) -> Callable[[Callable[[str], None]], None]:
    inside: Inside = import_module(f"tests.faults.{platform}_inside")  # here: its package takes its time to load
    inside.prepare()
    if broken:
        inside.BREAKS[broken]()
    return inside.watch_steps


if __name__ == "__main__":
    main()
