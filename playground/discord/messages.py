"""How a message comes to be in a channel, changes and goes, whoever wrote it, and what the bot hears of it."""

import re
from collections.abc import Iterable

from playground.discord import intents
from playground.discord.wires import channel_wire, member_wire
from playground.discord.world import DM, PRIVATE_THREAD, Channel, Guild, Post, User, World
from playground.wire import Wire

_USER = re.compile(r"<@!?(\d+)>")
_ROLE = re.compile(r"<@&(\d+)>")
SUPPRESS_EMBEDS, HAS_THREAD, EPHEMERAL, LOADING, SUPPRESS_NOTIFICATIONS = 1 << 2, 1 << 5, 1 << 6, 1 << 7, 1 << 12


def compose(world: World, channel: Channel, author: User, content: str = "", **fields: object) -> Post:
    """A message with a fresh id; not yet in the channel."""
    number = world.snowflake()
    body: Wire = {"id": str(number), "channel_id": str(channel.id), "author": author.wire, "content": content}
    body |= {"timestamp": world.stamp(), "edited_timestamp": None, "tts": False, "pinned": False, "type": 0}
    body |= {"mention_everyone": False, "mentions": [], "mention_roles": [], "flags": 0}
    body |= {"attachments": [], "embeds": [], "components": [], **fields}
    return Post(id=number, channel_id=channel.id, author=author, body=body)


def mentions_of(world: World, content: str, allowed: Wire | None, replied: User | None = None) -> Wire:
    """Who is mentioned by the text or by the reply, as far as the sender lets it count."""
    found = list(dict.fromkeys(int(number) for number in _USER.findall(content)))
    users = [world.users[number] for number in found if number in world.users and _counts(allowed, "users", number)]
    pings = True if allowed is None else bool(allowed.get("replied_user"))
    if replied and pings and replied not in users:
        users.append(replied)
    everyone = allowed is None or "everyone" in (allowed.get("parse") or [])
    return {
        "mentions": [user.wire for user in users],
        "mention_roles": [number for number in _ROLE.findall(content) if _counts(allowed, "roles", int(number))],
        "mention_everyone": everyone and bool(re.search(r"@everyone|@here", content)),
    }


def _counts(allowed: Wire | None, kind: str, number: int) -> bool:
    if allowed is None or kind in (allowed.get("parse") or []):
        return True
    return str(number) in [str(one) for one in allowed.get(kind) or []]


def add(world: World, channel: Channel, post: Post) -> Post:
    """Put it into the channel and tell the bot, who hears of its own messages too."""
    channel.posts[post.id] = post
    channel.last_message_id = post.id
    if channel.is_thread and channel.archived:
        channel.archived = False
        world.dispatch("THREAD_UPDATE", channel_wire(world, channel), intents=intents.GUILDS)
    _note(world, "message", post)
    _tell(world, channel, post, "MESSAGE_CREATE")
    return post


def edit(world: World, post: Post, changes: Wire) -> None:
    channel = world.channels[post.channel_id]
    if changes.get("content", post.words) != post.words:
        post.earlier.append(post.words)
    post.body = {**post.body, **changes, "edited_timestamp": world.stamp()}
    _note(world, "edit", post)
    _tell(world, channel, post, "MESSAGE_UPDATE")


def refresh(world: World, post: Post, **fields: object) -> None:
    """A change nobody made by editing, such as a thread that began here."""
    post.body = {**post.body, **fields}
    _tell(world, world.channels[post.channel_id], post, "MESSAGE_UPDATE")


def delete(world: World, posts: Iterable[Post]) -> None:
    """Several at once are one event."""
    gone = list(posts)
    channel = world.channels[gone[0].channel_id]
    for post in gone:
        post.deleted = True
        _note(world, "delete", post)
    where = _place(channel)
    wanted = intents.DMS if channel.kind == DM else intents.GUILD_MESSAGES
    if not hears(world, channel):
        return
    if len(gone) == 1:
        world.dispatch("MESSAGE_DELETE", {"id": str(gone[0].id), **where}, intents=wanted)
    else:
        world.dispatch("MESSAGE_DELETE_BULK", {"ids": [str(post.id) for post in gone], **where}, intents=wanted)


