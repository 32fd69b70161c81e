"""A chat as a Markdown file, for somebody who wants to keep or share it."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from gateway.platforms.web import files, words
from gateway.store.web_chats import Replied, Said


def to_markdown(title: str, items: Sequence[Said | Replied], clean: Callable[[str], str]) -> str:
    """Return everything that was said, in order. `clean` hides secrets in what we said."""
    return "\n\n".join([f"# {title}", *(_entry(item, clean) for item in items)]) + "\n"


def _entry(item: Said | Replied, clean: Callable[[str], str]) -> str:
    who, text = ("You", words(item.parts)) if isinstance(item, Said) else ("Hermes", clean(words(item.parts)))
    when = datetime.fromtimestamp(item.at_ms / 1000, tz=UTC)
    attached = "\n".join(f"- Attached: {file['name'] or 'file'}" for file in files(item.parts))
    return "\n\n".join(filter(None, [f"**{who}** ({when:%Y-%m-%d %H:%M} UTC)", text, attached]))
