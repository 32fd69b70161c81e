"""Messages and threads: how they are made, changed and deleted, and which events the bot gets."""

import re
from collections.abc import Iterable

from playground.discord import intents
from playground.discord.rules import refusal
from playground.discord.world import (
    DM,
    PUBLIC_THREAD,
    TEXT,
    DiscordChannel,
    DiscordMessage,
    DiscordUser,
    DiscordWorld,
    Guild,
    channel_wire,
    member_wire,
)
from playground.wire import Wire

_USER = re.compile(r"<@!?(\d+)>")
_ROLE = re.compile(r"<@&(\d+)>")
SUPPRESS_EMBEDS, HAS_THREAD, EPHEMERAL, SUPPRESS_NOTIFICATIONS = 1 << 2, 1 << 5, 1 << 6, 1 << 12


def compose(
    world: DiscordWorld, channel: DiscordChannel, author: DiscordUser, content: str = "", **fields: object
) -> DiscordMessage:
    """Return a message with a fresh id that is not yet in the channel."""
    number = world.snowflake()
    body: Wire = {"id": str(number), "channel_id": str(channel.id), "author": author.wire, "content": content}
    body |= {"timestamp": world.timestamp(), "edited_timestamp": None, "tts": False, "pinned": False, "type": 0}
    body |= {"mention_everyone": False, "mentions": [], "mention_roles": [], "flags": 0}
    body |= {"attachments": [], "embeds": [], "components": [], **fields}
    by_bot = author is world.bot
    return DiscordMessage(id=number, channel_id=channel.id, author=author, body=body, by_bot=by_bot)


def find_mentions(world: DiscordWorld, content: str, allowed: Wire | None, replied: DiscordUser | None = None) -> Wire:
    """Return who is mentioned by the text or by the reply, as far as the sender lets it count."""
    parse = ["users", "roles", "everyone"] if allowed is None else allowed.get("parse") or []
    named = [str(one) for one in (allowed or {}).get("users") or []]
    found = [number for number in dict.fromkeys(_USER.findall(content)) if "users" in parse or number in named]
    users = [world.users[int(number)] for number in found if int(number) in world.users]
    if replied and replied not in users and (allowed is None or allowed.get("replied_user")):
        users.append(replied)
    return {
        "mentions": [user.wire for user in users],
        "mention_roles": _ROLE.findall(content) if "roles" in parse else [],
        "mention_everyone": "everyone" in parse and bool(re.search(r"@everyone|@here", content)),
    }


def reply_fields(channel: DiscordChannel, replied: DiscordMessage) -> Wire:
    reference = {"type": 0, **_place(channel), "message_id": str(replied.id)}
    return {"type": 19, "message_reference": reference}


def add(world: DiscordWorld, channel: DiscordChannel, post: DiscordMessage) -> DiscordMessage:
    """Put a message into the channel and tell the bot, who hears of its own messages too."""
    channel.posts[post.id] = post
    channel.last_message_id = post.id
    _note(world, "message", post)
    _tell(world, channel, post, "MESSAGE_CREATE")
    return post


def edit(world: DiscordWorld, post: DiscordMessage, changes: Wire) -> None:
    if changes.get("content", post.words) != post.words:
        post.earlier.append(post.words)
    post.body = {**post.body, **changes, "edited_timestamp": world.timestamp()}
    _note(world, "edit", post)
    _tell(world, world.channels[post.channel_id], post, "MESSAGE_UPDATE")


def delete(world: DiscordWorld, posts: Iterable[DiscordMessage]) -> None:
    """Delete messages of one channel; several at once are one event."""
    gone = list(posts)
    channel = world.channels[gone[0].channel_id]
    for post in gone:
        post.deleted = True
        _note(world, "delete", post)
    where = _place(channel)
    wanted = intents.DMS if channel.kind == DM else intents.GUILD_MESSAGES
    if "view" in world.denied(channel):
        return
    if len(gone) == 1:
        world.dispatch("MESSAGE_DELETE", {"id": str(gone[0].id), **where}, intents=wanted)
    else:
        world.dispatch("MESSAGE_DELETE_BULK", {"ids": [str(post.id) for post in gone], **where}, intents=wanted)


