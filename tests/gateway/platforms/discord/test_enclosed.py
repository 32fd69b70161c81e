"""Files on Discord: one beside few words, several behind them, never twice, and what stays behind in words."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.errors import DeliveryInDoubt, DeliveryRejected
from gateway.messages import Address, Media, Part, Receipt, Text
from gateway.store.db.database import Database
from tests.gateway.platforms.discord.scene import Scene, a_scene, listening
from tests.gateway.platforms.enclosed import CONTENTS, Shelf, deliver_the_rest, until_cut_off


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
async def scene(shelf: Shelf) -> AsyncIterator[Scene]:
    async with a_scene(load=shelf.load) as made, listening(made):
        yield made


async def send_all(scene: Scene, *parts: Part, **fields: Any) -> list[Receipt]:
    receipts: list[Receipt] = []
    while not receipts or receipts[-1].more:
        receipts.append(await scene.send(parts=parts, piece=len(receipts), **fields))
    return receipts


def shown(scene: Scene, where: str = "") -> list[dict[str, Any]]:
    return [one["message"] for one in scene.server.show(where or scene.dm) if one["by_bot"]]


def content(scene: Scene, message: dict[str, Any]) -> bytes:
    [file] = message["attachments"]
    return next(one.content for one in scene.server.world.files.values() if one.path in file["url"])


# What is sent.


@pytest.mark.parametrize("name", ["plot.png", "notes.txt"])
async def test_every_kind_of_file_is_attached(scene: Scene, shelf: Shelf, name: str) -> None:
    [receipt] = await send_all(scene, shelf.put(name))
    [message] = shown(scene)
    assert (receipt.message_id, message["content"]) == (message["id"], "")
    assert message["attachments"][0]["filename"] == name
    assert content(scene, message) == CONTENTS[name][2]


async def test_one_file_takes_a_message_of_words_along(scene: Scene, shelf: Shelf) -> None:
    said = scene.says("hello", where=scene.channel)
    await send_all(
        scene,
        Text(text="My **notes**."),
        shelf.put("notes.txt"),
        chat=scene.channel,
        reply_to=said,
        choices=["Thanks"],
    )
    [message] = shown(scene, scene.channel)
    assert (message["content"], content(scene, message)) == ("My **notes**.", b"my notes")
    assert message["message_reference"]["message_id"] == said
    assert scene.server.show(scene.channel)[-1]["buttons"] == [["Thanks"]]


async def test_several_files_follow_the_words_silently(scene: Scene, shelf: Shelf) -> None:
    receipts = await send_all(scene, Text(text="Here they are."), *(shelf.put(name) for name in CONTENTS))
    words, *files = shown(scene)
    assert len(receipts) == len(CONTENTS) + 1
    assert (words["content"], words["attachments"]) == ("Here they are.", [])
    assert [message["attachments"][0]["filename"] for message in files] == list(CONTENTS)
    assert [bool(message["flags"] & 1 << 12) for message in (words, *files)] == [False] + [True] * len(CONTENTS)


async def test_a_large_file_is_whole_even_when_it_is_sent_a_second_time(scene: Scene, shelf: Shelf) -> None:
    scene.server.faults.add("fail", "createMessage", retry_after=0.05)  # discord.py waits for that, and tries again
    large = shelf.put("film.mp4", bytes(range(256)) * 10_000)
    await send_all(scene, large)
    [message] = shown(scene)
    assert content(scene, message) == bytes(range(256)) * 10_000


# What is refused.


async def test_more_than_the_server_takes_is_told_without_trying(scene: Scene, shelf: Shelf) -> None:
    large = shelf.put("film.mp4", bytes(10 * 1024 * 1024 + 1))
    await send_all(scene, Text(text="A film."), large)
    [message] = shown(scene)
    assert message["content"] == (
        "A film.\n\n`film.mp4` could not be sent: it is larger than 10 MB, the most that Discord accepts here."
    )
    assert len(scene.calls("createMessage")) == 1


@pytest.mark.parametrize(("status", "code"), [(413, 40005), (413, 0), (400, 50035)])
async def test_a_file_that_discord_refuses_is_told_in_words(scene: Scene, shelf: Shelf, status: int, code: int) -> None:
    scene.server.faults.add("fail", "createMessage", status=status, description="no", extra={"code": code})
    await send_all(scene, Text(text="Notes."), shelf.put("notes.txt"))
    [message] = shown(scene)
    assert message["content"] == "Notes.\n\n`notes.txt` could not be sent: Discord does not accept it here."


async def test_a_channel_without_files_gets_words_and_one_without_words_nothing(scene: Scene, shelf: Shelf) -> None:
    scene.people.deny(scene.channel, ["attach_files"])
    await send_all(scene, shelf.put("notes.txt"), chat=scene.channel)
    assert "`notes.txt` could not be sent" in shown(scene, scene.channel)[-1]["content"]
    scene.people.deny(scene.channel, ["attach_files", "send"])
    with pytest.raises(DeliveryRejected, match="may not write"):
        await send_all(scene, shelf.put("notes.txt"), chat=scene.channel, key="k2")


# Never twice.


async def test_a_file_in_doubt_is_dropped_by_its_nonce_when_it_comes_again(scene: Scene, shelf: Shelf) -> None:
    scene.server.faults.add("cut_after", "createMessage")
    with pytest.raises(DeliveryInDoubt):
        await send_all(scene, shelf.put("notes.txt"))
    [receipt] = await send_all(scene, shelf.put("notes.txt"))
    [message] = shown(scene)
    assert receipt.message_id == message["id"]


@pytest.mark.parametrize("name", ["notes.txt", "my (best) notes.txt", "ünï.txt"])
async def test_a_file_that_arrived_is_found_by_its_name_and_size(scene: Scene, shelf: Shelf, name: str) -> None:
    said = scene.says("hello")
    media = shelf.put("notes.txt")
    parts = (Text(text="Here:"), media, Media(**{**as_fields(media), "name": name}))
    receipts = await send_all(scene, *parts, answers=(said,))
    message = scene.outbound(parts=parts, piece=2, answers=(said,), after=receipts[1].message_id)
    assert await scene.platform.find_sent(message) == receipts[2]
    scene.people.delete(scene.dm, [receipts[2].message_id])
    assert await scene.platform.find_sent(message) is None


async def test_another_file_of_the_same_name_is_not_taken_for_it(scene: Scene, shelf: Shelf) -> None:
    said = scene.says("hello")
    await send_all(scene, shelf.put("notes.txt", b"older notes"), answers=(said,))
    message = scene.outbound(parts=(shelf.put("notes.txt"),), answers=(said,))
    assert await scene.platform.find_sent(message) is None


async def test_a_file_that_was_told_of_in_words_is_found_too(scene: Scene) -> None:
    said = scene.says("hello")
    parts = (Text(text="See:"), Media(kind="file", name="a.txt", sha256="0" * 64))
    [receipt] = await send_all(scene, *parts, answers=(said,))
    assert await scene.platform.find_sent(scene.outbound(parts=parts, answers=(said,))) == receipt


async def test_a_kill_while_a_file_is_sent_brings_it_once(scene: Scene, shelf: Shelf, db: Database) -> None:
    address = Address(account="discord", chat=scene.dm, reply_to=scene.says("hello"))
    parts = (shelf.put("notes.txt"), shelf.put("plot.png"))
    scene.server.faults.add("hang_after", "createMessage")
    await until_cut_off(db, scene.platform, address, parts, lambda: scene.server.wait_for(lambda: shown(scene)))
    scene.server.world.nonces.clear()  # as after some minutes
    assert await deliver_the_rest(db, scene.platform) == [("answer", "sent")]
    assert [message["attachments"][0]["filename"] for message in shown(scene)] == ["notes.txt", "plot.png"]


def as_fields(media: Media) -> dict[str, Any]:
    return {name: getattr(media, name) for name in media.__slots__}
