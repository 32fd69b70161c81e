"""How a message comes to be, changes and goes, and what the bot's subscriptions hear of it."""

import uuid

from playground.slack.text import as_kept, mentions, rich_text
from playground.slack.world import Channel, Post, User, World
from playground.wire import Wire

_SUBSCRIPTIONS = {"channel": "message.channels", "group": "message.groups", "im": "message.im", "mpim": "message.mpim"}
_NOT_IN_EVENTS = ("metadata", "reply_count", "reply_users", "reply_users_count", "latest_reply", "subscribed")


def person_fields(world: World, user: User, text: str) -> Wire:
    """What a person's client sends."""
    kept = as_kept(text)
    fields: Wire = {"user": user.id, "text": kept, "team": world.team_id, "client_msg_id": str(uuid.uuid4())}
    return fields | ({"blocks": rich_text(kept, world.new_id("B")[-5:])} if kept else {})


def bot_fields(world: World, bot: User, text: str) -> Wire:
    fields: Wire = {"user": bot.id, "text": as_kept(text), "team": world.team_id, "bot_id": bot.bot_id}
    return fields | {"app_id": bot.app_id, "bot_profile": bot.bot_profile}


def add(
    world: World,
    channel: Channel,
    fields: Wire,
    *,
    by_bot: bool = False,
    thread: str = "",
    broadcast: bool = False,
    quiet: bool = False,
) -> Post:
    """The message stands in the channel, and the bot hears of it unless `quiet`."""
    body: Wire = {"type": "message", "ts": world.next_ts(), **fields}
    post = Post(body=body, by_bot=by_bot)
    if thread:
        _into_thread(channel, post, thread, broadcast=broadcast)
    channel.posts[post.ts] = post
    world.events.note("message", channel=channel.id, ts=post.ts, by_bot=by_bot, message=body)
    if not quiet:
        tell_message(world, channel, post)
    return post


def _into_thread(channel: Channel, post: Post, thread: str, *, broadcast: bool) -> None:
    """Under the parent; an answer to a reply goes to the reply's parent."""
    parent = channel.posts.get(thread)
    if parent and parent.is_reply:
        thread = parent.thread_ts
        parent = channel.posts.get(thread)
    post.body["thread_ts"] = thread
    if broadcast:
        post.body["subtype"] = "thread_broadcast"
    replies = channel.threads.setdefault(thread, [])
    replies.append(post)
    if parent is None:
        return
    if broadcast:
        post.body["root"] = dict(parent.body)
    if author := parent.body.get("user"):
        post.body["parent_user_id"] = author
    count_replies(channel, parent)


def count_replies(channel: Channel, parent: Post) -> None:
    replies = [reply for reply in channel.threads.get(parent.ts, ()) if not reply.deleted]
    for name in ("thread_ts", "reply_count", "reply_users", "reply_users_count", "latest_reply", "is_locked"):
        parent.body.pop(name, None)
    if replies:
        users = list(dict.fromkeys(reply.body.get("user") or reply.body.get("bot_id", "") for reply in replies))
        parent.body |= {"thread_ts": parent.ts, "reply_count": len(replies), "reply_users": users}
        parent.body |= {"reply_users_count": len(users), "latest_reply": replies[-1].ts, "is_locked": False}


def tell_message(world: World, channel: Channel, post: Post) -> None:
    """As `message`, and in channels as `app_mention` too if it mentions the bot."""
    if not world.hears(channel):
        return
    event = {key: value for key, value in post.body.items() if key not in _NOT_IN_EVENTS}
    event |= {"channel": channel.id, "event_ts": post.ts}
    world.emit(_SUBSCRIPTIONS[channel.kind], {**event, "channel_type": channel.kind})
    _tell_mention(world, channel, post, event)


def _tell_mention(world: World, channel: Channel, post: Post, event: Wire) -> None:
    if channel.kind == "im" or post.by_bot or post.body.get("subtype") not in (None, "file_share", "thread_broadcast"):
        return
    if world.bot.id in mentions(post.body.get("text", "")):
        mention = {key: value for key, value in event.items() if key not in ("subtype", "root")}
        world.emit("app_mention", {**mention, "type": "app_mention"})


