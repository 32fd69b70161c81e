"""What the bot can find, and where it may write at this moment."""

from playground.slack.rules import Refused
from playground.slack.world import Channel, World


def find_channel(world: World, name: str) -> Channel:
    """By id. A private channel the bot is not in does not exist for it."""
    channel = world.channels.get(name)
    if channel is None or (channel.kind != "channel" and not world.hears(channel)):
        raise Refused("channel_not_found")
    return channel


def read_channel(world: World, name: str) -> Channel:
    """One whose messages the bot may read: it must be in it."""
    channel = find_channel(world, name)
    if not world.hears(channel):
        raise Refused("not_in_channel")
    return channel


def writable_channel(world: World, name: str) -> Channel:
    """By id, by #name, or by the id of a user for the direct channel."""
    user = world.users.get(name)
    if user is not None and user.id != world.bot.id:
        if user.is_bot:
            raise Refused("cannot_dm_bot")
        return world.im_with(user.id)
    if name not in world.channels:
        plain = name.removeprefix("#")
        name = next((one.id for one in world.channels.values() if one.name == plain != ""), name)
    channel = find_channel(world, name)
    if channel.archived:
        raise Refused("is_archived")
    if not world.hears(channel) and "chat:write.public" not in world.scopes:
        raise Refused("not_in_channel")
    if channel.restricted:
        raise Refused("restricted_action")
    return channel
