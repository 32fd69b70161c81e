"""What the bot says: posting, changing, deleting, reacting, and saying that it is busy."""

import re

from playground.slack.messages import add, bot_fields, change, react, remove
from playground.slack.places import find_channel, writable_channel
from playground.slack.request import Params
from playground.slack.rules import (
    MAX_MARKDOWN_CHARS,
    Refused,
    check_blocks,
    check_metadata,
    check_text,
    check_thread,
    check_updated_text,
)
from playground.slack.text import as_kept
from playground.slack.world import Channel, Post, World
from playground.wire import Wire

_EMOJI = re.compile(r"[a-z0-9_+'\-]+(::skin-tone-[2-6])?")


def post_message(world: World, params: Params) -> Wire:
    fields = _content(params, check_text(params.text("text")))
    metadata = check_metadata(params.data("metadata", "invalid_metadata_format"))
    thread = check_thread(params.text("thread_ts")) if params.text("thread_ts") else ""
    channel = writable_channel(world, params.text("channel"))
    post = say(world, channel, fields, metadata, thread=thread, broadcast=params.boolean("reply_broadcast"))
    return {"channel": channel.id, "ts": post.ts, "message": _told(post)}


def say(
    world: World,
    channel: Channel,
    fields: Wire,
    metadata: Wire | None = None,
    *,
    thread: str = "",
    broadcast: bool = False,
) -> Post:
    """The bot's words stand in the channel, and what it was doing is over."""
    body = bot_fields(world, world.bot, fields.get("text", "")) | (
        {"blocks": fields["blocks"]} if fields.get("blocks") else {}
    )
    if metadata:
        body["metadata"] = metadata
    channel.statuses.pop(thread, None)
    return add(world, channel, body, by_bot=True, thread=thread, broadcast=broadcast and bool(thread))


def _told(post: Post) -> Wire:
    return {key: value for key, value in post.body.items() if key not in ("metadata", "root")}


def _content(params: Params, text: str) -> Wire:
    """Text and blocks. Raises what is said of their lack or length."""
    markdown = params.text("markdown_text")
    if markdown and (text or params.has("blocks")):
        raise Refused("markdown_text_conflict")
    if len(markdown) > MAX_MARKDOWN_CHARS:
        raise Refused("msg_too_long")
    blocks = check_blocks([{"type": "markdown", "text": markdown}] if markdown else _given_blocks(params))
    if not (text.strip() or blocks or params.data("attachments", "invalid_attachments")):
        raise Refused("no_text")
    return {"text": text or markdown, "blocks": blocks}


def _given_blocks(params: Params) -> object:
    return params.data("blocks", "invalid_blocks_format")


def post_ephemeral(world: World, params: Params) -> Wire:
    fields = _content(params, check_text(params.text("text")))
    channel = writable_channel(world, params.text("channel"))
    if params.text("user") not in channel.members:
        raise Refused("user_not_in_channel")
    post = whisper(world, channel, params.text("user"), fields, thread=params.text("thread_ts"))
    return {"message_ts": post.ts}


def whisper(world: World, channel: Channel, user_id: str, fields: Wire, *, thread: str = "") -> Post:
    """For one user's eyes, in no history, and no event tells of it."""
    body = {"type": "message", "ts": world.next_ts(), **bot_fields(world, world.bot, fields.get("text", ""))}
    body |= {"blocks": fields["blocks"]} if fields.get("blocks") else {}
    post = Post(body=body | ({"thread_ts": thread} if thread else {}), by_bot=True, for_user=user_id)
    channel.ephemeral.append(post)
    world.events.note("message", channel=channel.id, ts=post.ts, by_bot=True, message=body, for_user=user_id)
    return post


def _own(world: World, params: Params, error: str) -> tuple[Channel, Post]:
    channel = find_channel(world, params.text("channel"))
    post = channel.post(params.text("ts"))
    if post is None:
        raise Refused("message_not_found")
    if not post.by_bot:
        raise Refused(error)
    if channel.archived:
        raise Refused("is_archived")
    return channel, post


def update(world: World, params: Params) -> Wire:
    """Blocks that are not given stay as they are, and people go on reading them; an empty list takes them away."""
    text = check_updated_text(params.text("text"))
    if text and not params.has("blocks") and not params.has("markdown_text"):
        fields: Wire = {"text": as_kept(text)}
    else:
        content = _content(params, text)
        fields = {"text": as_kept(content["text"]), "blocks": content["blocks"] or None}
    if params.has("metadata"):
        fields["metadata"] = check_metadata(params.data("metadata", "invalid_metadata_format"))
    channel, post = _own(world, params, "cant_update_message")
    window = world.edit_window_seconds
    if window is not None and world.now() - float(post.ts) > window:
        raise Refused("edit_window_closed")
    change(world, channel, post, fields, by=world.bot.id)
    return {"channel": channel.id, "ts": post.ts, "text": post.body["text"], "message": _told(post)}


def delete(world: World, params: Params) -> Wire:
    channel, post = _own(world, params, "cant_delete_message")
    remove(world, channel, post)
    return {"channel": channel.id, "ts": post.ts}


def add_reaction(world: World, params: Params) -> Wire:
    channel, post, name = _marked(world, params)
    if not react(world, channel, post, world.bot.id, name, added=True):
        raise Refused("already_reacted")
    return {}


def remove_reaction(world: World, params: Params) -> Wire:
    channel, post, name = _marked(world, params)
    if not react(world, channel, post, world.bot.id, name, added=False):
        raise Refused("no_reaction")
    return {}


def _marked(world: World, params: Params) -> tuple[Channel, Post, str]:
    name = params.text("name").strip(":")
    if not _EMOJI.fullmatch(name):
        raise Refused("invalid_name")
    channel = writable_channel(world, params.text("channel"))
    post = channel.post(params.text("timestamp"))
    if post is None:
        raise Refused("message_not_found")
    return channel, post, name


def set_status(world: World, params: Params) -> Wire:
    """Shown in the thread until the bot posts there or the status is empty."""
    channel = writable_channel(world, params.text("channel_id"))
    thread, status = check_thread(params.text("thread_ts")), params.text("status")
    if status:
        channel.statuses[thread] = status
    else:
        channel.statuses.pop(thread, None)
    world.events.note("status", channel=channel.id, thread=thread, status=status)
    return {}


CHAT = {
    "chat.postMessage": post_message,
    "chat.postEphemeral": post_ephemeral,
    "chat.update": update,
    "chat.delete": delete,
    "reactions.add": add_reaction,
    "reactions.remove": remove_reaction,
    "assistant.threads.setStatus": set_status,
}
