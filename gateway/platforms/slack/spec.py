"""Slack as the gateway knows it before its SDK is loaded."""

from gateway.platforms.base import Platform
from gateway.platforms.spec import AccountSetup, PlatformSpec, TokenCheck


def build(setup: AccountSetup, *, api_url: str, **_: object) -> Platform:
    from gateway.platforms.slack.platform import SlackPlatform

    return SlackPlatform(
        *setup.tokens, account=setup.account, api_url=api_url, commands=setup.commands, load=setup.load
    )


SLACK = PlatformSpec(
    name="slack",
    hint=(
        "You are talking in Slack. Markdown is rendered: headings, bold, italics, code, links, lists, quotes and "
        "tables. In channels you answer in a thread: stay on its topic and keep it short. "
        "<@U…> mentions a person by id."
    ),
    build=build,
    sdk="slack_bolt",
    token_checks=(
        TokenCheck(path="/auth.test", authorization="Bearer {token}", bot_name=("user",)),
        TokenCheck(path="/apps.connections.open", authorization="Bearer {token}", label="socket"),
    ),
)
