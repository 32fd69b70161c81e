"""What is wrapped around Discord inside the gateway under test: tags on what is sent, steps, and things gone wrong."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

from discord.http import Route

from gateway.messages import Cursor, InboundMessage
from gateway.platforms.discord import platform
from gateway.platforms.discord.channels import Channels, HistoryPage
from gateway.platforms.discord.listener import DiscordListener
from gateway.platforms.discord.platform import DiscordPlatform
from gateway.platforms.discord.transport import DiscordRequests
from gateway.platforms.rate_limit import Rate
from tests.faults.chat_inside import Reached, carry_tags, send_again_unasked, send_the_newest_first, tag, watch_sends
from tests.faults.points import HISTORY_READ, TAKEN


def prepare() -> None:
    request = DiscordRequests.request

    async def requesting(requests: DiscordRequests, route: Route, **options: Any) -> Any:
        if tagged := tag():
            if "json" in options:
                options["json"] = {**options["json"], **tagged}
            elif "form" in options:
                first, *files = options["form"]
                told = {**json.loads(first["value"]), **tagged}
                options["form"] = [{**first, "value": json.dumps(told)}, *files]
        return await request(requests, route, **options)

    carry_tags(DiscordPlatform)
    patch.object(DiscordRequests, "request", requesting).start()
    patch("gateway.platforms.discord.spec.Rate", lambda **_: Rate()).start()  # nobody could wait that long


def watch_steps(reached: Reached) -> None:
    read, accept = DiscordListener._read, Channels._accept

    async def reading(listener: DiscordListener, channel_id: int, after: int) -> HistoryPage | None:
        page = await read(listener, channel_id, after)
        if page is not None and any(event.messages for event in page.events):
            reached(HISTORY_READ)
        return page

    async def accepting(channels: Channels, messages: Sequence[InboundMessage], cursor: Cursor | None) -> None:
        await accept(channels, messages, cursor)
        if messages:
            reached(TAKEN)

    patch.object(DiscordListener, "_read", reading).start()
    patch.object(Channels, "_accept", accepting).start()
    watch_sends(DiscordPlatform, reached)


# What the ledger must notice.


def _move_the_cursor_first() -> None:
    accept = Channels._accept

    async def accepting(channels: Channels, messages: Sequence[InboundMessage], cursor: Cursor | None) -> None:
        await accept(channels, (), cursor)
        await accept(channels, messages, None)

    patch.object(Channels, "_accept", accepting).start()


def _read_no_history() -> None:
    async def reading(listener: DiscordListener, channel_id: int, after: int) -> HistoryPage | None:
        return None

    patch.object(DiscordListener, "_read", reading).start()


def _take_any_message_for_ours() -> None:
    def found(history: Sequence[Mapping[str, Any]], *_: Any) -> int | None:
        return max((int(one["id"]) for one in history), default=None)

    patch.object(platform, "find_copy", found).start()


BREAKS: Mapping[str, Callable[[], None]] = {
    "cursor first": _move_the_cursor_first,
    "no history": _read_no_history,
    "resend": lambda: send_again_unasked(DiscordPlatform),
    "any will do": _take_any_message_for_ours,
    "newest first": send_the_newest_first,
}
