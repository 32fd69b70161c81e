"""The methods of the Web API: posting, changing, reacting, reading conversations, and files."""

import base64
import mimetypes
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from playground.params import Params
from playground.slack import rules
from playground.slack.messages import add, bot_fields, change, react, remove
from playground.slack.text import escape
from playground.slack.world import ChannelKind, SlackFile, SlackMessage, SlackWorld, WorkspaceChannel
from playground.wire import Wire, without

T = TypeVar("T")

_EMOJI = re.compile(r"[a-z0-9_+'\-]+(::skin-tone-[2-6])?")
_MOST = 1000
_TYPES: dict[str, ChannelKind] = {"public_channel": "channel", "private_channel": "group", "mpim": "mpim", "im": "im"}
_STUB: Wire = {"mode": "file_access", "file_access": "check_file_info"}


def post_message(world: SlackWorld, params: Params) -> Wire:
    text, blocks = rules.check_text(params.text("text")), rules.check_blocks(params.data("blocks"))
    if not text.strip() and not blocks:
        raise rules.SlackRefusal("no_text")
    metadata = rules.check_metadata(params.data("metadata"))
    thread = _read_thread(params)
    channel = world.writable_channel(params.text("channel"))
    fields = bot_fields(world, world.bot, text, blocks) | ({"metadata": metadata} if metadata else {})
    channel.statuses.pop(thread, None)
    post = add(world, channel, fields, by_bot=True, thread=thread)
    return {"channel": channel.id, "ts": post.ts, "message": without(post.body, "metadata")}


def _read_thread(params: Params) -> str:
    thread = params.text("thread_ts")
    return rules.check_thread(thread) if thread else ""


def add_ephemeral(world: SlackWorld, channel: WorkspaceChannel, user_id: str, text: str, blocks: list[Wire]) -> None:
    """Show a message of the bot's to one user alone; it is in no history, and no event tells of it."""
    body = {"type": "message", "ts": world.next_ts(), **bot_fields(world, world.bot, text, blocks)}
    post = SlackMessage(body=body, by_bot=True, for_user=user_id)
    channel.ephemeral.append(post)
    world.events.note("message", channel=channel.id, ts=post.ts, by_bot=True, message=body, for_user=user_id)


def _find_own(world: SlackWorld, params: Params, error: str) -> tuple[WorkspaceChannel, SlackMessage]:
    channel = world.find_channel(params.text("channel"))
    post = channel.post(params.text("ts"))
    if post is None:
        raise rules.SlackRefusal("message_not_found")
    if not post.by_bot:
        raise rules.SlackRefusal(error)
    if channel.archived:
        raise rules.SlackRefusal("is_archived")
    return channel, post


def update(world: SlackWorld, params: Params) -> Wire:
    """Change a message. Blocks that are not given stay, and people go on reading them; an empty list removes them."""
    text = params.text("text")
    if len(text.encode("utf-8", "surrogatepass")) > rules.MAX_UPDATE_BYTES:
        raise rules.SlackRefusal("msg_too_long")
    fields: Wire = {"text": escape(text)}
    if params.has("blocks"):
        fields["blocks"] = rules.check_blocks(params.data("blocks")) or None
    if not text.strip() and not fields.get("blocks"):
        raise rules.SlackRefusal("no_text")
    if params.has("metadata"):
        fields["metadata"] = rules.check_metadata(params.data("metadata"))
    channel, post = _find_own(world, params, "cant_update_message")
    window = world.edit_window_seconds
    if window is not None and world.now() - float(post.ts) > window:
        raise rules.SlackRefusal("edit_window_closed")
    change(world, channel, post, fields, by=world.bot.id)
    message = without(post.body, "metadata")
    return {"channel": channel.id, "ts": post.ts, "text": post.body["text"], "message": message}


def delete(world: SlackWorld, params: Params) -> Wire:
    channel, post = _find_own(world, params, "cant_delete_message")
    remove(world, channel, post)
    return {"channel": channel.id, "ts": post.ts}


def change_reaction(world: SlackWorld, params: Params, *, added: bool) -> Wire:
    name = params.text("name").strip(":")
    if not _EMOJI.fullmatch(name):
        raise rules.SlackRefusal("invalid_name")
    channel = world.writable_channel(params.text("channel"))
    post = channel.post(params.text("timestamp"))
    if post is None:
        raise rules.SlackRefusal("message_not_found")
    if not react(world, channel, post, world.bot.id, name, added=added):
        raise rules.SlackRefusal("already_reacted" if added else "no_reaction")
    return {}


def set_status(world: SlackWorld, params: Params) -> Wire:
    """Show in the thread that the bot is busy, until it posts there or the status is empty."""
    channel = world.writable_channel(params.text("channel_id"))
    thread, status = rules.check_thread(params.text("thread_ts")), params.text("status")
    if status:
        channel.statuses[thread] = status
    else:
        channel.statuses.pop(thread, None)
    world.events.note("status", channel=channel.id, thread=thread, status=status)
    return {}


