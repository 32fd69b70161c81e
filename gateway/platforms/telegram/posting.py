"""Puts a letter into Telegram: as a message, as an edit of one, or as a file of one kind or another."""

from typing import Any

from telegram import LinkPreviewOptions, Message, ReplyParameters

from gateway.platforms.pages import DOCUMENT_NAME, Document
from gateway.platforms.telegram.letter import Enclosed, Letter, entities_of
from gateway.platforms.telegram.line import ListeningBot
from gateway.platforms.uploads import UPLOAD_SECONDS, file_name


async def put(bot: ListeningBot, letter: Letter, content: bytes) -> int:
    """The message's id. `content` is that of a file, if the letter has one."""
    page, keyboard = letter.page, letter.keyboard
    previews = LinkPreviewOptions(is_disabled=True)
    if letter.edits is not None and not isinstance(page, Document | Enclosed):
        await bot.edit_message_text(
            page.text,
            letter.chat,
            letter.edits,
            entities=entities_of(page),
            reply_markup=keyboard,
            link_preview_options=previews,
        )
        return letter.edits
    quote = None
    if letter.quotes is not None:
        quote = ReplyParameters(letter.quotes, allow_sending_without_reply=True)
    common: dict[str, Any] = {
        "message_thread_id": letter.thread,
        "reply_parameters": quote,
        "reply_markup": keyboard,
        "disable_notification": letter.silent,
    }
    sent: Message
    if isinstance(page, Document):
        sent = await bot.send_document(letter.chat, page.content, filename=DOCUMENT_NAME, **common)
    elif isinstance(page, Enclosed):
        sent = await _put_file(bot, letter.chat, page, content, common)
    else:
        sent = await bot.send_message(
            letter.chat, page.text, entities=entities_of(page), link_preview_options=previews, **common
        )
    return sent.message_id


async def _put_file(bot: ListeningBot, chat: int, page: Enclosed, content: bytes, common: dict[str, Any]) -> Message:
    fields: dict[str, Any] = {"filename": file_name(page.media), "read_timeout": UPLOAD_SECONDS, **common}
    if page.caption.text:
        fields |= {"caption": page.caption.text, "caption_entities": entities_of(page.caption)}
    match page.manner:
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
            # As it is: a picture that was refused as one would be made one again.
            return await bot.send_document(chat, content, disable_content_type_detection=True, **fields)
