"""People send files to a real gateway: what can be read is read, what cannot is told, and the chat goes on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playground.model_script import say
from tests.gateway.media import samples
from tests.journeys.telegram_stage import OWNER, Stage, stage

SEEING = "gpt-4o"


@asynccontextmanager
async def seeing(tmp_path: Path) -> AsyncIterator[Stage]:
    """With a model that is known to see."""
    async with stage(tmp_path, config={"model": {"name": SEEING}}) as on:
        on.model.models = (SEEING,)
        yield on


def pictures(body: dict[str, Any]) -> list[str]:
    """The beginnings of the pictures that one request shows."""
    content = [
        part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]
    ]
    return [part["image_url"]["url"][:22] for part in content if part["type"] == "image_url"]


async def answered(on: Stage, words: str, times: int = 1) -> None:
    """Until the model has said so for this often."""
    await on.telegram.wait_for(lambda: on.telegram.texts(OWNER).count(words) >= times, seconds=30)


async def test_documents_are_read_and_pictures_are_seen(tmp_path: Path) -> None:
    async with seeing(tmp_path) as on, on.gateway():
        on.person(id=OWNER)
        on.people.send_media(OWNER, OWNER, "document", samples.pdf_of("Quarterly tulips"), name="report.pdf")
        await answered(on, "Noted.")
        shown = on.model.newest_words()
        assert "[file report.pdf, PDF document, " in shown
        assert "> Quarterly tulips" in shown

        # A wrong name and a caption.
        letter = samples.docx("Dear Ada,", "yours, Bob")
        on.people.send_media(OWNER, OWNER, "document", letter, name="letter.jpg", caption="what does he want?")
        await answered(on, "Noted.", 2)
        assert on.model.newest_words().startswith("what does he want?\n[file letter.jpg, Word document, ")
        assert "> Dear Ada,\n> yours, Bob" in on.model.newest_words()

        on.people.send_media(OWNER, OWNER, "photo", samples.jpeg(640, 480), caption="and this?")
        await answered(on, "Noted.", 3)
        assert pictures(on.model.bodies[-1]) == ["data:image/jpeg;base64"]
        assert on.telegram.texts(OWNER) == ["Noted."] * 3
        assert on.model.refusals == []


async def test_a_voice_note_is_told_of_to_the_agent_and_to_its_sender(tmp_path: Path) -> None:
    async with seeing(tmp_path) as on, on.gateway():
        on.person(id=OWNER)
        on.people.send_media(OWNER, OWNER, "voice", samples.OGG, details={"duration": 12})
        said = await on.hear_count(OWNER, 2)
        assert said == ["I could not read voice.ogg: No words were heard in voice.ogg.", "Noted."]
        rings = {call.params["text"]: call.params["disable_notification"] for call in on.telegram.called("sendMessage")}
        assert [rings[text] for text in said] == ["true", "false"]
        assert on.model.newest_words() == "[audio voice.ogg could not be read: No words were heard in voice.ogg]"
        await on.ask(OWNER, "never mind", "Noted.")


async def test_a_sticker_is_described_once(tmp_path: Path) -> None:
    async with seeing(tmp_path) as on, on.gateway():
        on.person(id=OWNER)
        on.model.script(say("A cat waves."), say("Hello, cat!"), say("Again!"))
        first = on.people.send_media(
            OWNER, OWNER, "sticker", samples.webp(), details={"emoji": "👋", "set_name": "Cats"}
        )
        await on.hear(OWNER, "Hello, cat!")
        on.people.send_fields(OWNER, OWNER, {"sticker": first["sticker"]})
        await on.hear(OWNER, "Again!")
        described, *turns = on.model.bodies
        assert pictures(described) == ["data:image/webp;base64"]
        assert [pictures(body) for body in turns] == [[], []]
        assert on.model.newest_words() == "[sticker 👋, from the set Cats: A cat waves.]"
        assert (on.home.path / "sticker_cache.json").stat().st_mode & 0o777 == 0o600
        assert len(on.model.bodies) == 3
        assert on.telegram.texts(OWNER) == ["Hello, cat!", "Again!"]


async def test_an_album_is_one_turn_with_all_its_pictures(tmp_path: Path) -> None:
    async with seeing(tmp_path) as on, on.gateway():
        on.person(id=OWNER)
        items = [{"kind": "photo", "content": samples.jpeg(width, 480)} for width in (640, 641, 642)]
        on.people.send_album(OWNER, OWNER, [{**items[0], "caption": "my garden"}, *items[1:]])
        await answered(on, "Noted.")
        await on.home.until_idle()
        assert len(on.model.bodies) == 1
        assert len(pictures(on.model.bodies[0])) == 3
        assert "my garden" in on.model.words()


async def test_a_model_without_eyes_and_files_that_cannot_be_had_are_told(tmp_path: Path) -> None:
    config = {"media": {"max_file_bytes": 50_000, "max_files_per_message": 1}}
    async with stage(tmp_path, config=config) as on, on.gateway():
        on.person(id=OWNER)
        on.people.send_media(OWNER, OWNER, "photo", samples.jpeg())
        await on.hear(OWNER, "The current model cannot see pictures: it knows of photo.jpg only by name.")
        await answered(on, "Noted.")
        assert "it is not shown to you" in on.model.newest_words()
        on.people.send_media(OWNER, OWNER, "document", b"x" * 60_000, name="long.txt")
        await on.hear(OWNER, "I could not read long.txt: it is larger than")
        await answered(on, "Noted.", 2)
        on.telegram.faults.add("cut_after", "file")
        on.people.send_media(OWNER, OWNER, "document", b"words", name="lost.txt")
        await on.hear(OWNER, "I could not read lost.txt: it could not be fetched from Telegram")
        await answered(on, "Noted.", 3)
        on.people.send_media(OWNER, OWNER, "document", samples.locked_pdf(), name="locked.pdf")
        await on.hear(OWNER, "I could not read locked.pdf: it is locked with a password; please send it without one.")
        await answered(on, "Noted.", 4)
        on.people.send_fields(OWNER, OWNER, {"location": {"latitude": 1.5, "longitude": 2.5}})
        await answered(on, "Noted.", 5)
        assert on.model.newest_words() == "[location 1.5, 2.5]"
        on.people.send_fields(OWNER, OWNER, {"contact": {"phone_number": "+1", "first_name": "Bob"}})
        await answered(on, "Noted.", 6)
        assert on.model.newest_words() == "[contact Bob, +1]"