def change(world: World, channel: Channel, post: Post, fields: Wire, *, by: str) -> None:
    """Edited: the bot hears both versions, of its own edits too."""
    before, words = dict(post.body), post.words
    post.body = {**post.body, **fields, "edited": {"user": by, "ts": f"{int(world.now())}.000000"}}
    if post.words != words:
        post.earlier.append(words)
    post.body = {key: value for key, value in post.body.items() if value is not None}
    world.events.note("edit", channel=channel.id, ts=post.ts, by_bot=post.by_bot, message=post.body)
    _tell_changed(world, channel, post, before)
    new_mentions = mentions(post.body.get("text", "")) - mentions(before.get("text", ""))
    if world.bot.id in new_mentions and world.hears(channel):
        event = {key: value for key, value in post.body.items() if key not in _NOT_IN_EVENTS}
        _tell_mention(world, channel, post, {**event, "channel": channel.id, "event_ts": world.next_ts()})


def _tell_changed(world: World, channel: Channel, post: Post, before: Wire) -> None:
    if not world.hears(channel):
        return
    now = {key: value for key, value in post.body.items() if key != "metadata"}
    before = {key: value for key, value in before.items() if key != "metadata"}
    event = {"type": "message", "subtype": "message_changed", "message": now, "previous_message": before}
    _tell_hidden(world, channel, event)


def _tell_hidden(world: World, channel: Channel, event: Wire) -> None:
    ts = world.next_ts()
    event |= {"channel": channel.id, "hidden": True, "ts": ts, "event_ts": ts, "channel_type": channel.kind}
    world.emit(_SUBSCRIPTIONS[channel.kind], event)


def remove(world: World, channel: Channel, post: Post) -> None:
    """Gone; the parent of a thread leaves a tombstone."""
    before = dict(post.body)
    world.events.note("delete", channel=channel.id, ts=post.ts, by_bot=post.by_bot)
    if not post.is_reply and post.body.get("reply_count"):
        kept = ("type", "ts", "thread_ts", "reply_count", "reply_users", "reply_users_count", "latest_reply")
        post.body = {key: post.body[key] for key in kept}
        post.body |= {"subtype": "tombstone", "hidden": True, "user": "USLACKBOT", "text": "This message was deleted."}
        _tell_changed(world, channel, post, before)
        return
    post.deleted = True
    if post.is_reply and (parent := channel.posts.get(post.thread_ts)):
        count_replies(channel, parent)
    if world.hears(channel):
        event = {"type": "message", "subtype": "message_deleted", "deleted_ts": post.ts, "previous_message": before}
        _tell_hidden(world, channel, event)


def react(world: World, channel: Channel, post: Post, user_id: str, name: str, *, added: bool) -> bool:
    """False if nothing changes: it was there already, or was not there."""
    marks = {mark["name"]: list(mark["users"]) for mark in post.body.get("reactions", ())}
    users = marks.setdefault(name, [])
    if (user_id in users) == added:
        return False
    users.append(user_id) if added else users.remove(user_id)
    kept = [{"name": mark, "users": by, "count": len(by)} for mark, by in marks.items() if by]
    post.body = {key: value for key, value in post.body.items() if key != "reactions"}
    if kept:
        post.body["reactions"] = kept
    kind = "reaction_added" if added else "reaction_removed"
    world.events.note(kind, channel=channel.id, ts=post.ts, user=user_id, name=name)
    if world.hears(channel):
        item = {"type": "message", "channel": channel.id, "ts": post.ts}
        event = {"type": kind, "user": user_id, "reaction": name, "item": item, "item_user": post.body.get("user", "")}
        world.emit(kind, {**event, "event_ts": world.next_ts()})
    return True


def join(world: World, channel: Channel, user: User, *, inviter: str = "") -> None:
    """A member more: a line in the channel, and `member_joined_channel` for the bot, for itself too."""
    if user.id in channel.members:
        return
    channel.members.append(user.id)
    line: Wire = {"subtype": "channel_join" if channel.kind == "channel" else "group_join", "user": user.id}
    add(world, channel, {**line, "text": f"<@{user.id}> has joined the channel"})
    if world.hears(channel):
        event: Wire = {"type": "member_joined_channel", "user": user.id, "channel": channel.id, "team": world.team_id}
        event |= {"channel_type": "C" if channel.kind == "channel" else "G", "event_ts": world.next_ts()}
        world.emit("member_joined_channel", event | ({"inviter": inviter} if inviter else {}))


def leave(world: World, channel: Channel, user: User) -> None:
    if user.id not in channel.members:
        return
    heard = world.hears(channel)
    channel.members.remove(user.id)
    world.events.note("leave", channel=channel.id, user=user.id)
    if heard:
        event: Wire = {"type": "member_left_channel", "user": user.id, "channel": channel.id, "team": world.team_id}
        event |= {"channel_type": "C" if channel.kind == "channel" else "G", "event_ts": world.next_ts()}
        world.emit("member_left_channel", event)
