"""The bot's sending methods: everything that puts a message, a draft or a sign of life into a chat."""

from typing import Any

from playground.telegram.entities import Formatted, finish, read_entities
from playground.telegram.markup import parse_markup
from playground.telegram.media import KINDS, has_caption, media_fields, store_file
from playground.telegram.messages import add, compose
from playground.telegram.pictures import check_photo
from playground.telegram.request import Params
from playground.telegram.rules import (
    ACTIONS,
    MAX_CAPTION_UNITS,
    MAX_TEXT_UNITS,
    Refused,
    Wire,
    bad_request,
    check_reply_markup,
    utf16_length,
)
from playground.telegram.world import Chat, Post, StoredFile, World

_MAX_RAW_BYTES = 1 << 15
_GENERAL = 1  # the topic every forum has: actions may name it, messages must not
_DETAILS = ("duration", "width", "height", "length", "performer", "title")


def send_message(world: World, params: Params) -> Wire:
    formatted = given_text(params, "text", "entities")
    markup = check_reply_markup(params.data("reply_markup"))
    chat = world.writable_chat(params.text("chat_id"))
    content = text_fields(world, formatted)
    if preview := params.data("link_preview_options"):
        content["link_preview_options"] = preview
    return _put(world, params, chat, content, markup)


def given_text(params: Params, field: str, entities: str) -> Formatted:
    """The text as given, markup parsed; this comes before anything is known of the chat, as on the real server."""
    text = params.text(field)
    if field == "text" and not text:
        raise bad_request("message text is empty")
    return parse_text(text, params.text("parse_mode"), _entities(params, entities))


def _entities(params: Params, name: str) -> object:
    try:
        return params.data(name)
    except Refused:
        return None  # entities that are no JSON are ignored


def parse_text(text: str, mode: str, entities: object) -> Formatted:
    if len(text.encode("utf-8", "surrogatepass")) > _MAX_RAW_BYTES:
        raise bad_request("text is too long")
    if text and mode and mode.lower() != "none":
        return parse_markup(text, mode)
    return Formatted(text, read_entities(entities))


def text_fields(world: World, formatted: Formatted) -> Wire:
    finished = finish(formatted)
    if not finished.text:
        raise bad_request("text must be non-empty")
    if utf16_length(finished.text) > MAX_TEXT_UNITS:
        raise bad_request("message is too long")
    return _fields(world, "text", "entities", finished)


def caption_fields(world: World, formatted: Formatted) -> Wire:
    finished = finish(formatted)
    if utf16_length(finished.text) > MAX_CAPTION_UNITS:
        raise bad_request("message caption is too long")
    return _fields(world, "caption", "caption_entities", finished) if finished.text else {}


def _fields(world: World, text: str, entities: str, formatted: Formatted) -> Wire:
    """With mentions of users the bot does not know left out."""
    shown = []
    for entity in formatted.entities:
        if entity["type"] != "text_mention":
            shown.append(entity)
        elif user := world.users.get(entity["user_id"]):
            known = {key: value for key, value in entity.items() if key != "user_id"}
            shown.append({**known, "user": user.wire})
    return {text: formatted.text} | ({entities: shown} if shown else {})


def _put(world: World, params: Params, chat: Chat, content: Wire, markup: Wire | None) -> Wire:
    replied, quote = _replied(chat, params)
    thread = _thread(chat, params, replied)
    if markup:
        content["reply_markup"] = markup
    if params.boolean("protect_content"):
        content["has_protected_content"] = True
    sender, sender_chat = (None, chat) if chat.kind == "channel" else (world.bot, None)
    body = compose(
        world, chat, content, sender=sender, sender_chat=sender_chat, thread=thread, reply_to=replied, quote=quote
    )
    chat.drafts.clear()
    chat.last_action = ""
    add(world, chat, body, by_bot=True)
    return body


def _replied(chat: Chat, params: Params) -> tuple[Post | None, str]:
    given = params.data("reply_parameters")
    if given is None and params.integer("reply_to_message_id"):
        given = {
            "message_id": params.integer("reply_to_message_id"),
            "allow_sending_without_reply": params.boolean("allow_sending_without_reply"),
        }
    if given is None:
        return None, ""
    if not isinstance(given, dict):
        raise bad_request("object expected as reply parameters")
    post = chat.post(Params(given).integer("message_id"))
    if post is None:
        if given.get("allow_sending_without_reply"):
            return None, ""
        raise bad_request("message to be replied not found")
    quote = str(given.get("quote") or "")
    if quote and quote not in post.words:
        raise bad_request("QUOTE_TEXT_INVALID")
    return post, quote


def _thread(chat: Chat, params: Params, replied: Post | None) -> int:
    thread = params.integer("message_thread_id")
    if not thread:
        return replied.body.get("message_thread_id", 0) if replied and chat.is_forum else 0
    if thread not in chat.topics:
        raise bad_request("message thread not found")  # the General topic included
    if chat.topics[thread]["closed"] and not chat.bot_is_admin:
        raise bad_request("TOPIC_CLOSED")
    return thread


