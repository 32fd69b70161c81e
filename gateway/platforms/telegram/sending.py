"""Send posts to Telegram, as messages, edits or files, and find drafts whose id we never learned."""

import zlib
from typing import Any

from telegram import LinkPreviewOptions, Message, ReplyParameters
from telegram.error import BadRequest

from gateway.errors import PlatformUnavailable
from gateway.messages import OutboundMessage
from gateway.platforms.base import DraftStyle, KnownMessages
from gateway.platforms.outgoing import DOCUMENT_NAME, UPLOAD_SECONDS, Document, clean_file_name
from gateway.platforms.rate_limit import RateLimits
from gateway.platforms.telegram.errors import TelegramRejection, classify_rejection
from gateway.platforms.telegram.formatting import TelegramAttachment, TelegramPost, build_entities, parse_address
from gateway.platforms.telegram.markdown import render
from gateway.platforms.telegram.transport import ListeningBot

PREVIEW_STYLE = DraftStyle(interval_seconds=1.0, max_units=3_500, fades=True)
MESSAGE_STYLE = DraftStyle(
    interval_seconds=4.0, max_units=3_500
)  # a group accepts twenty messages a minute, edits included
_MOST_PROBED = 50
_KEPT_FOR_ANSWERS = 5  # of a group's rate limit
_REMEMBERED_PROBES = 10_000


async def send_post(bot: ListeningBot, post: TelegramPost, content: bytes) -> int:
    """Return the message's id. `content` is that of the attached file, if there is one."""
    page, keyboard = post.page, post.keyboard
    previews = LinkPreviewOptions(is_disabled=True)
    if post.edits is not None and not isinstance(page, Document | TelegramAttachment):
        await bot.edit_message_text(
            page.text,
            post.chat,
            post.edits,
            entities=build_entities(page),
            reply_markup=keyboard,
            link_preview_options=previews,
        )
        return post.edits
    quote = None
    if post.quotes is not None:
        quote = ReplyParameters(post.quotes, allow_sending_without_reply=True)
    common: dict[str, Any] = {
        "message_thread_id": post.thread,
        "reply_parameters": quote,
        "reply_markup": keyboard,
        "disable_notification": post.silent,
    }
    sent: Message
    if isinstance(page, Document):
        sent = await bot.send_document(post.chat, page.content, filename=DOCUMENT_NAME, **common)
    elif isinstance(page, TelegramAttachment):
        sent = await _send_file(bot, post.chat, page, content, common)
    else:
        sent = await bot.send_message(
            post.chat, page.text, entities=build_entities(page), link_preview_options=previews, **common
        )
    return sent.message_id


async def _send_file(
    bot: ListeningBot, chat: int, page: TelegramAttachment, content: bytes, common: dict[str, Any]
) -> Message:
    fields: dict[str, Any] = {"filename": clean_file_name(page.media), "read_timeout": UPLOAD_SECONDS, **common}
    if page.caption.text:
        fields |= {"caption": page.caption.text, "caption_entities": build_entities(page.caption)}
    match page.style:
        case "photo":
            return await bot.send_photo(chat, content, **fields)
        case "voice":
            return await bot.send_voice(chat, content, **fields)
        case "audio":
            return await bot.send_audio(chat, content, **fields)
        case "video":
            return await bot.send_video(chat, content, supports_streaming=True, **fields)
        case "animation":
            return await bot.send_animation(chat, content, **fields)
        case "document":
            # Unchanged: Telegram would turn a refused picture into a picture again.
            return await bot.send_document(chat, content, disable_content_type_detection=True, **fields)


async def show_preview(bot: ListeningBot, draft: OutboundMessage) -> None:
    """Show a draft that disappears after thirty seconds, or with the next message."""
    chat, thread = parse_address(draft.address)
    written = render(draft.text)
    await bot.send_message_draft(
        chat,
        zlib.crc32(draft.key.encode()) or 1,
        written[0].text if written else "",
        message_thread_id=thread,
        entities=build_entities(written[0]) if written else None,
    )


class DraftFinder:
    """Finds a draft whose id we never learned.

    Telegram does not list a bot's messages. But a bot can edit only its own: an edit that changes nothing tells them
    apart. Tried only on messages between the answered one and a later one of ours, and only while every other one of
    ours among them is known: then it can only be the draft.
    """

    def __init__(self, rate_limits: RateLimits) -> None:
        self._rate_limits = rate_limits
        self._not_ours: set[tuple[int, int]] = set()  # chat and message

    async def find(self, bot: ListeningBot, draft: OutboundMessage, known: KnownMessages) -> int | None:
        chat, _ = parse_address(draft.address)
        answered, ours = draft.address.reply_to, {int(one) for one in known.ids if one.isdecimal()}
        if not answered.isdecimal():
            return None
        if not known.is_all or not ours:
            raise PlatformUnavailable("it is not known yet which messages are ours")
        numbers = range(int(answered) + 1, max(ours))
        candidates = [one for one in numbers if one not in ours and (chat, one) not in self._not_ours]
        if len(candidates) > _MOST_PROBED:
            return None
        for number in candidates:
            if self._rate_limits.remaining(str(chat)) <= _KEPT_FOR_ANSWERS:
                raise PlatformUnavailable("the group's rate limit is used up")
            self._rate_limits.record_send(str(chat))
            if await _is_ours(bot, chat, number):
                return number
            if len(self._not_ours) >= _REMEMBERED_PROBES:
                self._not_ours.clear()
            self._not_ours.add((chat, number))
        return None


async def _is_ours(bot: ListeningBot, chat: int, number: int) -> bool:
    """Edit a message without changing it. One with buttons would lose them, but those are all known."""
    try:
        await bot.edit_message_reply_markup(chat, number, reply_markup=None)
    except BadRequest as error:
        return classify_rejection(error) is TelegramRejection.UNCHANGED
    return False
