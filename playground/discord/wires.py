"""How guilds, channels and members look on the wire."""

from playground.discord.world import ALL_PERMISSIONS, DM, PERMISSIONS, Channel, Guild, User, World
from playground.wire import Wire


def member_wire(guild: Guild, user: User, *, with_user: bool = True) -> Wire:
    wire: Wire = {"nick": None, "avatar": None, "roles": [], "joined_at": guild.members.get(user.id), "flags": 0}
    wire |= {"deaf": False, "mute": False, "pending": False, "premium_since": None}
    return {**wire, "user": user.wire} if with_user else wire


def channel_wire(world: World, channel: Channel) -> Wire:
    last = str(channel.last_message_id) if channel.last_message_id else None
    wire: Wire = {"id": str(channel.id), "type": channel.kind, "flags": 0, "last_message_id": last}
    if channel.kind == DM:
        return {**wire, "recipients": [world.users[channel.recipient].wire]}
    wire |= {"guild_id": str(channel.guild_id), "name": channel.name, "rate_limit_per_user": 0}
    parent = str(channel.parent_id) if channel.parent_id else None
    if not channel.is_thread:
        wire |= {"position": 0, "topic": None, "nsfw": False, "parent_id": parent}
        return {**wire, "permission_overwrites": _overwrites(channel)}
    messages = sum(not post.deleted for post in channel.posts.values())
    metadata: Wire = {"archived": channel.archived, "auto_archive_duration": 1440, "locked": channel.locked}
    metadata["archive_timestamp"] = world.stamp()
    wire |= {"parent_id": parent, "owner_id": str(channel.owner_id), "thread_metadata": metadata}
    counts = {"message_count": messages, "total_message_sent": messages, "member_count": len(channel.members)}
    if world.bot.id in channel.members:
        joined = {"id": str(channel.id), "user_id": str(world.bot.id), "join_timestamp": world.stamp(), "flags": 0}
        wire["member"] = joined
    return wire | counts


def _overwrites(channel: Channel) -> list[Wire]:
    """What is denied is denied to everyone, so that a client can work it out."""
    deny = sum(PERMISSIONS[name] for name in channel.denied)
    return [{"id": str(channel.guild_id), "type": 0, "allow": "0", "deny": str(deny)}] if deny else []


def guild_wire(world: World, guild: Guild) -> Wire:
    """As REST gives it."""
    everyone: Wire = {"id": str(guild.id), "name": "@everyone", "permissions": str(ALL_PERMISSIONS), "position": 0}
    everyone |= {"color": 0, "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None}}
    everyone |= {"hoist": False, "managed": False, "mentionable": False, "flags": 0}
    wire: Wire = {"id": str(guild.id), "name": guild.name, "owner_id": str(guild.owner_id), "roles": [everyone]}
    wire |= {"icon": None, "features": [], "emojis": [], "stickers": [], "preferred_locale": "en-US"}
    wire |= {"verification_level": 0, "default_message_notifications": 0, "explicit_content_filter": 0}
    return wire | {"afk_timeout": 300, "mfa_level": 0, "nsfw_level": 0, "premium_tier": 0, "system_channel_id": None}


def guild_create_wire(world: World, guild: Guild, *, all_members: bool, joined: bool = False) -> Wire:
    """As the gateway gives it; `joined` is a guild that is new to the bot."""
    channels = [channel for channel in world.channels.values() if channel.guild_id == guild.id]
    threads = [channel for channel in channels if channel.is_thread and not channel.archived]
    members = guild.members if all_members else [world.bot.id]
    wire = guild_wire(world, guild) | {
        "channels": [channel_wire(world, channel) for channel in channels if not channel.is_thread],
        "threads": [channel_wire(world, thread) for thread in threads],
        "members": [member_wire(guild, world.users[user]) for user in members],
        "member_count": len(guild.members),
        "joined_at": guild.members.get(world.bot.id),
        "large": False,
        "presences": [],
        "voice_states": [],
    }
    return wire if joined else wire | {"unavailable": False}