def send_media(world: World, params: Params, kind: str) -> Wire:
    caption = given_text(params, "caption", "caption_entities")
    markup = check_reply_markup(params.data("reply_markup"))
    chat = world.writable_chat(params.text("chat_id"))
    stored = _given_file(world, params, kind, params.text(kind) or (f"attach://{kind}" if kind in params.files else ""))
    details = _details(kind, params.values)
    content = media_fields(world, kind, stored, details)
    if has_caption(kind):
        content |= caption_fields(world, caption)
    return _put(world, params, chat, content, markup)


def _details(kind: str, given: Any) -> Wire:
    if kind == "document":
        return {}
    found = {name: given[name] for name in _DETAILS if given.get(name)}
    return {name: int(value) if str(value).isdigit() else value for name, value in found.items()}


def _given_file(world: World, params: Params, kind: str, value: str) -> StoredFile:
    """An upload of this request or the id of a file sent before."""
    if not value:
        raise bad_request(f"there is no {kind.replace('_', ' ')} in the request")
    if value.startswith("attach://"):
        upload = params.files.get(value.removeprefix("attach://"))
        if upload is None:
            raise bad_request("wrong file identifier/HTTP URL specified")
        if not upload.content:
            raise bad_request("file must be non-empty")
        if kind == "photo":
            check_photo(upload.content)
        return store_file(world, kind, upload.content, name=upload.name, mime_type=upload.mime_type)
    if value.startswith(("http://", "https://")):
        raise bad_request("failed to get HTTP URL content")  # nothing is fetched from here
    stored = world.files.get(value)
    if stored is None:
        raise bad_request("wrong file identifier/HTTP URL specified")
    if stored.kind != kind:
        raise bad_request(f"can't use file of type {stored.kind.title()} as {kind.title()}")
    return stored


def send_media_group(world: World, params: Params) -> list[Wire]:
    items = params.data("media")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise bad_request("can't parse media JSON object")
    if not items:
        raise bad_request("there are no messages to send")
    if len(items) > 10:
        raise bad_request("too many messages to send as an album")
    chat = world.writable_chat(params.text("chat_id"))
    group = {"media_group_id": str(13_000_000_000_000_000 + world.number())}
    contents = [_album_item(world, params, item) for item in items]
    return [_put(world, params, chat, content | group, None) for content in contents]


def _album_item(world: World, params: Params, item: Wire) -> Wire:
    kind = item.get("type", "")
    if kind not in ("photo", "video", "audio", "document"):
        raise bad_request("can't use the media of the specified type in the album")
    stored = _given_file(world, params, kind, str(item.get("media", "")))
    text = parse_text(item.get("caption", ""), item.get("parse_mode", ""), item.get("caption_entities"))
    return media_fields(world, kind, stored, _details(kind, item)) | caption_fields(world, text)


def send_message_draft(world: World, params: Params) -> bool:
    """A preview in private chats that lives for half a minute or until the message comes; empty text is allowed."""
    text = params.text("text")
    formatted = finish(parse_text(text, params.text("parse_mode"), _entities(params, "entities")))
    if utf16_length(formatted.text) > MAX_TEXT_UNITS:
        raise bad_request("message is too long")
    chat = world.writable_chat(params.text("chat_id"))
    draft_id = params.integer("draft_id")
    if chat.kind != "private":
        raise bad_request("TEXTDRAFT_PEER_INVALID")
    if not draft_id:
        raise bad_request("RANDOM_ID_INVALID")
    draft = {"draft_id": draft_id, "at": world.now(), **_fields(world, "text", "entities", formatted)}
    chat.drafts = {draft_id: draft}
    world.events.note("draft", chat_id=chat.id, draft=draft)
    return True


def send_chat_action(world: World, params: Params) -> bool:
    action = params.text("action")
    if action not in ACTIONS:
        raise bad_request("wrong parameter action in request")
    chat = world.writable_chat(params.text("chat_id"))
    thread = params.integer("message_thread_id")
    if thread and thread not in chat.topics and not (chat.is_forum and thread == _GENERAL):
        raise bad_request("message thread not found")
    chat.last_action = "" if action == "cancel" else action
    world.events.note("action", chat_id=chat.id, action=action, thread=thread)
    return True


def send_location(world: World, params: Params) -> Wire:
    markup = check_reply_markup(params.data("reply_markup"))
    chat = world.writable_chat(params.text("chat_id"))
    try:
        place = {name: float(params.text(name)) for name in ("latitude", "longitude")}
    except ValueError:
        raise bad_request("latitude is empty") from None
    return _put(world, params, chat, {"location": place}, markup)


def _sender_of(kind: str) -> Any:
    return lambda world, params: send_media(world, params, kind)


SENDING = {
    "sendmessage": send_message,
    "sendmediagroup": send_media_group,
    "sendlocation": send_location,
    **{f"send{kind.replace('_', '')}": _sender_of(kind) for kind in KINDS},
}
