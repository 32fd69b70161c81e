"""Files on Telegram: each as what it is, refused ones as documents, and those that stay behind in words."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.errors import DeliveryInDoubt, GatewayError, PlatformUnavailable
from gateway.messages import Address, Media, Part, Receipt, Text
from gateway.store import outbox
from gateway.store.db.database import Database
from playground.telegram.server import TelegramServer
from tests.gateway.platforms.enclosed import CONTENTS, Shelf, deliver_the_rest, png, until_cut_off
from tests.gateway.platforms.telegram.scene import Gate, bot_of, listening, outbound
from tests.gateway.scene import rows, soon

ADA = 7


class Scene:
    def __init__(self, server: TelegramServer) -> None:
        self.server = server
        self.shelf = Shelf()
        self.platform = bot_of(server, load=self.shelf.load)

    async def send(self, *parts: Part, **fields: Any) -> Receipt:
        return await soon(self.platform.send(outbound(parts=parts, **fields)))

    async def send_all(self, *parts: Part, **fields: Any) -> list[Receipt]:
        receipts: list[Receipt] = []
        while not receipts or receipts[-1].more:
            receipts.append(await self.send(*parts, piece=len(receipts), **fields))
        return receipts

    def shown(self, chat: int = ADA) -> list[dict[str, Any]]:
        return [one["message"] for one in self.server.show(chat) if one["by_bot"]]

    def content(self, message: dict[str, Any], kind: str) -> bytes | None:
        file = message[kind][-1] if kind == "photo" else message[kind]
        return self.server.world.files[file["file_id"]].content

    def refuse(self, method: str, words: str, *, code: int = 400) -> None:
        self.server.faults.add("fail", method, status=code, description=f"Bad Request: {words}")


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with TelegramServer() as server:
        server.people.make_user("Ada", id=ADA)
        made = Scene(server)
        async with listening(made.platform, Gate()):
            yield made


# As what it is sent.


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("plot.png", "photo"),
        ("photo.jpg", "photo"),
        ("cat.gif", "animation"),
        ("old.bmp", "document"),
        ("note.ogg", "voice"),
        ("vorbis.ogg", "document"),
        ("song.mp3", "audio"),
        ("song.wav", "document"),
        ("film.mp4", "video"),
        ("film.webm", "document"),
        ("notes.txt", "document"),
    ],
)
async def test_each_kind_of_file_is_shown_as_what_it_is(scene: Scene, name: str, kind: str) -> None:
    receipt = await scene.send(scene.shelf.put(name))
    [message] = scene.shown()
    assert receipt == Receipt(message_id=str(message["message_id"]))
    assert scene.content(message, kind) == CONTENTS[name][2]
    if kind in ("document", "audio", "video"):
        assert message[kind]["file_name"] == name


async def test_one_picture_takes_few_words_along(scene: Scene) -> None:
    picture = scene.shelf.put("plot.png")
    [receipt] = await scene.send_all(Text(text="A **plot** for you."), picture, choices=["Thanks"])
    [message] = scene.shown()
    assert message["caption"] == "A plot for you."
    assert [entity["type"] for entity in message["caption_entities"]] == ["bold"]
    assert scene.server.show(ADA)[-1]["buttons"] == [["Thanks"]]
    assert receipt.message_id == str(message["message_id"])
    await scene.send_all(Text(text="x" * 1_024), picture)
    assert len(scene.shown()[-1]["caption"]) == 1_024


@pytest.mark.parametrize("text", ["x" * 1_025, "🙂" * 513, "word " * 2_000])
async def test_many_words_come_first_and_the_picture_silently_behind_them(scene: Scene, text: str) -> None:
    receipts = await scene.send_all(Text(text=text), scene.shelf.put("plot.png"))
    *words, picture = scene.shown()
    assert "".join(one["text"] for one in words).replace(" ", "") == text.replace(" ", "")
    assert "photo" in picture
    assert "caption" not in picture
    assert len(receipts) == len(words) + 1
    assert scene.server.called("sendMessage")[0].params.get("disable_notification") in (None, False, "false")
    assert scene.server.called("sendPhoto")[0].params["disable_notification"] in (True, "true")


async def test_several_files_follow_the_words_in_their_order(scene: Scene) -> None:
    files = [scene.shelf.put(name) for name in ("plot.png", "note.ogg", "notes.txt")]
    receipts = await scene.send_all(Text(text="Here they are."), *files)
    assert [receipt.more for receipt in receipts] == [True, True, True, False]
    first, *others = scene.shown()
    assert first["text"] == "Here they are."
    assert [next(kind for kind in ("photo", "voice", "document") if kind in one) for one in others] == [
        "photo",
        "voice",
        "document",
    ]


async def test_a_group_is_quoted_once(scene: Scene) -> None:
    group = scene.server.people.make_group("Engines", members=[ADA])["id"]
    asked = scene.server.people.send_text(group, ADA, "/help", deliver=True)["message_id"]
    await scene.send_all(scene.shelf.put("notes.txt"), scene.shelf.put("note.ogg"), chat=group, reply_to=asked)
    first, second = scene.shown(group)
    assert first["reply_to_message"]["message_id"] == asked
    assert "reply_to_message" not in second


async def test_a_topic_is_followed(scene: Scene) -> None:
    forum = scene.server.people.make_supergroup("Engines", members=[ADA], forum=True)["id"]
    topic = scene.server.people.make_topic(forum, ADA, "Valves")
    await scene.send(scene.shelf.put("notes.txt"), chat=forum, thread=topic)
    assert scene.shown(forum)[-1]["message_thread_id"] == topic
    await scene.send(scene.shelf.put("notes.txt"), chat=forum, thread="987")
    assert "message_thread_id" not in scene.shown(forum)[-1]


async def test_words_take_the_place_of_a_draft_and_files_follow(scene: Scene) -> None:
    draft = await scene.send(Text(text="let me see"))
    await scene.send_all(Text(text="A plot."), scene.shelf.put("plot.png"), edits=draft.message_id)
    words, picture = scene.shown()
    assert (words["text"], "photo" in picture) == ("A plot.", True)
    await scene.send_all(scene.shelf.put("plot.png"), edits=draft.message_id, key="k2")
    assert scene.shown()[0]["text"] == "plot.png"


# What is refused.


@pytest.mark.parametrize(
    "content",
    [png(9_000, 2_000), png(3_000, 100), png(more=bytes(11_000_000)), b"\x89PNG\r\n\x1a\n"],
    ids=["large", "long", "heavy", "broken"],
)
async def test_a_picture_that_is_no_photo_is_sent_as_it_is(scene: Scene, content: bytes) -> None:
    await scene.send_all(Text(text="**Look**"), scene.shelf.put("plot.png", content))
    [message] = scene.shown()
    assert scene.content(message, "document") == content
    assert message["caption"] == "Look"
    assert [entity["type"] for entity in message["caption_entities"]] == ["bold"]


@pytest.mark.parametrize(
    ("name", "method", "words"),
    [
        ("plot.png", "sendPhoto", "PHOTO_INVALID_DIMENSIONS"),
        ("plot.png", "sendPhoto", "PHOTO_SAVE_FILE_INVALID"),
        ("plot.png", "sendPhoto", "IMAGE_PROCESS_FAILED"),
        ("plot.png", "sendPhoto", "not enough rights to send photos to the chat"),
        ("plot.png", "sendPhoto", "CHAT_SEND_PHOTOS_FORBIDDEN"),
        ("note.ogg", "sendVoice", "VOICE_MESSAGES_FORBIDDEN"),
        ("film.mp4", "sendVideo", "wrong file type"),
        ("cat.gif", "sendAnimation", "something that nobody has seen yet"),
        ("song.mp3", "sendAudio", "wrong type of the file"),
    ],
)
async def test_what_is_refused_as_what_it_is_goes_as_a_document(
    scene: Scene, name: str, method: str, words: str
) -> None:
    scene.refuse(method, words)
    await scene.send(scene.shelf.put(name))
    [message] = scene.shown()
    assert scene.content(message, "document") == CONTENTS[name][2]


@pytest.mark.parametrize("words", ["not enough rights to send documents to the chat", "file is too big"])
async def test_what_is_refused_as_a_document_too_is_told_in_words(scene: Scene, words: str) -> None:
    scene.refuse("sendPhoto", "PHOTO_INVALID_DIMENSIONS")
    scene.refuse("sendDocument", words)
    await scene.send_all(Text(text="A **plot**."), scene.shelf.put("plot.png"))
    [message] = scene.shown()
    assert message["text"] == "A plot.\n\nplot.png could not be sent: Telegram does not accept it here."
    assert [entity["type"] for entity in message["entities"]] == ["bold", "url"][:1]


async def test_a_server_that_takes_no_such_size_is_believed(scene: Scene) -> None:
    scene.server.faults.add("fail", "sendDocument", status=413, description="Request Entity Too Large")
    await scene.send(scene.shelf.put("notes.txt"))
    assert scene.shown()[-1]["text"] == "notes.txt could not be sent: Telegram does not accept it here."


async def test_more_than_telegram_takes_is_not_tried(scene: Scene) -> None:
    await scene.send(scene.shelf.put("notes.txt", bytes(50_000_001)))
    assert "it is larger than 50 MB" in scene.shown()[-1]["text"]
    assert not scene.server.called("sendDocument")


async def test_markup_that_is_refused_is_left_out_of_the_caption(scene: Scene) -> None:
    scene.refuse("sendPhoto", "can't parse entities: ENTITY_BOUNDS_INVALID")
    await scene.send_all(Text(text="**Look**"), scene.shelf.put("plot.png"))
    [message] = scene.shown()
    assert message["caption"] == "Look"
    assert "photo" in message
    assert "caption_entities" not in message


# What goes wrong on the way.


async def test_a_file_that_may_have_arrived_is_in_doubt_and_not_sent_again(scene: Scene) -> None:
    scene.server.faults.add("cut_after", "sendPhoto")
    with pytest.raises(DeliveryInDoubt):
        await scene.send(scene.shelf.put("plot.png"))
    assert len(scene.shown()) == 1


async def test_a_kill_while_a_file_is_sent_asks_instead_of_sending_it_again(scene: Scene, db: Database) -> None:
    address = Address(account="telegram", chat=str(ADA))
    parts = (Text(text="Here:"), scene.shelf.put("notes.txt"))
    scene.server.faults.add("hang_after", "sendDocument")
    await until_cut_off(db, scene.platform, address, parts, lambda: scene.server.wait_for(lambda: scene.shown()[1:]))
    assert await deliver_the_rest(db, scene.platform) == [("answer", "in_doubt"), ("notice", "sent")]
    words, file, notice = scene.server.show(ADA)
    assert (words["text"], "document" in file["message"]) == ("Here:", True)
    assert notice["buttons"] == [["Send it again"]]
    [(key,)] = await rows(db, "SELECT key FROM outbox WHERE kind = 'answer'")
    await db.write(lambda tx: outbox.send_again(tx, key, account="telegram", chat=str(ADA)))
    await deliver_the_rest(db, scene.platform)
    assert ["document" in one for one in scene.shown()] == [False, True, False, True]  # the file alone, not its words


async def test_a_file_that_never_left_can_be_sent_again(scene: Scene) -> None:
    scene.server.faults.add("fail", "sendPhoto", retry_after=3)
    with pytest.raises(PlatformUnavailable) as caught:
        await scene.send(scene.shelf.put("plot.png"))
    assert caught.value.retry_after == 3
    await scene.send(scene.shelf.put("plot.png"))
    assert len(scene.shown()) == 1


async def test_few_files_are_held_at_once_and_the_others_come_again(scene: Scene) -> None:
    files = [scene.shelf.put("notes.txt", f"{number}".encode()) for number in range(6)]
    arrived, go = asyncio.Semaphore(0), asyncio.Event()

    async def load(media: Media) -> bytes | None:
        arrived.release()
        await go.wait()
        return await scene.shelf.load(media)

    scene.platform._uploads._load = load
    sends = [asyncio.create_task(scene.send(media, key=f"k{place}")) for place, media in enumerate(files)]
    for _ in range(4):
        await soon(arrived.acquire())
    refused = [send for send in sends if send.done()]
    go.set()
    results = await soon(asyncio.gather(*sends, return_exceptions=True))
    assert len(refused) == 2
    problems = [result for result in results if isinstance(result, GatewayError)]
    assert [(type(one), str(one)) for one in problems] == [(PlatformUnavailable, "other files are being sent")] * 2
    assert len(scene.shown()) == 4
