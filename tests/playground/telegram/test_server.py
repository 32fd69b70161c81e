"""The Bot API as the real python-telegram-bot meets it: every rule refuses what it names, in Telegram's words."""

import struct
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity, ReplyParameters
from telegram.error import BadRequest, Forbidden, RetryAfter

from playground.telegram.server import TelegramServer

JPEG = b"\xff\xd8\xff\xe0 and so on"


def png(width: int, height: int) -> bytes:
    """The beginning of one, which says its size."""
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)


def keyboard(*data: str) -> InlineKeyboardMarkup:
    return InlineKeyboardMarkup([[InlineKeyboardButton(f"button {one}", callback_data=one) for one in data]])


# Who one talks to


@pytest.mark.parametrize("way", ["query", "json", "form", "multipart"])
async def test_parameters_may_come_in_four_ways(server: TelegramServer, ada: int, way: str) -> None:
    values = {"chat_id": str(ada), "text": "häll😀", "disable_notification": "true"}
    form = aiohttp.FormData(values, default_to_multipart=True)
    ways: dict[str, Any] = {
        "query": {"params": values},
        "json": {"json": values | {"chat_id": ada, "disable_notification": True}},
        "form": {"data": values},
        "multipart": {"data": form},
    }
    url = f"{server.url}/bot{server.token}/sendMessage"
    async with aiohttp.ClientSession() as http, http.post(url, **ways[way]) as answer:
        assert (await answer.json())["result"]["text"] == "häll😀"
    assert server.texts(ada) == ["häll😀"]


# Sending


async def test_entities_given_as_a_list_are_kept_and_links_found(bot: Bot, ada: int) -> None:
    entities = [MessageEntity("bold", 0, 2), MessageEntity("bot_command", 0, 2)]
    sent = await bot.send_message(ada, "hi https://x.org", entities=entities)
    assert [(one.type, one.offset, one.length) for one in sent.entities] == [("bold", 0, 2), ("url", 3, 13)]


async def test_the_longest_text_and_caption_still_pass(bot: Bot, ada: int) -> None:
    sent = await bot.send_message(ada, "😀" * 2048)
    assert len(sent.text or "") == 2048
    photo = await bot.send_photo(ada, JPEG, caption="x" * 1024)
    assert len(photo.caption or "") == 1024


Refusal = Callable[[Bot, int], Awaitable[Any]]


