"""The people of Telegram: they make chats, write, send files, edit, delete, react and press buttons."""

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

from playground.telegram.messages import add, add_service, compose, media_fields, store_file, tell_bot
from playground.telegram.rules import MAX_TEXT_UNITS, utf16_length
from playground.telegram.text import MarkedText, finish
from playground.telegram.world import (
    ANONYMOUS_ADMIN,
    CHANNEL_BOT,
    ButtonQuery,
    MemberStatus,
    TelegramChat,
    TelegramMessage,
    TelegramUser,
    TelegramWorld,
)
from playground.wire import Wire, without
from playground.world import look_up


class SendOptions(TypedDict, total=False):
    """How a message is sent, for every kind of message."""

    reply_to: int
    thread: int  # a topic
    forward: Wire  # {"type": "user", "user_id": …}
    anonymous: bool  # as the group itself
    as_chat: int  # as a channel of the user's
    deliver: bool  # instead of what privacy mode decides
    extra: Wire  # further fields of the Message


class TelegramPeople:
    """The chat is the first argument and who acts the second; a message is returned as the bot would see it."""

    def __init__(self, world: TelegramWorld) -> None:
        self.world = world

    def make_user(
        self,
        first_name: str = "Ada",
        *,
        id: int = 0,  # noqa: A002 - Telegram's word for it
        username: str = "",
        is_bot: bool = False,
    ) -> Wire:
        """Make a user; their private chat with the bot has the same id."""
        number = id or 500_000_000 + self.world.number()
        return self.world.add_user(
            TelegramUser(id=number, first_name=first_name, username=username, is_bot=is_bot)
        ).wire

    def make_group(self, title: str = "Group", *, members: Sequence[int] = (), bot: MemberStatus = "member") -> Wire:
        number = -(4_000_000 + self.world.number())
        return self._add(TelegramChat(id=number, kind="group", title=title, bot_status=bot), members)

    def make_supergroup(
        self,
        title: str = "Supergroup",
        *,
        members: Sequence[int] = (),
        id: int = 0,  # noqa: A002
        bot: MemberStatus = "member",
        forum: bool = False,
    ) -> Wire:
        number = id or -(1_001_000_000_000 + self.world.number())
        chat = TelegramChat(id=number, kind="supergroup", title=title, is_forum=forum, bot_status=bot)
        return self._add(chat, members)

    def make_channel(self, title: str = "Channel", *, id: int) -> Wire:  # noqa: A002
        return self._add(TelegramChat(id=id, kind="channel", title=title, bot_status="administrator"))

    def _add(self, chat: TelegramChat, members: Sequence[int] = ()) -> Wire:
        chat.members = dict.fromkeys(members, "member")
        self.world.chats[chat.id] = chat
        self.world.events.note("chat", chat_id=chat.id)
        return chat.wire

    def make_topic(self, chat_id: int, user_id: int, name: str) -> int:
        """Open a topic in a forum and return its thread id, which is the id of the message that opened it."""
        chat = self._chat(chat_id)
        if not chat.is_forum:
            raise ValueError(f"chat {chat_id} is no forum")
        created = {"name": name, "icon_color": 7322096}
        content = {"forum_topic_created": created, "is_topic_message": True}
        body = compose(self.world, chat, content, sender=self._user(user_id))
        thread: int = body["message_id"]
        body["message_thread_id"] = thread
        chat.topics[thread] = {"name": name, "closed": False}
        tell_bot(self.world, chat, add(self.world, chat, body, by_bot=False))
        return thread

    def close_topic(self, chat_id: int, user_id: int, thread: int) -> None:
        chat = self._chat(chat_id)
        chat.topics[thread]["closed"] = True
        add_service(self.world, chat, self._user(user_id), thread=thread, forum_topic_closed={})

    def join(self, chat_id: int, user_id: int) -> None:
        chat, user = self._chat(chat_id), self._user(user_id)
        chat.members[user_id] = "member"
        add_service(self.world, chat, user, new_chat_members=[user.wire])

    def block(self, user_id: int, *, undo: bool = False) -> None:
        """Block the bot in the user's private chat."""
        user, (old, new) = self._user(user_id), ("kicked", "member") if undo else ("member", "kicked")
        user.blocked = not undo
        change: Wire = {"chat": self._chat(user_id).wire, "from": user.wire, "date": int(self.world.now())}
        for name, status in (("old_chat_member", old), ("new_chat_member", new)):
            until = {"until_date": 0} if status == "kicked" else {}
            change[name] = {"user": self.world.bot.wire, "status": status, **until}
        self.world.updates.push("my_chat_member", change)
        self.world.events.note("member", chat_id=user_id, status=new)

    def upgrade(self, chat_id: int) -> int:
        """Turn a group into a supergroup and return the new id; the old chat only points there."""
        old = self._chat(chat_id)
        if old.kind != "group" or old.migrated_to:
            raise ValueError(f"chat {chat_id} is no group that could be upgraded")
        new_id: int = self.make_supergroup(old.title, members=list(old.members), bot=old.bot_status)["id"]
        by = self._user(next(iter(old.members)))
        add_service(self.world, old, by, migrate_to_chat_id=new_id)
        old.migrated_to = new_id
        add_service(self.world, self._chat(new_id), by, migrate_from_chat_id=chat_id)
        return new_id

    def send_text(self, chat_id: int, user_id: int, text: str, **options: Unpack[SendOptions]) -> Wire:
        """Send a text with its commands, mentions and links marked; a channel's has no user.

        Raises ValueError where no client could.
        """
        marked = finish(MarkedText(text))
        if not 0 < utf16_length(marked.text) <= MAX_TEXT_UNITS:
            raise ValueError("a text has 1 to 4096 UTF-16 units")
        return self._send(chat_id, user_id, marked.fields("text"), options)

    def send_media(
        self,
        chat_id: int,
        user_id: int,
        kind: str,
        content: bytes = b"bytes",
        *,
        name: str = "",
        mime_type: str = "",
        size: int | None = None,
        caption: str = "",
        details: Wire | None = None,
        **options: Unpack[SendOptions],
    ) -> Wire:
        """Send a photo, document, voice, audio, video, animation, sticker or video_note.

        With `size` the file claims that size, whatever its content.
        """
        stored = store_file(self.world, kind, content, name=name, mime_type=mime_type, size=size)
        fields = media_fields(self.world, kind, stored, details or {})
        if caption:
            fields |= finish(MarkedText(caption)).fields("caption")
        return self._send(chat_id, user_id, fields, options)

    def send_album(
        self, chat_id: int, user_id: int, items: Sequence[dict[str, Any]], **options: Unpack[SendOptions]
    ) -> list[Wire]:
        """Send items of `send_media` arguments as messages that share a `media_group_id`."""
        options = {**options, "extra": {"media_group_id": str(13_000_000_000_000_000 + self.world.number())}}
        return [self.send_media(chat_id, user_id, **item, **options) for item in items]

    def send_fields(self, chat_id: int, user_id: int, fields: Wire) -> Wire:
        """Send a message of any other kind, in the terms of the Bot API (`dice`, `poll`, `story`…)."""
        return self._send(chat_id, user_id, fields, {})

    def _send(self, chat_id: int, user_id: int, content: Wire, options: SendOptions) -> Wire:
        chat = self._chat(chat_id)
        if chat.migrated_to:
            raise ValueError(f"chat {chat_id} is now {chat.migrated_to}")
        thread = options.get("thread", 0)
        if thread:
            look_up(chat.topics, thread, "topic")
        if "forward" in options:
            author = self._user(options["forward"]["user_id"]).wire
            origin = {"type": "user", "date": int(self.world.now()) - 60, "sender_user": author}
            content = {**content, "forward_origin": origin}
        sender, sender_chat = self._find_sender(chat, user_id, options)
        body = compose(
            self.world,
            chat,
            content | options.get("extra", {}),
            sender=sender,
            sender_chat=sender_chat,
            thread=thread,
            reply_to=self._post(chat_id, options["reply_to"]) if "reply_to" in options else None,
        )
        post = add(self.world, chat, body, by_bot=False)
        tell_bot(self.world, chat, post, force=options.get("deliver"))
        return body

    def _find_sender(
        self, chat: TelegramChat, user_id: int, options: SendOptions
    ) -> tuple[TelegramUser | None, TelegramChat | None]:
        if chat.kind == "channel":
            return None, chat
        if options.get("anonymous"):
            return self._user(ANONYMOUS_ADMIN), chat
        if "as_chat" in options:
            return self._user(CHANNEL_BOT), self._chat(options["as_chat"])
        user = self._user(user_id)
        if chat.kind == "private" and (user.blocked or chat.id != user_id):
            raise ValueError(f"user {user_id} cannot write to the bot in chat {chat.id}")
        chat.members.setdefault(user_id, "member")
        return user, None

    def edit_text(self, chat_id: int, message_id: int, text: str, *, deliver: bool | None = None) -> Wire:
        """Change the text or caption as its author; an edit that changes nothing still arrives, as in reality."""
        post, chat = self._post(chat_id, message_id), self._chat(chat_id)
        if post.by_bot:
            raise ValueError("people cannot edit what the bot wrote")
        field = "text" if "text" in post.body else "caption"
        post.earlier.append(post.words)
        kept, new = without(post.body, "entities", "caption_entities"), finish(MarkedText(text)).fields(field)
        post.body = {**kept, **new, "edit_date": int(self.world.now())}
        self.world.events.note("edit", chat_id=chat_id, message_id=message_id, by_bot=False, message=post.body)
        tell_bot(self.world, chat, post, force=True if deliver is None and post.heard else deliver, edited=True)
        return post.body

    def delete(self, chat_id: int, message_ids: Sequence[int]) -> None:
        """Delete messages; Telegram tells no bot of it."""
        for message_id in message_ids:
            self._post(chat_id, message_id).deleted = True
            self.world.events.note("delete", chat_id=chat_id, message_id=message_id, by_bot=False)

    def react(self, chat_id: int, user_id: int, message_id: int, emoji: str = "👍") -> None:
        """Put one reaction, or remove it with an empty one. A bot hears it if it asked to, in groups as admin."""
        post, chat = self._post(chat_id, message_id), self._chat(chat_id)
        old, new = post.reactions.get(user_id, []), [{"type": "emoji", "emoji": emoji}] if emoji else []
        post.reactions[user_id] = new
        self.world.events.note("reaction", chat_id=chat_id, message_id=message_id, user_id=user_id, emoji=emoji)
        if chat.kind == "private" or chat.bot_is_admin:
            change = {"chat": chat.wire, "message_id": message_id, "user": self._user(user_id).wire}
            change |= {"date": int(self.world.now()), "old_reaction": old, "new_reaction": new}
            self.world.updates.push("message_reaction", change)

    def press(self, chat_id: int, user_id: int, message_id: int, *, data: str = "", text: str = "") -> str:
        """Press the button with this text or data and return the id of the query. Raises ValueError without one."""
        post = self._post(chat_id, message_id)
        rows = post.body.get("reply_markup", {}).get("inline_keyboard", [])
        for button in (button for row in rows for button in row):
            if "callback_data" in button and (button["text"] == text or button["callback_data"] == data):
                return self._query(chat_id, user_id, post, button["callback_data"])
        raise ValueError(f"message {message_id} has no button {text or data!r}")

    def _query(self, chat_id: int, user_id: int, post: TelegramMessage, data: str) -> str:
        query = ButtonQuery(id=str(4_000_000_000_000_000_000 + self.world.number()), user_id=user_id, data=data)
        self.world.queries[query.id] = query
        self.world.events.note("press", chat_id=chat_id, message_id=post.body["message_id"], query_id=query.id)
        wire = {"id": query.id, "from": self._user(user_id).wire, "message": post.body}
        self.world.updates.push("callback_query", {**wire, "chat_instance": str(-chat_id), "data": data})
        return query.id

    async def press_and_wait(
        self, chat_id: int, user_id: int, message_id: int, *, data: str = "", text: str = "", seconds: float = 5.0
    ) -> Wire:
        """Press, wait until the bot answers the query and return the answer. Raises TimeoutError."""
        query = self.world.queries[self.press(chat_id, user_id, message_id, data=data, text=text)]
        answer = await self.world.events.wait_for(lambda: query.answer, seconds=seconds)
        assert answer is not None
        return answer

    def _chat(self, chat_id: int) -> TelegramChat:
        return look_up(self.world.chats, chat_id, "chat")

    def _user(self, user_id: int) -> TelegramUser:
        return look_up(self.world.users, user_id, "user")

    def _post(self, chat_id: int, message_id: int) -> TelegramMessage:
        post = self._chat(chat_id).post(message_id)
        if post is None:
            raise ValueError(f"chat {chat_id} shows no message {message_id}")
        return post
