"""Slack's markup: escaping, links, the text that people read, and the rich text their clients send."""

import re

from playground.wire import Wire

_TOKEN = re.compile(r"<(?:[@#!][^<>\s]+|(?:https?|mailto|tel):[^<>\s|]+(?:\|[^<>]*)?)>")
_LINK = re.compile(r"https?://[^\s<>|]+[^\s<>|.,;:!?)\]'\"]")
_ENTITY = re.compile(r"&(?!(?:amp|lt|gt);)")
_SHOWN_LINK = re.compile(r"<((?:https?|mailto|tel):[^<>|]+)(?:\|([^<>]*))?>")
_MENTION = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^<>]*)?>")


def escape(text: str) -> str:
    """Keep mentions and links, escape other angle brackets and ampersands, and turn bare addresses into links."""
    kept, start = [], 0
    for token in _TOKEN.finditer(text):
        kept += [_escape_piece(text[start : token.start()]), token.group()]
        start = token.end()
    return "".join([*kept, _escape_piece(text[start:])])


def _escape_piece(piece: str) -> str:
    escaped = _ENTITY.sub("&amp;", piece).replace("<", "&lt;").replace(">", "&gt;")
    return _LINK.sub(lambda found: f"<{found.group()}>", escaped) if "://" in escaped else escaped


def unescape(text: str) -> str:
    """Return the text as people see it: links as their labels, escapes as themselves, mentions unchanged."""
    shown = _SHOWN_LINK.sub(lambda found: found.group(2) or found.group(1), text) if "<" in text else text
    return shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") if "&" in shown else shown


def find_mentions(text: str) -> set[str]:
    return set(_MENTION.findall(text))


def make_rich_text(text: str, block_id: str) -> list[Wire]:
    """Return the block that a person's client sends beside the text."""
    elements, start = [], 0
    for token in _TOKEN.finditer(text):
        elements += [*_plain_element(text[start : token.start()]), _token_element(token.group()[1:-1])]
        start = token.end()
    elements += _plain_element(text[start:])
    section = {"type": "rich_text_section", "elements": elements}
    return [{"type": "rich_text", "block_id": block_id, "elements": [section]}]


def _plain_element(piece: str) -> list[Wire]:
    return [{"type": "text", "text": unescape(piece)}] if piece else []


def _token_element(token: str) -> Wire:
    name, _, label = token.partition("|")
    kinds = {"@": ("user", "user_id"), "#": ("channel", "channel_id"), "!": ("broadcast", "range")}
    if name[0] in kinds:
        kind, key = kinds[name[0]]
        return {"type": kind, key: name[1:]}
    return {"type": "link", "url": name, **({"text": label} if label else {})}


def blocks_text(blocks: list[Wire]) -> str:
    """Return the text of markdown and section blocks, line by line."""
    texts = [block.get("text") for block in blocks]
    return "\n".join(text["text"] if isinstance(text, dict) else text for text in texts if text)