REFUSED: tuple[tuple[Refusal, str], ...] = (
    (lambda bot, ada: bot.send_message(ada, ""), "Message text is empty"),
    (lambda bot, ada: bot.send_message(ada, " \n "), "Text must be non-empty"),
    (lambda bot, ada: bot.send_message(ada, "😀" * 2049), "Message is too long"),
    (lambda bot, ada: bot.send_message(ada, "x" * 40_000), "Text is too long"),
    (lambda bot, ada: bot.send_message(ada, "hi", parse_mode="HTML"), "Unsupported parse_mode"),
    (
        lambda bot, ada: bot.send_message(ada, "😀", entities=[MessageEntity("bold", 0, 1)]),
        "Entity beginning at UTF-16 offset 0 ends in a middle of a UTF-16 symbol at UTF-16 offset 1",
    ),
    (lambda bot, ada: bot.send_message(ada, "hi", entities=[MessageEntity("loud", 0, 1)]), "Unsupported type"),
    (
        lambda bot, ada: bot.send_message(ada, "hi", entities=[MessageEntity("bold", 1, 5)]),
        "Entity beginning at UTF-16 offset 1 ends after the end of the text at UTF-16 offset 6",
    ),
    (lambda bot, ada: bot.send_photo(ada, JPEG, caption="x" * 1025), "Message caption is too long"),
    (lambda bot, ada: bot.send_message(12345, "hi"), "Chat not found"),
    (lambda bot, ada: bot.send_message("@nobody", "hi"), "Chat not found"),
    (lambda bot, ada: bot.send_message("", "hi"), "Chat_id is empty"),
    (lambda bot, ada: bot.send_message(ada, "hi", reply_markup=keyboard("x" * 65)), "Button_data_invalid"),
    (lambda bot, ada: bot.send_message(ada, "hi", reply_markup=keyboard("")), "Button_data_invalid"),
    (lambda bot, ada: bot.send_message(ada, "hi", message_thread_id=9), "Message thread not found"),
    (
        lambda bot, ada: bot.send_message(ada, "hi", reply_parameters=ReplyParameters(99)),
        "Message to be replied not found",
    ),
    (lambda bot, ada: bot.send_chat_action(ada, "juggling"), "Wrong parameter action in request"),
    (lambda bot, ada: bot.edit_message_text("hi", ada, 99), "Message to edit not found"),
    (lambda bot, ada: bot.delete_message(ada, 99), "Message to delete not found"),
    (lambda bot, ada: bot.set_message_reaction(ada, 99, "👍"), "Message to react not found"),
    (lambda bot, ada: bot.answer_callback_query("1"), "Query is too old and response timeout expired"),
    (lambda bot, ada: bot.get_file("nonsense"), "Invalid file_id"),
    (lambda bot, ada: bot.send_document(ada, "nonsense"), "Wrong file identifier/http url specified"),
    (lambda bot, ada: bot.set_my_commands([("Bad", "x")]), "Bot_command_invalid"),
    (lambda bot, ada: bot.set_my_commands([("a" * 33, "x")]), "Bot_command_invalid"),
    (lambda bot, ada: bot.set_my_commands([("ok", " ")]), "Command description must be non-empty"),
    (lambda bot, ada: bot.set_my_commands([("ok", "x" * 257)]), "Command description length must not exceed 256"),
    (lambda bot, ada: bot.send_message_draft(ada, 0, "hi"), "Random_id_invalid"),
    (lambda bot, ada: bot.edit_message_text("theirs", ada, 1), "Message can't be edited"),
    (lambda bot, ada: bot.edit_message_text("ours", ada, 2), "Message is not modified: specified new message"),
    (lambda bot, ada: bot.edit_message_reply_markup(ada, 2), "Message is not modified"),
    (lambda bot, ada: bot.edit_message_text("text", ada, 3), "There is no text in the message to edit"),
)


async def test_what_telegram_refuses_is_refused(server: TelegramServer, bot: Bot, ada: int) -> None:
    server.people.send_text(ada, ada, "theirs")
    await bot.send_message(ada, "ours")
    await bot.send_photo(ada, JPEG)
    for call, words in REFUSED:
        with pytest.raises(BadRequest) as caught:
            await call(bot, ada)
        assert words.lower() in caught.value.message.lower()


async def test_where_the_bot_may_not_write_it_is_told_why(server: TelegramServer, bot: Bot) -> None:
    other = server.people.make_user("Other", is_bot=True)
    group = server.people.make_group("Ours", bot="kicked")
    supergroup = server.people.make_supergroup("Ours", bot="kicked")
    for chat, words in (
        (other, "bot can't send messages to bots"),
        (group, "bot was kicked from the group chat"),
        (supergroup, "bot was kicked from the supergroup chat"),
    ):
        with pytest.raises(Forbidden, match=f"Forbidden: {words}"):
            await bot.send_message(chat["id"], "hi")


async def test_message_ids_count_per_supergroup_and_together_elsewhere(
    server: TelegramServer, bot: Bot, ada: int
) -> None:
    bob = server.people.make_user("Bob")["id"]
    club = server.people.make_supergroup("Club")["id"]
    ids = [(await bot.send_message(chat, "hi")).message_id for chat in (ada, bob, club, ada, club)]
    assert ids == [1, 2, 2, 3, 3]


# Topics


async def test_replies_outside_of_forums_have_a_thread_nobody_can_send_to(
    server: TelegramServer, bot: Bot, ada: int
) -> None:
    club = server.people.make_supergroup("Club", bot="administrator")["id"]
    first = server.people.send_text(club, ada, "first")
    server.people.send_text(club, ada, "second", reply_to=first["message_id"])
    reply = (await bot.get_updates())[-1].message
    assert reply
    assert (reply.message_thread_id, reply.is_topic_message) == (first["message_id"], None)
    with pytest.raises(BadRequest, match="Message thread not found"):
        await bot.send_message(club, "hi", message_thread_id=reply.message_thread_id)


