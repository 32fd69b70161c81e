"""Files that answers enclose: one of each kind, as first bytes and names tell them, and where they are kept."""

import asyncio
import hashlib
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gateway.messages import Address, Media, MediaKind, Part
from gateway.outbound.delivery import Delivery, DeliveryLimits
from gateway.platforms.base import Platform
from gateway.store import outbox
from gateway.store.db.database import Database
from hermes_config.redaction import Redactor
from tests.gateway.scene import rows, soon

Taken = Callable[[], Awaitable[Any]]


def png(width: int = 8, height: int = 8, *, more: bytes = b"") -> bytes:
    """The beginning of one, which is all that anybody looks at here."""
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + more


CONTENTS: dict[str, tuple[MediaKind, str, bytes]] = {
    "plot.png": ("image", "image/png", png()),
    "photo.jpg": ("image", "image/jpeg", b"\xff\xd8\xff\xe0 a photo"),
    "cat.gif": ("image", "image/gif", b"GIF89a a cat"),
    "old.bmp": ("image", "image/bmp", b"BM a picture"),
    "note.ogg": ("audio", "audio/ogg", b"OggS\0\x02 OpusHead a voice"),
    "vorbis.ogg": ("audio", "audio/ogg", b"OggS\0\x02 vorbis music"),
    "song.mp3": ("audio", "audio/mpeg", b"ID3\x03 a song"),
    "song.wav": ("audio", "audio/wav", b"RIFF....WAVE a song"),
    "film.mp4": ("video", "video/mp4", b"\0\0\0\x18ftypmp42 a film"),
    "film.webm": ("video", "video/webm", b"\x1a\x45\xdf\xa3 a film"),
    "notes.txt": ("file", "text/plain", b"my notes"),
}


class Shelf:
    """Where the bytes are; what is taken from it is gone."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def put(self, name: str, content: bytes | None = None) -> Media:
        kind, mime, usual = CONTENTS[name]
        content = usual if content is None else content
        sha256 = hashlib.sha256(content).hexdigest()
        self.contents[sha256] = content
        return Media(kind=kind, name=name, mime=mime, size_bytes=len(content), sha256=sha256)

    async def load(self, media: Media) -> bytes | None:
        return self.contents.get(media.sha256)


async def until_cut_off(
    db: Database, platform: Platform, address: Address, parts: Sequence[Part], taken: Taken
) -> None:
    """Sends until the platform has taken the file and says nothing; then the process is gone, and its row in flight."""
    await db.write(lambda tx: outbox.add(tx, address, parts))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(Delivery(db, platform, lambda: True, DeliveryLimits(), redactor=Redactor()).run())
        await soon(taken())
        task.cancel()
    await db.write(outbox.after_crash)


async def deliver_the_rest(db: Database, platform: Platform) -> list[tuple[str, str]]:
    """What the next process does; gives kinds and states of the rows."""
    delivery = Delivery(db, platform, lambda: True, DeliveryLimits(), redactor=Redactor())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(delivery.run())
        while await rows(db, "SELECT 1 FROM outbox WHERE state IN ('ready', 'sending', 'unsure')"):
            await soon(delivery.flush())
        task.cancel()
    return [(kind, state) for kind, state in await rows(db, "SELECT kind, state FROM outbox ORDER BY id")]
