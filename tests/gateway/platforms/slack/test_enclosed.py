"""Files on Slack: uploaded behind the words, found again by name and size, and what stays behind in words."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.errors import DeliveryInDoubt, DeliveryRejected, PlatformUnavailable
from gateway.messages import Address, Media, Part, Receipt, Text
from gateway.platforms.slack.platform import SlackPlatform
from gateway.store.db.database import Database
from playground.slack.server import SlackServer
from tests.gateway.platforms.enclosed import CONTENTS, Shelf, deliver_the_rest, until_cut_off
from tests.gateway.platforms.slack.scene import Gate, bot_of, listening, outbound
from tests.gateway.scene import soon


class Scene:
    def __init__(self, server: SlackServer, platform: SlackPlatform, channel: str, shelf: Shelf) -> None:
        self.server = server
        self.platform = platform
        self.channel = channel
        self.shelf = shelf

    async def send_all(self, *parts: Part, **fields: Any) -> list[Receipt]:
        receipts: list[Receipt] = []
        while not receipts or receipts[-1].more:
            message = outbound(**{"chat": self.channel, "parts": parts, "piece": len(receipts), **fields})
            receipts.append(await soon(self.platform.send(message)))
        return receipts

    async def find(self, *parts: Part, **fields: Any) -> Receipt | None:
        return await soon(self.platform.find_sent(outbound(**{"chat": self.channel, "parts": parts, **fields})))

    def shown(self) -> list[dict[str, Any]]:
        return [one["message"] for one in self.server.show(self.channel) if one["by_bot"]]

    def content(self, message: dict[str, Any]) -> bytes | None:
        [file] = message["files"]
        return self.server.world.files[file["id"]].content


@pytest.fixture
async def scene(server: SlackServer, gate: Gate, general: str) -> AsyncIterator[Scene]:
    shelf = Shelf()
    platform = bot_of(server, load=shelf.load)
    async with listening(platform, gate, server):
        yield Scene(server, platform, general, shelf)


# What is sent.


@pytest.mark.parametrize("name", ["plot.png", "notes.txt"])
async def test_every_kind_of_file_is_uploaded(scene: Scene, name: str) -> None:
    [receipt] = await scene.send_all(scene.shelf.put(name))
    [message] = scene.shown()
    assert receipt.message_id == message["ts"]
    assert [(file["name"], file["title"]) for file in message["files"]] == [(name, name)]
    assert scene.content(message) == CONTENTS[name][2]


async def test_files_follow_the_words_into_the_thread(scene: Scene, ada: str) -> None:
    asked = scene.server.people.send_text(scene.channel, ada, "why?")["ts"]
    receipts = await scene.send_all(
        Text(text="**Here.**"), scene.shelf.put("plot.png"), scene.shelf.put("notes.txt"), thread=asked, choices=["Ok"]
    )
    words, *files = scene.shown()
    assert [receipt.message_id for receipt in receipts] == [message["ts"] for message in (words, *files)]
    assert all(message["thread_ts"] == asked for message in (words, *files))
    assert [block["type"] for block in words["blocks"]] == ["markdown", "actions"]
    assert [message["files"][0]["name"] for message in files] == ["plot.png", "notes.txt"]


async def test_buttons_below_a_file_alone_stand_below_its_name(scene: Scene) -> None:
    await scene.send_all(scene.shelf.put("plot.png"), choices=["Ok"])
    words, picture = scene.server.show(scene.channel)
    assert (words["text"], words["buttons"]) == ("plot.png", ["Ok"])
    assert picture["message"]["files"]


async def test_words_take_the_place_of_a_draft_and_the_file_follows(scene: Scene) -> None:
    [draft] = await scene.send_all(Text(text="let me see"))
    await scene.send_all(Text(text="A plot."), scene.shelf.put("plot.png"), edits=draft.message_id)
    words, picture = scene.server.show(scene.channel)
    assert (words["text"], bool(picture["message"].get("files"))) == ("A plot.", True)


async def test_a_large_file_arrives_whole(scene: Scene) -> None:
    content = bytes(range(256)) * 10_000
    await scene.send_all(scene.shelf.put("film.mp4", content))
    [message] = scene.shown()
    assert scene.content(message) == content


# What is refused.


@pytest.mark.parametrize("method", ["files.getUploadURLExternal", "files.completeUploadExternal"])
@pytest.mark.parametrize(
    "error", ["file_uploads_disabled", "storage_limit_reached", "file_type_not_allowed", "missing_scope"]
)
async def test_a_file_that_slack_refuses_is_told_in_words(scene: Scene, method: str, error: str) -> None:
    scene.server.faults.add("fail", method, description=error)
    await scene.send_all(Text(text="Notes."), scene.shelf.put("notes.txt"))
    assert scene.server.texts(scene.channel) == [
        "Notes.",
        "`notes.txt` could not be sent: Slack does not accept it here.",
    ]


async def test_a_file_that_is_no_longer_kept_is_told_of(scene: Scene) -> None:
    await scene.send_all(Media(kind="file", name="a.txt", sha256="0" * 64))
    assert scene.server.texts(scene.channel) == ["`a.txt` could not be sent: it is no longer kept here."]


async def test_a_thread_that_is_gone_is_left(scene: Scene) -> None:
    scene.server.faults.add("fail", "files.completeUploadExternal", description="invalid_thread_ts")
    await scene.send_all(scene.shelf.put("notes.txt"), thread="1700000000.000100")
    [message] = scene.shown()
    assert "thread_ts" not in message
    assert scene.content(message) == b"my notes"


# Never twice.


@pytest.mark.parametrize("method", ["files.getUploadURLExternal", "upload"])
async def test_what_is_cut_before_the_end_of_an_upload_is_seen_by_nobody(scene: Scene, method: str) -> None:
    scene.server.faults.add("cut_after", method)
    with pytest.raises(PlatformUnavailable):
        await scene.send_all(scene.shelf.put("notes.txt"))
    assert scene.shown() == []
    await scene.send_all(scene.shelf.put("notes.txt"))
    assert len(scene.shown()) == 1


async def test_a_file_in_doubt_is_found_by_its_name_and_size(scene: Scene, ada: str) -> None:
    asked = scene.server.people.send_text(scene.channel, ada, "notes?")["ts"]
    parts = (Text(text="Here:"), scene.shelf.put("notes.txt"))
    words, _ = await scene.send_all(Text(text="Here:"), scene.shelf.put("plot.png"), answers=(asked,))
    scene.server.faults.add("cut_after", "files.completeUploadExternal")
    with pytest.raises(DeliveryInDoubt):
        await scene.send_all(*parts, answers=(asked,), piece=1)
    found = await scene.find(*parts, answers=(asked,), piece=1, after=words.message_id)
    assert found == Receipt(message_id=scene.shown()[-1]["ts"])


async def test_a_kill_while_a_file_is_sent_brings_it_once(scene: Scene, ada: str, db: Database) -> None:
    asked = scene.server.people.send_text(scene.channel, ada, "notes?")["ts"]
    address = Address(account="slack", chat=scene.channel, reply_to=asked)
    parts = (Text(text="Here:"), scene.shelf.put("notes.txt"), scene.shelf.put("plot.png"))
    scene.server.faults.add("hang_after", "files.completeUploadExternal")
    await until_cut_off(db, scene.platform, address, parts, lambda: scene.server.wait_for(lambda: scene.shown()[1:]))
    assert await deliver_the_rest(db, scene.platform) == [("answer", "sent")]
    assert [len(message.get("files", ())) for message in scene.shown()] == [0, 1, 1]


async def test_a_file_that_did_not_arrive_is_not_found(scene: Scene, ada: str) -> None:
    asked = scene.server.people.send_text(scene.channel, ada, "notes?")["ts"]
    [older] = await scene.send_all(scene.shelf.put("notes.txt", b"older notes"), answers=(asked,))
    assert await scene.find(scene.shelf.put("notes.txt"), answers=(asked,)) is None
    [same] = await scene.send_all(scene.shelf.put("notes.txt"), answers=(asked,))
    assert await scene.find(scene.shelf.put("notes.txt"), answers=(asked,), after=same.message_id) is None
    assert older != same


async def test_a_file_that_was_told_of_in_words_is_found_too(scene: Scene) -> None:
    gone = Media(kind="file", name="a.txt", sha256="0" * 64)
    [receipt] = await scene.send_all(gone)
    assert await scene.find(gone) == receipt


async def test_a_closed_channel_is_told_as_such(scene: Scene) -> None:
    scene.server.faults.add("fail", "files.completeUploadExternal", description="is_archived")
    with pytest.raises(DeliveryRejected, match="archived"):
        await scene.send_all(scene.shelf.put("notes.txt"))