# Changing


async def test_a_keyboard_can_be_changed_alone(server: TelegramServer, bot: Bot, ada: int) -> None:
    sent = await bot.send_message(ada, "one", reply_markup=keyboard("a"))
    await bot.edit_message_reply_markup(ada, sent.message_id, reply_markup=keyboard("b"))
    assert server.show(ada)[0]["buttons"] == [["button b"]]
    with pytest.raises(BadRequest, match="Message is not modified"):
        await bot.edit_message_reply_markup(ada, sent.message_id, reply_markup=keyboard("b"))
    await bot.edit_message_reply_markup(ada, sent.message_id)
    assert "buttons" not in server.show(ada)[0]


async def test_what_others_wrote_or_is_old_cannot_be_deleted(server: TelegramServer, bot: Bot, ada: int) -> None:
    club = server.people.make_supergroup("Club")["id"]
    theirs = server.people.send_text(club, ada, "mine")
    with pytest.raises(BadRequest, match="Message can't be deleted"):
        await bot.delete_message(club, theirs["message_id"])
    old = server.people.send_text(ada, ada, "old")
    server.world.chats[ada].posts[old["message_id"]].body["date"] = 1
    with pytest.raises(BadRequest, match="Message can't be deleted for everyone"):
        await bot.delete_message(ada, old["message_id"])


async def test_a_reaction_must_be_one_that_exists(server: TelegramServer, bot: Bot, ada: int) -> None:
    message_id = server.people.send_text(ada, ada, "hi")["message_id"]
    await bot.set_message_reaction(ada, message_id, "👍")
    assert server.show(ada)[0]["reactions"]["77"] == [{"type": "emoji", "emoji": "👍"}]
    for reaction, words in ((["🧀"], "Reaction_invalid"), (["👍", "👎"], "Reactions_too_many")):
        with pytest.raises(BadRequest, match=words):
            await bot.set_message_reaction(ada, message_id, reaction)
    await bot.set_message_reaction(ada, message_id, [])


# Files


async def test_a_photo_is_a_picture_of_reasonable_size(bot: Bot, ada: int) -> None:
    for content, words in (
        (b"no picture", "Image_process_failed"),
        (b"\x89PNG\r\n\x1a\n", "Image_process_failed"),
        (png(9_000, 1_001), "Photo_invalid_dimensions"),
        (png(2_100, 100), "Photo_invalid_dimensions"),
        (png(0, 0), "Photo_invalid_dimensions"),
        (JPEG + bytes(10 * 1024 * 1024), "Too big for a photo"),
        (b"", "File must be non-empty"),
    ):
        with pytest.raises(BadRequest, match=words):
            await bot.send_photo(ada, content)
    await bot.send_photo(ada, png(2_000, 100))


async def test_a_file_needs_the_token_and_a_path_that_exists(server: TelegramServer) -> None:
    async with aiohttp.ClientSession() as http:
        for token, status in ((server.token, 404), ("77:wrong", 401)):
            async with http.get(f"{server.url}/file/bot{token}/documents/file_9.txt") as answer:
                assert answer.status == status


# Limits


async def flood(bot: Bot, chat_id: int) -> None:
    for index in range(25):
        await bot.send_message(chat_id, str(index))


async def test_limits_switched_on_ask_for_patience(server: TelegramServer, bot: Bot, ada: int) -> None:
    bob = server.people.make_user("Bob")["id"]
    await flood(bot, bob)  # nothing is limited by default
    server.limits.on = True
    with pytest.raises(RetryAfter) as caught:
        await flood(bot, ada)
    assert timedelta(seconds=1) <= caught.value.retry_after <= timedelta(seconds=3)  # type: ignore[operator]
    assert len(server.texts(ada)) == 3
    assert server.called("sendMessage")[-1].description.startswith("Too Many Requests: retry after ")
    club = server.people.make_supergroup("Club")["id"]
    with pytest.raises(RetryAfter) as group:
        await flood(bot, club)
    assert group.value.retry_after > timedelta(seconds=3)  # type: ignore[operator]
    assert len(server.texts(club)) == 20
