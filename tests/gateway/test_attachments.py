"""Bytes are brought in once, and a failure is told."""

import asyncio
from pathlib import Path

import pytest

from gateway.attachments import Attachments
from gateway.errors import MediaUnavailable
from gateway.messages import Location, Media, Part, Text
from gateway.store import inbox, people
from gateway.store.connection import Transaction
from gateway.store.database import Database
from gateway.store.inbox import Accepted
from gateway.store.media import MediaFiles
from tests.gateway.scene import ACCOUNT, inbound, rows

NOTE = Media(kind="file", name="note.txt", mime="text/plain", reference="n1")
PHOTO = Media(kind="image", name="cat.png", mime="image/png", reference="p1")


class Store:
    """Where a platform keeps its files."""

    def __init__(self, **files: bytes) -> None:
        self.files = files
        self.asked: list[str] = []

    async def fetch(self, account: str, media: Media) -> bytes:
        self.asked.append(media.reference)
        if media.reference not in self.files:
            raise MediaUnavailable("it is no longer there")
        return self.files[media.reference]


async def accepted(db: Database, *parts: Part) -> Accepted:
    message = inbound(parts=parts)

    def unit(tx: Transaction) -> Accepted:
        person = people.recognise(tx, ACCOUNT, message.sender, role="owner")
        inbox_id = inbox.insert(tx, message, person_id=person)
        assert inbox_id is not None
        return Accepted(
            id=inbox_id,
            key=message.key,
            kind="message",
            message_id="1",
            sender_id="42",
            sender_name="Ada",
            person_id=person,
            role="owner",
            parts=message.parts,
        )

    return await db.write(unit)


def attachments(db: Database, store: Store, folder: Path) -> Attachments:
    return Attachments(db=db, files=MediaFiles({"file": folder, "image": folder}), fetch=store.fetch)


async def test_what_was_fetched_is_kept_so_that_a_resume_fetches_nothing(db: Database, tmp_path: Path) -> None:
    store = Store(n1=b"buy milk", p1=b"meow")
    bring = attachments(db, store, tmp_path / "cache")
    message = await accepted(db, Text(text="see"), NOTE, PHOTO, Location(latitude=1, longitude=2))
    brought = await bring.bring_in(message)
    assert [type(part) for part in brought.parts] == [Text, Media, Media, Location]
    assert brought.text == "see\n[file note.txt]\n[image cat.png]\n[location 1, 2]"
    assert await bring.bring_in(brought) is brought
    assert store.asked == ["n1", "p1"]
    assert await rows(db, "SELECT kind, mime, size_bytes FROM media ORDER BY kind") == [
        ("file", "text/plain", 8),
        ("image", "image/png", 4),
    ]
    [(stored,)] = await rows(db, "SELECT parts FROM inbox")
    assert "sha256" in stored


async def test_one_that_fails_is_named_and_the_others_come(db: Database, tmp_path: Path) -> None:
    store = Store(p1=b"meow")
    bring = attachments(db, store, tmp_path / "cache")
    brought = await bring.bring_in(await accepted(db, NOTE, PHOTO))
    assert brought.text == "[file note.txt could not be read: it is no longer there]\n[image cat.png]"
    assert await bring.bring_in(brought) is brought
    assert len(store.asked) == 2


async def test_one_that_takes_too_long_is_left(db: Database, tmp_path: Path) -> None:
    async def never(account: str, media: Media) -> bytes:
        await asyncio.Event().wait()
        return b""

    bring = Attachments(db=db, files=MediaFiles({"file": tmp_path}), fetch=never, timeout_seconds=0.01)
    brought = await bring.bring_in(await accepted(db, NOTE))
    assert brought.text == "[file note.txt could not be read: it took too long]"


async def test_a_cache_that_cannot_be_written_is_told(db: Database, tmp_path: Path) -> None:
    in_the_way = tmp_path / "cache"
    in_the_way.write_text("a file where the folder should be")
    brought = await attachments(db, Store(n1=b"x"), in_the_way).bring_in(await accepted(db, NOTE))
    assert "could not be read" in brought.text


async def test_a_message_without_files_asks_nobody_and_writes_nothing(db: Database, tmp_path: Path) -> None:
    store = Store()
    message = await accepted(db, Text(text="hello"))
    assert await attachments(db, store, tmp_path).bring_in(message) is message
    assert store.asked == []


async def test_giving_up_the_turn_gives_up_the_fetch(db: Database, tmp_path: Path) -> None:
    waiting = asyncio.Event()

    async def slow(account: str, media: Media) -> bytes:
        waiting.set()
        await asyncio.Event().wait()
        return b""

    bring = Attachments(db=db, files=MediaFiles({"file": tmp_path}), fetch=slow)
    task = asyncio.create_task(bring.bring_in(await accepted(db, NOTE)))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
