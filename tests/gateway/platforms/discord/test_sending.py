"""Speaking on Discord: in pieces, with buttons, never twice, and each failure for what it is."""

import asyncio
import errno
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from gateway.errors import DeliveryInDoubt, DeliveryRejected, GatewayError, MediaUnavailable, PlatformUnavailable
from gateway.messages import Media
from gateway.platforms.base import ShowsTyping
from gateway.platforms.discord import transport
from gateway.platforms.discord.errors import translate_send_error
from gateway.platforms.rate_limit import Rate, RateLimits
from tests.gateway.platforms.discord.scene import Scene, a_scene, listening
from tests.gateway.scene import soon


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with a_scene() as made, listening(made):
        yield made


async def failure(scene: Scene, text: str = "hello", **fields: Any) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await scene.send(text, **fields)
    return caught.value


def refusing(scene: Scene, code: int, words: str = "", *, status: int = 400, field: str = "") -> None:
    errors = {field: {"_errors": [{"code": "X", "message": words}]}} if field else None
    extra = {"code": code, **({"errors": errors} if errors else {})}
    scene.server.faults.add("fail", "createMessage", status=status, description=words or "no", extra=extra)


# What is sent.


async def test_markdown_is_sent_and_the_receipt_is_discords(scene: Scene) -> None:
    receipt = await scene.send("a **bold** <@123> https://a.example")
    message = scene.last()
    assert receipt.message_id == message["id"]
    assert message["content"] == "a **bold** <@123> https://a.example"
    [call] = scene.calls("createMessage")
    assert call["allowed_mentions"] == {"parse": [], "replied_user": False}
    assert call["flags"] == 4


async def test_only_what_shall_notify_rings_and_a_long_answer_rings_once(scene: Scene) -> None:
    for fields, silent in (({}, False), ({"notify": False}, True), ({"piece": 1}, True)):
        await scene.send("word " * 600, key=f"k{silent}{fields}"[:25], **fields)
        assert bool(scene.last()["flags"] & 1 << 12) is silent


async def test_a_very_long_text_is_a_beginning_and_a_file(scene: Scene) -> None:
    text = "word " * 5000
    assert (await scene.send(text)).more
    assert not (await scene.send(text, piece=1)).more
    head, file = (shown["message"] for shown in scene.server.show(scene.dm))
    assert head["content"].endswith("attached as answer.md.")
    [attachment] = file["attachments"]
    assert (attachment["filename"], attachment["size"]) == ("answer.md", len(text))


async def test_buttons_stand_in_rows_below_the_last_piece(scene: Scene) -> None:
    await scene.send("choose", choices=[str(number) for number in range(7)])
    assert scene.server.show(scene.dm)[-1]["buttons"] == [["0", "1", "2", "3", "4"], ["5", "6"]]
    await scene.send("word " * 600, key="long", choices=["a"])
    assert "buttons" not in scene.server.show(scene.dm)[-1]


async def test_channels_and_threads_are_quoted_and_direct_messages_are_not(scene: Scene) -> None:
    thread = scene.people.make_thread(scene.channel, scene.ada, "Leaks")["id"]
    for where in (scene.channel, thread):
        said = scene.says("hello", where=where)
        await scene.heard(1)
        await scene.send("answer", chat=where, reply_to=said, key=where)
        assert scene.last(where)["message_reference"]["message_id"] == said
    said = scene.says("hello")
    await scene.send("answer", reply_to=said)
    assert "message_reference" not in scene.last()


async def test_what_is_gone_is_not_quoted(scene: Scene) -> None:
    said = scene.says("hello", where=scene.channel)
    scene.people.delete(scene.channel, [said])
    await scene.send("answer", chat=scene.channel, reply_to=said)
    assert scene.last(scene.channel)["content"] == "answer"


async def test_an_edit_changes_the_message_and_its_buttons(scene: Scene) -> None:
    sent = await scene.send("one", choices=["a"])
    edited = await scene.send("two", edits=sent.message_id)
    assert edited.message_id == sent.message_id
    [shown] = scene.server.show(scene.dm)
    assert shown["text"] == "two"
    assert shown["message"]["components"] == []


