"""Builds the platforms that are switched on, from settings. Part of the composition root; functions, no state."""

import ipaddress
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agent_core.model import Model
from agent_core.prompt import SENDING_FILES
from gateway.changes import Changes
from gateway.commands.registry import Commands
from gateway.outbound.drafts import Drafts
from gateway.outbound.live_reply import LiveReply, Showing
from gateway.platforms.base import Platform, Reacts, ShowsDrafts, ShowsProgress, ShowsTyping
from gateway.platforms.outgoing import Load
from gateway.platforms.rate_limit import Pace, Rate
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from hermes_config.accounts import bots
from hermes_config.errors import ConfigError
from hermes_config.places import Home
from hermes_config.redaction import Redactor
from hermes_config.settings import Settings

if TYPE_CHECKING:
    from gateway.web.server import WebServer

Menu = list[tuple[str, str]]

_SHORTEST_TOKEN_CHARS = 20
_AT_ONCE = 3  # messages to one person on Telegram


def build_platforms(settings: Settings, home: Home, commands: Commands, *, load: Load | None = None) -> list[Platform]:
    """SDKs are imported here, and only those of platforms that are switched on. `load` gives the bytes of files."""
    platforms: list[Platform] = []
    if settings.platforms.socket.enabled:
        from gateway.platforms.socket import SocketPlatform

        platforms.append(SocketPlatform(home.socket, max_line_bytes=settings.platforms.socket.max_line_bytes))
    if settings.platforms.web.enabled:
        from gateway.platforms.web import WebPlatform

        platforms.append(WebPlatform())
    builders = {"telegram": _build_telegram, "discord": _build_discord, "slack": _build_slack}
    for platform, build in builders.items():
        for account, tokens in bots(settings, platform).items():
            platforms.append(build(settings, account, tokens, _menu(commands), load))
    return platforms


def build_live_reply(
    settings: Settings, db: Database, platforms: Mapping[str, Platform], redactor: Redactor
) -> LiveReply:
    display = settings.display
    streaming = {name for name in ("telegram", "discord", "slack") if getattr(settings.platforms, name).streaming}
    return LiveReply(
        redactor=redactor,
        shows={name: one.show for name, one in platforms.items() if isinstance(one, ShowsProgress)},
        types={name: one for name, one in platforms.items() if isinstance(one, ShowsTyping)},
        reacts={name: one for name, one in platforms.items() if isinstance(one, Reacts) and display.reactions},
        drafts=Drafts(
            db=db,
            platforms={name: one for name, one in platforms.items() if isinstance(one, ShowsDrafts)},
            shown_on=frozenset(name for name in platforms if name.partition("@")[0] in streaming),
        ),
        showing=Showing(
            tool_progress=display.tool_progress_mode if display.tool_progress else "off",
            draft_after_seconds=display.draft_after_seconds,
            watching_seconds=display.watching_seconds,
        ),
    )


def platform_hints(platforms: Mapping[str, Platform]) -> dict[str, str]:
    """By account: what the agent should know about where it speaks."""
    return {
        name: f"{one.features.hint} {SENDING_FILES}" if one.features.sends_files else one.features.hint
        for name, one in platforms.items()
    }


def telegram_chat_rate(per_minute: int) -> Rate:
    """A few at once, then evenly: a whole minute's worth in one go is more than Telegram takes."""
    at_once = min(_AT_ONCE, per_minute)
    return Rate(count=at_once, seconds=60 * at_once / per_minute) if per_minute else Rate()


def _build_telegram(settings: Settings, account: str, tokens: list[str], menu: Menu, load: Load | None) -> Platform:
    from gateway.platforms.telegram.platform import TelegramPlatform

    chosen = settings.platforms.telegram
    return TelegramPlatform(
        *tokens,
        account=account,
        api_url=chosen.api_url,
        poll_seconds=chosen.poll_seconds,
        pace=Pace(
            per_chat=telegram_chat_rate(chosen.chat_sends_per_minute),
            per_group=Rate(count=chosen.group_sends_per_minute, seconds=60),
            overall=Rate(count=chosen.sends_per_second, seconds=1),
            is_group=lambda chat: chat.startswith("-"),
        ),
        commands=menu,
        load=load,
    )


def _build_discord(settings: Settings, account: str, tokens: list[str], menu: Menu, load: Load | None) -> Platform:
    from gateway.platforms.discord.platform import DiscordPlatform

    chosen = settings.platforms.discord
    return DiscordPlatform(
        *tokens,
        account=account,
        api_url=chosen.api_url,
        commands=menu,
        thread_per_conversation=chosen.thread_per_conversation,
        load=load,
    )


def _build_slack(settings: Settings, account: str, tokens: list[str], menu: Menu, load: Load | None) -> Platform:
    from gateway.platforms.slack.platform import SlackPlatform

    api_url = settings.platforms.slack.api_url
    return SlackPlatform(*tokens, account=account, api_url=api_url, commands=menu, load=load)


def _menu(commands: Commands) -> Menu:
    """Every name by which a command may be called in a chat; those that a member may look for are described."""
    described = {spec.name: spec.description for spec in commands.available("member", "chat")}
    called = [name for spec in commands.specs if "chat" in spec.places for name in (spec.name, *spec.aliases)]
    return [(name, described.get(name, "")) for name in called]


def build_web(
    settings: Settings,
    db: Database,
    files: MediaFiles,
    platform: Platform | None,
    model: Model,
    commands: Commands,
    *,
    clean: Callable[[str], str],
    changes: Changes,
) -> "WebServer | None":
    if platform is None:
        return None
    from gateway.platforms.web import WebPlatform
    from gateway.web.access import PageAccess
    from gateway.web.server import WebServer

    web = settings.platforms.web
    secret = settings.secrets.hermes_web_token
    if problem := door_problem(settings):
        raise ConfigError(problem)
    assert isinstance(platform, WebPlatform)
    access = PageAccess(
        db=db,
        host=web.host,
        allowed_hosts=web.allowed_hosts,
        token=secret.get_secret_value() if secret else "",
    )
    server = WebServer(
        platform=platform,
        db=db,
        media_files=files,
        access=access,
        model_name=model.name,
        commands=commands,
        host=web.host,
        port=web.port,
        max_file_bytes=web.max_file_bytes,
        clean=clean,
        changes=changes,
    )
    platform.serve = server.run
    changes.subscribe("approvals", platform.questions_changed)
    return server


def door_problem(settings: Settings) -> str:
    """Why the page may not be served as the settings want it; empty when it may."""
    host, secret = settings.platforms.web.host, settings.secrets.hermes_web_token
    if not secret and not is_loopback(host):
        return (
            f"platforms.web.host is {host}, which other machines can reach, but HERMES_WEB_TOKEN is not set. "
            "Set one, it asks for it: hermes config set HERMES_WEB_TOKEN; or listen here only: "
            "hermes config set platforms.web.host 127.0.0.1"
        )
    if secret and len(secret.get_secret_value()) < _SHORTEST_TOKEN_CHARS:
        return (
            f"HERMES_WEB_TOKEN is too short: it must have {_SHORTEST_TOKEN_CHARS} characters or more, such as from "
            "`openssl rand -base64 24`."
        )
    return ""


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
