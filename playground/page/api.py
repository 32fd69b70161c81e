"""What the page can do: play people, cut lines, and treat the gateway badly. JSON in, JSON out."""

import json
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from playground.page.gateway_child import GatewayChild
from playground.page.phone import Phone, file_kind, picture_type, sound_type
from playground.page.terminal import Terminal
from playground.wire import Refused, Wire

MAX_FILE_BYTES = 20_000_000
_MAX_TEXT_CHARS = 20_000
_TO_A_MESSAGE = ("edit", "delete", "react", "press")
_SANDBOXED = {"Content-Security-Policy": "default-src 'none'; sandbox"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Api:
    def __init__(self, phones: Mapping[str, Phone], gateway: GatewayChild, terminal: Terminal) -> None:
        self._phones = phones
        self._gateway = gateway
        self._terminal = terminal

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/api/phones/{platform}/file", _told(self.send_file))
        app.router.add_post("/api/phones/{platform}/line/{state}", _told(self.line))
        app.router.add_post("/api/phones/{platform}/{action}", _told(self.act))
        app.router.add_post("/api/gateway/{action}", _told(self.gateway))
        app.router.add_post("/api/terminal", _told(self.run))
        app.router.add_get("/media/{platform}/{file_id}", self.media)

    async def act(self, request: web.Request) -> web.Response:
        """Somebody does something on their phone."""
        phone, body = self._phone(request), await _body(request)
        action = request.match_info["action"]
        if action == "person":
            told = {"person": phone.add_person(_text(body, "text"))}
        else:
            self._check_person(phone, _text(body, "person"))
            _check_there(phone, action, body)
            opened = _do(phone, action, body)
            told = {"place": opened} if opened else {}
        phone.changed()
        return web.json_response(told)

    async def send_file(self, request: web.Request) -> web.Response:
        """The bytes are the body; who, where and what it is stand in the address."""
        phone, about = self._phone(request), request.query
        self._check_person(phone, about.get("person", ""))
        _check_place(phone, about["person"], about.get("place", "dm"))
        content = await request.read()
        if not content:
            raise ValueError("The file is empty.")
        mime_type = picture_type(content) or sound_type(content) or request.content_type
        kind = "voice" if about.get("voice") else file_kind(content, mime_type)
        name = "".join(one for one in about.get("name", "") if one.isprintable() and one not in "/\\")[:120]
        phone.send_file(
            about["person"],
            about.get("place", "dm"),
            content,
            name=name or "file",
            mime_type=mime_type,
            kind=kind,
            caption=about.get("caption", "")[:_MAX_TEXT_CHARS],
        )
        phone.changed()
        return web.json_response({})

    async def line(self, request: web.Request) -> web.Response:
        phone = self._phone(request)
        match request.match_info["state"]:
            case "down":
                await phone.cut()
            case "half_open":
                await phone.freeze()
            case "up":
                await phone.mend()
            case other:
                raise ValueError(f"A line is up, down or half_open, not {other!r}.")
        return web.json_response({"line": phone.line})

    async def gateway(self, request: web.Request) -> web.Response:
        match request.match_info["action"]:
            case "start":
                await self._gateway.start()
            case "stop":
                self._gateway.stop()
            case "kill":
                await self._gateway.kill()
            case other:
                raise ValueError(f"A gateway can be started, stopped and killed; there is no {other!r}.")
        return web.json_response({"state": self._gateway.state})

    async def run(self, request: web.Request) -> web.Response:
        return web.json_response(await self._terminal.run(await _body(request)))

    async def media(self, request: web.Request) -> web.Response:
        """Pictures and sounds are shown for what is in them; everything else can only be saved."""
        phone = self._phones.get(request.match_info["platform"])
        content = phone.file(request.match_info["file_id"]) if phone else None
        if content is None:
            raise web.HTTPNotFound(text="There is no such file.")
        if known := picture_type(content) or sound_type(content):
            return web.Response(body=content, content_type=known, headers=_SANDBOXED)
        headers = {**_SANDBOXED, "Content-Disposition": "attachment"}
        return web.Response(body=content, content_type="application/octet-stream", headers=headers)

    def _phone(self, request: web.Request) -> Phone:
        name = request.match_info["platform"]
        if name not in self._phones:
            raise ValueError(f"There is no phone with {name!r} on it.")
        return self._phones[name]

    def _check_person(self, phone: Phone, person: str) -> None:
        if person not in [one.id for one in phone.people()]:
            raise ValueError("There is no such person.")


def _check_place(phone: Phone, person: str, place: str) -> None:
    if place not in [one.id for one in phone.places(person)]:
        raise ValueError("There is no such chat on this phone.")


def _check_there(phone: Phone, action: str, body: Wire) -> None:
    """The chat, and the messages in it that are named."""
    person, place = _text(body, "person"), _text(body, "place")
    _check_place(phone, person, place)
    message, reply_to = _text(body, "message"), _text(body, "reply_to")
    named = {one for one in (message, reply_to) if one} | ({message} if action in _TO_A_MESSAGE else set())
    if named and not named <= {one.id for one in phone.messages(person, place)}:
        raise ValueError("There is no such message in this chat.")


def _do(phone: Phone, action: str, body: Wire) -> str:
    """Gives the place that it opens, if it opens any."""
    person, place, message, text = (_text(body, name) for name in ("person", "place", "message", "text"))
    match action:
        case "say":
            phone.say(person, place, text, _text(body, "reply_to"))
        case "edit":
            phone.edit(person, place, message, text)
        case "delete":
            phone.delete(person, place, message)
        case "react":
            phone.react(person, place, message, text)
        case "press":
            phone.press(person, place, message, _text(body, "button"))
        case "join":
            phone.join(person, place)
        case "thread":
            return phone.open_thread(person, place, message, text)
        case _:
            raise KeyError(action)
    return ""


def _told(handler: Handler) -> Handler:
    """What cannot be done comes back as a sentence."""

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except KeyError as error:
            return web.json_response({"problem": f"There is no {error}."}, status=404)
        except (ValueError, Refused) as error:
            return web.json_response({"problem": str(error)}, status=400)

    return answer


async def _body(request: web.Request) -> Wire:
    if request.content_type != "application/json":
        raise ValueError("JSON is expected.")
    body = json.loads(await request.read() or b"{}")
    if not isinstance(body, dict):
        raise ValueError("A JSON object is expected.")
    return body


def _text(body: Wire, name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str) or len(value) > _MAX_TEXT_CHARS:
        raise ValueError(f"{name} is a text of {_MAX_TEXT_CHARS:,} characters at most.")
    return value
