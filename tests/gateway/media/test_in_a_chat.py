"""Files in a chat: whatever is in them, it goes on, and so do the others."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.messages import Media, Text
from gateway.store.db.database import Database
from gateway.store.search import EVERYTHING, search
from tests.gateway.media import samples
from tests.gateway.media.test_hostile_files import bomb, pdf_of_deep_arrays, pdf_with_content, zip_bomb
from tests.gateway.scene import PacedModel, inbound, make_small, running

FILES: dict[str, Callable[[], bytes]] = {
    "bomb.zip": lambda: zip_bomb("big.txt"),
    "bomb.docx": lambda: zip_bomb("word/document.xml", start=b"<w>"),
    "bomb.pdf": lambda: pdf_with_content(bomb()),
    "deep.pdf": pdf_of_deep_arrays,
    "huge.png": lambda: samples.png(50_000, 50_000),
    "cut.docx": lambda: samples.docx("Hello")[:100],
    "nothing.txt": lambda: b"",
}


class EagerModel(PacedModel):
    """Answers everything at once with the first words of what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self._gates.default_factory = _open


def _open() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


def bytes_under(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow  # makes and reads bombs of a hundred megabytes
async def test_hostile_files_are_told_of_and_the_chat_goes_on(db: Database) -> None:
    contents = {name: make() for name, make in FILES.items()}

    other_was_answered = asyncio.Event()

    async def fetch(account: str, media: Media) -> bytes:
        await other_was_answered.wait()
        return contents[media.name]

    model = EagerModel()
    async with running(make_small(db, model, fetch=fetch)) as small:
        files = tuple(Media(kind="file", name=name, reference=name) for name in contents)
        await small.say(inbound(parts=(Text(text="look"), *files), message_id="1", chat="hostile"))
        await small.say(inbound("hello", message_id="2", chat="other"))
        assert await small.answer() == "re: hello"
        other_was_answered.set()
        notice, answer = [(await asyncio.wait_for(small.platform.arrived.get(), 100)).text for _ in range(2)]
        assert answer.startswith("re: look\n[file bomb.zip, ZIP archive, ")
        assert {name for name in contents if f"I could not read {name}: " in notice} == set(contents)
        await small.say(inbound("and now?", message_id="3", chat="hostile", sent_ms=2))
        assert await small.answer() == "re: and now?"
    assert bytes_under(db.path.parent / "cache") <= sum(map(len, contents.values()))


async def test_the_words_of_a_document_are_shown_to_the_model_and_found_by_a_search(db: Database) -> None:
    async def fetch(account: str, media: Media) -> bytes:
        return samples.docx("The passphrase is zanzibar.")

    model = EagerModel()
    async with running(make_small(db, model, fetch=fetch)) as small:
        await small.say(inbound(parts=(Text(text="read this"), Media(kind="file", name="a.docx", reference="r"))))
        answer = await small.answer()
    assert "> The passphrase is zanzibar." in answer
    windows = await db.read(lambda tx: search(tx, "zanzibar", reader=EVERYTHING))
    [hit] = [message for window in windows for message in window.messages if message.role == "user"]
    assert "zanzibar" in hit.excerpt
    assert "untrusted" not in hit.excerpt
