"""The Bot API as the real python-telegram-bot meets it: every rule refuses what it names, in Telegram's words."""

import asyncio
import io
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from telegram import (
    Bot,
    BotCommand,
    ForceReply,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    MessageEntity,
    ReplyParameters,
)
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, RetryAfter
from telegram.request import HTTPXRequest

from playground.telegram.server import TelegramServer

_PLAIN_HTTP = {"verify": False, "trust_env": False}  # loading certificates takes longer than a test
JPEG = b"\xff\xd8\xff\xe0 and so on"


def png(width: int, height: int) -> bytes:
    """The beginning of one, which says its size."""
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)


def bot_of(server: TelegramServer, token: str = "") -> Bot:
    return Bot(
        token or server.token,
        base_url=f"{server.url}/bot",
        base_file_url=f"{server.url}/file/bot",
        request=HTTPXRequest(httpx_kwargs=_PLAIN_HTTP),
        get_updates_request=HTTPXRequest(httpx_kwargs=_PLAIN_HTTP),
    )


@pytest.fixture(autouse=True)
def _waits_are_timedeltas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "1")  # or every RetryAfter is a warning


@pytest.fixture
async def server() -> AsyncGenerator[TelegramServer]:
    async with TelegramServer(token="77:secret-of-the-bot") as running:
        yield running


@pytest.fixture
async def bot(server: TelegramServer) -> AsyncGenerator[Bot]:
    async with bot_of(server) as running:
        yield running


@pytest.fixture
def ada(server: TelegramServer) -> int:
    user_id: int = server.people.make_user("Ada", id=1001, username="ada")["id"]
    return user_id


def keyboard(*data: str) -> InlineKeyboardMarkup:
    return InlineKeyboardMarkup([[InlineKeyboardButton(f"button {one}", callback_data=one) for one in data]])


# Who one talks to


async def test_the_bot_learns_who_it_is(bot: Bot) -> None:
    me = await bot.get_me()
    assert (me.id, me.username, me.is_bot, me.can_read_all_group_messages) == (77, "playground_bot", True, False)


async def test_a_wrong_token_is_unauthorized_and_a_malformed_one_not_found(server: TelegramServer) -> None:
    async with aiohttp.ClientSession() as http:
        async with http.get(f"{server.url}/bot77:wrong-token/getMe") as answer:
            wrong = {"ok": False, "error_code": 401, "description": "Unauthorized"}
            assert (answer.status, await answer.json()) == (401, wrong)
        async with http.get(f"{server.url}/botnonsense/getMe") as answer:
            assert (answer.status, (await answer.json())["description"]) == (404, "Not Found")
    stranger = bot_of(server, "77:wrong-token")
    with pytest.raises(InvalidToken):
        await stranger.initialize()
    await stranger.shutdown()


async def test_methods_are_found_in_any_case_and_unknown_ones_are_not(server: TelegramServer) -> None:
    async with aiohttp.ClientSession() as http:
        for name, status in (("GETME", 200), ("getme", 200), ("getYou", 404)):
            async with http.get(f"{server.url}/bot{server.token}/{name}") as answer:
                assert (answer.status, (await answer.json())["ok"]) == (status, status == 200)


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


async def test_a_body_that_is_no_json_is_refused(server: TelegramServer) -> None:
    headers = {"Content-Type": "application/json"}
    url = f"{server.url}/bot{server.token}/sendMessage"
    async with aiohttp.ClientSession() as http, http.post(url, data=b"{", headers=headers) as answer:
        assert answer.status == 400


# Sending


async def test_a_message_comes_back_as_it_was_sent(server: TelegramServer, bot: Bot, ada: int) -> None:
    bold = [MessageEntity("bold", 0, 2)]
    sent = await bot.send_message(ada, "hi there.", entities=bold, reply_markup=keyboard("yes"))
    assert (sent.text, sent.chat.id, sent.from_user and sent.from_user.id) == ("hi there.", ada, 77)
    assert [(one.type, one.offset, one.length) for one in sent.entities] == [("bold", 0, 2)]
    (shown,) = server.show(ada)
    assert (shown["text"], shown["by_bot"], shown["buttons"]) == ("hi there.", True, [["button yes"]])


