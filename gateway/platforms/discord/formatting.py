"""Format our messages and commands for Discord. Pure."""

import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.errors import DeliveryRejected
from gateway.messages import Address, Choice, OutboundMessage
from gateway.platforms.base import MenuCommand
from gateway.platforms.discord.markdown import MAX_UNITS, render
from gateway.platforms.discord.parsing import OPTION
from gateway.platforms.outgoing import (
    DOCUMENT_NAME,
    Attachment,
    Document,
    Formatted,
    OutgoingPost,
    Page,
    Pages,
    build_post,
)

PAGES = Pages(render=render, max_units=MAX_UNITS, source_factor=2, caption_units=lambda _: MAX_UNITS, name_mark="`")
_MAX_NONCE_CHARS = 25
_PER_ROW, _MAX_BUTTONS = 5, 25
_MAX_LABEL_CHARS = 80
_ROW, _BUTTON, _SECONDARY = 1, 2, 2
_SUPPRESS_EMBEDS, _SUPPRESS_NOTIFICATIONS = 1 << 2, 1 << 12
_NOBODY = {"parse": [], "replied_user": False}
_NAME = re.compile(r"[a-z0-9_-]{1,32}")
_MAX_DESCRIPTION_CHARS = 100
_MAX_COMMANDS = 100
_CHAT_INPUT, _STRING = 1, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadForm:
    """The parts of a form with a file; discord.py iterates over it again on each attempt."""

    payload: str
    name: str
    content: bytes = field(repr=False)
    kind: str

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield {"name": "payload_json", "value": self.payload}
        # As a stream: bytes would be written in one go and block the event loop.
        stream = io.BytesIO(self.content)
        yield {"name": "files[0]", "value": stream, "filename": self.name, "content_type": self.kind}


def build_discord_post(message: OutboundMessage, pages: tuple[Page, ...], *, in_guild: bool) -> OutgoingPost:
    chat, quotes = str(parse_address(message.address)), keep_id(message.address.reply_to)
    # A thread cannot quote the message that opened it.
    quotes = quotes if in_guild and quotes != chat else ""
    return build_post(message, pages, chat=chat, quotes=quotes, edits=keep_id(message.edits))


def build_payload(post: OutgoingPost) -> dict[str, Any]:
    body: dict[str, Any] = {"allowed_mentions": _NOBODY, "flags": _SUPPRESS_EMBEDS}
    if isinstance(post.page, Formatted):
        body["content"] = post.page.text
    elif isinstance(post.page, Attachment) and post.page.caption.text:
        body["content"] = post.page.caption.text
    if (name := get_file_name(post)) is not None:
        body["attachments"] = [{"id": "0", "filename": name}]
    if post.choices or post.edits:
        body["components"] = _build_rows(post.choices[:_MAX_BUTTONS])
    if post.edits:
        return body
    body |= {"nonce": build_nonce(post.key, post.piece), "enforce_nonce": True}
    if post.silent:
        body["flags"] |= _SUPPRESS_NOTIFICATIONS
    if post.quotes:
        body["message_reference"] = {"message_id": post.quotes, "fail_if_not_exists": False}
    return body


def build_form(post: OutgoingPost, content: bytes) -> UploadForm | None:
    """Return a form if the page has a file; `content` is that of an attached one."""
    name = get_file_name(post)
    if name is None:
        return None
    is_text = isinstance(post.page, Document)
    return UploadForm(
        payload=json.dumps(build_payload(post)),
        name=name,
        content=post.page.content if isinstance(post.page, Document) else content,
        kind="text/markdown" if is_text else "application/octet-stream",
    )


def get_file_name(post: OutgoingPost) -> str | None:
    match post.page:
        case Document():
            return DOCUMENT_NAME
        case Attachment() as page:
            return page.name
        case _:
            return None


def parse_address(address: Address) -> int:
    """Return the channel, which may be a thread. Raises DeliveryRejected."""
    written = address.thread or address.chat
    if not keep_id(written):
        raise DeliveryRejected(f"{written} is not a Discord channel id")
    return int(written)


def build_nonce(key: str, piece: int) -> str:
    """Return the nonce: for some minutes, Discord drops a second message with the same one."""
    nonce = f"{key}.{piece}" if piece else key
    if len(nonce) <= _MAX_NONCE_CHARS:
        return nonce
    return hashlib.sha256(nonce.encode()).hexdigest()[:_MAX_NONCE_CHARS]


def _build_rows(choices: Sequence[Choice]) -> list[dict[str, Any]]:
    buttons = [
        {"type": _BUTTON, "style": _SECONDARY, "label": choice.label[:_MAX_LABEL_CHARS], "custom_id": choice.action}
        for choice in choices
    ]
    return [{"type": _ROW, "components": buttons[at : at + _PER_ROW]} for at in range(0, len(buttons), _PER_ROW)]


def keep_id(written: str) -> str:
    """Return an empty text for other ids, such as those of reactions."""
    return written if written.isascii() and written.isdecimal() and written != "0" else ""


def build_menu(commands: Iterable[MenuCommand]) -> list[dict[str, Any]]:
    """Return the slash commands, for commands with a description; each takes one optional text."""
    return [
        {
            "type": _CHAT_INPUT,
            "name": command.name,
            "description": command.description[:_MAX_DESCRIPTION_CHARS],
            "options": [
                {
                    "type": _STRING,
                    "name": OPTION,
                    "description": (command.hint or "Arguments")[:_MAX_DESCRIPTION_CHARS],
                    "required": False,
                }
            ],
        }
        for command in commands
        if command.description and _NAME.fullmatch(command.name)
    ][:_MAX_COMMANDS]