async def test_what_cannot_be_edited_any_more_is_said_anew(scene: Scene) -> None:
    sent = await scene.send("one")
    scene.people.delete(scene.dm, [sent.message_id])
    assert (await scene.send("two", edits=sent.message_id, key="k2")).message_id != sent.message_id
    assert scene.server.texts(scene.dm) == ["two"]


# Once.


@pytest.mark.parametrize("aged_seconds", [0, 600])
async def test_what_arrived_is_found_and_not_sent_again(scene: Scene, aged_seconds: int) -> None:
    said = scene.says("hello")
    scene.server.faults.add("cut_after", "createMessage")
    assert isinstance(await failure(scene, "answer", reply_to=said), DeliveryInDoubt)
    scene.people.age(aged_seconds)
    message = scene.outbound("answer", reply_to=said, answers=(said,))
    found = await scene.platform.find_sent(message)
    assert found is not None
    assert found.message_id == scene.last()["id"]
    if not aged_seconds:
        assert (await scene.send("answer", reply_to=said)).message_id == found.message_id
        assert scene.server.texts(scene.dm) == ["answer"]


async def test_what_did_not_arrive_is_not_found(scene: Scene) -> None:
    earlier = await scene.send("answer", key="earlier")
    said = scene.says("hello")
    scene.says("answer")
    assert await scene.platform.find_sent(scene.outbound("answer", answers=(said,))) is None
    assert await scene.platform.find_sent(scene.outbound("new", edits=earlier.message_id)) is None


async def test_an_answer_of_the_same_words_that_is_known_to_have_arrived_is_another(scene: Scene) -> None:
    said = scene.says("hello")
    earlier = await scene.send("answer", key="earlier")
    message = scene.outbound("answer", answers=(said,), after=earlier.message_id)
    assert await scene.platform.find_sent(message) is None
    later = await scene.send("answer", key="later")
    assert await scene.platform.find_sent(message) == later


async def test_a_piece_of_the_same_words_as_the_one_before_is_another(scene: Scene) -> None:
    text = "word " * 1200
    receipts = [await scene.send(text, piece=piece) for piece in (0, 1)]
    third = scene.outbound(text, piece=2, after=receipts[1].message_id)
    assert scene.server.texts(scene.dm)[0] == scene.server.texts(scene.dm)[1]
    assert await scene.platform.find_sent(third) is None


async def test_a_draft_of_the_same_words_is_not_the_answer(scene: Scene) -> None:
    said = scene.says("hello")
    draft = await scene.send("answer", key="draft")
    message = scene.outbound("answer", answers=(said,), replaces=draft.message_id)
    assert await scene.platform.find_sent(message) is None


async def test_an_answer_to_another_message_is_another_answer(scene: Scene) -> None:
    one, two = (scene.says(text, where=scene.channel) for text in ("one", "two"))
    await scene.send("yes", chat=scene.channel, reply_to=two, key="second")
    to_one = scene.outbound("yes", chat=scene.channel, reply_to=one, key="first", answers=(one,))
    to_two = scene.outbound("yes", chat=scene.channel, reply_to=two, key="second", answers=(two,))
    assert await scene.platform.find_sent(to_one) is None
    assert await scene.platform.find_sent(to_two) is not None


async def test_a_piece_and_a_file_are_found(scene: Scene) -> None:
    text = "word " * 5000
    receipts = [await scene.send(text, piece=piece) for piece in (0, 1)]
    found = [await scene.platform.find_sent(scene.outbound(text, piece=piece)) for piece in (0, 1)]
    assert found == receipts


async def test_what_is_far_below_is_found(scene: Scene) -> None:
    said = scene.says("hello", where=scene.channel)
    for number in range(105):
        scene.says(str(number), where=scene.channel)
    receipt = await scene.send("answer", chat=scene.channel, reply_to=said)
    message = scene.outbound("answer", chat=scene.channel, reply_to=said, answers=(said,))
    assert await scene.platform.find_sent(message) == receipt


async def test_where_the_history_is_closed_nothing_is_found_and_the_nonce_has_to_do(scene: Scene) -> None:
    scene.server.faults.add("fail", "getMessages", status=403, extra={"code": 50001})
    assert await scene.platform.find_sent(scene.outbound()) is None
    scene.server.faults.add("fail", "getMessages", status=503)
    with pytest.raises(PlatformUnavailable):
        await scene.platform.find_sent(scene.outbound())


