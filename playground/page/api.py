"""The HTTP side of the page: its files, and actions for people, connections and the gateway. JSON in, JSON out."""

import json
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources

from aiohttp import web

from playground.page.gateway_child import GatewayChild
from playground.page.live import LivePage
from playground.page.phone import Phone, check_name, detect_type, file_kind
from playground.page.terminal import OwnerTerminal
from playground.wire import ApiRefusal, Wire

MAX_FILE_BYTES = 20_000_000
_MAX_TEXT_CHARS = 20_000
_TO_A_MESSAGE = ("edit", "delete", "react", "press")
_SANDBOXED = {"Content-Security-Policy": "default-src 'none'; sandbox"}
_STATIC_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_STATIC_TYPES |= {".ogg": "audio/ogg"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageApi:
    def __init__(self, phones: Mapping[str, Phone], gateway: GatewayChild, terminal: OwnerTerminal) -> None:
        self._phones = phones
        self._gateway = gateway
        self._terminal = terminal

    def add_routes(self, app: web.Application) -> None:
        app.router.add_get("/", self.static)
        app.router.add_get("/static/{name}", self.static)
        app.router.add_get("/api/about", self.about)
        app.router.add_get("/live", self.live)
        app.router.add_get("/media/{platform}/{file_id}", self.media)
        app.router.add_post("/api/phones/{platform}/file", _explain_errors(self.send_file))
        app.router.add_post("/api/phones/{platform}/line/{state}", _explain_errors(self.line))
        app.router.add_post("/api/phones/{platform}/{action}", _explain_errors(self.act))
        app.router.add_post("/api/gateway/{action}", _explain_errors(self.gateway))
        app.router.add_post("/api/terminal", _explain_errors(self.run))

    async def static(self, request: web.Request) -> web.Response:
        name = request.match_info.get("name", "index.html")
        suffix = name[name.rfind(".") :]
        file = resources.files("playground.page") / "static" / name
        if "/" in name or suffix not in _STATIC_TYPES or not file.is_file():
            raise web.HTTPNotFound(text="There is no such page.")
        charset = "utf-8" if suffix != ".ogg" else None
        return web.Response(body=file.read_bytes(), content_type=_STATIC_TYPES[suffix], charset=charset)

    async def about(self, request: web.Request) -> web.Response:
        home = self._gateway.home
        about = {"home": str(home.root), "prefix": self._terminal.prefix, "max_file_bytes": MAX_FILE_BYTES}
        return web.json_response(about)

    async def live(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(heartbeat=25.0, max_msg_size=10_000, compress=False)
        await socket.prepare(request)
        await LivePage(socket, self._phones, self._gateway).run()
        return socket

    async def act(self, request: web.Request) -> web.Response:
        """Do something as a person on their phone."""
        phone, body = self._phone(request), await _read_body(request)
        action, told = request.match_info["action"], {}
        if action == "person":
            told["person"] = phone.add_person(check_name(_read_text(body, "text")))
        else:
            _check_place(phone, _read_text(body, "person"), _read_text(body, "place"))
            if opened := _do(phone, action, body):
                told["place"] = opened
        phone.stage.events.note("page")
        return web.json_response(told)

    async def send_file(self, request: web.Request) -> web.Response:
        """Take the bytes from the body, and who, where and what it is from the address."""
        phone, about = self._phone(request), request.query
        person, place = about.get("person", ""), about.get("place", "dm")
        _check_place(phone, person, place)
        content = await request.read()
        if not content:
            raise ValueError("The file is empty.")
        mime_type = detect_type(content) or request.content_type
        kind = "voice" if about.get("voice") else file_kind(content, mime_type)
        name = "".join(one for one in about.get("name", "") if one.isprintable() and one not in "/\\")[:120] or "file"
        caption = phone.put_mentions(about.get("caption", "")[:_MAX_TEXT_CHARS])
        phone.send_file(person, place, content, name=name, mime_type=mime_type, kind=kind, caption=caption)
        phone.stage.events.note("page")
        return web.json_response({})

    async def line(self, request: web.Request) -> web.Response:
        phone, state = self._phone(request), request.match_info["state"]
        changes = {"down": phone.cut, "half_open": phone.freeze, "up": phone.restore}
        if state not in changes:
            raise ValueError(f"A connection is up, down or half_open, not {state!r}.")
        await changes[state]()
        return web.json_response({"line": phone.line})

    async def gateway(self, request: web.Request) -> web.Response:
        action, gateway = request.match_info["action"], self._gateway
        actions = {"start": gateway.start, "stop": gateway.stop, "kill": gateway.kill}
        if action not in actions:
            raise ValueError(f"The gateway can start, stop and be killed; {action!r} is not possible.")
        await actions[action]()
        return web.json_response({"state": self._gateway.state})

    async def run(self, request: web.Request) -> web.Response:
        return web.json_response(await self._terminal.run(await _read_body(request)))

    async def media(self, request: web.Request) -> web.Response:
        """Show pictures and sounds by their content; anything else can only be saved."""
        phone = self._phones.get(request.match_info["platform"])
        content = phone.file(request.match_info["file_id"]) if phone else None
        if content is None:
            raise web.HTTPNotFound(text="There is no such file.")
        if known := detect_type(content):
            return web.Response(body=content, content_type=known, headers=_SANDBOXED)
        headers = {**_SANDBOXED, "Content-Disposition": "attachment"}
        return web.Response(body=content, content_type="application/octet-stream", headers=headers)

    def _phone(self, request: web.Request) -> Phone:
        name = request.match_info["platform"]
        if name not in self._phones:
            raise ValueError(f"There is no phone with {name!r} on it.")
        return self._phones[name]


def _check_place(phone: Phone, person: str, place: str) -> None:
    if person not in phone.people():
        raise ValueError("There is no such person.")
    if place not in [one.id for one in phone.places(person)]:
        raise ValueError("There is no such chat on this phone.")


def _do(phone: Phone, action: str, body: Wire) -> str:
    """Return the place that the action opens, if it opens one."""
    person, place, message, text, reply_to = (
        _read_text(body, name) for name in ("person", "place", "message", "text", "reply_to")
    )
    named = {one for one in (message, reply_to) if one} | ({message} if action in _TO_A_MESSAGE else set())
    known = {one.id: one for one in phone.messages(person, place)} if named else {}
    if not named <= known.keys():
        raise ValueError("There is no such message in this chat.")
    if action in ("edit", "delete") and not known[message].mine:
        raise ValueError("Somebody else wrote this message.")
    marks = known[message].reactions if message else ()
    actions: dict[str, Callable[[], str | None]] = {
        "say": lambda: phone.say(person, place, phone.put_mentions(text), reply_to),
        "edit": lambda: phone.edit(person, place, message, phone.put_mentions(text)),
        "delete": lambda: phone.delete(person, place, message),
        "react": lambda: phone.react(
            person, place, message, text, remove=any(one["emoji"] == text and one["mine"] for one in marks)
        ),
        "press": lambda: phone.press(person, place, message, _read_text(body, "button")),
        "join": lambda: phone.join(person, place),
        "thread": lambda: phone.open_thread(person, place, message, check_name(text)),
    }
    return actions[action]() or ""


def _explain_errors(handler: Handler) -> Handler:
    """Answer errors of the caller with a sentence."""

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except KeyError as error:
            return web.json_response({"problem": f"There is no {error}."}, status=404)
        except (ValueError, ApiRefusal) as error:
            return web.json_response({"problem": str(error)}, status=400)

    return answer


async def _read_body(request: web.Request) -> Wire:
    if request.content_type != "application/json":
        raise ValueError("JSON is expected.")
    body = json.loads(await request.read() or b"{}")
    if not isinstance(body, dict):
        raise ValueError("A JSON object is expected.")
    return body


def _read_text(body: Wire, name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str) or len(value) > _MAX_TEXT_CHARS:
        raise ValueError(f"{name} must be a text of {_MAX_TEXT_CHARS:,} characters at most.")
    return value
