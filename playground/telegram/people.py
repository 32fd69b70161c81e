"""What people do in chats: write, send files, edit, delete, react, press buttons."""

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

from playground.telegram.entities import Formatted, finish
from playground.telegram.media import has_caption, media_fields, store_file
from playground.telegram.messages import add, compose, tell_bot
from playground.telegram.places import Places
from playground.telegram.rules import MAX_TEXT_UNITS, Wire, utf16_length
from playground.telegram.world import ANONYMOUS_ADMIN, CHANNEL_BOT, Chat, Post, Query, User


class Options(TypedDict, total=False):
    """How a message is sent, for every kind of message."""

    reply_to: int
    quote: str  # a part of the replied text
    thread: int  # a topic
    forward: Wire  # {"type": "user" | "hidden_user" | "chat" | "channel", "user_id" | "name" | "chat_id", "message_id"}
    anonymous: bool  # as the group itself
    as_chat: int  # as a channel of the user's
    signature: str  # author of a channel post
    deliver: bool  # instead of what privacy mode decides
    date: int
    extra: Wire  # further fields of the Message, as they are


class People(Places):
    """Who acts is always the second argument; a message is given back as the bot would see it."""

    def send_text(
        self, chat_id: int, user_id: int, text: str, *, entities: Sequence[Wire] = (), **options: Unpack[Options]
    ) -> Wire:
        """Commands, mentions and links in the text are marked; raises ValueError for what no client would send."""
        formatted = finish(Formatted(text, list(entities)))
        if not 0 < utf16_length(formatted.text) <= MAX_TEXT_UNITS:
            raise ValueError("a text has 1 to 4096 UTF-16 units; see send_long_text")
        return self._send(chat_id, user_id, _with_entities("text", formatted), options)

    def send_long_text(self, chat_id: int, user_id: int, text: str, **options: Unpack[Options]) -> list[Wire]:
        """As clients do: cut at the limit into messages that follow at once."""
        pieces, units = [""], 0
        for symbol in text:
            units += 1 + (symbol > "\uffff")
            if units > MAX_TEXT_UNITS:
                pieces.append("")
                units = 1 + (symbol > "\uffff")
            pieces[-1] += symbol
        return [self.send_text(chat_id, user_id, piece, **options) for piece in pieces]

    def send_media(
        self,
        chat_id: int,
        user_id: int,
        kind: str,
        content: bytes | None = b"bytes",
        *,
        name: str = "",
        mime_type: str = "",
        size: int | None = None,
        caption: str = "",
        details: Wire | None = None,
        **options: Unpack[Options],
    ) -> Wire:
        """A photo, document, voice, audio, video, animation, sticker or video_note.

        With `size` the file claims that size whatever its content.
        """
        stored = store_file(self.world, kind, content, name=name, mime_type=mime_type, size=size)
        fields = media_fields(self.world, kind, stored, details or {})
        if caption and has_caption(kind):
            fields |= _with_entities("caption", finish(Formatted(caption)))
        return self._send(chat_id, user_id, fields, options)

    def send_album(
        self, chat_id: int, user_id: int, items: Sequence[dict[str, Any]], **options: Unpack[Options]
    ) -> list[Wire]:
        """Each item holds what `send_media` takes, `kind` at least; an update each, tied by `media_group_id`."""
        group = {**options.get("extra", {}), "media_group_id": str(13_000_000_000_000_000 + self.world.number())}
        options = {**options, "extra": group}
        return [self.send_media(chat_id, user_id, **item, **options) for item in items]

    def send_location(
        self, chat_id: int, user_id: int, latitude: float, longitude: float, **options: Unpack[Options]
    ) -> Wire:
        return self._send(chat_id, user_id, {"location": {"latitude": latitude, "longitude": longitude}}, options)

    def send_venue(
        self,
        chat_id: int,
        user_id: int,
        title: str,
        address: str,
        *,
        latitude: float = 0.0,
        longitude: float = 0.0,
        **options: Unpack[Options],
    ) -> Wire:
        location = {"latitude": latitude, "longitude": longitude}
        venue = {"venue": {"location": location, "title": title, "address": address}, "location": location}
        return self._send(chat_id, user_id, venue, options)

    def send_contact(
        self, chat_id: int, user_id: int, phone_number: str, first_name: str, **options: Unpack[Options]
    ) -> Wire:
        contact = {"phone_number": phone_number, "first_name": first_name}
        return self._send(chat_id, user_id, {"contact": contact}, options)

    def send_fields(self, chat_id: int, user_id: int, fields: Wire, **options: Unpack[Options]) -> Wire:
        """A message of any other kind, in the words of the Bot API (`dice`, `poll`, `story`…)."""
        return self._send(chat_id, user_id, fields, options)

    def post_text(self, chat_id: int, text: str, **options: Unpack[Options]) -> Wire:
        """A post in a channel."""
        return self._send(chat_id, 0, _with_entities("text", finish(Formatted(text))), options)

    def _send(self, chat_id: int, user_id: int, content: Wire, options: Options) -> Wire:
        chat = self._chat(chat_id)
        if chat.migrated_to:
            raise ValueError(f"chat {chat_id} is now {chat.migrated_to}")
        sender, sender_chat = self._sender(chat, user_id, options)
        thread = options.get("thread", 0)
        if thread and thread not in chat.topics:
            raise ValueError(f"chat {chat_id} has no topic {thread}")
        body = compose(
            self.world,
            chat,
            content | self._origin(options) | options.get("extra", {}),
            sender=sender,
            sender_chat=sender_chat,
            thread=thread,
            reply_to=self._post(chat_id, options["reply_to"]) if "reply_to" in options else None,
            quote=options.get("quote", ""),
            date=options.get("date", 0),
        )
        post = add(self.world, chat, body, by_bot=False)
        tell_bot(self.world, chat, post, force=options.get("deliver"))
        return body

    def _sender(self, chat: Chat, user_id: int, options: Options) -> tuple[User | None, Chat | None]:
        if chat.kind == "channel":
            return None, chat
        if options.get("anonymous"):
            return self._user(ANONYMOUS_ADMIN), chat
        if "as_chat" in options:
            return self._user(CHANNEL_BOT), self._chat(options["as_chat"])
        user = self._user(user_id)
        if chat.kind == "private":
            if user.blocked or user.deactivated or chat.id != user_id:
                raise ValueError(f"user {user_id} cannot write to the bot in chat {chat.id}")
            user.started = True
        chat.members.setdefault(user_id, "member")
        return user, None

    def _origin(self, options: Options) -> Wire:
        fields: Wire = {"author_signature": options["signature"]} if "signature" in options else {}
        if "forward" not in options:
            return fields
        given = options["forward"]
        origin: Wire = {"type": given["type"], "date": given.get("date", int(self.world.now()) - 60)}
        match given["type"]:
            case "user":
                origin["sender_user"] = self._user(given["user_id"]).wire
            case "hidden_user":
                origin["sender_user_name"] = given["name"]
            case "chat":
                origin["sender_chat"] = self._chat(given["chat_id"]).wire
            case "channel":
                origin |= {"chat": self._chat(given["chat_id"]).wire, "message_id": given.get("message_id", 1)}
            case other:
                raise ValueError(f"unknown origin {other!r}")
        return fields | {"forward_origin": origin}

    def _post(self, chat_id: int, message_id: int) -> Post:
        post = self._chat(chat_id).post(message_id)
        if post is None:
            raise ValueError(f"chat {chat_id} shows no message {message_id}")
        return post

    def edit_text(self, chat_id: int, message_id: int, text: str, *, deliver: bool | None = None) -> Wire:
        """The author changes the text or caption; an edit that changes nothing still arrives, as in reality."""
        post, chat = self._post(chat_id, message_id), self._chat(chat_id)
        if post.by_bot:
            raise ValueError("people cannot edit what the bot wrote")
        field = "text" if "text" in post.body else "caption"
        post.earlier.append(post.body.get(field, ""))
        kept = {key: value for key, value in post.body.items() if key not in ("entities", "caption_entities")}
        new = _with_entities(field, finish(Formatted(text)))
        post.body = {**kept, **new, "edit_date": int(self.world.now())}
        self.world.events.note("edit", chat_id=chat_id, message_id=message_id, by_bot=False, message=post.body)
        if deliver is None and post.heard and chat.bot_status not in ("left", "kicked"):
            deliver = True
        tell_bot(self.world, chat, post, force=deliver, edited=True)
        return post.body

    def delete(self, chat_id: int, message_ids: Sequence[int], *, business_connection_id: str = "") -> None:
        """Gone from the chat. A bot hears of it in chats of a business connection only."""
        for message_id in message_ids:
            self._post(chat_id, message_id).deleted = True
            self.world.events.note("delete", chat_id=chat_id, message_id=message_id, by_bot=False)
        if business_connection_id:
            gone = {"business_connection_id": business_connection_id, "chat": self._chat(chat_id).wire}
            self.world.updates.push("deleted_business_messages", {**gone, "message_ids": list(message_ids)})

    def react(self, chat_id: int, user_id: int, message_id: int, emoji: str = "👍") -> None:
        """Put one reaction, or take it away with an empty one. The bot hears it if it asked to, in groups as admin."""
        post, chat = self._post(chat_id, message_id), self._chat(chat_id)
        old = post.reactions.get(user_id, [])
        new = [{"type": "emoji", "emoji": emoji}] if emoji else []
        post.reactions[user_id] = new
        self.world.events.note("reaction", chat_id=chat_id, message_id=message_id, user_id=user_id, emoji=emoji)
        if chat.kind != "private" and not chat.bot_is_admin:
            return
        change = {"chat": chat.wire, "message_id": message_id, "user": self._user(user_id).wire}
        change |= {"date": int(self.world.now()), "old_reaction": old, "new_reaction": new}
        self.world.updates.push("message_reaction", change)

    def press(self, chat_id: int, user_id: int, message_id: int, *, data: str = "", text: str = "") -> str:
        """Press the button with this text or data; gives the id of the query. A missing button is a ValueError."""
        post = self._post(chat_id, message_id)
        rows = post.body.get("reply_markup", {}).get("inline_keyboard", [])
        for button in (button for row in rows for button in row):
            if "callback_data" in button and (button["text"] == text or button["callback_data"] == data):
                return self._query(chat_id, user_id, post, button["callback_data"])
        raise ValueError(f"message {message_id} has no button {text or data!r}")

    def _query(self, chat_id: int, user_id: int, post: Post, data: str) -> str:
        query = Query(id=str(4_000_000_000_000_000_000 + self.world.number()), user_id=user_id, data=data)
        self.world.queries[query.id] = query
        self.world.events.note("press", chat_id=chat_id, message_id=post.body["message_id"], query_id=query.id)
        wire = {"id": query.id, "from": self._user(user_id).wire, "message": post.body}
        self.world.updates.push("callback_query", {**wire, "chat_instance": str(-chat_id), "data": data})
        return query.id

    async def press_and_wait(
        self, chat_id: int, user_id: int, message_id: int, *, data: str = "", text: str = "", seconds: float = 5.0
    ) -> Wire:
        """Press and wait until the bot answers the query; gives the answer. Raises TimeoutError."""
        query = self.world.queries[self.press(chat_id, user_id, message_id, data=data, text=text)]
        answer = await self.world.events.wait_for(lambda: query.answer, seconds=seconds)
        assert answer is not None
        return answer

    def expire_queries(self) -> None:
        """Time passes: buttons pressed before this can no longer be answered."""
        for query in self.world.queries.values():
            query.expired = True


def _with_entities(field: str, formatted: Formatted) -> Wire:
    fields: Wire = {field: formatted.text}
    if formatted.entities:
        fields["entities" if field == "text" else "caption_entities"] = formatted.entities
    return fields
