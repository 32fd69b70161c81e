"""The bot's methods: sending, changing messages, answering buttons, commands and files."""

from collections.abc import Callable
from functools import partial
from typing import Any

from playground.params import Params
from playground.telegram import rules
from playground.telegram.messages import add, compose, media_fields, store_file
from playground.telegram.text import MarkedText, finish, read_entities
from playground.telegram.world import TelegramChat, TelegramFile, TelegramMessage, TelegramWorld
from playground.wire import Wire, without

Method = Callable[[TelegramWorld, Params], Any]

_NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same as a current "
    "content and reply markup of the message"
)
_TOO_OLD = "query is too old and response timeout expired or query ID is invalid"
_DELETABLE_SECONDS = 48 * 3600
_MAX_RAW_BYTES = 1 << 15
_GENERAL = 1  # the topic every forum has: actions may name it, messages must not
_DETAILS = ("duration", "width", "height", "performer", "title")
_KINDS = ("photo", "document", "voice", "audio", "video", "animation")


def get_me(world: TelegramWorld, params: Params) -> Wire:
    wire = {**world.bot.wire, "can_join_groups": True, "can_read_all_group_messages": world.reads_all}
    never = ("supports_inline_queries", "can_connect_to_business", "has_main_web_app", "has_topics_enabled")
    return wire | dict.fromkeys(never, False)


def _read_text(params: Params, field: str) -> MarkedText:
    """Read the text as given, before anything is known of the chat, as on the real server."""
    text = params.text(field)
    if len(text.encode("utf-8", "surrogatepass")) > _MAX_RAW_BYTES:
        raise rules.bad_request("text is too long")
    if params.text("parse_mode"):
        raise rules.bad_request("unsupported parse_mode")  # Hermes sends entities; no parse mode is played here
    return MarkedText(text, read_entities(params.data("entities" if field == "text" else "caption_entities")))


def _check_text(marked: MarkedText) -> Wire:
    finished = finish(marked)
    if not finished.text:
        raise rules.bad_request("text must be non-empty" if marked.text else "message text is empty")
    if rules.utf16_length(finished.text) > rules.MAX_TEXT_UNITS:
        raise rules.bad_request("message is too long")
    return finished.fields("text")


def send_message(world: TelegramWorld, params: Params) -> Wire:
    marked = _read_text(params, "text")
    keyboard = rules.check_keyboard(params.data("reply_markup"))
    chat = world.writable_chat(params.text("chat_id"))
    content = _check_text(marked)
    if preview := params.data("link_preview_options"):
        content["link_preview_options"] = preview
    return _put(world, params, chat, content, keyboard)


def _put(world: TelegramWorld, params: Params, chat: TelegramChat, content: Wire, keyboard: Wire | None) -> Wire:
    replied = _find_replied(chat, params)
    thread = _check_thread(chat, params, replied)
    if keyboard:
        content["reply_markup"] = keyboard
    sender, sender_chat = (None, chat) if chat.kind == "channel" else (world.bot, None)
    body = compose(world, chat, content, sender=sender, sender_chat=sender_chat, thread=thread, reply_to=replied)
    chat.drafts.clear()
    chat.last_action = ""
    add(world, chat, body, by_bot=True)
    return body


def _find_replied(chat: TelegramChat, params: Params) -> TelegramMessage | None:
    given = params.data("reply_parameters")
    if given is None:
        return None
    post = chat.post(Params(given).integer("message_id"))
    if post is None and not given.get("allow_sending_without_reply"):
        raise rules.bad_request("message to be replied not found")
    return post


def _check_thread(chat: TelegramChat, params: Params, replied: TelegramMessage | None) -> int:
    thread = params.integer("message_thread_id")
    if not thread:
        return replied.body.get("message_thread_id", 0) if replied and chat.is_forum else 0
    if thread not in chat.topics:
        raise rules.bad_request("message thread not found")  # the General topic included
    if chat.topics[thread]["closed"] and not chat.bot_is_admin:
        raise rules.bad_request("TOPIC_CLOSED")
    return thread


def send_media(world: TelegramWorld, params: Params, kind: str) -> Wire:
    marked = _read_text(params, "caption")
    keyboard = rules.check_keyboard(params.data("reply_markup"))
    chat = world.writable_chat(params.text("chat_id"))
    stored = _store_upload(world, params, kind)
    details = {name: params.integer(name) or params.text(name) for name in _DETAILS if params.text(name)}
    content = media_fields(world, kind, stored, {} if kind == "document" else details)
    caption = finish(marked)
    if rules.utf16_length(caption.text) > rules.MAX_CAPTION_UNITS:
        raise rules.bad_request("message caption is too long")
    if caption.text:
        content |= caption.fields("caption")
    return _put(world, params, chat, content, keyboard)


def _store_upload(world: TelegramWorld, params: Params, kind: str) -> TelegramFile:
    """Only uploads of this request are taken: Hermes sends no file by its id or address."""
    upload = params.files.get(params.text(kind).removeprefix("attach://") or kind)
    if upload is None:
        raise rules.bad_request("wrong file identifier/HTTP URL specified")
    if not upload.content:
        raise rules.bad_request("file must be non-empty")
    if kind == "photo":
        rules.check_photo(upload.content)
    return store_file(world, kind, upload.content, name=upload.name, mime_type=upload.mime_type)


