"""Telegram as the gateway knows it before python-telegram-bot is loaded."""

from gateway.platforms.base import Platform
from gateway.platforms.rate_limit import Rate, RateLimits
from gateway.platforms.spec import AccountSetup, PlatformSpec, TokenCheck

_BURST = 3  # messages to one person at once


def build(
    setup: AccountSetup,
    *,
    api_url: str,
    poll_seconds: int,
    sends_per_second: int,
    chat_sends_per_minute: int,
    group_sends_per_minute: int,
    **_: object,
) -> Platform:
    from gateway.platforms.telegram.platform import TelegramPlatform

    return TelegramPlatform(
        setup,
        api_url=api_url,
        poll_seconds=poll_seconds,
        rate_limits=RateLimits(
            per_chat=chat_rate(chat_sends_per_minute),
            per_group=Rate(count=group_sends_per_minute, seconds=60),
            overall=Rate(count=sends_per_second, seconds=1),
            is_group=lambda chat: chat.startswith("-"),
        ),
    )


def chat_rate(per_minute: int) -> Rate:
    """Allow a short burst, then an even flow: Telegram refuses a whole minute's messages sent at once."""
    burst = min(_BURST, per_minute)
    return Rate(count=burst, seconds=60 * burst / per_minute) if per_minute else Rate()


TELEGRAM = PlatformSpec(
    name="telegram",
    hint=(
        "You are talking in a Telegram chat, usually read on a phone: keep answers short. Markdown is rendered: bold, "
        "italics, code, links, lists and quotes; wide tables do not fit."
    ),
    build=build,
    sdk="telegram",
    invites_by_link=True,
    token_checks=(
        TokenCheck(
            path="/bot{token}/getMe",
            bot_name=("result", "username"),
            next_step="open the chat: https://t.me/{result[username]}",
        ),
    ),
)
