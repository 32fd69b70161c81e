"""The connections of one run: a pool for sending, and one line on which we listen."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from telegram import Bot

from gateway.platforms.telegram.request import AiohttpRequest

_MOST_AT_ONCE = 100  # sends, signs of typing and downloads together; more of them wait
_TRANSPORT_GRACE_SECONDS = 20.0  # our own clock, set to less, is the one that counts


class ListeningBot(Bot):
    """python-telegram-bot's, with updates as they came.

    Its own `get_updates` takes a page apart as a whole: one update that it cannot read costs all the others, and
    goes into the log with every text in it.
    """

    async def updates(self, offset: int | None, kinds: Sequence[str], *, wait_seconds: int) -> object:
        asked = {"offset": offset, "timeout": wait_seconds, "allowed_updates": kinds}
        page: object = await self._post("getUpdates", asked, read_timeout=wait_seconds + _TRANSPORT_GRACE_SECONDS)
        return page


class Line:
    def __init__(self, token: str, api_url: str) -> None:
        root = api_url.rstrip("/")
        self._requests = (AiohttpRequest(connections=1), AiohttpRequest(connections=_MOST_AT_ONCE))
        self.bot = ListeningBot(
            token,
            base_url=f"{root}/bot",
            base_file_url=f"{root}/file/bot",
            get_updates_request=self._requests[0],
            request=self._requests[1],
        )
        self._holders = 0

    @asynccontextmanager
    async def held(self) -> AsyncIterator[ListeningBot]:
        """Whoever leaves last closes it: a send that is under way when listening fails may still get its answer."""
        if not self._holders:
            for request in self._requests:
                await request.initialize()
        self._holders += 1
        try:
            yield self.bot
        finally:
            self._holders -= 1
            if not self._holders:
                for request in self._requests:
                    await request.shutdown()

    async def download(self, address: str, max_bytes: int) -> bytes:
        return await self._requests[1].download(address, max_bytes)
