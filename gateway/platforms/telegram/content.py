"""What a Telegram message holds, as our parts: words, files by reference, places, and what it quotes. Pure."""

from collections.abc import Sequence

from telegram import (
    Message,
    MessageEntity,
    MessageOrigin,
    MessageOriginChannel,
    MessageOriginChat,
    MessageOriginHiddenUser,
    MessageOriginUser,
    PhotoSize,
    Sticker,
)

from gateway.messages import Location, Media, MediaKind, Part, Quote, Text, text_of
from gateway.platforms.text import one_line
from tools.content import encodable

MAX_FILE_BYTES = 20 * 1024 * 1024  # more Telegram does not hand to bots
_MAX_QUOTE_CHARS = 1_000

# The first that a message has is its file. An animation is also sent as a document, for old clients.
_FILES: tuple[tuple[str, MediaKind, str, str], ...] = (
    ("animation", "video", "animation.mp4", "video/mp4"),
    ("audio", "audio", "audio.mp3", "audio/mpeg"),
    ("video", "video", "video.mp4", "video/mp4"),
    ("video_note", "video", "video note.mp4", "video/mp4"),
    ("voice", "audio", "voice.ogg", "audio/ogg"),
    ("document", "file", "document", "application/octet-stream"),
)
_FAMILIES: dict[str, MediaKind] = {"image": "image", "audio": "audio", "video": "video"}
# What can only be told that it was there.
_UNREAD = {
    "story": "a story",
    "game": "a game",
    "invoice": "an invoice",
    "paid_media": "paid media",
    "giveaway": "a giveaway",
    "gift": "a gift",
    "unique_gift": "a gift",
}


def parts_of(message: Message) -> tuple[Part, ...]:
    """What it quotes, then what it says, then what is attached. Empty where only Telegram itself speaks."""
    content = content_of(message)
    return (*_quotes(message), *content) if content else ()


def content_of(message: Message) -> tuple[Part, ...]:
    text, entities = words_of(message)
    words = _with_links(text, entities)
    attached = _place(message) or _photo(message) or _sticker(message) or _file(message) or _described(message)
    return tuple(filter(None, (Text(text=words) if words.strip() else None, attached)))


def words_of(message: Message) -> tuple[str, Sequence[MessageEntity]]:
    if message.text is not None:
        return message.text, message.entities
    return message.caption or "", message.caption_entities


def words_at(text: str, entity: MessageEntity) -> str:
    """Telegram counts in UTF-16 units."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le", "replace")


def replied_to(message: Message) -> Message | None:
    """A message in a topic seems to reply to the one that opened the topic; that is no reply."""
    reply = message.reply_to_message
    if reply is None or reply.forum_topic_created is not None:
        return None
    return None if message.is_topic_message and reply.message_id == message.message_thread_id else reply


def author_of(message: Message) -> str:
    if message.sender_chat is not None:
        return one_line(message.sender_chat.effective_name)
    return one_line(message.from_user.full_name) if message.from_user is not None else ""


def _quotes(message: Message) -> tuple[Quote, ...]:
    quotes = []
    if message.forward_origin is not None:
        quotes.append(Quote(how="forwarded from", author=_origin_name(message.forward_origin), text=""))
    reply = replied_to(message)
    chosen = encodable(message.quote.text) if message.quote is not None else ""
    if reply is not None:
        text = chosen or text_of(content_of(reply))
        quotes.append(Quote(author=author_of(reply), text=text[:_MAX_QUOTE_CHARS]))
    elif message.external_reply is not None:
        author = _origin_name(message.external_reply.origin)
        quotes.append(Quote(author=author, text=chosen[:_MAX_QUOTE_CHARS]))
    return tuple(quotes)


def _origin_name(origin: MessageOrigin) -> str:
    match origin:
        case MessageOriginUser():
            return one_line(origin.sender_user.full_name)
        case MessageOriginHiddenUser():
            return one_line(origin.sender_user_name)
        case MessageOriginChat():
            return one_line(origin.sender_chat.effective_name)
        case MessageOriginChannel():
            return one_line(origin.chat.effective_name)
        case _:
            return ""


def _with_links(text: str, entities: Sequence[MessageEntity]) -> str:
    units = text.encode("utf-16-le", "surrogatepass")
    links = [entity for entity in entities if entity.type == MessageEntity.TEXT_LINK and entity.url]
    for link in sorted(links, key=lambda link: link.offset, reverse=True):
        if words_at(text, link) != link.url:
            end = 2 * (link.offset + link.length)
            units = units[:end] + f" ({link.url})".encode("utf-16-le", "surrogatepass") + units[end:]
    return units.decode("utf-16-le", "replace")


def _place(message: Message) -> Location | None:
    if (venue := message.venue) is not None:
        name = one_line(f"{venue.title}, {venue.address}")
        return Location(latitude=venue.location.latitude, longitude=venue.location.longitude, name=name)
    if (place := message.location) is not None:
        return Location(latitude=place.latitude, longitude=place.longitude)
    return None


def _photo(message: Message) -> Media | None:
    sizes = message.photo or (message.live_photo.photo if message.live_photo is not None else None)
    if not sizes:
        return None

    def area(size: PhotoSize) -> int:
        return size.width * size.height

    small_enough = [size for size in sizes if (size.file_size or 0) <= MAX_FILE_BYTES]
    best = max(small_enough, key=area) if small_enough else min(sizes, key=area)
    return Media(
        kind="image",
        name="photo.jpg",
        mime="image/jpeg",
        size_bytes=best.file_size or 0,
        reference=best.file_id,
    )


def _sticker(message: Message) -> Part | None:
    sticker = message.sticker
    if sticker is None:
        return None
    from_set = f"from the set {one_line(sticker.set_name)}" if sticker.set_name else ""
    name = ", ".join(filter(None, (one_line(sticker.emoji), from_set)))
    picture = _picture(sticker)
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


def _picture(sticker: Sticker) -> Sticker | PhotoSize | None:
    """What moves has a still picture beside it, if any can be shown at all."""
    return sticker.thumbnail if sticker.is_animated or sticker.is_video else sticker


def _file(message: Message) -> Media | None:
    for attribute, kind, name, mime in _FILES:
        file = getattr(message, attribute)
        if file is None:
            continue
        mime = one_line(getattr(file, "mime_type", None)) or mime
        return Media(
            kind=_FAMILIES.get(mime.partition("/")[0], "file") if kind == "file" else kind,
            name=one_line(getattr(file, "file_name", None)) or name,
            mime=mime,
            size_bytes=file.file_size or 0,
            reference=file.file_id,
            duration_seconds=file.to_dict().get("duration", 0),  # the attribute itself warns that it will change
        )
    return None


def _described(message: Message) -> Text | None:
    """What is neither words nor a file, for a reader who cannot see it."""
    what = ""
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
        what = next((words for attribute, words in _UNREAD.items() if getattr(message, attribute)), "")
    return Text(text=f"[{' '.join(encodable(what).split())[:_MAX_QUOTE_CHARS]}]") if what else None
