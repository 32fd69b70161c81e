"""What is wrapped around Telegram inside the gateway under test: tags on what is sent, steps, and things gone wrong.

A tag is one more field in a call of the Bot API, which Telegram ignores and the ledger's server reads: the key of the
outbox row, what it answers, and which piece it is. So what arrived is known from the wire alone, also where the
gateway died before it could write down a receipt.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from gateway.delivery import Delivery
from gateway.platforms.telegram.line import ListeningBot
from gateway.platforms.telegram.platform import TelegramPlatform
from gateway.platforms.telegram.polls import Listener, Position
from gateway.platforms.telegram.updates import KINDS_WE_READ
from gateway.store import outbox
from tests.faults.points import NOT_RECORDED, NOTICE_NOT_RECORDED, TAKEN

TAG = "ledger"
_TAGGED = {"sendMessage", "sendDocument"}
_carried: ContextVar[str] = ContextVar("_carried", default="")


def tag_what_is_sent() -> None:
    send, post = TelegramPlatform.send, ListeningBot._post

    async def sending(platform: TelegramPlatform, message: Any) -> Any:
        tag = {"key": message.key, "answers": list(message.answers), "piece": message.piece}
        before = _carried.set(json.dumps(tag))
        try:
            return await send(platform, message)
        finally:
            _carried.reset(before)

    async def posting(bot: ListeningBot, endpoint: str, data: dict[str, Any] | None = None, **rest: Any) -> Any:
        tag = {TAG: _carried.get()} if endpoint in _TAGGED else {}
        return await post(bot, endpoint, {**(data or {}), **tag}, **rest)

    patch.object(TelegramPlatform, "send", sending).start()
    patch.object(ListeningBot, "_post", posting).start()


def watch_steps(reached: Callable[[str], None]) -> None:
    take, send = Listener._take, TelegramPlatform.send

    async def taking(listener: Listener, page: list[dict[str, Any]]) -> Position:
        position = await take(listener, page)
        reached(TAKEN)
        return position

    async def sending(platform: TelegramPlatform, message: Any) -> Any:
        receipt = await send(platform, message)
        reached(NOT_RECORDED if message.answers else NOTICE_NOT_RECORDED)
        return receipt

    patch.object(Listener, "_take", taking).start()
    patch.object(TelegramPlatform, "send", sending).start()


# What the ledger must notice.


def _confirm_before_it_is_ours() -> None:
    take = Listener._take

    async def taking(listener: Listener, page: list[dict[str, Any]]) -> Position:
        offset = max(update["update_id"] for update in page) + 1
        await listener.bot.updates(offset, KINDS_WE_READ, wait_seconds=0)
        return await take(listener, page)

    patch.object(Listener, "_take", taking).start()


def _send_again_unasked() -> None:
    patch.object(TelegramPlatform, "features", replace(TelegramPlatform.features, resend="safe")).start()


def _say_nothing_of_doubt() -> None:
    def leaving(delivery: Delivery, tx: Any, row: Any, problem: str) -> None:
        outbox.give_up(tx, row, "in_doubt", problem)

    patch.object(Delivery, "_leave_in_doubt", leaving).start()


def _send_the_newest_first() -> None:
    claim = outbox.claim

    class Backwards:
        def __init__(self, tx: Any) -> None:
            self._tx = tx

        def all(self, sql: str, *values: Any) -> Any:
            return self._tx.all(sql.replace("MIN(id)", "MAX(id)"), *values)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._tx, name)

    def claiming(tx: Any, *rest: Any) -> Any:
        return claim(Backwards(tx), *rest)  # type: ignore[arg-type]

    async def waiting(delivery: Delivery, group: asyncio.TaskGroup) -> float:
        await asyncio.sleep(0.5)  # long enough for a second answer to be ready as well
        return await look(delivery, group)

    look = Delivery._send_what_is_due
    patch.object(outbox, "claim", claiming).start()
    patch.object(Delivery, "_send_what_is_due", waiting).start()


BREAKS: Mapping[str, Callable[[], None]] = {
    "confirm first": _confirm_before_it_is_ours,
    "resend": _send_again_unasked,
    "silent": _say_nothing_of_doubt,
    "newest first": _send_the_newest_first,
}
