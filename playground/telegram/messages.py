"""How a message gets into a chat, from people and bots alike, and whether the bot is told of it."""

import re
from typing import Any

from playground.telegram.world import TelegramChat, TelegramFile, TelegramMessage, TelegramUser, TelegramWorld
from playground.wire import Wire, without

_COMMAND = re.compile(r"/\w+(?:@(\w+))?")
_SERVICE_FIELDS = "new_chat_members migrate_to_chat_id migrate_from_chat_id forum_topic_created forum_topic_closed"
_SERVICE = frozenset(_SERVICE_FIELDS.split())
_FOLDERS = {"photo": "photos", "voice": "voice", "audio": "music", "video": "videos", "sticker": "stickers"}
_ENDINGS = {"photo": "jpg", "voice": "oga", "audio": "mp3", "video": "mp4", "sticker": "webp", "video_note": "mp4"}
_MIME_TYPES = {"voice": "audio/ogg", "audio": "audio/mpeg", "video": "video/mp4", "animation": "video/mp4"}
_REQUIRED: dict[str, Wire] = {
    "voice": {"duration": 1},
    "audio": {"duration": 1},
    "video": {"width": 640, "height": 360, "duration": 1},
    "animation": {"width": 320, "height": 240, "duration": 1},
    "video_note": {"length": 240, "duration": 1},
    "sticker": {"type": "regular", "width": 512, "height": 512, "is_animated": False, "is_video": False},
}


def compose(
    world: TelegramWorld,
    chat: TelegramChat,
    content: Wire,
    *,
    sender: TelegramUser | None,
    sender_chat: TelegramChat | None = None,
    thread: int = 0,
    reply_to: TelegramMessage | None = None,
) -> Wire:
    """Return a Message with a fresh id that is not yet in the chat."""
    body: Wire = {"message_id": world.next_message_id(chat)}
    if thread:
        body["message_thread_id"] = thread
    if sender:
        body["from"] = sender.wire
    if sender_chat:
        body["sender_chat"] = sender_chat.wire
    body |= {"chat": chat.wire, "date": int(world.now())}
    if thread:
        body["is_topic_message"] = True
        # Real clients reply to the message that opened the topic unless told otherwise.
        reply_to = reply_to or chat.posts.get(thread)
    elif reply_to and chat.kind == "supergroup":
        # Replies outside of forums belong to a thread too, one that bots cannot send to.
        body["message_thread_id"] = reply_to.body.get("message_thread_id", reply_to.body["message_id"])
    if reply_to:
        body["reply_to_message"] = without(reply_to.body, "reply_to_message")
    return body | content


def add(world: TelegramWorld, chat: TelegramChat, body: Wire, *, by_bot: bool) -> TelegramMessage:
    """Put a message into the chat."""
    post = TelegramMessage(body=body, by_bot=by_bot)
    chat.posts[body["message_id"]] = post
    world.events.note("message", chat_id=chat.id, message_id=body["message_id"], by_bot=by_bot, message=body)
    return post


def tell_bot(
    world: TelegramWorld, chat: TelegramChat, post: TelegramMessage, *, force: bool | None = None, edited: bool = False
) -> None:
    """Tell the bot of a message if it may hear it; `force` decides instead where it is not None."""
    if not (_hears(world, chat, post) if force is None else force):
        return
    post.heard = True
    kind = "channel_post" if chat.kind == "channel" else "message"
    world.updates.push(f"edited_{kind}" if edited else kind, post.body)


def _hears(world: TelegramWorld, chat: TelegramChat, post: TelegramMessage) -> bool:
    """Apply privacy mode: the bot hears commands and replies meant for it and service messages, but no mentions.

    No bot hears another bot, and admins hear everything.
    """
    body = post.body
    if chat.kind == "private":
        return True
    if chat.bot_status in ("left", "kicked"):
        return False
    if chat.kind == "channel" or _is_service(body):
        return True
    if body.get("from", {}).get("is_bot") and "sender_chat" not in body:
        return False
    if world.reads_all or chat.bot_is_admin:
        return True
    replied = chat.post(body.get("reply_to_message", {}).get("message_id", 0))
    if replied and not _is_service(replied.body) and (replied.by_bot or replied.heard):
        return True
    command = _COMMAND.match(post.words)
    return command is not None and (command[1] or world.bot.username).lower() == world.bot.username.lower()


def _is_service(body: Wire) -> bool:
    return not _SERVICE.isdisjoint(body)


def add_service(
    world: TelegramWorld, chat: TelegramChat, sender: TelegramUser, *, thread: int = 0, **content: Any
) -> None:
    """Add a message nobody wrote: someone joined, a topic was closed, the group moved."""
    post = add(world, chat, compose(world, chat, content, sender=sender, thread=thread), by_bot=False)
    tell_bot(world, chat, post)


def store_file(
    world: TelegramWorld,
    kind: str,
    content: bytes,
    *,
    name: str = "",
    mime_type: str = "",
    size: int | None = None,
) -> TelegramFile:
    """Keep a file; with `size` it claims that size, whatever its content."""
    number = world.number()
    ending = _ENDINGS.get(kind) or (name.rsplit(".", 1)[-1] if "." in name else "bin")
    stored = TelegramFile(
        id=f"AgACAgIAAxkBAAI{number:08d}{kind[:3]}AQAD",
        path=f"{_FOLDERS.get(kind, 'documents')}/file_{number}.{ending}",
        size=len(content) if size is None else size,
        name=name,
        mime_type=mime_type or _MIME_TYPES.get(kind, ""),
        content=content,
        kind=kind,
    )
    world.files[stored.id] = stored
    return stored


def media_fields(world: TelegramWorld, kind: str, stored: TelegramFile, details: Wire) -> Wire:
    """Return the part of a Message that shows this file; `details` are the sender's sizes, durations and titles."""
    file = stored.wire
    if kind == "photo":
        small = store_file(world, "photo", stored.content, size=min(stored.size, 1000))
        size = {"width": details.get("width", 1280), "height": details.get("height", 720)}
        return {"photo": [{**small.wire, "width": 90, "height": 51}, {**file, **size}]}
    if stored.mime_type and kind not in ("sticker", "video_note"):
        file["mime_type"] = stored.mime_type
    if stored.name and kind in ("document", "audio", "video", "animation"):
        file["file_name"] = stored.name
    fields = {kind: {**file, **_REQUIRED.get(kind, {}), **details}}
    if kind == "animation":
        fields["document"] = file  # for clients older than animations
    return fields
