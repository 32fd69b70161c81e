"""The gateway's HTTP server: the chat page, its API and socket, and health for monitors."""

import asyncio
import errno
import json
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import resources
from importlib.metadata import version
from typing import Any, cast
from urllib.parse import quote, unquote

from aiohttp import hdrs, web

from gateway.changes import Changes
from gateway.commands.registry import Commands
from gateway.errors import PlatformUnavailable
from gateway.platforms.text import media_kind
from gateway.platforms.web import WebPlatform, file_reference, files, key_of, tool_line, words
from gateway.store import media, sessions, web_chats
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.erase import erase_chat
from gateway.store.media import MediaFiles
from gateway.store.sessions import title_of
from gateway.store.web_chats import Replied, Said
from gateway.web import approvals
from gateway.web.access import PageAccess
from gateway.web.address import login_address
from gateway.web.chat_api import ChatApi
from gateway.web.metrics import CONTENT_TYPE, Metrics
from gateway.web.overview import OverviewPage
from gateway.web.socket import CHAT_ID, PageSocket, is_storable
from gateway.web.webhooks import Webhooks
from tools.backends.base import ProcessBackends

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SAFE_INLINE = {"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"}
_MAX_CHATS = 500
_MAX_CONNECTIONS = 256  # far below the usual limit of 1,024 descriptors, which the platforms and the store share
_IDLE_SECONDS = 20.0  # for the head of a request, and between two requests
_BACKLOG = 128
_NO_ROOM_SECONDS = 0.1
_ALL = 1_000_000
_STATIC_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@dataclass(slots=True, kw_only=True)
class WebServer:
    platform: WebPlatform
    db: Database
    media_files: MediaFiles
    backends: ProcessBackends
    access: PageAccess
    model_name: str
    commands: Commands
    host: str
    port: int
    max_file_bytes: int
    overview: OverviewPage
    state: Callable[[], dict[str, Any]]
    clean: Callable[[str], str] = lambda text: text  # hides secrets
    changes: Changes = field(default_factory=Changes)
    chat_api: ChatApi | None = None
    webhooks: Webhooks | None = None
    attempted: asyncio.Event = field(default_factory=asyncio.Event)  # set once listening succeeded or failed
    problem: str = ""  # why the last attempt failed
    metrics: Metrics = field(init=False)

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.db)

    async def link(self) -> str:
        """Return an address that signs one browser in. Raise PlatformUnavailable if the server cannot listen."""
        await self.attempted.wait()
        if self.problem:
            raise PlatformUnavailable(self.problem)
        token = await self.db.write_when_possible(web_chats.new_link)
        return login_address(self.host, self.access.port, token)

    async def run(self, on_listening: Callable[[], None]) -> None:
        """Serve until cancelled. Raise PlatformUnavailable if the port cannot be opened."""
        runner = web.AppRunner(
            self._app(),
            access_log=None,
            handle_signals=False,
            shutdown_timeout=1.0,
            keepalive_timeout=_IDLE_SECONDS,
        )
        await runner.setup()
        try:
            try:
                listener = await asyncio.get_running_loop().create_server(
                    cast(web.Server, runner.server), self.host, self.port, start_serving=False
                )
                listening = [bound.dup() for bound in listener.sockets]
                for one in listening:
                    one.listen(_BACKLOG)
            except OSError as error:
                self.problem = _describe_failure(self.host, self.port, error)
                self.attempted.set()
                raise PlatformUnavailable(self.problem) from error
            self.problem = ""
            self.access.port = listener.sockets[0].getsockname()[1]
            self.attempted.set()
            try:
                await self.metrics.begin()
                on_listening()
                await asyncio.gather(
                    *(self._take_connections(one, cast(web.Server, runner.server)) for one in listening)
                )
            finally:
                listener.close()
                for one in listening:
                    one.close()
        finally:
            await runner.cleanup()

    async def _take_connections(self, listening: socket.socket, server: web.Server) -> None:
        """Take one connection in each round of the loop; asyncio's server would take a hundred."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError:  # no descriptor is left, or the other side has gone again
                await asyncio.sleep(_NO_ROOM_SECONDS)
                continue
            if len(server.connections) >= _MAX_CONNECTIONS:
                connection.close()
            else:
                await loop.connect_accepted_socket(server, connection)
            await self.access.refusals.pace()

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[self.access.middleware], client_max_size=self.max_file_bytes)
        app.add_routes(
            [
                web.get("/", self._static),
                web.get("/overview", self._static),
                web.get("/static/{name}", self._static),
                web.get("/api/about", self._about),
                web.get("/api/chats", self._chats),
                web.get("/api/chats/{chat}", self._chat),
                web.patch("/api/chats/{chat}", self._rename),
                web.delete("/api/chats/{chat}", self._delete),
                web.get("/api/chats/{chat}/export", self._export),
                web.get("/api/questions", self._approvals),
                web.post("/api/questions/{id}", self._decide),
                web.post("/api/files", self._upload),
                web.get("/media/{sha256}", self._media),
                web.get("/ws", self._socket),
                web.get("/health", self._health),
                web.get("/ready", self._ready),
                web.get("/metrics", self._metrics),
                *self.overview.routes,
                *(self.chat_api.routes() if self.chat_api else ()),
                *(self.webhooks.list_routes() if self.webhooks else ()),
            ]
        )
        return app

    async def _static(self, request: web.Request) -> web.Response:
        page = "overview.html" if request.path == "/overview" else "index.html"
        return _read_static(request.match_info.get("name", page))

    async def _about(self, request: web.Request) -> web.Response:
        commands = [
            {"name": spec.name, "aliases": spec.aliases, "hint": spec.argument_hint, "description": spec.description}
            for spec in self.commands.available("owner", "chat")
        ]
        about = {"version": version("hermes-gateway"), "model": self.model_name, "commands": commands}
        return web.json_response(about | {"max_file_bytes": self.max_file_bytes})

    async def _chats(self, request: web.Request) -> web.Response:
        query = request.query.get("query", "").strip()[:200]
        given = request.query.get("limit", "")
        limit = min(int(given), _MAX_CHATS) if given.isascii() and given.isdigit() else _MAX_CHATS

        def read(tx: Transaction) -> list[web_chats.Chat]:
            if query:
                return web_chats.find_chats(tx, "web", query, limit=limit)
            return web_chats.chats(tx, "web", limit=limit)

        chats = [
            asdict(chat) | {"title": self.clean(chat.title), "excerpt": self.clean(chat.excerpt)}
            for chat in await self.db.read(read)
        ]
        return web.json_response({"chats": chats})

    async def _chat(self, request: web.Request) -> web.Response:
        chat, key = _read_chat(request)

        def read(tx: Transaction) -> tuple[str, list[dict[str, Any]]]:
            items = web_chats.timeline(tx, "web", chat, key)
            return self.clean(web_chats.title(tx, key)), [render_item(item, self.clean) for item in items]

        title, items = await self.db.read(read)
        draft, shown = self.platform.drafts.get(chat), None
        if draft is not None and not draft.ended:
            tools = [tool_line(tool) for tool in draft.tools.values()]
            shown = {"turn": draft.turn, "text": draft.text, "tools": tools}
        return web.json_response({"id": chat, "title": title, "items": items, "draft": shown})

    async def _rename(self, request: web.Request) -> web.Response:
        _, key = _read_chat(request)
        given = (await _read_object(request)).get("title")
        title = title_of(given) if isinstance(given, str) and is_storable(given) else ""
        if not title:
            raise _problem(web.HTTPBadRequest, "Give the chat a title.")
        if not await self.db.write(lambda tx: sessions.rename(tx, key, title)):
            raise _problem(web.HTTPNotFound, "There is no such chat.")
        self.platform.chat_renamed()
        return web.json_response({"title": title})

    async def _delete(self, request: web.Request) -> web.Response:
        chat, key = _read_chat(request)
        if not await erase_chat(self.db, self.media_files, "web", chat, key, backends=self.backends):
            problem = "Hermes is still working in this chat. Stop it first, then delete the chat."
            raise _problem(web.HTTPConflict, problem)
        self.platform.chat_deleted(chat)
        self.changes.notify("outbox", "decisions", "processes")
        return web.json_response({})

    async def _export(self, request: web.Request) -> web.Response:
        chat, key = _read_chat(request)

        def read(tx: Transaction) -> tuple[str, str]:
            items = web_chats.timeline(tx, "web", chat, key, limit=_ALL)
            title = self.clean(web_chats.title(tx, key)) or "Chat"
            return title, _to_markdown(title, items, self.clean) if items else ""

        title, text = await self.db.read(read)
        if not text:
            raise _problem(web.HTTPNotFound, "There is no such chat.")
        return web.Response(
            text=text,
            content_type="text/markdown",
            headers={hdrs.CONTENT_DISPOSITION: f"attachment; filename*=UTF-8''{_quote(f'{title}.md')}"},
        )

    async def _approvals(self, request: web.Request) -> web.Response:
        return web.json_response({"questions": await self.db.read(lambda tx: approvals.list_waiting(tx, self.clean))})

    async def _decide(self, request: web.Request) -> web.Response:
        verdict = (await _read_object(request)).get("verdict")
        outcome = await self.db.write(lambda tx: approvals.decide(tx, request.match_info["id"], verdict))
        if outcome is None:
            raise _problem(web.HTTPNotFound, "There is no such request.")
        self.changes.notify("outbox", "decisions", "processes")
        return web.json_response({"outcome": self.clean(outcome)})

    async def _upload(self, request: web.Request) -> web.Response:
        try:
            content = await request.read()
        except web.HTTPRequestEntityTooLarge:
            megabytes = self.max_file_bytes // 1_000_000
            raise _problem(_TooLarge, f"Files may be up to {megabytes} MB.") from None
        if not content:
            raise _problem(web.HTTPBadRequest, "The file is empty.")
        name = _clean_name(request.headers.get("X-File-Name", ""))
        mime = request.content_type if hdrs.CONTENT_TYPE in request.headers else "application/octet-stream"
        kind = media_kind(mime)
        try:
            sha256 = await asyncio.to_thread(self.media_files.save, kind, content)
        except OSError as error:
            raise _problem(web.HTTPInsufficientStorage, f"The file could not be saved: {error.strerror}.") from error
        await self.db.write(lambda tx: media.record(tx, sha256=sha256, kind=kind, mime=mime, size_bytes=len(content)))
        reference = file_reference(sha256, name)
        return web.json_response({"file": reference, "name": name, "mime": mime, "size": len(content)})

    async def _media(self, request: web.Request) -> web.StreamResponse:
        sha256 = request.match_info["sha256"]
        known = await self.db.read(lambda tx: media.find(tx, sha256)) if _SHA256.fullmatch(sha256) else None
        if known is None:
            raise _problem(web.HTTPNotFound, "There is no such file.")
        path = self.media_files.path(known.kind, sha256)
        if not path.exists():
            raise _problem(web.HTTPNotFound, "This file has been deleted.")
        inline = known.mime in _SAFE_INLINE
        disposition = "inline" if inline else "attachment"
        headers = {
            hdrs.CONTENT_TYPE: known.mime if inline else "application/octet-stream",
            hdrs.CONTENT_DISPOSITION: f"{disposition}; filename*=UTF-8''{_quote(request.query.get('name', sha256))}",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            hdrs.CACHE_CONTROL: "private, max-age=31536000, immutable",
        }
        return web.FileResponse(path, headers=headers)

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        # Not compressed: to a browser on the same machine it would cost more than it saves.
        socket = web.WebSocketResponse(heartbeat=25.0, max_msg_size=1_000_000, compress=False)
        await socket.prepare(request)
        await PageSocket(socket=socket, platform=self.platform, db=self.db).run()
        return socket

    async def _health(self, request: web.Request) -> web.Response:
        state = self.state()
        is_degraded = bool(state["store"]) or any(platform["problem"] for platform in state["platforms"].values())
        status = {"status": "degraded" if is_degraded else "ok"}
        return web.json_response(status | state if await self.access.is_known(request) else status)

    async def _ready(self, request: web.Request) -> web.Response:
        state = self.state()
        ready = state["state"] == "serving" and not state["store"]
        return web.json_response({"ready": ready}, status=200 if ready else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        text = await self.metrics.render(self.state())
        return web.Response(body=text.encode(), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})


def _read_static(name: str) -> web.Response:
    suffix = name[name.rfind(".") :]
    file = resources.files("gateway.web") / "static" / name
    if "/" in name or suffix not in _STATIC_TYPES or not file.is_file():
        raise _problem(web.HTTPNotFound, "There is no such file.")
    headers = {hdrs.CACHE_CONTROL: "no-cache"}
    return web.Response(body=file.read_bytes(), content_type=_STATIC_TYPES[suffix], charset="utf-8", headers=headers)


def _describe_failure(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"The chat page could not be opened: port {port} on {host} is in use. Choose another port, then restart: "
            f"hermes config set platforms.web.port {port + 1 if port < 65535 else 0}"
        )
    return (
        f"The chat page could not be opened at {host}:{port}: {error.strerror}. "
        "Check platforms.web.host and platforms.web.port: hermes config get platforms.web"
    )


class _TooLarge(web.HTTPClientError):
    status_code = 413


def _read_chat(request: web.Request) -> tuple[str, str]:
    """Return the id of the chat in a request's path, and its session key."""
    chat = request.match_info["chat"]
    if not CHAT_ID.fullmatch(chat):
        raise _problem(web.HTTPNotFound, "There is no such chat.")
    return chat, str(key_of(chat))


