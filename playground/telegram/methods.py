"""The bot's other methods: changing messages, answering buttons, asking about chats and files; and the table of all."""

from collections.abc import Callable
from typing import Any

from playground.telegram.media import find_file
from playground.telegram.messages import member_wire
from playground.telegram.places import open_topic
from playground.telegram.request import Params
from playground.telegram.rules import (
    MAX_DOWNLOAD_BYTES,
    Wire,
    bad_request,
    check_commands,
    check_reactions,
    check_reply_markup,
)
from playground.telegram.sending import (
    SENDING,
    caption_fields,
    given_text,
    send_chat_action,
    send_message_draft,
    text_fields,
)
from playground.telegram.world import Chat, Post, World

Method = Callable[[World, Params], Any]

_NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same as a current "
    "content and reply markup of the message"
)
_TOO_OLD = "query is too old and response timeout expired or query ID is invalid"
_DELETABLE_SECONDS = 48 * 3600


def get_me(world: World, params: Params) -> Wire:
    return {
        **world.bot.wire,
        "can_join_groups": True,
        "can_read_all_group_messages": world.reads_all,
        "supports_inline_queries": False,
        "can_connect_to_business": False,
        "has_main_web_app": False,
        "has_topics_enabled": False,
    }


def _find(world: World, params: Params, what: str) -> tuple[Chat, Post]:
    chat = world.writable_chat(params.text("chat_id"))
    post = chat.post(params.integer("message_id"))
    if post is None:
        raise bad_request(f"{what} not found")
    return chat, post


def _editable(world: World, params: Params) -> tuple[Chat, Post]:
    if not params.has("chat_id") and not params.has("message_id"):
        raise bad_request("message identifier is not specified")  # inline messages are not played here
    chat, post = _find(world, params, "message to edit")
    if not post.by_bot:
        raise bad_request("message can't be edited")
    return chat, post


def edit_message_text(world: World, params: Params) -> Wire:
    formatted = given_text(params, "text", "entities")
    markup = check_reply_markup(params.data("reply_markup"), inline_only=True)
    chat, post = _editable(world, params)
    if "text" not in post.body:
        raise bad_request("there is no text in the message to edit")
    return _edit(world, chat, post, text_fields(world, formatted), markup, ("text", "entities"))


def edit_message_caption(world: World, params: Params) -> Wire:
    formatted = given_text(params, "caption", "caption_entities")
    markup = check_reply_markup(params.data("reply_markup"), inline_only=True)
    chat, post = _editable(world, params)
    if "text" in post.body:
        raise bad_request("there is no caption in the message to edit")
    return _edit(world, chat, post, caption_fields(world, formatted), markup, ("caption", "caption_entities"))


def edit_message_reply_markup(world: World, params: Params) -> Wire:
    markup = check_reply_markup(params.data("reply_markup"), inline_only=True)
    chat, post = _editable(world, params)
    return _edit(world, chat, post, {}, markup, ())


def _edit(world: World, chat: Chat, post: Post, new: Wire, markup: Wire | None, fields: tuple[str, ...]) -> Wire:
    """The fields named are replaced by what is new; a keyboard that is not given again is gone."""
    old = {field: post.body[field] for field in fields if field in post.body}
    if old == new and post.body.get("reply_markup") == markup:
        raise bad_request(_NOT_MODIFIED)
    if fields and old != new:
        post.earlier.append(old.get(fields[0], ""))
    gone = {*fields, "reply_markup"}
    kept = {key: value for key, value in post.body.items() if key not in gone}
    post.body = {**kept, "edit_date": int(world.now()), **new, **({"reply_markup": markup} if markup else {})}
    world.events.note("edit", chat_id=chat.id, message_id=post.body["message_id"], by_bot=True, message=post.body)
    return post.body


def delete_message(world: World, params: Params) -> bool:
    chat, post = _find(world, params, "message to delete")
    _delete(world, chat, post)
    return True


def delete_messages(world: World, params: Params) -> bool:
    chat = world.writable_chat(params.text("chat_id"))
    ids = params.data("message_ids")
    if not isinstance(ids, list) or not ids or not all(str(one).isdigit() for one in ids):
        raise bad_request("message identifiers are not specified")
    for message_id in ids:
        if post := chat.post(int(message_id)):
            _delete(world, chat, post)
    return True


def _delete(world: World, chat: Chat, post: Post) -> None:
    if chat.kind != "private" and not post.by_bot and not chat.bot_is_admin:
        raise bad_request("message can't be deleted")
    if not chat.bot_is_admin and world.now() - post.body["date"] > _DELETABLE_SECONDS:
        raise bad_request("message can't be deleted for everyone")
    post.deleted = True
    world.events.note("delete", chat_id=chat.id, message_id=post.body["message_id"], by_bot=True)


def set_message_reaction(world: World, params: Params) -> bool:
    reactions = check_reactions(params.data("reaction"))
    chat, post = _find(world, params, "message to react")
    post.reactions[world.bot.id] = reactions
    emoji = reactions[0]["emoji"] if reactions else ""
    message_id = post.body["message_id"]
    world.events.note("reaction", chat_id=chat.id, message_id=message_id, user_id=world.bot.id, emoji=emoji)
    return True


