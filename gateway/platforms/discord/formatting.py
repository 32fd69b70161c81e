"""Format our messages and commands for Discord, and drop what Discord refuses. Pure."""

import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.errors import DeliveryRejected
from gateway.messages import Address, Choice, Media, OutboundMessage
from gateway.platforms.discord.errors import DiscordRejection
from gateway.platforms.discord.markdown import MAX_UNITS, render, strip_marks
from gateway.platforms.discord.parsing import OPTION
from gateway.platforms.outgoing import (
    ATTACHED,
    DOCUMENT_NAME,
    GONE,
    HEAD_UNITS,
    MAX_PIECES,
    Document,
    choose_piece,
    clean_file_name,
    explain_not_sent,
    join_names,
)
from gateway.platforms.text import utf16_len

_HEAD_SOURCE_CHARS = 10_000  # the head is made of these
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
_COMPARED = ("name", "description")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordText:
    """A page of text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordAttachment:
    """A file that the answer sends, with its text."""

    media: Media
    text: str = ""

    @property
    def name(self) -> str:
        return clean_file_name(self.media)

    def fit(self, content: bytes | None, max_bytes: int) -> "DiscordAttachment | DiscordText":
        if content is None:
            return self.explain(GONE)
        if len(content) > max_bytes:
            return self.explain(f"it is larger than {max_bytes // 1_048_576} MB, the most that Discord accepts here")
        return self

    def explain(self, reason: str) -> DiscordText:
        sentence = explain_not_sent(self.media, reason, mark="`")
        return DiscordText(text=f"{self.text}\n\n{sentence}" if self.text else sentence)


Page = DiscordText | Document | DiscordAttachment


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordPost:
    """One page of a message, ready to send."""

    chat: int
    page: Page
    nonce: str
    quotes: int | None = None
    edits: int | None = None
    choices: tuple[Choice, ...] = ()
    silent: bool = False
    more: bool = False

    @property
    def payload(self) -> dict[str, Any]:
        body: dict[str, Any] = {"allowed_mentions": _NOBODY, "flags": _SUPPRESS_EMBEDS}
        if isinstance(self.page, DiscordText | DiscordAttachment) and self.page.text:
            body["content"] = self.page.text
        if isinstance(self.page, Document | DiscordAttachment):
            body["attachments"] = [{"id": "0", "filename": self._file_name}]
        if self.choices or self.edits is not None:
            body["components"] = _build_rows(self.choices)
        if self.edits is not None:
            return body
        body |= {"nonce": self.nonce, "enforce_nonce": True}
        if self.silent:
            body["flags"] |= _SUPPRESS_NOTIFICATIONS
        if self.quotes is not None:
            body["message_reference"] = {"message_id": str(self.quotes), "fail_if_not_exists": False}
        return body

    def form(self, content: bytes) -> "UploadForm | None":
        """Return a form if the page has a file; `content` is that of an attached one."""
        if isinstance(self.page, DiscordText):
            return None
        is_text = isinstance(self.page, Document)
        return UploadForm(
            payload=json.dumps(self.payload),
            name=self._file_name,
            content=self.page.content if isinstance(self.page, Document) else content,
            kind="text/markdown" if is_text else "application/octet-stream",
        )

    @property
    def _file_name(self) -> str:
        return self.page.name if isinstance(self.page, DiscordAttachment) else DOCUMENT_NAME

    def amend(self, problem: DiscordRejection) -> "DiscordPost | None":
        """Drop what Discord refused; None when nothing is left to try. Each step removes something, so this ends."""
        match problem, self.page:
            case DiscordRejection.NOTHING_TO_EDIT, _ if self.edits is not None:
                return replace(self, edits=None)
            case DiscordRejection.NOTHING_TO_QUOTE, _ if self.quotes is not None:
                return replace(self, quotes=None)
            case DiscordRejection.BUTTONS, _ if self.choices:
                return replace(self, choices=())
            case DiscordRejection.TOO_LONG, DiscordText() as page:
                return replace(self, page=Document(text=page.text), edits=None)
            case DiscordRejection.WORDING, DiscordText() as page if (
                bare := strip_marks(page.text)
            ) and bare != page.text:
                return replace(self, page=DiscordText(text=bare))
            case (
                DiscordRejection.FILE | DiscordRejection.TOO_LONG | DiscordRejection.WORDING,
                DiscordAttachment() as page,
            ):
                return replace(self, page=page.explain("Discord does not accept it here"))
            case _:
                return None


def paginate(markdown: str, files: tuple[Media, ...] = (), *, needs_words: bool = False) -> tuple[Page, ...]:
    """Split a message into pages. The same text and files always give the same pages.

    Text comes first, then each file; a single file takes a text of one page along. `needs_words`: the first page
    replaces an earlier message, which only text can.
    """
    enclosed = tuple(DiscordAttachment(media=media) for media in files)
    words = _paginate_text(markdown if markdown or not needs_words else join_names(files))
    match words, enclosed:
        case (DiscordText(text=text),), (alone,) if not needs_words:
            return (replace(alone, text=text),)
        case _:
            return (*words, *enclosed)


def _paginate_text(markdown: str) -> tuple[Page, ...]:
    if utf16_len(markdown) <= 2 * MAX_PIECES * MAX_UNITS:
        found = render(markdown)
        if len(found) <= MAX_PIECES:
            return tuple(DiscordText(text=piece) for piece in found)
    return _render_head(markdown), Document(text=markdown)


def build_post(message: OutboundMessage, pages: Sequence[Page], *, in_guild: bool) -> DiscordPost:
    piece, last = choose_piece(message, pages), len(pages) - 1
    first = piece == 0
    page = pages[piece]
    chat = parse_address(message.address)
    quotes = _parse_int(message.address.reply_to) if first and in_guild else None
    return DiscordPost(
        chat=chat,
        page=page,
        nonce=build_nonce(message.key, piece),
        quotes=quotes if quotes != chat else None,  # a thread cannot quote the message that opened it
        edits=_parse_int(message.edits) if first and isinstance(page, DiscordText) else None,
        choices=message.choices[:_MAX_BUTTONS] if piece == last else (),
        silent=not message.notify or not first,  # a long answer notifies once
        more=piece < last,
    )


def parse_address(address: Address) -> int:
    """Return the channel, which may be a thread. Raises DeliveryRejected."""
    chat = _parse_int(address.thread or address.chat)
    if chat is None:
        raise DeliveryRejected(f"{address.thread or address.chat} is not a Discord channel id")
    return chat


def build_nonce(key: str, piece: int) -> str:
    """Return the nonce: for some minutes, Discord drops a second message with the same one."""
    nonce = f"{key}.{piece}" if piece else key
    if len(nonce) <= _MAX_NONCE_CHARS:
        return nonce
    return hashlib.sha256(nonce.encode()).hexdigest()[:_MAX_NONCE_CHARS]


def _render_head(markdown: str) -> DiscordText:
    found = render(markdown[:_HEAD_SOURCE_CHARS], limit=HEAD_UNITS)
    return DiscordText(text=f"{found[0]}\n\n{ATTACHED}" if found else ATTACHED)


def _build_rows(choices: Sequence[Choice]) -> list[dict[str, Any]]:
    buttons = [
        {"type": _BUTTON, "style": _SECONDARY, "label": choice.label[:_MAX_LABEL_CHARS], "custom_id": choice.action}
        for choice in choices
    ]
    return [{"type": _ROW, "components": buttons[at : at + _PER_ROW]} for at in range(0, len(buttons), _PER_ROW)]


def _parse_int(written: str) -> int | None:
    """Return None for other ids, such as those of reactions."""
    return int(written) if written.isascii() and written.isdecimal() and written != "0" else None


def build_menu(commands: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the slash commands, for commands with a description; each takes one optional text."""
    option = {"type": _STRING, "name": OPTION, "description": "Arguments", "required": False}
    return [
        {
            "type": _CHAT_INPUT,
            "name": name,
            "description": description[:_MAX_DESCRIPTION_CHARS],
            "options": [option],
        }
        for name, description in commands
        if description and _NAME.fullmatch(name)
    ][:_MAX_COMMANDS]


def is_menu_current(menu: Sequence[Mapping[str, Any]], shown: Sequence[Mapping[str, Any]]) -> bool:
    """Compare what matters: Discord adds fields and leaves out defaults."""
    return sorted(map(_normalize_command, menu)) == sorted(map(_normalize_command, shown))


def _normalize_command(command: Mapping[str, Any]) -> tuple[str, ...]:
    options = [
        f"{each.get('type')} {each.get('name')} {bool(each.get('required'))}" for each in command.get("options") or ()
    ]
    return (*(str(command.get(field)) for field in _COMPARED), *options)
