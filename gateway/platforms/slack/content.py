"""What a Slack message holds, as our parts: words, files by reference, and what it passes on. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gateway.messages import Media, MediaKind, Part, Quote, Text
from gateway.platforms.text import one_line
from tools.parts import encodable

Wire = dict[str, Any]

BY_ID = "id:"  # before the id of a file of which Slack tells nothing else yet
MAX_QUOTE_CHARS = 1_000
_FAMILIES: dict[str, MediaKind] = {"image": "image", "audio": "audio", "video": "video"}
_TOKEN = re.compile(r"<([^<>]*)>")
_MENTION = re.compile(r"<@([A-Z0-9]+)(?:\|[^<>]*)?>")
_ESCAPES = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


def parts_of(message: Wire, names: Mapping[str, str], me: str) -> tuple[Part, ...]:
    """What it passes on, then what it says, then what is attached. Empty where there is nothing to read."""
    words = words_of(_without_us(str(message.get("text") or ""), me), names)
    attached = [one for one in message.get("attachments") or () if isinstance(one, dict)]
    quotes = [_quote(one, names) for one in attached if _is_shared(one)]
    if not words.strip():
        words = "\n".join(filter(None, (_attached_words(one, names) for one in attached if not _is_shared(one))))
    files = [_file(file) for file in message.get("files") or ()]
    return (*quotes, *((Text(text=words),) if words.strip() else ()), *filter(None, files))


def words_of(text: str, names: Mapping[str, str]) -> str:
    """Slack's markup as people read it: names for ids, links written out, no escapes."""
    shown = _TOKEN.sub(lambda token: _token(token[1], names), encodable(text)) if "<" in text else encodable(text)
    for escape, char in _ESCAPES:
        shown = shown.replace(escape, char)
    return shown


def mentioned(text: str) -> set[str]:
    return set(_MENTION.findall(text))


def people_in(message: Wire) -> set[str]:
    """Whose names are needed to read it."""
    people = mentioned(str(message.get("text") or ""))
    for one in message.get("attachments") or ():
        people |= mentioned(str(one.get("text") or "")) if isinstance(one, dict) else set()
    return people | {str(message[name]) for name in ("user",) if message.get(name)}


def file_ids(message: Wire) -> list[str]:
    return [str(file.get("id")) for file in message.get("files") or ()]


def media_of(file: Wire) -> Media:
    """Of a file that Slack keeps and tells about."""
    mime = one_line(file.get("mimetype")) or "application/octet-stream"
    return Media(
        kind=_FAMILIES.get(mime.partition("/")[0], "file"),
        name=one_line(file.get("name") or file.get("title")) or "file",
        mime=mime,
        size_bytes=int(file.get("size") or 0),
        reference=str(file["url_private"]),
    )


def _without_us(text: str, me: str) -> str:
    """Without the name it begins with, when that is ours: what follows may be a command."""
    found = _MENTION.match(text.lstrip())
    return text.lstrip()[found.end() :].lstrip(" ,:") if found and found[1] == me else text


def _token(inside: str, names: Mapping[str, str]) -> str:
    target, _, label = inside.partition("|")
    if target.startswith("@"):
        return f"@{names.get(target[1:]) or label.removeprefix('@') or target[1:]}"
    if target.startswith("#"):
        return f"#{label or target[1:]}"
    if target.startswith("!"):
        return label or f"@{target[1:].partition('^')[0]}"
    if not label or label == target or target in (f"mailto:{label}", f"tel:{label}", f"http://{label}"):
        return label or target
    return f"{label} ({target})"


def _is_shared(attachment: Wire) -> bool:
    return bool(attachment.get("is_share") or attachment.get("is_msg_unfurl"))


def _quote(attachment: Wire, names: Mapping[str, str]) -> Quote:
    author = one_line(attachment.get("author_name") or attachment.get("author_subname"))
    text = words_of(str(attachment.get("text") or attachment.get("fallback") or ""), names)
    return Quote(how="forwarded from", author=author, text=text[:MAX_QUOTE_CHARS])


def _attached_words(attachment: Wire, names: Mapping[str, str]) -> str:
    """How alarms and the like are written by programs."""
    lines: Iterable[object] = (attachment.get("pretext"), attachment.get("title"), attachment.get("text"))
    written = "\n".join(str(line) for line in lines if line) or str(attachment.get("fallback") or "")
    return words_of(written, names)


def _file(file: Wire) -> Part | None:
    name = one_line(file.get("name") or file.get("title")) or "file"
    if file.get("file_access") == "check_file_info":
        return Media(kind="file", name=name, reference=f"{BY_ID}{file['id']}")
    if file.get("mode") in ("tombstone", "hidden_by_limit"):
        return Text(text="[a file that is no longer there]")
    if file.get("is_external") or not file.get("url_private"):
        return Text(text=f"[file {name} {file.get('url_private') or ''}".rstrip() + "]")
    return media_of(file)