# What goes wrong.


async def test_what_discord_finds_too_long_is_sent_as_a_file(scene: Scene) -> None:
    refusing(scene, 50035, "Must be 2000 or fewer in length.", field="content")
    await scene.send("hello")
    assert [file["filename"] for file in scene.last()["attachments"]] == ["answer.md"]


@pytest.mark.parametrize(
    ("field", "code", "gone"),
    [
        ("message_reference", 50035, "message_reference"),
        ("", 160002, "message_reference"),
        ("components", 50035, "components"),
    ],
)
async def test_what_is_refused_is_left_out(scene: Scene, field: str, code: int, gone: str) -> None:
    said = scene.says("hello", where=scene.channel)
    refusing(scene, code, "no", field=field)
    await scene.send("answer", chat=scene.channel, reply_to=said, choices=["a"])
    first, second = scene.calls("createMessage")
    assert gone in first
    assert gone not in second


async def test_wording_that_is_refused_is_sent_plain_and_then_given_up(scene: Scene) -> None:
    refusing(scene, 50035, "bad words", field="content")
    await scene.send("**hello**")
    assert scene.last()["content"] == "hello"
    refusing(scene, 50035, "bad words", field="content")
    error = await failure(scene, "hello")
    assert isinstance(error, DeliveryRejected)
    assert "bad words" in str(error)


@pytest.mark.parametrize(
    ("status", "code", "plain"),
    [
        (403, 50007, "accepts no direct messages"),
        (403, 50001, "may not see the channel"),
        (403, 50013, "may not write in the channel"),
        (404, 10003, "does not know the channel"),
        (403, 160005, "locked"),
        (400, 200000, "AutoMod"),
        (400, 999, "Discord refused it: 400 Bad Request"),
    ],
)
async def test_a_channel_closed_to_us_is_told_in_plain_words(scene: Scene, status: int, code: int, plain: str) -> None:
    refusing(scene, code, status=status)
    error = await failure(scene)
    assert isinstance(error, DeliveryRejected)
    assert plain in str(error) or code == 999


async def test_real_refusals_are_understood(scene: Scene) -> None:
    scene.people.close_dms(scene.ada)
    assert "accepts no direct messages" in str(await failure(scene))
    scene.people.deny(scene.channel, ["send"])
    assert "may not write" in str(await failure(scene, chat=scene.channel))
    assert "does not know the channel" in str(await failure(scene, chat="77"))
    assert "not a Discord channel id" in str(await failure(scene, chat="general"))
    assert "no text" in str(await failure(scene, " "))


async def test_a_long_limit_is_kept_for_that_chat(scene: Scene) -> None:
    scene.server.faults.add("fail", "createMessage", retry_after=44)
    error = await failure(scene)
    assert isinstance(error, PlatformUnavailable)
    assert error.retry_after == 44
    assert 43 < scene.platform.rate_limits.wait_seconds(scene.dm) <= 44
    assert scene.platform.rate_limits.wait_seconds(scene.channel) == 0


async def test_a_short_limit_is_waited_for(scene: Scene) -> None:
    scene.server.faults.add("fail", "createMessage", retry_after=0.05)
    await scene.send("hello")
    assert scene.server.texts(scene.dm) == ["hello"]


async def test_one_who_gives_up_waiting_for_a_global_limit_does_not_stop_all_others(scene: Scene) -> None:
    scene.server.faults.add("fail", "createMessage", retry_after=20, extra={"global": True})
    waiting = asyncio.create_task(scene.platform.send(scene.outbound("one", key="one")))
    await scene.server.wait_for(lambda: scene.calls("createMessage"))
    while not waiting.cancelled():
        waiting.cancel()
        await asyncio.wait([waiting])
    await scene.send("two", key="two", chat=scene.channel)


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("cut", 0, DeliveryInDoubt),
        ("cut_after", 0, DeliveryInDoubt),
        ("fail", 503, DeliveryInDoubt),
        ("garbage", 200, DeliveryInDoubt),
        ("fail", 401, PlatformUnavailable),
    ],
)
async def test_whether_it_may_have_arrived(scene: Scene, kind: Any, status: int, error: type[Exception]) -> None:
    scene.server.faults.add(kind, "createMessage", status=status)
    assert type(await failure(scene)) is error


