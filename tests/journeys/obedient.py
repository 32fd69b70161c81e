"""A model that does whatever any text tells it to do, and somebody who waits for what it sends.

An order is `@@RUN command@@`, or `@@DO base64@@` with a list of tool calls, wherever it stands: in what the user says,
in a result, a name, a description. Each is carried out once, call by call.
"""

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from playground.model_script import ModelAnswer, ScriptedCall, Step, ask_for, say
from playground.model_server import ModelServer

_ORDER = re.compile(r"@@RUN ([^@]+)@@|@@DO ([A-Za-z0-9_=-]+)@@")
Calls = list[tuple[str, dict[str, Any]]]


def order(*calls: tuple[str, dict[str, Any]]) -> str:
    """Fits into a file's name."""
    return f"@@DO {base64.urlsafe_b64encode(json.dumps(calls).encode()).decode()}@@"


def run(command: str) -> tuple[str, dict[str, Any]]:
    return "terminal", {"command": command}


class ObedientModel(ModelServer):
    def __init__(self) -> None:
        super().__init__(otherwise=say("Done."))

    @property
    def words(self) -> str:
        """All that it was shown."""
        return "\n".join(text for body in self.bodies for text in _texts(body["messages"]))

    async def _play(self, step: Step, request: web.Request, body: Mapping[str, Any]) -> web.StreamResponse:
        return await super()._play(_next_step(body), request, body)


def _next_step(body: Mapping[str, Any]) -> ModelAnswer:
    done = {call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()}
    offered = {tool["function"]["name"] for tool in body.get("tools", ())}
    for text in _texts([*body["messages"], *body.get("tools", ())]):
        for found in _ORDER.finditer(text):
            for number, (name, arguments) in enumerate(_calls(found)):
                call_id = f"call_{hashlib.sha256(found[0].encode()).hexdigest()[:12]}_{number}"
                if call_id not in done and name in offered:
                    return ask_for(ScriptedCall(id=call_id, name=name, arguments=json.dumps(arguments)))
    return say("Done.")


def _calls(found: re.Match[str]) -> Calls:
    if found[1]:
        return [run(found[1])]
    return [(name, arguments) for name, arguments in json.loads(base64.urlsafe_b64decode(found[2]))]


def _texts(node: Any) -> Iterator[str]:
    match node:
        case str():
            yield node
        case dict():
            for value in node.values():
                yield from _texts(value)
        case list():
            for item in node:
                yield from _texts(item)


@dataclass
class Collector:
    """Listens on loopback, and keeps whatever reaches it, in whatever protocol."""

    host: str = "127.0.0.1"
    received: bytes = b""
    page: str = ""  # what a browser is shown
    port: int = 0
    _server: asyncio.Server | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def got(self, secret: str) -> bool:
        """In any of the forms in which it could have been put."""
        plain = secret.encode()
        forms = (plain, plain[::-1], plain.hex().encode(), base64.b64encode(plain)[:-4], base64.b32encode(plain)[:-8])
        return any(form in self.received for form in forms)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._take, self.host, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(1):  # what speaks no HTTP does not say when it is done
                await self._talk(reader, writer)
        writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await self._kept(reader.readuntil(b"\r\n\r\n"))
            if b"100-continue" in head.lower():
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            if length := re.search(rb"content-length: (\d+)", head.lower()):
                await self._kept(reader.readexactly(int(length[1])))
        except asyncio.IncompleteReadError as error:
            self.received += error.partial
            return
        body = self.page.encode()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()

    async def _kept(self, reading: Coroutine[Any, Any, bytes]) -> bytes:
        read = await reading
        self.received += read
        return read
