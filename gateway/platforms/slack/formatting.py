"""Format our messages for Slack, page by page, and drop what Slack refuses."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gateway.messages import Choice, Media, OutboundMessage
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
from gateway.platforms.slack.errors import SlackRejection
from gateway.platforms.slack.markdown import (
    MAX_MARKDOWN_UNITS,
    MAX_TEXT_CHARS,
    render,
    render_mrkdwn,
    render_notification,
    render_sections,
)
from gateway.platforms.slack.parsing import is_ts
from gateway.platforms.slack.web_api import Wire
from gateway.platforms.text import utf16_len

EVENT_TYPE = "hermes_reply"
_BUTTONS_PER_BLOCK = 25
_MAX_LABEL_CHARS = 75
_MAX_ACTION_CHARS = 255
_MAX_SECTIONS = 45  # of 50 blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackText:
    """A page of text."""

    markdown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackAttachment:
    """A file that the answer sends."""

    media: Media

    @property
    def name(self) -> str:
        return clean_file_name(self.media)

    def fit(self, content: bytes | None) -> "SlackAttachment | SlackText":
        return self if content is not None else self.explain(GONE)

    def explain(self, reason: str) -> SlackText:
        return SlackText(markdown=explain_not_sent(self.media, reason, mark="`"))


Page = SlackText | Document | SlackAttachment
Look = Literal["markdown", "sections", "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackPost:
    """One page of a message, ready to send."""

    channel: str
    page: Page
    key: str
    piece: int
    thread: str = ""
    edits: str = ""
    choices: tuple[Choice, ...] = ()
    more: bool = False
    look: Look = "markdown"

    @property
    def form(self) -> Wire:
        """The arguments of chat.postMessage or, with `edits`, of chat.update."""
        assert isinstance(self.page, SlackText)
        blocks = [*self._text_blocks, *_build_buttons(self.choices)] if self.look != "text" else []
        form: Wire = {
            "channel": self.channel,
            "text": self._text,
            "blocks": blocks if blocks or self.edits else None,  # an empty list removes the earlier blocks
            "metadata": {"event_type": EVENT_TYPE, "event_payload": {"key": self.key, "piece": self.piece}},
        }
        if self.edits:
            return {**form, "ts": self.edits}
        return {**form, "thread_ts": self.thread or None, "unfurl_links": False, "unfurl_media": False}

    def amend(self, problem: SlackRejection) -> "SlackPost | None":
        """Drop what Slack refused; None when nothing is left to try. Each step removes something, so this ends."""
        match problem:
            case SlackRejection.NO_THREAD if self.thread:
                return replace(self, thread="")
            case SlackRejection.NOTHING_TO_EDIT | SlackRejection.TOO_LONG if self.edits:
                return replace(self, edits="")
            case SlackRejection.BLOCKS if self.look == "markdown":
                return replace(self, look="sections")
            case SlackRejection.BLOCKS if self.look == "sections":
                return replace(self, look="text")
            case SlackRejection.FILE | SlackRejection.TOO_LONG if isinstance(self.page, SlackAttachment):
                return replace(self, page=self.page.explain("Slack does not accept it here"))
            case _:
                return None

    @property
    def _text(self) -> str:
        assert isinstance(self.page, SlackText)
        if self.look == "text":
            return render_mrkdwn(self.page.markdown)[:MAX_TEXT_CHARS]
        return render_notification(self.page.markdown)

    @property
    def _text_blocks(self) -> list[Wire]:
        assert isinstance(self.page, SlackText)
        if self.look == "markdown":
            return [{"type": "markdown", "text": self.page.markdown}]
        written = render_sections(self.page.markdown)[:_MAX_SECTIONS]
        return [{"type": "section", "text": {"type": "mrkdwn", "text": one}, "expand": True} for one in written]


def paginate(markdown: str, files: tuple[Media, ...] = (), *, needs_words: bool = False) -> tuple[Page, ...]:
    """Split a message into pages. The same text and files always give the same pages.

    Text comes first, then each file: a message that comes with an upload cannot be recognised by our key.
    `needs_words`: the first page replaces an earlier message, or has buttons, which a file cannot.
    """
    words = _paginate_text(markdown if markdown or not needs_words else join_names(files))
    return (*words, *(SlackAttachment(media=media) for media in files))


def _paginate_text(markdown: str) -> tuple[Page, ...]:
    if utf16_len(markdown) <= MAX_PIECES * MAX_MARKDOWN_UNITS:
        found = render(markdown)
        if len(found) <= MAX_PIECES:
            return tuple(SlackText(markdown=piece) for piece in found)
    return _render_head(markdown), Document(text=markdown)


def build_post(message: OutboundMessage, pages: Sequence[Page]) -> SlackPost:
    piece, last = choose_piece(message, pages), len(pages) - 1
    # A file cannot have buttons.
    last_words = max((place for place, page in enumerate(pages) if isinstance(page, SlackText)), default=-1)
    return SlackPost(
        channel=message.address.chat,
        page=pages[piece],
        key=message.key,
        piece=piece,
        thread=message.address.thread,
        edits=message.edits if piece == 0 and is_ts(message.edits) and isinstance(pages[0], SlackText) else "",
        choices=message.choices if piece == last_words else (),
        more=piece < last,
    )


def is_copy(shown: Wire, post: SlackPost) -> bool:
    """Return whether a message of ours in the channel is this very piece."""
    metadata = shown.get("metadata")
    payload = metadata.get("event_payload") if isinstance(metadata, dict) else None
    if isinstance(payload, dict) and (payload.get("key"), payload.get("piece")) == (post.key, post.piece):
        return True  # also for a text sent in place of a file
    # An upload has no metadata: it is recognised by name and size.
    match post.page:
        case Document() as page:
            wanted = DOCUMENT_NAME, len(page.content)
        case SlackAttachment() as page:
            wanted = page.name, page.media.size_bytes
        case _:
            return False
    return any((file.get("name"), file.get("size")) == wanted for file in shown.get("files") or ())


def _render_head(markdown: str) -> SlackText:
    found = render(markdown[: 4 * HEAD_UNITS], HEAD_UNITS)
    return SlackText(markdown=f"{found[0]}\n\n{ATTACHED}" if found else ATTACHED)


def _build_buttons(choices: Sequence[Choice]) -> list[Wire]:
    unique = list({choice.action: choice for choice in choices}.values())
    buttons = [
        {
            "type": "button",
            "text": {"type": "plain_text", "text": choice.label[:_MAX_LABEL_CHARS] or "…", "emoji": True},
            "action_id": choice.action[:_MAX_ACTION_CHARS],
            "value": choice.action,
        }
        for choice in unique
    ]
    return [
        {"type": "actions", "elements": buttons[at : at + _BUTTONS_PER_BLOCK]}
        for at in range(0, len(buttons), _BUTTONS_PER_BLOCK)
    ]
