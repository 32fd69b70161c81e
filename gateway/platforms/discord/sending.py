"""Whether one of our messages is already in a channel's history. Pure.

Discord keeps nonces for some minutes only, and its history shows none. So a message is known by what it says, what it
quotes, and by standing behind all that is known to have arrived.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gateway.platforms.discord.formatting import DiscordAttachment, DiscordPost
from gateway.platforms.outgoing import DOCUMENT_NAME, Document

Wire = Mapping[str, Any]

DRAFT_MARK = "\u2063"
"""Nobody sees it. A message that begins with it shows an answer that was still growing."""


def find_own_draft(history: Iterable[Wire], me: int) -> int | None:
    """The id of a draft of ours, which a crash has left."""
    for message in history:
        if str(message["author"]["id"]) == str(me) and str(message["content"]).startswith(DRAFT_MARK):
            return int(message["id"])
    return None


def find_copy(history: Iterable[Wire], post: DiscordPost, me: int, after: int) -> int | None:
    """Its id, which is larger than `after`."""
    for message in history:
        number = int(message["id"])
        is_ours = number > after and str(message["author"]["id"]) == str(me)
        if is_ours and _has_same_quote(message, post) and _has_same_content(message, post):
            return number
    return None


def _has_same_quote(message: Wire, post: DiscordPost) -> bool:
    """One that quotes nothing may be ours as well: what it quoted was gone when it was sent."""
    quoted = (message.get("message_reference") or {}).get("message_id")
    return quoted is None or (post.quotes is not None and str(quoted) == str(post.quotes))


def _has_same_content(message: Wire, post: DiscordPost) -> bool:
    page, files = post.page, message["attachments"]
    if isinstance(page, Document):
        return any(file["filename"] == DOCUMENT_NAME and file["size"] == len(page.content) for file in files)
    if isinstance(page, DiscordAttachment) and files:
        shown = _strip_name(page.name), page.media.size_bytes
        return any((_strip_name(str(file["filename"])), file["size"]) == shown for file in files)
    content = str(message["content"]).strip()
    if isinstance(page, DiscordAttachment):  # it may have been told of in words instead
        return bool(content) and content.startswith(page.explain("").text.partition(" could not be sent:")[0])
    return content == page.text.strip() and not files


def _strip_name(name: str) -> str:
    """Discord writes names of files its own way."""
    return re.sub(r"[^A-Za-z0-9.]+", "", name)