def answer_callback_query(world: World, params: Params) -> bool:
    query = world.queries.get(params.text("callback_query_id"))
    if query is None or query.answer is not None or query.expired:
        raise bad_request(_TOO_OLD)
    if len(params.text("text")) > 200:
        raise bad_request("MESSAGE_TOO_LONG")
    query.answer = {
        "text": params.text("text"),
        "show_alert": params.boolean("show_alert"),
        "url": params.text("url"),
        "cache_time": params.integer("cache_time"),
    }
    world.events.note("answer", query_id=query.id, answer=query.answer)
    return True


def _scope(params: Params) -> tuple[str, str]:
    scope = params.data("scope") or {"type": "default"}
    if not isinstance(scope, dict):
        raise bad_request("can't parse BotCommandScope: object expected as bot command scope")
    return ":".join(str(value) for value in scope.values()), params.text("language_code")


def set_my_commands(world: World, params: Params) -> bool:
    world.commands[_scope(params)] = check_commands(params.data("commands"))
    world.events.note("commands")
    return True


def get_my_commands(world: World, params: Params) -> list[Wire]:
    return world.commands.get(_scope(params), [])


def delete_my_commands(world: World, params: Params) -> bool:
    world.commands.pop(_scope(params), None)
    return True


def get_file(world: World, params: Params) -> Wire:
    if not params.has("file_id"):
        raise bad_request("file_id not specified")
    stored = find_file(world, params.text("file_id"))
    if stored.size > MAX_DOWNLOAD_BYTES:
        raise bad_request("file is too big")
    file = {"file_id": stored.id, "file_unique_id": stored.unique_id, "file_size": stored.size}
    return {**file, "file_path": stored.path}


def get_chat(world: World, params: Params) -> Wire:
    chat = world.find_chat(params.text("chat_id"))
    if chat.kind != "private":
        world.writable_chat(chat.id)
    gifts = dict.fromkeys(
        ["unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription", "gifts_from_channels"], False
    )
    return {**chat.wire, "accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": gifts}


def get_chat_member(world: World, params: Params) -> Wire:
    chat = world.writable_chat(params.text("chat_id"))
    user = world.users.get(params.integer("user_id"))
    if user is None:
        raise bad_request("PARTICIPANT_ID_INVALID")
    if user is world.bot:
        return member_wire(user, chat.bot_status)
    return member_wire(user, chat.members.get(user.id, "left"))


def leave_chat(world: World, params: Params) -> bool:
    chat = world.writable_chat(params.text("chat_id"))
    if chat.kind == "private":
        raise bad_request("chat member status can't be changed in private chats")
    chat.bot_status = "left"
    world.events.note("member", chat_id=chat.id, status="left")
    return True


def create_forum_topic(world: World, params: Params) -> Wire:
    chat = world.writable_chat(params.text("chat_id"))
    name = params.text("name").strip()
    if not chat.is_forum:
        raise bad_request("the chat is not a forum")
    if not chat.bot_is_admin:
        raise bad_request("not enough rights to create a topic")
    if not name:
        raise bad_request("TOPIC_TITLE_EMPTY")
    return open_topic(world, chat, world.bot, name)


def set_webhook(world: World, params: Params) -> bool:
    url = params.text("url")
    if url and not url.startswith("https://"):
        raise bad_request("bad webhook: An HTTPS URL must be provided for webhook")
    if params.boolean("drop_pending_updates"):
        world.updates.drop()
    world.updates.set_webhook(url)
    return True


def delete_webhook(world: World, params: Params) -> bool:
    if params.boolean("drop_pending_updates"):
        world.updates.drop()
    world.updates.set_webhook("")
    return True


def get_webhook_info(world: World, params: Params) -> Wire:
    updates = world.updates
    info: Wire = {"url": updates.webhook_url, "has_custom_certificate": False, "pending_update_count": updates.count}
    return info | ({"allowed_updates": updates.asked} if updates.asked else {})


METHODS: dict[str, Method] = {
    "getme": get_me,
    **SENDING,
    "sendmessagedraft": send_message_draft,
    "sendchataction": send_chat_action,
    "editmessagetext": edit_message_text,
    "editmessagecaption": edit_message_caption,
    "editmessagereplymarkup": edit_message_reply_markup,
    "deletemessage": delete_message,
    "deletemessages": delete_messages,
    "setmessagereaction": set_message_reaction,
    "answercallbackquery": answer_callback_query,
    "setmycommands": set_my_commands,
    "getmycommands": get_my_commands,
    "deletemycommands": delete_my_commands,
    "getfile": get_file,
    "getchat": get_chat,
    "getchatmember": get_chat_member,
    "leavechat": leave_chat,
    "createforumtopic": create_forum_topic,
    "setwebhook": set_webhook,
    "deletewebhook": delete_webhook,
    "getwebhookinfo": get_webhook_info,
}
# What counts against the limits on messages.
LIMITED = frozenset((*SENDING, "editmessagetext", "editmessagecaption", "editmessagereplymarkup"))
