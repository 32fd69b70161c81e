"""Build the enabled platforms from settings. Part of the composition root; functions, no state."""

import ipaddress
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import structlog

from agent_core.model import Model
from agent_core.prompt import SENDING_FILES
from gateway.changes import Changes
from gateway.commands.registry import Commands
from gateway.inbound.intake import Intake
from gateway.inbound.rate_limit import SenderLimits
from gateway.inbound.webhook_events import DEFAULT_TEMPLATE, WebhookRoute
from gateway.outbound.drafts import Drafts
from gateway.outbound.live_reply import LiveReply, Showing
from gateway.outbound.send_message import Sending
from gateway.platforms.all import PLATFORMS, find_spec
from gateway.platforms.api import ApiPlatform
from gateway.platforms.base import MenuCommand, Platform, Reacts, ShowsDrafts, ShowsProgress, ShowsTyping
from gateway.platforms.outgoing import Load
from gateway.platforms.spec import AccountSetup
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from gateway.wiring.policies import build_budgets, build_pairing_limits
from hermes_config.accounts import SHORTEST_WEBHOOK_SECRET, bots, webhook_secrets
from hermes_config.errors import ConfigError
from hermes_config.ids import WEBHOOK_ENTRY
from hermes_config.places import Home
from hermes_config.redaction import Redactor
from hermes_config.secrets import WEBHOOK_SECRET
from hermes_config.settings import Settings

if TYPE_CHECKING:
    from gateway.web.chat_api import ChatApi
    from gateway.web.server import WebServer
    from gateway.web.webhooks import Webhooks

log = structlog.get_logger()

MAX_TEMPLATE_CHARS = 20_000
_WEB_ENABLED = "platforms.web.enabled"
_SHORTEST_TOKEN_CHARS = 20


def build_platforms(settings: Settings, home: Home, commands: Commands, *, load: Load | None = None) -> list[Platform]:
    """Build every account that is enabled. Only their SDKs are imported. `load` returns the bytes of a file."""
    platforms: list[Platform] = []
    for spec in PLATFORMS:
        section = getattr(settings.platforms, spec.name)
        accounts = bots(settings, spec.name) if spec.token_checks else {spec.name: []} if section.enabled else {}
        for account, tokens in accounts.items():
            setup = AccountSetup(
                account=account, socket_path=home.socket, tokens=tokens, commands=_menu(commands), load=load
            )
            platforms.append(spec.build(setup, **dict(section)))
    if settings.http.enabled and settings.platforms.web.enabled:
        platforms.append(ApiPlatform())
    elif settings.http.enabled:
        log.warning("nothing is served to programs: http.enabled needs the server of the page", setting=_WEB_ENABLED)
    return platforms


def build_live_reply(
    settings: Settings, db: Database, platforms: Mapping[str, Platform], redactor: Redactor
) -> LiveReply:
    display = settings.display
    streaming = {name for name, section in settings.platforms if getattr(section, "streaming", False)}
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
    """Return by account the part of the system prompt that describes where the agent is speaking."""
    return {
        name: f"{find_spec(name).hint} {SENDING_FILES}" if one.features.sends_files else find_spec(name).hint
        for name, one in platforms.items()
    }


def _menu(commands: Commands) -> list[MenuCommand]:
    """Return every name of a command in a chat; only commands that a member may find have a description."""
    described = {
        spec.name: MenuCommand(spec.name, spec.description, spec.argument_hint)
        for spec in commands.available("member", "chat")
    }
    called = [name for spec in commands.specs if "chat" in spec.places for name in (spec.name, *spec.aliases)]
    return [described.get(name, MenuCommand(name)) for name in called]


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
    programs: Platform | None,
    state: Callable[[], dict[str, Any]],
) -> "WebServer | None":
    if platform is None:
        return None
    from gateway.platforms.web import WebPlatform
    from gateway.web.access import PageAccess
    from gateway.web.overview import OverviewPage
    from gateway.web.server import WebServer
    from tools.workplaces import process_backends

    web = settings.platforms.web
    secret = settings.secrets.hermes_web_token
    if problem := find_exposure_problem(settings):
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
        backends=process_backends(settings.terminal),
        access=access,
        model_name=model.name,
        commands=commands,
        host=web.host,
        port=web.port,
        max_file_bytes=web.max_file_bytes,
        clean=clean,
        changes=changes,
        overview=OverviewPage(
            db=db,
            backends=process_backends(settings.terminal),
            changes=changes,
            clean=clean,
            budgets=build_budgets(settings),
            limits=build_pairing_limits(settings),
            state=state,
        ),
        state=state,
    )
    if isinstance(programs, ApiPlatform):
        server.chat_api = build_chat_api(settings, server, programs)
    platform.serve = server.run
    changes.subscribe("approvals", platform.questions_changed)
    return server


def build_chat_api(settings: Settings, server: "WebServer", platform: ApiPlatform) -> "ChatApi":
    from gateway.web.chat_api import ChatApi

    return ChatApi(
        platform=platform,
        db=server.db,
        media_files=server.media_files,
        limits=SenderLimits(per_minute=settings.http.requests_per_minute),
        wait_seconds=settings.http.wait_seconds,
        max_body_bytes=settings.http.max_body_bytes,
        clean=server.clean,
        changes=server.changes,
    )


def build_webhooks(settings: Settings, home: Home, intake: Intake, sending: Sending) -> "Webhooks":
    from gateway.web.webhooks import Webhooks

    return Webhooks(
        db=intake.db,
        intake=intake,
        accounts=sending.accounts,
        role_of=sending.role_now,
        max_bytes=settings.http.max_webhook_bytes,
        routes=build_webhook_routes(settings, home),
        changes=intake.changes,
    )


def build_webhook_routes(settings: Settings, home: Home) -> dict[str, WebhookRoute]:
    """Return the webhooks that can be checked, with their templates; one without a secret is left out and logged."""
    routes: dict[str, WebhookRoute] = {}
    secrets = webhook_secrets(settings)
    for entry in settings.http.webhooks:
        found = WEBHOOK_ENTRY.fullmatch(entry)
        assert found is not None  # the settings have checked it
        name = found["name"]
        if len(secrets[name]) < SHORTEST_WEBHOOK_SECRET:
            log.error("webhook left out: its secret is missing or too short", route=name, variable=WEBHOOK_SECRET)
            continue
        template = read_template(home, name) or DEFAULT_TEMPLATE
        routes[name] = WebhookRoute(
            name=name,
            signature=found["signature"],
            secret=secrets[name],
            deliver=found["deliver"] or "",
            template=template,
        )
    return routes


def read_template(home: Home, name: str) -> str:
    """Return the template that somebody wrote for a webhook; empty when there is none."""
    try:
        return (home.webhooks / f"{name}.md").read_text(encoding="utf-8", errors="replace")[:MAX_TEMPLATE_CHARS]
    except FileNotFoundError:
        return ""


def find_exposure_problem(settings: Settings) -> str:
    """Return why the page must not be served with these settings; empty when it may be."""
    host, secret = settings.platforms.web.host, settings.secrets.hermes_web_token
    if not secret and not is_loopback(host):
        return (
            f"platforms.web.host is {host}, which other machines can reach, but HERMES_WEB_TOKEN is not set. "
            "Set one (you are asked for it): hermes config set HERMES_WEB_TOKEN; or listen on this machine only: "
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
