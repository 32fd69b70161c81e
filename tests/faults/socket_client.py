"""Somebody who talks to the gateway over its socket and keeps to the protocol through every crash.

What was not acked is sent again after a reconnect, with the same id and in the same order; what arrives is
acked; everything is told to the ledger.
"""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.faults.ledger import Arrival, Ledger, Sent

_TRY_AGAIN_SECONDS = 0.02


class SocketClient:
    def __init__(self, path: Path, ledger: Ledger, chats: Iterable[str]) -> None:
        self._path = path
        self._ledger = ledger
        self._chats = tuple(chats)
        self._unacked: dict[str, Sent] = {}
        self._writer: asyncio.StreamWriter | None = None

    def say(self, chat: str, text: str, *, expect: str = "") -> Sent:
        """Sends now or, when nobody is there, as soon as there is. `$id` stands for the message's own id."""
        assert chat in self._chats
        sent = self._ledger.sent(chat, text, expect=expect)
        self._unacked[sent.id] = sent
        self._send(sent)
        return sent

    def drop(self) -> None:
        """Loses the connection, as networks do."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def run(self) -> None:
        """Connects, and connects again, until cancelled."""
        while True:
            try:
                reader, self._writer = await asyncio.open_unix_connection(self._path)
            except OSError:  # nobody there yet
                await asyncio.sleep(_TRY_AGAIN_SECONDS)
                continue
            try:
                for chat in self._chats:
                    self._line(type="listen", chat=chat)
                for sent in list(self._unacked.values()):
                    self._send(sent)
                while line := await reader.readline():
                    await self._take(line)
            except ConnectionError:
                continue
            finally:
                writer, self._writer = self._writer, None
                writer.close()

    def _send(self, sent: Sent) -> None:
        self._line(type="message", id=sent.id, chat=sent.chat, text=sent.text)

    def _line(self, **line: Any) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps(line).encode() + b"\n")

    async def _take(self, raw: bytes) -> None:
        try:
            line = json.loads(raw)
        except ValueError:
            return  # cut short by the gateway's end; it comes again
        match line["type"]:
            case "ack":
                self._unacked.pop(line["id"], None)
                self._ledger.acked(line["id"])
            case "retry":
                self._put_off(line["id"])
            case "message":
                self._line(type="ack", key=line["key"])
                self._ledger.arrived(
                    Arrival(
                        key=line["key"],
                        chat=line["chat"],
                        text=line["text"],
                        answers=tuple(line["answers"]),
                        reply_to=line["reply_to"],
                    )
                )
            case _:
                self._ledger.complained(str(line))

    def _put_off(self, id_: str) -> None:
        """Not taken: its place in the line is where it is sent again, after the next connect."""
        if sent := self._unacked.pop(id_, None):
            self._unacked[id_] = sent
            self._ledger.put_off(id_)
