"""How a message comes, changes and goes, and what the bot's subscriptions hear of it."""

import uuid

from playground.slack.text import escape, find_mentions, make_rich_text
from playground.slack.world import SlackMessage, SlackUser, SlackWorld, WorkspaceChannel
from playground.wire import Wire, without

_SUBSCRIPTIONS = {"channel": "message.channels", "group": "message.groups", "im": "message.im", "mpim": "message.mpim"}
_COUNTS = ("reply_count", "reply_users", "reply_users_count", "latest_reply")


def person_fields(world: SlackWorld, user: SlackUser, text: str) -> Wire:
    """Return the fields that a person's client sends."""
    kept = escape(text)
    fields: Wire = {"user": user.id, "text": kept, "team": world.team_id, "client_msg_id": str(uuid.uuid4())}
    return fields | ({"blocks": make_rich_text(kept, world.new_id("B")[-5:])} if kept else {})


def bot_fields(world: SlackWorld, bot: SlackUser, text: str, blocks: list[Wire] | None = None) -> Wire:
    fields: Wire = {"user": bot.id, "text": escape(text), "team": world.team_id, "bot_id": bot.bot_id}
    fields |= {"app_id": bot.app_id, "bot_profile": bot.bot_profile}
    return fields | ({"blocks": blocks} if blocks else {})


def add(
    world: SlackWorld,
    channel: WorkspaceChannel,
    fields: Wire,
    *,
    by_bot: bool = False,
    thread: str = "",
    quiet: bool = False,
) -> SlackMessage:
    """Put a message into the channel and tell the bot unless `quiet`."""
    body: Wire = {"type": "message", "ts": world.next_ts(), **fields}
    post = SlackMessage(body=body, by_bot=by_bot)
    if thread:
        _add_to_thread(channel, post, thread)
    channel.posts[post.ts] = post
    world.events.note("message", channel=channel.id, ts=post.ts, by_bot=by_bot, message=body)
    if not quiet and world.hears(channel):
        event = {**without(body, "metadata", *_COUNTS), "channel": channel.id, "event_ts": post.ts}
        world.emit(_SUBSCRIPTIONS[channel.kind], {**event, "channel_type": channel.kind})
        _tell_mention(world, channel, post, event)
    return post


def _tell_mention(world: SlackWorld, channel: WorkspaceChannel, post: SlackMessage, event: Wire) -> None:
    is_plain = post.body.get("subtype") in (None, "file_share")
    if channel.kind != "im" and not post.by_bot and is_plain and world.bot.id in find_mentions(post.body["text"]):
        world.emit("app_mention", {**without(event, "subtype"), "type": "app_mention"})


def _add_to_thread(channel: WorkspaceChannel, post: SlackMessage, thread: str) -> None:
    """File a post under its parent; an answer to a reply goes to the reply's parent."""
    parent = channel.posts.get(thread)
    if parent and parent.is_reply:
        thread = parent.thread_ts
        parent = channel.posts.get(thread)
    post.body["thread_ts"] = thread
    channel.threads.setdefault(thread, []).append(post)
    if parent is not None:
        if author := parent.body.get("user"):
            post.body["parent_user_id"] = author
        _count_replies(channel, parent)


def _count_replies(channel: WorkspaceChannel, parent: SlackMessage) -> None:
    replies = [reply for reply in channel.threads.get(parent.ts, ()) if not reply.deleted]
    parent.body = without(parent.body, "thread_ts", "is_locked", *_COUNTS)
    if replies:
        users = list(dict.fromkeys(reply.body.get("user") or reply.body.get("bot_id", "") for reply in replies))
        parent.body |= {"thread_ts": parent.ts, "reply_count": len(replies), "reply_users": users}
        parent.body |= {"reply_users_count": len(users), "latest_reply": replies[-1].ts, "is_locked": False}


def change(world: SlackWorld, channel: WorkspaceChannel, post: SlackMessage, fields: Wire, *, by: str) -> None:
    """Edit a message; the bot hears both versions, of its own edits too, and of a mention that was added."""
    before, words = dict(post.body), post.words
    post.body = {**post.body, **fields, "edited": {"user": by, "ts": f"{int(world.now())}.000000"}}
    if post.words != words:
        post.earlier.append(words)
    post.body = {key: value for key, value in post.body.items() if value is not None}
    world.events.note("edit", channel=channel.id, ts=post.ts, by_bot=post.by_bot, message=post.body)
    _tell_changed(world, channel, post, before)
    if world.hears(channel) and world.bot.id not in find_mentions(before.get("text", "")):
        event = {**without(post.body, "metadata", *_COUNTS), "channel": channel.id, "event_ts": world.next_ts()}
        _tell_mention(world, channel, post, event)


