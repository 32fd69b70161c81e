"""The routes under `/control` that only Slack has: channels, sockets, subscriptions, settings."""

from collections.abc import Callable
from typing import Protocol

from aiohttp import web

from playground.control import Control, Row, read_body
from playground.slack.limits import Limits
from playground.slack.sockets import Sockets
from playground.slack.subscriptions import Subscriptions
from playground.slack.world import Channel, World
from playground.stage import Stage
from playground.wire import Wire

TOKEN_STATES = ("", "invalid_auth", "account_inactive", "token_revoked", "token_expired")


class Controlled(Protocol):
    """What the routes need of a server beyond a stage."""

    world: World
    sockets: Sockets
    subscriptions: Subscriptions
    limits: Limits
    token_state: str

    @property
    def api_url(self) -> str: ...


class SlackControl(Control):
    def __init__(self, server: "Stage", slack: Controlled) -> None:
        super().__init__(server)
        self._slack = slack

    def table(self) -> list[Row]:
        return [
            *super().table(),
            ("GET", "/channels", self.channels),
            ("GET", "/channels/{channel}", self.channel),
            ("GET", "/sockets", self.sockets),
            ("POST", "/sockets/{change}", self.change_sockets),
            ("POST", "/settings", self.settings),
        ]

    def description(self) -> Wire:
        world = self._slack.world
        return {"api_url": self._slack.api_url, "bot": world.bot.wire, "team_id": world.team_id}

    async def channels(self, request: web.Request) -> web.Response:
        return web.json_response({"channels": [_summary(one) for one in self._slack.world.channels.values()]})

    async def channel(self, request: web.Request) -> web.Response:
        """What the channel shows; `?deleted=1` with what was deleted, `?thread=ts` one thread alone."""
        channel = self._slack.world.channels[request.match_info["channel"]]
        thread = request.query.get("thread", "")
        messages = self._slack.world.show(channel.id, deleted="deleted" in request.query, thread=thread)
        return web.json_response({**_summary(channel), "messages": messages})

    async def sockets(self, request: web.Request) -> web.Response:
        sockets = self._slack.sockets
        return web.json_response({"open": [socket.number for socket in sockets.open], "unacked": sockets.unacked})

    async def change_sockets(self, request: web.Request) -> web.Response:
        """`cut`, `half_open`, `no_pong`, `mend`, `disconnect` {reason}; {number} picks one socket, else all."""
        sockets, body = self._slack.sockets, await read_body(request)
        number = int(body.get("number", 0))
        changes: dict[str, Callable[[], None]] = {
            "cut": lambda: sockets.cut(number=number),
            "half_open": lambda: sockets.freeze(number=number),
            "no_pong": lambda: sockets.mute(number=number),
            "mend": sockets.thaw,
            "disconnect": lambda: sockets.disconnect(body.get("reason", "refresh_requested"), number=number),
        }
        change = changes.get(request.match_info["change"])
        if change is None:
            raise ValueError(f"unknown change; there are {', '.join(changes)}")
        change()
        return await self.sockets(request)

    async def settings(self, request: web.Request) -> web.Response:
        """Any of the names below; gives all of them as they are then."""
        body = await read_body(request)
        world, sockets, slack = self._slack.world, self._slack.sockets, self._slack
        if "subscriptions" in body:
            slack.subscriptions.choose(body["subscriptions"])
        world.scopes = frozenset(body.get("scopes", world.scopes))
        slack.limits.on = body.get("limits", slack.limits.on)
        if body.get("token_state", "") not in TOKEN_STATES:
            raise ValueError(f"a token's state is one of {', '.join(TOKEN_STATES)}")
        slack.token_state = body.get("token_state", slack.token_state)
        world.edit_window_seconds = body.get("edit_window_seconds", world.edit_window_seconds)
        sockets.retry_seconds = tuple(body.get("retry_seconds", sockets.retry_seconds))
        for name in ("ping_seconds", "ticket_seconds", "grace_seconds"):
            setattr(sockets, name, float(body.get(name, getattr(sockets, name))))
        return web.json_response(
            {
                "subscriptions": sorted(slack.subscriptions.to),
                "scopes": sorted(world.scopes),
                "limits": slack.limits.on,
                "token_state": slack.token_state,
                "edit_window_seconds": world.edit_window_seconds,
                "retry_seconds": sockets.retry_seconds,
                "ping_seconds": sockets.ping_seconds,
                "ticket_seconds": sockets.ticket_seconds,
                "grace_seconds": sockets.grace_seconds,
            }
        )


def _summary(channel: Channel) -> Wire:
    extra = {"members": channel.members, "restricted": channel.restricted, "statuses": channel.statuses}
    return {**channel.wire, "kind": channel.kind, **extra}
