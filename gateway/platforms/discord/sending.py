"""Find our messages and drafts in a channel's history. Pure.

Discord keeps nonces for a few minutes only, and its history has none. So a message is recognised by its text and its
quote, and by coming after everything that is known to have arrived.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gateway.platforms.outgoing import DOCUMENT_NAME, Attachment, Document, OutgoingPost

Wire = Mapping[str, Any]

DRAFT_MARK = "\u2063"
"""An invisible character: a message that begins with it is a draft."""


def find_own_draft(history: Iterable[Wire], me: int) -> int | None:
    """Return the id of a draft that a crash has left."""
    for message in history:
        if str(message["author"]["id"]) == str(me) and str(message["content"]).startswith(DRAFT_MARK):
            return int(message["id"])
    return None


def find_copy(history: Iterable[Wire], post: OutgoingPost, me: int, after: int) -> int | None:
    """Return the id of a copy after that message."""
    for message in history:
        number = int(message["id"])
        is_ours = number > after and str(message["author"]["id"]) == str(me)
        quoted = (message.get("message_reference") or {}).get("message_id")
        has_quote = quoted is None or str(quoted) == post.quotes  # the quoted one may have been deleted before
        if is_ours and has_quote and _has_same_content(message, post):
            return number
    return None


def _has_same_content(message: Wire, post: OutgoingPost) -> bool:
    page, files = post.page, message["attachments"]
    if isinstance(page, Document):
        return any(file["filename"] == DOCUMENT_NAME and file["size"] == len(page.content) for file in files)
    if isinstance(page, Attachment) and files:
        shown = _strip_name(page.name), page.media.size_bytes
        return any((_strip_name(str(file["filename"])), file["size"]) == shown for file in files)
    content = str(message["content"]).strip()
    if isinstance(page, Attachment):  # a text may have been sent instead
        return bool(content) and content.startswith(page.explain("").text.partition(" could not be sent:")[0])
    return content == page.text.strip() and not files


def _strip_name(name: str) -> str:
    """Keep what Discord keeps of a file's name."""
    return re.sub(r"[^A-Za-z0-9.]+", "", name)
