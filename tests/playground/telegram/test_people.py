"""People and polls: what users do reaches the bot as Telegram would tell it, once confirmed never again."""

import asyncio
from typing import Any

import pytest
from telegram import Bot, Message
from telegram.error import Conflict

from playground.telegram.server import TelegramServer


async def messages(bot: Bot, **more: Any) -> list[Message]:
    return [update.message for update in await bot.get_updates(**more) if update.message]


async def texts(bot: Bot) -> list[str | None]:
    return [update.effective_message.text for update in await bot.get_updates() if update.effective_message]


# Polling


async def test_unconfirmed_updates_come_again_with_the_same_id(server: TelegramServer, bot: Bot, ada: int) -> None:
    for number in range(120):
        server.people.send_text(ada, ada, str(number))
    first, again = await bot.get_updates(), await bot.get_updates()
    ids = [update.update_id for update in first]
    assert ids == [update.update_id for update in again] == list(range(ids[0], ids[0] + 100))
    left = await messages(bot, offset=ids[-1] + 1)
    assert [message.text for message in left] == [str(number) for number in range(100, 120)]
    assert await messages(bot) == left, "confirmed means gone"


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


async def test_a_webhook_and_polling_exclude_each_other(server: TelegramServer, bot: Bot) -> None:
    poll = asyncio.create_task(bot.get_updates(timeout=20))
    await server.wait_for(lambda: server.world.updates.polling)
    server.world.updates.set_webhook("https://example.org/hook")
    with pytest.raises(Conflict, match="terminated by setWebhook request"):
        await poll
    with pytest.raises(Conflict, match="can't use getUpdates method while webhook is active"):
        await bot.get_updates()


async def test_kinds_of_updates_that_are_not_asked_for_do_not_come(server: TelegramServer, bot: Bot, ada: int) -> None:
    club = server.people.make_supergroup("Club", bot="member")["id"]
    mine, ours = await bot.send_message(ada, "hi"), await bot.send_message(club, "hi")
    server.people.react(ada, ada, mine.message_id)
    assert await bot.get_updates(allowed_updates=["message_reaction"]) == ()
    server.people.send_text(ada, ada, "unheard")
    server.people.react(ada, ada, mine.message_id, "🔥")
    server.people.react(club, ada, ours.message_id, "🔥")  # no admin there
    [update] = await bot.get_updates()
    assert update.message_reaction
    changed = update.message_reaction
    assert [one.to_dict()["emoji"] for one in (*changed.old_reaction, *changed.new_reaction)] == ["👍", "🔥"]
    await bot.get_updates(allowed_updates=[])  # the default again
    server.people.send_text(ada, ada, "heard")
    assert await texts(bot) == ["heard"]


# Who is heard


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


async def test_privacy_mode_lets_commands_and_replies_through(server: TelegramServer, bot: Bot, ada: int) -> None:
    club = server.people.make_supergroup("Club", members=[ada])["id"]
    for text in ("just talking", "hey @our_bot, are you there?", "/go", "/go@our_bot", "/go@other_bot"):
        server.people.send_text(club, ada, text)
    asked = await bot.send_message(club, "yes?")
    server.people.send_text(club, ada, "a reply", reply_to=asked.message_id)
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


async def test_people_cannot_do_what_no_client_can(server: TelegramServer, bot: Bot, ada: int) -> None:
    sent = await bot.send_message(ada, "hi")
    group = server.people.make_group("Old", members=[ada])["id"]
    server.people.upgrade(group)
    bea = server.people.make_user("Bea")["id"]
    server.people.block(bea)
    impossible: list[tuple[Any, tuple[Any, ...]]] = [
        (server.people.send_text, (1, ada, "no such chat")),
        (server.people.send_text, (ada, 5, "no such user")),
        (server.people.send_text, (group, ada, "moved")),
        (server.people.send_text, (bea, bea, "to a bot that is blocked")),
        (server.people.edit_text, (ada, sent.message_id, "not mine")),
        (server.people.react, (ada, ada, 99)),
        (server.people.make_topic, (ada, ada, "Plans")),
        (server.people.upgrade, (group,)),
    ]
    for act, arguments in impossible:
        with pytest.raises(ValueError):
            act(*arguments)
