"""What another process can do with Discord alone: look at channels, disturb the gateway, switch settings."""

from typing import Protocol

from aiohttp import web

from playground.control import Control, Row, read_body
from playground.discord import intents
from playground.discord.gateway import Gateway
from playground.discord.limits import Limits
from playground.discord.wires import channel_wire, guild_wire
from playground.discord.world import World
from playground.stage import Stage
from playground.wire import Wire


class Controlled(Protocol):
    """What these routes need of the server."""

    world: World
    gateway: Gateway
    limits: Limits

    @property
    def api_url(self) -> str: ...

    @property
    def gateway_url(self) -> str: ...


class DiscordControl(Control):
    def __init__(self, stage: Stage, server: Controlled) -> None:
        super().__init__(stage)
        self.server = server
        self.world = server.world

    def table(self) -> list[Row]:
        return [
            *super().table(),
            ("GET", "/channels", self.channels),
            ("GET", "/channels/{channel_id}", self.channel),
            ("GET", "/commands", self.commands),
            ("GET", "/gateway", self.gateway),
            ("POST", "/gateway/{what}", self.disturb),
            ("POST", "/settings", self.settings),
        ]

    def description(self) -> Wire:
        return {"bot": self.world.bot.wire, "api_url": self.server.api_url, "gateway_url": self.server.gateway_url}

    async def channels(self, request: web.Request) -> web.Response:
        channels = [channel_wire(self.world, channel) for channel in self.world.channels.values()]
        guilds = [guild_wire(self.world, guild) for guild in self.world.guilds.values()]
        return web.json_response({"channels": channels, "guilds": guilds})

    async def channel(self, request: web.Request) -> web.Response:
        """What the channel shows; `?deleted=1` with what was deleted."""
        channel = self.world.channels[int(request.match_info["channel_id"])]
        messages = self.world.show(channel.id, deleted="deleted" in request.query)
        wire = channel_wire(self.world, channel)
        return web.json_response({**wire, "messages": messages, "typing": channel.typing})

    async def commands(self, request: web.Request) -> web.Response:
        return web.json_response({"commands": self.world.commands[0]})

    async def gateway(self, request: web.Request) -> web.Response:
        gateway = self.server.gateway
        sessions = [
            {"id": one.id, "intents": one.intents, "seq": one.seq, "connected": one.line is not None}
            for one in gateway.sessions.values()
        ]
        counts = {"identifies": gateway.identifies, "resumes": gateway.resumes, "heartbeats": gateway.heartbeats}
        return web.json_response({"connected": gateway.connected, "sessions": sessions, "acks": gateway.acks, **counts})

    async def disturb(self, request: web.Request) -> web.Response:
        """`cut`, `freeze`, `reconnect`, `beat`, `forget`, `close` {code}, `invalidate` {resumable}, `acks` {on}."""
        gateway, body = self.server.gateway, await read_body(request)
        match request.match_info["what"]:
            case "close":
                gateway.close(int(body.get("code", 1001)))
            case "invalidate":
                gateway.invalidate(resumable=bool(body.get("resumable", False)))
            case "acks":
                gateway.acks = bool(body["on"])
            case what:
                self._simple(what)
        return await self.gateway(request)

    def _simple(self, what: str) -> None:
        gateway = self.server.gateway
        plain = {"cut": gateway.cut, "freeze": gateway.freeze, "reconnect": gateway.ask_reconnect}
        plain |= {"beat": gateway.beat, "forget": gateway.forget_sessions}
        if what not in plain:
            raise ValueError(f"there is no {what!r} of a gateway")
        plain[what]()

    async def settings(self, request: web.Request) -> web.Response:
        """`limits`, `content_intent`, `unjoined_threads`: true or false; `heartbeat_seconds`, `identify_total`."""
        body, gateway = await read_body(request), self.server.gateway
        self.server.limits.on = body.get("limits", self.server.limits.on)
        self.world.hears_unjoined_threads = body.get("unjoined_threads", self.world.hears_unjoined_threads)
        if "content_intent" in body:
            others = self.world.privileged & ~intents.CONTENT
            self.world.privileged = others | (intents.CONTENT if body["content_intent"] else 0)
        gateway.heartbeat_seconds = float(body.get("heartbeat_seconds", gateway.heartbeat_seconds))
        gateway.identify_total = int(body.get("identify_total", gateway.identify_total))
        reads = bool(self.world.privileged & intents.CONTENT)
        return web.json_response({"limits": self.server.limits.on, "content_intent": reads})
