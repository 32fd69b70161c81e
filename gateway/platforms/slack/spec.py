"""Slack as the gateway knows it before its SDK is loaded."""

from gateway.platforms.base import Platform
from gateway.platforms.rate_limit import Rate, RateLimits
from gateway.platforms.spec import AccountSetup, PlatformSpec, TokenCheck


def build(setup: AccountSetup, *, api_url: str, **_: object) -> Platform:
    from gateway.platforms.slack.platform import SlackPlatform

    return SlackPlatform(setup, api_url=api_url, rate_limits=RateLimits(per_chat=Rate(count=3, seconds=3)))


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
        TokenCheck(
            path="/auth.test",
            authorization="Bearer {token}",
            bot_name=("user",),
            next_step="open the chat: slack://user?team={team_id}&id={user_id}",
        ),
        TokenCheck(path="/apps.connections.open", authorization="Bearer {token}", label="socket"),
    ),
)