async def _read_object(request: web.Request) -> dict[str, Any]:
    try:
        given = json.loads(await request.read())  # JSON is Unicode, whatever charset the request names
    except (ValueError, RecursionError):
        raise _problem(web.HTTPBadRequest, "The request is not valid JSON.") from None
    return given if isinstance(given, dict) else {}


def render_item(item: Said | Replied, clean: Callable[[str], str]) -> dict[str, Any]:
    """Return one entry of a chat as the page shows it: secrets are hidden, except in the owner's own messages."""
    common = {"text": words(item.parts), "files": files(item.parts), "at_ms": item.at_ms}
    if isinstance(item, Said):
        return {"kind": "user", "id": item.message_id, "state": item.state, **common}
    tools = [
        asdict(tool) | {"arguments": clean(tool.arguments), "result": tool.result and clean(tool.result)}
        for tool in item.tools
    ]
    return common | {
        "kind": item.kind,
        "key": item.key,
        "text": clean(words(item.parts)),
        "answers": list(item.answers),
        "tools": tools,
        "choices": [asdict(choice) for choice in item.choices],
        "failed": item.failed,
    }


def _to_markdown(title: str, items: Sequence[Said | Replied], clean: Callable[[str], str]) -> str:
    """Return a chat as a Markdown document, oldest entry first. `clean` hides secrets in the answers."""
    entries = [f"# {title}"]
    for item in items:
        who, text = ("You", words(item.parts)) if isinstance(item, Said) else ("Hermes", clean(words(item.parts)))
        when = datetime.fromtimestamp(item.at_ms / 1000, tz=UTC)
        attached = "\n".join(f"- Attached: {file['name'] or 'file'}" for file in files(item.parts))
        entries += filter(None, [f"**{who}** ({when:%Y-%m-%d %H:%M} UTC)", text, attached])
    return "\n\n".join(entries) + "\n"


def _clean_name(header: str) -> str:
    """Return the last part of an uploaded name, without characters that could disguise it."""
    name = unquote(header).replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(character for character in name if character.isprintable())[:200] or "file"


def _quote(name: str) -> str:
    return quote(_clean_name(quote(name)), safe="")


def _problem(kind: type[web.HTTPException], text: str) -> web.HTTPException:
    return kind(text=json.dumps({"problem": text}), content_type="application/json")
