"""What settings make of platforms: which bots there are, how fast they speak, whose tokens are hidden."""

from pathlib import Path

import pytest

from gateway.commands.registry import Commands
from gateway.errors import PlatformAuthFailed
from gateway.platforms.base import Inlet
from gateway.platforms.rate_limit import Rate, RateLimits
from gateway.platforms.telegram.spec import chat_rate
from gateway.wiring.basics import secret_values
from gateway.wiring.platforms import build_platforms
from gateway.wiring.policies import build_rules
from hermes_config.accounts import bots
from hermes_config.places import Home
from hermes_config.settings import Settings
from playground.discord.server import DiscordServer
from playground.slack.server import SlackServer
from playground.telegram.server import TelegramServer
from tests.journeys.stage import make_home, until
from tests.thorough import a_few_of

SDKS = {"telegram": {"telegram"}, "discord": {"discord"}, "slack": {"slack_bolt", "slack_sdk"}}
FIRST, WORK = "1:first-token", "2:work-token"


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TELEGRAM_BOT_TOKEN_WORK", raising=False)


def settings(*, enabled: bool = True, first: str | None = FIRST, **telegram: object) -> Settings:
    chosen = {"enabled": enabled, "accounts": ("work",), **telegram}
    return Settings.model_validate(
        {"platforms": {"telegram": chosen, "web": {"enabled": False}}, "secrets": {"telegram_bot_token": first}}
    )


async def test_a_further_bot_without_a_token_says_so_alone(tmp_path: Path) -> None:
    chosen = settings()
    assert bots(chosen, "telegram") == {"telegram": [FIRST], "telegram@work": [""]}
    first, work = build_platforms(chosen, Home(tmp_path / "home"), Commands(()))
    assert (first.account, work.account) == ("telegram", "telegram@work")

    async def nothing(*arguments: object) -> None:
        raise AssertionError("nobody signs in")

    inlet = Inlet(
        accept=nothing,
        cursor=nothing,  # type: ignore[arg-type]
        cursors=nothing,  # type: ignore[arg-type]
        alive=lambda: None,
        chat_reachable=nothing,
        chat_moved=nothing,
    )
    with pytest.raises(PlatformAuthFailed, match="TELEGRAM_BOT_TOKEN_WORK is not set"):
        await work.run(inlet)


@pytest.mark.parametrize("enabled", [True, False])
def test_tokens_are_kept_out_of_logs_even_while_they_are_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, enabled: bool
) -> None:
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN_WORK", WORK)
    chosen = settings(enabled=enabled)
    assert {FIRST, WORK} <= set(secret_values(chosen))
    assert len(build_platforms(chosen, Home(tmp_path / "home"), Commands(()))) == (2 if enabled else 0)


def test_no_token_and_no_account_is_no_telegram(tmp_path: Path) -> None:
    assert build_platforms(settings(first=None, accounts=()), Home(tmp_path / "home"), Commands(())) == []


@pytest.mark.parametrize(
    ("per_minute", "rate"),
    [
        (0, Rate()),
        (1, Rate(count=1, seconds=60)),
        (2, Rate(count=2, seconds=60)),
        (10, Rate(count=3, seconds=18)),
        (60, Rate(count=3, seconds=3)),
        (61, Rate(count=3, seconds=180 / 61)),
        (600, Rate(count=3, seconds=0.3)),
    ],
)
def test_so_many_a_minute_are_sent_to_one_person(per_minute: int, rate: Rate) -> None:
    assert chat_rate(per_minute) == rate
    if not per_minute:
        return
    now = 0.0
    rate_limits = RateLimits(per_chat=chat_rate(per_minute), clock=lambda: now)
    sent = 0
    while now < 600:
        if wait := rate_limits.wait_seconds("7"):
            now += wait
        else:
            rate_limits.record_send("7")
            sent += 1
    assert sent == pytest.approx(10 * per_minute, abs=3)


def test_ids_on_a_platforms_list_are_ids_on_that_platform() -> None:
    rules = build_rules(settings(allowed_users=("1", "telegram:2", "telegram@work:3")))
    assert rules.allowed_users == {"telegram:1", "telegram:2", "telegram@work:3"}


ENABLED = [[], *([name] for name in SDKS), list(SDKS)]


@pytest.mark.parametrize("enabled", a_few_of(ENABLED, 3), ids=lambda names: "+".join(names))
async def test_a_running_gateway_has_imported_the_sdks_of_its_platforms_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enabled: list[str]
) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # every import is told, among what the gateway prints
    async with TelegramServer() as telegram, DiscordServer() as discord, SlackServer() as slack:
        variables = {
            "telegram": {"TELEGRAM_BOT_TOKEN": telegram.token, "TELEGRAM_API_URL": telegram.url},
            "discord": {"DISCORD_BOT_TOKEN": discord.token, "DISCORD_API_URL": discord.api_url},
            "slack": {
                "SLACK_BOT_TOKEN": slack.bot_token,
                "SLACK_APP_TOKEN": slack.app_token,
                "SLACK_API_URL": slack.api_url,
            },
        }
        given = {name: value for platform in enabled for name, value in variables[platform].items()}
        home = make_home(
            tmp_path / "own", {"platforms": {"web": {"enabled": False}, "socket": {"enabled": True}}}, given
        )
        async with home.gateway(warm=False) as gateway:
            for account in enabled:
                await home.until_platform("connected", account=account)
            await until(lambda: "Ready" in gateway.printed)
            lines = gateway.printed.splitlines()
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines if line.startswith("import time:")}
    assert "aiosqlite" in imported
    assert imported & set().union(*SDKS.values()) == set().union(*(SDKS[name] for name in enabled))