def react(world: World, post: Post, user: User, emoji: str, *, remove: bool = False) -> None:
    """Doing it twice is no mistake, and no event."""
    channel, who = world.channels[post.channel_id], post.reactions.setdefault(emoji, [])
    if (user.id in who) != remove:
        return
    (who.remove if remove else who.append)(user.id)
    if not who:
        del post.reactions[emoji]
    world.events.note(
        "reaction", channel_id=str(channel.id), message_id=str(post.id), user_id=str(user.id), emoji=emoji, gone=remove
    )
    wanted = intents.DM_REACTIONS if channel.kind == DM else intents.GUILD_REACTIONS
    data = {"user_id": str(user.id), "message_id": str(post.id), "emoji": emoji_wire(emoji), "burst": False, "type": 0}
    data |= _place(channel)
    if not remove:
        data["message_author_id"] = str(post.author.id)
        if channel.guild_id:
            data["member"] = member_wire(world.guilds[channel.guild_id], user)
    if hears(world, channel):
        world.dispatch(f"MESSAGE_REACTION_{'REMOVE' if remove else 'ADD'}", data, intents=wanted)


def emoji_wire(emoji: str) -> Wire:
    name, _, number = emoji.partition(":")
    return {"id": number or None, "name": name}


def render(world: World, post: Post) -> Wire:
    """The message as REST gives it now, with what it replies to and the reactions."""
    wire = dict(post.body)
    if post.reactions:
        wire["reactions"] = [_reaction(world, emoji, who) for emoji, who in post.reactions.items()]
    reference = wire.get("message_reference")
    if reference and wire["type"] in (19, 21):
        replied = world.channels[int(reference["channel_id"])].post(int(reference["message_id"]))
        wire["referenced_message"] = dict(replied.body) if replied else None
    return wire


def render_seen(world: World, post: Post) -> Wire:
    """What the application may read over REST."""
    wire = render(world, post)
    return wire if world.privileged & intents.CONTENT else redact(world, wire)


def _reaction(world: World, emoji: str, who: list[int]) -> Wire:
    details = {"burst": 0, "normal": len(who)}
    counts: Wire = {"count": len(who), "count_details": details, "me": world.bot.id in who, "me_burst": False}
    return {"emoji": emoji_wire(emoji), **counts, "burst_colors": []}


def redact(world: World, wire: Wire) -> Wire:
    """Without the content intent a bot reads its own messages, direct ones and those that mention it."""
    inner = wire.get("referenced_message")
    if inner:
        wire = {**wire, "referenced_message": redact(world, inner)}
    me = str(world.bot.id)
    channel = world.channels[int(wire["channel_id"])]
    if channel.kind == DM or wire["author"]["id"] == me or any(one["id"] == me for one in wire["mentions"]):
        return wire
    return {**wire, "content": "", "embeds": [], "attachments": [], "components": []}


def hears(world: World, channel: Channel) -> bool:
    if not channel.guild_id:
        return True
    must_join = channel.kind == PRIVATE_THREAD or not world.hears_unjoined_threads
    if channel.is_thread and must_join and world.bot.id not in channel.members:
        return False
    return world.guilds[channel.guild_id].bot_in and "view" not in world.denied(channel)


def _tell(world: World, channel: Channel, post: Post, event: str) -> None:
    if post.ephemeral or not hears(world, channel):
        return
    wire = render(world, post)
    wire["channel_type"] = channel.kind
    wanted = intents.DMS
    if channel.guild_id:
        guild, wanted = world.guilds[channel.guild_id], intents.GUILD_MESSAGES
        wire["guild_id"] = str(guild.id)
        if post.author.id in guild.members:
            wire["member"] = member_wire(guild, post.author, with_user=False)
        wire["mentions"] = [_with_member(world, guild, user) for user in wire["mentions"]]
    world.dispatch(event, wire, intents=wanted, redacted=redact(world, wire))


def _with_member(world: World, guild: Guild, user: Wire) -> Wire:
    number = int(user["id"])
    if number not in guild.members:
        return user
    return {**user, "member": member_wire(guild, world.users[number], with_user=False)}


def _place(channel: Channel) -> Wire:
    where = {"channel_id": str(channel.id)}
    return {**where, "guild_id": str(channel.guild_id)} if channel.guild_id else where


def _note(world: World, kind: str, post: Post) -> None:
    by_bot = post.author is world.bot
    where = {"channel_id": str(post.channel_id), "message_id": str(post.id)}
    world.events.note(kind, **where, by_bot=by_bot, message=post.body)
