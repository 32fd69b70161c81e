"""How a message comes to be in a chat, from people and bots alike, and whether the bot hears of it."""

import re
from typing import Any

from playground.telegram.rules import Wire, utf16_length
from playground.telegram.world import Chat, Post, User, World, without_reply

_COMMAND = re.compile(r"/\w+(?:@(\w+))?")


def compose(
    world: World,
    chat: Chat,
    content: Wire,
    *,
    sender: User | None,
    sender_chat: Chat | None = None,
    thread: int = 0,
    reply_to: Post | None = None,
    quote: str = "",
    date: int = 0,
) -> Wire:
    """A Message with a fresh id; not yet in the chat."""
    body: Wire = {"message_id": world.next_message_id(chat)}
    if thread:
        body["message_thread_id"] = thread
    if sender:
        body["from"] = sender.wire
    if sender_chat:
        body["sender_chat"] = sender_chat.wire
    body["chat"] = chat.wire
    body["date"] = date or int(world.now())
    if thread:
        body["is_topic_message"] = True
        # Real clients reply to the message that opened the topic unless told otherwise.
        reply_to = reply_to or chat.posts.get(thread)
    elif reply_to and chat.kind == "supergroup":
        # Replies outside of forums belong to a thread too, one that bots cannot send to.
        body["message_thread_id"] = reply_to.body.get("message_thread_id", reply_to.body["message_id"])
    if reply_to:
        body["reply_to_message"] = without_reply(reply_to.body)
        if quote:
            position = utf16_length(reply_to.words.partition(quote)[0])
            body["quote"] = {"text": quote, "position": position, "is_manual": True}
    return body | content


def add(world: World, chat: Chat, body: Wire, *, by_bot: bool) -> Post:
    """Put it into the chat."""
    post = Post(body=body, by_bot=by_bot)
    chat.posts[body["message_id"]] = post
    sender = body.get("from")
    if chat.is_group and sender and sender["is_bot"] and "sender_chat" not in body:
        chat.last_bot = sender["id"]
    world.events.note("message", chat_id=chat.id, message_id=body["message_id"], by_bot=by_bot, message=body)
    return post


def tell_bot(world: World, chat: Chat, post: Post, *, force: bool | None = None, edited: bool = False) -> None:
    """Tell the bot, if it may hear this; `force` decides instead where it is not None."""
    if not (hears(world, chat, post) if force is None else force):
        return
    post.heard = True
    kind = "channel_post" if chat.kind == "channel" else "message"
    world.updates.push(f"edited_{kind}" if edited else kind, post.body)


def hears(world: World, chat: Chat, post: Post) -> bool:
    """Privacy mode as documented: commands and replies meant for this bot, and service messages; mentions do not count.

    No bot hears another bot, and admins hear everything.
    """
    body, sender = post.body, post.body.get("from", {})
    if chat.kind == "private":
        return True
    if chat.bot_status in ("left", "kicked"):
        return False
    if chat.kind == "channel" or _is_service(body):
        return True
    if sender.get("is_bot") and "sender_chat" not in body:
        return False
    if world.reads_all or chat.bot_is_admin:
        return True
    return _is_meant_for_bot(world, chat, body)


def _is_meant_for_bot(world: World, chat: Chat, body: Wire) -> bool:
    replied = chat.post(body.get("reply_to_message", {}).get("message_id", 0))
    if replied and not _is_service(replied.body):
        if replied.by_bot or replied.heard:
            return True
        if replied.body.get("from", {}).get("is_bot"):
            return False  # a reply to another bot is that bot's alone
    words = body.get("text") or body.get("caption", "")
    if match := _COMMAND.match(words):
        if match[1]:
            return match[1].lower() == world.bot.username.lower()
        return chat.last_bot in (0, world.bot.id)
    return world.hears_mentions and f"@{world.bot.username}".lower() in words.lower()


_SERVICE_FIELDS = (
    "new_chat_members left_chat_member new_chat_title migrate_to_chat_id migrate_from_chat_id pinned_message "
    "forum_topic_created forum_topic_closed forum_topic_reopened group_chat_created"
)
_SERVICE = frozenset(_SERVICE_FIELDS.split())


def _is_service(body: Wire) -> bool:
    return not _SERVICE.isdisjoint(body)


def service(world: World, chat: Chat, sender: User, *, thread: int = 0, **content: Any) -> Post:
    """A message nobody wrote: someone joined, a topic opened, the group moved."""
    post = add(world, chat, compose(world, chat, content, sender=sender, thread=thread), by_bot=sender is world.bot)
    if sender is not world.bot:
        tell_bot(world, chat, post)
    return post


def member_wire(user: User, status: str) -> Wire:
    wire: Wire = {"user": user.wire, "status": status}
    if status == "creator":
        return {**wire, "is_anonymous": False}
    if status == "kicked":
        return {**wire, "until_date": 0}
    if status != "administrator":
        return wire
    rights = (
        "can_manage_chat can_delete_messages can_manage_video_chats can_restrict_members can_change_info "
        "can_invite_users can_post_stories can_edit_stories can_delete_stories can_pin_messages can_manage_topics"
    )
    never = ("can_be_edited", "is_anonymous", "can_promote_members")
    return {**wire, **dict.fromkeys(never, False), **dict.fromkeys(rights.split(), True)}
