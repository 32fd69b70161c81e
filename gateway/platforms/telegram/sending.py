"""Send posts to Telegram, as messages, edits or files, and find drafts whose id we never learned."""

import zlib
from typing import Any

from telegram import LinkPreviewOptions, Message, ReplyParameters
from telegram.error import BadRequest

from gateway.errors import PlatformUnavailable
from gateway.messages import OutboundMessage
from gateway.platforms.base import DraftStyle, KnownMessages
from gateway.platforms.outgoing import (
    DOCUMENT_NAME,
    UPLOAD_SECONDS,
    Document,
    FileStyle,
    Formatted,
    OutgoingPost,
    Rejection,
)
from gateway.platforms.rate_limit import RateLimits
from gateway.platforms.telegram.errors import classify_rejection
from gateway.platforms.telegram.formatting import build_entities, build_keyboard, parse_address
from gateway.platforms.telegram.markdown import render
from gateway.platforms.telegram.transport import ListeningBot

PREVIEW_STYLE = DraftStyle(interval_seconds=1.0, max_units=3_500, fades=True)
# A group accepts twenty messages a minute, edits included.
MESSAGE_STYLE = DraftStyle(interval_seconds=4.0, max_units=3_500)
_MOST_PROBED = 50
_KEPT_FOR_ANSWERS = 5  # of a group's rate limit
_REMEMBERED_PROBES = 10_000
_FIELDS: dict[FileStyle, dict[str, bool]] = {
    "video": {"supports_streaming": True},
    "document": {"disable_content_type_detection": True},  # else a refused picture would become a picture again
}


async def send_post(bot: ListeningBot, post: OutgoingPost, content: bytes) -> str:
    """Return the message's id. `content` is that of the attached file, if there is one."""
    page, chat, keyboard = post.page, int(post.chat), build_keyboard(post.choices)
    previews = LinkPreviewOptions(is_disabled=True)
    if post.edits and isinstance(page, Formatted):
        entities = build_entities(page)
        await bot.edit_message_text(
            page.text, chat, int(post.edits), entities=entities, reply_markup=keyboard, link_preview_options=previews
        )
        return post.edits
    fields: dict[str, Any] = {
        "message_thread_id": int(post.thread) if post.thread else None,
        "reply_parameters": ReplyParameters(int(post.quotes), allow_sending_without_reply=True)
        if post.quotes
        else None,
        "reply_markup": keyboard,
        "disable_notification": post.silent,
    }
    sent: Message
    if isinstance(page, Formatted):
        fields |= {"entities": build_entities(page), "link_preview_options": previews}
        sent = await bot.send_message(chat, page.text, **fields)
    elif isinstance(page, Document):
        sent = await bot.send_document(chat, page.content, filename=DOCUMENT_NAME, **fields)
    else:
        fields |= {"filename": page.name, "read_timeout": UPLOAD_SECONDS, **_FIELDS.get(page.style, {})}
        if page.caption.text:
            fields |= {"caption": page.caption.text, "caption_entities": build_entities(page.caption)}
        sent = await getattr(bot, f"send_{page.style}")(chat, content, **fields)
    return str(sent.message_id)


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
            # One with buttons would lose them, but those are all known.
            try:
                await bot.edit_message_reply_markup(chat, number, reply_markup=None)
            except BadRequest as error:
                if classify_rejection(error) is Rejection.UNCHANGED:
                    return number
            if len(self._not_ours) >= _REMEMBERED_PROBES:
                self._not_ours.clear()
            self._not_ours.add((chat, number))
        return None