def send_message_draft(world: TelegramWorld, params: Params) -> bool:
    """Show a preview in a private chat for half a minute or until the message comes; empty text is allowed."""
    marked = finish(_read_text(params, "text"))
    if rules.utf16_length(marked.text) > rules.MAX_TEXT_UNITS:
        raise rules.bad_request("message is too long")
    chat = world.writable_chat(params.text("chat_id"))
    draft_id = params.integer("draft_id")
    if chat.kind != "private":
        raise rules.bad_request("TEXTDRAFT_PEER_INVALID")
    if not draft_id:
        raise rules.bad_request("RANDOM_ID_INVALID")
    draft = {"draft_id": draft_id, "at": world.now(), **marked.fields("text")}
    chat.drafts = {draft_id: draft}
    world.events.note("draft", chat_id=chat.id, draft=draft)
    return True


def send_chat_action(world: TelegramWorld, params: Params) -> bool:
    action = params.text("action")
    if action not in rules.ACTIONS:
        raise rules.bad_request("wrong parameter action in request")
    chat = world.writable_chat(params.text("chat_id"))
    thread = params.integer("message_thread_id")
    if thread and thread not in chat.topics and not (chat.is_forum and thread == _GENERAL):
        raise rules.bad_request("message thread not found")
    chat.last_action = "" if action == "cancel" else action
    world.events.note("action", chat_id=chat.id, action=action, thread=thread)
    return True


def _find(world: TelegramWorld, params: Params, what: str) -> tuple[TelegramChat, TelegramMessage]:
    chat = world.writable_chat(params.text("chat_id"))
    post = chat.post(params.integer("message_id"))
    if post is None:
        raise rules.bad_request(f"{what} not found")
    return chat, post


def edit_message(world: TelegramWorld, params: Params, *, with_text: bool) -> Wire:
    """Replace the keyboard, and the text if asked to; a keyboard that is not given again is gone."""
    marked = _read_text(params, "text") if with_text else None
    keyboard = rules.check_keyboard(params.data("reply_markup"))
    chat, post = _find(world, params, "message to edit")
    if not post.by_bot:
        raise rules.bad_request("message can't be edited")
    if marked and "text" not in post.body:
        raise rules.bad_request("there is no text in the message to edit")
    fields = ("text", "entities") if marked else ()
    new = _check_text(marked) if marked else {}
    old = {field: post.body[field] for field in fields if field in post.body}
    if old == new and post.body.get("reply_markup") == keyboard:
        raise rules.bad_request(_NOT_MODIFIED)
    if old != new:
        post.earlier.append(old["text"])
    kept = without(post.body, *fields, "reply_markup")
    post.body = {**kept, "edit_date": int(world.now()), **new, **({"reply_markup": keyboard} if keyboard else {})}
    world.events.note("edit", chat_id=chat.id, message_id=post.body["message_id"], by_bot=True, message=post.body)
    return post.body


def delete_message(world: TelegramWorld, params: Params) -> bool:
    chat, post = _find(world, params, "message to delete")
    if chat.kind != "private" and not post.by_bot and not chat.bot_is_admin:
        raise rules.bad_request("message can't be deleted")
    if not chat.bot_is_admin and world.now() - post.body["date"] > _DELETABLE_SECONDS:
        raise rules.bad_request("message can't be deleted for everyone")
    post.deleted = True
    world.events.note("delete", chat_id=chat.id, message_id=post.body["message_id"], by_bot=True)
    return True


def set_message_reaction(world: TelegramWorld, params: Params) -> bool:
    reactions = rules.check_reactions(params.data("reaction"))
    chat, post = _find(world, params, "message to react")
    post.reactions[world.bot.id] = reactions
    emoji = reactions[0]["emoji"] if reactions else ""
    message_id = post.body["message_id"]
    world.events.note("reaction", chat_id=chat.id, message_id=message_id, user_id=world.bot.id, emoji=emoji)
    return True


def answer_callback_query(world: TelegramWorld, params: Params) -> bool:
    query = world.queries.get(params.text("callback_query_id"))
    if query is None or query.answer is not None:
        raise rules.bad_request(_TOO_OLD)
    query.answer = {"text": params.text("text"), "show_alert": params.boolean("show_alert")}
    world.events.note("answer", query_id=query.id, answer=query.answer)
    return True


def set_my_commands(world: TelegramWorld, params: Params) -> bool:
    world.commands = rules.check_commands(params.data("commands"))
    world.events.note("commands")
    return True


def get_file(world: TelegramWorld, params: Params) -> Wire:
    stored = world.files.get(params.text("file_id"))
    if stored is None:
        raise rules.bad_request("invalid file_id")
    if stored.size > rules.MAX_DOWNLOAD_BYTES:
        raise rules.bad_request("file is too big")
    return {**stored.wire, "file_path": stored.path}


def delete_webhook(world: TelegramWorld, params: Params) -> bool:
    if params.boolean("drop_pending_updates"):
        world.updates.restart_ids(world.updates.next_id)
    world.updates.set_webhook("")
    return True


_SENDING: dict[str, Method] = {
    "sendmessage": send_message,
    **{f"send{kind}": partial(send_media, kind=kind) for kind in _KINDS},
}
METHODS: dict[str, Method] = {
    "getme": get_me,
    **_SENDING,
    "sendmessagedraft": send_message_draft,
    "sendchataction": send_chat_action,
    "editmessagetext": partial(edit_message, with_text=True),
    "editmessagereplymarkup": partial(edit_message, with_text=False),
    "deletemessage": delete_message,
    "setmessagereaction": set_message_reaction,
    "answercallbackquery": answer_callback_query,
    "setmycommands": set_my_commands,
    "getfile": get_file,
    "deletewebhook": delete_webhook,
}
# Methods that count against the limits on messages.
LIMITED = frozenset((*_SENDING, "editmessagetext", "editmessagereplymarkup"))