def auth_test(world: SlackWorld, params: Params) -> Wire:
    who = {"url": f"{world.root()}/", "team": world.team_name, "user": world.bot.name, "team_id": world.team_id}
    return {**who, "user_id": world.bot.id, "bot_id": world.bot.bot_id, "is_enterprise_install": False}


def users_info(world: SlackWorld, params: Params) -> Wire:
    user = world.users.get(params.text("user"))
    if user is None:
        raise rules.SlackRefusal("user_not_found")
    return {"user": user.wire}


def channel_info(world: SlackWorld, params: Params) -> Wire:
    channel = world.find_channel(params.text("channel"))
    rules.check_kind_scope(channel.kind, "read", world.scopes)
    return {"channel": _channel_wire(world, channel)}


def _channel_wire(world: SlackWorld, channel: WorkspaceChannel) -> Wire:
    return channel.wire if channel.kind == "im" else {**channel.wire, "is_member": world.hears(channel)}


def list_own_channels(world: SlackWorld, params: Params) -> Wire:
    """List the channels that the bot is in, public ones unless other kinds are asked for."""
    types = [name.strip() for name in (params.text("types") or "public_channel").split(",")]
    if any(name not in _TYPES for name in types):
        raise rules.SlackRefusal("invalid_types")
    kinds = [_TYPES[name] for name in types]
    for kind in kinds:
        rules.check_kind_scope(kind, "read", world.scopes)
    found = [
        _channel_wire(world, channel)
        for channel in world.channels.values()
        if channel.kind in kinds
        and world.hears(channel)
        and not (params.boolean("exclude_archived") and channel.archived)
    ]
    start, limit = int(_read_cursor(params) or 0), _read_limit(params)
    end = start + limit
    cursor = _make_cursor(str(end)) if end < len(found) else ""
    return {"channels": found[start:end], "response_metadata": {"next_cursor": cursor}}


def history(world: SlackWorld, params: Params) -> Wire:
    """Return a part of the history, newest first and without replies in threads."""
    channel = world.readable_channel(params.text("channel"))
    rules.check_kind_scope(channel.kind, "history", world.scopes)
    between = _read_bounds(params)
    posts = [post for post in reversed(channel.posts.values()) if not post.is_reply]
    return _make_page([post for post in posts if not post.deleted and between(post.ts)], params, newest_first=True)


def replies(world: SlackWorld, params: Params) -> Wire:
    """Return the parent, always, and its replies, oldest first."""
    channel = world.readable_channel(params.text("channel"))
    rules.check_kind_scope(channel.kind, "history", world.scopes)
    post = channel.posts.get(params.text("ts"))
    parent = channel.post(post.thread_ts or post.ts) if post else None
    if parent is None:
        raise rules.SlackRefusal("thread_not_found")
    between = _read_bounds(params)
    found = [one for one in channel.threads.get(parent.ts, ()) if not one.deleted and between(one.ts)]
    return _make_page([parent, *found], params, newest_first=False)


def _read_bounds(params: Params) -> Callable[[str], bool]:
    """Return a test for the bounds that a call asks for; they are outside unless `inclusive`."""
    oldest = _read_ts(params.text("oldest"), "invalid_ts_oldest") or "0"
    latest = _read_ts(params.text("latest"), "invalid_ts_latest") or "99999999999.000000"
    bounds = (oldest, latest) if params.boolean("inclusive") else ()
    return lambda ts: ts in bounds or oldest < ts < latest


def _read_ts(given: str, error: str) -> str:
    """Read a moment, which may also be written as `1700000000` or `1700000000.5`."""
    if given in ("", "0"):
        return ""
    seconds, _, rest = given.partition(".")
    if not seconds.isdigit() or (rest and not rest.isdigit()):
        raise rules.SlackRefusal(error)
    return f"{seconds.rjust(10, '0')}.{rest.ljust(6, '0')}"


def _make_page(posts: Sequence[SlackMessage], params: Params, *, newest_first: bool) -> Wire:
    """The cursor names the next message, so that what comes or goes meanwhile shifts nothing."""
    limit, start, cursor = _read_limit(params), 0, _read_cursor(params)
    hidden = () if params.boolean("include_all_metadata") else ("metadata",)
    if cursor:
        beyond = [post.ts <= cursor if newest_first else post.ts >= cursor for post in posts]
        start = beyond.index(True) if True in beyond else len(posts)
    page, rest = posts[start : start + limit], posts[start + limit : start + limit + 1]
    answer: Wire = {"messages": [without(post.body, *hidden) for post in page], "has_more": bool(rest), "pin_count": 0}
    return answer | ({"response_metadata": {"next_cursor": _make_cursor(rest[0].ts)}} if rest else {})


def _read_limit(params: Params) -> int:
    limit = params.integer("limit", 100) or 100
    if not 0 < limit <= _MOST:
        raise rules.SlackRefusal("invalid_limit")
    return limit


