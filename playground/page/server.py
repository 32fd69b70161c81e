"""Everything at once: three platforms, a gateway between them, and the page; up while the `with` block runs."""

import errno
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from aiohttp import web

from playground.discord.server import DiscordServer
from playground.page.api import MAX_FILE_BYTES, Api
from playground.page.discord_phone import DiscordPhone
from playground.page.door import Door
from playground.page.gateway_child import GatewayChild, child_environment
from playground.page.home import PlaygroundHome, make_home
from playground.page.live import LivePage
from playground.page.phone import Phone
from playground.page.slack_phone import SlackPhone
from playground.page.telegram_phone import TelegramPhone
from playground.page.terminal import Terminal
from playground.slack.server import SlackServer
from playground.telegram.server import TelegramServer

_STATIC_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".ogg": "audio/ogg",
}
_EPOCH_SECONDS = 1_760_000_000  # what is counted in a kept home goes on from the last time, by the clock


class PortTaken(Exception):
    """Somebody else listens there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Playground:
    link: str
    home: PlaygroundHome
    gateway: GatewayChild
    phones: Mapping[str, Phone]


@asynccontextmanager
async def playground(
    *,
    command: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path,
    home: Path | None = None,
    port: int = 0,
) -> AsyncIterator[Playground]:
    """`command` is how `hermes` is called. Raises PortTaken, and NotOurs for a `home` that is not a playground's."""
    async with AsyncExitStack() as stack:
        door = Door()
        app = web.Application(middlewares=[door.middleware], client_max_size=MAX_FILE_BYTES + 1_000_000)
        phones, variables = await _platforms(stack)
        owners = [f"{name}:{phone.owner}" for name, phone in phones.items()]
        made = make_home(home, owners=owners, variables=variables)
        stack.callback(made.remove)
        known = child_environment(environment, made.root)
        gateway = GatewayChild(made, command=command, environment=known, cwd=cwd)
        terminal = Terminal(command=command, environment=known, cwd=cwd, platforms=tuple(phones))
        _Site(phones, gateway, terminal).add_routes(app)
        await _listen(stack, app, door, port)  # before the gateway, which need not start if the port is taken
        stack.push_async_callback(gateway.close)
        await gateway.start()
        yield Playground(link=door.link, home=made, gateway=gateway, phones=phones)


async def _platforms(stack: AsyncExitStack) -> tuple[dict[str, Phone], dict[str, str]]:
    """The phones, and what a gateway must know to reach their servers."""
    telegram = await stack.enter_async_context(
        TelegramServer(username="hermes_bot", first_name="Hermes", privacy=False)
    )
    discord = await stack.enter_async_context(DiscordServer(username="hermes", heartbeat_seconds=10.0))
    slack = await stack.enter_async_context(SlackServer(bot_name="hermes"))
    started = int((time.time() - _EPOCH_SECONDS) * 10)
    telegram.world.updates.restart_ids(at=700_000_000 + started)
    variables = {
        "TELEGRAM_BOT_TOKEN": telegram.token,
        "TELEGRAM_API_URL": telegram.url,
        "DISCORD_BOT_TOKEN": discord.token,
        "DISCORD_API_URL": discord.api_url,
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_APP_TOKEN": slack.app_token,
        "SLACK_API_URL": slack.api_url,
    }
    phones = (TelegramPhone(telegram, first_message=started), DiscordPhone(discord), SlackPhone(slack))
    return {phone.platform: phone for phone in phones}, variables


async def _listen(stack: AsyncExitStack, app: web.Application, door: Door, port: int) -> None:
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.2)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise PortTaken(
            f"Port {port} is in use. Choose another with --port, or leave it out for any free one."
        ) from None
    door.port = runner.addresses[0][1]


class _Site:
    def __init__(self, phones: Mapping[str, Phone], gateway: GatewayChild, terminal: Terminal) -> None:
        self._phones = phones
        self._gateway = gateway
        self._terminal = terminal

    def add_routes(self, app: web.Application) -> None:
        app.router.add_get("/", self._page)
        app.router.add_get("/static/{name}", self._static)
        app.router.add_get("/api/about", self._about)
        app.router.add_get("/live", self._live)
        Api(self._phones, self._gateway, self._terminal).add_routes(app)

    async def _page(self, request: web.Request) -> web.Response:
        return _static_file("index.html")

    async def _static(self, request: web.Request) -> web.Response:
        return _static_file(request.match_info["name"])

    async def _about(self, request: web.Request) -> web.Response:
        home = self._gateway.home
        about = {"home": str(home.root), "temporary": home.temporary, "prefix": self._terminal.prefix}
        return web.json_response({**about, "max_file_bytes": MAX_FILE_BYTES})

    async def _live(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(heartbeat=25.0, max_msg_size=10_000, compress=False)
        await socket.prepare(request)
        await LivePage(socket, self._phones, self._gateway).run()
        return socket


def _static_file(name: str) -> web.Response:
    suffix = name[name.rfind(".") :]
    file = resources.files("playground.page") / "static" / name
    if "/" in name or suffix not in _STATIC_TYPES or not file.is_file():
        raise web.HTTPNotFound(text="There is no such page.")
    kind = _STATIC_TYPES[suffix]
    charset = None if suffix == ".ogg" else "utf-8"
    return web.Response(body=file.read_bytes(), content_type=kind, charset=charset)
