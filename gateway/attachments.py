"""Fetches what came attached to accepted messages, before their turn. A failure is told, never fatal."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

import structlog

from gateway.errors import MediaUnavailable
from gateway.messages import Media, Part
from gateway.store import inbox, media
from gateway.store.connection import Transaction
from gateway.store.database import Database
from gateway.store.inbox import Accepted
from gateway.store.media import MediaFiles

log = structlog.get_logger()

Fetch = Callable[[str, Media], Awaitable[bytes]]
"""Account and part to bytes; raises MediaUnavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachments:
    db: Database
    files: MediaFiles
    fetch: Fetch
    timeout_seconds: float = 60.0

    async def bring_in(self, message: Accepted) -> Accepted:
        """The message with its bytes in our caches, or with the reason why not; kept, so a resume fetches nothing."""
        if not any(_is_outside(part) for part in message.parts):
            return message
        parts = tuple(await asyncio.gather(*(self._settle(message.key.account_name, part) for part in message.parts)))

        def unit(tx: Transaction) -> None:
            for part in parts:
                if isinstance(part, Media) and part.sha256:
                    media.record(tx, sha256=part.sha256, kind=part.kind, mime=part.mime, size_bytes=part.size_bytes)
            inbox.set_parts(tx, message.id, parts)

        await self.db.write_when_possible(unit)
        return replace(message, parts=parts)

    async def _settle(self, account: str, part: Part) -> Part:
        if not isinstance(part, Media) or not _is_outside(part):
            return part
        try:
            async with asyncio.timeout(self.timeout_seconds):
                content = await self.fetch(account, part)
            sha256 = await asyncio.to_thread(self.files.save, part.kind, content)
        except (MediaUnavailable, TimeoutError, OSError) as error:
            problem = "it took too long" if isinstance(error, TimeoutError) else str(error)
            log.warning("attachment could not be fetched", kind=part.kind, problem=problem)
            return replace(part, problem=problem)
        return replace(part, sha256=sha256, size_bytes=len(content))


def has_outside_files(messages: Iterable[Accepted]) -> bool:
    return any(_is_outside(part) for message in messages for part in message.parts)


def _is_outside(part: Part) -> bool:
    return isinstance(part, Media) and not part.sha256 and not part.problem
