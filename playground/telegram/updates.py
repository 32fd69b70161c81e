"""The queue of updates: ids, confirmation by offset, long polls, and who is told of a conflict."""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from playground.telegram.rules import Refused, Wire, to_json

_KINDS = (
    "message edited_message channel_post edited_channel_post inline_query chosen_inline_result callback_query "
    "shipping_query pre_checkout_query poll poll_answer my_chat_member chat_join_request chat_boost removed_chat_boost "
    "business_connection business_message edited_business_message deleted_business_messages"
)
DEFAULT_KINDS = frozenset(_KINDS.split())
ASKED_FOR_KINDS = frozenset(("chat_member", "message_reaction", "message_reaction_count"))
KEPT_SECONDS = 24 * 3600.0
MAX_TIMEOUT_SECONDS = 50
_FUTURE = 10  # an offset further ahead than this is taken for one of another series of ids

_OTHER_POLL = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
_WEBHOOK = (
    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
)


@dataclass(slots=True)
class _Pending:
    update_id: int
    kind: str
    body: bytes  # without the id
    born: float

    @property
    def wire(self) -> bytes:
        return b'{"update_id":%d,%b}' % (self.update_id, self.body)


class UpdateQueue:
    """Updates wait here as bytes; what a poll was given stays until a higher offset confirms it."""

    def __init__(self, *, first_id: int = 711_000_000) -> None:
        self._next_id = first_id
        self._pending: deque[_Pending] = deque()
        self._again: list[_Pending] = []  # given out once more whatever the offset
        self._repeat_later: dict[int, _Pending] = {}
        self._poll: asyncio.Future[None] | None = None
        self.kinds = DEFAULT_KINDS
        self.asked: list[str] | None = None  # as the bot put it
        self.webhook_url = ""
        self.duplicate_as: Callable[[str], str] = lambda kind: ""  # which fault doubles an update of this kind
        self.on_wait: Callable[[], None] = lambda: None  # a poll begins to wait
        self.real_pacing = False
        self._last_poll = (-1, -10.0)  # offset and time

    @property
    def count(self) -> int:
        self._forget_old()
        return len(self._pending)

    @property
    def next_id(self) -> int:
        return self._next_id

    @property
    def polling(self) -> bool:
        """Whether a long poll is waiting at this moment."""
        return self._poll is not None

    def push(self, kind: str, value: Wire) -> int:
        """Queue an update if the bot wants this kind; gives its id, or 0."""
        if kind not in self.kinds:
            return 0
        made = self._append(kind, b'"%b":%b' % (kind.encode(), to_json(value)))
        match self.duplicate_as(kind):
            case "duplicate":
                self._pending.append(made)
            case "duplicate_new_id":
                self._append(kind, made.body)
            case "duplicate_later":
                self._repeat_later[made.update_id] = made
        self._wake()
        return made.update_id

    def _append(self, kind: str, body: bytes) -> _Pending:
        made = _Pending(self._next_id, kind, body, time.time())
        self._next_id += 1
        self._pending.append(made)
        return made

    def _wake(self) -> None:
        if self._poll and not self._poll.done():
            self._poll.set_result(None)

    async def get(self, *, offset: int, limit: int, timeout: int, allowed: Iterable[str] | None) -> list[bytes]:
        """One getUpdates. Raises `Refused` 409 in the older of two polls, as soon as the newer begins to wait."""
        if self.webhook_url:
            raise Refused(409, _WEBHOOK)
        self._allow(allowed)
        limit, timeout = min(max(limit, 1), 100), min(max(timeout, 0), MAX_TIMEOUT_SECONDS)
        if self.real_pacing:
            limit, timeout = self._pace(offset, limit, timeout)
        deadline = time.monotonic() + timeout
        page = self._page(offset, limit)
        while not page and (left := deadline - time.monotonic()) > 0:
            await self._wait(left)
            page = self._page(offset, limit)
        return page

    def _allow(self, allowed: Iterable[str] | None) -> None:
        if allowed is None:
            return  # as it was
        self.asked = [str(kind).lower() for kind in allowed]
        self.kinds = frozenset(self.asked) & (DEFAULT_KINDS | ASKED_FOR_KINDS) or DEFAULT_KINDS

    def _pace(self, offset: int, limit: int, timeout: int) -> tuple[int, int]:
        """The real server slows down a bot that asks for the same offset again at once."""
        (last, at), now = self._last_poll, time.monotonic()
        self._last_poll = (offset, now)
        if offset == last and now < at + 3.0:
            timeout = max(timeout, 3)
        if offset == last and now < at + 0.5:
            limit = 1
        return limit, timeout

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

    def end_poll(self, words: str) -> None:
        """Answer the waiting poll with a conflict, if there is one."""
        if self._poll and not self._poll.done():
            self._poll.set_exception(Refused(409, words))
        self._poll = None

    def _page(self, offset: int, limit: int) -> list[bytes]:
        self._forget_old()
        if offset < 0:
            while len(self._pending) > -offset:
                self._pending.popleft()
        elif offset <= self._next_id + _FUTURE:
            while self._pending and self._pending[0].update_id < offset:
                self._confirm(self._pending.popleft())
        again, self._again = self._again, []
        page = [*again, *(self._pending[index] for index in range(min(limit, len(self._pending))))]
        return [pending.wire for pending in page[:limit]]

    def _confirm(self, pending: _Pending) -> None:
        if self._repeat_later.pop(pending.update_id, None):
            self._again.append(pending)

    def _forget_old(self) -> None:
        horizon = time.time() - KEPT_SECONDS
        while self._pending and self._pending[0].born < horizon:
            self._pending.popleft()

    def age(self, seconds: float) -> None:
        """Let time pass for what is waiting: after 24 h it is gone."""
        for pending in {id(one): one for one in self._pending}.values():
            pending.born -= seconds

    def restart_ids(self, at: int | None = None) -> int:
        """What happens after a week of silence: the queue is empty and ids go on from a random, here lower, number."""
        self._pending.clear()
        self._next_id = at if at is not None else random.randrange(1, max(2, self._next_id - 1000))  # noqa: S311
        return self._next_id

    def drop(self) -> None:
        self._pending.clear()

    def set_webhook(self, url: str) -> None:
        self.webhook_url = url
        if url:
            self.end_poll("Conflict: terminated by setWebhook request")