def _make_cursor(place: str) -> str:
    return base64.b64encode(f"next:{place}".encode()).decode()


def _read_cursor(params: Params) -> str:
    if not params.text("cursor"):
        return ""
    try:
        words = base64.b64decode(params.text("cursor")).decode()
    except ValueError:
        words = ""
    if not words.startswith("next:"):
        raise rules.SlackRefusal("invalid_cursor")
    return words.removeprefix("next:")


def store_file(
    world: SlackWorld, user_id: str, name: str, *, size: int, content: bytes = b"", mime_type: str = ""
) -> SlackFile:
    stored = SlackFile(
        id=world.new_id("F"),
        name=name,
        user_id=user_id,
        size=size,
        mime_type=mime_type or mimetypes.guess_type(name)[0] or "application/octet-stream",
        created=int(world.now()),
        content=content,
    )
    world.files[stored.id] = stored
    return stored


def _file_wire(world: SlackWorld, stored: SlackFile) -> Wire:
    address = f"{world.root()}/files-pri/{world.team_id}-{stored.id}"
    wire: Wire = {"id": stored.id, "created": stored.created, "timestamp": stored.created, "name": stored.name}
    wire |= {"title": stored.name, "mimetype": stored.mime_type, "user": stored.user_id, "size": stored.size}
    wire |= {"mode": "hosted", "is_external": False, "is_public": stored.shared, "file_access": "visible"}
    wire |= {"subtype": "slack_audio"} if stored.name.startswith("audio_message") else {}  # recorded in the app
    return {**wire, "url_private": f"{address}/{stored.name}"}


def get_upload_url(world: SlackWorld, params: Params) -> Wire:
    name, length = params.text("filename"), params.integer("length", -1)
    if not name or length <= 0:
        raise rules.SlackRefusal("invalid_arguments")
    stored = store_file(world, world.bot.id, name, size=length)
    return {"upload_url": f"{world.root()}/upload/v1/{stored.id}", "file_id": stored.id}


def complete_upload(world: SlackWorld, params: Params) -> Wire:
    """Share uploads in a channel; the answer does not say under which ts, `files.info` does."""
    items = params.data("files")
    if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
        raise rules.SlackRefusal("invalid_arguments")
    uploaded = [stored for item in items if (stored := world.files.get(str(item.get("id"))))]
    if len(uploaded) < len(items) or any(stored.shared or not stored.content for stored in uploaded):
        raise rules.SlackRefusal("file_not_found")
    channel, thread = world.writable_channel(params.text("channel_id")), _read_thread(params)
    fields = bot_fields(world, world.bot, params.text("initial_comment"))
    share_files(world, channel, uploaded, fields, thread=thread, by_bot=True)
    return {"files": [_file_wire(world, stored) for stored in uploaded]}


def share_files(
    world: SlackWorld,
    channel: WorkspaceChannel,
    shared: Sequence[SlackFile],
    fields: Wire,
    *,
    thread: str = "",
    by_bot: bool = False,
    stub: bool = False,
) -> SlackMessage:
    """Add a message with files. A `stub` says only that there is one, as in channels shared by two teams."""
    for stored in shared:
        stored.shared = True
        stored.channels.append(channel.id)
    wires = [{"id": stored.id, **_STUB} if stub else _file_wire(world, stored) for stored in shared]
    content = {**fields, "subtype": "file_share", "upload": False, "display_as_bot": False, "files": wires}
    return add(world, channel, content, thread=thread, by_bot=by_bot)


def files_info(world: SlackWorld, params: Params) -> Wire:
    stored = world.files.get(params.text("file"))
    if stored is None or not stored.content:
        raise rules.SlackRefusal("file_not_found")
    shares: Wire = {}
    for channel in (world.channels[channel_id] for channel_id in stored.channels):
        kind = "public" if channel.kind == "channel" else "private"
        for post in channel.posts.values():
            if not post.deleted and any(one["id"] == stored.id for one in post.body.get("files", ())):
                entry = {"ts": post.ts, "thread_ts": post.thread_ts} if post.thread_ts else {"ts": post.ts}
                shares.setdefault(kind, {}).setdefault(channel.id, []).append(entry)
    return {"file": {**_file_wire(world, stored), "shares": shares}, "comments": []}


METHODS: dict[str, Callable[[SlackWorld, Params], Wire]] = {
    "chat.postMessage": post_message,
    "chat.update": update,
    "chat.delete": delete,
    "reactions.add": partial(change_reaction, added=True),
    "reactions.remove": partial(change_reaction, added=False),
    "assistant.threads.setStatus": set_status,
    "auth.test": auth_test,
    "users.info": users_info,
    "users.conversations": list_own_channels,
    "conversations.info": channel_info,
    "conversations.history": history,
    "conversations.replies": replies,
    "files.getUploadURLExternal": get_upload_url,
    "files.completeUploadExternal": complete_upload,
    "files.info": files_info,
}
