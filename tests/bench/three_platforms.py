"""The playground's three platforms as a benchmark sees them: what differs between them, as values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from playground.discord.server import DiscordServer
from playground.server import PlatformServer
from playground.slack.server import SlackServer
from playground.telegram.server import TelegramServer

Event = Mapping[str, Any]
Say = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    server: PlatformServer
    variables: Callable[[], dict[str, str]]  # by which a gateway finds it, once it is served
    send_method: str
    open_chat: Callable[[], tuple[str, Say]]  # with somebody new: what answers there are known by, and how to speak
    read: Callable[[Event], tuple[str, str]]  # of a message of the bot's: where and what
    is_connected: Callable[[Event], bool]  # whether this shows that the bot listens
    revoke: Callable[[], None]  # from now on its token is wrong


def telegram() -> Platform:
    server = TelegramServer()

    def open_chat() -> tuple[str, Say]:
        person = server.people.make_user()["id"]
        return str(person), partial(server.people.send_text, person, person)

    def revoke() -> None:
        server.token = "42:another-token"

    return Platform(
        server=server,
        variables=lambda: {"TELEGRAM_BOT_TOKEN": server.token, "TELEGRAM_API_URL": server.url},
        send_method="sendMessage",
        open_chat=open_chat,
        read=lambda event: (str(event["chat_id"]), event["message"]["text"]),
        is_connected=lambda event: event["kind"] == "poll" or event.get("method") == "getUpdates",
        revoke=revoke,
    )


def discord() -> Platform:
    server = DiscordServer()

    def open_chat() -> tuple[str, Say]:
        person = server.people.make_user("ada")["id"]
        place = server.people.open_dm(person)["id"]
        return place, partial(server.people.send_text, place, person)

    def revoke() -> None:
        server.token = "another.token.here"
        server.gateway.close(4004)

    return Platform(
        server=server,
        variables=lambda: {"DISCORD_BOT_TOKEN": server.token, "DISCORD_API_URL": server.api_url},
        send_method="createMessage",
        open_chat=open_chat,
        read=lambda event: (event["channel_id"], event["message"]["content"]),
        is_connected=lambda event: event["kind"] == "ready",
        revoke=revoke,
    )


def slack() -> Platform:
    server = SlackServer()

    def open_chat() -> tuple[str, Say]:
        person = server.people.make_user("ada")["id"]
        place = server.people.make_dm(person)["id"]
        return place, partial(server.people.send_text, place, person)

    def revoke() -> None:
        server.token_state = "invalid_auth"
        server.sockets.cut()

    return Platform(
        server=server,
        variables=lambda: {
            "SLACK_BOT_TOKEN": server.bot_token,
            "SLACK_APP_TOKEN": server.app_token,
            "SLACK_API_URL": server.api_url,
        },
        send_method="chat.postMessage",
        open_chat=open_chat,
        read=lambda event: (event["channel"], event["message"]["text"]),
        is_connected=lambda event: event["kind"] == "socket" and event["state"] == "open",
        revoke=revoke,
    )
