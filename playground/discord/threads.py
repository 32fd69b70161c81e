"""Threads: how one begins, from a message or without, and who is in it."""

from playground.discord import intents
from playground.discord.messages import HAS_THREAD, add, compose, refresh
from playground.discord.rules import refused
from playground.discord.wires import channel_wire
from playground.discord.world import PRIVATE_THREAD, PUBLIC_THREAD, TEXT, Channel, Post, User, World


def start_thread(world: World, parent: Channel, by: User, name: str, *, source: Post | None, kind: int) -> Channel:
    """A thread that begins at a message has the id of that message. Raises what the server would say."""
    if parent.kind != TEXT:
        raise refused(50024)
    if source and source.id in world.channels:
        raise refused(160004)
    thread = Channel(
        id=source.id if source else world.snowflake(),
        kind=PUBLIC_THREAD if source else kind,
        name=name,
        guild_id=parent.guild_id,
        parent_id=parent.id,
        owner_id=by.id,
        members={by.id},
    )
    world.channels[thread.id] = thread
    world.events.note("thread", channel_id=str(thread.id), parent_id=str(parent.id), by_bot=by is world.bot)
    _announce(world, thread)
    _mark(world, parent, thread, by, source)
    return thread


def _announce(world: World, thread: Channel) -> None:
    if thread.kind == PRIVATE_THREAD and world.bot.id not in thread.members:
        return
    created = {**channel_wire(world, thread), "newly_created": True}
    world.dispatch("THREAD_CREATE", created, intents=intents.GUILDS)


def _mark(world: World, parent: Channel, thread: Channel, by: User, source: Post | None) -> None:
    """What a channel and the new thread show of each other."""
    here = {"channel_id": str(parent.id), "guild_id": str(parent.guild_id)}
    if source:
        flags = source.body["flags"] | HAS_THREAD
        refresh(world, source, flags=flags, thread=channel_wire(world, thread))
        reference = {**here, "message_id": str(source.id), "type": 0}
        add(world, thread, compose(world, thread, by, type=21, message_reference=reference))
    elif thread.kind == PUBLIC_THREAD:
        reference = {"channel_id": str(thread.id), "guild_id": str(parent.guild_id), "type": 0}
        add(world, parent, compose(world, parent, by, thread.name, type=18, message_reference=reference))


def enter_thread(world: World, thread: Channel, user: User) -> None:
    if user.id in thread.members:
        return
    thread.members.add(user.id)
    member = {"id": str(thread.id), "user_id": str(user.id), "join_timestamp": world.stamp(), "flags": 0}
    if user is world.bot:
        world.dispatch("THREAD_CREATE", channel_wire(world, thread), intents=intents.GUILDS)
    change = {"id": str(thread.id), "guild_id": str(thread.guild_id), "member_count": len(thread.members)}
    world.dispatch("THREAD_MEMBERS_UPDATE", {**change, "added_members": [member]}, intents=intents.GUILDS)


def set_archived(world: World, thread: Channel, *, archived: bool, locked: bool) -> None:
    thread.archived, thread.locked = archived, locked
    world.dispatch("THREAD_UPDATE", channel_wire(world, thread), intents=intents.GUILDS)
