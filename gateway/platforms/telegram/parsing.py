"""Turn Telegram's updates into our messages. Pure: no network, no storage."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from telegram import (
    CallbackQuery,
    Chat,
    ChatMember,
    ChatMemberUpdated,
    Message,
    MessageEntity,
    MessageOrigin,
    MessageReactionUpdated,
    PhotoSize,
    ReactionTypeEmoji,
    Update,
    User,
)

from gateway.messages import InboundMessage, Location, Media, MediaKind, Part, Quote, Sender, SessionKey, Text, text_of
from gateway.platforms.text import media_kind, one_line, utf16_len
from tools.content import encodable

MAX_FILE_BYTES = 20 * 1024 * 1024  # Telegram gives larger files to no bot
_MAX_QUOTE_CHARS = 1_000
# The first one present is the message's file. An animation is also sent as a document, for old clients.
_FILES: tuple[tuple[str, MediaKind, str, str], ...] = (
    ("animation", "video", "animation.mp4", "video/mp4"),
    ("audio", "audio", "audio.mp3", "audio/mpeg"),
    ("video", "video", "video.mp4", "video/mp4"),
    ("video_note", "video", "video note.mp4", "video/mp4"),
    ("voice", "audio", "voice.ogg", "audio/ogg"),
    ("document", "file", "document", "application/octet-stream"),
)
_UNREAD = ("story", "game", "invoice", "paid_media", "giveaway", "gift", "unique_gift")  # we can only mention these
# No deletions: Telegram reports those only in business chats, whose message ids are separate.
KINDS_WE_READ = (
    Update.MESSAGE,
    Update.EDITED_MESSAGE,
    Update.CHANNEL_POST,
    Update.EDITED_CHANNEL_POST,
    Update.CALLBACK_QUERY,
    Update.MESSAGE_REACTION,
    Update.MY_CHAT_MEMBER,
)
_CUT_BY_THE_CLIENT = 4_000  # a text this long is the first piece of a longer one
_UPDATE_IDS = 1_000_000_000  # this many per second still fit into 64 bits
_NUMBERED_FOR_ALL = (Chat.SUPERGROUP, Chat.CHANNEL)
_GONE = (ChatMember.LEFT, ChatMember.BANNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramIdentity:
    """The bot of an account."""

    account: str
    id: int
    username: str
    mark: int = 0  # of a bot that replaced another: see `_choose_mark`


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedUpdate:
    """The meaning of one update."""

    messages: tuple[InboundMessage, ...] = ()
    moved: tuple[str, str] | None = None  # a group has a new id: old, new
    pressed: str = ""  # the id of a button press that must be answered
    chat: str = ""  # of the next two
    reachable: bool = False  # we may write there, perhaps again
    note: str = ""  # for the log


def parse_update(update: Update, me: TelegramIdentity, commands: Collection[str], *, at_ms: int) -> ParsedUpdate:
    """Parse one update. `at_ms` is used where Telegram gives no time."""
    if update.callback_query is not None:
        return _parse_press(update.callback_query, me, at_ms)
    if update.message_reaction is not None:
        return _parse_reaction(update.message_reaction, me, update.update_id)
    if update.my_chat_member is not None:
        return _parse_membership(update.my_chat_member)
    if (said := update.message or update.channel_post) is not None:
        if said.migrate_to_chat_id is not None:
            return ParsedUpdate(moved=(str(said.chat.id), str(said.migrate_to_chat_id)))
        message = _build_message(said, me, commands)
        return ParsedUpdate(messages=(message,)) if message is not None else ParsedUpdate()
    if (edited := update.edited_message or update.edited_channel_post) is not None:
        return _parse_edit(edited, me, commands, update.update_id)
    return ParsedUpdate()


def _parse_edit(message: Message, me: TelegramIdentity, commands: Collection[str], update_id: int) -> ParsedUpdate:
    said = _build_message(message, me, commands)
    if said is None or message.location is not None:  # a live location that moves
        return ParsedUpdate()
    at_ms = _to_ms(message.edit_date or message.date)
    # Telegram counts in seconds: of two edits within one, the later has the higher update id.
    order = at_ms // 1000 * _UPDATE_IDS + update_id % _UPDATE_IDS
    edit = replace(said, kind="edit", sent_ms=at_ms, edited_ms=order, more_follows=False)
    return ParsedUpdate(messages=(edit,))


def _build_message(message: Message, me: TelegramIdentity, commands: Collection[str]) -> InboundMessage | None:
    parts = parse_parts(message)
    if not parts or _is_our_own(message, me):
        return None
    reply = find_reply(message)
    return InboundMessage(
        key=_build_key(message.chat, me, _find_topic(message)),
        message_id=str(message.message_id),
        # First: for anonymous administrators and for people writing as a channel, Telegram names a bot of its own.
        sender=_build_sender(message.from_user)
        if message.sender_chat is None and message.from_user is not None
        else _chat_as_sender(message.sender_chat or message.chat),
        parts=parts,
        sent_ms=_to_ms(message.date),
        edited_ms=_choose_mark(message.chat, me),
        about=str(reply.message_id) if reply is not None else "",
        addressed=_is_addressed(message, me, commands),
        more_follows=message.media_group_id is not None or utf16_len(get_text(message)[0]) >= _CUT_BY_THE_CLIENT,
        place_name=one_line(message.chat.title),
        called=_find_own_name(message, me),
    )


def _parse_press(query: CallbackQuery, me: TelegramIdentity, at_ms: int) -> ParsedUpdate:
    below = query.message
    if below is None or query.data is None:  # a game, or a message that we did not send
        return ParsedUpdate(pressed=query.id)
    message = InboundMessage(
        key=_build_key(below.chat, me, _find_topic(below) if isinstance(below, Message) else ""),
        message_id=query.id,
        kind="button",
        sender=_build_sender(query.from_user),
        parts=(Text(text=encodable(query.data)),),
        sent_ms=at_ms,
        about=str(below.message_id),
        place_name=one_line(below.chat.title),
    )
    return ParsedUpdate(messages=(message,), pressed=query.id)


def _parse_reaction(reaction: MessageReactionUpdated, me: TelegramIdentity, update_id: int) -> ParsedUpdate:
    if reaction.user is not None:
        sender = _build_sender(reaction.user)
    elif reaction.actor_chat is not None:  # a channel, or an anonymous administrator
        sender = _chat_as_sender(reaction.actor_chat)
    else:
        return ParsedUpdate()
    marks = [
        encodable(one.emoji) if isinstance(one, ReactionTypeEmoji) else "[custom emoji]"
        for one in reaction.new_reaction
    ]
    message = InboundMessage(
        key=_build_key(reaction.chat, me),  # Telegram does not say in which topic
        message_id=f"{reaction.message_id}:{sender.id}:{update_id}",
        kind="reaction",
        sender=sender,
        parts=(Text(text=" ".join(marks) or "removed"),),
        sent_ms=_to_ms(reaction.date),
        about=str(reaction.message_id),
        addressed=reaction.chat.type == Chat.PRIVATE,
        place_name=one_line(reaction.chat.title),
    )
    return ParsedUpdate(messages=(message,))


def _parse_membership(change: ChatMemberUpdated) -> ParsedUpdate:
    chat = str(change.chat.id)
    private = change.chat.type == Chat.PRIVATE
    was_gone, is_gone = change.old_chat_member.status in _GONE, change.new_chat_member.status in _GONE
    if is_gone:
        return ParsedUpdate(chat=chat, note="a user blocked the bot" if private else "the bot was removed from a chat")
    note = ("a user started the bot" if private else "the bot was added to a chat") if was_gone else ""
    # Reachable even if it was there before: it may have been given the right to write.
    return ParsedUpdate(chat=chat, reachable=True, note=note)


def _build_key(chat: Chat, me: TelegramIdentity, thread: str = "") -> SessionKey:
    platform, _, account = me.account.partition("@")
    kind = {Chat.PRIVATE: "dm", Chat.CHANNEL: "channel"}.get(chat.type, "group")
    return SessionKey(platform=platform, account=account, kind=kind, chat=str(chat.id), thread=thread)


def _choose_mark(chat: Chat, me: TelegramIdentity) -> int:
    """Return what tells messages to a later bot of the account from those to the first: in private chats and small
    groups each bot has its own message ids."""
    return 0 if chat.type in _NUMBERED_FOR_ALL else me.mark


def _find_topic(message: Message) -> str:
    """Return the forum topic. A chain of replies in a group without topics has a thread id too, but is none."""
    return str(message.message_thread_id) if message.is_topic_message and message.message_thread_id else ""


def _build_sender(user: User) -> Sender:
    return Sender(id=str(user.id), name=one_line(user.full_name), is_bot=user.is_bot)


def _chat_as_sender(chat: Chat) -> Sender:
    return Sender(id=str(chat.id), name=one_line(chat.effective_name))


def _is_our_own(message: Message, me: TelegramIdentity) -> bool:
    return message.sender_chat is None and message.from_user is not None and message.from_user.id == me.id


def _is_addressed(message: Message, me: TelegramIdentity, commands: Collection[str]) -> bool:
    if message.chat.type == Chat.PRIVATE:
        return True
    if message.forward_origin is not None:
        return False  # it was written elsewhere
    text, entities = get_text(message)
    for entity in entities:
        if entity.type == MessageEntity.BOT_COMMAND and entity.offset == 0:
            name, _, bot = cut_entity(text, entity).removeprefix("/").partition("@")
            if bot:
                return bot.casefold() == me.username.casefold()
            if name.casefold() in commands:
                return True
    reply = find_reply(message)
    if reply is not None and _is_our_own(reply, me):
        return True
    return any(_names_us(text, entity, me) for entity in entities)


def _names_us(text: str, entity: MessageEntity, me: TelegramIdentity) -> bool:
    if entity.type == MessageEntity.TEXT_MENTION:
        return entity.user is not None and entity.user.id == me.id
    return entity.type == MessageEntity.MENTION and cut_entity(text, entity).casefold() == f"@{me.username}".casefold()


def _find_own_name(message: Message, me: TelegramIdentity) -> str:
    text, entities = get_text(message)
    ours = (entity for entity in entities if entity.offset == 0 and _names_us(text, entity, me))
    return next((cut_entity(text, entity) for entity in ours), "")


def _to_ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000


def parse_parts(message: Message) -> tuple[Part, ...]:
    """Return quotes, then text, then the attachment. Empty for Telegram's own service messages."""
    content = parse_content(message)
    return (*_parse_quotes(message), *content) if content else ()


