"""Format our messages for Slack, page by page."""

from collections.abc import Sequence

from gateway.messages import Choice
from gateway.platforms.outgoing import DOCUMENT_NAME, Attachment, Document, Formatted, OutgoingPost, Pages
from gateway.platforms.slack.markdown import MAX_MARKDOWN_UNITS, escape, render, render_notification
from gateway.platforms.slack.web_api import Wire

EVENT_TYPE = "hermes_reply"
_BUTTONS_PER_BLOCK = 25
_MAX_LABEL_CHARS = 75
_MAX_ACTION_CHARS = 255
_MAX_SECTION_CHARS = 3_000
_MAX_TEXT_CHARS = 40_000

# No captions: a message that comes with an upload cannot be recognised by our key.
PAGES = Pages(render=render, max_units=MAX_MARKDOWN_UNITS, caption_units=lambda _: -1, name_mark="`")


def build_form(post: OutgoingPost) -> Wire:
    """Return the arguments of chat.postMessage or, with `edits`, of chat.update."""
    assert isinstance(post.page, Formatted)
    text, blocks = post.page.text, _build_buttons(post.choices)
    if not post.is_plain:
        blocks = [{"type": "markdown", "text": text}, *blocks]
    elif blocks:
        pieces = [text[at : at + _MAX_SECTION_CHARS] for at in range(0, len(text), _MAX_SECTION_CHARS)]
        blocks = [*({"type": "section", "text": {"type": "plain_text", "text": one}} for one in pieces), *blocks]
    form: Wire = {
        "channel": post.chat,
        "text": escape(text)[:_MAX_TEXT_CHARS] if not blocks else render_notification(text),
        "blocks": blocks if blocks or post.edits else None,  # an empty list removes the earlier blocks
        "metadata": {"event_type": EVENT_TYPE, "event_payload": {"key": post.key, "piece": post.piece}},
    }
    if post.edits:
        return {**form, "ts": post.edits}
    return {**form, "thread_ts": post.thread or None, "unfurl_links": False, "unfurl_media": False}


def is_copy(shown: Wire, post: OutgoingPost) -> bool:
    """Return whether a message of ours in the channel is this very piece."""
    metadata = shown.get("metadata")
    payload = metadata.get("event_payload") if isinstance(metadata, dict) else None
    if isinstance(payload, dict) and (payload.get("key"), payload.get("piece")) == (post.key, post.piece):
        return True  # also for a text sent in place of a file
    # An upload has no metadata: it is recognised by name and size.
    match post.page:
        case Document() as page:
            wanted = DOCUMENT_NAME, len(page.content)
        case Attachment() as page:
            wanted = page.name, page.media.size_bytes
        case _:
            return False
    return any((file.get("name"), file.get("size")) == wanted for file in shown.get("files") or ())


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
