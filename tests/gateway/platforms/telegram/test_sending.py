"""Speaking on Telegram: in pieces, with buttons, and each failure for what it is."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.errors import DeliveryInDoubt, DeliveryRejected, GatewayError, PlatformUnavailable, StoreUnavailable
from gateway.messages import Address, OutboundMessage, Receipt, Text
from gateway.platforms.base import ShowsTyping
from gateway.platforms.rate_limit import Rate, RateLimits
from gateway.platforms.telegram.platform import TelegramPlatform
from playground.telegram.server import TelegramServer
from tests.gateway.platforms.telegram.scene import Gate, bot_of, listening, outbound
from tests.gateway.scene import soon

ADA = 7


class Scene:
    def __init__(self, server: TelegramServer, platform: TelegramPlatform, gate: Gate) -> None:
        self.server = server
        self.platform = platform
        self.gate = gate
        self.people = server.people

    async def send(self, text: str = "hello", **fields: Any) -> Receipt:
        return await soon(self.platform.send(outbound(text, **fields)))

    async def failure(self, text: str = "hello", **fields: Any) -> GatewayError:
        with pytest.raises(GatewayError) as caught:
            await self.send(text, **fields)
        return caught.value

    def last(self, chat: int = ADA) -> dict[str, Any]:
        message: dict[str, Any] = self.server.show(chat)[-1]["message"]
        return message

    def call(self, method: str = "sendMessage") -> dict[str, Any]:
        return self.server.called(method)[-1].params


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    gate = Gate()
    async with TelegramServer() as server:
        server.people.make_user("Ada", id=ADA)
        platform = bot_of(server)
        async with listening(platform, gate):
            yield Scene(server, platform, gate)


# What is sent.


async def test_markdown_is_shown_and_the_receipt_is_telegrams(scene: Scene) -> None:
    receipt = await scene.send("a **bold** [word](https://a.example/)")
    message = scene.last()
    assert receipt == Receipt(message_id=str(message["message_id"]))
    assert message["text"] == "a bold word"
    assert [(entity["type"], entity["offset"]) for entity in message["entities"]] == [("bold", 2), ("text_link", 7)]
    assert message["link_preview_options"] == {"is_disabled": True}


async def test_only_what_shall_notify_rings_and_a_long_answer_rings_once(scene: Scene) -> None:
    await scene.send("loud")
    assert scene.call().get("disable_notification") in (None, "false", False)
    await scene.send("quiet", notify=False)
    assert scene.call()["disable_notification"] in ("true", True)
    await scene.send("x " * 3000, piece=1)
    assert scene.call()["disable_notification"] in ("true", True)


async def test_a_long_text_goes_out_piece_by_piece(scene: Scene) -> None:
    text = "\n\n".join(f"paragraph {number} " + "x" * 3000 for number in range(4))
    receipts = [await scene.send(text, piece=piece, choices=["Go on"]) for piece in range(4)]
    assert [receipt.more for receipt in receipts] == [True, True, True, False]
    shown = scene.server.show(ADA)
    assert [one["text"][:11] for one in shown] == [f"paragraph {number}" for number in range(4)]
    assert [one.get("buttons") for one in shown] == [None, None, None, [["Go on"]]]


async def test_a_very_long_text_is_a_beginning_and_a_file(scene: Scene) -> None:
    text = "It begins **here**.\n\n" + "\n\n".join("x" * 1000 for _ in range(40))
    head, pause = await scene.send(text), await scene.send(text, piece=1, choices=["Thanks"])
    assert (head.more, pause.more) == (True, False)
    first, second = (one["message"] for one in scene.server.show(ADA))
    assert first["text"].startswith("It begins here.")
    assert first["text"].endswith("\n\nThe whole text is attached as answer.md.")
    assert second["document"]["file_name"] == "answer.md"
    assert scene.server.world.files[second["document"]["file_id"]].content == text.encode()
    assert scene.server.show(ADA)[1]["buttons"] == [["Thanks"]]


async def test_buttons_stand_in_short_rows(scene: Scene) -> None:
    await scene.send(choices=["Yes", "No", "Always", "Never"])
    assert scene.server.show(ADA)[-1]["buttons"] == [["Yes", "No", "Always"], ["Never"]]
    await scene.send(choices=["Continue the old conversation", "No", "Later"])
    assert scene.server.show(ADA)[-1]["buttons"] == [["Continue the old conversation", "No"], ["Later"]]


async def test_groups_are_quoted_and_direct_messages_are_not(scene: Scene) -> None:
    group = scene.people.make_group("Engines", members=[ADA])["id"]
    asked = scene.people.send_text(group, ADA, "/help", deliver=True)["message_id"]
    await scene.send("x " * 3000, chat=group, reply_to=asked)
    assert scene.last(group)["reply_to_message"]["message_id"] == asked
    await scene.send("x " * 3000, chat=group, reply_to=asked, piece=1)
    assert "reply_to_message" not in scene.last(group)
    for gone in ("999", "4000000000000000001", "10:7:1001"):  # deleted; a press of a button; a reaction
        await scene.send("gone", chat=group, reply_to=gone)
        assert "reply_to_message" not in scene.last(group)
    asked = scene.people.send_text(ADA, ADA, "hi")["message_id"]
    await scene.send(reply_to=asked)
    assert "reply_to_message" not in scene.last()


async def test_topics_are_followed_and_a_topic_that_is_gone_is_left(scene: Scene) -> None:
    forum = scene.people.make_supergroup("Engines", members=[ADA], forum=True)["id"]
    topic = scene.people.make_topic(forum, ADA, "Valves")
    await scene.send(chat=forum, thread=topic)
    assert scene.last(forum)["message_thread_id"] == topic
    for thread in ("1", "987"):
        await scene.send(chat=forum, thread=thread)
        assert "message_thread_id" not in scene.last(forum)
    scene.people.close_topic(forum, ADA, topic)
    error = await scene.failure(chat=forum, thread=topic)
    assert (type(error), str(error)) == (DeliveryRejected, "the topic is closed")


# What takes the place of an earlier message.


async def test_an_edit_changes_the_message_and_its_buttons(scene: Scene) -> None:
    first = await scene.send("sure?", choices=["Yes"])
    again = [await scene.send("**done**", edits=first.message_id) for _ in range(2)]  # the second changes nothing
    assert again == [first, first]
    [shown] = scene.server.show(ADA)
    assert (shown["text"], shown.get("buttons")) == ("done", None)


async def test_what_cannot_be_edited_any_more_is_said_anew(scene: Scene) -> None:
    first = await scene.send("sure?")
    scene.people.delete(ADA, [int(first.message_id)])
    receipt = await scene.send("done", edits=first.message_id)
    assert scene.last()["text"] == "done"
    assert receipt.message_id != first.message_id


async def test_an_edit_that_became_a_message_of_its_own_is_not_tried_again(scene: Scene) -> None:
    first = await scene.send("sure?")
    scene.people.delete(ADA, [int(first.message_id)])
    scene.server.faults.add("cut_after", "sendMessage")
    assert isinstance(await scene.failure("done", edits=first.message_id), DeliveryInDoubt)


async def test_a_long_edit_goes_on_in_new_messages(scene: Scene) -> None:
    first = await scene.send("draft")
    text = "x " * 3000
    receipts = [await scene.send(text, edits=first.message_id, piece=piece) for piece in range(2)]
    assert [receipt.more for receipt in receipts] == [True, False]
    assert receipts[0].message_id == first.message_id
    assert len(scene.server.show(ADA)) == 2


async def test_an_edit_in_doubt_can_be_tried_again(scene: Scene) -> None:
    first = await scene.send("draft")
    scene.server.faults.add("cut_after", "editMessageText")
    assert isinstance(await scene.failure("final", edits=first.message_id), PlatformUnavailable)
    assert await scene.send("final", edits=first.message_id) == first


# What goes wrong.


async def refusing(scene: Scene, words: str, code: int = 400, method: str = "sendMessage") -> None:
    prefix = "Bad Request" if code == 400 else "Forbidden"
    scene.server.faults.add("fail", method, status=code, description=f"{prefix}: {words}")


@pytest.mark.parametrize(
    "words",
    [
        "can't parse entities: Can't find end of the entity starting at byte offset 3",
        "ENTITY_TEXTURL_INVALID",
        "ENTITIES_TOO_LONG",
        "something that nobody has seen yet",
    ],
)
async def test_what_telegram_cannot_format_is_sent_as_it_reads(scene: Scene, words: str) -> None:
    await refusing(scene, words)
    await scene.send("a **bold** [word](https://a.example/x)")
    message = scene.last()
    assert message["text"] == "a bold word (https://a.example/x)"
    assert all(entity["type"] == "url" for entity in message.get("entities", []))


async def test_what_telegram_finds_too_long_is_sent_as_a_file(scene: Scene) -> None:
    await refusing(scene, "message is too long")
    await scene.send("a **bold** word")
    document = scene.last()["document"]
    assert scene.server.world.files[document["file_id"]].content == b"a bold word"


async def test_what_is_refused_even_plain_is_given_up(scene: Scene) -> None:
    for _ in range(2):
        await refusing(scene, "something else")
    error = await scene.failure("a **bold** word")
    assert isinstance(error, DeliveryRejected)
    assert str(error) == "Telegram refused it: Something else"


@pytest.mark.parametrize(
    ("code", "words", "plain"),
    [
        (403, "bot was blocked by the user", "the user has blocked the bot"),
        (403, "user is deactivated", "the user's account was deleted"),
        (403, "bot can't initiate conversation with a user", "the user has not started the bot yet"),
        (403, "bot was kicked from the supergroup chat", "the bot was removed from the chat"),
        (403, "bot is not a member of the channel chat", "the bot is not in the chat"),
        (403, "the group chat was deleted", "the group was deleted"),
        (400, "chat not found", "Telegram does not know the chat"),
        (400, "not enough rights to send text messages to the chat", "the bot may not write in the chat"),
        (400, "CHAT_WRITE_FORBIDDEN", "the bot may not write in the chat"),
        (400, "need administrator rights in the channel chat", "the bot may not write in the chat"),
    ],
)
async def test_a_chat_closed_to_us_is_told_in_plain_words(scene: Scene, code: int, words: str, plain: str) -> None:
    await refusing(scene, words, code)
    error = await scene.failure("**x**")
    assert (type(error), str(error)) == (DeliveryRejected, plain)
    assert len(scene.server.called("sendMessage")) == 1


async def test_real_refusals_are_understood(scene: Scene) -> None:
    scene.people.block(ADA)
    assert str(await scene.failure()) == "the user has blocked the bot"
    assert str(await scene.failure(chat=12345)) == "Telegram does not know the chat"
    assert str(await scene.failure("  \n ")) == "it has no text"
    elsewhere = OutboundMessage(key="k", address=Address(account="telegram", chat="home"), parts=(Text(text="x"),))
    with pytest.raises(DeliveryRejected, match="not a Telegram chat id"):
        await scene.platform.send(elsewhere)


async def test_a_limit_is_kept_for_that_chat_alone(scene: Scene) -> None:
    scene.server.faults.add("fail", "sendMessage", retry_after=7)
    error = await scene.failure()
    assert isinstance(error, PlatformUnavailable)
    assert error.retry_after == 7
    assert 6 < scene.platform.rate_limits.wait_seconds(str(ADA)) <= 7
    assert scene.platform.rate_limits.wait_seconds("8") == 0


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("fail", 500, DeliveryInDoubt),
        ("fail", 503, PlatformUnavailable),
        ("fail", 502, DeliveryInDoubt),
        ("fail", 504, DeliveryInDoubt),
        ("garbage", 200, DeliveryInDoubt),
        ("garbage", 500, DeliveryInDoubt),
        ("cut", 0, DeliveryInDoubt),
        ("cut_after", 0, DeliveryInDoubt),
        ("fail", 401, PlatformUnavailable),
    ],
)
async def test_whether_it_may_have_arrived(scene: Scene, kind: Any, status: int, error: type[Exception]) -> None:
    scene.server.faults.add(kind, "sendMessage", status=status)
    assert type(await scene.failure()) is error


async def test_no_answer_in_time_leaves_us_in_doubt(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr((await scene.platform._connection.transport.open_client()).request, "_read_seconds", 0.1)
    scene.server.faults.add("hang_after", "sendMessage")
    assert isinstance(await scene.failure(), DeliveryInDoubt)


async def test_a_group_that_has_moved_is_told_and_tried_again(scene: Scene) -> None:
    group = scene.people.make_group("Engines", members=[ADA])["id"]
    new = scene.people.upgrade(group)
    await scene.gate.until(lambda: scene.gate.moves)  # heard, and now met while sending
    error = await scene.failure(chat=group)
    assert isinstance(error, PlatformUnavailable)
    assert error.retry_after == 1
    assert scene.gate.moves == [(str(group), str(new))] * 2


async def test_a_move_that_cannot_be_stored_is_met_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def moved(old: str, new: str) -> None:
        raise StoreUnavailable("the disk is full")

    scene.server.faults.add("fail", "sendMessage", status=400, description="x", extra={"migrate_to_chat_id": -9})
    monkeypatch.setattr(scene.gate, "_moved", moved)
    async with listening(bot := bot_of(scene.server), scene.gate):
        with pytest.raises(PlatformUnavailable, match="the disk is full"):
            await bot.send(outbound())


async def test_a_send_under_way_when_listening_ends_still_gets_its_answer() -> None:
    gate = Gate()
    async with TelegramServer() as server:
        server.people.make_user("Ada", id=ADA)
        platform = bot_of(server)
        server.faults.add("slow", "sendMessage", seconds=0.3)
        async with listening(platform, gate) as task:
            sending = asyncio.create_task(platform.send(outbound(chat=ADA)))
            await server.wait_for(lambda: not server.faults.waiting)
            task.cancel()
            await asyncio.wait([task])
            with pytest.raises(PlatformUnavailable):
                await platform.send(outbound(chat=ADA))
            assert (await soon(sending)).message_id
        async with listening(platform, gate):
            assert (await platform.send(outbound(chat=ADA))).message_id


# Signs of life.


async def test_typing_is_shown_in_its_topic(scene: Scene) -> None:
    assert isinstance(scene.platform, ShowsTyping)
    forum = scene.people.make_supergroup("Engines", members=[ADA], forum=True)["id"]
    topic = scene.people.make_topic(forum, ADA, "Valves")
    await scene.platform.show_typing(outbound(chat=forum, thread=topic).address)
    assert (scene.server.world.chats[forum].last_action, scene.call("sendChatAction")["message_thread_id"]) == (
        "typing", str(topic),
    )  # fmt: skip


async def test_typing_gives_way_when_we_may_say_little() -> None:
    async with TelegramServer() as server:
        server.people.make_user("Ada", id=ADA)
        rate_limits = RateLimits(per_chat=Rate(count=1, seconds=60))
        platform = bot_of(server, rate_limits=rate_limits)
        async with listening(platform, Gate()):
            rate_limits.record_send(str(ADA))
            await platform.show_typing(outbound(chat=ADA).address)
            assert not server.called("sendChatAction")


async def test_typing_that_fails_says_so_and_is_not_tried_again(scene: Scene) -> None:
    scene.server.faults.add("fail", "sendChatAction", retry_after=9)
    with pytest.raises(PlatformUnavailable):
        await scene.platform.show_typing(outbound().address)
    assert len(scene.server.called("sendChatAction")) == 1
    assert scene.platform.rate_limits.wait_seconds(str(ADA)) > 8
