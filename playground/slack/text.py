"""Slack's own markup: what it escapes, what it links, what people read, and the rich text their clients send."""

import re

from playground.wire import Wire

_TOKEN = re.compile(r"<(?:[@#!][^<>\s]+|(?:https?|mailto|tel):[^<>\s|]+(?:\|[^<>]*)?)>")
_LINK = re.compile(r"https?://[^\s<>|]+[^\s<>|.,;:!?)\]'\"]")
_ENTITY = re.compile(r"&(?!(?:amp|lt|gt);)")
_SHOWN_LINK = re.compile(r"<((?:https?|mailto|tel):[^<>|]+)(?:\|([^<>]*))?>")
_MENTION = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^<>]*)?>")


def as_kept(text: str) -> str:
    """Mentions and links stay; other angle brackets and ampersands are escaped, bare addresses become links."""
    kept, start = [], 0
    for token in _TOKEN.finditer(text):
        kept += [_escaped(text[start : token.start()]), token.group()]
        start = token.end()
    return "".join([*kept, _escaped(text[start:])])


def _escaped(piece: str) -> str:
    escaped = _ENTITY.sub("&amp;", piece).replace("<", "&lt;").replace(">", "&gt;")
    return _LINK.sub(lambda found: f"<{found.group()}>", escaped) if "://" in escaped else escaped


def as_read(text: str) -> str:
    """What people see: links as their labels, escapes as themselves; mentions stay as they are."""
    shown = _SHOWN_LINK.sub(lambda found: found.group(2) or found.group(1), text) if "<" in text else text
    return shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") if "&" in shown else shown


def mentions(text: str) -> set[str]:
    return set(_MENTION.findall(text))


def rich_text(text: str, block_id: str) -> list[Wire]:
    """The block that a person's client sends beside the text."""
    elements, start = [], 0
    for token in _TOKEN.finditer(text):
        elements += [*_plain(text[start : token.start()]), _element(token.group()[1:-1])]
        start = token.end()
    elements += _plain(text[start:])
    section = {"type": "rich_text_section", "elements": elements}
    return [{"type": "rich_text", "block_id": block_id, "elements": [section]}]


def _plain(piece: str) -> list[Wire]:
    return [{"type": "text", "text": as_read(piece)}] if piece else []


def _element(token: str) -> Wire:
    name, _, label = token.partition("|")
    match name[0]:
        case "@":
            return {"type": "user", "user_id": name[1:]}
        case "#":
            return {"type": "channel", "channel_id": name[1:]}
        case "!":
            return {"type": "broadcast", "range": name[1:]}
        case _:
            return {"type": "link", "url": name, **({"text": label} if label else {})}


def blocks_text(blocks: list[Wire]) -> str:
    """What the blocks of a message say, line by line."""
    lines = []
    for block in blocks:
        texts = [block.get("text"), *block.get("fields", ())]
        if block["type"] == "context":
            texts += block["elements"]
        if block["type"] == "rich_text":
            texts += [_rich_words(part) for part in block["elements"]]
        for text in texts:
            words = text.get("text") if isinstance(text, dict) else text
            if isinstance(words, str) and words:
                lines.append(words)
    return "\n".join(lines)


def _rich_words(part: Wire) -> str:
    words = ""
    for element in part.get("elements", ()):
        match element.get("type"):
            case "text":
                words += element["text"]
            case "user":
                words += f"<@{element['user_id']}>"
            case "link":
                words += element.get("text") or element["url"]
            case "rich_text_section":
                words += _rich_words(element) + "\n"
    return words
