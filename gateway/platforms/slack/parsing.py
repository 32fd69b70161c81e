"""Turn Slack's events into our messages. Pure: no network, no storage."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from gateway.messages import InboundMessage, Kind, Media, Part, Quote, Sender, SessionKey, Text
from gateway.platforms.slack.web_api import Wire
from gateway.platforms.text import media_kind, one_line
from tools.content import encodable

BY_ID = "id:"  # before the id of a file whose details Slack does not give yet
MAX_QUOTE_CHARS = 1_000
_TOKEN = re.compile(r"<([^<>]*)>")
_MENTION = re.compile(r"<@([A-Z0-9]+)(?:\|[^<>]*)?>")
_ESCAPES = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))
PlaceKind = Literal["dm", "group", "channel"]
# The others report changes of the channel: members, name, pins.
_SPOKEN = (None, "", "bot_message", "file_share", "me_message", "thread_broadcast")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackIdentity:
    """The bot of an account."""

    account: str
    user: str
    bot: str
    team: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackPlace:
    id: str
    kind: PlaceKind
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventContext:
    """The context for parsing an event."""

    place: SlackPlace
    names: Mapping[str, str]  # of people, by id
    our_threads: Collection[str] = ()  # in which we have written or were mentioned
    thread: str = ""  # of the message that a reaction is about


def parse_event(event: Wire, me: SlackIdentity, known: EventContext) -> InboundMessage | None:
    """Parse an event; None if it is no concern of ours."""
    match event.get("type"), event.get("subtype"):
        case "message", "message_changed":
            return _parse_change(event, me, known)
        case "message", "message_deleted":
            return _parse_deletion(event["previous_message"], str(event["deleted_ts"]), event, me, known)
        case "message" | "app_mention", _:
            return parse_message(event, me, known)
        case "reaction_added" | "reaction_removed", _:
            return _parse_reaction(event, me, known)
        case _:
            return None


def parse_message(message: Wire, me: SlackIdentity, known: EventContext) -> InboundMessage | None:
    """Parse a live message, or one from the history."""
    if message.get("subtype") not in _SPOKEN or message.get("hidden") or is_our_own(message, me):
        return None
    parts = parts_of(message, known.names, me.user)
    if not parts:
        return None
    ts = str(message["ts"])
    thread = find_thread(message, known.place.kind)
    return InboundMessage(
        key=_build_key(me, known.place, thread),
        message_id=ts,
        sender=_find_sender(message, known.names),
        parts=parts,
        sent_ms=ts_to_ms(ts),
        about=str(message.get("thread_ts") or "") if message.get("thread_ts") != ts else "",
        addressed=_is_addressed(message, me, known, thread),
        place_name=known.place.name,
    )


def add_opening(message: InboundMessage, opening: Wire, names: Mapping[str, str]) -> InboundMessage:
    """Add the message that opened the thread: whoever calls us into a thread means it."""
    words = render_text(str(opening.get("text") or ""), names)[:MAX_QUOTE_CHARS]
    if not words.strip():
        return message
    return replace(message, parts=(Quote(author=_find_sender(opening, names).name, text=words), *message.parts))


def parse_press(body: Wire, me: SlackIdentity, known: EventContext) -> InboundMessage | None:
    """Parse the press of a button below one of our messages."""
    where, action, who = body.get("container") or {}, body["actions"][0], str(body["user"]["id"])
    below = str(where.get("message_ts") or (body.get("message") or {}).get("ts") or "")
    words = action.get("value") or action.get("action_id")
    if not below or not isinstance(words, str):
        return None
    thread = str(where.get("thread_ts") or (body.get("message") or {}).get("thread_ts") or "")
    if not thread and known.place.kind == "channel":
        thread = below
    name = known.names.get(who) or one_line(body["user"].get("name"))
    return InboundMessage(
        key=_build_key(me, known.place, thread),
        message_id=f"{below}:{who}:{action['action_ts']}",
        kind="button",
        sender=Sender(id=who, name=name),
        parts=(Text(text=encodable(words)),),
        sent_ms=ts_to_ms(str(action["action_ts"])),
        about=below,
        place_name=known.place.name,
    )


def parse_command(
    body: Wire, me: SlackIdentity, known: EventContext, *, umbrella: str, commands: Collection[str], at_ms: int
) -> InboundMessage | None:
    """Parse a slash command: `/hermes help` is our /help, `/hermes what is new` a message. It has no time or thread."""
    words = encodable(str(body.get("text") or "")).strip()
    typed = str(body["command"])
    if typed != umbrella:  # one that the app's settings define separately
        words = f"{typed} {words}".strip()
    elif not words or words.partition(" ")[0].lower().removeprefix("/") in commands:
        words = f"/{words.removeprefix('/') or 'help'}"
    who = str(body["user_id"])
    return InboundMessage(
        key=_build_key(me, known.place, ""),
        message_id=str(body["trigger_id"]),
        sender=Sender(id=who, name=known.names.get(who) or one_line(body.get("user_name"))),
        parts=(Text(text=words),),
        sent_ms=at_ms,
        place_name=known.place.name,
    )


def find_channel(event: Wire) -> str:
    """Return the channel of an event; empty if it has none."""
    item = event.get("item")
    found = event.get("channel") or (item.get("channel") if isinstance(item, dict) else "")
    return found if isinstance(found, str) else ""


def find_thread(message: Wire, kind: PlaceKind) -> str:
    """Return the thread: in a channel, a message outside of threads opens one."""
    return str(message.get("thread_ts") or (message["ts"] if kind == "channel" else ""))


def is_our_own(message: Wire, me: SlackIdentity) -> bool:
    return message.get("user") == me.user or (bool(me.bot) and message.get("bot_id") == me.bot)


def ts_to_ms(ts: str) -> int:
    seconds, _, fraction = ts.partition(".")
    return int(seconds) * 1000 + int(fraction.ljust(6, "0")[:6]) // 1000


def is_ts(written: str) -> bool:
    seconds, dot, fraction = written.partition(".")
    return bool(dot) and written.isascii() and seconds.isdecimal() and fraction.isdecimal() and len(seconds) <= 11


def _parse_change(event: Wire, me: SlackIdentity, known: EventContext) -> InboundMessage | None:
    now, before = event["message"], event.get("previous_message") or {}
    if now.get("subtype") == "tombstone":  # the rest of a deleted message with replies
        return _parse_deletion(before, str(now["ts"]), event, me, known)
    files, earlier = ([str(file.get("id")) for file in one.get("files") or ()] for one in (now, before))
    if now.get("text") == before.get("text") and files == earlier:
        return None  # a link preview, or a new reply count
    said = parse_message({**now, "hidden": False}, me, known)
    return _build_note(said, "edit", event) if said is not None else None


def _parse_deletion(
    before: Wire, ts: str, event: Wire, me: SlackIdentity, known: EventContext
) -> InboundMessage | None:
    """Build a deletion by the author: Slack does not say who deleted it."""
    said = parse_message({**before, "ts": ts, "text": before.get("text") or "?", "files": []}, me, known)
    return _build_note(said, "deletion", event, parts=()) if said is not None else None


def _build_note(
    said: InboundMessage, kind: Kind, event: Wire, *, parts: tuple[Part, ...] | None = None
) -> InboundMessage:
    # Slack's time of an edit is in seconds; that of the event tells two edits within one second apart.
    at_ms = ts_to_ms(str(event["event_ts"]))
    return replace(said, kind=kind, parts=said.parts if parts is None else parts, sent_ms=at_ms, edited_ms=at_ms)


def _parse_reaction(event: Wire, me: SlackIdentity, known: EventContext) -> InboundMessage | None:
    item, who, at = event["item"], str(event["user"]), str(event["event_ts"])
    if item.get("type") != "message" or who == me.user:
        return None
    ts = str(item["ts"])
    emoji = f":{one_line(event.get('reaction'))}:"
    # Slack does not name the thread.
    thread = known.thread or (ts if known.place.kind == "channel" else "")
    return InboundMessage(
        key=_build_key(me, known.place, thread),
        message_id=f"{ts}:{who}:{at}",
        kind="reaction",
        sender=Sender(id=who, name=known.names.get(who, "")),
        parts=(Text(text=emoji if event["type"] == "reaction_added" else f"removed {emoji}"),),
        sent_ms=ts_to_ms(at),
        about=ts,
        addressed=known.place.kind == "dm",
        place_name=known.place.name,
    )


def _build_key(me: SlackIdentity, place: SlackPlace, thread: str) -> SessionKey:
    platform, _, account = me.account.partition("@")
    return SessionKey(platform=platform, account=account, kind=place.kind, chat=place.id, thread=thread)


def _find_sender(message: Wire, names: Mapping[str, str]) -> Sender:
    user, bot = str(message.get("user") or ""), str(message.get("bot_id") or "")
    if not bot:
        return Sender(id=user, name=names.get(user, ""))
    profile = message.get("bot_profile")
    name = message.get("username") or (profile.get("name") if isinstance(profile, dict) else "") or names.get(user, "")
    return Sender(id=user or bot, name=one_line(name), is_bot=True)


def _is_addressed(message: Wire, me: SlackIdentity, known: EventContext, thread: str) -> bool:
    if known.place.kind == "dm" or message.get("type") == "app_mention":
        return True
    if me.user in find_mentions(str(message.get("text") or "")):
        return True
    if message.get("bot_id"):  # else two bots would answer each other for ever
        return False
    if message.get("thread_ts") in (None, "", message["ts"]):  # the message that opened a thread is no reply
        return False
    return message.get("parent_user_id") == me.user or thread in known.our_threads


def parts_of(message: Wire, names: Mapping[str, str], me: str) -> tuple[Part, ...]:
    """Return quotes, then text, then files. Empty if nothing is readable."""
    text = str(message.get("text") or "")
    called = _MENTION.match(text.lstrip())
    if called and called[1] == me:  # what follows may be a command
        text = text.lstrip()[called.end() :].lstrip(" ,:")
    words = render_text(text, names)
    attached = [one for one in message.get("attachments") or () if isinstance(one, dict)]
    quotes = [_parse_quote(one, names) for one in attached if _is_shared(one)]
    if not words.strip():
        words = "\n".join(filter(None, (_read_attachment(one, names) for one in attached if not _is_shared(one))))
    files = [_parse_file(file, str(message.get("user") or "")) for file in message.get("files") or ()]
    return (*quotes, *((Text(text=words),) if words.strip() else ()), *filter(None, files))


def render_text(text: str, names: Mapping[str, str]) -> str:
    """Return readable text: names for ids, links written out, no escapes."""
    shown = (
        _TOKEN.sub(lambda token: _render_token(token[1], names), encodable(text)) if "<" in text else encodable(text)
    )
    for escape, char in _ESCAPES:
        shown = shown.replace(escape, char)
    return shown


def find_mentions(text: str) -> set[str]:
    return set(_MENTION.findall(text))


def find_people(message: Wire) -> set[str]:
    """Return the people whose names are needed to parse a message."""
    people = find_mentions(str(message.get("text") or ""))
    for one in message.get("attachments") or ():
        people |= find_mentions(str(one.get("text") or "")) if isinstance(one, dict) else set()
    return people | ({str(message["user"])} if message.get("user") else set())


def parse_media(file: Wire) -> Media:
    """Parse a file that Slack stores and describes."""
    mime = one_line(file.get("mimetype")) or "application/octet-stream"
    return Media(
        kind=media_kind(mime),
        name=one_line(file.get("name") or file.get("title")) or "file",
        mime=mime,
        size_bytes=int(file.get("size") or 0),
        reference=str(file["url_private"]),
    )


def _render_token(inside: str, names: Mapping[str, str]) -> str:
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


def _parse_quote(attachment: Wire, names: Mapping[str, str]) -> Quote:
    author = one_line(attachment.get("author_name") or attachment.get("author_subname"))
    text = render_text(str(attachment.get("text") or attachment.get("fallback") or ""), names)
    return Quote(how="forwarded from", author=author, text=text[:MAX_QUOTE_CHARS])


def _read_attachment(attachment: Wire, names: Mapping[str, str]) -> str:
    """Return the text of an attachment, in which programs write alerts and the like."""
    lines: Iterable[object] = (attachment.get("pretext"), attachment.get("title"), attachment.get("text"))
    written = "\n".join(str(line) for line in lines if line) or str(attachment.get("fallback") or "")
    return render_text(written, names)


def _parse_file(file: Wire, sender: str) -> Part | None:
    name = one_line(file.get("name") or file.get("title")) or "file"
    if file.get("file_access") == "check_file_info":
        return Media(kind="file", name=name, reference=f"{BY_ID}{file['id']}")
    if file.get("mode") in ("tombstone", "hidden_by_limit"):
        return Text(text="[a deleted file]")
    if file.get("is_external") or not file.get("url_private"):
        return Text(text=f"[file {name} {file.get('url_private') or ''}".rstrip() + "]")
    # A clip of somebody else can be shared: it is not what the sender says.
    is_voice = file.get("subtype") == "slack_audio" and bool(sender) and file.get("user") == sender
    return replace(parse_media(file), is_voice=is_voice)