async def test_no_answer_in_time_leaves_us_in_doubt(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_READ_SECONDS", 0.1)
    scene.server.faults.add("hang_after", "createMessage")
    assert isinstance(await failure(scene), DeliveryInDoubt)


async def test_an_edit_in_doubt_can_be_tried_again(scene: Scene) -> None:
    sent = await scene.send("one")
    scene.server.faults.add("cut_after", "editMessage")
    assert isinstance(await failure(scene, "two", edits=sent.message_id), PlatformUnavailable)


def test_what_never_left_this_machine_is_tried_again() -> None:
    refused = aiohttp.ClientConnectorError(None, OSError(errno.ECONNREFUSED, "secret address"))  # type: ignore[arg-type]
    for error in (refused, aiohttp.ConnectionTimeoutError()):
        problem = translate_send_error(error)
        assert isinstance(problem, PlatformUnavailable)
        assert "cannot connect to Discord" in str(problem)
        assert "secret" not in str(problem)


async def test_trouble_of_discords_own_is_tried_again_without_a_second_copy(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: real_sleep(0))
    scene.server.faults.add("garbage", "createMessage", status=502)  # done, and then lost on the way
    await scene.send("hello")
    assert scene.server.texts(scene.dm) == ["hello"]


async def test_a_send_under_way_when_listening_ends_still_gets_its_answer() -> None:
    async with a_scene() as scene:
        scene.server.faults.add("slow", "createMessage", seconds=0.3)
        async with listening(scene):
            sending = asyncio.create_task(scene.platform.send(scene.outbound()))
            await scene.server.wait_for(lambda: scene.server.faults.waiting == [])
        receipt = await soon(sending)
        assert receipt.message_id == scene.last()["id"]


# Typing and files.


async def test_typing_is_shown(scene: Scene) -> None:
    assert isinstance(scene.platform, ShowsTyping)
    await scene.platform.show_typing(scene.outbound().address)
    assert scene.server.world.channels[int(scene.dm)].typing == 1
    scene.people.close_dms(scene.ada)
    with pytest.raises(DeliveryRejected):
        await scene.platform.show_typing(scene.outbound().address)


async def test_typing_gives_way_when_we_may_say_little() -> None:
    async with a_scene(rate_limits=RateLimits(per_chat=Rate(count=1, seconds=60))) as scene, listening(scene):
        scene.platform.rate_limits.record_send(scene.dm)
        await scene.platform.show_typing(scene.outbound().address)
        assert scene.calls("triggerTyping") == []


async def _media(scene: Scene, content: bytes = b"content", **fields: Any) -> Media:
    count = len(scene.gate.taken)
    scene.says("", files=[{"name": "notes.txt", "content": content, **fields}])
    taken = await scene.heard(count + 1)
    [media] = taken[-1].parts
    assert isinstance(media, Media)
    return media


async def test_a_file_is_fetched_with_a_cap(scene: Scene) -> None:
    media = await _media(scene)
    assert await scene.platform.fetch(media, 100) == b"content"
    with pytest.raises(MediaUnavailable, match="larger than"):
        await scene.platform.fetch(media, 6)
    lying = await _media(scene, b"x" * 100, extra={"size": 10})
    with pytest.raises(MediaUnavailable, match="larger than"):
        await scene.platform.fetch(lying, 50)


async def test_a_file_that_is_gone_or_cut_off_is_not_had(scene: Scene) -> None:
    media = await _media(scene, b"x" * 1000)
    scene.server.faults.add("cut_after", "file")
    with pytest.raises(MediaUnavailable, match="could not be fetched"):
        await scene.platform.fetch(media, 2000)
    scene.people.expire_files()
    with pytest.raises(MediaUnavailable, match="no longer has the file"):
        await scene.platform.fetch(media, 2000)


async def test_a_file_that_is_wanted_while_we_connect_is_waited_for() -> None:
    async with a_scene() as scene:
        async with listening(scene):
            media = await _media(scene)
        fetching = asyncio.create_task(scene.platform.fetch(media, 100))
        async with listening(scene):
            assert await soon(fetching) == b"content"