def react(world: DiscordWorld, post: DiscordMessage, user: DiscordUser, emoji: str, *, remove: bool = False) -> None:
    """Add or remove a reaction; doing it twice is no error, and no event."""
    channel, users = world.channels[post.channel_id], post.reactions.setdefault(emoji, [])
    if (user.id in users) != remove:
        return
    (users.remove if remove else users.append)(user.id)
    if not users:
        del post.reactions[emoji]
    where = {"channel_id": str(channel.id), "message_id": str(post.id), "user_id": str(user.id)}
    world.events.note("reaction", **where, emoji=emoji, gone=remove)
    data: Wire = {**where, "emoji": {"id": None, "name": emoji}, "burst": False, "type": 0, **_place(channel)}
    if not remove:
        data["message_author_id"] = str(post.author.id)
        if channel.guild_id:
            data["member"] = member_wire(world.guilds[channel.guild_id], user)
    if "view" not in world.denied(channel):
        wanted = intents.DM_REACTIONS if channel.kind == DM else intents.GUILD_REACTIONS
        world.dispatch(f"MESSAGE_REACTION_{'REMOVE' if remove else 'ADD'}", data, intents=wanted)


def render(world: DiscordWorld, post: DiscordMessage) -> Wire:
    """Return the message as REST gives it now, with the message it replies to and the reactions."""
    wire = dict(post.body)
    if post.reactions:
        wire["reactions"] = [
            {"emoji": {"id": None, "name": emoji}, "count": len(users), "me": world.bot.id in users}
            | {"count_details": {"burst": 0, "normal": len(users)}, "me_burst": False, "burst_colors": []}
            for emoji, users in post.reactions.items()
        ]
    reference = wire.get("message_reference")
    if reference and wire["type"] in (19, 21):
        replied = world.channels[int(reference["channel_id"])].post(int(reference["message_id"]))
        wire["referenced_message"] = dict(replied.body) if replied else None
    return wire


def _tell(world: DiscordWorld, channel: DiscordChannel, post: DiscordMessage, event: str) -> None:
    if post.ephemeral or "view" in world.denied(channel):
        return
    wire = render(world, post)
    wire["channel_type"] = channel.kind
    wanted = intents.DMS
    if channel.guild_id:
        guild, wanted = world.guilds[channel.guild_id], intents.GUILD_MESSAGES
        wire["guild_id"] = str(guild.id)
        if post.author.id in guild.members:
            wire["member"] = member_wire(guild, post.author, with_user=False)
        wire["mentions"] = [_add_member(world, guild, user) for user in wire["mentions"]]
    world.dispatch(event, wire, intents=wanted)


def _add_member(world: DiscordWorld, guild: Guild, user: Wire) -> Wire:
    number = int(user["id"])
    if number not in guild.members:
        return user
    return {**user, "member": member_wire(guild, world.users[number], with_user=False)}


def _place(channel: DiscordChannel) -> Wire:
    where = {"channel_id": str(channel.id)}
    return {**where, "guild_id": str(channel.guild_id)} if channel.guild_id else where


def _note(world: DiscordWorld, kind: str, post: DiscordMessage) -> None:
    where = {"channel_id": str(post.channel_id), "message_id": str(post.id)}
    world.events.note(kind, **where, by_bot=post.by_bot, message=post.body)


def start_thread(
    world: DiscordWorld, parent: DiscordChannel, by: DiscordUser, name: str, source: DiscordMessage | None
) -> DiscordChannel:
    """Start a public thread; one that begins at a message has that message's id. Raises the server's refusal."""
    if parent.kind != TEXT:
        raise refusal(50024)
    if source and source.id in world.channels:
        raise refusal(160004)
    thread = DiscordChannel(
        id=source.id if source else world.snowflake(),
        kind=PUBLIC_THREAD,
        name=name,
        guild_id=parent.guild_id,
        parent_id=parent.id,
        owner_id=by.id,
        members={by.id},
    )
    world.channels[thread.id] = thread
    world.events.note("thread", channel_id=str(thread.id), parent_id=str(parent.id), by_bot=by is world.bot)
    created = {**channel_wire(world, thread), "newly_created": True}
    world.dispatch("THREAD_CREATE", created, intents=intents.GUILDS)
    # The channel and the new thread refer to each other.
    if source:
        flags, wire = source.body["flags"] | HAS_THREAD, channel_wire(world, thread)
        source.body = {**source.body, "flags": flags, "thread": wire}
        _tell(world, parent, source, "MESSAGE_UPDATE")
        reference = {**_place(parent), "message_id": str(source.id), "type": 0}
        add(world, thread, compose(world, thread, by, type=21, message_reference=reference))
    else:
        reference = {**_place(thread), "type": 0}
        add(world, parent, compose(world, parent, by, thread.name, type=18, message_reference=reference))
    return thread
