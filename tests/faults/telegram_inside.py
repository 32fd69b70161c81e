"""What is wrapped around Telegram inside the gateway under test: tags on what is sent, steps, and things gone wrong."""

from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

from gateway.outbound.delivery import Delivery, MaybeArrived
from gateway.platforms.telegram.listener import Position, TelegramListener
from gateway.platforms.telegram.parsing import KINDS_WE_READ
from gateway.platforms.telegram.platform import TelegramPlatform
from gateway.platforms.telegram.transport import ListeningBot
from gateway.store import outbox
from tests.faults.chat_inside import Reached, carry_tags, send_again_unasked, send_the_newest_first, tag, watch_sends
from tests.faults.points import TAKEN

_TAGGED = {"sendMessage", "sendDocument"}


def prepare() -> None:
    post = ListeningBot._post

    async def posting(bot: ListeningBot, endpoint: str, data: dict[str, Any] | None = None, **rest: Any) -> Any:
        tagged = tag() if endpoint in _TAGGED else {}
        return await post(bot, endpoint, {**(data or {}), **tagged}, **rest)

    carry_tags(TelegramPlatform)
    patch.object(ListeningBot, "_post", posting).start()


def watch_steps(reached: Reached) -> None:
    take = TelegramListener._accept_page

    async def taking(listener: TelegramListener, page: list[dict[str, Any]]) -> Position:
        position = await take(listener, page)
        reached(TAKEN)
        return position

    patch.object(TelegramListener, "_accept_page", taking).start()
    watch_sends(TelegramPlatform, reached)


# What the ledger must notice.


def _confirm_before_it_is_ours() -> None:
    take = TelegramListener._accept_page

    async def taking(listener: TelegramListener, page: list[dict[str, Any]]) -> Position:
        offset = max(update["update_id"] for update in page) + 1
        await listener.bot.fetch_updates(offset, KINDS_WE_READ, wait_seconds=0)
        return await take(listener, page)

    patch.object(TelegramListener, "_accept_page", taking).start()


def _say_nothing_of_doubt() -> None:
    def leaving(delivery: Delivery, tx: Any, row: Any, outcome: MaybeArrived) -> None:
        outbox.give_up(tx, row, "in_doubt", outcome.problem)

    patch.object(Delivery, "_leave_in_doubt", leaving).start()


BREAKS: Mapping[str, Callable[[], None]] = {
    "confirm first": _confirm_before_it_is_ours,
    "resend": lambda: send_again_unasked(TelegramPlatform),
    "silent": _say_nothing_of_doubt,
    "newest first": send_the_newest_first,
}