def _tell_changed(world: SlackWorld, channel: WorkspaceChannel, post: SlackMessage, before: Wire) -> None:
    now, old = without(post.body, "metadata"), without(before, "metadata")
    _tell_hidden(world, channel, {"subtype": "message_changed", "message": now, "previous_message": old})


def _tell_hidden(world: SlackWorld, channel: WorkspaceChannel, event: Wire) -> None:
    if world.hears(channel):
        ts = world.next_ts()
        event |= {"type": "message", "channel": channel.id, "hidden": True, "ts": ts, "event_ts": ts}
        world.emit(_SUBSCRIPTIONS[channel.kind], {**event, "channel_type": channel.kind})


def remove(world: SlackWorld, channel: WorkspaceChannel, post: SlackMessage) -> None:
    """Delete a message; the parent of a thread leaves a tombstone."""
    before = dict(post.body)
    world.events.note("delete", channel=channel.id, ts=post.ts, by_bot=post.by_bot)
    if not post.is_reply and post.body.get("reply_count"):
        post.body = {key: post.body[key] for key in ("type", "ts", "thread_ts", *_COUNTS)}
        post.body |= {"subtype": "tombstone", "hidden": True, "user": "USLACKBOT", "text": "This message was deleted."}
        _tell_changed(world, channel, post, before)
        return
    post.deleted = True
    if post.is_reply and (parent := channel.posts.get(post.thread_ts)):
        _count_replies(channel, parent)
    event = {"subtype": "message_deleted", "deleted_ts": post.ts, "previous_message": before}
    _tell_hidden(world, channel, event)


def react(
    world: SlackWorld, channel: WorkspaceChannel, post: SlackMessage, user_id: str, name: str, *, added: bool
) -> bool:
    """Add or remove a reaction; return False if nothing changes."""
    marks = {mark["name"]: list(mark["users"]) for mark in post.body.get("reactions", ())}
    users = marks.setdefault(name, [])
    if (user_id in users) == added:
        return False
    users.append(user_id) if added else users.remove(user_id)
    kept = [{"name": mark, "users": by, "count": len(by)} for mark, by in marks.items() if by]
    post.body = without(post.body, "reactions") | ({"reactions": kept} if kept else {})
    kind = "reaction_added" if added else "reaction_removed"
    world.events.note(kind, channel=channel.id, ts=post.ts, user=user_id, name=name)
    if world.hears(channel):
        item = {"type": "message", "channel": channel.id, "ts": post.ts}
        event = {"type": kind, "user": user_id, "reaction": name, "item": item, "item_user": post.body.get("user", "")}
        world.emit(kind, {**event, "event_ts": world.next_ts()})
    return True


def join(world: SlackWorld, channel: WorkspaceChannel, user: SlackUser, *, inviter: str = "") -> None:
    """Add a member, with a line in the channel and an event for the bot, for itself too."""
    if user.id in channel.members:
        return
    channel.members.append(user.id)
    line: Wire = {"subtype": "channel_join" if channel.kind == "channel" else "group_join", "user": user.id}
    add(world, channel, {**line, "text": f"<@{user.id}> has joined the channel"})
    if world.hears(channel):
        extra = {"inviter": inviter} if inviter else {}
        world.emit("member_joined_channel", _member_event(world, channel, user, "member_joined_channel") | extra)


def leave(world: SlackWorld, channel: WorkspaceChannel, user: SlackUser) -> None:
    if user.id not in channel.members:
        return
    told = world.hears(channel)
    channel.members.remove(user.id)
    world.events.note("leave", channel=channel.id, user=user.id)
    if told:
        world.emit("member_left_channel", _member_event(world, channel, user, "member_left_channel"))


def _member_event(world: SlackWorld, channel: WorkspaceChannel, user: SlackUser, kind: str) -> Wire:
    event: Wire = {"type": kind, "user": user.id, "channel": channel.id, "team": world.team_id}
    return event | {"channel_type": "C" if channel.kind == "channel" else "G", "event_ts": world.next_ts()}
