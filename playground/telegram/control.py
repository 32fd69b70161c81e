"""The same things over HTTP under `/control`, for other processes: JSON in, JSON out, no token."""

import asyncio
import base64
import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

from aiohttp import web

from playground.telegram.events import EventLog
from playground.telegram.faults import Faults
from playground.telegram.limits import Limits
from playground.telegram.people import People
from playground.telegram.rules import Refused, Wire
from playground.telegram.world import Chat, World

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_ACTIONS = frozenset(name for name, value in inspect.getmembers(People, inspect.isfunction) if not name.startswith("_"))


class Controlled(Protocol):
    """What the routes need of a server."""

    world: World
    people: People
    faults: Faults
    limits: Limits

    @property
    def url(self) -> str: ...

    @property
    def calls(self) -> Any: ...

    async def pause(self) -> None: ...

    async def resume(self) -> None: ...

    def half_open(self) -> None: ...


def add_control_routes(app: web.Application, server: Controlled) -> None:
    routes = _Control(server)
    for method, path, handler in routes.table():
        app.router.add_route(method, f"/control{path}", _told(handler))


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


class _Control:
    def __init__(self, server: Controlled) -> None:
        self.server = server
        self.world = server.world
        self._later: set[asyncio.Task[None]] = set()

    def table(self) -> list[tuple[str, str, Handler]]:
        return [
            ("GET", "", self.overview),
            ("POST", "/do/{action}", self.act),
            ("GET", "/chats", self.chats),
            ("GET", "/chats/{chat_id}", self.chat),
            ("GET", "/calls", self.calls),
            ("GET", "/events", self.events),
            ("GET", "/updates", self.updates),
            ("POST", "/updates/{change}", self.change_updates),
            ("GET", "/faults", self.faults),
            ("POST", "/faults", self.add_fault),
            ("DELETE", "/faults", self.clear_faults),
            ("POST", "/settings", self.settings),
            ("POST", "/line/{state}", self.line),
        ]

    async def overview(self, request: web.Request) -> web.Response:
        bot = self.world.bot.wire
        return _json({"url": self.server.url, "bot": bot, "actions": sorted(_ACTIONS), "last_event": self._log.last})

    @property
    def _log(self) -> EventLog:
        return self.world.events

    async def act(self, request: web.Request) -> web.Response:
        """Any public method of `People`, by name, with its arguments by name."""
        action = request.match_info["action"]
        if action not in _ACTIONS:
            raise ValueError(f"there is no action {action!r}")
        result = getattr(self.server.people, action)(**_decoded(await _body(request)))
        if inspect.isawaitable(result):
            result = await result
        return _json({"result": result})

    async def chats(self, request: web.Request) -> web.Response:
        return _json({"chats": [_summary(chat) for chat in self.world.chats.values()]})

    async def chat(self, request: web.Request) -> web.Response:
        """What the chat shows; `?deleted=1` with what was deleted."""
        chat = self.world.chats[int(request.match_info["chat_id"])]
        messages = self.world.show(chat.id, deleted="deleted" in request.query)
        return _json({**_summary(chat), "messages": messages, "drafts": self.world.drafts(chat.id)})

    async def calls(self, request: web.Request) -> web.Response:
        method = request.query.get("method", "").lower()
        calls = [asdict(call) for call in self.server.calls if method in ("", call.method.lower())]
        return _json({"calls": calls[-int(request.query.get("last", 1000)) :]})

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
                return _json({"events": [], "last": self._log.last})
        return _json({"events": self._log.after(after), "last": self._log.last})

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

    async def updates(self, request: web.Request) -> web.Response:
        queue = self.world.updates
        return _json({"pending": queue.count, "next_id": queue.next_id, "polling": queue.polling})

    async def change_updates(self, request: web.Request) -> web.Response:
        """`age` {seconds}, `restart_ids` {at}, `drop`."""
        queue, body = self.world.updates, await _body(request)
        match request.match_info["change"]:
            case "age":
                queue.age(float(body["seconds"]))
            case "restart_ids":
                queue.restart_ids(body.get("at"))
            case "drop":
                queue.drop()
            case other:
                raise ValueError(f"unknown change {other!r}")
        return _json({"pending": queue.count, "next_id": queue.next_id})

    async def faults(self, request: web.Request) -> web.Response:
        return _json({"faults": self.server.faults.waiting})

    async def add_fault(self, request: web.Request) -> web.Response:
        return _json({"fault": asdict(self.server.faults.add(**await _body(request)))})

    async def clear_faults(self, request: web.Request) -> web.Response:
        self.server.faults.clear()
        return _json({"faults": []})

    async def settings(self, request: web.Request) -> web.Response:
        """`privacy`, `hears_mentions`, `limits`: true or false."""
        body = await _body(request)
        self.world.reads_all = not body.get("privacy", not self.world.reads_all)
        self.world.hears_mentions = body.get("hears_mentions", self.world.hears_mentions)
        self.server.limits.on = self.world.updates.real_pacing = body.get("limits", self.server.limits.on)
        return _json({"privacy": not self.world.reads_all, "limits": self.server.limits.on})

    async def line(self, request: web.Request) -> web.Response:
        """`down` for {seconds} and up again by itself, since nobody can ask meanwhile; `half_open`; `up`."""
        match request.match_info["state"]:
            case "down":
                seconds = float((await _body(request))["seconds"])
                task = asyncio.create_task(self._down(seconds))
                self._later.add(task)
                task.add_done_callback(self._later.discard)
            case "half_open":
                self.server.half_open()
            case "up":
                await self.server.resume()
            case other:
                raise ValueError(f"unknown state {other!r}")
        return _json({"line": request.match_info["state"]})

    async def _down(self, seconds: float) -> None:
        await asyncio.sleep(0.05)  # lets the answer out
        await self.server.pause()
        await asyncio.sleep(seconds)
        await self.server.resume()


async def _body(request: web.Request) -> dict[str, Any]:
    body = json.loads(await request.read() or b"{}")
    if not isinstance(body, dict):
        raise TypeError("a JSON object is expected")
    return body


def _decoded(arguments: dict[str, Any]) -> dict[str, Any]:
    """`content_base64` stands for bytes, in albums too."""
    if "content_base64" in arguments:
        arguments["content"] = base64.b64decode(arguments.pop("content_base64"))
    for item in arguments.get("items", []):
        _decoded(item)
    return arguments


def _summary(chat: Chat) -> Wire:
    topics = {str(thread): topic for thread, topic in chat.topics.items()}
    extra = {"last_action": chat.last_action, "topics": topics, "migrated_to": chat.migrated_to}
    members = {str(user): status for user, status in chat.members.items()}
    return {**chat.wire, "bot_status": chat.bot_status, "members": members, **extra}


def _json(value: Wire) -> web.Response:
    return web.json_response(value)