def parse_content(message: Message) -> tuple[Part, ...]:
    text, entities = get_text(message)
    words = _write_out_links(text, entities)
    attached = (
        _parse_place(message)
        or _parse_photo(message)
        or _parse_sticker(message)
        or _parse_file(message)
        or _describe_other(message)
    )
    return tuple(filter(None, (Text(text=words) if words.strip() else None, attached)))


def get_text(message: Message) -> tuple[str, Sequence[MessageEntity]]:
    if message.text is not None:
        return message.text, message.entities
    return message.caption or "", message.caption_entities


def cut_entity(text: str, entity: MessageEntity) -> str:
    """Return the text of an entity, which Telegram counts in UTF-16 units."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le", "replace")


def find_reply(message: Message) -> Message | None:
    """Return the message replied to. In a topic every message seems to reply to the one that opened it."""
    reply = message.reply_to_message
    if reply is None or reply.forum_topic_created is not None:
        return None
    return None if message.is_topic_message and reply.message_id == message.message_thread_id else reply


def name_author(message: Message) -> str:
    if message.sender_chat is not None:
        return one_line(message.sender_chat.effective_name)
    return one_line(message.from_user.full_name) if message.from_user is not None else ""


def _parse_quotes(message: Message) -> tuple[Quote, ...]:
    quotes = []
    if message.forward_origin is not None:
        quotes.append(Quote(how="forwarded from", author=_origin_name(message.forward_origin), text=""))
    reply = find_reply(message)
    chosen = encodable(message.quote.text) if message.quote is not None else ""
    if reply is not None:
        text = chosen or text_of(parse_content(reply))
        quotes.append(Quote(author=name_author(reply), text=text[:_MAX_QUOTE_CHARS]))
    elif message.external_reply is not None:
        author = _origin_name(message.external_reply.origin)
        quotes.append(Quote(author=author, text=chosen[:_MAX_QUOTE_CHARS]))
    return tuple(quotes)


def _origin_name(origin: MessageOrigin) -> str:
    """Return the name of a user, of a hidden one, or of a chat or channel."""
    if (user := getattr(origin, "sender_user", None)) is not None:
        return one_line(user.full_name)
    chat = getattr(origin, "sender_chat", None) or getattr(origin, "chat", None)
    return one_line(chat.effective_name if chat is not None else getattr(origin, "sender_user_name", ""))


def _write_out_links(text: str, entities: Sequence[MessageEntity]) -> str:
    units = text.encode("utf-16-le", "surrogatepass")
    links = [entity for entity in entities if entity.type == MessageEntity.TEXT_LINK and entity.url]
    for link in sorted(links, key=lambda link: link.offset, reverse=True):
        if cut_entity(text, link) != link.url:
            end = 2 * (link.offset + link.length)
            units = units[:end] + f" ({link.url})".encode("utf-16-le", "surrogatepass") + units[end:]
    return units.decode("utf-16-le", "replace")


def _parse_place(message: Message) -> Location | None:
    if (venue := message.venue) is not None:
        name = one_line(f"{venue.title}, {venue.address}")
        return Location(latitude=venue.location.latitude, longitude=venue.location.longitude, name=name)
    if (place := message.location) is not None:
        return Location(latitude=place.latitude, longitude=place.longitude)
    return None


def _parse_photo(message: Message) -> Media | None:
    sizes = message.photo or (message.live_photo.photo if message.live_photo is not None else None)
    if not sizes:
        return None

    def area(size: PhotoSize) -> int:
        return size.width * size.height

    small_enough = [size for size in sizes if (size.file_size or 0) <= MAX_FILE_BYTES]
    best = max(small_enough, key=area) if small_enough else min(sizes, key=area)
    size_bytes = best.file_size or 0
    return Media(kind="image", name="photo.jpg", mime="image/jpeg", size_bytes=size_bytes, reference=best.file_id)


def _parse_sticker(message: Message) -> Part | None:
    sticker = message.sticker
    if sticker is None:
        return None
    from_set = f"from the set {one_line(sticker.set_name)}" if sticker.set_name else ""
    name = ", ".join(filter(None, (one_line(sticker.emoji), from_set)))
    # The sticker itself, or the still picture of an animated one, if there is any.
    picture = sticker.thumbnail if sticker.is_animated or sticker.is_video else sticker
    if picture is None:
        return Text(text=f"[sticker {name}]".replace(" ]", "]"))
    return Media(
        kind="image",
        name=name,
        mime="image/webp",
        size_bytes=picture.file_size or 0,
        reference=picture.file_id,
        sticker=one_line(sticker.file_unique_id),
    )


def _parse_file(message: Message) -> Media | None:
    for attribute, kind, name, mime in _FILES:
        file = getattr(message, attribute)
        if file is None:
            continue
        mime = one_line(getattr(file, "mime_type", None)) or mime
        return Media(
            kind=media_kind(mime) if kind == "file" else kind,
            name=one_line(getattr(file, "file_name", None)) or name,
            mime=mime,
            size_bytes=file.file_size or 0,
            reference=file.file_id,
            is_voice=attribute == "voice" and message.forward_origin is None,
            duration_seconds=file.to_dict().get("duration", 0),  # reading the attribute raises a warning
        )
    return None


def _describe_other(message: Message) -> Text | None:
    """Describe content that is neither text nor a file."""
    if (contact := message.contact) is not None:
        name = " ".join(filter(None, (contact.first_name, contact.last_name)))
        what = f"contact {name}, {contact.phone_number}"
    elif (poll := message.poll) is not None:
        what = f"poll: {poll.question} {' / '.join(option.text for option in poll.options)}"
    elif (dice := message.dice) is not None:
        what = f"dice {dice.emoji} {dice.value}"
    elif (checklist := message.checklist) is not None:
        what = f"checklist {checklist.title}: {', '.join(task.text for task in checklist.tasks)}"
    else:
        what = next((name.replace("_", " ") for name in _UNREAD if getattr(message, name)), "")
    return Text(text=f"[{' '.join(encodable(what).split())[:_MAX_QUOTE_CHARS]}]") if what else None
