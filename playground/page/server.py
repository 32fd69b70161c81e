"""The whole playground: three platforms, a gateway between them, and the page."""

import errno
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from playground.discord.server import DiscordServer
from playground.page.access import PlaygroundAccess
from playground.page.api import MAX_FILE_BYTES, PageApi
from playground.page.discord_phone import DiscordPhone
from playground.page.gateway_child import GatewayChild, child_environment
from playground.page.home import PlaygroundHome, make_home
from playground.page.phone import Phone
from playground.page.slack_phone import SlackPhone
from playground.page.telegram_phone import TelegramPhone
from playground.page.terminal import OwnerTerminal
from playground.slack.server import SlackServer
from playground.telegram.server import TelegramServer


class PortTaken(Exception):
    """Another process listens on the port."""


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
    port: int = 0,
) -> AsyncIterator[Playground]:
    """Run the playground; `command` calls `hermes`. Raises PortTaken."""
    async with AsyncExitStack() as stack:
        access = PlaygroundAccess()
        app = web.Application(middlewares=[access.middleware], client_max_size=MAX_FILE_BYTES + 1_000_000)
        phones, variables = await _start_platforms(stack)
        owners = [f"{name}:{phone.owner}" for name, phone in phones.items()]
        made = make_home(owners=owners, variables=variables)
        stack.callback(made.remove)
        known = child_environment(environment, made.root)
        gateway = GatewayChild(made, command=command, environment=known, cwd=cwd)
        terminal = OwnerTerminal(command=command, environment=known, cwd=cwd)
        PageApi(phones, gateway, terminal).add_routes(app)
        await _listen(stack, app, access, port)  # before the gateway, which need not start if the port is taken
        stack.push_async_callback(gateway.close)
        await gateway.start()
        yield Playground(link=access.link, home=made, gateway=gateway, phones=phones)


async def _start_platforms(stack: AsyncExitStack) -> tuple[dict[str, Phone], dict[str, str]]:
    """Return the phones, and the variables by which a gateway reaches their servers."""
    telegram = await stack.enter_async_context(
        TelegramServer(username="hermes_bot", first_name="Hermes", privacy=False)
    )
    discord = await stack.enter_async_context(DiscordServer(username="hermes", heartbeat_seconds=10.0))
    slack = await stack.enter_async_context(SlackServer(bot_name="hermes"))
    variables = {
        "TELEGRAM_BOT_TOKEN": telegram.token,
        "TELEGRAM_API_URL": telegram.url,
        "DISCORD_BOT_TOKEN": discord.token,
        "DISCORD_API_URL": discord.api_url,
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_APP_TOKEN": slack.app_token,
        "SLACK_API_URL": slack.api_url,
    }
    phones = (TelegramPhone(telegram), DiscordPhone(discord), SlackPhone(slack))
    return {phone.platform: phone for phone in phones}, variables


async def _listen(stack: AsyncExitStack, app: web.Application, access: PlaygroundAccess, port: int) -> None:
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
    access.port = runner.addresses[0][1]