async def test_entities_given_as_a_list_are_kept_and_links_found(bot: Bot, ada: int) -> None:
    entities = [MessageEntity("bold", 0, 2), MessageEntity("bot_command", 0, 2)]
    sent = await bot.send_message(ada, "hi https://x.org", entities=entities)
    assert [(one.type, one.offset, one.length) for one in sent.entities] == [("bold", 0, 2), ("url", 3, 13)]


async def test_text_is_trimmed(bot: Bot, ada: int) -> None:
    assert (await bot.send_message(ada, " \n hi \n")).text == "hi"


async def test_the_longest_text_and_caption_still_pass(bot: Bot, ada: int) -> None:
    sent = await bot.send_message(ada, "😀" * 2048)
    assert len(sent.text or "") == 2048
    photo = await bot.send_photo(ada, JPEG, caption="x" * 1024)
    assert len(photo.caption or "") == 1024


Refusal = Callable[[Bot, int], Awaitable[Any]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
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
    ],
)
async def test_what_telegram_refuses_is_refused(bot: Bot, ada: int, call: Refusal, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        await call(bot, ada)
    assert words.lower() in caught.value.message.lower()


async def test_refusals_are_in_the_very_words_of_the_server(server: TelegramServer, bot: Bot, ada: int) -> None:
    with pytest.raises(BadRequest):
        await bot.send_message(1, "hi")
    with pytest.raises(BadRequest):
        await bot.send_message(ada, "hi", reply_markup=keyboard("x" * 65))
    words = [call.description for call in server.called("sendMessage")]
    assert words == ["Bad Request: chat not found", "Bad Request: BUTTON_DATA_INVALID"]


@pytest.mark.parametrize(
    ("kind", "status", "words"),
    [
        ("group", "kicked", "Forbidden: bot was kicked from the group chat"),
        ("supergroup", "kicked", "Forbidden: bot was kicked from the supergroup chat"),
    ],
)
async def test_chats_the_bot_is_not_in_are_forbidden(
    server: TelegramServer, bot: Bot, kind: str, status: str, words: str
) -> None:
    chat = getattr(server.people, f"make_{kind}")("Ours", bot=status)
    with pytest.raises(Forbidden) as caught:
        await bot.send_message(chat["id"], "hi")
    assert caught.value.message == words


async def test_an_upgraded_group_says_where_it_went(server: TelegramServer, bot: Bot, ada: int) -> None:
    group = server.people.make_group("Ours", members=[ada])["id"]
    new_id = server.people.upgrade(group)
    with pytest.raises(ChatMigrated) as caught:
        await bot.send_message(group, "hi")
    assert caught.value.new_chat_id == new_id
    moved = [update.message for update in await bot.get_updates()]
    assert [(one and one.migrate_to_chat_id, one and one.migrate_from_chat_id) for one in moved] == [
        (new_id, None),
        (None, group),
    ]
    assert (await bot.send_message(new_id, "hi")).chat.id == new_id


async def test_a_reply_shows_what_it_replies_to(server: TelegramServer, bot: Bot, ada: int) -> None:
    asked = server.people.send_text(ada, ada, "how are you?")
    sent = await bot.send_message(ada, "fine", reply_parameters=ReplyParameters(asked["message_id"]))
    assert sent.reply_to_message
    assert sent.reply_to_message.text == "how are you?"


async def test_a_missing_message_need_not_stop_a_reply(bot: Bot, ada: int) -> None:
    reply = ReplyParameters(99, allow_sending_without_reply=True)
    assert (await bot.send_message(ada, "hi", reply_parameters=reply)).reply_to_message is None


async def test_bots_do_not_write_to_bots(server: TelegramServer, bot: Bot) -> None:
    other = server.people.make_user("Other", is_bot=True)["id"]
    with pytest.raises(Forbidden, match="bot can't send messages to bots"):
        await bot.send_message(other, "hi")


async def test_message_ids_count_per_supergroup_and_together_elsewhere(
    server: TelegramServer, bot: Bot, ada: int
) -> None:
    bob = server.people.make_user("Bob")["id"]
    club = server.people.make_supergroup("Club")["id"]
    ids = [(await bot.send_message(chat, "hi")).message_id for chat in (ada, bob, club, ada, club)]
    assert ids == [1, 2, 2, 3, 3]


async def test_other_keyboards_do_not_stay_with_the_message(bot: Bot, ada: int) -> None:
    assert (await bot.send_message(ada, "hi", reply_markup=ForceReply())).reply_markup is None


# Topics


async def test_messages_go_to_topics_that_exist(server: TelegramServer, bot: Bot, ada: int) -> None:
    forum = server.people.make_supergroup("Forum", forum=True, bot="administrator")["id"]
    topic = server.people.make_topic(forum, ada, "Plans")
    sent = await bot.send_message(forum, "hi", message_thread_id=topic)
    assert (sent.is_topic_message, sent.message_thread_id) == (True, topic)
    with pytest.raises(BadRequest, match="Message thread not found"):
        await bot.send_message(forum, "hi", message_thread_id=1)
    asked = server.people.send_text(forum, ada, "?", thread=topic)
    answer = await bot.send_message(forum, "!", reply_parameters=ReplyParameters(asked["message_id"]))
    assert answer.message_thread_id == topic


async def test_the_general_topic_is_named_in_actions_only(server: TelegramServer, bot: Bot) -> None:
    forum = server.people.make_supergroup("Forum", forum=True)["id"]
    await bot.send_chat_action(forum, "typing", message_thread_id=1)
    with pytest.raises(BadRequest, match="Message thread not found"):
        await bot.send_message(forum, "hi", message_thread_id=1)
    with pytest.raises(BadRequest, match="Message thread not found"):
        await bot.send_chat_action(forum, "typing", message_thread_id=5)


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


async def test_a_closed_topic_takes_no_messages(server: TelegramServer, bot: Bot, ada: int) -> None:
    forum = server.people.make_supergroup("Forum", forum=True)["id"]
    thread = server.people.make_topic(forum, ada, "Old")
    server.people.close_topic(forum, ada, thread)
    with pytest.raises(BadRequest, match="Topic_closed"):
        await bot.send_message(forum, "hi", message_thread_id=thread)


# Changing


async def test_an_edit_shows_and_an_equal_one_is_refused(server: TelegramServer, bot: Bot, ada: int) -> None:
    sent = await bot.send_message(ada, "one", reply_markup=keyboard("a"))
    edited = await bot.edit_message_text("two", ada, sent.message_id)
    assert not isinstance(edited, bool)
    assert (edited.text, edited.edit_date is not None, edited.reply_markup) == ("two", True, None)
    assert server.show(ada)[0]["earlier"] == ["one"]
    with pytest.raises(BadRequest) as caught:
        await bot.edit_message_text("two", ada, sent.message_id)
    assert caught.value.message == (
        "Message is not modified: specified new message content and reply markup are exactly the same as a current "
        "content and reply markup of the message"
    )


async def test_a_keyboard_can_be_changed_alone(server: TelegramServer, bot: Bot, ada: int) -> None:
    sent = await bot.send_message(ada, "one", reply_markup=keyboard("a"))
    await bot.edit_message_reply_markup(ada, sent.message_id, reply_markup=keyboard("b"))
    assert server.show(ada)[0]["buttons"] == [["button b"]]
    with pytest.raises(BadRequest, match="Message is not modified"):
        await bot.edit_message_reply_markup(ada, sent.message_id, reply_markup=keyboard("b"))
    await bot.edit_message_reply_markup(ada, sent.message_id)
    assert "buttons" not in server.show(ada)[0]


async def test_only_text_of_the_bots_own_can_be_edited(server: TelegramServer, bot: Bot, ada: int) -> None:
    theirs = server.people.send_text(ada, ada, "mine")
    with pytest.raises(BadRequest, match="Message can't be edited"):
        await bot.edit_message_text("yours", ada, theirs["message_id"])
    photo = await bot.send_photo(ada, JPEG)
    with pytest.raises(BadRequest, match="There is no text in the message to edit"):
        await bot.edit_message_text("text", ada, photo.message_id)


async def test_deleted_messages_are_gone(server: TelegramServer, bot: Bot, ada: int) -> None:
    sent = await bot.send_message(ada, "oops")
    await bot.delete_message(ada, sent.message_id)
    assert server.show(ada) == []
    assert server.show(ada, deleted=True)[0]["deleted"]
    with pytest.raises(BadRequest, match="Message to edit not found"):
        await bot.edit_message_text("x", ada, sent.message_id)


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


async def test_typing_is_seen_until_the_message_comes(server: TelegramServer, bot: Bot, ada: int) -> None:
    await bot.send_chat_action(ada, "typing")
    assert server.world.chats[ada].last_action == "typing"
    await bot.send_message(ada, "hi")
    assert server.world.chats[ada].last_action == ""


async def test_drafts_live_in_private_chats_until_the_message_comes(server: TelegramServer, bot: Bot, ada: int) -> None:
    await bot.send_message_draft(ada, 5, "I thi")
    await bot.send_message_draft(ada, 5, "I think")
    assert [(draft["draft_id"], draft["text"]) for draft in server.world.drafts(ada)] == [(5, "I think")]
    await bot.send_message(ada, "I think so.")
    assert server.world.drafts(ada) == []
    with pytest.raises(BadRequest, match="Textdraft_peer_invalid"):
        await bot.send_message_draft(server.people.make_supergroup("Club")["id"], 5, "hi")


async def test_commands_are_kept_per_scope(bot: Bot) -> None:
    await bot.set_my_commands([BotCommand("help", "what I can do")])
    assert [command.command for command in await bot.get_my_commands()] == ["help"]
    assert await bot.get_my_commands(language_code="de") == ()


# Files


async def test_files_go_up_and_come_down(server: TelegramServer, bot: Bot, ada: int) -> None:
    sent = await bot.send_document(ada, io.BytesIO(b"content"), filename="notes.txt", caption="my notes")
    assert sent.document
    assert (sent.document.file_name, sent.document.file_size, sent.caption) == ("notes.txt", 7, "my notes")
    file = await bot.get_file(sent.document.file_id)
    assert await file.download_as_bytearray() == b"content"


@pytest.mark.parametrize("kind", ["photo", "voice", "video", "audio", "animation"])
async def test_every_kind_of_file_can_be_sent(bot: Bot, ada: int, kind: str) -> None:
    sent = await getattr(bot, f"send_{kind}")(ada, JPEG)
    media = getattr(sent, kind)
    file = await bot.get_file((media[-1] if kind == "photo" else media).file_id)
    assert await file.download_as_bytearray() == JPEG


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no picture", "Image_process_failed"),
        (b"\x89PNG\r\n\x1a\n", "Image_process_failed"),
        (png(9_000, 1_001), "Photo_invalid_dimensions"),
        (png(2_100, 100), "Photo_invalid_dimensions"),
        (png(0, 0), "Photo_invalid_dimensions"),
        (JPEG + bytes(10 * 1024 * 1024), "Too big for a photo"),
        (b"", "File must be non-empty"),
    ],
    ids=["no picture", "cut off", "large", "long", "nothing", "heavy", "empty"],
)
async def test_a_photo_is_a_picture_of_reasonable_size(bot: Bot, ada: int, content: bytes, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        await bot.send_photo(ada, content)
    await bot.send_photo(ada, png(2_000, 100))


async def test_files_above_twenty_megabytes_cannot_be_fetched(server: TelegramServer, bot: Bot, ada: int) -> None:
    sent = server.people.send_media(ada, ada, "document", b"", name="big.iso", size=20 * 1024 * 1024 + 1)
    with pytest.raises(BadRequest, match="File is too big"):
        await bot.get_file(sent["document"]["file_id"])


async def test_a_file_needs_the_token_and_a_path_that_exists(server: TelegramServer) -> None:
    async with aiohttp.ClientSession() as http:
        for token, status in ((server.token, 404), ("77:wrong", 401)):
            async with http.get(f"{server.url}/file/bot{token}/documents/file_9.txt") as answer:
                assert answer.status == status


# Chats


# Limits


async def flood(bot: Bot, chat_id: int) -> None:
    for index in range(40):
        await bot.send_message(chat_id, str(index))


async def test_nothing_is_limited_by_default(bot: Bot, ada: int) -> None:
    await flood(bot, ada)


async def test_limits_switched_on_ask_for_patience(server: TelegramServer, bot: Bot, ada: int) -> None:
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


async def test_a_text_of_the_bot_can_be_waited_for(server: TelegramServer, bot: Bot, ada: int) -> None:
    waiting = asyncio.create_task(server.wait_for_text(ada, "answer"))
    sent = await bot.send_message(ada, "just a moment")
    await bot.edit_message_text("the answer", ada, sent.message_id)
    assert (await waiting)["message_id"] == sent.message_id
    with pytest.raises(TimeoutError):
        await server.wait_for_text(ada, "moment", seconds=0.01)
