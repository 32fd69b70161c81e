"""The queue of updates: ids, confirmation by offset, long polls and their conflicts."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from playground.telegram.rules import TelegramRefusal
from playground.wire import Wire, to_json

DEFAULT_KINDS = frozenset(
    ("message", "edited_message", "channel_post", "edited_channel_post", "callback_query", "my_chat_member")
)
ASKED_FOR_KINDS = frozenset(("chat_member", "message_reaction"))
MAX_TIMEOUT_SECONDS = 50
_FUTURE = 10  # an offset further ahead than this is taken for one of another series of ids

_OTHER_POLL = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
_WEBHOOK = (
    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
)


@dataclass(slots=True)
class _Pending:
    update_id: int
    body: bytes  # without the id

    @property
    def wire(self) -> bytes:
        return b'{"update_id":%d,%b}' % (self.update_id, self.body)


class UpdateQueue:
    """Updates wait as bytes. One that a poll was given stays until a higher offset confirms it."""

    def __init__(self) -> None:
        self.next_id = 711_000_000
        self._pending: deque[_Pending] = deque()
        self._again: list[_Pending] = []  # sent once more, whatever the offset
        self._repeat_later: dict[int, _Pending] = {}
        self._poll: asyncio.Future[None] | None = None
        self.kinds = DEFAULT_KINDS
        self.webhook_url = ""
        self.duplicate_as: Callable[[str], str] = lambda kind: ""  # the fault that repeats an update of this kind
        self.on_wait: Callable[[], None] = lambda: None  # a poll begins to wait

    @property
    def count(self) -> int:
        return len(self._pending)

    @property
    def polling(self) -> bool:
        """Tell whether a long poll is waiting now."""
        return self._poll is not None

    def push(self, kind: str, value: Wire) -> int:
        """Queue an update if the bot wants this kind; return its id, or 0."""
        if kind not in self.kinds:
            return 0
        made = self._append(b'"%b":%b' % (kind.encode(), to_json(value)))
        match self.duplicate_as(kind):
            case "duplicate":
                self._pending.append(made)
            case "duplicate_new_id":
                self._append(made.body)
            case "duplicate_later":
                self._repeat_later[made.update_id] = made
        if self._poll and not self._poll.done():
            self._poll.set_result(None)
        return made.update_id

    def _append(self, body: bytes) -> _Pending:
        made = _Pending(self.next_id, body)
        self.next_id += 1
        self._pending.append(made)
        return made

    async def get(self, *, offset: int, limit: int, timeout: int, allowed: Iterable[str] | None) -> list[bytes]:
        """Serve one getUpdates. Raises 409 in the older of two polls, as soon as the newer begins to wait."""
        if self.webhook_url:
            raise TelegramRefusal(409, _WEBHOOK)
        if allowed is not None:
            self.kinds = frozenset(allowed) & (DEFAULT_KINDS | ASKED_FOR_KINDS) or DEFAULT_KINDS
        limit, timeout = min(max(limit, 1), 100), min(max(timeout, 0), MAX_TIMEOUT_SECONDS)
        deadline = time.monotonic() + timeout
        page = self._page(offset, limit)
        while not page and (left := deadline - time.monotonic()) > 0:
            await self._wait(left)
            page = self._page(offset, limit)
        return page

    async def _wait(self, seconds: float) -> None:
        self.end_poll(_OTHER_POLL)
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._poll = mine
        self.on_wait()
        try:
            await asyncio.wait_for(mine, seconds)
        except TimeoutError:
            return
        finally:
            if self._poll is mine:
                self._poll = None

    def end_poll(self, reason: str) -> None:
        """Answer the waiting poll with a conflict, if there is one."""
        if self._poll and not self._poll.done():
            self._poll.set_exception(TelegramRefusal(409, reason))
        self._poll = None

    def _page(self, offset: int, limit: int) -> list[bytes]:
        if offset < 0:
            while len(self._pending) > -offset:
                self._pending.popleft()
        elif offset <= self.next_id + _FUTURE:
            while self._pending and self._pending[0].update_id < offset:
                confirmed = self._pending.popleft()
                if self._repeat_later.pop(confirmed.update_id, None):
                    self._again.append(confirmed)
        again, self._again = self._again, []
        page = [*again, *(self._pending[index] for index in range(min(limit, len(self._pending))))]
        return [pending.wire for pending in page[:limit]]

    def restart_ids(self, at: int) -> None:
        """Empty the queue and continue with other ids, as Telegram does after a week of silence."""
        self._pending.clear()
        self.next_id = at

    def set_webhook(self, url: str) -> None:
        self.webhook_url = url
        if url:
            self.end_poll("Conflict: terminated by setWebhook request")
