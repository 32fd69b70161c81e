"""People and polls: what users do reaches the bot as Telegram would tell it, once confirmed never again."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, Message, Update
from telegram.error import BadRequest, Conflict
from telegram.request import HTTPXRequest

from playground.telegram.server import TelegramServer

_PLAIN_HTTP = {"verify": False, "trust_env": False}


def bot_of(server: TelegramServer) -> Bot:
    requests = [HTTPXRequest(httpx_kwargs=_PLAIN_HTTP, connection_pool_size=4) for _ in range(2)]
    return Bot(
        server.token, base_url=f"{server.url}/bot", base_file_url=f"{server.url}/file/bot",
        request=requests[0], get_updates_request=requests[1],
    )  # fmt: skip


@pytest.fixture
async def server() -> AsyncGenerator[TelegramServer]:
    async with TelegramServer(token="77:secret-of-the-bot", username="our_bot") as running:
        yield running


@pytest.fixture
async def bot(server: TelegramServer) -> AsyncGenerator[Bot]:
    async with bot_of(server) as running:
        yield running


@pytest.fixture
def ada(server: TelegramServer) -> int:
    user_id: int = server.people.make_user("Ada", id=1001, username="ada")["id"]
    return user_id


async def messages(bot: Bot, **more: Any) -> list[Message]:
    return [update.message for update in await bot.get_updates(**more) if update.message]


async def texts(bot: Bot) -> list[str | None]:
    """What came since the last time."""
    updates = await bot.get_updates()
    if updates:
        await bot.get_updates(offset=updates[-1].update_id + 1)
    return [update.effective_message.text for update in updates if update.effective_message]


# Polling


async def test_unconfirmed_updates_come_again_with_the_same_id(server: TelegramServer, bot: Bot, ada: int) -> None:
    for text in "abc":
        server.people.send_text(ada, ada, text)
    first, again = await bot.get_updates(), await bot.get_updates()
    assert [update.update_id for update in first] == [update.update_id for update in again]
    left = await messages(bot, offset=first[0].update_id + 1)
    assert [message.text for message in left] == ["b", "c"]
    assert [message.text for message in await messages(bot)] == ["b", "c"], "confirmed means gone"


async def test_ids_grow_and_pages_are_limited(server: TelegramServer, bot: Bot, ada: int) -> None:
    for index in range(120):
        server.people.send_text(ada, ada, str(index))
    ids = [update.update_id for update in await bot.get_updates()]
    assert len(ids) == 100
    assert ids == list(range(ids[0], ids[0] + 100))
    assert len(await bot.get_updates(limit=3)) == 3


async def test_a_negative_offset_keeps_the_last_ones_only(server: TelegramServer, bot: Bot, ada: int) -> None:
    for text in "abcd":
        server.people.send_text(ada, ada, text)
    assert [message.text for message in await messages(bot, offset=-2)] == ["c", "d"]
    assert [message.text for message in await messages(bot)] == ["c", "d"]


async def test_a_long_poll_ends_with_the_first_update(server: TelegramServer, bot: Bot, ada: int) -> None:
    poll = asyncio.create_task(bot.get_updates(timeout=20))
    await server.wait_for(lambda: server.world.updates.polling)
    server.people.send_text(ada, ada, "hi")
    assert [update.message and update.message.text for update in await poll] == ["hi"]


async def test_a_long_poll_without_news_ends_empty(bot: Bot) -> None:
    assert await bot.get_updates(timeout=1) == ()


async def test_the_older_of_two_polls_is_told_of_the_conflict(server: TelegramServer, bot: Bot, ada: int) -> None:
    older = asyncio.create_task(bot.get_updates(timeout=20))
    await server.wait_for(lambda: server.world.updates.polling)
    newer = asyncio.create_task(bot.get_updates(timeout=20))
    with pytest.raises(Conflict) as caught:
        await older
    words = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
    assert caught.value.message == words
    server.people.send_text(ada, ada, "hi")
    assert len(await newer) == 1


async def test_a_webhook_and_polling_exclude_each_other(server: TelegramServer, bot: Bot, ada: int) -> None:
    poll = asyncio.create_task(bot.get_updates(timeout=20))
    await server.wait_for(lambda: server.world.updates.polling)
    server.world.updates.set_webhook("https://example.org/hook")
    with pytest.raises(Conflict, match="terminated by setWebhook request"):
        await poll
    with pytest.raises(Conflict, match="can't use getUpdates method while webhook is active"):
        await bot.get_updates()
    server.people.send_text(ada, ada, "hi")
    info = await bot.get_webhook_info()
    assert (info.url, info.pending_update_count) == ("https://example.org/hook", 1)
    await bot.delete_webhook(drop_pending_updates=True)
    assert await bot.get_updates() == ()


async def test_allowed_updates_are_remembered(server: TelegramServer, bot: Bot, ada: int) -> None:
    await bot.get_updates(allowed_updates=["edited_message"])
    message = server.people.send_text(ada, ada, "hi")
    server.people.edit_text(ada, message["message_id"], "hello")
    (update,) = await bot.get_updates()
    assert update.edited_message
    assert (await bot.get_webhook_info()).allowed_updates == ("edited_message",)
    await bot.get_updates(allowed_updates=[])
    server.people.send_text(ada, ada, "back to the default")
    assert len(await bot.get_updates()) == 2


async def test_ids_may_restart_lower_and_an_old_offset_loses_nothing(
    server: TelegramServer, bot: Bot, ada: int
) -> None:
    server.people.send_text(ada, ada, "before")
    (old,) = await bot.get_updates()
    server.world.updates.restart_ids(5)
    server.people.send_text(ada, ada, "after")
    (new,) = await bot.get_updates(offset=old.update_id + 1)
    assert new.update_id < old.update_id
    assert await bot.get_updates(offset=new.update_id + 1) == ()


# Writing


async def test_commands_and_mentions_are_marked(server: TelegramServer, bot: Bot, ada: int) -> None:
    server.people.send_text(ada, ada, "/start deep-link for @our_bot")
    (message,) = await messages(bot)
    assert message.parse_entities() == {
        message.entities[0]: "/start",
        message.entities[1]: "@our_bot",
    }
    assert [entity.type for entity in message.entities] == ["bot_command", "mention"]
    assert (message.chat.type, message.chat.username) == ("private", "ada")


async def test_the_bot_never_hears_itself(server: TelegramServer, bot: Bot, ada: int) -> None:
    await bot.send_message(ada, "hi")
    assert await bot.get_updates() == ()


async def test_replies_arrive(server: TelegramServer, bot: Bot, ada: int) -> None:
    sent = await bot.send_message(ada, "red or blue?")
    server.people.send_text(ada, ada, "that one", reply_to=sent.message_id)
    (message,) = await messages(bot)
    assert message.reply_to_message
    assert message.reply_to_message.text == "red or blue?"


async def test_messages_in_topics_point_at_their_topic(server: TelegramServer, bot: Bot, ada: int) -> None:
    forum = server.people.make_supergroup("Forum", forum=True, bot="administrator")["id"]
    thread = server.people.make_topic(forum, ada, "Plans")
    server.people.send_text(forum, ada, "in the topic", thread=thread)
    server.people.send_text(forum, ada, "in general")
    opened, inside, general = await messages(bot)
    assert opened.forum_topic_created
    assert (inside.is_topic_message, inside.message_thread_id) == (True, thread)
    assert inside.reply_to_message
    assert inside.reply_to_message.forum_topic_created
    assert (general.is_topic_message, general.message_thread_id) == (None, None)


async def test_a_forward_names_its_origin(server: TelegramServer, bot: Bot, ada: int) -> None:
    bob = server.people.make_user("Bob")["id"]
    server.people.send_text(ada, ada, "look", forward={"type": "user", "user_id": bob})
    (message,) = await messages(bot)
    assert message.forward_origin
    assert message.forward_origin.type == "user"


@pytest.mark.parametrize("kind", ["photo", "document", "voice", "audio", "video", "animation", "sticker", "video_note"])
async def test_files_of_every_kind_arrive_and_can_be_fetched(
    server: TelegramServer, bot: Bot, ada: int, kind: str
) -> None:
    server.people.send_media(ada, ada, kind, b"bytes", name="a.bin", caption="see /this")
    (message,) = await messages(bot)
    media = getattr(message, kind)
    file = await bot.get_file((media[-1] if kind == "photo" else media).file_id)
    assert await file.download_as_bytearray() == b"bytes"
    if kind not in ("sticker", "video_note"):
        assert (message.caption, message.caption_entities[0].type) == ("see /this", "bot_command")


async def test_albums_arrive_as_messages_of_one_group(server: TelegramServer, bot: Bot, ada: int) -> None:
    server.people.send_album(ada, ada, [{"kind": "photo", "caption": "both"}, {"kind": "photo"}])
    one, two = await messages(bot)
    assert one.media_group_id == two.media_group_id
    assert one.photo


async def test_places_contacts_and_the_rest_arrive(server: TelegramServer, bot: Bot, ada: int) -> None:
    server.people.send_location(ada, ada, 52.5, 13.4)
    server.people.send_contact(ada, ada, "+49", "Bob")
    server.people.send_fields(ada, ada, {"dice": {"emoji": "🎲", "value": 3}})
    place, contact, dice = await messages(bot)
    assert None not in (place.location, contact.contact, dice.dice)


async def test_edits_arrive_with_their_date(server: TelegramServer, bot: Bot, ada: int) -> None:
    message = server.people.send_text(ada, ada, "helo")
    server.people.edit_text(ada, message["message_id"], "hello /go")
    sent, edited = await bot.get_updates()
    assert sent.message
    assert edited.edited_message
    assert (sent.message.text, edited.edited_message.text) == ("helo", "hello /go")
    assert edited.edited_message.edit_date
    assert edited.edited_message.entities


async def test_reactions_arrive_only_if_asked_for(server: TelegramServer, bot: Bot, ada: int) -> None:
    club = server.people.make_supergroup("Club", bot="member")["id"]
    mine, ours = await bot.send_message(ada, "hi"), await bot.send_message(club, "hi")
    server.people.react(ada, ada, mine.message_id)
    assert await bot.get_updates(allowed_updates=["message", "message_reaction"]) == ()
    server.people.react(ada, ada, mine.message_id, "🔥")
    server.people.react(club, ada, ours.message_id, "🔥")  # no admin there
    (update,) = await bot.get_updates()
    assert update.message_reaction
    changed = update.message_reaction
    assert [one.to_dict()["emoji"] for one in (*changed.old_reaction, *changed.new_reaction)] == ["👍", "🔥"]


async def test_a_pressed_button_can_be_answered_once(server: TelegramServer, bot: Bot, ada: int) -> None:
    markup = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="y")]])
    sent = await bot.send_message(ada, "Sure?", reply_markup=markup)
    pressed = asyncio.create_task(server.people.press_and_wait(ada, ada, sent.message_id, text="Yes"))
    (update,) = await bot.get_updates(timeout=5)
    query = update.callback_query
    assert query
    assert query.message
    assert (query.data, query.message.message_id, query.from_user.id) == ("y", sent.message_id, ada)
    await bot.answer_callback_query(query.id, text="fine")
    assert (await pressed)["text"] == "fine"
    with pytest.raises(BadRequest) as caught:
        await bot.answer_callback_query(query.id)
    words = "Query is too old and response timeout expired or query id is invalid"
    assert caught.value.message == words


async def test_blocking_is_told_and_lasts_until_unblocked(server: TelegramServer, bot: Bot, ada: int) -> None:
    server.people.block(ada)
    with pytest.raises(ValueError, match="cannot write"):
        server.people.send_text(ada, ada, "hi")
    server.people.unblock(ada)
    changes = [update.my_chat_member for update in await bot.get_updates()]
    assert [(one and one.old_chat_member.status, one and one.new_chat_member.status) for one in changes] == [
        ("member", "kicked"),
        ("kicked", "member"),
    ]
    await bot.send_message(ada, "welcome back")


# Privacy mode


async def test_privacy_mode_lets_commands_and_replies_through(server: TelegramServer, bot: Bot, ada: int) -> None:
    club = server.people.make_supergroup("Club", members=[ada])["id"]
    people = server.people
    people.send_text(club, ada, "just talking")
    people.send_text(club, ada, "hey @our_bot, are you there?")
    people.send_text(club, ada, "/go")
    people.send_text(club, ada, "/go@our_bot")
    people.send_text(club, ada, "/go@other_bot")
    asked = await bot.send_message(club, "yes?")
    people.send_text(club, ada, "a reply", reply_to=asked.message_id)
    assert await texts(bot) == ["/go", "/go@our_bot", "a reply"]


@pytest.mark.parametrize("way", ["admin", "privacy off"])
async def test_without_privacy_everything_is_heard_but_other_bots(
    server: TelegramServer, bot: Bot, ada: int, way: str
) -> None:
    server.world.reads_all = way == "privacy off"
    club = server.people.make_supergroup("Club", bot="administrator" if way == "admin" else "member")["id"]
    other = server.people.make_user("Other", is_bot=True)["id"]
    server.people.send_text(club, ada, "just talking")
    server.people.send_text(club, other, "beep")
    server.people.send_text(club, other, "beep, delivered all the same", deliver=True)
    assert await texts(bot) == ["just talking", "beep, delivered all the same"]
    assert (await bot.get_me()).can_read_all_group_messages is (way == "privacy off")


async def test_anonymous_admins_and_channels_speak_through_stand_ins(
    server: TelegramServer, bot: Bot, ada: int
) -> None:
    club = server.people.make_supergroup("Club", bot="administrator")["id"]
    news = server.people.make_channel("News", id=-1002)["id"]
    server.people.send_text(club, ada, "as the group", anonymous=True)
    server.people.send_text(club, ada, "as a channel", as_chat=news)
    anonymous, channel = await messages(bot)
    assert anonymous.from_user
    assert anonymous.sender_chat
    assert channel.sender_chat
    assert (anonymous.from_user.id, anonymous.sender_chat.id, channel.sender_chat.id) == (1087968824, club, news)


async def test_channel_posts_and_their_edits_arrive(server: TelegramServer, bot: Bot) -> None:
    news = server.people.make_channel("News", id=-1002)["id"]
    post = server.people.post_text(news, "breaking")
    server.people.edit_text(news, post["message_id"], "fixed")
    first, second = await bot.get_updates()
    assert first.channel_post
    assert second.edited_channel_post
    assert first.channel_post.from_user is None
    assert second.edited_channel_post.text == "fixed"


async def test_every_update_is_one_the_sdk_can_read(server: TelegramServer, bot: Bot, ada: int) -> None:
    kinds = [*Update.ALL_TYPES]
    await bot.get_updates(allowed_updates=kinds)
    club = server.people.make_supergroup("Club", bot="administrator")["id"]
    server.people.join(club, ada)
    server.people.block(ada)
    joined, blocked = await bot.get_updates()
    assert joined.message
    assert blocked.my_chat_member
    assert all(not update.api_kwargs for update in (joined, blocked))


async def test_people_cannot_do_what_no_client_can(server: TelegramServer, bot: Bot, ada: int) -> None:
    sent = await bot.send_message(ada, "hi")
    group = server.people.make_group("Old", members=[ada])["id"]
    server.people.upgrade(group)
    impossible: list[tuple[Any, tuple[Any, ...]]] = [
        (server.people.send_text, (1, ada, "no such chat")),
        (server.people.send_text, (ada, 5, "no such user")),
        (server.people.send_text, (group, ada, "moved")),
        (server.people.edit_text, (ada, sent.message_id, "not mine")),
        (server.people.react, (ada, ada, 99)),
        (server.people.make_topic, (ada, ada, "Plans")),
        (server.people.upgrade, (group,)),
    ]
    for act, arguments in impossible:
        with pytest.raises(ValueError):
            act(*arguments)
