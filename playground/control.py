"""The same things over HTTP under `/control`, for other processes: JSON in, JSON out, no token.

A platform derives from `Control` for routes of its own: it adds rows to `table` and fields to `description`.
"""

import asyncio
import base64
import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from aiohttp import web

from playground.stage import Stage
from playground.wire import Refused, Wire

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Row = tuple[str, str, Handler]


class Control:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._log = stage.events
        members = inspect.getmembers(type(stage.people), inspect.isfunction)
        self.actions = frozenset(name for name, _ in members if not name.startswith("_"))
        self._later: set[asyncio.Task[None]] = set()

    def add_routes(self, app: web.Application) -> None:
        for method, path, handler in self.table():
            app.router.add_route(method, f"/control{path}", _told(handler))

    def table(self) -> list[Row]:
        return [
            ("GET", "", self.overview),
            ("POST", "/do/{action}", self.act),
            ("GET", "/calls", self.calls),
            ("GET", "/events", self.events),
            ("GET", "/faults", self.faults),
            ("POST", "/faults", self.add_fault),
            ("DELETE", "/faults", self.clear_faults),
            ("POST", "/line/{state}", self.line),
        ]

    def description(self) -> Wire:
        """What the overview says of the platform."""
        return {}

    async def overview(self, request: web.Request) -> web.Response:
        common = {"url": self._stage.url, "actions": sorted(self.actions), "last_event": self._log.last}
        return web.json_response(common | self.description())

    async def act(self, request: web.Request) -> web.Response:
        """Any public method of the server's people, by name, with its arguments by name."""
        action = request.match_info["action"]
        if action not in self.actions:
            raise ValueError(f"there is no action {action!r}")
        result = getattr(self._stage.people, action)(**_decoded(await read_body(request)))
        if inspect.isawaitable(result):
            result = await result
        return web.json_response({"result": result})

    async def calls(self, request: web.Request) -> web.Response:
        method = request.query.get("method", "").lower()
        calls = [asdict(call) for call in self._stage.calls if method in ("", call.method.lower())]
        return web.json_response({"calls": calls[-int(request.query.get("last", 1000)) :]})

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Newer than `?after=`; waits up to `?seconds=` for one. A client that accepts a stream gets one."""
        after = int(request.query.get("after", 0))
        if "text/event-stream" in request.headers.get("Accept", ""):
            return await self._stream(request, int(request.headers.get("Last-Event-ID", after)))
        seconds = float(request.query.get("seconds", 0))
        if seconds and not self._log.after(after):
            try:
                await self._log.wait_for(lambda: self._log.after(after), seconds=seconds)
            except TimeoutError:
                return web.json_response({"events": [], "last": self._log.last})
        return web.json_response({"events": self._log.after(after), "last": self._log.last})

    async def _stream(self, request: web.Request, after: int) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        while request.transport and not request.transport.is_closing():
            for event in self._log.after(after):
                after = event["seq"]
                data = json.dumps(event, separators=(",", ":"))
                await response.write(f"id: {after}\nevent: {event['kind']}\ndata: {data}\n\n".encode())
            try:
                await self._log.wait_for(lambda seen=after: self._log.last > seen, seconds=15.0)  # type: ignore[misc]
            except TimeoutError:
                await response.write(b": still here\n\n")
        return response

    async def faults(self, request: web.Request) -> web.Response:
        return web.json_response({"faults": self._stage.faults.waiting})

    async def add_fault(self, request: web.Request) -> web.Response:
        return web.json_response({"fault": asdict(self._stage.faults.add(**await read_body(request)))})

    async def clear_faults(self, request: web.Request) -> web.Response:
        self._stage.faults.clear()
        return web.json_response({"faults": []})

    async def line(self, request: web.Request) -> web.Response:
        """`down` for {seconds} and up again by itself, since nobody can ask meanwhile; `half_open`; `up`."""
        match request.match_info["state"]:
            case "down":
                seconds = float((await read_body(request))["seconds"])
                task = asyncio.create_task(self._down(seconds))
                self._later.add(task)
                task.add_done_callback(self._later.discard)
            case "half_open":
                self._stage.half_open()
            case "up":
                await self._stage.resume()
            case other:
                raise ValueError(f"unknown state {other!r}")
        return web.json_response({"line": request.match_info["state"]})

    async def _down(self, seconds: float) -> None:
        await asyncio.sleep(0.05)  # lets the answer out
        await self._stage.pause()
        await asyncio.sleep(seconds)
        await self._stage.resume()


def _told(handler: Handler) -> Handler:
    """Mistakes of the caller come back as 400 with a sentence."""

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except (ValueError, TypeError, KeyError, AttributeError, Refused) as error:
            return web.json_response({"error": f"{type(error).__name__}: {error}"}, status=400)
        except TimeoutError:
            return web.json_response({"error": "it did not happen in time"}, status=408)

    return answer


async def read_body(request: web.Request) -> Wire:
    body = json.loads(await request.read() or b"{}")
    if not isinstance(body, dict):
        raise TypeError("a JSON object is expected")
    return body


def _decoded(arguments: Any) -> Any:
    """`content_base64` stands for bytes, in albums and lists of files too."""
    if "content_base64" in arguments:
        arguments["content"] = base64.b64decode(arguments.pop("content_base64"))
    for several in ("items", "files"):
        for item in arguments.get(several, []):
            _decoded(item)
    return arguments
