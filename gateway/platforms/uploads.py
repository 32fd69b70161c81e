"""What platforms share that send files: which parts of a message are files, and few of them in memory at a time."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from gateway.errors import PlatformUnavailable
from gateway.messages import Media, OutboundMessage, Part, text_of

Load = Callable[[Media], Awaitable[bytes | None]]
"""The bytes of a part, None when they are no longer kept."""

UPLOAD_SECONDS = 1_200.0  # at most; delivery, which knows the size, gives up before that
GONE = "it is no longer kept here"
_AT_ONCE = 4
_BUSY_SECONDS = 1.0


def files_of(message: OutboundMessage) -> tuple[Media, ...]:
    return tuple(part for part in message.parts if isinstance(part, Media) and _is_file(part))


def words_beside(message: OutboundMessage) -> str:
    """What is said beside the files; one that could not be had is told of in words."""
    return text_of(tuple(part for part in message.parts if not _is_file(part)))


def names_of(files: tuple[Media, ...]) -> str:
    return ", ".join(file_name(media) for media in files)


def file_name(media: Media) -> str:
    """By which it is sent: one line, no path, never empty."""
    clean = "".join(mark for mark in media.name if mark.isprintable() and mark not in '/\\"`').strip(". ")
    return clean or media.kind


def not_sent(media: Media, reason: str, *, mark: str = "") -> str:
    """`mark`: what keeps a name from being read as markup."""
    return f"{mark}{file_name(media)}{mark} could not be sent: {reason}."


class Uploads:
    """Each file is held as a whole while it is sent; whoever finds too many of them comes again in a moment."""

    def __init__(self, load: Load | None = None, *, at_once: int = _AT_ONCE) -> None:
        self._load = load
        self._at_once = at_once
        self._held = 0

    @asynccontextmanager
    async def loaded(self, media: Media | None) -> AsyncIterator[bytes | None]:
        """Raises PlatformUnavailable instead of waiting: a send that waits is one that may be in doubt."""
        if media is None or self._load is None:
            yield None
            return
        if self._held >= self._at_once:
            raise PlatformUnavailable("other files are being sent", retry_after=_BUSY_SECONDS)
        self._held += 1
        try:
            yield await self._load(media)
        finally:
            self._held -= 1


def _is_file(part: Part) -> bool:
    return isinstance(part, Media) and bool(part.sha256) and not part.problem
