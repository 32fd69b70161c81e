"""What is wrapped around any chat platform inside the gateway under test: tags, steps, and what the ledger must notice.

A tag is one more field in the call that sends, which the platform ignores and the ledger's server reads: the key of the
outbox row, what it answers, and which piece it is. So what arrived is known from the wire alone, also where the
gateway died before it could write down a receipt.
"""

import asyncio
import json
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from gateway.messages import OutboundMessage
from gateway.outbound.delivery import Delivery
from gateway.store import outbox
from tests.faults.points import LOOKED_UP, NOT_RECORDED, NOTICE_NOT_RECORDED

TAG = "ledger"
_carried: ContextVar[str] = ContextVar("_carried", default="")

Reached = Callable[[str], None]


def tag() -> dict[str, str]:
    """The field for a call that sends; empty outside of one."""
    return {TAG: carried} if (carried := _carried.get()) else {}


def carry_tags(platform: type[Any]) -> None:
    """While the platform sends, `tag` tells what."""
    send = platform.send

    async def sending(self: Any, message: OutboundMessage) -> Any:
        before = _carried.set(
            json.dumps({"key": message.key, "answers": list(message.answers), "piece": message.piece})
        )
        try:
            return await send(self, message)
        finally:
            _carried.reset(before)

    patch.object(platform, "send", sending).start()


def watch_sends(platform: type[Any], reached: Reached) -> None:
    send, find = platform.send, getattr(platform, "find_sent", None)

    async def sending(self: Any, message: OutboundMessage) -> Any:
        receipt = await send(self, message)
        reached(NOT_RECORDED if message.answers else NOTICE_NOT_RECORDED)
        return receipt

    async def finding(self: Any, message: OutboundMessage) -> Any:
        assert find is not None
        receipt = await find(self, message)
        reached(LOOKED_UP)
        return receipt

    patch.object(platform, "send", sending).start()
    if find is not None:
        patch.object(platform, "find_sent", finding).start()


# What the ledger must notice.


def send_again_unasked(platform: type[Any]) -> None:
    patch.object(platform, "features", replace(platform.features, resend="safe")).start()


def send_the_newest_first() -> None:
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
